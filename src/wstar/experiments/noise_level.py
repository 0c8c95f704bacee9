"""The weight decay a sample calls for: large enough that pure noise of the residual's size recruits few neurons."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from wstar.algorithms.lasso import lasso_path_end, merge_directions
from wstar.algorithms.stages import first_step
from wstar.kernels.activations import HomogeneousActivation
from wstar.networks.student import symmetric_start
from wstar.risks.empirical import EmpiricalRisk

# of the weight decay at which noise recruits nothing: the guard against every false neuron costs more in bias
_SHARE = 0.5
# Stage 2 starts at this share of the weight decay at which the first neuron enters, where some tens of them live
_START = 0.1
_N_DRAWS = 50
_ROWS = 4096
_MOST_ROUNDS = 30
# labels without noise would let the weight decay go to zero: 14 epochs are enough
_SMALLEST = 1e-5
# labels are linear in the inputs where what is left of their variance is the rounding of their squares
_ROUNDING = 1e-20


@dataclass(frozen=True)
class DecayPlan:
    """``first`` (Stage 2 and the first epoch), halved to ``last`` over ``n_epochs``.

    Attributes:
        largest: λ above which Stage 2 finds no neuron.
        noise: estimated standard deviation of the noise.
        strength: ``largest`` over its median in pure noise of the linear fit's residual size, q as below. On tables of
            pure noise (48 × 3 to 2,000 × 20) one in twenty exceeds 1.6, since Stage 1 has seen the labels.
    """

    first: float
    last: float
    n_epochs: int
    largest: float
    noise: float
    strength: float

    @property
    def empty(self) -> bool:
        """Whether the sample recruits no neuron even at ``first``."""
        return self.first >= self.largest


def plan_weight_decay(risk: EmpiricalRisk, width: int, seed: int) -> DecayPlan:
    """Last λ from the sample's noise, first λ from its signal.

    Last: ``λ = ½ σ̂(λ) q``, q the median over Gaussian noise ε of ``2 max_u |E ε σ_⊥(u·x)|`` at the directions u of
    Stage 1 (σ_⊥: without its affine part), and σ̂(λ) the residual's standard deviation in Stage 2 at λ, degrees of
    freedom taken off: the square-root LASSO's choice, which needs no second fit. First: the largest ``2ᵏ last`` below
    a tenth of the λ at which the first neuron enters, at least ``last``. Where even the first neuron is below what
    noise gives (strength < 1), both are the λ at which noise recruits nothing, and so does the sample.

    Sources: Belloni, Chernozhukov and Wang, Square-root lasso (2011), §2.2; Sun and Zhang, Scaled sparse linear
    regression (2012).
    """
    stepped = first_step(risk, symmetric_start(width, risk.dim, seed))
    owner = merge_directions(stepped.directions)
    directions = stepped.directions[np.unique(owner[owner >= 0])]
    X, y, weights = risk.rows()
    basis = _orthonormal(np.column_stack([np.ones(len(X)), X]))
    free, energy = len(X) - basis.shape[1], float(weights @ y**2)
    noise = _noise_level(energy, risk.n_samples, free)
    if len(directions) == 0 or energy <= _ROUNDING * float(np.var(y + X @ risk.label_linear)):
        return DecayPlan(1.0, 1.0, 0, 0.0, noise, 0.0)
    gram, correlation, energy = risk.mass_problem(stepped.activation, directions)
    largest = 2.0 * float(np.abs(correlation).max())
    correlation_of_noise = _noise_correlation(risk, stepped.activation, directions, basis, seed)
    strength = largest / (correlation_of_noise * noise)
    if strength < 1.0:
        return DecayPlan(correlation_of_noise * noise, correlation_of_noise * noise, 0, largest, noise, strength)
    pull = _SHARE * correlation_of_noise
    last = pull * noise
    for _ in range(_MOST_ROUNDS):
        masses = lasso_path_end(gram, correlation, last)
        left = float(masses @ gram @ masses - 2.0 * correlation @ masses) + energy
        noise = _noise_level(left, risk.n_samples, free - int(np.count_nonzero(masses)))
        before, last = last, max(pull * noise, _SMALLEST * largest)
        if abs(last - before) <= 0.02 * before:
            break
    doublings = max(0, int(np.floor(np.log2(_START * largest / last))))
    return DecayPlan(last * 2.0**doublings, last, doublings + 1, largest, noise, strength)


def _noise_level(mean_square: float, n: int, free: int) -> float:
    return float(np.sqrt(max(mean_square, 0.0) * n / max(free, 1)))


def _noise_correlation(
    risk: EmpiricalRisk,
    activation: HomogeneousActivation,
    directions: Float[np.ndarray, "m d"],
    basis: Float[np.ndarray, "n k"],
    seed: int,
) -> float:
    """Median over draws of ``2 max_u |Σ ω ε σ_⊥(u·x)|``, ε standard normal; projecting ε does for projecting σ."""
    X, _, weights = risk.rows()
    noise = np.random.default_rng([seed, 4]).standard_normal((len(X), _N_DRAWS))
    noise = weights[:, None] * (noise - basis @ (basis.T @ noise))
    total = np.zeros((len(directions), _N_DRAWS))
    for start in range(0, len(X), _ROWS):
        rows = slice(start, start + _ROWS)
        total += activation(X[rows] @ directions.T).T @ noise[rows]
    return float(np.median(2.0 * np.abs(total).max(axis=0)))


def _orthonormal(columns: Float[np.ndarray, "n k"]) -> Float[np.ndarray, "n r"]:
    left, singular, _ = np.linalg.svd(columns, full_matrices=False)
    return left[:, singular > 1e-10 * singular[0]]
