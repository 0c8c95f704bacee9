"""ZG Appendix C and J: what one gradient step from the symmetric start does, on the population and from samples.

A neuron of R^d is seen through its projection on the teacher's span and the length of the rest, so the population
runs at any d live in r + 1 dimensions, exactly.
"""

import warnings

import numpy as np
from jaxtyping import Float

from wstar.algorithms.stages import first_step
from wstar.kernels.angles import angles
from wstar.networks.student import Student
from wstar.networks.teacher import Teacher, random_teacher
from wstar.risks.empirical import EmpiricalRisk
from wstar.risks.population import PopulationRisk
from wstar.theory.claims.verdict import FAILS, Claim, Effort, Verdict, printed_or_corrected, worst


def first_weights(claim: Claim, effort: Effort) -> Verdict:
    """Root mean square of the bracket's error over neurons, as printed and corrected. Broken: H made of |a*_i|."""
    rng, rank = np.random.default_rng(effort.seed), 3
    dims = np.geomspace(30.0, 30_000.0, effort.size(9, 17))
    teacher = random_teacher(rank + 1, rank, 4, 0.3, 0.1, seed=rng)
    outputs = np.abs(teacher.outputs) if effort.broken else teacher.outputs
    moment = teacher.activation.coefficients(3)[2] ** 2 * (teacher.weights.T @ (outputs[:, None] * teacher.weights))
    printed, corrected, relative = [], [], []
    for dim in dims:
        directions = _projected_sphere(rng, teacher, float(dim), effort.size(200, 2000))
        step = _step(teacher, directions, 1.0)
        aim = directions @ moment
        printed.append(_rms(step / -2.0 - aim))
        corrected.append(_rms(step / 4.0 - aim))
        relative.append(corrected[-1] / _rms(aim))
    note = f"w⁽¹⁾ = +4η₀a σ̂₂²Hw̄ ± …: relative error {relative[-1]:.2g} at d = {dims[-1]:.0f}"
    return printed_or_corrected(
        claim.rate(dims, printed, -1.0, side="at most", note="w⁽¹⁾ = −2η₀a σ̂₂²Hw̄ ± …"),
        claim.rate(dims, corrected, -1.0, side="at most", note=note),
    )


def closest_angles(claim: Claim, effort: Effort) -> Verdict:
    """Largest closest angle over the teachers, median over starts, at d = 10⁸. Broken: H is degenerate."""
    rng, parts = np.random.default_rng(effort.seed), []
    for rank in (2,) if effort.quick else (2, 3):
        widths = np.geomspace(12, effort.size(500, 4000) * rank, 8 if effort.quick else 12).astype(int) * 2
        medians = []
        teachers = [
            _degenerate(rng) if effort.broken else random_teacher(rank + 1, rank, 4, 0.3, 0.2, seed=rng)
            for _ in range(9)
        ]
        for width in widths:
            closest = [_closest(rng, teacher, int(width)) for teacher in teachers for _ in range(effort.size(2, 6))]
            medians.append(float(np.median(closest)))
        note = f"r = {rank}: ε₀ ∝ m^(−1/(r−1)) is a uniform net's; {medians[-1]:.2g} at m = {widths[-1]}"
        # m₀ = (1/ε₀)^{O(r)}: with the constant 1 in the exponent, ε₀ falls at least as m^{-1/r}
        parts.append(claim.rate(widths, medians, -1.0 / rank, side="at most", note=note))
    return worst(parts)


def sizes(claim: Claim, effort: Effort) -> Verdict:
    """Median norm against d, largest output against m, α and β. Broken: a starts at ±1 instead of ±√d."""
    rng = np.random.default_rng(effort.seed)
    teacher = random_teacher(3, 2, 4, 0.3, 0.2, seed=rng)
    dims, norms = np.geomspace(30.0, 30_000.0, 9), []
    for dim in dims:
        norms.append(float(np.median(start_and_step(rng, teacher, dim, 400, effort.broken).norms)))
    widths, outputs, affine = np.geomspace(40, 1600, 5).astype(int) * 2, [], 0.0
    for width in widths:
        # at d = 3 the largest |w̄ᵀHw̄| of some neurons is already near its supremum: what is left is the factor 1/√m
        steps = [start_and_step(rng, teacher, 3.0, int(width), effort.broken) for _ in range(effort.size(4, 50))]
        outputs.append(float(np.mean([np.abs(s.outputs).max() for s in steps])))
        affine = max(affine, *(abs(s.bias) + float(np.abs(s.linear).max()) for s in steps))
    if affine > 0.0:
        return claim.verdict(FAILS, affine, 0.0, "α or β moved in the first step")
    return worst(
        [
            claim.rate(dims, norms, 0.0, side="equal", slack=0.05, note="median ‖w⁽¹⁾‖ against d; α = β = 0 exactly"),
            claim.rate(widths, outputs, -0.5, side="at most", note="largest |a⁽¹⁾| against m; α = β = 0 exactly"),
        ]
    )


def from_samples(claim: Claim, effort: Effort) -> Verdict:
    """Samples for relative error ½ of the step: its error at a multiple of d² samples, scaled by the law N^{-1/2}.

    Broken: only the part of the error inside the teacher's span is counted.
    """
    rng, rank = np.random.default_rng(effort.seed), 2
    dims = np.unique(np.geomspace(5, effort.size(164, 200), effort.size(6, 9)).astype(int))
    # one teacher in all dimensions: only d may change
    hidden, needed = random_teacher(rank, rank, 3, 0.4, 0.3, seed=rng), []
    for dim in dims:
        teacher = Teacher(hidden.outputs, np.pad(hidden.weights, ((0, 0), (0, int(dim) - rank))))
        n_rows, repeats = effort.size(2, 4) * int(dim) ** 2, max(1, effort.size(60, 200) // int(dim))
        errors = [_sample_error(rng, teacher, n_rows, inside=effort.broken) for _ in range(repeats)]
        needed.append(n_rows * float(np.mean(np.square(errors))) / 0.25)
    note = f"at d = {dims[-1]} the step needs {needed[-1] / dims[-1] ** 2:.1f} d² samples for relative error ½"
    return claim.rate(dims, needed, 2.0, side="equal", slack=0.15, note=note)


def _sample_error(rng: np.random.Generator, teacher: Teacher, n_rows: int, *, inside: bool) -> float:
    """Relative error of the step over 16 neurons, labels preprocessed on the same rows."""
    directions = rng.standard_normal((16, teacher.dim))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    X = rng.standard_normal((n_rows, teacher.dim))
    silent = _silent(teacher)
    exact = PopulationRisk(teacher).field(silent, directions)[1]
    seen = EmpiricalRisk(X, teacher(X)).field(silent, directions)[1]
    error = seen - exact
    if inside:
        basis = np.linalg.svd(teacher.weights)[2][: teacher.rank]
        error = error @ basis.T
    return _rms(error) / _rms(exact)


def _silent(teacher: Teacher) -> Student:
    return Student(np.zeros(1), np.zeros((1, teacher.dim)), activation=teacher.activation)


def _step(teacher: Teacher, directions: Float[np.ndarray, "n d"], output: float) -> Float[np.ndarray, "n d"]:
    """``−∂_w L = 2a E f̃_* σ'(w·x) x`` at the silent network."""
    return -2.0 * output * PopulationRisk(teacher).field(_silent(teacher), directions)[1]


def _rms(rows: Float[np.ndarray, "n d"]) -> float:
    return float(np.sqrt(np.mean(np.sum(rows**2, axis=1))))


def _projected_sphere(rng: np.random.Generator, teacher: Teacher, dim: float, n: int) -> Float[np.ndarray, "n r1"]:
    """Uniform directions of S^{dim−1}: coordinates in the teacher's span (of rank r in r + 1), and the rest as one."""
    basis = np.linalg.svd(teacher.weights)[2]
    inside = rng.standard_normal((n, teacher.dim - 1))
    rest = np.sqrt(rng.chisquare(dim - teacher.dim + 1, (n, 1)))
    rows = np.concatenate([inside, rest], axis=1) @ basis
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def start_and_step(
    rng: np.random.Generator, teacher: Teacher, dim: float, width: int, unscaled: bool = False
) -> Student:
    """ZG's symmetric start at dimension ``dim`` and its first step with λ₀ = η₀ = 1."""
    weights = _projected_sphere(rng, teacher, dim, width // 2) / np.sqrt(width)
    outputs = (1.0 if unscaled else np.sqrt(dim)) * rng.choice([-1.0, 1.0], width // 2)
    start = Student(np.concatenate([outputs, -outputs]), np.concatenate([weights, weights]))
    return first_step(PopulationRisk(teacher), start)


def _closest(rng: np.random.Generator, teacher: Teacher, width: int) -> float:
    stepped = start_and_step(rng, teacher, 1e8, width)
    # the second half of the neurons is the first with the other sign
    return float(angles(stepped.weights[: width // 2], teacher.weights).min(axis=0).max())


def _degenerate(rng: np.random.Generator) -> Teacher:
    """Rank 2 and det H = Σ_{i<j} a_i a_j sin²∠(w_i, w_j) = 0: ZG Assumption 3 fails."""
    phi = np.array([0.0, 1.0, 2.0]) + rng.uniform(-0.2, 0.2, 3)
    s01, s02, s12 = (np.sin(phi[i] - phi[j]) ** 2 for i, j in ((0, 1), (0, 2), (1, 2)))
    weights = np.stack([np.cos(phi), np.sin(phi), np.zeros(3)], axis=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return Teacher([1.0, 1.0, -s01 / (s02 + s12)], weights)


CLAIMS = (
    Claim("ZG Lemma C.1", "ZG", "w⁽¹⁾ = −2η₀a(σ̂₂²Hw̄ ± Õ(√r/d))", "rate", first_weights),
    Claim(
        "ZG Lemma 3 (i)",
        "ZG",
        "m = (1/ε₀)^{O(r)} neurons come within ε₀ of every teacher direction",
        "rate",
        closest_angles,
    ),
    Claim("ZG Lemma 3 (ii)", "ZG", "‖w⁽¹⁾‖ = Θ(1), |a⁽¹⁾| = O(1/√m), α = 0, β = 0", "rate", sizes),
    Claim("ZG App. J", "ZG", "Stage 1 needs n = Θ(d²) samples", "rate", from_samples),
)
