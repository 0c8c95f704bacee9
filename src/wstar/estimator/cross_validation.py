"""``TwoLayerRegressorCV``: the path's point chosen by cross-validation, and the folds' models averaged."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike
from threadpoolctl import threadpool_limits

from wstar.estimator.fitting import (
    ROWS_ON_PATH,
    Plan,
    Point,
    exhausted,
    finished,
    prepare,
    refit_candidates,
    refitted,
    ridge_point,
)
from wstar.estimator.folds import given_splits, splits_by_value
from wstar.estimator.network import TableNetwork
from wstar.estimator.path import Path
from wstar.estimator.regressor import TwoLayerBase, generator, positive_counts


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

    Args:
        cv: number of folds, a splitter or splits. With a number, folds depend on the rows' values only: equal rows
            stay together, so that integer weights do what repeated rows do.
        one_standard_error: take the candidate with the fewest degrees of freedom whose error exceeds the least by at
            most its standard error (paired, over rows).
        average: see above.
        n_jobs: threads; None takes one for each processor.
        refit, n_steps, ratio, patience, shrinkage, threshold_scale, guard, random_state, verbose: as in
            :class:`TwoLayerRegressor`.

    Attributes:
        weight_decays_, cv_errors_, n_neurons_: of every candidate: λ (∞ for ridge regression), mean squared error on
            the rows held out, neurons on all rows.
        refits_: which candidates are without the penalty.
        stability_: (K,), for each direction, the median over the folds of its largest cosine (in size) with one there.
        directions_, masses_, …: as in :class:`TwoLayerRegressor`.
    """

    def __init__(
        self,
        cv: Any = 5,
        *,
        one_standard_error: bool = False,
        average: bool = True,
        n_jobs: int | None = None,
        refit: bool = True,
        n_steps: int = 20,
        ratio: float = 0.6,
        patience: int = 4,
        shrinkage: float = 30.0,
        threshold_scale: float = 2.0,
        guard: float = 0.25,
        random_state: int | np.random.RandomState | np.random.Generator | None = None,
        verbose: bool = False,
    ) -> None:
        """See the class."""
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
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit to rows X (n, d) and labels y (n,); a weight k counts as k equal rows.

        Raises:
            ValueError: as scikit-learn; parameters out of range.

        Warns:
            UserWarning: constant labels; a column that is the labels up to scale.
        """
        plan, rng = self._plan(), generator(self.random_state)
        X, y, counts = self._rows(X, y, sample_weight)
        pairs = None if isinstance(self.cv, int | np.integer) else given_splits(self.cv, X, y, counts > 0.0)
        X, y, counts = positive_counts(X, y, counts)
        labels, centre, scale = self._standardised(y, counts)
        if scale == 0.0:
            return self._no_neurons(X, centre)
        self._warn_of_leaks(X, labels, counts)
        with threadpool_limits(limits=1, user_api="blas"), ThreadPoolExecutor(self.n_jobs or _processors()) as pool:
            chosen = self._choose(X, labels, counts, plan, rng, pairs, pool.map)
            whole = chosen.whole.problem if len(X) <= ROWS_ON_PATH else prepare(X, labels, counts, plan)
            point = finished(chosen.whole, whole)
            parts = list(pool.map(lambda one: finished(one, one.problem), chosen.parts if self.average else ()))
        self.weight_decay_, self.alpha_, self.refitted_ = point.weight_decay, point.problem.alpha, point.refitted
        networks = [TableNetwork.of(one.problem, one.atoms, centre, scale) for one in (point, *parts)]
        self._take((networks[0],), X, counts, 0.0)
        self.networks_ = tuple(networks)
        return self

    def _choose(
        self,
        X: Float[np.ndarray, "n d"],
        labels: Float[np.ndarray, " n"],
        counts: Float[np.ndarray, " n"],
        plan: Plan,
        rng: np.random.Generator,
        pairs: list[tuple[np.ndarray, np.ndarray]] | None,
        spread: Callable[..., Any],
    ) -> Candidate:
        if len(X) > ROWS_ON_PATH and pairs is None:
            rows = np.sort(rng.choice(len(X), ROWS_ON_PATH, replace=False))
            X, labels, counts = X[rows], labels[rows], counts[rows]
        problem, seed = prepare(X, labels, counts, plan), int(rng.integers(2**63))
        whole = Path(problem, np.random.default_rng(seed))
        if pairs is None:
            pairs = splits_by_value(int(self.cv), X, labels, rng)
        candidates = [self._candidate(ridge_point(problem), [])]
        if len(pairs) < 2:
            return candidates[0]

        def fold(pair: tuple[np.ndarray, np.ndarray]) -> Fold:
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
        return self._selected(candidates)

    def _candidate(self, whole: Point, parts: list[Point]) -> Candidate:
        errors = [
            (TableNetwork.of(part.problem, part.atoms)(rows) - labels) ** 2
            for part, (rows, labels) in zip(parts, self._held_out if parts else [], strict=True)
        ]
        return Candidate(whole, tuple(parts), np.concatenate(errors) if errors else np.zeros(0))

    def _mean(self, candidate: Candidate) -> float:
        return float(self._held_counts @ candidate.errors / self._held_counts.sum())

    def _refits(self, candidates: list[Candidate], best: int, spread: Callable[..., Any]) -> list[Candidate]:
        found = []
        for chosen in refit_candidates([one.whole for one in candidates], candidates[best].whole):
            candidate = next(one for one in candidates if one.whole is chosen)
            again = list(spread(refitted, [candidate.whole, *candidate.parts]))
            if all(one is not None for one in again):
                found.append(self._candidate(again[0], again[1:]))
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
        if not self.one_standard_error:
            return best

        def within(one: Candidate) -> bool:
            excess = one.errors - best.errors
            mean = float(shares @ excess)
            return mean <= np.sqrt(float(shares**2 @ (excess - mean) ** 2))

        return min(filter(within, candidates), key=lambda one: one.whole.freedom)

    @property
    def stability_(self) -> Float[np.ndarray, " k"]:
        """See the class."""
        return self._stability()


def _processors() -> int:
    return os.cpu_count() or 1
