"""Kernels against quadrature, wide networks and their gradients; ridge against its definition; scikit-learn's rules."""

import subprocess
import sys
import warnings

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

from wstar import baselines
from wstar.baselines import KernelRidge, OneStepFeatures, RandomFeatures, SubspaceFeatures, memory, ridge
from wstar.baselines.kernels import GaussianKernel, NetworkKernel, PolynomialKernel, median_distance
from wstar.kernels.activations import ABS, RELU, leaky_relu
from wstar.kernels.hermite import coefficient_energy
from wstar.kernels.tails import tail_kernel

ACTIVATIONS = (RELU, ABS, leaky_relu(0.3))
FIRST = {activation.name: NetworkKernel(activation, values=False, slopes=True) for activation in ACTIVATIONS}
ESTIMATORS = [
    KernelRidge(),
    KernelRidge(layers="first"),
    KernelRidge(activation="abs"),
    KernelRidge(activation="abs", layers="first"),
    KernelRidge("nngp"),
    KernelRidge("nngp", activation="abs"),
    KernelRidge("rbf"),
    KernelRidge("polynomial", degree=3),
    RandomFeatures(60),
    RandomFeatures(60, activation="abs"),
    OneStepFeatures(60),
    OneStepFeatures(60, activation="abs"),
    SubspaceFeatures(60),
    SubspaceFeatures(60, activation="abs"),
]


def every_estimator(test):
    return pytest.mark.parametrize("model", ESTIMATORS, ids=repr)(test)


@pytest.mark.usefixtures("as_shipped")
@parametrize_with_checks(ESTIMATORS)
def test_scikit_learn_accepts_it(estimator, check):
    # equal rows and such in scikit-learn's own data are repaired with a warning that other tests look at
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=UserWarning)
        check(estimator)


def table(n=60, d=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    return X, np.abs(X).sum(axis=1) + X[:, 0] + 0.1 * rng.standard_normal(n)


# ---------------------------------------------------------------------- kernels


def quadrature(function, theta):
    """``E g(w)`` for g homogeneous of degree k on the plane of two unit vectors at angle theta, over the angle of w."""
    kinks = sorted({0.0, *((theta * i + 0.5 * np.pi + j * np.pi) % (2 * np.pi) for i in (0, 1) for j in (0, 1))})
    return mpmath.quad(function, [*kinks, 2 * mpmath.pi]) / (2 * mpmath.pi)


@pytest.mark.parametrize("activation", ACTIVATIONS, ids=lambda a: a.name)
@pytest.mark.parametrize("theta", [1e-6, 1e-3, 0.4, 1.3, 2.2, 3.0, 3.14159])
def test_network_kernels_are_their_integrals(activation, theta):
    x, z = 1.7 * np.array([[1.0, 0.0]]), 0.6 * np.array([[np.cos(theta), np.sin(theta)]])
    p, q = activation.positive, activation.negative

    def sigma(t):
        return p * t if t > 0 else -q * t

    def slope(t):
        return p if t > 0 else -q

    # E r² = 2 for the radius of w in the plane
    value = 1.7 * 0.6 * 2 * quadrature(lambda phi: sigma(mpmath.cos(phi)) * sigma(mpmath.cos(phi - theta)), theta)
    tangent = quadrature(lambda phi: slope(mpmath.cos(phi)) * slope(mpmath.cos(phi - theta)), theta)
    inner = (x @ z.T).item()
    first = NetworkKernel(activation, values=True, slopes=False)(x, z).item()
    second = NetworkKernel(activation, values=False, slopes=True)(x, z).item()
    assert first == pytest.approx(float(value), rel=0, abs=2e-13)
    assert second == pytest.approx(inner * float(tangent), rel=0, abs=2e-13)


def test_arc_cosine_kernels_as_cho_and_saul_print_them():
    rng = np.random.default_rng(1)
    X, Z = rng.standard_normal((5, 3)), rng.standard_normal((4, 3))
    lengths = np.linalg.norm(X, axis=1)[:, None] * np.linalg.norm(Z, axis=1)
    theta = np.arccos(X @ Z.T / lengths)
    values = NetworkKernel(RELU, values=True, slopes=False)(X, Z)
    slopes = NetworkKernel(RELU, values=False, slopes=True)(X, Z)
    printed = lengths / (2 * np.pi) * (np.sin(theta) + (np.pi - theta) * np.cos(theta))
    np.testing.assert_allclose(values, printed, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(slopes, X @ Z.T * (np.pi - theta) / (2 * np.pi), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("activation", ACTIVATIONS, ids=lambda a: a.name)
def test_network_kernels_agree_with_the_library_of_kernels(activation):
    rho = np.linspace(-1.0, 1.0, 101)
    X, Z = np.array([[1.0, 0.0]]), np.stack([rho, np.sqrt((1 - rho) * (1 + rho))], axis=1)
    value, slope = tail_kernel(activation, 0, rho)
    np.testing.assert_allclose(NetworkKernel(activation, values=True, slopes=False)(X, Z)[0], value, atol=3e-13)
    np.testing.assert_allclose(NetworkKernel(activation, values=False, slopes=True)(X, Z)[0], rho * slope, atol=3e-8)


@pytest.mark.parametrize("activation", [RELU, ABS], ids=lambda a: a.name)
@pytest.mark.parametrize("layers", ["first", "second", "both"])
def test_kernels_are_inner_products_of_the_gradients_of_a_wide_network(activation, layers):
    """12 pairs, means of 10⁵ neurons: |error| > 5 standard errors happens to 6e-7·12 < 1e-5 of the seeds."""
    rng = np.random.default_rng(3)
    m, d = 100_000, 5
    X = rng.standard_normal((4, d)).astype(np.float32)
    Z = rng.standard_normal((3, d)).astype(np.float32)
    a, W = rng.standard_normal(m).astype(np.float32), rng.standard_normal((m, d)).astype(np.float32)

    def network(parameters, x):
        outer, inner = parameters
        pre = inner @ x
        return outer @ (activation.even * jnp.abs(pre) + activation.odd * pre)

    gradients = jax.jit(jax.vmap(jax.grad(network), in_axes=(None, 0)))
    (ax, wx), (az, wz) = ([np.asarray(g, float) for g in gradients((a, W), rows)] for rows in (X, Z))
    outer, inner = ax[:, None] * az[None], np.einsum("nmd,kmd->nkm", wx, wz)
    each = {"first": inner, "second": outer, "both": inner + outer}[layers]
    kernel = NetworkKernel(activation, values=layers != "first", slopes=layers != "second")
    error = each.mean(axis=-1) - kernel(X.astype(float), Z.astype(float))
    assert (np.abs(error) < 5.0 * each.std(axis=-1) / np.sqrt(m)).all()


@pytest.mark.parametrize("name", ["ntk", "nngp", "rbf", "polynomial"])
@pytest.mark.parametrize("activation", ["relu", "abs"])
def test_diagonals_and_symmetry(name, activation):
    X, y = table(12)
    X[3] = X[4]
    kernel = KernelRidge(name, activation=activation, penalty=1.0).fit(X, y).kernel_
    gram = kernel(X, X)
    np.testing.assert_allclose(np.diag(gram), kernel.diagonal(X), rtol=1e-13)
    np.testing.assert_allclose(gram, gram.T, rtol=1e-13, atol=1e-14)
    assert np.linalg.eigvalsh(gram)[0] > -1e-12 * np.trace(gram)


@pytest.mark.parametrize("name", FIRST)
def test_almost_parallel_rows_keep_the_kernel_definite(name):
    """From ρ alone asin would be off by 1e-8 here, and so would be the smallest eigenvalue."""
    rng = np.random.default_rng(5)
    X = rng.standard_normal(6) + 1e-9 * rng.standard_normal((20, 6))
    gram = FIRST[name](np.vstack([X, -X]), np.vstack([X, -X]))
    assert np.linalg.eigvalsh(gram)[0] > -1e-13 * np.trace(gram)


def test_zero_rows_have_kernel_zero_and_leave_the_rest():
    X, _ = table(6)
    for kernel in (*FIRST.values(), NetworkKernel(RELU, values=True, slopes=True)):
        whole, with_zero = kernel(X, X), X.copy()
        with_zero[2] = 0.0
        gram = kernel(with_zero, with_zero)
        assert not gram[2].any()
        assert not gram[:, 2].any()
        others = np.delete(np.arange(6), 2)
        np.testing.assert_allclose(gram[np.ix_(others, others)], whole[np.ix_(others, others)], rtol=1e-14)


def test_gaussian_and_polynomial_kernels_are_what_they_say():
    X, _ = table(7)
    distances = np.linalg.norm(X[:, None] - X[None], axis=2)
    np.testing.assert_allclose(GaussianKernel(0.7, X.mean(axis=0))(X, X), np.exp(-(distances**2) / (2 * 0.49)))
    np.testing.assert_allclose(PolynomialKernel(3, 0.5, 2.0)(X, X), (0.5 + X @ X.T / 4.0) ** 3, rtol=1e-13)
    assert median_distance(X) == pytest.approx(np.median(distances[np.triu_indices(7, 1)]))
    assert median_distance(np.ones((4, 2))) == 1.0
    far = X + 1e6
    np.testing.assert_allclose(
        GaussianKernel(0.7, far.mean(axis=0))(far, far), np.exp(-(distances**2) / (2 * 0.49)), rtol=1e-7
    )


# ---------------------------------------------------------------------- ridge


@pytest.mark.parametrize("n", [2, 3, 25])
def test_leave_one_out_of_a_kernel_is_leaving_one_out(n):
    X, y = table(n)
    kernel = NetworkKernel(RELU, values=True, slopes=True)
    penalties = np.array([1e-4, 0.3, 50.0])
    residuals = ridge.kernel_leave_one_out(kernel(X, X), y, penalties)
    if n == 2:
        # one row is left: the intercept alone
        np.testing.assert_allclose(residuals, np.repeat([[y[0] - y[1]], [y[1] - y[0]]], 3, axis=1), rtol=1e-12)
        return
    for column, penalty in enumerate(penalties):
        for i in range(n):
            keep = np.arange(n) != i
            model = KernelRidge(penalty=penalty).fit(X[keep], y[keep])
            assert residuals[i, column] == pytest.approx(y[i] - model.predict(X[i : i + 1])[0], rel=1e-8, abs=1e-10)


def test_the_penalty_is_the_one_of_least_leave_one_out_error():
    X, y = table(40)
    model = KernelRidge("rbf").fit(X, y)
    for factor in (10**-0.25, 1.0, 10**0.25):
        other = KernelRidge("rbf", penalty=model.penalty_ * factor, bandwidth=model.kernel_.bandwidth)
        left = [y[i] - other.fit(np.delete(X, i, 0), np.delete(y, i)).predict(X[i : i + 1])[0] for i in range(40)]
        error = float(np.mean(np.square(left)))
        if factor == 1.0:
            assert model.leave_one_out_error_ == pytest.approx(error, rel=1e-9)
        else:
            assert error >= model.leave_one_out_error_


@pytest.mark.parametrize("n_features", [7, 90])
def test_leave_one_out_of_features_is_leaving_one_out(n_features):
    X, y = table(30)
    model = RandomFeatures(n_features).fit(X, y)
    given = RandomFeatures(n_features, penalty=model.penalty_)
    left = [y[i] - given.fit(np.delete(X, i, 0), np.delete(y, i)).predict(X[i : i + 1])[0] for i in range(30)]
    assert model.leave_one_out_error_ == pytest.approx(np.mean(np.square(left)), rel=1e-8)


@pytest.mark.parametrize("n_features", [7, 90])
def test_ridge_on_features_is_kernel_ridge_on_their_inner_products(n_features):
    X, y = table(30)
    model = RandomFeatures(n_features, activation=leaky_relu(0.2), penalty=0.01).fit(X, y)
    (_, features), *rest = model.features_.blocks(X)
    assert not rest
    linear = KernelRidge("polynomial", degree=1, offset=0.0, bandwidth=1.0, penalty=0.01).fit(features, y)
    np.testing.assert_allclose(model.predict(X), linear.predict(features), rtol=1e-9)


@pytest.mark.parametrize("activation", [RELU, ABS], ids=lambda a: a.name)
def test_random_features_have_the_arc_cosine_kernel_in_the_mean(activation):
    """36 pairs (21 different), means of 1500 features: |error| > 5 standard errors in under 2e-5 of the seeds."""
    X, y = table(6)
    model = RandomFeatures(1500, activation=activation, penalty=1.0).fit(X, y)
    ((_, features),) = model.features_.blocks(X)
    products = 1500 * features[:, None, :] * features[None, :, :]
    error = products.mean(axis=-1) - NetworkKernel(activation, values=True, slopes=False)(X, X) / 4
    assert (np.abs(error) < 5.0 * products.std(axis=-1) / np.sqrt(1500)).all()


def test_kernel_ridge_solves_its_equations():
    X, y = table(50)
    model = KernelRidge(penalty=0.2).fit(X, y)
    gram = model.kernel_(X, X)
    np.testing.assert_allclose(gram @ model.dual_coef_ + 0.2 * model.dual_coef_ + model.intercept_, y, rtol=1e-11)
    assert abs(model.dual_coef_.sum()) < 1e-11 * np.abs(model.dual_coef_).sum()


def test_a_large_table_chooses_its_penalty_on_some_rows(monkeypatch):
    X, y = table(300)
    monkeypatch.setattr("wstar.baselines.kernel_ridge._CHOOSING_ROWS", 100)
    some, whole = KernelRidge("nngp").fit(X, y), KernelRidge("nngp", penalty=1.0).fit(X, y)
    assert some.leave_one_out_error_ > 0.0
    assert whole.leave_one_out_error_ is None
    np.testing.assert_array_equal(some.dual_coef_, clone(some).fit(X, y).dual_coef_)
    assert not np.array_equal(some.dual_coef_, KernelRidge("nngp", random_state=1).fit(X, y).dual_coef_)


@pytest.mark.parametrize("seed", [0, 1])
def test_held_out_rows_take_the_penalty_near_where_new_rows_would(seed, monkeypatch):
    rng = np.random.default_rng(seed)
    X, new = rng.standard_normal((1500, 8)), rng.standard_normal((2000, 8))
    y, labels = np.abs(X).mean(axis=1) + 0.1 * rng.standard_normal(1500), np.abs(new).mean(axis=1)
    monkeypatch.setattr("wstar.baselines.kernel_ridge._CHOOSING_ROWS", 60)
    chosen = KernelRidge("nngp").fit(X, y).penalty_
    errors = [
        np.mean((KernelRidge("nngp", penalty=penalty).fit(X, y).predict(new) - labels) ** 2)
        for penalty in chosen * 10.0 ** np.arange(-3.0, 4.0)
    ]
    # the penalty matters here, and a decade beside the chosen one is hardly better
    assert max(errors) > 2.5 * min(errors)
    assert errors[3] < 1.2 * min(errors)


# ---------------------------------------------------------------------- invariances


def rotation(d, seed):
    return np.linalg.qr(np.random.default_rng(seed).standard_normal((d, d)))[0]


@given(seed=st.integers(0, 10**6), scale=st.floats(1e-5, 1e5))
def test_kernel_ridge_does_not_see_rotations_or_units(seed, scale):
    X, y = table(25, seed=seed % 7)
    turned = scale * X @ rotation(4, seed)
    for model in (KernelRidge(), KernelRidge("nngp", activation="abs"), KernelRidge("rbf"), KernelRidge("polynomial")):
        there, here = clone(model).fit(turned, y), clone(model).fit(X, y)
        np.testing.assert_allclose(there.predict(turned), here.predict(X), rtol=1e-6, atol=1e-7)


@given(scale=st.floats(1e-5, 1e5), shift=st.floats(-100.0, 100.0))
def test_predictions_follow_the_units_of_the_labels(scale, shift):
    X, y = table(25)
    for model in (KernelRidge(), RandomFeatures(30), OneStepFeatures(30), SubspaceFeatures(30, rank=2)):
        there, here = clone(model).fit(X, scale * y + shift), clone(model).fit(X, y)
        expected = scale * here.predict(X) + shift
        np.testing.assert_allclose(there.predict(X), expected, rtol=1e-6, atol=1e-6 * scale + 1e-9 * abs(shift))


@given(scale=st.floats(1e-5, 1e5))
def test_features_do_not_see_the_unit_of_the_inputs(scale):
    X, y = table(25)
    for model in (RandomFeatures(30), OneStepFeatures(30), SubspaceFeatures(30, rank=2)):
        there, here = clone(model).fit(scale * X, y), clone(model).fit(X, y)
        np.testing.assert_allclose(there.predict(scale * X), here.predict(X), rtol=1e-6, atol=1e-7)


@every_estimator
def test_predictions_in_blocks_are_the_predictions(model, monkeypatch):
    X, y = table(50)
    whole = clone(model).fit(X, y).predict(X)
    monkeypatch.setattr(ridge, "BLOCK_ENTRIES", 130)
    for module in ("kernel_ridge", "features"):
        monkeypatch.setattr(f"wstar.baselines.{module}.BLOCK_ENTRIES", 130)
    np.testing.assert_allclose(clone(model).fit(X, y).predict(X), whole, rtol=1e-9, atol=1e-9)


@every_estimator
def test_nothing_given_is_written_to_and_no_random_state_moves(model):
    X, y = table(40)
    kept = X.copy(), y.copy()
    X.setflags(write=False)
    y.setflags(write=False)
    before = [str(part) for part in np.random.get_state()]
    fitted = clone(model).fit(X, y)
    fitted.predict(X)
    np.testing.assert_array_equal(X, kept[0])
    np.testing.assert_array_equal(y, kept[1])
    assert before == [str(part) for part in np.random.get_state()]
    assert fitted.get_params() == model.get_params()
    np.testing.assert_array_equal(clone(model).fit(X, y).predict(X), fitted.predict(X))


@pytest.mark.parametrize(
    "state", [None, 3, np.random.default_rng(3), np.random.RandomState(3)], ids=lambda state: type(state).__name__
)
def test_every_kind_of_random_state_is_taken(state):
    X, y = table(30)
    model = RandomFeatures(5, random_state=state).fit(X, y)
    assert model.features_.directions.shape == (5, 4)
    np.testing.assert_allclose(np.linalg.norm(model.features_.directions, axis=1), 1.0, rtol=1e-14)


@every_estimator
@pytest.mark.parametrize(("n", "d"), [(2, 1), (2, 3), (3, 1), (5, 9)])
def test_tiny_tables(model, n, d):
    X, y = table(n, d)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=UserWarning)
        assert np.isfinite(clone(model).fit(X, y).predict(X)).all()


# ---------------------------------------------------------------------- what each one learns


def lmz_sample(n, d, seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    return X, np.abs(X @ rotation(d, 0)).mean(axis=1)


@pytest.mark.parametrize(("degree", "n"), [(2, 1000), (4, 1400)])
def test_a_polynomial_kernel_reaches_the_floor_of_its_degree_and_not_less(degree, n):
    """Residual energy Σ_{k>p} c_k/d is the least a polynomial of degree p leaves, for the orthonormal teacher.

    The test error is a mean over 40,000 fresh rows: below the floor by 5 standard errors in 3e-7 of the seeds. The
    excess is that of least squares on D = binom(d+p, p) monomials, about D/n of the floor (15/1000, 70/1400).
    """
    d = 4
    X, y = lmz_sample(n, d, 1)
    new, labels = lmz_sample(40_000, d, 2)
    squares = (KernelRidge("polynomial", degree=degree).fit(X, y).predict(new) - labels) ** 2
    floor = (1.0 - sum(coefficient_energy(k) for k in range(0, degree + 1, 2))) / d
    spread = 5.0 * squares.std() / np.sqrt(len(squares))
    assert floor - spread < squares.mean() < 1.15 * floor + spread


def test_an_even_kernel_predicts_an_even_function():
    X, y = table(40)
    for model in (KernelRidge(activation="abs"), RandomFeatures(50, activation="abs")):
        fitted = model.fit(X, y)
        np.testing.assert_allclose(fitted.predict(-X), fitted.predict(X), rtol=1e-12)


def few_directions(n, d, seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    return X, np.abs(X[:, 0]) - 0.8 * np.abs(X[:, :2] @ [0.6, 0.8]) + 0.5 * X[:, 3]


def test_the_subspace_is_found_and_pays():
    """Rank 2 in 20 dimensions; the eigenvalues stand several times above the noise of 4,000 rows."""
    X, y = few_directions(4000, 20, 0)
    new, labels = few_directions(4000, 20, 1)
    # of the two directions' second moments H = w₁w₁ᵀ − 0.8 w₂w₂ᵀ both eigenvalues are away from 0
    inside = SubspaceFeatures(300, activation="abs").fit(X, y)
    assert inside.rank_ == 2
    np.testing.assert_allclose(inside.subspace_ @ inside.subspace_.T, np.eye(2), atol=1e-12)
    assert np.linalg.svd(inside.subspace_[:, :2], compute_uv=False).min() > 0.95
    fixed = RandomFeatures(300).fit(X, y)
    assert inside.score(new, labels) > 0.9
    assert inside.score(new, labels) > fixed.score(new, labels)


def test_one_step_turns_the_features_towards_the_teacher():
    X, y = few_directions(4000, 20, 0)
    new, labels = few_directions(4000, 20, 1)
    step, fixed = OneStepFeatures(300).fit(X, y), RandomFeatures(300).fit(X, y)
    # a random direction has 2 of its 20 parts of squared length in the teacher's plane, in the mean
    share = np.square(step.features_.directions[:, :2]).sum(axis=1).mean()
    assert share > 0.5
    np.testing.assert_allclose(np.linalg.norm(step.features_.directions, axis=1), 1.0, rtol=1e-12)
    assert step.score(new, labels) > fixed.score(new, labels)


def test_one_step_is_the_gradient_of_the_network():
    X, y = table(200)
    model = OneStepFeatures(8, random_state=4).fit(X, y)
    start = RandomFeatures(8, random_state=4).fit(X, y).features_.directions
    left = y - np.column_stack([np.ones(200), X]) @ np.linalg.lstsq(np.column_stack([np.ones(200), X]), y)[0]

    def correlation(W):
        return jnp.mean(jnp.asarray(left)[:, None] * jax.nn.relu(jnp.asarray(X) @ W.T), axis=0).sum()

    with jax.enable_x64(True):
        gradient = np.array(jax.grad(correlation)(jnp.asarray(start)))
    gradient /= np.linalg.norm(gradient, axis=1, keepdims=True)
    cosines = np.sum(gradient * model.features_.directions, axis=1)
    np.testing.assert_allclose(np.abs(cosines), 1.0, rtol=1e-10)


def test_affine_labels_leave_one_step_and_subspace_nothing_to_do():
    X, _ = table(60)
    y = 2.0 + X @ np.arange(4.0)
    for model in (OneStepFeatures(20), SubspaceFeatures(20)):
        fitted = model.fit(X, y)
        np.testing.assert_allclose(fitted.affine_.linear, np.arange(4.0), atol=1e-12)
        np.testing.assert_allclose(fitted.predict(X), y, rtol=1e-9)


# ---------------------------------------------------------------------- trouble


def test_a_kernel_matrix_too_large_is_refused_before_it_is_made(monkeypatch):
    X, y = table(500)
    with pytest.raises(ValueError, match=r"kernel matrix of 500 rows needs 0\.\d+ GB and 0\.001 GB are allowed.*fewer"):
        KernelRidge(memory_limit=1e6).fit(X, y)
    with pytest.raises(ValueError, match=r"ridge on 2000 features of 4 columns needs .* take fewer features"):
        RandomFeatures(2000, memory_limit=1e6).fit(X, y)
    monkeypatch.setattr(memory, "available_bytes", lambda: 2e6)
    with pytest.raises(ValueError, match=r"0\.002 GB are free"):
        KernelRidge().fit(X, y)


@pytest.mark.parametrize("model", [OneStepFeatures(5), SubspaceFeatures(5)], ids=repr)
def test_too_many_columns_for_their_second_moments_are_refused(model):
    X = np.ones((3, 5000))
    with pytest.raises(ValueError, match="take fewer features, or fewer columns"):
        clone(model).set_params(memory_limit=1e9).fit(X, X[:, 0])
    assert np.isfinite(RandomFeatures(5, memory_limit=1e9).fit(X, X[:, 0]).predict(X)).all()


def test_a_million_rows_are_refused_at_once():
    X = np.zeros((1_000_000, 1))
    with pytest.raises(ValueError, match="kernel matrix of 1000000 rows needs 8e\\+03 GB"):
        KernelRidge().fit(X, X[:, 0])


def test_available_memory_is_the_least_that_anyone_allows(monkeypatch, tmp_path):
    assert 0 < memory.available_bytes() < 1e15
    monkeypatch.setattr(memory, "_CONTROL_GROUP", tmp_path)
    machine = memory.available_bytes()
    (tmp_path / "memory.current").write_text("1000\n")
    (tmp_path / "memory.max").write_text("max\n")
    assert memory.available_bytes() > 0.5 * machine
    (tmp_path / "memory.max").write_text("5000\n")
    assert memory.available_bytes() == 4000.0


@pytest.mark.parametrize("kernel", ["ntk", "nngp", "rbf", "polynomial"])
@pytest.mark.parametrize("rows", ["equal", "zero"])
def test_singular_problems_are_repaired_and_say_by_how_much(kernel, rows):
    X, y = table(30)
    X[10:20] = X[:10] if rows == "equal" else 0.0
    y[10:20] = y[:10] if rows == "equal" else y[10]
    with pytest.warns(UserWarning, match=r"singular to rounding .*: \d\.\de-\d\d was added to the penalty"):
        model = KernelRidge(kernel, degree=6, penalty=0.0).fit(X, y)
    assert 0.0 < model.jitter_ < 1e-8 * model.kernel_.diagonal(X).sum()
    # equal rows with equal labels and nothing else in the way: the labels are met
    np.testing.assert_allclose(model.predict(X), y, atol=1e-4)


@every_estimator
def test_equal_zero_and_constant_rows_are_no_trouble_with_a_chosen_penalty(model):
    X, y = table(30)
    X[5:9], X[20:] = X[4], 0.0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isfinite(clone(model).fit(X, y).predict(X)).all()
        for constant in (np.zeros_like(X), np.ones_like(X)):
            # also where it has never been: nothing is known there
            predicted = clone(model).fit(constant, y).predict(np.vstack([constant, X]))
            np.testing.assert_allclose(predicted, y.mean(), rtol=1e-9)


def test_a_penalty_of_zero_on_more_features_than_rows_is_repaired():
    X, y = table(30)
    with pytest.warns(UserWarning, match="was added to the penalty"):
        model = RandomFeatures(90, penalty=0.0).fit(X, y)
    np.testing.assert_allclose(model.predict(X), y, atol=1e-6)


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (KernelRidge("cubic"), "kernel='cubic'"),
        (KernelRidge(layers="second"), "layers='second'"),
        (KernelRidge(activation="tanh"), "activation='tanh'"),
        (KernelRidge("rbf", bandwidth=0.0), "bandwidth=0.0"),
        (KernelRidge("polynomial", degree=0), "degree=0"),
        (KernelRidge("polynomial", offset=-1.0), "offset=-1.0"),
        (KernelRidge(penalty=-1.0), "penalty=-1.0"),
        (KernelRidge(penalty=np.inf), "penalty=inf"),
        (RandomFeatures(0), "n_features=0"),
        (RandomFeatures(activation="tanh"), "activation='tanh'"),
        (SubspaceFeatures(rank=0), "rank=0"),
        (SubspaceFeatures(rank=5), "rank=5 is above the number of columns, 4"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
@pytest.mark.usefixtures("as_shipped")
def test_a_parameter_out_of_range_is_named(model, words):
    with pytest.raises(ValueError, match=words):
        model.fit(*table())


@every_estimator
@pytest.mark.parametrize("scale", [1e-160, 1e160])
def test_entries_whose_squares_are_out_of_range_are_refused(model, scale):
    X, y = table()
    with pytest.raises(ValueError, match=r"largest entry is \d\.\de[+-]\d+, whose square is out of range; rescale"):
        clone(model).fit(scale * X, y)


def test_kernel_values_that_overflow_are_refused():
    with pytest.raises(ValueError, match="kernel values overflow; rescale"):
        KernelRidge("polynomial", bandwidth=1e-60, degree=9).fit(*table())


def test_the_package_is_lazy_and_names_what_it_has():
    assert set(baselines.__all__) == set(dir(baselines))
    with pytest.raises(AttributeError, match="no attribute 'Ridge'"):
        baselines.Ridge  # noqa: B018
    script = "import sys, wstar.baselines; print('sklearn' in sys.modules, 'jax' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["False", "False"]
