"""The page of ``wstar fit``: how well the table is predicted, and the directions and curves that do it."""

from typing import Any

import numpy as np

from wstar.report import fit_figures
from wstar.report.figures import Figure
from wstar.report.numbers import MISSING, count, duration, number, percent, plural
from wstar.report.reading import FinishedRun

_MOST_DIRECTIONS = 8
_MOST_BARS = 8
# of what the directions do; less is not worth a figure
_LEAST_IMPORTANCE = 0.01

Page = dict[str, Any]


def fit_page(run: FinishedRun) -> Page:
    """Everything that the template ``fit.html`` shows; KeyError or TypeError where the result is not whole."""
    result = run.result
    directions, linear = result["directions"], result["linear"]
    shown = [one for one in directions[:_MOST_DIRECTIONS] if one["importance"] >= _LEAST_IMPORTANCE]
    return {
        "headline": headline(result["scores"], result["n_test"]),
        "lead": _lead(result),
        "eyebrow": f"{result['table']} · {result['target']}",
        "notices": [_sentence(caution) for caution in result["cautions"]],
        "facts": _facts(result),
        "target": result["target"],
        "directions": [_direction(k, one, result) for k, one in enumerate(shown, 1)],
        "rest": _rest(directions[len(shown) :]),
        "points": _points_caption(shown),
        "bands": bool(shown) and "low" in shown[0]["curve"],
        "resamples": count(result["resamples"]),
        "linear": _bars(linear["weights"], linear["standardised"], result["columns"], 2 * _MOST_BARS),
        "linear_rest": _hidden(linear["standardised"], 2 * _MOST_BARS, "of it"),
        "intercept": number(linear["intercept"]),
        "scores": _score_table(result["scores"], result["n_test"]),
        "certain": _certain(result["scores"]["certainty"]),
        "summary": result["summary"],
        "support": _support(result["support"]),
        "certificate": _certificate(result["certificate"]),
        "path": _path_table(result["path"]),
        "gaussian": result["diagnosis"]["applies"],
        "diagnosis": result["diagnosis"]["sentences"],
        "moments": [_moments(k, one) for k, one in enumerate(result["diagnosis"]["projections"][:_MOST_DIRECTIONS], 1)],
        "preprocessing": result["preprocessing"],
        "figures": _figures(result, shown),
    }


def headline(scores: dict[str, Any], n_test: int) -> str:
    """One sentence: R² on unseen rows, beside ridge regression."""
    if not scores["model"]["test"]:
        score = scores["model"]["train"]["r2"]
        return f"R² {_r2(score, 2)} on the rows it was fitted to; none were held back"
    score, ridge = scores["model"]["test"]["r2"], scores["ridge"]["test"]["r2"]
    rows = plural(n_test, "unseen row")
    if score is None or ridge is None:
        return f"A fit scored on {rows} that do not vary"
    said, rival = f"R² {_r2(score, 2)} on {rows}", _r2(ridge, 2)
    if _r2(score, 2) == rival:
        return f"{said}, as much as ridge regression"
    return (
        f"{said}, where ridge regression reaches {rival}"
        if score > ridge
        else f"{said}, below ridge regression’s {rival}"
    )


def _lead(result: dict[str, Any]) -> str:
    target, directions = result["target"], result["directions"]
    if not directions:
        return (
            f"No direction was found beyond the linear part: the model predicts {target} by a weighted sum of its "
            f"{plural(len(result['columns']), 'column')}."
        )
    first, said = directions[0], f"The model predicts {target} by a linear part and"
    through = f"through {plural(len(result['columns']), 'column')}"
    if len(directions) == 1:
        return f"{said} one direction {through}, {first['made_of']}: along it, {target} {first['shape']}."
    return (
        f"{said} {plural(len(directions), 'direction')} {through}. The most important, {first['made_of']}, carries "
        f"{percent(first['importance'])} of what the directions do: along it, {target} {first['shape']}."
    )


def _facts(result: dict[str, Any]) -> list[tuple[str, str]]:
    rows = "test" if result["scores"]["model"]["test"] else "train"
    model, ridge = result["scores"]["model"][rows], result["scores"]["ridge"][rows]
    where = "unseen rows" if rows == "test" else "the rows it was fitted to"
    certain = result["scores"]["certainty"]
    limits = f"{_r2(certain['r2_low'], 2)} to {_r2(certain['r2_high'], 2)}" if certain else MISSING
    return [
        (_r2(model["r2"]), f"R² on {where}"),
        (limits, "nine tenths of resamples of these rows"),
        (_r2(ridge["r2"]), "R² of ridge regression on them"),
        (number(model["mae"]), f"missed on average (ridge {number(ridge['mae'])}, SD {number(result['target_sd'])})"),
        (count(result["n_train"]), f"rows to fit, {count(result['n_test'])} held back"),
        (duration(result["seconds"]["total"]), "in all"),
    ]


def _direction(k: int, direction: dict[str, Any], result: dict[str, Any]) -> dict[str, Any]:
    text = (
        f"Along it, {result['target']} {direction['shape']}; over the middle nine tenths of the rows that is a range "
        f"of {number(direction['swing'])}."
    )
    if direction["n_neurons"] > 1:
        text += f" {direction['n_neurons']} bends of nearly this direction are drawn as one."
    steady = direction.get("stability")
    if steady:
        text += (
            f" On resampled rows it keeps a correlation of {number(steady['median'], 2)} with itself (median; nine in "
            f"ten are above {number(steady['low'], 2)})."
        )
    return {
        "k": k,
        "importance": percent(direction["importance"]),
        "named": direction["made_of"],
        "text": text,
        "bars": _bars(direction["weights"], direction["standardised"], result["columns"], _MOST_BARS),
        "rest": _hidden(direction["standardised"], _MOST_BARS, "of its squared length"),
    }


def _bars(weights: list[float], standardised: list[float], columns: list[str], most: int) -> list[dict[str, Any]]:
    """Columns by weight per standard deviation, as lengths of bars (per cent of half the width) and numbers."""
    sizes = np.abs(np.asarray(standardised, dtype=float))
    longest = float(sizes.max(initial=0.0))
    return [
        {
            "name": columns[k],
            "width": f"{50.0 * sizes[k] / longest:.1f}",
            "sign": "positive" if standardised[k] >= 0.0 else "negative",
            "standardised": number(standardised[k], 2),
            "weight": number(weights[k], 2),
        }
        for k in _heaviest(standardised)[:most]
        if sizes[k] > 0.0
    ]


def _hidden(standardised: list[float], most: int, of_what: str) -> str:
    hidden = _heaviest(standardised)[most:]
    squares = np.square(np.asarray(standardised, dtype=float))
    if not hidden or squares.sum() == 0.0:
        return ""
    share = percent(float(squares[hidden].sum() / squares.sum()))
    return f"The other {plural(len(hidden), 'column')} hold {share} {of_what}."


def _rest(directions: list[dict[str, Any]]) -> str:
    if not directions:
        return ""
    share = sum(direction["importance"] for direction in directions)
    further = plural(len(directions), "further direction")
    return f"{further}, with {percent(share)} together, not drawn; all are in result.json."


def _points_caption(directions: list[dict[str, Any]]) -> str:
    n = max((len(direction["points"]["t"]) for direction in directions), default=0)
    return "Dots: some of the rows." if n > 600 else "Dots: the rows."


def _heaviest(weights: list[float]) -> list[int]:
    return [int(k) for k in np.argsort(-np.abs(np.asarray(weights, dtype=float)), kind="stable")]


def _r2(score: float | None, decimals: int = 3) -> str:
    """To so many decimals: what is small is small."""
    return MISSING if score is None else f"{round(score, decimals) + 0.0:.{decimals}f}".replace("-", "−")


def _score_table(scores: dict[str, Any], n_test: int) -> list[list[str]]:
    names = {"model": "this fit", "ridge": "ridge regression", "mean": "the mean"}
    rows = []
    for key, name in names.items():
        train, test = scores[key]["train"], scores[key]["test"]
        unseen = [_r2(test["r2"]), number(test["rmse"]), number(test["mae"])] if test and n_test else [MISSING] * 3
        rows.append([name, _r2(train["r2"]), *unseen])
    return rows


def _certain(certain: dict[str, Any] | None) -> str:
    if certain is None:
        return ""
    return (
        f"On {percent(certain['better_than_ridge'])} of resamples of the unseen rows this fit is ahead of ridge "
        f"regression; nine tenths of them give it an R² between {_r2(certain['r2_low'], 2)} and "
        f"{_r2(certain['r2_high'], 2)}."
    )


def _support(support: dict[str, Any]) -> str:
    if not support["neurons"]:
        return f"The rows support no bend with confidence: {support['rule']}."
    bends = plural(support["neurons"], "bend")
    return f"The rows support {bends} in {plural(support['directions'], 'direction')}: {support['rule']}."


def _certificate(certificate: dict[str, Any] | None) -> str:
    if certificate is None:
        return ""
    return (
        f"At λ = {number(certificate['weight_decay'])} its objective is {number(certificate['objective'])}; no network "
        f"of any width is lower by more than {number(certificate['gap'], 2)}, and no one further neuron lowers it by "
        f"more than {number(certificate['neuron_gain'], 2)}, as far as a search over directions saw "
        f"(sup |η| = {number(certificate['sup'])}, 1 at the optimum)."
    )


def _path_table(path: list[dict[str, Any]]) -> list[list[str]]:
    rows = []
    for row in path:
        kind = "linear part alone" if row["weight_decay"] is None else "refitted" if row["refitted"] else "penalised"
        score = None if row["cv_error"] is None else 1.0 - row["cv_error"]
        cells = [kind, number(row["weight_decay"]), count(row["n_neurons"]), _r2(score)]
        rows.append([*cells, number(row["cv_standard_error"], 2), "chosen" if row["chosen"] else ""])
    return rows


def _moments(k: int, moments: dict[str, float]) -> list[str]:
    return [str(k), number(moments["skewness"], 2), number(moments["excess_kurtosis"], 2)]


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def _figures(result: dict[str, Any], shown: list[dict[str, Any]]) -> dict[str, Figure]:
    target, reach = result["target"], fit_figures.common_range(shown)
    drawn = {f"ridge-{k}": fit_figures.ridge(one, target, reach) for k, one in enumerate(shown, 1)}
    drawn["predictions"] = fit_figures.predicted_against_observed(result["predictions"], target)
    drawn["residuals"] = fit_figures.residuals(result["predictions"], target)
    if len(result["path"]) > 1:
        drawn["path-error"] = fit_figures.path_error(result["path"])
        drawn["path-neurons"] = fit_figures.path_neurons(result["path"])
    return drawn
