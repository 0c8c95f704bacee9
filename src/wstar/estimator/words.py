"""A fit in words."""

import numpy as np

from wstar.estimator.network import Neurons

_MOST_COLUMNS, _MOST_NEURONS = 4, 8


def describe(
    neurons: Neurons,
    importances: np.ndarray,
    linear: np.ndarray,
    mean: np.ndarray,
    scale: np.ndarray,
    names: list[str],
    remarks: list[str],
    stability: np.ndarray | None,
) -> str:
    """Sentences on the linear part and each neuron; columns by their weight in standard deviations."""
    lines = []
    slopes = linear * scale
    if np.abs(slopes).max(initial=0.0) > 0.0:
        lines.append(f"Linear part, for one standard deviation of a column: {_terms(slopes, names)}.")
    else:
        lines.append("No linear part.")
    if len(neurons.masses):
        lines.append("Columns below are centred and scaled to one standard deviation.")
    else:
        lines.append("No direction beyond it: the fit is linear.")
    shares = importances / importances.sum() if importances.sum() > 0.0 else importances
    for i in range(min(len(neurons.masses), _MOST_NEURONS)):
        rows = neurons.directions[i] * scale
        sign = np.sign(rows[np.abs(rows).argmax()]) if not neurons.relu else 1.0
        threshold = sign * (neurons.thresholds[i] + neurons.directions[i] @ mean)
        steady = "" if stability is None or np.isnan(stability[i]) else f", |cos| over the folds {stability[i]:.3f}"
        lines.append(
            f"{i + 1}. {neurons.masses[i]:+.4g} · {'max(t, 0)' if neurons.relu else '|t|'} with t = "
            f"{_terms(sign * rows, names)} {'+' if threshold >= 0 else '−'} {abs(threshold):.3g}: "
            f"{100 * shares[i]:.0f} % of the bends{steady}."
        )
    if len(neurons.masses) > _MOST_NEURONS:
        lines.append(f"{len(neurons.masses) - _MOST_NEURONS} more neurons, each of less weight.")
    return "\n".join([*lines, *remarks])


def _terms(weights: np.ndarray, names: list[str]) -> str:
    order = np.argsort(-np.abs(weights), kind="stable")
    shown = [i for i in order[:_MOST_COLUMNS] if abs(weights[i]) > 0.05 * abs(weights[order[0]])]
    text = " ".join(f"{'+' if weights[i] >= 0 else '−'} {abs(weights[i]):.3g} {names[i]}" for i in shown)
    rest = int(np.count_nonzero(np.abs(weights) > 1e-12 * abs(weights[order[0]]))) - len(shown)
    return (text.removeprefix("+ ")) + (f" and {rest} smaller terms" if rest > 0 else "")
