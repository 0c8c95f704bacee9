"""What the measure solver returns: atoms, the clusters they form, and how far from optimal they can be."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from wstar.kernels.angles import angles
from wstar.networks.student import Student
from wstar.risks.precise import Ball

CLUSTER_ANGLE, CLUSTER_MASS = 0.05, 1e-6


@dataclass(frozen=True)
class Cluster:
    """Atoms that stand for one neuron: chained by angles of at most 0.05, each of mass above 1e-6.

    Attributes:
        mass: signed sum of masses.
        centre: unit mean direction, weighted by |mass|, signs aligned.
        spread: root mean square angle of the atoms to the centre, weighted by |mass|.
        indices: rows of the measure's arrays.
    """

    mass: float
    centre: Float[np.ndarray, " d"]
    spread: float
    indices: Int[np.ndarray, " n"]


@dataclass(frozen=True)
class OptimalMeasure:
    """A measure with a certificate: its objective is at most ``duality_gap`` above that of any measure whatever.

    Attributes:
        objective: ``P = ‖R‖² + λ|μ|₁``, from kernel sums (sample sums for an empirical risk).
        duality_gap: ``P − D ≥ 0``, a sum of terms without cancellation; as good as ``certificate_sup`` is.
        dual_value: D, a lower bound on the objective of every measure.
        certificate_sup: ``sup |η_λ|``, ``η_λ(u) = −(2/λ) E R σ(u·x)``: the largest value found, or a proven upper
            bound if ``rigorous``. At the optimum it is 1.
        neuron_gain: no single further neuron, at a direction that the search saw, lowers the objective of the dual
            measure by more than this.
        masses, directions: atoms, heaviest first; unit rows in the problem's own space.
        dual_masses, dual_directions: the measure whose residual gives the dual point: ``certificate_sup`` is that of
            its field, and D its dual value. Often the same; where it takes a crowd to make the field flat, the answer
            above is a sparser measure with an objective as good.
        clusters: see :class:`Cluster`, heaviest first.
        n_iterations: rounds of search and descent.
        reason: why it stopped, a sentence.
        tolerance: the gap asked for.
        rigorous: whether ``certificate_sup`` is proven rather than found.
        student: the measure as a balanced network, affine part fitted; None for a general activation.
        primal, dual, gap: with ``precise``, P, D and P − D as balls, the floats above taken as exact and each row's
            length counted into its mass; ``objective`` is then the middle of ``primal``, ``dual_value`` the lower end
            of ``dual`` and ``duality_gap`` the upper end of ``gap``. None otherwise.
    """

    weight_decay: float
    objective: float
    duality_gap: float
    dual_value: float
    certificate_sup: float
    neuron_gain: float
    masses: Float[np.ndarray, " n"]
    directions: Float[np.ndarray, "n d"]
    dual_masses: Float[np.ndarray, " k"]
    dual_directions: Float[np.ndarray, "k d"]
    clusters: tuple[Cluster, ...]
    n_iterations: int
    reason: str
    tolerance: float
    rigorous: bool
    student: Student | None
    primal: Ball | None = None
    dual: Ball | None = None
    gap: Ball | None = None

    @property
    def converged(self) -> bool:
        """Whether the gap is within the tolerance."""
        return bool(self.duality_gap <= self.tolerance)


def find_clusters(
    masses: Float[np.ndarray, " n"], directions: Float[np.ndarray, "n d"], *, even: bool = True
) -> tuple[Cluster, ...]:
    """Single-linkage clusters of the atoms above ``CLUSTER_MASS`` (angles modulo sign where ``even``)."""
    heavy = np.flatnonzero(np.abs(masses) > CLUSTER_MASS)
    if not heavy.size:
        return ()
    rows = directions[heavy]
    near = csr_array(angles(rows, rows, modulo_sign=even) <= CLUSTER_ANGLE)
    _, labels = connected_components(near, directed=False)
    clusters = [_cluster(masses, directions, heavy[labels == label], even) for label in range(labels.max() + 1)]
    return tuple(sorted(clusters, key=lambda cluster: -abs(cluster.mass)))


def _cluster(masses: np.ndarray, directions: np.ndarray, indices: np.ndarray, even: bool) -> Cluster:
    weights, rows = np.abs(masses[indices]), directions[indices]
    if even:
        heaviest = rows[weights.argmax()]
        rows = rows * np.where(rows @ heaviest < 0.0, -1.0, 1.0)[:, None]
    centre = weights @ rows
    centre = centre / np.linalg.norm(centre)
    away = angles(rows, centre, modulo_sign=even)[:, 0]
    spread = float(np.sqrt(weights @ away**2 / weights.sum()))
    return Cluster(float(masses[indices].sum()), centre, spread, indices)
