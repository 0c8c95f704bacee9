"""Every check of a ZG claim gives its verdict from numbers, and gives the opposite one on a broken input."""

import numpy as np
import pytest

from wstar.kernels.activations import ABS, RELU
from wstar.kernels.hermite import relu_coefficients
from wstar.kernels.tails import tail_energy
from wstar.networks.student import Student
from wstar.networks.teacher import Teacher, random_teacher
from wstar.risks.population import PopulationRisk
from wstar.theory.claims import (
    certificates,
    check_claims,
    first_step,
    hermite,
    identities,
    kernel,
    spike,
    steps,
    wedges,
)
from wstar.theory.claims.instances import affine_optimum, direct_loss, random_student, sector_integral
from wstar.theory.claims.registry import CLAIMS
from wstar.theory.claims.verdict import (
    CORRECTED,
    FAILS,
    HOLDS,
    UNDECIDED,
    Claim,
    Effort,
    fit_exponent,
    printed_or_corrected,
    worst,
)

GROUPS = (hermite, first_step, identities, steps, spike, wedges, kernel, certificates)
MINE = [claim for group in GROUPS for claim in group.CLAIMS]
# what math has to be put right, and what stands as printed
AS_CORRECTED = {"ZG Lemma C.1", "ZG Lemma I.2", "ZG eq. 8", "ZG Lemma F.15"}


@pytest.mark.parametrize("claim", MINE, ids=lambda c: c.claim)
def test_claim_holds(claim):
    verdict = claim(Effort())
    assert verdict.verdict == (CORRECTED if claim.claim in AS_CORRECTED else HOLDS), verdict
    assert (verdict.claim, verdict.paper, verdict.kind) == (claim.claim, "ZG", claim.kind)
    assert np.isfinite(verdict.measured)
    if "claimed" in verdict.data:
        assert np.ptp(np.log10(verdict.data["x"])) >= 1.5


@pytest.mark.parametrize("claim", MINE, ids=lambda c: c.claim)
def test_claim_fails_on_a_broken_input(claim):
    assert claim(Effort(broken=True)).verdict == FAILS


def test_claims_are_registered_once():
    names = [claim.claim for claim in CLAIMS]
    assert len(names) == len(set(names))
    assert {claim.claim for claim in MINE} <= set(names)


def test_check_claims_runs_those_asked_for():
    seen = []
    found = check_claims("ZG", claims=["ZG Lemma I.2", "ZG Claim A.1"], on_verdict=seen.append)
    assert [v.claim for v in found] == ["ZG Claim A.1", "ZG Lemma I.2"]
    assert seen == found


def test_check_claims_refuses_what_it_does_not_know():
    with pytest.raises(ValueError, match="paper='XY'"):
        check_claims("XY")
    with pytest.raises(ValueError, match="unknown claim 'ZG Lemma Z'"):
        check_claims(claims=["ZG Lemma Z"])


# ---------------------------------------------------------------------------------------------- how numbers decide

ANY = Claim("any", "ZG", "anything", "rate", lambda claim, effort: claim.identity(0.0, 0.0))
X = np.geomspace(1.0, 100.0, 12)


@pytest.mark.parametrize(
    ("seen", "side", "expected"),
    [(-1.0, "at most", HOLDS), (-2.0, "at most", HOLDS), (-0.5, "at most", FAILS), (-2.0, "at least", FAILS),
     (-0.5, "at least", HOLDS), (-1.0, "equal", HOLDS), (-1.3, "equal", FAILS)],
)  # fmt: skip
def test_a_rate_is_decided_by_its_side(seen, side, expected):
    assert ANY.rate(X, 3.0 * X**seen, -1.0, side=side).verdict == expected


def test_a_rate_needs_decades_and_a_narrow_interval():
    assert ANY.rate(X[:6], X[:6], 1.0, side="equal").verdict == UNDECIDED
    scattered = X * 10.0 ** np.random.default_rng(0).normal(0.0, 2.0, len(X))
    assert ANY.rate(X, scattered, 1.0, side="equal").verdict == UNDECIDED


def test_a_number_that_is_not_finite_never_holds():
    assert ANY.identity(float("nan"), 1.0).verdict == FAILS
    assert ANY.inequality([0.5, float("nan")]).verdict == FAILS
    with pytest.raises(ValueError, match="positive finite"):
        fit_exponent([1.0, 2.0, 3.0, 4.0], [1.0, 0.0, 1.0, 1.0])


def test_fit_exponent_recovers_a_power_with_its_noise_inside_the_interval():
    # 95 % interval, 200 fits: fewer than 160 hits has probability below 1e-6 even at a true coverage of 0.90
    rng, hits = np.random.default_rng(0), 0
    for _ in range(200):
        low, high = fit_exponent(X, X**1.5 * np.exp(0.1 * rng.standard_normal(len(X))), n_bootstrap=200).interval
        hits += low <= 1.5 <= high
    assert hits >= 160


def test_parts_combine_to_the_worst_and_a_correction_is_said():
    good, bad = ANY.inequality([0.5]), ANY.inequality([2.0])
    assert worst([good, bad]).verdict == FAILS
    assert worst([good, ANY.inequality([0.9])]).measured == 0.9
    assert printed_or_corrected(good, bad) == good
    corrected = printed_or_corrected(bad, good)
    assert corrected.verdict == CORRECTED
    assert "as printed: 2" in corrected.note
    assert printed_or_corrected(bad, bad).verdict == FAILS


# ---------------------------------------------------------------------------------------------- what the checks use


def test_sector_integral_is_the_kernel():
    phi = np.array([0.0, 1e-3, 0.7, 0.5 * np.pi, 2.5, np.pi])
    s, rho, t = np.sin(phi), np.cos(phi), 0.5 * np.pi - phi
    np.testing.assert_allclose(sector_integral(ABS, ABS, phi), 2.0 / np.pi * (s + rho * t), rtol=0.0, atol=1e-14)
    np.testing.assert_allclose(
        sector_integral(RELU, RELU, phi), (s + rho * (np.pi - phi)) / (2.0 * np.pi), rtol=0.0, atol=1e-14
    )
    np.testing.assert_allclose(sector_integral(RELU, ABS, phi), (s + rho * t) / np.pi, rtol=0.0, atol=1e-14)


def test_affine_optimum_is_the_printed_one():
    student = random_student(np.random.default_rng(0))
    bias, linear = affine_optimum(student)
    np.testing.assert_allclose(bias, -student.masses.sum() / np.sqrt(2.0 * np.pi), rtol=1e-12)
    np.testing.assert_allclose(linear, -0.5 * student.outputs @ student.weights, rtol=1e-12)


def test_direct_loss_is_the_mean_square_over_samples():
    rng = np.random.default_rng(3)
    teacher, student = random_teacher(5, 3, 4, 0.3, 0.05, seed=1), random_student(rng)
    X = rng.standard_normal((200_000, 5))
    labels = teacher(X) - teacher.outputs.sum() / np.sqrt(2.0 * np.pi) - 0.5 * X @ (teacher.outputs @ teacher.weights)
    squares = (student(X) - labels) ** 2
    # false alarm below 1e-6 (five standard errors)
    assert abs(squares.mean() - direct_loss(student, teacher)) < 5.0 * squares.std() / np.sqrt(len(X))


@pytest.mark.parametrize("order", [2, 8, 40])
def test_jets_are_the_derivatives_of_the_series(order):
    theta, k = np.array([0.2, 0.7, 1.3]), np.arange(order, 4000)
    terms = relu_coefficients(4000)[order:] ** 2 / tail_energy(RELU, order) * np.cos(theta)[:, None] ** k
    falling = np.cumprod([np.ones_like(k), k, k - 1, k - 2], axis=0)
    expected = [np.tan(theta) ** j * (terms @ falling[j]) for j in range(4)]
    np.testing.assert_allclose(kernel.jets(theta, order), expected, rtol=1e-10, atol=1e-11)


def test_the_first_step_of_a_projected_neuron_is_that_of_the_whole_one():
    rng, dim = np.random.default_rng(5), 40
    small = random_teacher(4, 3, 4, 0.3, 0.1, seed=2)
    basis = np.linalg.svd(small.weights)[2]
    inside = small.weights @ basis[:3].T
    whole = Teacher(small.outputs, np.pad(inside, ((0, 0), (0, dim - 3))))
    neuron = rng.standard_normal(dim)
    neuron /= np.linalg.norm(neuron)
    projected = np.append(neuron[:3], np.linalg.norm(neuron[3:])) @ basis
    silent = lambda d: Student(np.zeros(1), np.zeros((1, d)))  # noqa: E731
    exact = PopulationRisk(whole).field(silent(dim), neuron[None])[1][0]
    seen = PopulationRisk(small).field(silent(4), projected[None])[1][0]
    np.testing.assert_allclose((basis @ seen)[:3], exact[:3], atol=1e-14)
    np.testing.assert_allclose(abs((basis @ seen)[3]), np.linalg.norm(exact[3:]), atol=1e-14)
