"""What a claim is, what a verdict on it is, and how numbers become one."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

HOLDS = "holds"
CORRECTED = "holds as corrected"
FAILS = "fails"
UNDECIDED = "not decidable here"

# a fitted exponent with a wider interval than this decides nothing
_WIDEST = 0.75
# of the instances of an inequality, so many are kept for the plot
_MOST_RATIOS = 200

Kind = Literal["identity", "inequality", "rate", "set", "picture"]


@dataclass(frozen=True)
class Effort:
    """How much a check may spend, and whether it is given a broken input that it must reject.

    ``broken`` replaces the object the statement is about by one for which it is false (each check says which); a
    check that still says "holds" then is worth nothing.
    """

    quick: bool = True
    broken: bool = False
    seed: int = 0

    def size(self, quick: int, full: int) -> int:
        """One of two sizes."""
        return quick if self.quick else full


@dataclass(frozen=True)
class Verdict:
    """The answer of one check, computed from numbers of this run.

    Attributes:
        claim: identifier, e.g. "ZG Lemma F.5".
        paper: "ZG" or "LMZ".
        statement: what is claimed, in our words.
        kind: identity, inequality, rate, set or picture.
        verdict: "holds", "holds as corrected", "fails" or "not decidable here".
        measured: the number that decides (worst error, worst margin, fitted exponent).
        bound: what it is compared with.
        interval: of the measured number, where it is a fit.
        note: one sentence on what was seen, or the correction, or why it can't be decided.
        data: series for the plot, plain lists.
    """

    claim: str
    paper: str
    statement: str
    kind: Kind
    verdict: str
    measured: float
    bound: float
    interval: tuple[float, float] | None = None
    note: str = ""
    data: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Claim:
    """A statement with its check; ``check(effort)`` computes the verdict.

    Claims that name the same ``shares`` use the same costly instances: one process should check them all.
    """

    claim: str
    paper: str
    statement: str
    kind: Kind
    check: Callable[["Claim", Effort], Verdict]
    shares: str = ""

    def __call__(self, effort: Effort) -> Verdict:
        """Run the check."""
        return self.check(self, effort)

    def verdict(
        self,
        verdict: str,
        measured: float,
        bound: float,
        note: str = "",
        *,
        interval: tuple[float, float] | None = None,
        data: dict[str, Any] | None = None,
    ) -> Verdict:
        """A verdict on this claim."""
        return Verdict(
            self.claim,
            self.paper,
            self.statement,
            self.kind,
            verdict,
            float(measured),
            float(bound),
            interval,
            note,
            data or {},
        )

    def identity(
        self, worst_error: float, tolerance: float, note: str = "", *, corrected: bool = False, **data: Any
    ) -> Verdict:
        """Holds when the worst error is within ``tolerance`` (stated with its reason in ``note``)."""
        good = np.isfinite(worst_error) and worst_error <= tolerance
        return self.verdict(
            (CORRECTED if corrected else HOLDS) if good else FAILS, worst_error, tolerance, note, data=data
        )

    def inequality(self, ratios: ArrayLike, note: str = "", *, corrected: bool = False, **data: Any) -> Verdict:
        """``ratios = left / right`` of every instance: holds when all are at most 1; measured is the largest."""
        values = np.ravel(np.asarray(ratios, dtype=float))
        worst = float(np.max(values))
        good = np.isfinite(worst) and worst <= 1.0
        kept = np.sort(values)[np.unique(np.linspace(0, len(values) - 1, _MOST_RATIOS).round().astype(int))]
        return self.verdict(
            (CORRECTED if corrected else HOLDS) if good else FAILS,
            worst,
            1.0,
            note,
            data={"ratios": kept.tolist(), **data},
        )

    def rate(
        self,
        x: ArrayLike,
        y: ArrayLike,
        exponent: float,
        *,
        side: Literal["equal", "at most", "at least"],
        slack: float = 0.1,
        note: str = "",
        corrected: bool = False,
        axes: tuple[str, str] = ("x", "y"),
    ) -> Verdict:
        """Fit ``y ∝ x^p``; "at most" holds when the interval of p reaches down to the paper's exponent (within slack).

        For an upper bound ``y = O(x^p)`` as x → 0 the seen exponent must be at *least* p, and so on; ``side`` says
        which. Undecided below 1.5 decades of x, and where the interval is wider than 0.75 and lies on neither side.
        ``axes`` are the names of x and y on the plot.
        """
        fit = fit_exponent(x, y)
        data = {
            "x": np.asarray(x, dtype=float).tolist(),
            "y": np.asarray(y, dtype=float).tolist(),
            "exponent": fit.exponent,
            "constant": fit.constant,
            "claimed": exponent,
            "axes": list(axes),
        }
        if fit.decades < 1.5:
            return self.verdict(
                UNDECIDED,
                fit.exponent,
                exponent,
                f"only {fit.decades:.1f} decades of data. {note}",
                interval=fit.interval,
                data=data,
            )
        low, high = fit.interval
        # all of a wide interval on one side of a one-sided bound still decides
        clear = {
            "equal": False,
            "at most": high <= exponent or low - slack > exponent,
            "at least": low >= exponent or high + slack < exponent,
        }[side]
        if high - low > _WIDEST and not clear:
            return self.verdict(
                UNDECIDED,
                fit.exponent,
                exponent,
                f"the data scatter too much. {note}",
                interval=fit.interval,
                data=data,
            )
        good = {
            "equal": low - slack <= exponent <= high + slack,
            "at most": low - slack <= exponent,
            "at least": high + slack >= exponent,
        }[side]
        return self.verdict(
            (CORRECTED if corrected else HOLDS) if good else FAILS,
            fit.exponent,
            exponent,
            note,
            interval=fit.interval,
            data=data,
        )


def worst(verdicts: Sequence[Verdict]) -> Verdict:
    """The verdict on several parts of one statement: a failing part first, then an undecided one, then the tightest."""
    order = {FAILS: 0, UNDECIDED: 1, CORRECTED: 2, HOLDS: 3}
    return min(verdicts, key=lambda v: (order[v.verdict], abs(v.measured - v.bound) / max(abs(v.bound), 1e-300)))


def printed_or_corrected(printed: Verdict, corrected: Verdict) -> Verdict:
    """The printed form where it holds; where it does not, the corrected form, "holds as corrected" if that holds."""
    if printed.verdict == HOLDS:
        return printed
    seen = f"as printed: {printed.measured:.3g} against {printed.bound:.3g}"
    verdict = CORRECTED if corrected.verdict in (HOLDS, CORRECTED) else corrected.verdict
    return replace(corrected, verdict=verdict, note=f"{corrected.note} ({seen})")


@dataclass(frozen=True)
class Fit:
    """Least-squares slope of log y against log x with a bootstrap interval (95 %)."""

    exponent: float
    constant: float
    interval: tuple[float, float]
    decades: float


def fit_exponent(x: ArrayLike, y: ArrayLike, n_bootstrap: int = 1000) -> Fit:
    """``y ≈ constant·x^exponent`` over positive data; the interval is the bootstrap's 2.5 % to 97.5 % over points.

    Raises:
        ValueError: fewer than 4 points, or data that are not positive and finite.
    """
    pairs = np.stack([np.asarray(x, dtype=float), np.asarray(y, dtype=float)])
    usable = (np.isfinite(pairs) & (pairs > 0.0)).all(axis=0)
    if pairs.shape[1] < 4 or not usable.all():
        raise ValueError(f"a rate needs at least 4 positive finite points, got {usable.sum()} of {pairs.shape[1]}")
    log_x, log_y = np.log(pairs)
    slope, offset = np.polyfit(log_x, log_y, 1)
    rng = np.random.default_rng(0)
    slopes: list[float] = []
    while len(slopes) < n_bootstrap:
        pick = rng.integers(0, len(log_x), len(log_x))
        if len(np.unique(log_x[pick])) > 1:
            slopes.append(np.polyfit(log_x[pick], log_y[pick], 1)[0])
    low, high = np.quantile(slopes, [0.025, 0.975])
    return Fit(float(slope), float(np.exp(offset)), (float(low), float(high)), float(np.ptp(log_x) / np.log(10.0)))


def envelope(x: ArrayLike, y: ArrayLike, *, largest: bool = True, n_bins: int = 9) -> tuple[list[float], list[float]]:
    """The largest (or smallest) y in each of ``n_bins`` logarithmic bins of x, at its own x: the worst instances."""
    x, y = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    bins = np.digitize(np.log(x), np.linspace(np.log(x.min()), np.log(x.max()), n_bins + 1)[1:-1])
    picked = []
    for b in np.unique(bins):
        members = np.flatnonzero(bins == b)
        picked.append(members[y[members].argmax() if largest else y[members].argmin()])
    return x[picked].tolist(), y[picked].tolist()
