"""The hidden network: its geometry (ZG Assumptions 1–3), and how to draw or read one."""

import tomllib
import warnings
import zipfile
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from wstar.kernels.activations import RELU, HomogeneousActivation, homogeneous
from wstar.kernels.angles import angles
from wstar.networks.network import TwoLayer, check_whole

_RANK_TOLERANCE = 1e-10
_MAX_DRAWS = 20_000


@dataclass(frozen=True, eq=False, init=False)
class Teacher(TwoLayer):
    """A teacher ``f_*(x) = Σ a*_i σ(w*_i·x) + linear·x + bias``; rows of ``weights`` are normalised into ``outputs``.

    Warns:
        UserWarning: an assumption of ZG does not hold (parallel neurons; H degenerate in the span; a zero output).

    Raises:
        ValueError: as :class:`TwoLayer`, or a zero row of ``weights`` (no direction to recover).
    """

    def __init__(
        self,
        outputs: ArrayLike,
        weights: ArrayLike,
        bias: float = 0.0,
        linear: ArrayLike | None = None,
        activation: HomogeneousActivation | str = RELU,
    ) -> None:
        """Normalise, then say which assumptions of the theory fail."""
        super().__init__(outputs, weights, bias, linear, activation)
        norms = self.norms
        if (norms == 0.0).any():
            raise ValueError(f"weights: teacher neuron {int(np.argmin(norms))} is zero; it has no direction, remove it")
        self._freeze("outputs", self.outputs * norms)
        self._freeze("weights", self.weights / norms[:, None])
        for message in self.violated_assumptions():
            warnings.warn(message, stacklevel=2)

    @cached_property
    def rank(self) -> int:
        """``r = dim S_*``, the dimension of the span of the teacher directions (ZG Assumption 1)."""
        singular = np.linalg.svd(self.weights @ self.weights.T, compute_uv=False)
        return int((singular > _RANK_TOLERANCE * singular[0]).sum())

    @cached_property
    def separation(self) -> float:
        """``Δ``: smallest angle between two neurons modulo sign, in (0, π/2] (ZG Assumption 2); π/2 for one neuron."""
        if self.width == 1:
            return 0.5 * np.pi
        pairwise = angles(self.weights, self.weights)
        return float(pairwise[np.triu_indices(self.width, 1)].min())

    @cached_property
    def kappa(self) -> float:
        """``κ = |λ_r(H)|``, ``H = Σ a*_i w*_i w*_iᵀ`` restricted to its span S_* (ZG Assumption 3)."""
        _, singular, rows = np.linalg.svd(self.weights, full_matrices=False)
        basis = rows[singular > np.sqrt(_RANK_TOLERANCE) * singular[0]]
        inside = self.weights @ basis.T
        return float(np.abs(np.linalg.eigvalsh(inside.T @ (self.outputs[:, None] * inside))).min())

    @cached_property
    def information_exponent(self) -> int | None:
        """Smallest order k ≥ 1 at which ``Σ a*_i σ̂_k w*_i^{⊗k}`` (plus the linear part at k = 1) is not zero.

        None if no order up to 40 is found. After ZG's preprocessing it is at least 2, and exactly 2 when H ≠ 0. From
        order 2 on, a tensor below 1e-6 Σ|a*_i| counts as zero: its square is all that the Gram matrix tells.
        """
        coefficients = self.activation.coefficients(41)
        gram = self.weights @ self.weights.T
        scale = float(np.abs(self.outputs).sum()) ** 2 or 1.0
        first = coefficients[1] * (self.outputs @ self.weights) + self.linear
        if first @ first > 1e-20 * scale:
            return 1
        for k in range(2, 41):
            if coefficients[k] != 0.0 and float(self.outputs @ gram**k @ self.outputs) > 1e-12 * scale:
                return k
        return None

    def violated_assumptions(self) -> list[str]:
        """One sentence for every assumption of ZG §2 that this teacher breaks; empty when all hold."""
        found = []
        silent = np.flatnonzero(self.outputs == 0.0)
        if silent.size:
            found.append(f"teacher neuron {silent[0]} has output 0: it leaves no trace in the labels")
        if self.separation < 1e-7:
            found.append("two teacher neurons are parallel (ZG Assumption 2): only their sum can be recovered")
        if self.kappa < 1e-8 * np.abs(self.outputs).max(initial=0.0):
            found.append(
                f"H = Σ a*_i w*_i w*_iᵀ is degenerate in the span (ZG Assumption 3, kappa = {self.kappa:.1e}): "
                "the first gradient step cannot see every direction"
            )
        return found

    @classmethod
    def load(cls, path: str | Path) -> "Teacher":
        """Read ``outputs`` and ``weights`` (and ``bias``, ``linear``, ``activation``) from an .npz or .toml file.

        Raises:
            ValueError: the file is missing, of another kind, or lacks or misnames an entry.
        """
        path = Path(path)
        entries = _read_entries(path)
        known = {"outputs", "weights", "bias", "linear", "activation"}
        if not {"outputs", "weights"} <= entries.keys() <= known:
            raise ValueError(
                f"teacher file {path} has entries {sorted(entries)}: outputs and weights are needed, "
                "bias, linear and activation may be there"
            )
        numbers = {}
        for name in entries.keys() - {"activation"}:
            try:
                numbers[name] = np.asarray(entries[name], dtype=float)
            except (TypeError, ValueError):
                raise ValueError(f"teacher file {path}: {name} must be numbers, in rows of one length") from None
        bias = numbers.get("bias", np.zeros(()))
        if bias.ndim:
            raise ValueError(f"teacher file {path}: bias must be one number, not {bias.shape} of them")
        given = np.asarray(entries.get("activation", "relu"))
        slopes = given.shape == (2,) and given.dtype.kind in "if"
        if not slopes and (given.ndim or given.dtype.kind != "U"):
            raise ValueError(f"teacher file {path}: activation must be a name or the two slopes (right, left)")
        activation = HomogeneousActivation(float(given[0]), float(given[1])) if slopes else str(given)
        return cls(numbers["outputs"], numbers["weights"], float(bias), numbers.get("linear"), activation)


def _read_entries(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise ValueError(f"teacher file {path} does not exist")
    if path.suffix == ".npz":
        try:
            with np.load(path, allow_pickle=False) as stored:
                return {name: stored[name] for name in stored.files}
        except (ValueError, OSError, EOFError, zipfile.BadZipFile) as error:
            raise ValueError(f"teacher file {path} is not a readable .npz archive: {error}") from None
    if path.suffix == ".toml":
        try:
            entries = tomllib.loads(path.read_text())
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ValueError(f"teacher file {path} is not valid TOML: {error}") from None
        teacher = entries.get("teacher", entries)
        return teacher if isinstance(teacher, dict) else entries
    raise ValueError(f"teacher file {path}: expected .npz or .toml")


def random_teacher(
    dim: int = 50,
    rank: int = 3,
    width: int = 4,
    min_angle: float = 0.3,
    min_kappa: float = 0.1,
    seed: int | np.random.Generator = 0,
    *,
    signs: str = "mixed",
    activation: str | HomogeneousActivation = RELU,
) -> Teacher:
    """A Δ-separated teacher with non-degenerate H: ``width`` neurons in a random ``rank``-dimensional subspace.

    ``|a*_i|`` is uniform in [0.5, 1.5]; ``signs`` is "mixed" (both signs occur when width ≥ 2), "positive" or
    "negative". Directions are redrawn one by one until every angle (modulo sign) is at least ``min_angle`` ∈ [0, π/2)
    and outputs until ``κ ≥ min_kappa``.

    Raises:
        ValueError: rank above dim or above width, an impossible range, or a separation or κ that was not met in
            20,000 draws (the message says how close the draws came).
    """
    for name, value in (("dim", dim), ("rank", rank), ("width", width)):
        check_whole(name, value)
    if rank > min(dim, width):
        raise ValueError(f"rank={rank} is above {'dim' if rank > dim else 'width'}={min(dim, width)}: lower the rank")
    if not 0.0 <= min_angle < 0.5 * np.pi + 1e-12:
        raise ValueError(f"min_angle={min_angle} must lie in [0, π/2]: angles are taken modulo sign")
    if not (np.isfinite(min_kappa) and min_kappa >= 0.0):
        raise ValueError(f"min_kappa={min_kappa} must be finite and not negative")
    if signs not in ("mixed", "positive", "negative"):
        raise ValueError(f"signs={signs!r}: choose 'mixed', 'positive' or 'negative'")
    rng = np.random.default_rng(seed)
    basis = np.linalg.qr(rng.standard_normal((dim, rank)))[0]
    inside, kappa = _separated(rng, rank, width, min_angle), 0.0
    for draw in range(_MAX_DRAWS):
        if draw and draw % 50 == 0:
            inside = _separated(rng, rank, width, min_angle)
        outputs = rng.uniform(0.5, 1.5, width) * _signs(rng, signs, width)
        spectrum = np.abs(np.linalg.eigvalsh(inside.T @ (outputs[:, None] * inside)))
        kappa = max(kappa, float(spectrum.min()))
        if spectrum.min() >= min_kappa and np.linalg.matrix_rank(inside) == rank:
            return Teacher(outputs, inside @ basis.T, activation=homogeneous(activation))
    raise ValueError(f"min_kappa={min_kappa} was not met in {_MAX_DRAWS} draws; the best was {kappa:.3g}: lower it")


def _signs(rng: np.random.Generator, signs: str, width: int) -> Float[np.ndarray, " m"]:
    if signs != "mixed":
        return np.full(width, 1.0 if signs == "positive" else -1.0)
    drawn = rng.choice([-1.0, 1.0], width)
    if width > 1 and abs(drawn.sum()) == width:
        drawn[rng.integers(width)] *= -1.0
    return drawn


def _separated(rng: np.random.Generator, rank: int, width: int, min_angle: float) -> Float[np.ndarray, "m r"]:
    limit, tries, most = np.cos(min_angle), 0, 0
    chosen: list[np.ndarray] = []
    while len(chosen) < width:
        candidate = rng.standard_normal(rank)
        candidate /= np.linalg.norm(candidate)
        if all(abs(candidate @ other) <= limit + 1e-15 for other in chosen):
            chosen.append(candidate)
            most = max(most, len(chosen))
            continue
        tries += 1
        if tries % 400 == 0:
            chosen = []
        if tries >= _MAX_DRAWS:
            raise ValueError(
                f"min_angle={min_angle} cannot be met by {width} neurons in rank {rank}: "
                f"{most} were placed in {_MAX_DRAWS} draws; lower min_angle or width, or raise rank"
            )
    return np.array(chosen)
