"""Labels that LMZ's learner can fit: their linear part taken off, their masses brought to one, both put back after."""

import warnings
from dataclasses import dataclass, replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from wstar.kernels.activations import HomogeneousActivation
from wstar.networks.network import Atoms, Measure
from wstar.networks.student import Student
from wstar.risks.base import Risk
from wstar.risks.empirical import EmpiricalRisk

_MEAN_ABS = float(np.sqrt(2.0 / np.pi))
# LMZ's κ bounds a_i d from both sides by a constant; beyond this one their times lose their meaning
_KAPPA = 10.0


@dataclass(frozen=True)
class Reduction:
    """``risk`` has the labels ``(y − linear·x)/scale``; ``mass`` is the total mass that fits their mean."""

    risk: Risk
    linear: Float[np.ndarray, " d"]
    scale: float
    mass: float

    def restore(self, weights: Float[np.ndarray, "m d"], activation: HomogeneousActivation) -> Student:
        """The student for the labels as they came, from mean-field weights trained on the reduced ones."""
        small = Student.from_mean_field(weights, activation)
        return Student(self.scale * small.outputs, small.weights, small.bias, self.linear, activation)

    def on_device(self) -> "Reduction":
        """The same with the risk's arrays handed to JAX once, not at every call."""
        return replace(self, risk=jax.tree.map(jnp.asarray, self.risk))

    def target(self, target: Atoms | None) -> Atoms | None:
        """``target`` at the scale of the reduced labels."""
        return None if target is None else Atoms(target.masses / self.scale, target.directions)


def reduce_labels(risk: Risk, activation: HomogeneousActivation, remove_linear: bool, normalise: bool) -> Reduction:
    """LMZ's reduction of a ReLU target (their conclusion): subtract the regression on x, keep the mean.

    ``normalise`` divides by ``E y/√(2/π)``, so that the even part ``Σ a_i|w*_i·x|`` of the labels has Σa = 1 as in LMZ.

    Warns:
        UserWarning: labels with a linear part that is left in.

    Raises:
        ValueError: labels with mean ≤ 0 are to be normalised.
    """
    label = risk.fit_affine(activation, Measure(np.zeros(0), np.zeros((0, risk.dim)), np.zeros(()), np.zeros(risk.dim)))
    mean, linear = float(label.bias), np.asarray(label.linear)
    if not remove_linear:
        _warn_about_linear_part(risk, activation, linear)
        linear = np.zeros(risk.dim)
    scale = mean / _MEAN_ABS if normalise else 1.0
    if not (np.isfinite(scale) and scale > 0.0):
        raise ValueError(f"the labels have mean {mean:g}: masses ‖w‖²/m are positive, so the mean must be too")
    return Reduction(risk.relabelled(linear, scale), linear, scale, mean / (scale * activation.even * _MEAN_ABS))


def silent(dim: int) -> Measure:
    """The network that is zero everywhere: one absent neuron."""
    return Measure(jnp.zeros(1), jnp.zeros((1, dim)), jnp.zeros(()), jnp.zeros(dim))


@eqx.filter_jit
def loss_of(risk: Risk, activation: HomogeneousActivation, measure: Measure) -> Float[Array, ""]:
    """``L(μ)``, compiled."""
    return risk.loss(activation, measure)


def _warn_about_linear_part(risk: Risk, activation: HomogeneousActivation, linear: Float[np.ndarray, " d"]) -> None:
    energy = float(loss_of(risk, activation, silent(risk.dim)))
    # what a regression on d columns finds in N labels without any linear part is d/N of their energy, give or take
    chance = 3.0 * risk.dim / risk.n_samples if isinstance(risk, EmpiricalRisk) else 0.0
    explained = energy - float(loss_of(risk, activation, silent(risk.dim)._replace(linear=jnp.asarray(linear))))
    if explained > (0.01 + chance) * energy and activation.odd == 0.0:
        warnings.warn(
            f"{explained / energy:.0%} of the labels' energy is linear in x, which |·| neurons cannot fit: pass "
            "remove_linear=True to take it off first (LMZ's reduction for ReLU targets)",
            stacklevel=4,
        )


def warn_about_setting(target: Atoms | None, activation: HomogeneousActivation, width: int, risk: Risk) -> None:
    """One UserWarning for each assumption of LMZ that does not hold for the masses, the width or the sample."""
    messages = []
    if target is None:
        if width < risk.dim:
            messages.append(f"width={width} is below dim={risk.dim}: LMZ's target has as many neurons as inputs")
    else:
        # LMZ's a_i are the factors of |w*_i·x|
        messages += _about_masses(activation.even * target.masses, risk.dim)
        if width < len(target.masses):
            messages.append(f"width={width} is below the teacher's {len(target.masses)} neurons: some cannot be found")
    if isinstance(risk, EmpiricalRisk) and risk.n_samples < risk.dim:
        messages.append(f"{risk.n_samples} rows for {risk.dim} inputs: fewer rows than inputs determine no direction")
    for message in messages:
        warnings.warn(message, stacklevel=4)


def _about_masses(masses: Float[np.ndarray, " k"], dim: int) -> list[str]:
    messages = []
    if not np.isclose(masses.sum(), 1.0, rtol=1e-6):
        messages.append(
            f"the target's a_i sum to {masses.sum():.6g}, LMZ's to 1: learning rate, thresholds and stage lengths "
            "are stated for 1; pass normalise=True"
        )
    outside = np.flatnonzero((masses < 1.0 / (_KAPPA * dim)) | (masses > _KAPPA / dim))
    if outside.size:
        i = int(outside[0])
        messages.append(
            f"{outside.size} of the target's a_i are outside [1/(κd), κ/d] for κ = {_KAPPA:g}, first "
            f"a_{i} = {masses[i]:.3g}: "
            + ("negative ones cannot be fitted" if masses[i] < 0.0 else "LMZ's stage lengths do not cover them")
        )
    return messages
