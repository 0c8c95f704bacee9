"""The optimum over all measures, with a certificate (ZG eq. 4–6): a sliding Frank–Wolfe method."""

import warnings
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float
from threadpoolctl import threadpool_limits

from wstar.algorithms.candidates import Candidates, search
from wstar.algorithms.gaussian_problem import GaussianProblem, centered_abs_parts, power_series_parts
from wstar.algorithms.measure_problem import Atoms, MeasureProblem, unit
from wstar.algorithms.measure_result import OptimalMeasure, find_clusters
from wstar.algorithms.sample_problem import SampleProblem
from wstar.algorithms.slide import merge, resolve_masses, slide

@dataclass(frozen=True)
class Certificate:
    """``s = max(1, sup|η|)`` and the gap that it proves."""

    sup: float
    gap: float


def certify(problem: MeasureProblem, atoms: Atoms, weight_decay: float, sup: float) -> Certificate:
    """The duality gap that ``|η| ≤ sup`` proves.

    ``p = −2R/(λs)`` with ``s = max(1, sup|η|)`` is dual feasible, and ``P − D`` collects to
    ``L(1 − 1/s)² + λ Σ|c_i|(1 − sign(c_i) η(u_i)/s)``: terms that are each ≥ 0, so that a gap far below the rounding
    of P and D themselves is right.
    """
    eta = -2.0 / weight_decay * problem.field(atoms).at(atoms.directions)[0]
    s = max(1.0, sup, float(np.abs(eta).max(initial=0.0)))
    complementary = weight_decay * np.sum(np.abs(atoms.masses) * (1.0 - np.sign(atoms.masses) * eta / s))
    return Certificate(s if atoms.masses.size or sup > 1.0 else sup, float(problem.loss(atoms) * (1 - 1 / s) ** 2 + complementary))


def solve(problem, weight_decay, tolerance, atoms, rng, max_iterations, steps=12, verbose=False, stop=0.03, thr=0.1):
    damping = 1e-3
    best = None
    for it in range(max_iterations):
        wide = problem.extended()
        arena, spread = (wide, Atoms(atoms.masses, np.pad(atoms.directions, ((0, 0), (0, 1))))) if wide else (problem, atoms)
        cand = search(arena, spread, rng, 40 * problem.dim)
        sup = 2 * cand.top / weight_decay
        cert = certify(problem, atoms, weight_decay, sup)
        if verbose: print(it, len(atoms.masses), cert.sup - 1, cert.gap)
        if best is None or cert.gap < best[0].gap: best = cert, atoms
        if cert.gap <= tolerance: break
        P, V = cand
        if wide:
            inside = np.abs(P[:, -1]) < 1e-6
            P, V = unit(P[inside, :-1]), V[inside]
        new = np.abs(V) > 0.5 * weight_decay * (1 + min(1e-3, thr * (sup - 1)))
        P, V = P[new][:200], V[new][:200]
        signs = np.concatenate([np.sign(atoms.masses), -np.sign(V)])
        atoms = Atoms(np.concatenate([atoms.masses, 0 * V]), np.concatenate([atoms.directions, P]))
        atoms, F = resolve_masses(problem, atoms, signs, weight_decay)
        atoms, F = merge(problem, atoms, F, weight_decay)
        atoms, F, damping, n = slide(problem, atoms, weight_decay, tolerance=stop * (sup - 1), damping=max(damping, 1e-6), max_steps=steps)
        atoms, F = merge(problem, atoms, F, weight_decay)
        if verbose: print('   F', F, 'cand', len(V), 'n', len(atoms.masses), 'steps', n, 'res', np.abs(problem.derivatives(atoms, weight_decay)[0].reshape(len(atoms.masses),-1)/np.sqrt(np.abs(atoms.masses))[:,None]).max()/weight_decay, 'damp', damping)
    return best, it
