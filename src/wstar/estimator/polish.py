"""All neurons at once: L-BFGS on a balanced network, and the masses by themselves."""

import numpy as np
from jaxtyping import Float
from scipy.optimize import minimize

from wstar.algorithms.optimum.problem import Atoms
from wstar.algorithms.optimum.slide import nonnegative_masses
from wstar.estimator.problem import TableProblem

_MEMORY = 10


def polish(
    problem: TableProblem, atoms: Atoms, weight_decay: float, *, max_steps: int, tolerance: float = 1e-6
) -> Atoms:
    """Lower ``loss + λ Σ|c_i|`` over masses and directions together, signs fixed; dead neurons are dropped.

    With ``c_i u_i = s_i a_i w_i`` the penalty is ``λ/2 Σ(a_i² + ‖w_i‖²)`` at balance ``a_i = ‖w_i‖`` (ZG eq. 4–6):
    smooth even where a neuron dies.
    """
    n, signs = len(atoms.masses), np.sign(atoms.masses)
    if not n:
        return atoms
    root = np.sqrt(np.abs(atoms.masses))
    start = np.concatenate([root, (atoms.directions * root[:, None]).ravel()])
    options = {"maxiter": max_steps, "maxfun": 2 * max_steps, "maxcor": _MEMORY, "ftol": tolerance, "gtol": 0.0}
    found = minimize(_value_and_gradient, start, (problem, signs, weight_decay), "L-BFGS-B", True, options=options).x
    outputs, weights = found[:n], found[n:].reshape(n, -1)
    norms = np.linalg.norm(weights, axis=1)
    alive = (norms > 0.0) & (outputs * norms != 0.0)
    return Atoms((signs * outputs * norms)[alive], weights[alive] / norms[alive, None])


def _value_and_gradient(
    parameters: Float[np.ndarray, " p"],
    problem: TableProblem,
    signs: Float[np.ndarray, " m"],
    weight_decay: float,
) -> tuple[float, Float[np.ndarray, " p"]]:
    m = len(signs)
    outputs, weights = signs * parameters[:m], parameters[m:].reshape(m, -1)
    lifted = problem.lifted(weights)
    residual, moments, pre = -problem.target, np.zeros(problem.dim), np.zeros((0, m))
    for part, x in problem.blocks(m):
        pre = x @ lifted.T
        residual[part] += problem.features(pre) @ outputs
        moments += (problem.weights[part] * residual[part]) @ x
    single = len(pre) == len(residual)
    residual -= problem.weights @ residual
    slope = problem.lifted_slope(problem.slopes_of(moments))
    value, by_output, by_weight = 0.0, np.zeros(m), np.zeros_like(weights)
    for part, x in problem.blocks(m):
        left = residual[part]
        weighted = problem.weights[part] * (left - x @ slope)
        value += float(left @ weighted)
        if not single:
            pre = x @ lifted.T
        by_output += weighted @ problem.features(pre)
        by_weight += (problem.slopes(pre) * weighted[:, None]).T @ x
    value += 0.5 * weight_decay * float(parameters @ parameters)
    by_weight = problem.lifted(by_weight) * outputs[:, None]
    if not problem.thresholds:
        by_weight[:, -1] = 0.0
    gradient = np.concatenate([2.0 * signs * by_output, 2.0 * by_weight.ravel()]) + weight_decay * parameters
    return value, gradient


def best_masses(problem: TableProblem, atoms: Atoms, weight_decay: float) -> Atoms:
    """Masses at their optimum for fixed directions and signs; atoms that get none are dropped."""
    if not len(atoms.masses):
        return atoms
    signs = np.sign(atoms.masses)
    gram, correlation = problem.mass_problem(atoms.directions)
    sizes = nonnegative_masses(
        gram * np.outer(signs, signs), signs * correlation - 0.5 * weight_decay, np.abs(atoms.masses)
    )
    kept = sizes > 0.0
    return Atoms((signs * sizes)[kept], atoms.directions[kept])


def joined(atoms: Atoms, angle: float) -> Atoms:
    """Neurons of one sign within ``angle`` (modulo sign) of the heaviest left become one: the sum of ``c_i u_i``."""
    masses, directions = [], []
    left = np.argsort(-np.abs(atoms.masses), kind="stable")
    while left.size:
        cosines = atoms.directions[left] @ atoms.directions[left[0]]
        near = (np.abs(cosines) >= np.cos(angle)) & (np.sign(atoms.masses[left]) == np.sign(atoms.masses[left[0]]))
        near[0] = True
        total = (np.abs(atoms.masses[left]) * np.sign(cosines))[near] @ atoms.directions[left[near]]
        length = float(np.linalg.norm(total))
        masses.append(float(np.sign(atoms.masses[left[0]])) * length)
        directions.append(total / length)
        left = left[~near]
    return Atoms(np.array(masses), np.array(directions).reshape(-1, atoms.directions.shape[1]))
