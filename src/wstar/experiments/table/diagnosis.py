"""Whether the columns look like those of the theory: ZG and LMZ assume Gaussian inputs."""

from typing import Any

import numpy as np
from jaxtyping import Float

# a value so many standard deviations out is not seen in any Gaussian table; skewness and excess kurtosis of a
# projection beyond these change which directions its residual shows
_FAR, _SKEWED, _PEAKED = 8.0, 1.0, 2.0
# a column with at most so many values is a class rather than a measurement
_FEW = 6
_SKEWED_TARGET = 2.0
_MOST_NAMED = 5


def diagnose(
    X: Float[np.ndarray, "n d"], y: Float[np.ndarray, " n"], columns: list[str], directions: Float[np.ndarray, "k d"]
) -> dict[str, Any]:
    """Columns with few or far values, and skewness and excess kurtosis of the projections on the directions.

    Returns:
        ``applies``: whether no column and no projection speaks against the theory; ``sentences``; ``projections``:
        a dict for each direction; ``few_valued`` and ``heavy``: names of columns.
    """
    centred = X - X.mean(axis=0)
    spread = centred.std(axis=0)
    reach = np.abs(centred).max(axis=0) / spread
    few = [name for name, column in zip(columns, X.T, strict=True) if len(np.unique(column)) <= _FEW]
    heavy = [columns[k] for k in np.argsort(-reach) if reach[k] > _FAR and columns[k] not in few]
    positive = [name for name in heavy if X[:, columns.index(name)].min() > 0.0]
    moments = [_moments(centred @ direction) for direction in directions]
    odd = [k + 1 for k, m in enumerate(moments) if abs(m["skewness"]) > _SKEWED or m["excess_kurtosis"] > _PEAKED]
    sentences = []
    if heavy:
        sentences.append(
            f"{_named(heavy)} {_have(heavy)} values more than {_FAR:g} standard deviations out"
            + (f"; a logarithm of {_named(positive)} may serve better." if positive else ".")
        )
    if few:
        many = "has" if len(few) == 1 else "have"
        sentences.append(f"{len(few)} of {len(columns)} columns {many} {_FEW} values or fewer: {_named(few)}.")
    if odd:
        named = ", ".join(map(str, odd[:_MOST_NAMED]))
        sentences.append(f"The projections on direction {named} are skewed or heavy-tailed.")
    applies = not sentences
    if y.min() > 0.0 and _moments(y)["skewness"] > _SKEWED_TARGET:
        sentences.append("The target is far skewed: its logarithm may be predicted better.")
    if applies:
        sentences.append("Columns and projections look near enough to Gaussian for the theory to be a guide.")
    else:
        sentences.append(
            "The theory of recovery is for Gaussian columns: here the directions are a good description of the rows, "
            "judged by the unseen ones, and no more is proven of them."
        )
    return {
        "applies": applies,
        "sentences": sentences,
        "projections": moments,
        "few_valued": few,
        "heavy": heavy,
    }


def _moments(t: Float[np.ndarray, " n"]) -> dict[str, float]:
    z = (t - t.mean()) / t.std()
    return {"skewness": float(np.mean(z**3)), "excess_kurtosis": float(np.mean(z**4) - 3.0)}


def _named(names: list[str]) -> str:
    more = len(names) - _MOST_NAMED
    return ", ".join(names[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def _have(names: list[str]) -> str:
    return "has" if len(names) == 1 else "have"
