"""A proof that ``sup |η_λ|`` is what the search found: the sphere is covered by cells, each with a true upper bound.

Along a unit-speed geodesic γ the kernel's value ``f = K(γ·u)``, ``K = (2/π)(s + ρt − 1)``, has a Lipschitz second
derivative: with ``x = ρ'/√(1−ρ²) ∈ [−1, 1]``, ``f''' = (2/π)[ρ(x³ − 3x) − asin ρ √(1−ρ²) x]``, at most ``2.3·2/π`` in
size. So η is its second-order expansion at a cell's centre up to ``M h³/6`` within angle h, and near a summit, where
the expansion is concave, the bound is the summit's own height plus that: cells need not shrink to nothing there.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from wstar.algorithms.optimum.frank_wolfe import Solution, certified_gap
from wstar.algorithms.optimum.gaussian_problem import GaussianField, GaussianProblem
from wstar.algorithms.optimum.problem import Atoms

_C = 2.0 / np.pi
# max of 2ρ + asin(ρ)√(1−ρ²) over [0, 1] is 2.296
_THIRD = 2.3 * _C
# cells alive at once; beyond it the largest bound so far is the answer
_MOST_CELLS = 400_000
_CHUNK = 20_000


def proven(solution: Solution, weight_decay: float, tolerance: float) -> Solution:
    """The solution with ``sup`` and ``gap`` from a proven upper bound of |η| over the sphere.

    Cells are refined until the bound is good enough for a gap within ``tolerance`` or their number exceeds 400,000
    (an optimum whose atoms crowd along a curve leaves η nearly 1 there, and no affordable cells can tell how nearly);
    the bound is proven in either case.
    """
    problem, atoms = solution.problem, solution.atoms
    assert isinstance(problem, GaussianProblem)
    room = max(tolerance - solution.gap, 0.05 * tolerance)
    goal = max(solution.sup, 1.0) + room / (weight_decay * max(atoms.total, 1e-300))
    wide = problem.extended()
    if wide is not None:
        atoms = Atoms(atoms.masses, np.pad(atoms.directions, ((0, 0), (0, 1))))
    sup = bound_sup(wide or problem, atoms, weight_decay, goal, lifted=wide is not None)
    proven_sup, gap = certified_gap(problem, solution.atoms, weight_decay, max(sup, solution.sup))
    return replace(solution, sup=proven_sup, gap=gap)


def bound_sup(problem: GaussianProblem, atoms: Atoms, weight_decay: float, goal: float, *, lifted: bool) -> float:
    """An upper bound of ``sup |η_λ|`` over the sphere of the problem's coordinates, no finer than ``goal``.

    Cells are cubes on the faces of ``[−1, 1]^k``: one of each antipodal pair of faces, since η is even, and with
    ``lifted`` (no atom leaves the hyperplane of the last coordinate) one of each mirror pair of cells.
    """
    field = problem.field(atoms)
    dipoles = _dipoles(problem, atoms)
    rounding = 2.0 / weight_decay * field.rounding
    k = problem.dim
    faces, corners, half = _faces(k, lifted)
    highest = 0.0
    while len(faces):
        bounds = np.concatenate(
            [
                _cell_bounds(field, dipoles, faces[at : at + _CHUNK], corners[at : at + _CHUNK], half, weight_decay)
                for at in range(0, len(faces), _CHUNK)
            ]
        )
        bounds += rounding
        open_ = bounds > goal
        highest = max(highest, float(bounds[~open_].max(initial=0.0)))
        faces, corners, bounds = faces[open_], corners[open_], bounds[open_]
        if len(faces) * 2 ** (k - 1) > _MOST_CELLS:
            return max(highest, float(bounds.max()))
        half *= 0.5
        shifts = half * (2.0 * np.stack(np.meshgrid(*[[0, 1]] * (k - 1)), axis=-1).reshape(-1, k - 1) - 1.0)
        faces = np.repeat(faces, len(shifts))
        corners = (corners[:, None, :] + shifts[None]).reshape(-1, k - 1)
    return highest


def _faces(k: int, lifted: bool) -> tuple[np.ndarray, np.ndarray, float]:
    """Face number and centre (in the face's own k−1 coordinates) of the first cells, half their side."""
    grid = np.stack(np.meshgrid(*[[-0.75, -0.25, 0.25, 0.75]] * (k - 1), indexing="ij"), axis=-1).reshape(-1, k - 1)
    faces, centres = [], []
    for face in range(k):
        # the last coordinate is the last of the face's own, except on its own face
        cells = grid[grid[:, -1] > 0.0] if lifted and face < k - 1 and k > 1 else grid
        faces.append(np.full(len(cells), face))
        centres.append(cells)
    return np.concatenate(faces), np.concatenate(centres), 0.25


def _cell_bounds(
    field: GaussianField,
    dipoles: _Dipoles,
    faces: np.ndarray,
    centres: np.ndarray,
    half: float,
    weight_decay: float,
) -> Float[np.ndarray, " n"]:
    k = centres.shape[1] + 1
    others = np.array([[axis for axis in range(k) if axis != face] for face in range(k)])
    points = np.ones((len(faces), k))
    np.put_along_axis(points, others[faces], centres, axis=1)
    length = np.linalg.norm(points, axis=1)
    points /= length[:, None]
    # q and q + v enclose an angle of at most asin(|v|/|q|)
    reach = np.arcsin(np.minimum(half * np.sqrt(k - 1) / length, 1.0))
    values, gradients, hessians = field.expansion(points)
    remainder = _third_derivative(dipoles, points, reach) * reach**3 / 6.0
    steep = np.linalg.norm(gradients, axis=1)
    # the Hessian knows tangent directions only: a large radial term keeps the radial one out of every bound
    outward = (1.0 + np.linalg.norm(hessians, axis=(1, 2)))[:, None, None] * points[:, :, None] * points[:, None, :]
    bounds = np.zeros(len(points))
    for sign in (1.0, -1.0):
        curvature, vectors = np.linalg.eigh(outward - sign * hessians)
        rise = steep * reach + 0.5 * np.maximum(-curvature[:, 0], 0.0) * reach**2
        along = np.einsum("pij,pi->pj", vectors, gradients)
        concave = curvature[:, 0] > 0.0
        summit = 0.5 * np.sum(along**2 / np.where(concave[:, None], curvature, 1.0), axis=1)
        bounds = np.maximum(bounds, sign * values + np.where(concave, np.minimum(rise, summit), rise) + remainder)
    return 2.0 / weight_decay * bounds


class _Dipoles(NamedTuple):
    """The residual as ``Σ excess_i δ(u_i) + Σ moment_i [δ(u_i) − δ(v_i)]``, ``angle_i`` between u_i and v_i."""

    directions: Float[np.ndarray, "q k"]
    excess: Float[np.ndarray, " q"]
    moment: Float[np.ndarray, " q"]
    angle: Float[np.ndarray, " q"]


def _dipoles(problem: GaussianProblem, atoms: Atoms) -> _Dipoles:
    """Each target with its nearest atom of the same sign (angles modulo sign); what is left stands alone.

    Student and teacher nearly cancel at small λ, and the third derivative of their difference with them.
    """
    nearest = np.arccos(np.minimum(np.abs(atoms.directions @ problem.targets.T), 1.0))
    left = atoms.masses.copy()
    excess, moment = np.abs(problem.target_masses), np.zeros(len(problem.targets))
    angle = np.zeros(len(problem.targets))
    for j in np.argsort(nearest.min(axis=0, initial=np.inf)):
        mass = float(problem.target_masses[j])
        same_sign = np.flatnonzero(left * mass > 0.0)
        if not same_sign.size:
            continue
        i = same_sign[nearest[same_sign, j].argmin()]
        moment[j] = min(abs(left[i]), abs(mass))
        excess[j] -= moment[j]
        left[i] -= np.sign(mass) * moment[j]
        # an angle from an inner product near one is short of digits: a chord's worth of rounding is added
        angle[j] = nearest[i, j] + 1e-7
    alone = np.zeros(len(left))
    return _Dipoles(
        np.concatenate([problem.targets, atoms.directions]),
        np.concatenate([excess, np.abs(left)]),
        np.concatenate([moment, alone]),
        np.concatenate([angle, alone]),
    )


def _third_derivative(
    dipoles: _Dipoles, points: Float[np.ndarray, "p k"], reach: Float[np.ndarray, " p"]
) -> Float[np.ndarray, " p"]:
    """A bound on the third derivative of Ψ along geodesics within ``reach`` of each point.

    Turning u by dα changes that of one kernel by at most ``(2/π)(4.2/S + 4.6) dα``, S the sine of the angle between
    γ and u: its partial derivatives in ρ' and in ρ (times S) are within ``3|ρ|/S + π/2`` and ``3S + 1.16ρ²/S``.
    """
    angle = np.arccos(np.minimum(np.abs(points @ dipoles.directions.T), 1.0))
    sine = np.sin(np.maximum(angle - reach[:, None] - dipoles.angle, 0.0))
    turning = np.divide(4.2, sine, out=np.full_like(sine, np.inf), where=sine > 0.0) + 4.6
    # an angle of zero (a mass alone) times an unbounded derivative is not asked for
    pair = np.minimum(2.0 * _THIRD, _C * np.maximum(dipoles.angle, 1e-300) * turning)
    return _THIRD * dipoles.excess.sum() + pair @ dipoles.moment
