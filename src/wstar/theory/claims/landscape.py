"""Networks around the certified optimum at many weight decays: what the local statements of ZG are checked on.

Every network is balanced and has its affine part at the optimum, so that its objective is that of its measure. A family
of perturbations is scaled until the optimality gap ζ has a chosen size between λ² and λ^{9/5}, ZG's local regime.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from jaxtyping import Float

from wstar.algorithms.optimum.optimal_measure import optimal_measure_path
from wstar.algorithms.optimum.result import OptimalMeasure
from wstar.algorithms.three_stage import ThreeStageResult, three_stage
from wstar.networks.student import Student
from wstar.networks.teacher import Teacher, random_teacher
from wstar.risks.population import PopulationRisk
from wstar.theory.alignment import Alignment, align
from wstar.theory.certificate import DualCertificate, dual_certificate
from wstar.theory.claims.instances import DIM, fitted
from wstar.theory.claims.verdict import Effort
from wstar.theory.residual import ResidualDecomposition, residual_decomposition

# one width for all networks, filled up with zero neurons: one compilation serves them all
_WIDTH = 48
_LARGEST_DECAY, _SMALLEST_DECAY, _START_WIDTH = 0.02, 5e-6, 400
# an optimality gap counts as known when it is so many times the certified gap of the optimum
_KNOWN = 30.0
_ORDERS = (2, 4, 8)

Shape = Callable[[np.random.Generator, float], tuple[Float[np.ndarray, " n"], Float[np.ndarray, "n d"]]]


@dataclass(frozen=True, eq=False)
class Near:
    """One network near the optimum at λ = ``weight_decay``, with its optimality gap ``zeta``."""

    scene: "Scene"
    student: Student
    weight_decay: float
    zeta: float
    family: str

    @cached_property
    def alignment(self) -> Alignment:
        """Its neurons and the teacher's."""
        return align(self.student, self.scene.teacher)

    @cached_property
    def residual(self) -> ResidualDecomposition:
        """The three parts of its residual."""
        return residual_decomposition(self.student, self.scene.teacher)

    @cached_property
    def gradient(self) -> Student:
        """``∇L_λ``."""
        return self.scene.risk.gradient(self.student, self.weight_decay)

    @property
    def total_mass(self) -> float:
        """``|μ|₁``."""
        return float(np.abs(self.student.masses).sum())

    @property
    def loss(self) -> float:
        """``L(μ)``."""
        return self.scene.risk.value(self.student)


@dataclass(frozen=True, eq=False)
class Scene:
    """A teacher with its certificates, its optima along λ, a trained run at the same λ, and networks near them."""

    teacher: Teacher
    optima: tuple[OptimalMeasure, ...]
    run: ThreeStageResult

    @cached_property
    def risk(self) -> PopulationRisk:
        """The population risk."""
        return PopulationRisk(self.teacher)

    @cached_property
    def certificates(self) -> tuple[DualCertificate, ...]:
        """The non-degenerate ones among a few orders ℓ."""
        found = [dual_certificate(self.teacher, order) for order in _ORDERS]
        return tuple(c for c in found if c.rho > 0.0)

    @property
    def target_mass(self) -> float:
        """``‖a*‖₁``."""
        return float(np.abs(self.teacher.outputs).sum())

    def network(self, masses: Float[np.ndarray, " n"], directions: Float[np.ndarray, "n d"]) -> Student:
        """The balanced network of a measure, filled up to the common width."""
        root = np.sqrt(np.abs(masses))
        width = max(_WIDTH, len(masses))
        outputs, weights = np.zeros(width), np.zeros((width, directions.shape[1]))
        outputs[: len(masses)] = np.sign(masses) * root
        weights[: len(masses)] = directions * root[:, None]
        return fitted(Student(outputs, weights, activation=self.teacher.activation))

    def gap(self, student: Student, optimum: OptimalMeasure) -> float:
        """``ζ = L_λ(θ) − L_λ(μ*_λ)``."""
        return self.risk.value(student, optimum.weight_decay) - optimum.objective

    def near(self, student: Student, optimum: OptimalMeasure, family: str) -> Near:
        """``student`` with its gap."""
        return Near(self, student, optimum.weight_decay, self.gap(student, optimum), family)

    @cached_property
    def constructed(self) -> tuple[Near, ...]:
        """Every family at every second λ, scaled to ζ between λ² and λ^{9/5}, and to ‖p‖²λ² and 8‖p‖²λ²."""
        rng, found = np.random.default_rng(0), []
        for optimum in self.optima[::2]:
            if len(optimum.masses) > _WIDTH // 3:
                continue
            for name, shape in self._families(optimum).items():
                seed = int(rng.integers(2**32))
                squared = optimum.weight_decay**2
                energy = self.certificates[0].p_norm ** 2
                for size in (1.0, optimum.weight_decay**-0.1, optimum.weight_decay**-0.2, energy, 8.0 * energy):
                    zeta = size * squared
                    if zeta > _KNOWN * optimum.duality_gap:
                        network = self._scaled(shape, seed, zeta, optimum)
                        found += [] if network is None else [self.near(network, optimum, name)]
        return tuple(found)

    def _scaled(self, shape: Shape, seed: int, zeta: float, optimum: OptimalMeasure) -> Student | None:
        """The member of the family with gap ζ to 1 %, or None where it has none."""
        low, high = -7.0, 0.0
        network = None
        for _ in range(40):
            middle = 0.5 * (low + high)
            network = self.network(*shape(np.random.default_rng(seed), 10.0**middle))
            seen = self.gap(network, optimum)
            if abs(seen / zeta - 1.0) < 0.01:
                return network
            low, high = (middle, high) if seen < zeta else (low, middle)
        return None

    def _families(self, optimum: OptimalMeasure) -> dict[str, Shape]:
        masses, rows = optimum.masses, optimum.directions
        span = np.linalg.svd(self.teacher.weights)[2][: self.teacher.rank]

        def tilted(rng: np.random.Generator, at: np.ndarray, angle: float) -> np.ndarray:
            tangents = rng.standard_normal((len(at), len(span))) @ span
            tangents -= np.sum(tangents * at, axis=1)[:, None] * at
            tangents /= np.linalg.norm(tangents, axis=1, keepdims=True)
            return np.cos(angle) * at + np.sin(angle) * tangents

        def pairs(rng: np.random.Generator, s: float) -> tuple[np.ndarray, np.ndarray]:
            one = tilted(rng, rows, s)
            other = 2.0 * np.cos(s) * rows - one
            return np.concatenate([masses, masses]) / (2.0 * np.cos(s)), np.concatenate([one, other])

        def turned(rng: np.random.Generator, s: float) -> tuple[np.ndarray, np.ndarray]:
            return masses, tilted(rng, rows, s)

        def weighed(rng: np.random.Generator, s: float) -> tuple[np.ndarray, np.ndarray]:
            return masses * (1.0 + s * rng.standard_normal(len(masses))), rows

        def strewn(rng: np.random.Generator, s: float) -> tuple[np.ndarray, np.ndarray]:
            more = rng.standard_normal((4, self.teacher.dim))
            more /= np.linalg.norm(more, axis=1, keepdims=True)
            return np.append(masses, s * rng.standard_normal(4)), np.concatenate([rows, more])

        def tempting(rng: np.random.Generator, s: float) -> tuple[np.ndarray, np.ndarray]:
            # where |η| is nearest to its bound an atom costs least
            worst = self.certificates[0].worst
            outside = np.linalg.svd(self.teacher.weights)[2][-1]
            row = worst + np.sqrt(max(0.0, 1.0 - float(worst @ worst))) * outside
            sign = np.sign(self.certificates[0](row[None])[0])
            return np.append(masses, s * sign), np.concatenate([rows, row[None]])

        def cancelling(rng: np.random.Generator, s: float) -> tuple[np.ndarray, np.ndarray]:
            at = tilted(rng, self.teacher.directions, 1e-3)
            signs = np.sign(self.teacher.outputs)
            return np.concatenate([masses, -s * signs]), np.concatenate([rows, at])

        def mixed(rng: np.random.Generator, s: float) -> tuple[np.ndarray, np.ndarray]:
            two = tilted(rng, np.concatenate([rows, rows]), s ** rng.uniform(0.5, 1.5))
            more = rng.standard_normal((2, self.teacher.dim))
            more /= np.linalg.norm(more, axis=1, keepdims=True)
            halves = np.concatenate([masses, masses]) * 0.5 * (1.0 + 0.3 * s * rng.standard_normal(2 * len(masses)))
            return np.append(halves, s**1.5 * rng.standard_normal(2)), np.concatenate([two, more])

        return {f.__name__: f for f in (pairs, turned, weighed, strewn, tempting, cancelling, mixed)}

    @cached_property
    def trained(self) -> tuple[Near, ...]:
        """The recorded networks of the run, balanced, wherever their gap is known."""
        found, trajectory = [], self.run.trajectory
        basis = trajectory.basis.values
        for step in range(1, trajectory.sizes["step"]):
            at = trajectory.isel(step=step)
            optimum = self.optima[int(at.epoch_of_step)]
            network = self.network(at.masses.values, at.directions.values @ basis)
            state = self.near(network, optimum, "trained")
            if state.zeta > _KNOWN * optimum.duality_gap:
                found.append(state)
        return tuple(found)


@lru_cache(maxsize=4)
def scenes(quick: bool, seed: int) -> tuple[Scene, ...]:
    """The scenes of one effort; kept, since training and optima cost more than any check on them."""
    shapes: Sequence[tuple[int, int, float]] = ((2, 3, 0.5), (3, 4, 0.3)) if quick else ((2, 3, 0.5), (3, 4, 0.3)) * 4
    rng, found = np.random.default_rng([seed, 7]), []
    for rank, width, min_angle in shapes:
        teacher = random_teacher(DIM, rank, width, min_angle, 0.1, seed=rng)
        decays = _decays(teacher)
        run = three_stage(
            PopulationRisk(teacher),
            _START_WIDTH,
            int(rng.integers(1000)),
            decays[0],
            len(decays),
            records_per_decade=4,
            certify=False,
        )
        found.append(Scene(teacher, tuple(optimal_measure_path(teacher, decays)), run))
    return tuple(found)


def _decays(teacher: Teacher) -> list[float]:
    """λ from half of what ZG Lemma F.4 allows (``|μ*|₁/‖p‖²``), halved as long as the gaps can be told from rounding.

    The constant matters: from λ = 0.02 and 100 neurons two of six runs left the local regime for good.
    """
    first = 0.5 * float(np.abs(teacher.outputs).sum()) / dual_certificate(teacher, 2).p_norm ** 2
    first = min(first, _LARGEST_DECAY)
    return [first / 2.0**k for k in range(int(np.log2(first / _SMALLEST_DECAY)) + 1)]


def nearby(effort: Effort) -> list[Near]:
    """All networks of all scenes."""
    return [near for scene in scenes(effort.quick, effort.seed) for near in (*scene.constructed, *scene.trained)]


def local(effort: Effort, low: float = 0.9, high: float = 1.1) -> list[Near]:
    """Those in ZG's local regime, ``low·λ² ≤ ζ ≤ high·λ^{9/5}``."""
    return [n for n in nearby(effort) if low * n.weight_decay**2 <= n.zeta <= high * n.weight_decay**1.8]
