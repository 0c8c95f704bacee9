"""Kernels, Hermite coefficients and angles against their definitions in 40-digit arithmetic and by quadrature."""

import json
from itertools import pairwise, product
from pathlib import Path

import jax
import jax.numpy as jnp
import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import erf, expit

from wstar.kernels import gram
from wstar.kernels.activations import (
    ABS,
    RELU,
    CenteredAbsKernel,
    HermiteActivation,
    HomogeneousActivation,
    PowerSeriesKernel,
    homogeneous,
    leaky_relu,
)
from wstar.kernels.angles import angles, arcsine, versine
from wstar.kernels.cpu import SMALL, on_one_core
from wstar.kernels.hermite import (
    abs_coefficients,
    coefficient_energy,
    function_coefficients,
    gauss_hermite,
    hermite_values,
    relu_coefficients,
)
from wstar.kernels.tails import tail_energy, tail_kernel
from wstar.precision import double_precision

HOMOGENEOUS = [RELU, ABS, leaky_relu(), leaky_relu(0.3), HomogeneousActivation(0.5, 2.0)]
SMOOTH = {
    "tanh": np.tanh,
    "softplus": lambda x: np.logaddexp(0.0, x),
    "gelu": lambda x: 0.5 * x * (1.0 + erf(x / np.sqrt(2.0))),
    "sigmoid": expit,
}
ORACLE = json.loads((Path(__file__).parent / "data" / "population.json").read_text())


def in_forty_digits(function, points):
    """``function`` of each point, rounded once, from 40-digit arithmetic."""
    with mp.workdps(40):
        return np.array([float(function(mp.mpf(float(x)))) for x in points])


@double_precision
def kernel_values(kernel, rho):
    """K and K' as NumPy arrays."""
    radial, slope = kernel.radial_and_slope(jnp.asarray(rho, float))
    assert radial.dtype == slope.dtype == jnp.float64
    return np.asarray(radial + rho * slope), np.asarray(slope)


# ---------------------------------------------------------------------- angles


def hard_points():
    """Inner products where a shortcut would show: the seam at ±1/2, both ends ulp by ulp, tiny values."""
    random = np.random.default_rng(0).uniform(-1.0, 1.0, 3000)
    seam = 0.5 + np.arange(-200, 201) * 2.0**-54
    ends = np.concatenate([1.0 - 2.0 ** -np.arange(1.0, 54.0), 1.0 - np.arange(200) * 2.0**-53])
    tiny = 10.0 ** -np.arange(0.0, 300.0, 5.0)
    half = np.concatenate([random, seam, ends, tiny, [0.0]])
    return np.concatenate([half, -half])


def test_arcsine_is_right_to_two_units_in_the_last_place():
    rho = hard_points()
    with jax.enable_x64(True):
        angle = np.asarray(jax.jit(arcsine)(rho))
    exact = in_forty_digits(mp.asin, rho)
    error = np.abs(angle - exact)
    assert (error <= 2.0 * np.spacing(np.abs(exact))).all()
    assert error.max() <= 2.3e-16


def test_versine_is_right_to_two_units_in_the_last_place_however_small_the_angle():
    angle = np.concatenate([np.linspace(-0.5 * np.pi, 0.5 * np.pi, 4001), 10.0 ** -np.arange(0.0, 150.0, 2.0), [0.0]])
    with jax.enable_x64(True):
        computed = np.asarray(jax.jit(versine)(angle))
    # 1 − cos t = 2 sin²(t/2): the form that does not cancel
    exact = in_forty_digits(lambda t: 2 * mp.sin(t / 2) ** 2, angle)
    assert (np.abs(computed - exact) <= 2.0 * np.spacing(np.abs(exact))).all()


@pytest.mark.parametrize("shape", [(), (1,), (2,), (7,), (1, 9), (5, 4), (4, 3, 2), (300, 130)])
def test_a_loop_kept_on_one_core_gives_the_same_bits(shape):
    with jax.enable_x64(True):
        x = jnp.asarray(np.random.default_rng(0).uniform(-1.0, 1.0, shape))
        kept = jax.jit(lambda x: on_one_core(arcsine, x))
        assert np.array_equal(kept(x), jax.jit(arcsine)(x))
        # both orders of differentiation and a batch dimension go through it
        assert np.array_equal(jax.vmap(kept)(x[None])[0], kept(x))
        slope = jax.jit(jax.grad(lambda x: jnp.sum(kept(x))))(x)
        np.testing.assert_allclose(slope, 1.0 / np.sqrt(1.0 - np.asarray(x) ** 2), rtol=1e-11)


def test_arcsine_takes_rounding_beyond_one_as_one():
    beyond = np.array([1.0, np.nextafter(1.0, 2.0), 1.0 + 1e-12])
    with jax.enable_x64(True):
        for sign in (1.0, -1.0):
            angle = arcsine(jnp.asarray(sign * beyond))
            assert (np.asarray(angle) == sign * 0.5 * np.pi).all()
            assert np.asarray(versine(angle)) == pytest.approx(1.0, abs=2.3e-16)


@pytest.mark.parametrize("true_angle", [1e-1, 1e-3, 1e-6, 1e-9, 1e-12, 1e-15])
def test_angles_keep_all_digits_of_a_small_angle(true_angle):
    # in a plane of coordinates nothing is rounded before the angle itself
    u, v = np.array([[1.0, 0.0]]), np.array([[np.cos(true_angle), np.sin(true_angle)]])
    assert angles(u, v)[0, 0] == pytest.approx(true_angle, rel=1e-15)
    assert angles(u, -v)[0, 0] == pytest.approx(true_angle, rel=1e-15)
    assert angles(3.0 * u, 1e-5 * v, modulo_sign=False)[0, 0] == pytest.approx(true_angle, rel=1e-12, abs=3e-16)
    assert angles(u, -v, modulo_sign=False)[0, 0] == pytest.approx(np.pi - true_angle, rel=1e-15)


@given(seed=st.integers(0, 2**31), true_angle=st.floats(1e-12, 1.5), dim=st.integers(2, 40))
def test_angles_in_any_plane_are_right_to_rounding(seed, true_angle, dim):
    plane = np.linalg.qr(np.random.default_rng(seed).standard_normal((dim, 2)))[0].T
    u, v = plane[0], np.cos(true_angle) * plane[0] + np.sin(true_angle) * plane[1]
    # the directions themselves are rounded: an absolute error of a few units in the last place of 1
    assert angles(u, v)[0, 0] == pytest.approx(true_angle, abs=2e-15)


@pytest.mark.usefixtures("as_shipped")
def test_angles_name_the_row_that_has_no_direction():
    rows = np.eye(3)
    rows[1] = 0.0
    with pytest.raises(ValueError, match=r"u: row 1 .*finite and not zero"):
        angles(rows, np.eye(3))
    with pytest.raises(ValueError, match="v: row 0"):
        angles(np.eye(3), np.full((1, 3), np.nan))
    with pytest.raises(ValueError, match="one space"):
        angles(np.eye(3), np.eye(2))


# ---------------------------------------------------------------------- kernels


def planar_kernel(activation, rho):
    """``E σ(u·x)σ(v·x)`` and ``E σ'(u·x)σ'(v·x)`` by quadrature over the angle of x in the plane of u and v.

    The radius integrates by hand (E r² = 2, E 1 = 1); the integrand is smooth between the four kinks.
    """
    with mp.workdps(40):
        right, left = mp.mpf(activation.positive), mp.mpf(activation.negative)
        between = mp.acos(mp.mpf(float(rho)))
        kinks = sorted({-mp.pi, mp.pi, -mp.pi / 2, mp.pi / 2, between - mp.pi / 2, (between + mp.pi / 2)} | {-between})
        kinks = sorted({k - 2 * mp.pi if k > mp.pi else k for k in kinks})

        def sigma(z):
            return right * z if z > 0 else -left * z

        def slope(z):
            return right if z > 0 else -left

        def mean(function):
            pieces = (
                mp.quad(lambda t: function(mp.cos(t)) * function(mp.cos(t - between)), p) for p in pairwise(kinks)
            )
            return mp.fsum(pieces) / (2 * mp.pi)

        return float(2 * mean(sigma)), float(mean(slope))


@pytest.mark.parametrize("activation", HOMOGENEOUS, ids=str)
@pytest.mark.parametrize("rho", [-1.0, -0.9999, -0.6, 0.0, 0.3, 0.5, 0.99, 1.0])
def test_closed_form_of_every_homogeneous_activation_against_quadrature(activation, rho):
    value, slope = planar_kernel(activation, rho)
    closed_value, closed_slope = tail_kernel(activation, 0, np.array([rho]))
    assert closed_value[0] == pytest.approx(value, rel=1e-14, abs=1e-14)
    assert closed_slope[0] == pytest.approx(slope, rel=1e-14, abs=1e-14)
    centred, centred_slope = kernel_values(CenteredAbsKernel(), np.array([rho]))
    affine_part = activation.even**2 * 2.0 / np.pi + activation.odd**2 * rho
    assert activation.even**2 * centred[0] + affine_part == pytest.approx(value, rel=1e-14, abs=1e-14)
    assert activation.even**2 * centred_slope[0] + activation.odd**2 == pytest.approx(slope, rel=1e-14, abs=1e-14)


def test_centred_kernel_against_forty_digits():
    rho = hard_points()[::3]
    value, slope = kernel_values(CenteredAbsKernel(), rho)
    exact = in_forty_digits(lambda x: 2 / mp.pi * (mp.sqrt(1 - x * x) + x * mp.asin(x) - 1), rho)
    exact_slope = in_forty_digits(lambda x: 2 / mp.pi * mp.asin(x), rho)
    assert np.abs(value - exact).max() <= 4e-16
    assert np.abs(slope - exact_slope).max() <= 3e-16


def test_centred_kernel_is_finite_with_its_first_derivative_at_both_ends():
    def value(rho):
        radial, slope = CenteredAbsKernel().radial_and_slope(rho)
        return radial + rho * slope

    with jax.enable_x64(True):
        for end in (-1.0, 1.0):
            radial, slope = CenteredAbsKernel().radial_and_slope(jnp.asarray(end))
            assert float(slope) == pytest.approx(end, rel=1e-15)
            assert float(radial) == pytest.approx(-2.0 / np.pi, rel=1e-15)
            assert float(value(jnp.asarray(end))) == pytest.approx(1.0 - 2.0 / np.pi, rel=1e-15)


def test_kernel_values_do_not_depend_on_how_many_are_asked_for():
    rho = np.random.default_rng(0).uniform(-1.0, 1.0, (401, 100))
    assert rho.size > SMALL
    whole = kernel_values(CenteredAbsKernel(), rho)
    for cut in (rho[:7], rho[3], rho[3, 3]):
        place = (slice(7),) if cut.ndim == 2 else (3, 3)[: 2 - cut.ndim]
        for all_values, values in zip(whole, kernel_values(CenteredAbsKernel(), cut), strict=True):
            np.testing.assert_allclose(values, all_values[place], rtol=0.0, atol=3e-16)


# ---------------------------------------------------------------------- Hermite


@pytest.mark.parametrize("n_orders", [0, 1, 2, 3, 401])
def test_coefficient_lists_have_the_length_asked_for(n_orders):
    for coefficients in (abs_coefficients(n_orders), relu_coefficients(n_orders), leaky_relu().coefficients(n_orders)):
        assert coefficients.shape == (n_orders,)


def test_hermite_polynomials_are_orthonormal():
    nodes, weights = gauss_hermite(120)
    values = hermite_values(nodes, 100)
    assert weights.sum() == pytest.approx(1.0, rel=1e-14)
    np.testing.assert_allclose((values * weights) @ values.T, np.eye(100), atol=1e-12)


@pytest.mark.parametrize("order", range(13))
@pytest.mark.parametrize("activation", HOMOGENEOUS, ids=str)
def test_low_coefficients_are_the_integrals_that_define_them(activation, order):
    with mp.workdps(40):

        def weighted(z):
            he = mp.hermite(order, z / mp.sqrt(2)) / mp.sqrt(mp.mpf(2) ** order * mp.factorial(order))
            return (activation.positive * z if z > 0 else -activation.negative * z) * he * mp.npdf(z)

        exact = float(mp.quad(weighted, [-12, -6, -3, 0, 3, 6, 12]))
    assert activation.coefficients(13)[order] == pytest.approx(exact, rel=1e-14, abs=1e-16)


@pytest.mark.parametrize("activation", HOMOGENEOUS, ids=str)
def test_coefficients_up_to_order_400_against_forty_digits(activation):
    computed = activation.coefficients(401)
    with mp.workdps(40):
        for k in range(2, 401, 2):
            size = mp.sqrt(2 / mp.pi) * mp.factorial(k - 2) / mp.sqrt(mp.factorial(k))
            size /= mp.mpf(2) ** (k // 2 - 1) * mp.factorial(k // 2 - 1)
            exact = float(activation.even * (-1) ** (k // 2 - 1) * size)
            assert computed[k] == pytest.approx(exact, rel=2e-14)
    assert computed[0] == pytest.approx(activation.even * np.sqrt(2.0 / np.pi), rel=1e-15)
    assert computed[1] == activation.odd
    assert (computed[3::2] == 0.0).all()


def test_odd_coefficients_of_abs_are_exactly_zero():
    assert (abs_coefficients(401)[1::2] == 0.0).all()


def test_relu_coefficients_against_reference_values():
    computed = relu_coefficients(1001)
    for order, value in ORACLE["relu_hermite"].items():
        assert computed[int(order)] == pytest.approx(float(value), rel=5e-14, abs=0.0)


def test_coefficients_reach_order_100_000_and_decay_as_they_should():
    coefficients = abs_coefficients(100_001)
    assert np.isfinite(coefficients).all()
    assert (coefficients[::2] != 0.0).all()
    for order in (1_000, 20_000, 100_000):
        with mp.workdps(40):
            log_size = mp.loggamma(order - 1) - mp.loggamma(order + 1) / 2
            log_size -= (order // 2 - 1) * mp.log(2) + mp.loggamma(order // 2)
            exact = float(mp.sqrt(2 / mp.pi) * mp.exp(log_size))
        assert abs(coefficients[order]) == pytest.approx(exact, rel=1e-12)
        # log-gammas of size 10⁶ leave ten digits of their difference
        assert coefficient_energy(order) == pytest.approx(exact**2, rel=1e-8)
    limit = (2.0 / np.pi) ** 1.5
    assert coefficients[100_000] ** 2 * 1e5**2.5 == pytest.approx(limit, rel=1e-4)
    assert limit == pytest.approx(0.508, abs=1e-3)
    assert coefficient_energy(0) == pytest.approx(2.0 / np.pi)
    assert coefficient_energy(7) == 0.0


def test_energies_sum_to_the_second_moment():
    # Parseval: Σ σ̂_k² = E σ² = (p² + q²)/2; the rest beyond order n is (2/π)^{3/2}/(3 n^{3/2}) for |·|
    n = 100_000
    for activation in HOMOGENEOUS:
        total = (activation.coefficients(n + 1) ** 2).sum() + activation.even**2 * (2.0 / np.pi) ** 1.5 / 3.0 / n**1.5
        assert total == pytest.approx(0.5 * (activation.positive**2 + activation.negative**2), rel=1e-11)


@pytest.mark.parametrize("name", SMOOTH)
def test_coefficients_of_smooth_functions_against_quadrature_in_twenty_digits(name):
    exact_functions = {
        "tanh": mp.tanh,
        "softplus": lambda x: mp.log(1 + mp.exp(x)),
        "gelu": lambda x: x * mp.ncdf(x),
        "sigmoid": lambda x: 1 / (1 + mp.exp(-x)),
    }
    coefficients = function_coefficients(SMOOTH[name], 31)
    with mp.workdps(20):
        for order in (0, 1, 2, 3, 30):

            def weighted(z, order=order):
                he = mp.hermite(order, z / mp.sqrt(2)) / mp.sqrt(mp.mpf(2) ** order * mp.factorial(order))
                return exact_functions[name](z) * he * mp.npdf(z)

            exact = float(mp.quad(weighted, list(range(-14, 15, 2))))
            assert coefficients[order] == pytest.approx(exact, abs=1e-13)


@pytest.mark.usefixtures("as_shipped")
def test_quadrature_refuses_what_it_cannot_tell_apart():
    with pytest.raises(ValueError, match="n_orders=401"):
        function_coefficients(np.tanh, 401)
    with pytest.raises(ValueError, match="finite everywhere"):
        function_coefficients(lambda x: np.where(x > 0, np.nan, x), 10)


# ---------------------------------------------------------------------- tails


def exact_tail(activation, min_order, rho):
    """``Σ_{k≥ℓ} σ̂_k² ρ^k`` and its derivative: closed form minus low orders, with digits to spare for ρ^200."""
    with mp.workdps(400 if abs(rho) < 0.5 else 80):
        x, scale = mp.mpf(float(rho)), 2 / mp.pi
        value, slope = scale * (mp.sqrt(1 - x * x) + x * mp.asin(x)), scale * mp.asin(x)
        for k in range(0, min_order, 2):
            energy = scale if k == 0 else scale * mp.fac2(k - 3) ** 2 / mp.factorial(k)
            value -= energy * x**k
            slope -= k * energy * x ** (k - 1) if k else 0
        even, odd = mp.mpf(activation.even) ** 2, mp.mpf(activation.odd) ** 2 if min_order <= 1 else mp.mpf(0)
        return float(even * value + odd * x), float(even * slope + odd)


@pytest.mark.parametrize("min_order", [0, 1, 2, 3, 4, 10, 25, 50, 100, 200])
def test_tails_keep_their_relative_accuracy(min_order):
    rho = np.array([0.05, 0.3, 0.7, 0.9, 0.97, 0.98, 0.9899, 0.9901, 0.995, 0.9951, 0.999, 1 - 1e-6, 1 - 1e-12, 1.0])
    rho = np.concatenate([-rho, rho])
    for activation in (ABS, leaky_relu(0.3)):
        value, slope = tail_kernel(activation, min_order, rho)
        exact = np.array([exact_tail(activation, min_order, x) for x in rho])
        # a value may pass through zero at negative ρ as long as the odd order 1 is in the sum
        floor = 1e-15 if min_order <= 1 else 0.0
        summed = np.abs(rho) <= 1.0 - 1.0 / max(min_order, 30)
        accuracy = np.where(summed, 1e-13, 1e-12 if min_order <= 40 else 2e-11)
        assert (np.abs(value - exact[:, 0]) <= accuracy * np.abs(exact[:, 0]) + floor).all()
        assert (np.abs(slope - exact[:, 1]) <= accuracy * np.abs(exact[:, 1]) + floor).all()


def test_tail_at_zero_is_the_first_energy_or_nothing():
    value, slope = tail_kernel(RELU, 0, np.zeros(1))
    assert value[0] == pytest.approx(1.0 / (2.0 * np.pi), rel=1e-15)
    assert slope[0] == pytest.approx(0.25, rel=1e-15)
    assert tail_kernel(RELU, 2, np.zeros(1)) == (0.0, 0.0)


@pytest.mark.parametrize("activation", HOMOGENEOUS, ids=str)
def test_tail_energy_is_what_the_low_orders_leave_of_the_second_moment(activation):
    second_moment = 0.5 * (activation.positive**2 + activation.negative**2)
    for min_order in (0, 1, 2, 7, 30):
        low = (activation.coefficients(min_order) ** 2).sum()
        assert tail_energy(activation, min_order) == pytest.approx(second_moment - low, rel=1e-12)


@pytest.mark.usefixtures("as_shipped")
def test_tails_refuse_bad_arguments():
    with pytest.raises(ValueError, match="min_order=-1"):
        tail_kernel(RELU, -1, np.zeros(1))
    for rho in (1.0 + 1e-9, np.nan):
        with pytest.raises(ValueError, match="normalise"):
            tail_kernel(RELU, 2, np.array([rho]))
    with pytest.raises(ValueError, match="beyond the activation's 3 coefficients"):
        tail_kernel(HermiteActivation((0.0, 1.0, 0.5)), 3, np.zeros(1))


# ---------------------------------------------------------------------- smooth activations


def product_kernel(function, rho, n_nodes=120):
    """``E f(x)f(ρx + √(1−ρ²)y)`` on a product Gauss–Hermite grid."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(n_nodes)
    weights = weights / weights.sum()
    x, y = np.meshgrid(nodes, nodes, indexing="ij")
    return weights @ (function(x) * function(rho * x + np.sqrt(1.0 - rho * rho) * y)) @ weights


@pytest.mark.parametrize("name", SMOOTH)
def test_power_series_kernel_of_a_function_against_quadrature(name):
    activation = HermiteActivation.from_function(SMOOTH[name], 200, name=name)
    derivative = HermiteActivation.from_function(lambda x: central_difference(SMOOTH[name], x), 200)
    energies = np.square(activation.hermite)
    rho = np.array([-1.0, -0.7, 0.0, 0.4, 0.95, 1.0])
    value, slope = kernel_values(PowerSeriesKernel(tuple(energies)), rho)
    np.testing.assert_allclose(value, [product_kernel(SMOOTH[name], r) for r in rho], atol=1e-10)
    # K'(ρ) = E f'(u·x) f'(v·x), with the coefficients of f' taken from f' itself
    np.testing.assert_allclose(slope, np.polynomial.polynomial.polyval(rho, np.square(derivative.hermite)), atol=1e-8)
    tail, tail_slope = tail_kernel(activation, 3, rho)
    np.testing.assert_allclose(tail, value - sum(e * rho**k for k, e in enumerate(energies[:3])), atol=1e-14)
    np.testing.assert_allclose(tail_slope, slope - energies[1] - 2.0 * energies[2] * rho, atol=1e-14)


def central_difference(function, x, step=1e-3):
    """Fourth-order difference quotient."""
    return (8.0 * (function(x + step) - function(x - step)) - function(x + 2 * step) + function(x - 2 * step)) / (
        12.0 * step
    )


@given(coefficients=st.lists(st.floats(-2.0, 2.0), min_size=1, max_size=12), rho=st.floats(-1.0, 1.0))
def test_power_series_kernel_is_its_polynomial(coefficients, rho):
    energies = np.square(coefficients)
    polynomial = np.polynomial.Polynomial(energies)
    value, slope = kernel_values(PowerSeriesKernel(tuple(energies)), np.array([rho]))
    assert value[0] == pytest.approx(polynomial(rho), abs=1e-13)
    assert slope[0] == pytest.approx(polynomial.deriv()(rho), abs=1e-12)


def test_power_series_kernel_takes_rounding_beyond_one_as_one():
    kernel = PowerSeriesKernel(tuple(abs_coefficients(200) ** 2))
    assert kernel_values(kernel, np.array([1.0 + 1e-12]))[1][0] == kernel_values(kernel, np.array([1.0]))[1][0]


@pytest.mark.parametrize("activation", HOMOGENEOUS, ids=str)
def test_derivative_of_homogeneous_activations(activation):
    x = np.array([-3.0, -0.2, 0.7, 5.0])
    expected = np.where(x > 0, activation.positive, -activation.negative)
    np.testing.assert_allclose(activation(x), expected * x, atol=1e-15)
    np.testing.assert_allclose(activation.derivative(x), expected, atol=1e-15)
    with jax.enable_x64(True):
        np.testing.assert_allclose(jax.vmap(jax.grad(activation))(jnp.asarray(x)), expected, atol=1e-15)
        np.testing.assert_allclose(activation.derivative(jnp.asarray(x)), expected, atol=1e-15)
    # at the kink: the mean of both slopes
    assert activation.derivative(np.zeros(1))[0] == 0.5 * (activation.positive - activation.negative)


@pytest.mark.parametrize("name", SMOOTH)
def test_derivative_of_hermite_activations_against_differences(name):
    activation = HermiteActivation.from_function(SMOOTH[name], 60)
    x = np.linspace(-2.5, 2.5, 21)
    np.testing.assert_allclose(activation.derivative(x), central_difference(activation, x), atol=1e-8)
    np.testing.assert_allclose(activation(x), SMOOTH[name](x), atol=2e-3)


@pytest.mark.usefixtures("as_shipped")
def test_an_activation_that_leaves_nothing_to_recover_is_refused():
    with pytest.raises(ValueError, match="linear function"):
        HomogeneousActivation(1.0, -1.0)
    with pytest.raises(ValueError, match="linear function"):
        HomogeneousActivation(np.inf, 0.0)
    with pytest.raises(ValueError, match=r"activation='tanh': choose one of 'relu', 'abs'"):
        homogeneous("tanh")


# ---------------------------------------------------------------------- block sums


def unit_rows(rng, n, dim):
    """Random unit vectors."""
    rows = rng.standard_normal((n, dim))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@double_precision
def field_of(kernel, points, atoms, masses):
    """``Ψ = A + v·B`` and ``∇Ψ = A v + B``: A and B alone lose half of their digits where two directions coincide."""
    radial, tangent = (np.asarray(x) for x in gram.kernel_sums(kernel, points, jnp.asarray(atoms), jnp.asarray(masses)))
    return radial + (points * tangent).sum(1), radial[:, None] * points + tangent


@pytest.mark.parametrize(("n", "m"), [(1, 1), (7, 3), (64, 32), (100, 17)])
def test_kernel_sums_block_by_block_equal_the_whole(monkeypatch, n, m):
    rng = np.random.default_rng(n)
    points, atoms, masses = unit_rows(rng, n, 6), unit_rows(rng, m, 6), rng.standard_normal(m)
    points[0], atoms[0] = atoms[-1], points[-1]
    kernel = CenteredAbsKernel()
    rho = points @ atoms.T
    value, slope = kernel_values(kernel, rho)
    psi = value @ masses
    gradient = ((value - rho * slope) @ masses)[:, None] * points + (slope * masses) @ atoms
    # at once, in two halves, in blocks of five rows and of one
    for entries, small in ((2**21, 2**15), (2**21, 0), (5 * m, 0), (m, 0)):
        monkeypatch.setattr(gram, "BLOCK_ENTRIES", entries)
        monkeypatch.setattr(gram, "SMALL", small)
        values, gradients = field_of(kernel, points, atoms, masses)
        np.testing.assert_allclose(values, psi, rtol=1e-13, atol=1e-14)
        np.testing.assert_allclose(gradients, gradient, rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize(("entries", "small"), [(2**21, 2**15), (2**21, 0), (8, 0)])
def test_kernel_sums_are_finite_with_duplicate_opposite_and_zero_rows(monkeypatch, entries, small):
    monkeypatch.setattr(gram, "BLOCK_ENTRIES", entries)
    monkeypatch.setattr(gram, "SMALL", small)
    rng = np.random.default_rng(0)
    atoms = unit_rows(rng, 8, 5)
    atoms[1], atoms[2], atoms[3] = atoms[0], -atoms[0], 0.0
    masses = rng.standard_normal(8)
    masses[3] = 0.0
    values, gradients = field_of(CenteredAbsKernel(), atoms, atoms, masses)
    lone = field_of(CenteredAbsKernel(), atoms, np.delete(atoms, 3, 0), np.delete(masses, 3))
    for whole, without in zip((values, gradients), lone, strict=True):
        assert np.isfinite(whole).all()
        np.testing.assert_allclose(whole, without, rtol=1e-13, atol=1e-15)
    # a zero row points nowhere: it feels nothing; equal and opposite rows feel equal and opposite pulls
    assert values[3] == 0.0
    assert not gradients[3].any()
    np.testing.assert_allclose(values[[1, 2]], values[0], rtol=1e-14)
    np.testing.assert_allclose(gradients[1], gradients[0], rtol=1e-13, atol=1e-15)
    np.testing.assert_allclose(gradients[2], -gradients[0], rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize(("first", "second"), list(product(HOMOGENEOUS[:3], HOMOGENEOUS[:3])))
def test_cross_kernel_of_two_activations_is_the_product_of_their_factors(first, second):
    # E σ(u·x)τ(v·x) on a fine polar grid against e_σ e_τ K_abs + o_σ o_τ ρ
    rho = 0.37
    grid = (np.arange(20_000) + 0.5) * (2.0 * np.pi / 20_000)
    mean = 2.0 * np.mean(first(np.cos(grid)) * second(np.cos(grid - np.arccos(rho))))
    value = tail_kernel(ABS, 0, np.array([rho]))[0][0]
    # midpoint rule with four kinks: error of order 1/n²
    assert first.even * second.even * value + first.odd * second.odd * rho == pytest.approx(mean, abs=1e-7)
