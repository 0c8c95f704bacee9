"""LMZ's initial measure for the infinite width, and groups of sign flips that keep it symmetric."""

import itertools

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike
from scipy.stats import norm, qmc

from wstar.algorithms.truncated.truncation import whole_number

# LMZ Definition A.1 leaves constants and powers of log d open; these keep 0.89 of N(0, I/d) at d = 5, and 0.98 or more
# from d = 10. Its third condition counts w_i² ≥ log d/d, which typical draws have √d times: the factor 2 is ours
_LARGEST, _SPREAD, _LARGE, _MOST_LARGE = 2.0, 2.0, 2.0, 3


def truncated_gaussian(
    masses: ArrayLike, n: int, seed: int | np.random.Generator = 0, *, quasi: bool = False
) -> tuple[Float[np.ndarray, "n d"], float]:
    """``n`` draws from LMZ's initial measure P⁰, and the share of N(0, I/d) that it keeps.

    N(0, I/d) conditioned on ``‖w‖²_∞ ≤ 2 log²d/d``, on ``‖w‖²`` and ``Σ a_i d w_i²`` (a: ``masses`` over their sum)
    within ``2 log d/√d`` of 1, and on at most 3 coordinates with ``w_i² ≥ 2 log d/d``; log d is at least log 3. Every
    condition is on squares, so the measure is conditionally symmetric. ``quasi`` draws scrambled Sobol points, whose
    mean squares are far nearer to the measure's than those of independent draws.

    Raises:
        ValueError: masses that are not finite and positive, or n below 1.

    Source: LMZ Definition A.1, with constants chosen here.
    """
    a = np.asarray(masses, dtype=float)
    if a.ndim != 1 or a.size == 0 or not (np.isfinite(a) & (a > 0.0)).all():
        raise ValueError("masses must be finite and positive numbers, one for each direction")
    whole_number("n", n, 1)
    rng, d = np.random.default_rng(seed), a.size
    log, share = np.log(max(d, 3)), a / a.sum()
    kept: list[np.ndarray] = []
    drawn = found = 0
    n_round = 1 << max(n - 1, 63).bit_length()
    sobol = qmc.Sobol(d, seed=rng) if quasi else None
    while found < n:
        draws = norm.ppf(sobol.random(n_round)) if sobol else rng.standard_normal((n_round, d))
        squares = (rows := draws / np.sqrt(d)) ** 2
        near = np.abs(np.stack([squares.sum(axis=1), d * squares @ share]) - 1.0).max(axis=0)
        good = (squares.max(axis=1) <= _LARGEST * log**2 / d) & (near <= _SPREAD * log / np.sqrt(d))
        good &= (squares >= _LARGE * log / d).sum(axis=1) <= _MOST_LARGE
        kept.append(rows[good])
        drawn, found = drawn + len(rows), found + int(good.sum())
    return np.concatenate(kept)[:n], found / drawn


def sign_flips(dim: int, strength: int = 2) -> Float[np.ndarray, "g d"]:
    """A group of sign vectors over which every product of up to ``strength`` different coordinates has mean 0.

    All 2^d flips do that for any number; a linear code needs few. Coordinate i is labelled with a vector x_i over F₂
    and the flips are ``(−1)^{b·x_i}`` for all b. Different non-zero labels give strength 2 with ``g ≤ 2d``; labels
    ``(x, x³)`` over F_{2^r} (the dual of a BCH code) strength 4 with ``g ≤ 4d²``.

    Raises:
        ValueError: dim below 1, or a strength other than 2 and 4.
    """
    whole_number("dim", dim, 1)
    if strength not in (2, 4):
        raise ValueError(f"strength={strength}: 2 and 4 are there")
    bits = dim.bit_length()
    labels = list(range(1, dim + 1))
    if strength == 4:
        labels = [x | _times(_times(x, x, bits), x, bits) << bits for x in labels]
        bits *= 2
    table = np.array([[label >> b & 1 for b in range(bits)] for label in labels])
    every = np.array(list(itertools.product((0, 1), repeat=bits)))
    return 1.0 - 2.0 * ((every @ table.T) % 2)


# irreducible polynomials over F₂ by degree
_IRREDUCIBLE = {1: 0b11, 2: 0b111, 3: 0b1011, 4: 0b10011, 5: 0b100101, 6: 0b1000011, 7: 0b10000011, 8: 0b100011011}


def _times(x: int, y: int, bits: int) -> int:
    """Product in the field of 2^bits elements."""
    if bits not in _IRREDUCIBLE:
        raise ValueError(f"strength=4 is there up to dim={2 ** max(_IRREDUCIBLE) - 1}: take strength=2")
    product = 0
    while y:
        product ^= x * (y & 1)
        y >>= 1
        x <<= 1
        if x >> bits:
            x ^= _IRREDUCIBLE[bits]
    return product
