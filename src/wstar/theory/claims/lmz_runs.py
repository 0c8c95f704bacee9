"""Runs of LMZ's Algorithm 1 on the population, at the stage lengths of the formulas and over more than a decade of d.

One run serves every statement about its stages. a_i = 1/d and W* is the standard basis, as in LMZ's simulations.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import xarray as xr
from jaxtyping import Float

from wstar.algorithms.truncated.descent import truncated_descent
from wstar.algorithms.truncated.run import TruncatedResult
from wstar.algorithms.truncated.truncation import stage_one_steps, stage_two_steps
from wstar.kernels.activations import ABS
from wstar.networks.teacher import Teacher
from wstar.risks.population import PopulationRisk
from wstar.theory.claims.verdict import Effort
from wstar.theory.tensor_dynamics import StageTimes, stage_times

# stable below π/8 on |·| learners with Σa = 1
RATE = 0.3
# neurons for each input; LMZ ask for 2 at least
WIDTH = 3
DIMS = (5, 8, 12, 18, 27, 40, 64)


def target(dim: int, kappa: float = 1.0, rng: np.random.Generator | None = None) -> Teacher:
    """LMZ's target ``Σ a_i|x_i|``, Σa = 1, a_i within a factor κ of 1/d before they are normalised."""
    masses = np.ones(dim) if rng is None else kappa ** rng.uniform(-1.0, 1.0, dim)
    return Teacher(masses / masses.sum(), np.eye(dim), activation=ABS)


def plateau_scale(dims: Sequence[int] | Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """``d²/log m``: LMZ's log d is the logarithm of a width poly(d), and comes from the largest of m coordinates."""
    d = np.asarray(dims, dtype=float)
    return d**2 / np.log(WIDTH * d)


def settling_scale(dims: Sequence[int] | Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """``d log d``."""
    d = np.asarray(dims, dtype=float)
    return d * np.log(d)


@dataclass(frozen=True, eq=False)
class LongRun:
    """Both stages of one run with its weights on record."""

    dim: int
    seed: int
    result: TruncatedResult

    @cached_property
    def teacher(self) -> Teacher:
        """The target."""
        return target(self.dim)

    @cached_property
    def times(self) -> StageTimes:
        """Ends of the stages in units of 1/η."""
        t = stage_times(self.trajectory)
        return StageTimes(RATE * t.settled, RATE * t.plateau_end, RATE * t.warm, RATE * t.fitted)

    @property
    def trajectory(self) -> xr.Dataset:
        """What was recorded."""
        return self.result.trajectory

    @property
    def weights(self) -> Float[np.ndarray, "s m d"]:
        """Weights at every record."""
        return np.asarray(self.trajectory.weights.values)

    @property
    def steps(self) -> Float[np.ndarray, " s"]:
        """Steps on record."""
        return self.trajectory.step.values.astype(float)

    def at(self, time: float) -> int:
        """The first record at or after ηt = ``time``."""
        return min(int(np.searchsorted(RATE * self.steps, time)), len(self.steps) - 1)

    @property
    def second_stage(self) -> int:
        """The record at which Stage 2 begins."""
        return self.at(RATE * self.result.stages[0].last_step)


@lru_cache(maxsize=2)
def long_runs(quick: bool, seed: int) -> tuple[LongRun, ...]:
    """Runs at every d of :data:`DIMS`, two seeds each (full: six), one at d = 64 (full: three)."""
    found = []
    for dim in DIMS:
        n = stage_one_steps(dim, RATE) + stage_two_steps(dim, RATE)
        risk = PopulationRisk(target(dim), preprocessed=False)
        seeds = (2 if quick else 6) if dim <= 40 else 1 if quick else 3
        for k in range(seeds):
            result = truncated_descent(
                risk, WIDTH * dim, 10 * seed + k, None, RATE, record_weights=True, record_steps=spaced(n, 90)
            )
            found.append(LongRun(dim, 10 * seed + k, result))
    return tuple(found)


def spaced(last: int, n: int) -> tuple[int, ...]:
    """About ``n`` steps up to ``last``, evenly spaced in their logarithm."""
    steps: list[int] = np.unique(np.geomspace(1, last, n).round()).astype(int).tolist()
    return tuple(steps)


def runs(effort: Effort) -> tuple[LongRun, ...]:
    """The runs of one effort."""
    return long_runs(effort.quick, effort.seed)


def mean_by_dim(found: Sequence[LongRun], values: Sequence[float]) -> tuple[list[int], list[float]]:
    """Geometric mean over the seeds of each d."""
    dims: list[int] = sorted({run.dim for run in found})
    logs = np.log(np.asarray(values, dtype=float))
    members = [[k for k, run in enumerate(found) if run.dim == d] for d in dims]
    return dims, [float(np.exp(logs[m].mean())) for m in members]
