"""ZG Appendix A and B and the technical lemmas I.1, I.2: Hermite coefficients and the loss by orders."""

from math import exp, factorial, sqrt

import numpy as np
from jaxtyping import Float
from scipy.optimize import minimize_scalar

from wstar.kernels.activations import ABS, RELU
from wstar.kernels.hermite import abs_coefficients, gauss_hermite, hermite_values, relu_coefficients
from wstar.kernels.tails import tail_energy
from wstar.networks.student import Student
from wstar.networks.teacher import Teacher
from wstar.risks.population import PopulationRisk
from wstar.theory.claims.instances import affine_optimum, direct_loss, fitted, random_student, random_teachers
from wstar.theory.claims.verdict import Claim, Effort, Verdict, printed_or_corrected, worst


def correlation(claim: Claim, effort: Effort) -> Verdict:
    """Tensor Gauss–Hermite quadrature, exact for these degrees. Broken: a pair with correlation ρ² instead of ρ."""
    orders = effort.size(10, 30)
    nodes, weights = gauss_hermite(orders + 2)
    left, errors = hermite_values(nodes, orders), []
    for rho in (-0.9, -0.3, 0.0, 0.5, 0.99):
        seen = rho**2 if effort.broken else rho
        pair = seen * nodes[:, None] + np.sqrt(1.0 - seen**2) * nodes[None, :]
        inner = hermite_values(pair, orders) @ weights
        errors.append(np.abs((left * weights) @ inner.T - np.diag(rho ** np.arange(orders))).max())
    return claim.identity(max(errors), 1e-10, f"orders below {orders}, five correlations; rounding of the quadrature")


def coefficients(claim: Claim, effort: Effort) -> Verdict:
    """The printed formula against its definition by quadrature. Broken: the kink is rounded, √(x² + 0.01) for |x|."""
    orders = effort.size(60, 150)
    nodes, weights = np.polynomial.legendre.leggauss(600)
    x = 20.0 * (1.0 + nodes)
    weight = 20.0 * weights * np.exp(-0.5 * x * x) / np.sqrt(2.0 * np.pi)
    size = np.sqrt(x * x + 0.01) if effort.broken else x
    half = hermite_values(x, orders) @ (weight * size)
    even = np.arange(orders) % 2 == 0
    # |x| is even; ReLU is |x| on one half line
    errors = [
        np.abs(np.where(even, 2.0 * half, 0.0) - _printed(orders)).max(),
        np.abs(half - np.where(np.arange(orders) == 1, 0.5, 0.5 * _printed(orders))).max(),
        np.abs(abs_coefficients(orders) - _printed(orders)).max(),
        np.abs(relu_coefficients(orders)[2:] - 0.5 * _printed(orders)[2:]).max(),
    ]
    return claim.identity(max(errors), 1e-12, f"|x| and ReLU, orders below {orders}; rounding of the quadrature")


def _printed(orders: int) -> Float[np.ndarray, " k"]:
    values = np.zeros(orders)
    values[0] = sqrt(2.0 / np.pi)
    for k in range(2, orders, 2):
        # (k−2)!/(2^{k/2−1}(k/2−1)!) is a whole number; its square over k! is a quotient of whole numbers
        whole = factorial(k - 2) // (2 ** (k // 2 - 1) * factorial(k // 2 - 1))
        values[k] = (-1) ** (k // 2 - 1) * sqrt(2.0 / np.pi * (whole * whole / factorial(k)))
    return values


def decay(claim: Claim, effort: Effort) -> Verdict:
    """Broken: the step function's coefficients, which decay as k^{-3/4}."""
    k = np.unique(2 * np.geomspace(10, effort.size(5_000, 50_000), 25).astype(int))
    size = np.abs(abs_coefficients(int(k[-1]) + 1)[k])
    if effort.broken:
        size = size * np.sqrt(k)
    constant = float(size[-1] * k[-1] ** 1.25)
    return claim.rate(
        k, size, -1.25, side="equal", slack=0.02, note=f"|σ̂_k| k^(5/4) of |x| → {constant:.4f}; ReLU has half of it"
    )


def decomposition(claim: Claim, effort: Effort) -> Verdict:
    """Three forms against the loss from its definition. Broken: α̂ and β̂ are those of |x|, not of ReLU."""
    rng, errors = np.random.default_rng(effort.seed), []
    for teacher in random_teachers(effort, rng):
        student = random_student(rng)
        loss = direct_loss(student, teacher)
        used = Student(student.outputs, student.weights, activation=ABS if effort.broken else RELU)
        bias, linear = affine_optimum(used)
        even = direct_loss(fitted(student), teacher)
        three_terms = (student.bias - bias) ** 2 + float(np.sum((student.linear - linear) ** 2)) + even
        balanced = fitted(student.balanced())
        decayed = PopulationRisk(teacher).value(balanced, 0.1)
        errors += [
            abs(three_terms - loss) / loss,
            abs(PopulationRisk(teacher).value(student) - loss) / loss,
            abs(_by_orders(student, teacher) - even) / even,
            abs(decayed - even - 0.1 * float(np.abs(student.masses).sum())) / decayed,
        ]
    return claim.identity(
        max(errors),
        1e-10,
        f"{len(errors) // 4} pairs of teacher and student: three terms, closed form, sum over orders, "
        "measure form; relative, rounding of sums of some hundred terms",
    )


def _by_orders(student: Student, teacher: Teacher, orders: int = 3000) -> float:
    """``Σ_{2≤k<orders} σ̂_k² T_k`` and the tail: there even powers of every ρ ≠ ±1 are gone, so T_k = Σ ĉ²."""
    rows = np.concatenate([student.directions, teacher.directions])
    masses = np.concatenate([student.masses, -teacher.masses])
    energies = relu_coefficients(orders) ** 2
    energies[:2] = 0.0
    kernel = np.polynomial.polynomial.polyval((rows @ rows.T) ** 2, energies[::2])
    np.fill_diagonal(kernel, tail_energy(RELU, 2))
    return float(masses @ kernel @ masses)


def maxima(claim: Claim, effort: Effort) -> Verdict:
    """The maximum found by search. Broken: cos^√k instead of cos^k."""
    k = np.geomspace(10.0, effort.size(10_000, 1_000_000), 15)
    powers = np.sqrt(k) if effort.broken else k
    parts = []
    for p in (1, 2, 3):
        tops = [_highest(float(power), p) for power in powers]
        constant = tops[-1] * float(k[-1]) ** (0.5 * p)
        note = f"sin^{p}: maximum·k^({p}/2) → {constant:.3f} (the proof's 1/√k at p = 1 is only an upper bound)"
        parts.append(claim.rate(k, tops, -0.5 * p, side="equal", slack=0.03, note=note))
    return worst(parts)


def _highest(k: float, p: int) -> float:
    found = minimize_scalar(
        lambda t: -(np.cos(t) ** k * np.sin(t) ** p), bounds=(0.0, min(0.5 * np.pi, 6.0 / np.sqrt(k))), method="bounded"
    )
    return -float(found.fun)


def small_powers(claim: Claim, effort: Effort) -> Verdict:
    """Printed and corrected bound on a grid of (k, β). Broken: β^{k/4} instead of β^{k/2}."""
    beta = 1.0 - np.geomspace(1e-4, 0.99, effort.size(60, 400))[:, None]
    k = np.geomspace(1e-2, 1e5, effort.size(400, 4000))[None, :]
    left = np.sqrt(k) * beta ** (k / (4.0 if effort.broken else 2.0))
    printed = claim.inequality((left * np.sqrt(2.0 * np.log(2.0 / beta))).ravel(), "bound 1/√(2 ln(2/β))")
    corrected = claim.inequality(
        (left * np.sqrt(exp(1.0) * np.log(1.0 / beta))).ravel() / (1.0 + 1e-12),
        "the bound is 1/√(e ln(1/β)), attained at k = 1/ln(1/β): the derivative of β^{k/2} is ½ ln β, not ln(β/2)",
    )
    return printed_or_corrected(printed, corrected)


CLAIMS = (
    Claim("ZG Claim A.1", "ZG", "E h_m(x) h_n(y) = ρ^n δ_mn for a ρ-correlated pair", "identity", correlation),
    Claim("ZG Lemma A.1", "ZG", "the Hermite coefficients of |x| and ReLU in closed form", "identity", coefficients),
    Claim("ZG Lemma A.1 (decay)", "ZG", "|σ̂_k| = Θ(k^{-5/4})", "rate", decay),
    Claim(
        "ZG Claim B.1",
        "ZG",
        "L = (α−α̂)² + ‖β−β̂‖² + E(f_{≥2} − f̃_*)² = … + Σ σ̂_k² T_k; L_λ = L + λ Σ|a_i|‖w_i‖ when balanced",
        "identity",
        decomposition,
    ),
    Claim("ZG Lemma I.1", "ZG", "max |cos^k θ sin^p θ| = Θ(k^{-p/2}) for p = 1, 2, 3", "rate", maxima),
    Claim("ZG Lemma I.2", "ZG", "√k β^{k/2} ≤ 1/√(2 ln(2/β)) for β < 1", "inequality", small_powers),
)
