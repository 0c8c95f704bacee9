"""Networks: geometry on constructed examples, promises of random teachers, files, starts, and bad input by name."""

import warnings
from dataclasses import FrozenInstanceError

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import wstar
from wstar.kernels.activations import ABS, RELU, HomogeneousActivation, leaky_relu
from wstar.networks.network import TwoLayer
from wstar.networks.parametrisation import Free, MeanField
from wstar.networks.span import span_basis
from wstar.networks.student import Student, gaussian_start, symmetric_start
from wstar.networks.teacher import Teacher, random_teacher


def in_plane(*degrees):
    """Unit vectors of the plane at these angles."""
    radians = np.radians(degrees)
    return np.stack([np.cos(radians), np.sin(radians)], axis=1)


def random_network(seed=0, width=5, dim=4, activation="relu", cls=Student):
    """A network with every part present."""
    rng = np.random.default_rng(seed)
    return cls(
        rng.standard_normal(width),
        rng.standard_normal((width, dim)),
        bias=rng.standard_normal(),
        linear=rng.standard_normal(dim),
        activation=activation,
    )


# ---------------------------------------------------------------------- the function itself


@pytest.mark.parametrize("activation", ["relu", "abs", "leaky_relu", HomogeneousActivation(0.5, 2.0)], ids=str)
def test_a_network_is_the_sum_that_defines_it(activation):
    network = random_network(activation=activation)
    X = np.random.default_rng(1).standard_normal((7, 4))
    right, left = network.activation.positive, network.activation.negative
    for x, value in zip(X, network(X), strict=True):
        expected = network.bias + network.linear @ x
        for a, w in zip(network.outputs, network.weights, strict=True):
            expected += a * (right * max(w @ x, 0.0) + left * max(-(w @ x), 0.0))
        assert value == pytest.approx(expected, rel=1e-13)


def test_measure_and_network_are_one_function():
    network = random_network()
    X = np.random.default_rng(1).standard_normal((50, 4))
    measure = network.measure
    np.testing.assert_allclose(np.linalg.norm(measure.directions, axis=1), 1.0, rtol=1e-15)
    again = TwoLayer(measure.masses, measure.directions, float(measure.bias), measure.linear, network.activation)
    np.testing.assert_allclose(again(X), network(X), rtol=1e-13, atol=1e-13)


def test_rows_in_blocks_equal_rows_at_once(monkeypatch):
    network, X = random_network(), np.random.default_rng(1).standard_normal((50, 4))
    whole = network(X)
    monkeypatch.setattr("wstar.networks.network._BLOCK_ENTRIES", 35)
    np.testing.assert_allclose(network(X), whole, rtol=1e-14)


def test_arrays_are_copied_frozen_and_leave_the_inputs_alone():
    outputs, weights, linear = np.ones(2), 2.0 * np.eye(2), np.ones(2)
    before = [a.copy() for a in (outputs, weights, linear)]
    for cls in (Student, Teacher):
        network = cls(outputs, weights, linear=linear)
        for array in (network.outputs, network.weights, network.linear):
            with pytest.raises(ValueError, match="read-only"):
                array[0] = 7.0
        with pytest.raises(FrozenInstanceError):
            network.bias = 3.0
        outputs[0], weights[0, 0], linear[0] = 9.0, 9.0, 9.0
        assert network.masses[0] == 2.0
        assert network.linear[0] == 1.0
        for array, kept in zip((outputs, weights, linear), before, strict=True):
            array[...] = kept


def test_lists_whole_numbers_and_single_precision_become_float64():
    network = Student([1, 2], [[3, 4], [0, 1]], linear=np.array([1.0, 2.0], dtype=np.float32))
    for array in (network.outputs, network.weights, network.linear, network([[1, 1]])):
        assert array.dtype == np.float64
    assert network.masses[0] == 5.0


def test_a_zero_neuron_has_no_mass_and_no_direction():
    network = Student(np.array([1.0, 5.0]), np.array([[3.0, 4.0], [0.0, 0.0]]))
    np.testing.assert_array_equal(network.masses, [5.0, 0.0])
    np.testing.assert_allclose(network.directions, [[0.6, 0.8], [0.0, 0.0]])


@pytest.mark.parametrize("dim", [1, 3])
@pytest.mark.parametrize("width", [1, 2])
def test_one_neuron_one_input_one_row(dim, width):
    network = random_network(width=width, dim=dim)
    assert network(np.ones((1, dim))).shape == (1,)
    assert network(np.ones((0, dim))).shape == (0,)


@given(seed=st.integers(0, 2**31))
def test_round_trip_through_plain_arrays(seed):
    network = random_network(seed, activation=leaky_relu(0.25))
    again = Student.from_arrays(network.to_arrays())
    for name in ("outputs", "weights", "linear"):
        np.testing.assert_array_equal(getattr(again, name), getattr(network, name))
    assert again.bias == network.bias
    assert again.activation == network.activation


# ---------------------------------------------------------------------- geometry of a teacher


def test_orthonormal_teacher():
    teacher = Teacher(np.array([1.0, -0.7, 1.3]), np.eye(3, 5))
    assert teacher.rank == 3
    assert teacher.separation == pytest.approx(np.pi / 2, rel=1e-15)
    assert teacher.kappa == pytest.approx(0.7, rel=1e-14)
    assert teacher.violated_assumptions() == []


@pytest.mark.parametrize(("degrees", "outputs"), [((0, 50, 100), (1, -2, 3)), ((0, 20), (1, 1)), ((10, 175), (1, -1))])
def test_planar_teacher_against_dense_linear_algebra(degrees, outputs):
    rotation = np.linalg.qr(np.random.default_rng(3).standard_normal((6, 6)))[0]
    weights = in_plane(*degrees) @ rotation[:2]
    teacher = Teacher(np.array(outputs, float), weights)
    gaps = [abs(a - b) % 180 for i, a in enumerate(degrees) for b in degrees[:i]]
    assert teacher.separation == pytest.approx(np.radians(min(min(g, 180 - g) for g in gaps)), rel=1e-12)
    assert teacher.rank == 2
    spectrum = np.linalg.eigvalsh(sum(a * np.outer(w, w) for a, w in zip(outputs, weights, strict=True)))
    # H lives in a plane: all but two of its eigenvalues are zero
    assert teacher.kappa == pytest.approx(np.sort(np.abs(spectrum))[-2], rel=1e-12)


def test_rows_are_normalised_into_the_outputs():
    weights = np.array([[3.0, 4.0], [0.0, -2.0]])
    teacher = Teacher(np.array([1.0, -1.0]), weights)
    np.testing.assert_allclose(np.linalg.norm(teacher.weights, axis=1), 1.0, rtol=1e-15)
    np.testing.assert_allclose(teacher.outputs, [5.0, -2.0])
    X = np.random.default_rng(0).standard_normal((20, 2))
    np.testing.assert_allclose(teacher(X), TwoLayer(np.array([1.0, -1.0]), weights)(X), rtol=1e-14)


def test_one_neuron_is_separated_from_none():
    teacher = Teacher(np.array([2.0]), np.array([[0.0, 1.0]]))
    assert (teacher.rank, teacher.separation, teacher.kappa) == (1, np.pi / 2, 2.0)


BALANCED = np.array([1.0, 1.0, -1.0, -1.0])


@pytest.mark.parametrize(
    ("outputs", "weights", "linear", "activation", "exponent"),
    [
        # E y x = ½ Σ a_i w_i for ReLU, nothing for |·|
        ((1.0, -1.0), in_plane(0, 90), None, RELU, 1),
        ((1.0, -1.0), in_plane(0, 90), None, ABS, 2),
        ((1.0, -1.0), in_plane(0, 90), (-0.5, 0.5), RELU, 2),
        ((1.0, -1.0), in_plane(0, 90), (0.3, 0.0), ABS, 1),
        # H = I − I, and the fourth moments of the two crosses differ
        (BALANCED, in_plane(0, 90, 45, 135), None, ABS, 4),
        # two opposite triangles against each other: even orders cancel pairwise, ReLU's odd ones vanish above 1
        ((1.0, -1.0), in_plane(0, 180), None, ABS, None),
        # 8 and 8 directions that interleave: the first order that tells them apart is 8
        (np.repeat([1.0, -1.0], 4), in_plane(0, 45, 90, 135, 22.5, 67.5, 112.5, 157.5), None, ABS, 8),
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_information_exponent_of_constructed_teachers(outputs, weights, linear, activation, exponent):
    linear = np.zeros(2) if linear is None else np.array(linear)
    teacher = Teacher(np.array(outputs), weights, linear=linear, activation=activation)
    assert teacher.information_exponent == exponent
    rotation = np.linalg.qr(np.random.default_rng(0).standard_normal((5, 5)))[0][:2]
    turned = Teacher(np.array(outputs), weights @ rotation, linear=linear @ rotation, activation=activation)
    assert turned.information_exponent == exponent


def test_a_good_teacher_is_silent():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Teacher(np.array([1.0, -1.0]), in_plane(0, 60))


@pytest.mark.filterwarnings("ignore:H = :UserWarning")
@pytest.mark.parametrize(
    ("outputs", "weights", "message"),
    [
        ((1.0, 1.0), in_plane(30, 30), "parallel"),
        ((1.0, 2.0), in_plane(30, 210), "parallel"),
        ((1.0, 0.0), in_plane(0, 90), "neuron 1 has output 0"),
        ((1.0, 1.0, -1.0, -1.0), in_plane(0, 90, 45, 135), "degenerate in the span"),
        # H = I − vvᵀ, whose kernel is v
        ((1.0, 1.0, -1.0), in_plane(0, 90, 30), "degenerate in the span"),
    ],
)
def test_a_broken_assumption_is_named(outputs, weights, message):
    with pytest.warns(UserWarning, match=message):
        Teacher(np.array(outputs), weights)


# ---------------------------------------------------------------------- random teachers


@given(
    seed=st.integers(0, 2**63 - 1),
    dim=st.integers(1, 60),
    rank=st.integers(1, 5),
    extra=st.integers(0, 3),
    signs=st.sampled_from(["mixed", "positive", "negative"]),
)
def test_a_random_teacher_is_what_was_asked_for(seed, dim, rank, extra, signs):
    rank = min(rank, dim)
    # in one dimension all directions are parallel
    width = 1 if rank == 1 else rank + extra
    teacher = random_teacher(dim, rank, width, min_angle=0.2, min_kappa=0.05, seed=seed, signs=signs)
    assert (teacher.dim, teacher.width, teacher.rank) == (dim, width, rank)
    assert teacher.separation >= 0.2 * (1.0 - 1e-12)
    assert teacher.kappa >= 0.05 * (1.0 - 1e-9)
    size = np.abs(teacher.outputs)
    assert ((size >= 0.5 - 1e-12) & (size <= 1.5 + 1e-12)).all()
    if signs == "mixed" and width > 1:
        assert set(np.sign(teacher.outputs)) == {-1.0, 1.0}
    elif signs != "mixed":
        assert (np.sign(teacher.outputs) == (1.0 if signs == "positive" else -1.0)).all()
    assert teacher.violated_assumptions() == []


def test_random_teachers_of_many_seeds_differ_and_repeat():
    first = [random_teacher(seed=seed) for seed in range(40)]
    again = [random_teacher(seed=np.random.default_rng(seed)) for seed in range(40)]
    for a, b in zip(first, again, strict=True):
        np.testing.assert_array_equal(a.weights, b.weights)
        np.testing.assert_array_equal(a.outputs, b.outputs)
    assert len({t.weights.tobytes() for t in first}) == 40
    assert min(t.separation for t in first) >= 0.3
    assert min(t.kappa for t in first) >= 0.1 * (1.0 - 1e-9)


def test_directions_of_random_teachers_have_no_preferred_axis():
    weights = np.concatenate([random_teacher(dim=4, rank=2, width=2, seed=seed).weights for seed in range(400)])
    # E wwᵀ = I/d; w_i² and w_i w_j have standard deviations 1/4 and 0.2 at d = 4, and there are 400 independent planes:
    # ten entries within five standard errors, which chance breaks less than once in 10⁵
    np.testing.assert_allclose(weights.T @ weights / len(weights), np.eye(4) / 4, atol=5 * 0.25 / np.sqrt(400))


@pytest.mark.usefixtures("as_shipped")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"dim": 0}, "dim=0 must be a whole number"),
        ({"dim": 2.5}, "dim=2.5 must be a whole number"),
        ({"width": True}, "width=True must be a whole number"),
        ({"rank": float("nan")}, "rank=nan must be a whole number"),
        ({"rank": "three"}, "rank='three' must be a whole number"),
        ({"dim": 2, "rank": 3}, "rank=3 is above dim=2"),
        ({"rank": 5, "width": 4}, "rank=5 is above width=4"),
        ({"min_angle": -0.1}, "min_angle=-0.1"),
        ({"min_angle": 2.0}, "min_angle=2.0"),
        ({"min_angle": float("nan")}, "min_angle=nan"),
        ({"min_kappa": -1.0}, "min_kappa=-1.0"),
        ({"min_kappa": float("inf")}, "min_kappa=inf"),
        ({"signs": "both"}, "signs='both'"),
        ({"activation": "tanh"}, "activation='tanh'"),
        ({"rank": 2, "width": 4, "min_angle": 1.2}, "min_angle=1.2 cannot be met by 4 neurons in rank 2"),
        ({"rank": 1, "width": 2}, "min_angle=0.3 cannot be met by 2 neurons in rank 1"),
        ({"rank": 1, "width": 1, "min_kappa": 9.0}, "min_kappa=9.0 was not met"),
    ],
)
def test_impossible_random_teachers_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        random_teacher(**arguments)


# ---------------------------------------------------------------------- teacher files


@pytest.mark.parametrize("activation", ["relu", "abs", "leaky_relu", HomogeneousActivation(0.5, 2.0)], ids=str)
def test_teacher_through_npz(tmp_path, activation):
    teacher = random_network(activation=activation, cls=Teacher)
    np.savez(tmp_path / "teacher.npz", **teacher.to_arrays())
    again = Teacher.load(tmp_path / "teacher.npz")
    # normalising rows that have unit length already may move them by a rounding
    np.testing.assert_allclose(again.outputs, teacher.outputs, rtol=1e-15)
    np.testing.assert_allclose(again.weights, teacher.weights, rtol=1e-15)
    np.testing.assert_array_equal(again.linear, teacher.linear)
    assert again.bias == teacher.bias
    assert again.activation == teacher.activation


@pytest.mark.parametrize("table", ["", "[teacher]\n"])
def test_teacher_from_toml(tmp_path, table):
    file = tmp_path / "teacher.toml"
    file.write_text(table + "outputs = [1, -2.5]\nweights = [[1, 0, 0], [0, 3.0, 4.0]]\nactivation = 'abs'\nbias = 1\n")
    teacher = Teacher.load(str(file))
    np.testing.assert_allclose(teacher.outputs, [1.0, -12.5])
    np.testing.assert_allclose(teacher.weights, [[1, 0, 0], [0, 0.6, 0.8]])
    assert (teacher.bias, teacher.activation) == (1.0, ABS)
    file.write_text("outputs = [1]\nweights = [[1, 0]]\nlinear = [0.5, 1]\nactivation = [1.0, -0.25]\n")
    teacher = Teacher.load(file)
    np.testing.assert_array_equal(teacher.linear, [0.5, 1.0])
    assert teacher.activation == leaky_relu(0.25)


@pytest.mark.usefixtures("as_shipped")
@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.toml", "outputs = [1]", r"entries \['outputs'\]: outputs and weights are needed"),
        ("t.toml", "outputs = [1]\nweights = [[1]]\nwieghts = 3", "wieghts"),
        ("t.toml", "outputs = [1", "not valid TOML"),
        ("t.toml", "outputs = [1, 2]\nweights = [[1, 0], [1]]", "weights must be numbers, in rows of one length"),
        ("t.toml", "outputs = ['a']\nweights = [[1]]", "outputs must be numbers"),
        ("t.toml", "outputs = [1]\nweights = [[1]]\nbias = [1, 2]", "bias must be one number"),
        ("t.toml", "outputs = [1]\nweights = [[1]]\nactivation = 3", "activation must be a name or the two slopes"),
        ("t.toml", "outputs = [1]\nweights = [[1]]\nactivation = [1, 2, 3]", "activation must be a name"),
        ("t.toml", "outputs = [1]\nweights = [[1]]\nactivation = 'tanh'", "activation='tanh'"),
        ("t.toml", "outputs = [nan]\nweights = [[1]]", "outputs holds 1 NaN or infinite values"),
        ("t.toml", "teacher = 3", r"entries \['teacher'\]"),
        ("t.npz", "no archive", "not a readable .npz"),
        ("t.json", "{}", "expected .npz or .toml"),
        ("absent.npz", None, "does not exist"),
    ],
)
def test_bad_teacher_files_are_refused_by_name(tmp_path, name, content, message):
    if content is not None:
        (tmp_path / name).write_text(content)
    with pytest.raises(ValueError, match=message) as error:
        Teacher.load(tmp_path / name)
    assert "\n" not in str(error.value)


# ---------------------------------------------------------------------- bad arrays


@pytest.mark.usefixtures("as_shipped")
@pytest.mark.parametrize("cls", [TwoLayer, Student, Teacher])
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"weights": np.ones(3)}, r"weights has shape \(3,\): one row per neuron"),
        ({"weights": np.ones((0, 3))}, r"weights has shape \(0, 3\)"),
        ({"weights": np.ones((3, 0))}, r"weights has shape \(3, 0\)"),
        ({"outputs": np.ones(2)}, r"outputs has shape \(2,\), weights \(3, 2\): one output per row"),
        ({"outputs": np.ones((3, 1))}, r"outputs has shape \(3, 1\)"),
        ({"linear": np.ones(3)}, r"linear has shape \(3,\); with weights \(3, 2\) it must be \(2,\)"),
        ({"weights": np.array([[1, 0], [0, np.nan], [1, 1]])}, "weights holds 1 NaN .* first in neuron 1"),
        ({"outputs": np.array([1, 1, np.inf])}, "outputs holds 1 NaN .* first in neuron 2"),
        ({"linear": np.array([np.nan, np.nan])}, "linear holds 2 NaN .* first in input 0"),
        ({"bias": np.inf}, "bias=inf must be a finite number"),
        ({"activation": "sigmoid"}, "activation='sigmoid': choose one of"),
    ],
)  # fmt: skip
def test_arrays_that_do_not_fit_are_refused_by_name(cls, arguments, message):
    good = {"outputs": np.ones(3), "weights": np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])}
    with pytest.raises(ValueError, match=message) as error:
        cls(**(good | arguments))
    assert "\n" not in str(error.value)


@pytest.mark.usefixtures("as_shipped")
def test_a_teacher_neuron_without_direction_is_refused():
    with pytest.raises(ValueError, match="teacher neuron 1 is zero"):
        Teacher(np.ones(2), np.array([[1.0, 0.0], [0.0, 0.0]]))


@pytest.mark.usefixtures("as_shipped")
@pytest.mark.parametrize("X", [np.ones(4), np.ones((3, 5)), np.ones((2, 2, 4))], ids=lambda X: str(X.shape))
def test_inputs_of_another_shape_are_refused(X):
    with pytest.raises(ValueError, match="rows of length 4 are expected"):
        random_network()(X)


# ---------------------------------------------------------------------- students and starts


@pytest.mark.parametrize("activation", ["relu", "abs"])
def test_mean_field_student_is_its_definition(activation):
    weights = np.random.default_rng(0).standard_normal((6, 3))
    X = np.random.default_rng(1).standard_normal((9, 3))
    student = Student.from_mean_field(weights, activation)
    pre = X @ weights.T
    expected = np.mean(
        np.linalg.norm(weights, axis=1) * (np.abs(pre) if activation == "abs" else np.maximum(pre, 0)), 1
    )
    np.testing.assert_allclose(student(X), expected, rtol=1e-14)
    np.testing.assert_allclose(student.masses, np.sum(weights**2, axis=1) / 6, rtol=1e-14)
    with jax.enable_x64(True):
        measure = MeanField(weights).measure()
    np.testing.assert_allclose(measure.masses, student.masses, rtol=1e-14)
    np.testing.assert_allclose(measure.directions, student.directions, rtol=1e-14)
    assert float(measure.bias) == 0.0
    again = Student.from_parameters(MeanField(weights), activation)
    np.testing.assert_array_equal(again.weights, student.weights)


def test_parameters_round_trip():
    student = random_network()
    again = Student.from_parameters(student.parameters, student.activation)
    for name in ("outputs", "weights", "linear", "bias"):
        np.testing.assert_array_equal(getattr(again, name), getattr(student, name))
    with jax.enable_x64(True):
        measure = Free(*student.parameters).measure()
    np.testing.assert_allclose(measure.masses, student.masses, rtol=1e-15)


@given(seed=st.integers(0, 2**31))
def test_balancing_changes_no_value_and_equals_the_norms(seed):
    student = random_network(seed)
    dead = Student(
        np.append(student.outputs, 0.0), np.vstack([student.weights, np.ones(4)]), student.bias, student.linear
    )
    balanced = dead.balanced()
    X = np.random.default_rng(1).standard_normal((30, 4))
    np.testing.assert_allclose(balanced(X), student(X), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(np.abs(balanced.outputs), balanced.norms, rtol=1e-14)
    # the balanced one is the cheapest representation: 2 Σ|c_i| = ‖a‖² + ‖W‖² there, less than at any other
    penalty = np.sum(balanced.outputs**2) + np.sum(balanced.weights**2)
    assert penalty == pytest.approx(2.0 * np.abs(student.masses).sum(), rel=1e-13)
    assert not balanced.weights[-1].any()


@given(seed=st.integers(0, 2**31), half=st.integers(1, 20), dim=st.integers(1, 30))
def test_symmetric_start_is_the_zero_function(seed, half, dim):
    student = symmetric_start(2 * half, dim, seed)
    assert (student.width, student.dim) == (2 * half, dim)
    np.testing.assert_array_equal(student.outputs[:half], -student.outputs[half:])
    np.testing.assert_array_equal(student.weights[:half], student.weights[half:])
    np.testing.assert_allclose(np.abs(student.outputs), np.sqrt(dim), rtol=1e-15)
    np.testing.assert_allclose(student.norms, 1.0 / np.sqrt(2 * half), rtol=1e-14)
    values = student(np.random.default_rng(0).standard_normal((5, dim)))
    assert np.abs(values).max() <= 1e-13 * np.sqrt(dim) * half
    again = symmetric_start(2 * half, dim, np.random.default_rng(seed))
    np.testing.assert_array_equal(again.weights, student.weights)


def test_starts_have_their_distribution():
    weights = gaussian_start(4000, 25, seed=0)
    # mean of 10⁵ squares of N(0, 1/25): five standard errors are 5·√2/√10⁵/25, chance breaks it once in 10⁶
    assert np.mean(weights**2) == pytest.approx(1 / 25, abs=5 * np.sqrt(2 / weights.size) / 25)
    signs = np.sign(symmetric_start(20_000, 2, seed=0).outputs[:10_000])
    assert abs(signs.mean()) <= 5 / np.sqrt(10_000)


@pytest.mark.usefixtures("as_shipped")
@pytest.mark.parametrize("width", [0, -2, 2.5, True, "two"])
def test_starts_refuse_widths_that_are_none(width):
    for start in (symmetric_start, gaussian_start):
        with pytest.raises(ValueError, match=f"width={width!r} must be a whole number"):
            start(width, 3)
        with pytest.raises(ValueError, match="dim=0"):
            start(4, 0)
    with pytest.raises(ValueError, match="width=7 must be even"):
        symmetric_start(7, 3)


# ---------------------------------------------------------------------- span


@given(seed=st.integers(0, 2**31), rank=st.integers(1, 6), n=st.integers(1, 12))
def test_span_basis_is_orthonormal_and_holds_every_row(seed, rank, n):
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((n, rank)) @ rng.standard_normal((rank, 30))
    rows *= 10.0 ** rng.integers(-8, 9, (n, 1))
    basis = span_basis(rows, np.zeros((2, 30)), rows[0])
    assert basis.shape == (min(rank, n), 30)
    np.testing.assert_allclose(basis @ basis.T, np.eye(len(basis)), atol=1e-13)
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    np.testing.assert_allclose(unit @ basis.T @ basis, unit, atol=1e-12)


def test_span_of_nothing_is_empty():
    assert span_basis(np.zeros((3, 4))).shape == (0, 4)


def test_public_names_are_these_objects():
    assert wstar.Teacher is Teacher
    assert wstar.Student is Student
    assert wstar.random_teacher is random_teacher
    assert wstar.symmetric_start is symmetric_start
    assert wstar.gaussian_start is gaussian_start
