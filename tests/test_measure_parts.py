"""The measure solver's parts: second derivatives, the mass problem, the search, the proof that covers the sphere."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import nnls

import wstar
from wstar.algorithms.nonnegative import nonnegative_masses
from wstar.algorithms.optimum.candidates import climb, distinct
from wstar.algorithms.optimum.frank_wolfe import certified_gap, frank_wolfe
from wstar.algorithms.optimum.gaussian_problem import CenteredAbs, GaussianProblem, PowerSeries
from wstar.algorithms.optimum.precise_gap import _dot, _residual
from wstar.algorithms.optimum.problem import Atoms, unit
from wstar.algorithms.optimum.result import find_clusters
from wstar.algorithms.optimum.sample_problem import SampleProblem
from wstar.algorithms.optimum.slide import _rise, merge, slide
from wstar.algorithms.optimum.sphere_cover import _cell_bounds, _dipoles, _third_derivative, bound_sup
from wstar.kernels.activations import ABS
from wstar.risks.precise import working_bits

KERNELS = [CenteredAbs(), PowerSeries(np.array([0.0, 0.0, 0.6, 0.3, 0.2, 0.05]))]


def drawn(kernel, rank=3, n=5, seed=0):
    rng = np.random.default_rng(seed)
    problem = GaussianProblem(kernel, unit(rng.standard_normal((4, rank))), rng.standard_normal(4), rank + 2)
    return problem, Atoms(rng.standard_normal(n), unit(rng.standard_normal((n, rank))))


def moved(atoms, change):
    """``w_i = |c_i|u_i`` shifted by ``√|c_i| ξ_i``, signs kept."""
    sizes = np.abs(atoms.masses)
    w = sizes[:, None] * atoms.directions + np.sqrt(sizes)[:, None] * change
    norms = np.linalg.norm(w, axis=1)
    return Atoms(np.sign(atoms.masses) * norms, w / norms[:, None])


@pytest.mark.parametrize("kernel", KERNELS)
def test_derivatives_against_central_differences(kernel):
    problem, atoms = drawn(kernel)
    gradient, hessian = problem.derivatives(atoms, 0.1)
    step = 1e-5
    for i in range(gradient.size):
        change = np.zeros(gradient.size)
        change[i] = step
        shifts = [moved(atoms, sign * change.reshape(atoms.directions.shape)) for sign in (1.0, -1.0)]
        up, down = (problem.objective(a, 0.1) for a in shifts)
        assert (up - down) / (2.0 * step) == pytest.approx(gradient[i], abs=1e-9)
        # gradients at the shifted points are scaled by their own √|c|: undo it before taking the difference
        rescaled = [
            problem.derivatives(a, 0.1)[0].reshape(atoms.directions.shape)
            * np.sqrt(np.abs(atoms.masses) / np.abs(a.masses))[:, None]
            for a in shifts
        ]
        assert ((rescaled[0] - rescaled[1]) / (2.0 * step)).ravel() == pytest.approx(hessian[i], abs=3e-8)


def test_derivatives_where_atoms_coincide_with_targets_and_each_other_are_finite():
    problem, _ = drawn(CenteredAbs())
    rows = np.concatenate([problem.targets, problem.targets[:1], -problem.targets[:1]])
    gradient, hessian = problem.derivatives(Atoms(np.ones(len(rows)), rows), 0.1)
    assert np.isfinite(gradient).all()
    # s = √(1−ρ²) has half the digits where ρ is 1 to rounding
    assert hessian == pytest.approx(hessian.T, abs=1e-7)


@pytest.mark.parametrize("kernel", KERNELS)
def test_field_expansion_along_geodesics(kernel):
    problem, atoms = drawn(kernel, seed=1)
    field = problem.field(atoms)
    rng = np.random.default_rng(2)
    points = unit(rng.standard_normal((20, 3)))
    tangent = rng.standard_normal(points.shape)
    tangent = unit(tangent - np.sum(tangent * points, axis=1, keepdims=True) * points)
    values, gradients, hessians = field.expansion(points)
    t = 1e-4
    up, down = (field.at(np.cos(t) * points + sign * np.sin(t) * tangent)[0] for sign in (1.0, -1.0))
    assert field.at(points)[0] == pytest.approx(values, abs=1e-14)
    assert (up - down) / (2 * t) == pytest.approx(np.sum(gradients * tangent, axis=1), abs=1e-7)
    bend = np.einsum("pi,pij,pj->p", tangent, hessians, tangent)
    assert (up - 2 * values + down) / t**2 == pytest.approx(bend, abs=1e-3)


@given(seed=st.integers(0, 10_000), n=st.integers(1, 25))
def test_masses_against_scipy(seed, n):
    rng = np.random.default_rng(seed)
    a, b = rng.standard_normal((n + 3, n)), rng.standard_normal(n + 3)
    mine = nonnegative_masses(a.T @ a, a.T @ b, np.zeros(n))
    assert mine == pytest.approx(nnls(a, b)[0], abs=1e-9)


def test_masses_of_indistinguishable_atoms_stay_finite_and_optimal():
    gram = np.ones((3, 3))
    masses = nonnegative_masses(gram, np.array([2.0, 2.0, 2.0]), np.zeros(3))
    assert (masses >= 0.0).all()
    assert masses.sum() == pytest.approx(2.0, abs=1e-9)


def test_climb_ends_at_the_largest_values_of_a_fine_grid():
    problem, atoms = drawn(CenteredAbs(), rank=2)
    field = problem.field(atoms)
    angle = np.linspace(0.0, np.pi, 20_001)
    grid = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    _, values = climb(field, grid[::500])
    assert np.abs(values).max() == pytest.approx(np.abs(field.at(grid)[0]).max(), abs=1e-7)
    assert np.abs(values).max() >= np.abs(field.at(grid)[0]).max() - 1e-14


def test_distinct_knows_that_a_sign_is_nothing_to_an_even_feature():
    rows = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [1.0, 1e-9]])
    assert list(distinct(rows, even=True)) == [0, 2]
    assert list(distinct(rows, even=False)) == [0, 1, 2]


def test_merge_joins_halves_and_leaves_different_neurons_alone():
    problem = GaussianProblem(CenteredAbs(), np.eye(3)[:2], np.array([1.0, -1.0]), 5)
    tilt = unit(np.array([[1.0, 1e-3, 0.0], [-1.0, 1e-3, 0.0], [0.0, 1.0, 0.0]]))
    atoms = Atoms(np.array([0.5, 0.49, -0.99]), tilt)
    joined = merge(problem, atoms, 1e-3)
    assert sorted(joined.masses) == pytest.approx([-0.99, 0.99], abs=1e-5)
    assert problem.objective(joined, 1e-3) < problem.objective(atoms, 1e-3)


def test_the_rise_of_a_merge_is_known_far_below_the_rounding_of_the_loss():
    """Masses of 1e-6 beside a loss of order one, against balls of 160 bits."""
    problem, atoms = drawn(CenteredAbs(), seed=8)
    rng = np.random.default_rng(9)
    change = Atoms(1e-6 * np.array([2.0, -1.0, -0.9]), unit(rng.standard_normal((3, 3))))
    targets = Atoms(problem.target_masses, problem.targets)
    moved_ = Atoms(*(np.concatenate(parts) for parts in zip(atoms, change, strict=True)))
    with working_bits(160):
        losses = [_dot(*_residual(problem.kernel, 1.0, targets, measure)[::2]) for measure in (atoms, moved_)]
        exact = float(losses[1] - losses[0])
    assert _rise(problem, problem.field(atoms), change) == pytest.approx(exact, abs=1e-20)
    assert abs(exact) > 1e-9


def test_slide_converges_quadratically_onto_the_teacher():
    """Started 0.05 away, six Newton steps are enough for what objective differences can tell (1e-9 in the gradient)."""
    targets = unit(np.array([[1.0, 0.2, 0.0], [0.0, 1.0, 0.3]]))
    problem = GaussianProblem(CenteredAbs(), targets, np.array([1.0, 0.6]), 4)
    start = Atoms(np.array([0.8, 0.8]), unit(problem.targets + 0.05))
    slid = slide(problem, start, 1e-3, tolerance=0.0, damping=1e-6, max_steps=40)
    assert slid.n_steps <= 6
    assert np.abs(problem.derivatives(slid.atoms, 1e-3)[0]).max() < 1e-9


@pytest.mark.parametrize("seed", range(4))
def test_one_coordinate_more_changes_nothing_when_no_atom_needs_it(seed):
    rng = np.random.default_rng(seed)
    problem = GaussianProblem(CenteredAbs(), unit(rng.standard_normal((5, 2))), rng.standard_normal(5), 9)
    extended = problem.extended()
    objectives = []
    for p in (problem, extended):
        solution = frank_wolfe(p, 0.01, Atoms.none(p.dim), tolerance=1e-12, rng=rng, max_iterations=40)
        assert solution.gap <= 1e-12
        objectives.append(p.objective(solution.atoms, 0.01) if p.dim == solution.atoms.directions.shape[1] else np.nan)
    assert objectives[0] == pytest.approx(objectives[1], abs=2e-12)
    assert GaussianProblem(CenteredAbs(), problem.targets, problem.target_masses, 2).extended() is None


def test_gap_formula_is_primal_less_dual():
    problem, atoms = drawn(CenteredAbs(), seed=3)
    weight_decay = 0.05
    sup, gap = certified_gap(problem, atoms, weight_decay, 7.5)
    square = problem.loss(atoms)
    inner = problem.field(atoms).at(problem.targets)[0] @ problem.target_masses
    p = -2.0 / (weight_decay * sup)
    dual = weight_decay * p * inner - 0.25 * weight_decay**2 * p**2 * square
    assert gap == pytest.approx(problem.objective(atoms, weight_decay) - dual, rel=1e-12)


def test_clusters_chain_and_ignore_dust():
    angle = np.array([0.0, 0.04, 0.08, 1.0, np.pi + 0.02])
    rows = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    clusters = find_clusters(np.array([1.0, 1.0, 1.0, 1e-7, 0.5]), rows)
    assert len(clusters) == 1
    assert sorted(clusters[0].indices) == [0, 1, 2, 4]
    assert clusters[0].mass == pytest.approx(3.5)
    assert len(find_clusters(np.array([1.0, 1.0, 1.0, 1e-5, 0.5]), rows, even=False)) == 3


# ------------------------------------------------------------------------------------------------ proven bounds


def geodesics(problem, atoms, rng, n=400):
    """Random points with random unit tangents."""
    points = unit(rng.standard_normal((n, problem.dim)))
    # half of the geodesics start beside a target or an atom, where the third derivative is largest
    near = np.concatenate([atoms.directions, problem.targets])
    beside = near[rng.integers(0, len(near), len(points[::2]))]
    points[::2] = unit(beside + 0.05 * rng.standard_normal(beside.shape))
    tangent = rng.standard_normal(points.shape)
    tangent = unit(tangent - np.sum(tangent * points, axis=1, keepdims=True) * points)
    return points, tangent


@pytest.mark.parametrize("displacement", [1e-4, 1e-2, 1.0])
def test_third_derivative_bound_holds_along_geodesics(displacement):
    """|Ψ(t) − second-order expansion| ≤ M t³/6, for atoms anywhere from on top of the targets to far away."""
    rng = np.random.default_rng(4)
    problem = GaussianProblem(CenteredAbs(), unit(rng.standard_normal((4, 3))), np.array([1.0, -0.7, 0.5, 1.2]), 5)
    directions = unit(problem.targets + displacement * rng.standard_normal((4, 3)))
    atoms = Atoms(problem.target_masses * (1.0 - displacement * rng.uniform(0.0, 0.5, 4)), directions)
    field, dipoles = problem.field(atoms), _dipoles(problem, atoms)
    ratios = []
    for reach in (0.02, 0.1, 0.4):
        points, tangent = geodesics(problem, atoms, rng)
        values, gradients, hessians = field.expansion(points)
        expansion = (
            values
            + reach * np.sum(gradients * tangent, axis=1)
            + 0.5 * reach**2 * np.einsum("pi,pij,pj->p", tangent, hessians, tangent)
        )
        actual = field.at(np.cos(reach) * points + np.sin(reach) * tangent)[0]
        bound = _third_derivative(dipoles, points, np.full(len(points), reach)) * reach**3 / 6.0
        assert (np.abs(actual - expansion) <= bound + 1e-15).all()
        ratios.append((np.abs(actual - expansion) / bound).max())
    assert max(ratios) > 0.02  # the bound is of the right order, not merely large


def test_cell_bounds_hold_in_every_corner_and_inside():
    problem, atoms = drawn(CenteredAbs(), seed=5)
    field, dipoles, rng = problem.field(atoms), _dipoles(problem, atoms), np.random.default_rng(6)
    for half in (0.25, 0.03):
        faces, centres = rng.integers(0, 3, 200), rng.uniform(-1.0 + half, 1.0 - half, (200, 2))
        bounds = _cell_bounds(field, dipoles, faces, centres, half, 0.1)
        corners = np.broadcast_to([[-1, -1], [-1, 1], [1, -1], [1, 1]], (200, 4, 2))
        inside = centres[:, None, :] + half * np.concatenate([rng.uniform(-1.0, 1.0, (200, 30, 2)), corners], axis=1)
        points = np.ones((200, 34, 3))
        for cell, face in enumerate(faces):
            points[cell][:, [axis for axis in range(3) if axis != face]] = inside[cell]
        eta = 20.0 * np.abs(field.at(unit(points.reshape(-1, 3)))[0]).reshape(200, 34)
        assert (eta.max(axis=1) <= bounds).all()


@pytest.mark.parametrize(("rank", "ambient"), [(2, 2), (2, 6), (3, 3), (3, 6)])
@pytest.mark.parametrize("seed", [0, 1])
def test_proven_bound_is_above_and_near_the_best_of_many_points(rank, ambient, seed):
    rng = np.random.default_rng(seed)
    targets = unit(rng.standard_normal((rank + 1, rank)))
    problem = GaussianProblem(CenteredAbs(), targets, rng.standard_normal(rank + 1), ambient)
    atoms = Atoms(rng.standard_normal(3), unit(rng.standard_normal((3, rank))))
    wide = problem.extended()
    lifted = wide is not None
    if lifted:
        problem, atoms = wide, Atoms(atoms.masses, np.pad(atoms.directions, ((0, 0), (0, 1))))
    best = 20.0 * np.abs(climb(problem.field(atoms), unit(rng.standard_normal((300, problem.dim))))[1]).max()
    bound = bound_sup(problem, atoms, 0.1, best * (1.0 + 1e-4), lifted=lifted)
    assert best <= bound <= best * (1.0 + 1e-4)


@pytest.mark.parametrize(("rank", "width", "weight_decay"), [(2, 3, 0.02), (3, 4, 0.02), (3, 4, 0.0025), (3, 4, 1e-5)])
def test_rigorous_result_agrees_with_the_search(rank, width, weight_decay):
    teacher = wstar.random_teacher(dim=10, rank=rank, width=width, min_angle=0.3, seed=1)
    found = wstar.optimal_measure(teacher, weight_decay)
    proof = wstar.optimal_measure(teacher, weight_decay, rigorous=True)
    assert proof.rigorous
    assert not found.rigorous
    assert proof.certificate_sup >= found.certificate_sup - 1e-12 / weight_decay
    assert proof.converged
    assert proof.duality_gap <= 1e-11
    assert abs(proof.objective - found.objective) <= 1e-11


# ------------------------------------------------------------------------------------------------ samples


@pytest.fixture(scope="module")
def sample():
    rng = np.random.default_rng(0)
    teacher = wstar.random_teacher(dim=5, rank=2, width=3, seed=4)
    X = rng.standard_normal((3000, 5))
    return teacher, wstar.EmpiricalRisk(X, teacher(X) + 0.1 * rng.standard_normal(3000))


def test_sample_derivatives_against_differences_within_one_activation_pattern():
    """20 rows and a step of 1e-7: no row changes sides, and the Hessian is exact there."""
    rng = np.random.default_rng(3)
    problem = SampleProblem(wstar.EmpiricalRisk(rng.standard_normal((20, 3)), rng.standard_normal(20)))
    atoms = Atoms(np.array([0.7, -1.1]), unit(rng.standard_normal((2, 3))))
    gradient, hessian = problem.derivatives(atoms, 0.1)
    for i in range(6):
        change = np.zeros(6)
        change[i] = 1e-7
        up, down = (moved(atoms, sign * change.reshape(2, 3)) for sign in (1.0, -1.0))
        slope = (problem.objective(up, 0.1) - problem.objective(down, 0.1)) / 2e-7
        assert slope == pytest.approx(gradient[i], abs=1e-7)
        rescaled = [
            problem.derivatives(a, 0.1)[0].reshape(2, 3) * np.sqrt(np.abs(atoms.masses / a.masses))[:, None]
            for a in (up, down)
        ]
        assert ((rescaled[0] - rescaled[1]) / 2e-7).ravel() == pytest.approx(hessian[i], abs=1e-6)


def test_sample_masses_and_loss_are_those_of_the_risk(sample):
    _, risk = sample
    problem = SampleProblem(risk)
    rng = np.random.default_rng(1)
    atoms = Atoms(rng.standard_normal(4), unit(rng.standard_normal((4, 5))))
    gram, correlation = problem.mass_problem(atoms.directions)
    of_risk = risk.mass_problem(ABS, atoms.directions)
    assert gram == pytest.approx(of_risk[0], abs=1e-12)
    assert correlation == pytest.approx(of_risk[1], abs=1e-12)
    c = atoms.masses
    assert problem.loss(atoms) == pytest.approx(problem.energy + c @ gram @ c - 2.0 * c @ correlation, abs=1e-12)


def test_sample_optimum_is_certified_against_fits_on_many_fixed_directions(sample):
    """The best masses on 400 random directions, and any one neuron added to the certifying measure, stay above."""
    _, risk = sample
    result = wstar.optimal_measure(risk, 0.02)
    problem, rng = SampleProblem(risk), np.random.default_rng(7)
    assert result.converged
    assert result.duality_gap <= 1e-4 * problem.energy
    assert risk.value(result.student, 0.02) == pytest.approx(result.objective, abs=1e-12)
    directions = unit(rng.standard_normal((400, 5)))
    # in the solver's units the features are |x·u|: twice ReLU's even part, so masses and weight decay change by two
    gram, correlation = problem.mass_problem(directions)
    for signs in (np.ones(400), rng.choice([-1.0, 1.0], 400)):
        sizes = nonnegative_masses(gram * np.outer(signs, signs), signs * correlation - 0.02, np.zeros(400))
        value = problem.energy + sizes @ (gram * np.outer(signs, signs)) @ sizes - 2.0 * (signs * correlation) @ sizes
        assert value + 0.04 * sizes.sum() >= result.dual_value
    certifying = Atoms(0.5 * result.dual_masses, result.dual_directions)
    psi = problem.field(certifying).at(directions)[0]
    gain = np.maximum(2.0 * np.abs(psi) - 0.04, 0.0) ** 2 / (4.0 * np.diag(gram))
    assert gain.max() <= result.neuron_gain + 1e-12


def test_sample_optimum_approaches_that_of_the_population():
    """By the envelope theorem the difference is the sample's fluctuation of R² at the population's optimum, to O(d/N).

    Five standard errors plus 3·energy·d/N: false alarms below one in a million.
    """
    teacher = wstar.random_teacher(dim=4, rank=2, width=2, min_angle=0.8, seed=2)
    X = np.random.default_rng(5).standard_normal((20_000, 4))
    risk = wstar.EmpiricalRisk(X, teacher(X))
    sample, population = wstar.optimal_measure(risk, 0.02), wstar.optimal_measure(teacher, 0.02)
    affine = wstar.PopulationRisk(teacher, preprocessed=False)
    fitted = affine.fit_affine(teacher.activation, population.student.measure)
    network = wstar.Student(population.student.outputs, population.student.weights, float(fitted.bias), fitted.linear)
    square = (network(X) - teacher(X)) ** 2
    allowed = 5.0 * square.std() / np.sqrt(len(X)) + 3.0 * 4.0 / len(X) * float(np.var(risk.y))
    assert abs(sample.objective - population.objective) <= allowed
    assert len(sample.clusters) == len(population.clusters) == 2


def test_degenerate_tables_run(sample):
    """A constant column, a repeated column, one row, one column: a defined answer each."""
    rng = np.random.default_rng(2)
    X = rng.standard_normal((200, 3))
    y = np.abs(X[:, 0])
    awkward = np.column_stack([X, np.ones(200), X[:, 0]])
    for rows, labels in ((awkward, y), (X[:1], y[:1]), (X[:, :1], y), (np.zeros((5, 2)), np.arange(5.0))):
        result = wstar.optimal_measure(wstar.EmpiricalRisk(rows, labels), 0.05)
        assert np.isfinite(result.objective)
        assert result.duality_gap >= 0.0


def test_sample_weights_count_rows(sample):
    _, risk = sample
    X, y = np.asarray(risk.X)[:300], np.asarray(risk.y)[:300]
    counts = np.random.default_rng(9).integers(0, 3, 300)
    weighted = wstar.optimal_measure(wstar.EmpiricalRisk(X, y, sample_weight=counts.astype(float)), 0.03)
    repeated = wstar.optimal_measure(wstar.EmpiricalRisk(np.repeat(X, counts, axis=0), np.repeat(y, counts)), 0.03)
    assert abs(weighted.objective - repeated.objective) <= weighted.duality_gap + repeated.duality_gap + 1e-12
