"""What follows from the parts of the reproduction of ZG: fitted powers, shares of successes, what is needed."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.stats import binomtest

from wstar.experiments.papers import zg_training
from wstar.experiments.papers.parts import Part
from wstar.theory.claims.verdict import fit_exponent

# a first step from samples has found the span when it is so near to it, rad
SPAN_FOUND = np.pi / 8.0
# excess losses for which the neurons needed are told
EPSILONS = (1e-2, 1e-4, 1e-6, 1e-7)


def with_shares(part: Part) -> Part:
    """The part with the share of recoveries beside every list of outcomes."""
    found = dict(part)
    if "cells" in part:
        found["cells"] = [cell | {"share": share(cell["recovered"])} for cell in part["cells"]]
    if "recovered" in part:
        found["share"] = share(part["recovered"])
    return found | {"optimum_share": share(part["optimum"])}


def share(outcomes: Sequence[bool]) -> dict[str, Any]:
    """A share of successes with its 95 % interval (Clopper–Pearson)."""
    found, total = int(np.sum(outcomes)), len(outcomes)
    interval = binomtest(found, total).proportion_ci(0.95, "exact")
    return {"found": found, "total": total, "share": found / total, "interval": [interval.low, interval.high]}


def fitted(x: Sequence[float], y: Sequence[float]) -> dict[str, Any] | None:
    """A power law with its interval over the pairs that are positive and finite; None where they are too few."""
    pairs = [(a, b) for a, b in zip(x, y, strict=True) if a and b and a > 0.0 and b > 0.0 and np.isfinite(a * b)]
    if len({a for a, _ in pairs}) < 4:
        return None
    fit = fit_exponent([a for a, _ in pairs], [b for _, b in pairs])
    return {"exponent": fit.exponent, "constant": fit.constant, "interval": list(fit.interval), "points": len(pairs)}


def fitted_within(groups: Sequence[Sequence[tuple[float, float]]]) -> dict[str, Any] | None:
    """One power law for several runs, each with a constant of its own; the constant told is their geometric mean.

    Teachers differ in their constants and in their λ, which a fit over all points at once would take for a power.
    """
    kept = [np.log([pair for pair in group if min(pair) > 0.0 and np.isfinite(pair).all()]) for group in groups]
    kept = [group for group in kept if len(group) >= 2]
    if not kept:
        return None
    middle = np.mean(np.concatenate(kept), axis=0)
    x, y = np.exp(np.concatenate([group - group.mean(axis=0) + middle for group in kept])).T
    return fitted(x.tolist(), y.tolist())


def theorem_two_fits(runs: list[Part]) -> dict[str, Any]:
    """Powers within the runs that recovered their teacher; ``rates`` are those of ζ within epochs."""
    kept = [run for run in runs if run["recovered"]]

    def against_decay(key: str) -> dict[str, Any] | None:
        return fitted_within([[(row["weight_decay"], row[key] or 0.0) for row in run["epochs"]] for run in kept])

    times = [np.cumsum([row["n_steps"] * row["learning_rate"] for row in run["epochs"]]) for run in kept]
    to_loss = [
        [(1.0 / row["loss"], float(t)) for row, t in zip(run["epochs"], total, strict=True) if row["loss"] > 0.0]
        for run, total in zip(kept, times, strict=True)
    ]
    of_epochs = [
        [(row["weight_decay"], row["n_steps"] * row["learning_rate"]) for row in run["epochs"]] for run in kept
    ]
    rates = [
        {"seed": run["seed"], "weight_decay": row["weight_decay"], "rate": found[0], "geometric": found[1]}
        for run in kept
        for k, row in enumerate(run["epochs"])
        if (found := zg_training.late_rate(run["curve"], k)) is not None
    ]
    seen = [[(rate["weight_decay"], rate["rate"]) for rate in rates if rate["seed"] == run["seed"]] for run in kept]
    return {
        "loss": against_decay("loss"),
        "angle": against_decay("largest_heavy_angle"),
        "zeta": against_decay("zeta"),
        "time": fitted_within(to_loss),
        "epoch_time": fitted_within(of_epochs),
        "rate": fitted_within(seen),
        "rates": rates,
        "lemma6_constant": min((run["lemma6_constant"] for run in kept if run["lemma6_constant"]), default=None),
    }


def gap_within_epochs(runs: list[Part]) -> dict[str, Any] | None:
    """ζ against the time since each epoch began, in the recovered run of median length, beside what Lemma 6 gives."""
    kept = sorted(
        (run for run in runs if run["recovered"] and run["lemma6_constant"]), key=lambda run: run["curve"]["time"][-1]
    )
    if not kept:
        return None
    run = kept[len(kept) // 2]
    curve = {name: np.array(values, dtype=float) for name, values in run["curve"].items()}
    epochs = []
    for k, row in enumerate(run["epochs"]):
        at = (curve["epoch"] == k) & (curve["zeta"] > zg_training.KNOWN * curve["zeta_error"])
        if at.sum() < 3:
            continue
        began = sum(e["n_steps"] * e["learning_rate"] for e in run["epochs"][:k])
        time, zeta = curve["time"][at] - began, curve["zeta"][at]
        proved = zg_training.proved_gap(zeta[0], row["weight_decay"], run["lemma6_constant"], time - time[0])
        epochs.append(
            {
                "weight_decay": row["weight_decay"],
                "time": time.tolist(),
                "zeta": zeta.tolist(),
                "proved": proved.tolist(),
            }
        )
    return {"seed": run["seed"], "constant": run["lemma6_constant"], "epochs": epochs}


def net_fits(part: Part) -> dict[str, Any]:
    """Powers of the median angles in the number of directions."""
    n = [row["directions"] for row in part["rows"]]
    kinds = ("teacher", "cover", "uniform_teacher", "uniform_cover")
    return {kind: fitted(n, [float(np.median(row[kind])) for row in part["rows"]]) for kind in kinds}


def collapse(samples: list[Part]) -> dict[str, Any]:
    """At how many samples half of the data sets give an angle of at most π/8, for each d, and its power in d.

    By single neurons and by the span of all of them. Curves collapse in N/d² where the power is 2; ``half`` is
    interpolated in log N.
    """
    found: dict[str, Any] = {}
    for kind in ("neuron", "span"):
        halves = []
        for part in samples:
            shares = [float(np.mean(np.array(row[kind]) <= SPAN_FOUND)) for row in part["rows"]]
            halves.append({"dim": part["dim"], "half": _crossing([row["samples"] for row in part["rows"]], shares)})
        reached = [half for half in halves if half["half"] is not None]
        fit = fitted([half["dim"] for half in reached], [half["half"] for half in reached])
        found[kind] = {"halves": halves, "fit": fit}
    return found


def learnt_summary(parts: list[Part]) -> dict[str, Any]:
    """Shares of whole runs from samples that recover, and the N at which half of them do, with its power in d."""
    dims = [part | {"rows": [row | {"share": share(row["recovered"])} for row in part["rows"]]} for part in parts]
    halves = [
        {
            "dim": part["dim"],
            "half": _crossing(
                [row["samples"] for row in part["rows"]], [row["share"]["share"] for row in part["rows"]]
            ),
        }
        for part in dims
    ]
    reached = [half for half in halves if half["half"] is not None]
    fit = fitted([half["dim"] for half in reached], [half["half"] for half in reached])
    return {"dims": dims, "halves": halves, "fit": fit}


def _crossing(counts: list[int], shares: list[float]) -> float | None:
    """Where a share that grows with N passes ½ for the last time."""
    below = [k for k, value in enumerate(shares) if value < 0.5]
    if not below or below[-1] + 1 == len(shares):
        return None
    k = below[-1]
    part = (0.5 - shares[k]) / (shares[k + 1] - shares[k])
    return float(np.exp(np.log(counts[k]) + part * np.log(counts[k + 1] / counts[k])))


def frozen_summary(part: Part) -> dict[str, Any]:
    """Powers of the frozen losses, and the neurons that each way needs for given losses in the median."""
    n = [row["width"] for row in part["rows"]]
    medians = {
        kind: [float(np.median([v if v is not None else np.inf for v in row[kind]])) for row in part["rows"]]
        for kind in ("one step", "random in the span", "random", "trained", "trained before")
    }
    fits = {}
    for kind in ("one step", "random in the span", "random"):
        # at few neurons the power has not set in, at 1e-13 rounding has
        kept = [(a, b) for a, b in zip(n, medians[kind], strict=True) if 1e-13 < b < 0.3 * medians[kind][0]]
        fits[kind] = fitted([a for a, _ in kept], [b for _, b in kept])
    needed = {
        kind: [next((a for a, b in zip(n, values, strict=True) if b <= epsilon), None) for epsilon in EPSILONS]
        for kind, values in medians.items()
    }
    return {"medians": medians, "fits": fits, "needed": needed, "epsilons": list(EPSILONS)}
