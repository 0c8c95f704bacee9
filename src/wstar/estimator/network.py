"""A fitted network on a table's columns, and averages of several."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from wstar.algorithms.optimum.problem import Atoms
from wstar.estimator.inputs import Inputs, row_blocks, widened
from wstar.estimator.problem import TableProblem


def carried(atoms: Atoms, before: Inputs, after: Inputs) -> Atoms:
    """The same neurons in the coordinates of other inputs."""
    if before is after or not len(atoms.masses):
        return atoms
    rows = after.from_columns(*before.to_columns(atoms.directions))
    length = np.linalg.norm(rows, axis=1)
    kept = length > 0.0
    return Atoms((atoms.masses * length)[kept], rows[kept] / length[kept, None])


@dataclass(frozen=True, eq=False)
class TableNetwork:
    """``b + l·x + Σ c_i σ(u_i·x)`` on inputs ``x`` of guarded columns, in the labels' unit, kept within ``limits``."""

    inputs: Inputs
    atoms: Atoms
    intercept: float
    linear: Float[np.ndarray, " d"]
    relu: bool
    limits: tuple[float, float]

    @classmethod
    def of(cls, problem: TableProblem, atoms: Atoms, centre: float = 0.0, scale: float = 1.0) -> "TableNetwork":
        """The atoms with the linear part that goes with them; labels were ``(y − centre)/scale``."""
        values = problem.residual(atoms)
        slope = -problem.linear_fit(values)
        intercept = problem.mean - _mean_features(problem, atoms)
        low, high = widened(problem.labels.min(keepdims=True), problem.labels.max(keepdims=True), problem.inputs.guard)
        return cls(
            problem.inputs,
            Atoms(scale * atoms.masses, atoms.directions),
            centre + scale * intercept,
            scale * slope,
            problem.relu,
            (centre + scale * float(low[0]), centre + scale * float(high[0])),
        )

    def __call__(self, X: Float[np.ndarray, "n d"]) -> Float[np.ndarray, " n"]:
        """Predictions for rows in the columns' own units."""
        values, inputs = np.empty(len(X)), self.inputs
        lifted = inputs.on_standardised(self.atoms.directions)
        slope = inputs.matrix @ self.linear
        for rows in row_blocks(len(X), max(inputs.dim, len(lifted))):
            z = inputs.guarded(X[rows])
            pre = z @ lifted[:, :-1].T + lifted[:, -1]
            features = np.maximum(pre, 0.0) if self.relu else np.abs(pre)
            values[rows] = self.intercept + z @ slope + features @ self.atoms.masses
        return np.clip(values, *self.limits, out=values)


def _mean_features(problem: TableProblem, atoms: Atoms) -> float:
    total, lifted = 0.0, problem.lifted(atoms.directions)
    for part, x in problem.blocks(max(len(atoms.masses), 1)):
        total += float(problem.weights[part] @ (problem.features(x @ lifted.T) @ atoms.masses))
    return total


@dataclass(frozen=True, eq=False)
class Neurons:
    """``Σ_i masses_i σ(directions_i·X + thresholds_i)`` in the columns' own units, most important first.

    Each projection ``directions_i·X`` has standard deviation 1 over the training rows.
    """

    masses: Float[np.ndarray, " m"]
    directions: Float[np.ndarray, "m d"]
    thresholds: Float[np.ndarray, " m"]
    relu: bool

    def features(self, X: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n m"]:
        """``σ(directions·X + thresholds)``."""
        pre = X @ self.directions.T + self.thresholds
        return np.maximum(pre, 0.0) if self.relu else np.abs(pre)


def neurons_of(
    networks: tuple[TableNetwork, ...], reference: Inputs, angle: float
) -> tuple[Neurons, Float[np.ndarray, " d"], float]:
    """Neurons, linear part and intercept of the networks' average, neurons within ``angle`` joined."""
    share = 1.0 / len(networks)
    rows, thresholds, masses = [], [], []
    linear, intercept = np.zeros(len(reference.mean)), 0.0
    # ReLU and |·| differ by a linear part: where networks differ, all become |·|
    relu = all(network.relu for network in networks)
    for network in networks:
        gradients, shifts = network.inputs.to_columns(network.atoms.directions)
        own = share * network.atoms.masses
        slope = share * (network.linear @ network.inputs.matrix) * network.inputs.inverse_scale
        linear += slope
        intercept += share * network.intercept - float(slope @ network.inputs.mean)
        if network.relu and not relu:
            own = 0.5 * own
            linear += own @ gradients
            intercept += float(own @ shifts)
        rows.append(gradients)
        thresholds.append(shifts)
        masses.append(own)
    joint = _joined(np.concatenate(masses), np.concatenate(rows), np.concatenate(thresholds), reference, relu, angle)
    gone = joint.masses == 0.0
    return (
        Neurons(joint.masses[~gone], joint.directions[~gone], joint.thresholds[~gone], relu),
        linear,
        intercept,
    )


def _joined(
    masses: np.ndarray, gradients: np.ndarray, thresholds: np.ndarray, reference: Inputs, relu: bool, angle: float
) -> Neurons:
    """Neurons of one sign joined where directions and thresholds agree, in units of the projections' spread."""
    root = reference.vectors * np.sqrt(reference.eigenvalues)
    whitened = (gradients * reference.scale) @ root
    spread = np.linalg.norm(whitened, axis=1)
    flat = spread <= 1e-12 * np.max(spread, initial=0.0)
    masses, gradients, thresholds = (a[~flat] for a in (masses, gradients, thresholds))
    whitened, spread = whitened[~flat], spread[~flat]
    masses, gradients, thresholds = masses * spread, gradients / spread[:, None], thresholds / spread
    centred = thresholds + gradients @ reference.mean
    features = np.column_stack([whitened / spread[:, None], centred])
    lengths = np.linalg.norm(features, axis=1)
    features = features / lengths[:, None]
    left = np.argsort(-np.abs(masses) * lengths, kind="stable")
    found: list[tuple[float, np.ndarray, float]] = []
    while left.size:
        first = left[0]
        cosines = features[left] @ features[first]
        same = np.sign(masses[left]) == np.sign(masses[first])
        near = same & ((cosines if relu else np.abs(cosines)) >= np.cos(angle))
        near[0] = True
        chosen, signs = left[near], np.sign(cosines[near])
        parts = np.abs(masses[chosen]) * signs
        row, threshold = parts @ gradients[chosen], float(parts @ thresholds[chosen])
        size = float(np.linalg.norm((row * reference.scale) @ root))
        found.append((float(np.sign(masses[first])) * size, row / size, threshold / size))
        left = left[~near]
    d = gradients.shape[1]
    return Neurons(
        np.array([one[0] for one in found]),
        np.array([one[1] for one in found]).reshape(-1, d),
        np.array([one[2] for one in found]),
        relu,
    )
