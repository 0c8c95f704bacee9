"""The certified optimum over measures: closed forms, other solvers, the optimality conditions, invariances."""

import warnings

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import lars_path_gram

import wstar
from wstar.kernels.activations import HermiteActivation

K_ONE = 0.25 - 0.5 / np.pi
TEACHER = wstar.random_teacher(dim=5, rank=3, width=4, seed=6)


@pytest.fixture(scope="module")
def optimum():
    return wstar.optimal_measure(TEACHER, 0.01)


def relu_kernel(rho):
    """K_{≥2} of ReLU, written again here."""
    rho = np.clip(rho, -1.0, 1.0)
    return (np.sqrt(1.0 - rho**2) + rho * np.arcsin(rho) - 1.0) / (2.0 * np.pi)


def residual_sums(masses, directions, teacher, points):
    """``Ψ`` at points and ``‖R‖²`` from the definition."""
    centres = np.concatenate([directions, teacher.weights])
    signed = np.concatenate([masses, -teacher.outputs])
    return relu_kernel(points @ centres.T) @ signed, signed @ relu_kernel(centres @ centres.T) @ signed


def primal(masses, directions, teacher, weight_decay):
    return residual_sums(masses, directions, teacher, directions)[1] + weight_decay * np.abs(masses).sum()


def exact_primal(result, teacher):
    """The objective at 40 digits, every row brought to length one there."""
    with mpmath.workdps(40):
        rows = [[mpmath.mpf(float(x)) for x in row] for row in np.concatenate([result.directions, teacher.directions])]
        rows = [[x / mpmath.norm(row) for x in row] for row in rows]
        signed = [mpmath.mpf(float(c)) for c in np.concatenate([result.masses, -teacher.masses])]
        total = mpmath.mpf(result.weight_decay) * mpmath.fsum(abs(c) for c in signed[: len(result.masses)])
        for c, u in zip(signed, rows, strict=True):
            for b, v in zip(signed, rows, strict=True):
                rho = min(max(mpmath.fdot(u, v), mpmath.mpf(-1)), mpmath.mpf(1))
                total += c * b * (mpmath.sqrt(1 - rho**2) + rho * mpmath.asin(rho) - 1) / (2 * mpmath.pi)
        return float(total)


def dual(result, teacher, weight_decay, sup):
    """``λ⟨p, f⟩ − (λ²/4)‖p‖²`` at ``p = −2R/(λ max(1, sup))``, term by term."""
    c, u = result.dual_masses, result.dual_directions
    psi_teacher, square = residual_sums(c, u, teacher, teacher.weights)
    scale = -2.0 / (weight_decay * max(1.0, sup))
    return weight_decay * scale * (teacher.outputs @ psi_teacher) - 0.25 * weight_decay**2 * scale**2 * square


@pytest.mark.parametrize("output", [0.7, -1.3])
@pytest.mark.parametrize("weight_decay", [1e-3, 0.02])
def test_one_neuron_is_shrunk_by_the_closed_form(output, weight_decay):
    teacher = wstar.Teacher([output], [[0.6, 0.8, 0.0]])
    result = wstar.optimal_measure(teacher, weight_decay)
    mass = output - np.sign(output) * weight_decay / (2.0 * K_ONE)
    assert result.masses == pytest.approx([mass], abs=1e-12)
    assert np.abs(result.directions @ [0.6, 0.8, 0.0]) == pytest.approx([1.0], abs=1e-14)
    assert result.objective == pytest.approx(weight_decay * abs(output) - weight_decay**2 / (4.0 * K_ONE), abs=1e-15)
    assert result.converged
    assert result.duality_gap >= 0.0


def test_above_the_largest_useful_weight_decay_nothing_is_left():
    teacher = wstar.Teacher([0.7], [[0.6, 0.8]])
    result = wstar.optimal_measure(teacher, 2.01 * 0.7 * K_ONE)
    assert result.masses.size == 0
    assert result.clusters == ()
    assert result.student is None
    assert result.objective == pytest.approx(0.49 * K_ONE, rel=1e-14)
    assert result.duality_gap == 0.0
    assert result.certificate_sup == pytest.approx(1.0 / 1.005, rel=1e-12)


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("weight_decay", [0.02, 1e-3])
def test_gap_on_the_circle_against_every_direction_of_a_fine_grid(seed, weight_decay):
    teacher = wstar.random_teacher(dim=2, rank=2, width=3, seed=seed)
    result = wstar.optimal_measure(teacher, weight_decay)
    angle = np.linspace(0.0, np.pi, 40_001)
    grid = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    psi, _ = residual_sums(result.dual_masses, result.dual_directions, teacher, grid)
    sup = 2.0 / weight_decay * np.abs(psi).max()
    assert sup <= result.certificate_sup + 1e-13 / weight_decay
    assert primal(result.masses, result.directions, teacher, weight_decay) == pytest.approx(result.objective, abs=2e-15)
    bound = dual(result, teacher, weight_decay, result.certificate_sup)
    assert result.objective - bound == pytest.approx(result.duality_gap, abs=2e-15)
    assert result.duality_gap <= result.tolerance == 1e-11


@pytest.mark.parametrize("weight_decay", [0.02, 1e-3])
def test_a_dense_grid_lasso_comes_near_from_above(weight_decay):
    """On 720 fixed directions the objective is higher by O(h²) = O(2e-5) times λ·Σ|c|, and never below the dual."""
    teacher = wstar.random_teacher(dim=2, rank=2, width=3, seed=4)
    angle = np.arange(720) * np.pi / 720
    grid = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    gram, correlation = relu_kernel(grid @ grid.T), relu_kernel(grid @ teacher.weights.T) @ teacher.outputs
    _, _, path = lars_path_gram(
        Xy=correlation.copy(), Gram=gram.copy(), n_samples=1, alpha_min=0.5 * weight_decay, method="lasso"
    )
    on_grid = primal(path[:, -1], grid, teacher, weight_decay)
    result = wstar.optimal_measure(teacher, weight_decay)
    assert result.dual_value <= on_grid + 1e-15
    assert on_grid - result.objective <= 2e-5 * weight_decay * np.abs(result.masses).sum()


@pytest.mark.parametrize(("rank", "width", "weight_decay"), [(3, 4, 0.02), (3, 4, 1e-5), (4, 6, 5e-3)])
def test_sup_in_the_ball_of_the_span_against_random_search(rank, width, weight_decay):
    """Directions that leave the span see it only through their part inside: 100,000 of these are tried."""
    teacher = wstar.random_teacher(dim=12, rank=rank, width=width, seed=3)
    result = wstar.optimal_measure(teacher, weight_decay)
    rng = np.random.default_rng(5)
    points = rng.standard_normal((100_000, 12)) @ np.linalg.svd(teacher.weights)[2].T
    points[:, rank:] *= rng.uniform(0.0, 1.0, (len(points), 1))
    points = points / np.linalg.norm(points, axis=1, keepdims=True) @ np.linalg.svd(teacher.weights)[2]
    psi, _ = residual_sums(result.dual_masses, result.dual_directions, teacher, points)
    assert 2.0 / weight_decay * np.abs(psi).max() <= result.certificate_sup + 1e-13 / weight_decay
    assert result.converged


@pytest.mark.parametrize("seed", [0, 1, 7])
@pytest.mark.parametrize("weight_decay", [0.02, 2.5e-3, 3e-4, 1e-5])
def test_optimality_conditions_of_the_certifying_measure(seed, weight_decay):
    """``−(2/λ)Ψ(u_i) = sign c_i`` and Ψ is stationary at every atom, within what the gap leaves free."""
    teacher = wstar.random_teacher(dim=20, rank=3, width=4, min_angle=0.3, seed=seed)
    result = wstar.optimal_measure(teacher, weight_decay)
    assert result.converged
    assert -1e-15 <= result.duality_gap <= 1e-11
    c, u = result.dual_masses, result.dual_directions
    eta = -2.0 / weight_decay * residual_sums(c, u, teacher, u)[0]
    # gap ≥ λ|c_i|(1 − sign(c_i)η_i/s) term by term
    excess = np.abs(c) * (1.0 - np.sign(c) * eta / max(1.0, result.certificate_sup))
    assert (excess >= -1e-13 / weight_decay).all()
    assert weight_decay * excess.sum() <= 1e-11
    assert np.abs(eta).max() <= result.certificate_sup + 1e-13 / weight_decay


@pytest.mark.parametrize("seed", [0, 5, 9, 14])
def test_a_tiny_weight_decay_leaves_one_cluster_per_teacher_neuron(seed):
    """Three of these teachers have O(λ) masses far from every neuron at the exact optimum; the gap has room without."""
    teacher = wstar.random_teacher(dim=20, rank=3, width=4, min_angle=0.3, seed=seed)
    result = wstar.optimal_measure(teacher, 1e-5)
    assert len(result.clusters) == 4
    found = np.array([cluster.centre for cluster in result.clusters])
    cosine = np.abs(found @ teacher.weights.T)
    owner = cosine.argmax(axis=1)
    assert sorted(owner) == [0, 1, 2, 3]
    assert cosine.max(axis=1).min() > np.cos(2e-3)
    assert [cluster.mass for cluster in result.clusters] == pytest.approx(list(teacher.outputs[owner]), abs=5e-3)


def test_rotated_teacher_gives_the_rotated_measure():
    teacher = wstar.random_teacher(dim=9, rank=3, width=4, seed=11)
    rotation = np.linalg.qr(np.random.default_rng(0).standard_normal((9, 9)))[0]
    turned = wstar.Teacher(teacher.outputs, teacher.weights @ rotation.T)
    one, two = (wstar.optimal_measure(t, 1e-3, seed=seed) for t, seed in ((teacher, 0), (turned, 1)))
    assert abs(one.objective - two.objective) <= one.duality_gap + two.duality_gap + 1e-15
    centres = [np.array([cluster.centre for cluster in result.clusters]) for result in (one, two)]
    assert len(centres[0]) == len(centres[1])
    assert np.abs(centres[0] @ rotation.T @ centres[1].T).max(axis=1).min() > 1.0 - 1e-6


def test_space_without_room_beyond_the_span_gives_the_same_optimum():
    wide = wstar.random_teacher(dim=6, rank=3, width=4, seed=2)
    basis = np.linalg.svd(wide.weights)[2][:3]
    narrow = wstar.Teacher(wide.outputs, wide.weights @ basis.T)
    one, two = (wstar.optimal_measure(t, 2.5e-3) for t in (wide, narrow))
    assert abs(one.objective - two.objective) <= one.duality_gap + two.duality_gap + 1e-15


@pytest.mark.parametrize("activation", ["relu", "abs", "leaky_relu"])
def test_student_reaches_the_objective(activation):
    """The balanced network of the answer has exactly the measure's objective, and its population field is flat."""
    teacher = wstar.random_teacher(dim=7, rank=2, width=3, seed=8, activation=activation)
    result = wstar.optimal_measure(teacher, 5e-3)
    risk = wstar.PopulationRisk(teacher)
    assert risk.value(result.student, 5e-3) == pytest.approx(result.objective, abs=1e-14)
    slope = risk.gradient(result.student, 5e-3)
    assert np.abs(slope.outputs).max() < 1e-6
    assert np.abs(slope.weights).max() < 1e-6
    of_risk = wstar.optimal_measure(risk, 5e-3, activation=activation)
    assert of_risk.objective == pytest.approx(result.objective, abs=1e-11)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10_000), width=st.integers(1, 12), scale=st.floats(0.05, 2.0))
def test_no_network_is_below_the_dual_value(optimum, seed, width, scale):
    rng = np.random.default_rng(seed)
    teacher, result = TEACHER, optimum
    near = teacher.weights[rng.integers(0, 4, width)] + scale * rng.standard_normal((width, 5)) / np.sqrt(5)
    student = wstar.Student(rng.standard_normal(width), near).balanced()
    risk = wstar.PopulationRisk(teacher)
    fitted = risk.fit_affine(student.activation, student.measure)
    student = wstar.Student(student.outputs, student.weights, float(fitted.bias), np.asarray(fitted.linear))
    assert risk.value(student, 0.01) >= result.dual_value - 1e-15


def test_path_is_monotone_and_warm_starts_agree_with_cold_ones():
    teacher = wstar.random_teacher(dim=10, rank=3, width=4, seed=0)
    decays = [0.05, 0.02, 5e-3, 1e-3, 1e-4]
    path = wstar.optimal_measure_path(teacher, decays)
    assert [result.weight_decay for result in path] == decays
    objective = np.array([result.objective for result in path])
    mass = np.array([np.abs(result.masses).sum() for result in path])
    loss = objective - np.array(decays) * mass
    assert (np.diff(objective) < 0.0).all()
    assert (np.diff(mass) > 0.0).all()
    assert (np.diff(loss) < 0.0).all()
    for result in path[1:]:
        cold = wstar.optimal_measure(teacher, result.weight_decay)
        assert abs(cold.objective - result.objective) <= cold.duality_gap + result.duality_gap + 1e-15
    again = wstar.optimal_measure(teacher, 1e-4, warm_start=path[-1])
    assert again.n_iterations < wstar.optimal_measure(teacher, 1e-4).n_iterations
    by_student = wstar.optimal_measure(teacher, 1e-4, warm_start=path[-1].student)
    assert abs(by_student.objective - again.objective) <= 2e-11


@pytest.mark.parametrize("hermite", [(0.3, 1.0, 0.5, 0.0, -0.4), (0.0, 0.2, 0.3, 0.6), (0.1, 0.0, 0.0, 1.0, 0.0, 0.3)])
def test_hermite_activations_shrink_one_neuron_by_the_closed_form(hermite):
    """``K(1) = Σ_{k≥2} σ̂_k²``; odd orders tell u from −u."""
    teacher = wstar.Teacher([1.2], [[0.0, 0.6, -0.8]])
    energy = float(np.sum(np.square(hermite[2:])))
    result = wstar.optimal_measure(teacher, 0.05, activation=HermiteActivation(hermite))
    assert result.objective == pytest.approx(0.05 * 1.2 - 0.05**2 / (4.0 * energy), abs=1e-12)
    assert np.abs(result.masses).sum() == pytest.approx(1.2 - 0.05 / (2.0 * energy), abs=1e-9)
    assert result.converged
    assert result.student is None


def test_hermite_coefficients_of_relu_give_what_relu_gives():
    """The first 400 orders leave out ``Σ_{k≥400} σ̂_k² ≈ (0.508/4) 400^{−3/2}/3`` of K(1)."""
    teacher = wstar.random_teacher(dim=4, rank=2, width=2, min_angle=0.8, seed=3)
    relu = wstar.optimal_measure(teacher, 0.02)
    series = HermiteActivation(tuple(teacher.activation.coefficients(400)))
    cut = wstar.optimal_measure(teacher, 0.02, activation=series)
    tail = 0.25 * 0.508 / 3.0 * 400**-1.5
    assert 0.0 <= relu.objective - cut.objective <= 2.0 * tail * np.abs(teacher.outputs).sum() ** 2


@pytest.mark.parametrize("bad", [0.0, -1e-3, float("nan"), float("inf")])
def test_weight_decay_that_is_no_positive_number_is_refused(bad):
    with pytest.raises(ValueError, match="weight_decay"):
        wstar.optimal_measure(TEACHER, bad)


def test_bad_input_is_refused_by_name(as_shipped):
    with pytest.raises(ValueError, match="tolerance"):
        wstar.optimal_measure(TEACHER, 0.01, tolerance=float("nan"))
    with pytest.raises(ValueError, match="max_iterations"):
        wstar.optimal_measure(TEACHER, 0.01, max_iterations=0)
    with pytest.raises(ValueError, match="problem is a str"):
        wstar.optimal_measure("teacher", 0.01)
    with pytest.raises(ValueError, match="warm_start"):
        wstar.optimal_measure(TEACHER, 0.01, warm_start=wstar.Student([1.0], [[1.0, 0.0]]))
    with pytest.raises(ValueError, match="HermiteActivation"):
        wstar.optimal_measure(wstar.PopulationRisk(TEACHER), 0.01, activation=HermiteActivation((0.0, 0.0, 1.0)))
    with pytest.raises(ValueError, match="order above 1"):
        wstar.optimal_measure(TEACHER, 0.01, activation=HermiteActivation((1.0, 1.0)))
    with pytest.raises(ValueError, match="rigorous"):
        wstar.optimal_measure(wstar.random_teacher(dim=8, rank=4, width=4), 0.01, rigorous=True)
    # the covering's constants are those of the 1-homogeneous kernel
    with pytest.raises(ValueError, match="rigorous"):
        wstar.optimal_measure(TEACHER, 0.01, rigorous=True, activation=HermiteActivation((0.0, 0.0, 1.0)))
    with pytest.raises(ValueError, match="neuron 1"):
        wstar.optimal_measure(wstar.Teacher([1.0, 1.0], [[1.0, 0.0], [0.0, 0.0]]), 0.01)
    for weight in (float("nan"), float("inf")):
        with pytest.raises(ValueError, match=r"weights"):
            wstar.optimal_measure(TEACHER, 0.01, warm_start=wstar.Student([1.0], [[weight, 0.0, 0.0, 0.0, 0.0]]))


def test_parallel_and_silent_teacher_neurons_are_what_they_amount_to():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        weights = [[1.0, 0.0, 0.0], [-2.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.6, 0.8, 0.0]]
        doubled = wstar.Teacher([0.5, 0.7, 0.0, 0.9], weights)
    plain = wstar.Teacher([1.9, 0.9], [[1.0, 0.0, 0.0], [0.6, 0.8, 0.0]])
    one, two = (wstar.optimal_measure(t, 1e-3) for t in (doubled, plain))
    assert abs(one.objective - two.objective) <= one.duality_gap + two.duality_gap + 1e-15
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        silent = wstar.Teacher([0.0, 0.0], [[1.0, 0.0], [0.0, 1.0]])
    nothing = wstar.optimal_measure(silent, 1e-3)
    assert nothing.objective == 0.0
    assert nothing.masses.size == 0
    assert nothing.converged


@pytest.mark.parametrize("kwargs", [{"max_iterations": 1}, {"tolerance": 1e-18}])
def test_a_warning_comes_exactly_when_the_gap_is_above_the_tolerance(kwargs):
    teacher = wstar.random_teacher(dim=5, rank=3, width=4, seed=0)
    with pytest.warns(UserWarning, match="duality gap"):
        result = wstar.optimal_measure(teacher, 0.02, **kwargs)
    assert not result.converged
    assert result.duality_gap > result.tolerance
    assert "converged" not in result.reason
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loose = wstar.optimal_measure(teacher, 0.02, tolerance=1e-6)
    assert loose.converged
    assert loose.duality_gap <= 1e-6


def test_same_seed_same_bits_and_nothing_else_is_touched():
    state = np.random.get_state()[1].copy()
    first, second = (wstar.optimal_measure(TEACHER, 0.01, seed=3) for _ in range(2))
    assert np.array_equal(first.masses, second.masses)
    assert np.array_equal(first.directions, second.directions)
    assert np.array_equal(np.random.get_state()[1], state)


@pytest.mark.parametrize(("rank", "width", "weight_decay", "gap"), [(4, 8, 1e-3, 1e-10)])
def test_higher_rank(rank, width, weight_decay, gap):
    teacher = wstar.random_teacher(dim=20, rank=rank, width=width, min_angle=0.3, seed=2)
    result = wstar.optimal_measure(teacher, weight_decay)
    assert result.duality_gap <= gap
    # with Σ|c| near 20, sums in float64 are themselves wrong by more than this
    assert abs(exact_primal(result, teacher) - result.objective) <= 5e-15
