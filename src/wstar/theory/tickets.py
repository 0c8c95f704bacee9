"""Winning tickets: how well a neuron's initial coordinates say which teacher neuron it will serve (LMZ Lemma A.3)."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int
from sklearn.metrics import roc_auc_score

from wstar.algorithms.truncated.mean_field import checked_weights
from wstar.kernels.activations import ABS, HomogeneousActivation, homogeneous
from wstar.networks.teacher import Teacher
from wstar.theory.tensor_dynamics import NeuronSets


@dataclass(frozen=True)
class WinningTickets:
    """Who serves whom at the end, and how well the start foretold it.

    ``roc_area`` is the probability that a pair (neuron, teacher) which ends in service had a larger ``a_i v_i²`` than
    one which does not: 1/2 by chance. ``roc_areas`` are those of each teacher alone. ``first`` is the share of teachers
    whose largest initial coordinate belongs to a neuron that serves them, ``top`` the share of all servants found among
    as many largest initial coordinates of their teacher. NaN where nobody serves.
    """

    serves: Bool[np.ndarray, "m k"]
    servants: Int[np.ndarray, " k"]
    roc_area: float
    roc_areas: Float[np.ndarray, " k"]
    first: float
    top: float


def serving(weights: Float[np.ndarray, "m d"], teacher: Teacher, cosine: float = 0.95) -> Bool[np.ndarray, "m k"]:
    """Neuron i serves teacher j if j is its nearest direction and ``|cos|`` is at least ``cosine``."""
    weights = checked_weights("weights", weights, teacher.dim)
    if not 0.0 < cosine <= 1.0:
        raise ValueError(f"cosine={cosine} must lie in (0, 1]")
    norms = np.linalg.norm(weights, axis=1)
    cosines = np.abs(weights @ teacher.directions.T) / np.where(norms > 0.0, norms, 1.0)[:, None]
    nearest = np.arange(teacher.width) == cosines.argmax(axis=1)[:, None]
    return nearest & (cosines >= cosine)


def winning_tickets(
    start: Float[np.ndarray, "m d"],
    end: Float[np.ndarray, "m d"],
    teacher: Teacher,
    cosine: float = 0.95,
    activation: HomogeneousActivation | str = ABS,
) -> WinningTickets:
    """Score the initial coordinates ``v_i² = (w·w*_i)²`` against service at the end.

    LMZ's plateau moves a coordinate by ``v_i ← v_i + η a_i v_i³``, so ``a_i v_i²`` is how fast it starts.

    Raises:
        ValueError: start and end of different shapes, or weights that are not finite or of another dimension.
    """
    start, end = checked_weights("start", start, teacher.dim), checked_weights("end", end, teacher.dim)
    if start.shape != end.shape:
        raise ValueError(f"start has shape {start.shape} and end {end.shape}: give the same neurons at both times")
    serves = serving(end, teacher, cosine)
    scores = teacher.atoms(homogeneous(activation)).masses * (start @ teacher.directions.T) ** 2
    servants = serves.sum(axis=0)
    order = np.argsort(-scores, axis=0)
    ranked = np.take_along_axis(serves, order, axis=0)
    among = np.arange(len(start))[:, None] < servants
    return WinningTickets(
        serves,
        servants,
        _area(serves.ravel(), scores.ravel()),
        np.array([_area(serves[:, j], scores[:, j]) for j in range(teacher.width)]),
        float(ranked[0].mean()) if servants.any() else float("nan"),
        float((ranked & among).sum() / servants.sum()) if servants.any() else float("nan"),
    )


@dataclass(frozen=True)
class RuleScore:
    """The threshold rule against service at the end: precision of the pairs it names, recall of those that serve."""

    precision: float
    recall: float
    named: int


def score_rule(sets: NeuronSets, serves: Bool[np.ndarray, "m k"]) -> RuleScore:
    """LMZ's good neurons as a prediction; NaN where the rule names nobody, or nobody serves."""
    hits, named, total = int((sets.good & serves).sum()), int(sets.good.sum()), int(serves.sum())
    return RuleScore(hits / named if named else float("nan"), hits / total if total else float("nan"), named)


def _area(labels: Bool[np.ndarray, " n"], scores: Float[np.ndarray, " n"]) -> float:
    return float(roc_auc_score(labels, scores)) if labels.any() and not labels.all() else float("nan")
