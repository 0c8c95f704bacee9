"""``TwoLayerRegressorCV``: the path's point chosen by cross-validation, and the folds' models averaged."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Float

from wstar.estimator.base import TwoLayerBase
from wstar.estimator.fitting import (
    Plan,
    Point,
    exhausted,
    finished,
    prepare,
    refit_candidates,
    refitted,
    ridge_point,
    sampled,
)
from wstar.estimator.folds import Split, among, given_splits, splits_by_value
from wstar.estimator.network import TableNetwork
from wstar.estimator.path import Path

# refits whose generalised cross-validation is this many times the penalised network's are not tried on the folds
_HOPELESS = 1.1


@dataclass(frozen=True, eq=False)
class Fold:
    """A problem on some rows, its path, and the rows held out of it."""

    path: Path
    held_out: np.ndarray


@dataclass(frozen=True, eq=False)
class Candidate:
    """The same point of the path on all rows and on each fold's, with the squared errors of the rows held out."""

    whole: Point
    parts: tuple[Point, ...]
    errors: Float[np.ndarray, " k"] = field(repr=False)


class TwoLayerRegressorCV(TwoLayerBase):
    """:class:`TwoLayerRegressor` with the point of its path chosen by cross-validation.

    Every fold walks the same weight decays; candidates are ridge regression, the penalised networks and, around the
    best of these, networks refitted without the penalty. Predictions are the mean of the network on all rows and the
    folds' networks (unless ``average=False``); directions, masses and the other attributes are those of the network
    on all rows.

    Memory as for :class:`TwoLayerRegressor`, with the 24 bytes for each number in the path's rows once for all rows and
    once for each fold.

    Args:
        cv: number of folds, a splitter or splits. With a number, folds depend on the rows' values only: equal rows
            stay together, so that integer weights do what repeated rows do.
        one_standard_error: take the candidate with the fewest degrees of freedom whose error exceeds the least by at
            most its standard error (paired, over rows).
        average: see above.
        n_jobs: threads; None takes one for each processor.
        refit, n_steps, ratio, patience, shrinkage, threshold_scale, guard, powers, robust, certify_fit, random_state,
        verbose: as in :class:`TwoLayerRegressor`.

    Attributes:
        weight_decays_, cv_errors_, n_neurons_: of every candidate: λ (∞ for ridge regression), mean squared error on
            the rows held out (∞ where that was not tried), neurons on all rows.
        cv_standard_errors_: of each mean in ``cv_errors_``, over the rows held out; NaN where there is none.
        refits_: which candidates are without the penalty.
        stability_: (K,), for each direction, the median over the folds of its largest cosine (in size) with one there.
        directions_, masses_, …: as in :class:`TwoLayerRegressor`.
    """

    def __init__(
        self,
        cv: Any = 5,
        *,
        one_standard_error: Any = False,
        average: Any = True,
        n_jobs: Any = None,
        refit: Any = True,
        n_steps: Any = 20,
        ratio: Any = 0.6,
        patience: Any = 4,
        shrinkage: Any = 30.0,
        threshold_scale: Any = 2.0,
        guard: Any = 0.25,
        powers: Any = "auto",
        robust: Any = False,
        certify_fit: Any = False,
        random_state: Any = None,
        verbose: Any = False,
    ) -> None:
        """See the class. Nothing is checked here: scikit-learn sets parameters at any time, ``fit`` looks at them."""
        self.cv = cv
        self.one_standard_error = one_standard_error
        self.average = average
        self.n_jobs = n_jobs
        self.refit = refit
        self.n_steps = n_steps
        self.ratio = ratio
        self.patience = patience
        self.shrinkage = shrinkage
        self.threshold_scale = threshold_scale
        self.guard = guard
        self.powers = powers
        self.robust = robust
        self.certify_fit = certify_fit
        self.random_state = random_state
        self.verbose = verbose

    def _given_splits(self, X: np.ndarray, y: np.ndarray, counts: np.ndarray) -> list[Split] | None:
        return None if isinstance(self.cv, int | np.integer) else given_splits(self.cv, X, y, counts > 0.0)

    def _solve(
        self, X: np.ndarray, labels: np.ndarray, counts: np.ndarray, plan: Plan, rng: np.random.Generator, pairs: Any
    ) -> tuple[Point, list[Point], list[Point]]:
        with ThreadPoolExecutor(self.n_jobs or _processors()) as pool:
            chosen, candidates = self._choose(X, labels, counts, plan, rng, pairs, pool.map)
            whole = chosen.whole.problem if len(X) == len(chosen.whole.problem.labels) else None
            point = finished(chosen.whole, whole or prepare(X, labels, counts, plan))
            averaged = chosen.parts if self.average and whole else ()
            others = list(pool.map(lambda one: finished(one, one.problem), averaged))
        return point, others, [one.whole for one in candidates]

    def _choose(
        self,
        X: Float[np.ndarray, "n d"],
        labels: Float[np.ndarray, " n"],
        counts: Float[np.ndarray, " n"],
        plan: Plan,
        rng: np.random.Generator,
        pairs: list[Split] | None,
        spread: Callable[..., Any],
    ) -> tuple[Candidate, list[Candidate]]:
        rows = sampled(X, rng)
        if not isinstance(rows, slice):
            pairs = None if pairs is None else among(rows, len(X), pairs)
            X, labels, counts = X[rows], labels[rows], counts[rows]
        problem, seed = prepare(X, labels, counts, plan), int(rng.integers(2**63))
        whole = Path(problem, np.random.default_rng(seed))
        if pairs is None:
            pairs = splits_by_value(int(self.cv), X, labels, rng)
        candidates = [self._candidate(ridge_point(problem), [])]
        if len(pairs) < 2:
            return candidates[0], candidates

        def fold(pair: Split) -> Fold:
            train, held_out = pair
            part = prepare(X[train], labels[train], counts[train], plan)
            return Fold(Path(part, np.random.default_rng(seed)), held_out)

        folds = list(spread(fold, pairs))
        self._held_out = [(X[one.held_out], labels[one.held_out]) for one in folds]
        self._held_counts = np.concatenate([counts[one.held_out] for one in folds])
        candidates = [self._candidate(ridge_point(problem), [ridge_point(one.path.problem) for one in folds])]
        best, since = 0, 0
        for step in range(1, 1 if exhausted(candidates[0].whole) else plan.n_steps + 1):
            decay = whole.largest * plan.ratio**step
            if not decay > 0.0:
                break
            first, *others = spread(
                lambda path, decay=decay: Point(decay, path.problem, path.step(decay), False),
                [whole, *(one.path for one in folds)],
            )
            candidates.append(self._candidate(first, others))
            error = self._mean(candidates[-1])
            if self.verbose:
                print(f"λ = {decay:.3g}: {len(first.atoms.masses)} neurons, held-out error {error:.4g}")
            best, since = (step, 0) if error < self._mean(candidates[best]) else (best, since + 1)
            if since >= self.patience or exhausted(first):
                break
        if self.refit:
            candidates += self._refits(candidates, best, spread)
        return self._selected(candidates), candidates

    def _candidate(self, whole: Point, parts: list[Point]) -> Candidate:
        errors = [
            (TableNetwork.of(part.problem, part.atoms)(rows) - labels) ** 2
            for part, (rows, labels) in zip(parts, self._held_out if parts else [], strict=True)
        ]
        return Candidate(whole, tuple(parts), np.concatenate(errors) if errors else np.zeros(0))

    def _mean(self, candidate: Candidate) -> float:
        if not len(candidate.errors):
            return np.inf
        return float(self._held_counts @ candidate.errors / self._held_counts.sum())

    def _refits(self, candidates: list[Candidate], best: int, spread: Callable[..., Any]) -> list[Candidate]:
        """Refits on all rows, and on the folds' rows (errors) where the first is not hopeless."""
        found = []
        bar = _HOPELESS * candidates[best].whole.criterion
        for chosen in refit_candidates([one.whole for one in candidates], candidates[best].whole):
            candidate = next(one for one in candidates if one.whole is chosen)
            whole = refitted(candidate.whole)
            if whole is None:
                continue
            if whole.criterion > bar:
                found.append(Candidate(whole, (), np.zeros(0)))
                continue
            parts = list(spread(refitted, candidate.parts))
            if all(part is not None for part in parts):
                found.append(self._candidate(whole, parts))
        return found

    def _selected(self, candidates: list[Candidate]) -> Candidate:
        means = np.array([self._mean(one) for one in candidates])
        self.weight_decays_ = np.array([one.whole.weight_decay for one in candidates])
        self.refits_ = np.array([one.whole.refitted for one in candidates])
        self.n_neurons_ = np.array([len(one.whole.atoms.masses) for one in candidates])
        self.cv_errors_ = means
        best = candidates[int(means.argmin())]
        shares = self._held_counts / self._held_counts.sum()
        del self._held_out, self._held_counts

        def deviation(errors: Float[np.ndarray, " k"]) -> float:
            return float(np.sqrt(shares**2 @ (errors - shares @ errors) ** 2)) if len(errors) else np.nan

        self.cv_standard_errors_ = np.array([deviation(one.errors) for one in candidates])
        if not self.one_standard_error:
            return best

        def within(one: Candidate) -> bool:
            if not len(one.errors):
                return False
            excess = one.errors - best.errors
            return float(shares @ excess) <= deviation(excess)

        return min(filter(within, candidates), key=lambda one: one.whole.freedom)

    @property
    def stability_(self) -> Float[np.ndarray, " k"]:
        """See the class."""
        return self._stability()


def _processors() -> int:
    return os.cpu_count() or 1
