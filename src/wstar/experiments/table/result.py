"""The contents of result.json of a fit, from what was learnt."""

from dataclasses import asdict
from typing import Any

import numpy as np
from jaxtyping import Float

from wstar.experiments.config import FitConfig
from wstar.experiments.table.diagnosis import diagnose
from wstar.experiments.table.ridge import ridge_functions
from wstar.experiments.table.scores import certainty, ridge_and_mean, score
from wstar.experiments.table.training import Fitted, Prepared
from wstar.experiments.table.words import made_of, shape, summarise

SUPPORT_RULE = "least Bayesian information criterion among ridge regression and the refits without penalty"
_MOST_PREDICTIONS = 2000
_MIDDLE = 0.9


def describe(config: FitConfig, prepared: Prepared, fitted: Fitted) -> dict[str, Any]:
    """Everything that the page, the terminal and a reader of the file are told.

    Weights are per unit of a column, ``standardised`` ones per standard deviation; ``linear`` is beside directions
    that may be hinges (see :func:`ridge_functions`), the network itself is in network.npz.
    """
    columns, regressor = prepared.encoding.columns, fitted.regressor
    X, y = prepared.X_train, prepared.y_train
    directions, linear = ridge_functions(fitted.model, X - fitted.centre, y, fitted.resamples, shrunk=fitted.shrunk)
    spread = X.std(axis=0)
    for one in directions:
        _add_words(one, X - fitted.centre, spread, columns)
    result = {
        "table": prepared.table.name,
        "target": prepared.table.target,
        "columns": columns,
        "column_mean": fitted.centre.tolist(),
        "column_sd": spread.tolist(),
        "preprocessing": list(prepared.notes),
        "cautions": list(prepared.cautions),
        "n_train": len(y),
        "n_test": len(prepared.y_test),
        "target_sd": float(y.std()),
        "scores": _scores(config, prepared, fitted),
        "directions": directions,
        "linear": linear | {"standardised": (np.array(linear["weights"]) * spread).tolist()},
        "predictions": _predictions(prepared, fitted),
        "path": _path(fitted),
        "support": {
            "neurons": regressor.n_supported_neurons_,
            "directions": regressor.n_supported_directions_,
            "rule": SUPPORT_RULE,
        },
        "certificate": asdict(fitted.certificate) if fitted.certificate else None,
        "diagnosis": diagnose(
            X, y, columns, np.array([one["weights"] for one in directions]).reshape(-1, len(columns))
        ),
        "resamples": config.resamples,
    }
    return result | {"summary": summarise(result)}


def _add_words(
    one: dict[str, Any], centred: Float[np.ndarray, "n d"], spread: Float[np.ndarray, " d"], columns: list[str]
) -> None:
    weights = np.array(one["weights"])
    t, value = (np.array(one["curve"][name]) for name in ("t", "value"))
    low, high = np.quantile(centred @ weights, [0.5 - 0.5 * _MIDDLE, 0.5 + 0.5 * _MIDDLE])
    inside = np.union1d(t[(t > low) & (t < high)], [low, high])
    middle = np.interp(inside, t, value)
    one["standardised"] = (weights * spread).tolist()
    one["made_of"] = made_of(weights * spread, columns)
    one["shape"] = shape(inside, middle)
    one["swing"] = float(np.ptp(middle))
    one["middle"] = [float(low), float(high)]


def _scores(config: FitConfig, prepared: Prepared, fitted: Fitted) -> dict[str, Any]:
    X, y, X_new, y_new = prepared.X_train, prepared.y_train, prepared.X_test, prepared.y_test
    both = np.vstack([X, X_new])
    centre = fitted.centre
    ridge, mean = ridge_and_mean(X, y, both, (fitted.model.low + centre, fitted.model.high + centre))
    model, n = fitted.predict(both), len(y)
    rivals = {"model": model, "ridge": ridge, "mean": mean}
    regressor = fitted.regressor
    chosen = _chosen(fitted)
    return {
        name: {"train": score(y, values[:n]), "test": score(y_new, values[n:])} for name, values in rivals.items()
    } | {
        "cross_validated_r2": 1.0 - float(regressor.cv_errors_[chosen]),
        "certainty": certainty(y_new, model[n:], ridge[n:], config.seed),
    }


def _chosen(fitted: Fitted) -> int:
    """Which point of the path was taken."""
    regressor = fitted.regressor
    same = (regressor.weight_decays_ == regressor.weight_decay_) & (regressor.refits_ == regressor.refitted_)
    return int(np.flatnonzero(same)[0])


def _path(fitted: Fitted) -> list[dict[str, Any]]:
    """Every point that was tried: held-out error over the labels' variance, its standard error, neurons."""
    regressor, chosen = fitted.regressor, _chosen(fitted)
    columns = (
        regressor.weight_decays_,
        regressor.refits_,
        regressor.cv_errors_,
        regressor.cv_standard_errors_,
        regressor.n_neurons_,
    )
    return [
        {
            "weight_decay": float(decay),
            "refitted": bool(refitted),
            "cv_error": float(error),
            "cv_standard_error": float(deviation),
            "n_neurons": int(neurons),
            "chosen": place == chosen,
        }
        for place, (decay, refitted, error, deviation, neurons) in enumerate(zip(*columns, strict=True))
    ]


def _predictions(prepared: Prepared, fitted: Fitted) -> dict[str, list[Any]]:
    """Row of the file, observed and predicted, whether held back: at most 2,000 of the rows of each kind."""
    found: dict[str, list[Any]] = {"row": [], "observed": [], "predicted": [], "unseen": []}
    parts = (
        (prepared.train, prepared.X_train, prepared.y_train, False),
        (prepared.test, prepared.X_test, prepared.y_test, True),
    )
    for rows, X, y, unseen in parts:
        shown = np.unique(np.linspace(0, len(y) - 1, min(len(y), _MOST_PREDICTIONS)).astype(int))
        found["row"] += prepared.table.rows[rows[shown]].tolist()
        found["observed"] += y[shown].tolist()
        found["predicted"] += fitted.predict(X[shown]).tolist()
        found["unseen"] += [unseen] * len(shown)
    return found
