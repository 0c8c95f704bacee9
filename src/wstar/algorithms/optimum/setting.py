"""From the user's problem to the solver's units and back: features |·|, masses times the even factor, span only."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from wstar.algorithms.optimum.gaussian_problem import CenteredAbs, GaussianProblem, PowerSeries
from wstar.algorithms.optimum.problem import Atoms, MeasureProblem, unit
from wstar.algorithms.optimum.result import OptimalMeasure
from wstar.algorithms.optimum.sample_problem import SampleProblem
from wstar.kernels.activations import HermiteActivation, HomogeneousActivation, homogeneous
from wstar.networks.network import Measure, TwoLayer
from wstar.networks.span import span_basis
from wstar.networks.student import Student
from wstar.networks.teacher import Teacher
from wstar.risks.base import Risk
from wstar.risks.empirical import EmpiricalRisk
from wstar.risks.population import PopulationRisk


@dataclass(frozen=True, eq=False)
class Setting:
    """A problem in the solver's units: features |·| (or σ itself), masses times ``scale``, rows of ``basis``.

    ``targets`` are the teacher's atoms with rows in the user's own space; none for a sample.
    """

    problem: MeasureProblem
    basis: Float[np.ndarray, "k d"]
    scale: float
    targets: Atoms | None
    risk: Risk | None
    activation: HomogeneousActivation | None

    def to_atoms(self, start: OptimalMeasure | TwoLayer | None) -> Atoms:
        """A warm start in the solver's coordinates; what leaves the span is projected onto it.

        Raises:
            ValueError: it lives in another dimension.
        """
        if start is None:
            return Atoms.none(self.problem.dim)
        if start.directions.shape[1] != self.basis.shape[1]:
            raise ValueError(
                f"warm_start lives in {start.directions.shape[1]} dimensions and the problem in {self.basis.shape[1]}: "
                "start from a network of the same inputs"
            )
        inside = start.directions @ self.basis.T
        length = np.linalg.norm(inside, axis=1)
        keep = (length > 1e-6) & (start.masses != 0.0)
        return Atoms(self.scale * (start.masses * length)[keep], unit(inside[keep]))

    def from_atoms(self, atoms: Atoms) -> Atoms:
        """Masses and directions of the user's problem, heaviest first."""
        order = np.argsort(-np.abs(atoms.masses), kind="stable")
        basis, missing = self.basis, atoms.directions.shape[1] - len(self.basis)
        if missing > 0:
            # coordinates outside the span: any orthonormal completion serves, the risk sees angles only
            draws = np.random.default_rng(0).standard_normal((missing, basis.shape[1]))
            completed = np.linalg.qr(np.concatenate([basis, draws]).T)[0].T
            basis = np.concatenate([basis, completed[len(basis) :]])
        return Atoms(atoms.masses[order] / self.scale, unit(atoms.directions[order] @ basis))

    def student(self, atoms: Atoms) -> Student | None:
        """A measure of the user's problem as a balanced network, affine part fitted."""
        if self.risk is None or self.activation is None or not atoms.masses.size:
            return None
        bare = Measure(*atoms, np.zeros(()), np.zeros(atoms.directions.shape[1]))
        affine = self.risk.fit_affine(self.activation, bare)
        return Student(*atoms, float(affine.bias), np.asarray(affine.linear), self.activation).balanced()


def read_setting(
    problem: Teacher | Risk, activation: HomogeneousActivation | HermiteActivation | str | None
) -> Setting:
    """The solver's problem.

    Raises:
        ValueError: an activation or problem of the wrong kind.
    """
    if isinstance(activation, HermiteActivation):
        if not isinstance(problem, Teacher):
            raise ValueError("a HermiteActivation needs the Teacher itself as problem: a risk has its own activation")
        return _hermite_setting(problem, activation)
    if isinstance(problem, Teacher):
        chosen = problem.activation if activation is None else homogeneous(activation)
        problem = PopulationRisk(problem)
    else:
        chosen = homogeneous("relu" if activation is None else activation)
    if isinstance(problem, PopulationRisk):
        targets = Atoms(problem.masses, problem.directions)
        basis, inside = _span(targets)
        inner = GaussianProblem(CenteredAbs(), inside, targets.masses, problem.dim)
        return Setting(inner, basis, chosen.even, targets, problem, chosen)
    if isinstance(problem, EmpiricalRisk):
        return Setting(SampleProblem(problem), np.eye(problem.dim), chosen.even, None, problem, chosen)
    raise ValueError(f"problem is a {type(problem).__name__}: give a Teacher, a PopulationRisk or an EmpiricalRisk")


def _hermite_setting(teacher: Teacher, activation: HermiteActivation) -> Setting:
    energies = np.array(activation.hermite) ** 2
    energies[:2] = 0.0
    if not energies.any():
        raise ValueError("activation has no Hermite order above 1: nothing of the teacher remains to be fitted")
    targets = Atoms(teacher.masses, teacher.directions)
    basis, inside = _span(targets)
    inner = GaussianProblem(PowerSeries(energies), inside, targets.masses, teacher.dim)
    return Setting(inner, basis, 1.0, targets, None, None)


def _span(targets: Atoms) -> tuple[Float[np.ndarray, "k d"], Float[np.ndarray, "m k"]]:
    basis = span_basis(targets.directions)
    return basis, unit(targets.directions @ basis.T)
