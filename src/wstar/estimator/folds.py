"""Folds that depend on the rows' values alone: equal rows stay together, order and repetition change nothing."""

from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

Split = tuple[Int[np.ndarray, "..."], Int[np.ndarray, "..."]]


def in_order(
    X: Float[np.ndarray, "n d"], labels: Float[np.ndarray, " n"], counts: Float[np.ndarray, " n"]
) -> tuple[Float[np.ndarray, "k d"], Float[np.ndarray, " k"], Float[np.ndarray, " k"]]:
    """Rows in an order that their values decide, equal ones joined with their counts added.

    The order they came in and repetition then change no bit. Sorted rows are shuffled the same way every time, lest
    blocks of rows hold like labels.
    """
    order, new = _sorted_rows(X, labels)
    counts = np.add.reduceat(counts[order], np.flatnonzero(new))
    shuffled = np.random.default_rng(0).permutation(len(counts))
    rows = order[new][shuffled]
    return X[rows], labels[rows], counts[shuffled]


def _sorted_rows(
    X: Float[np.ndarray, "n d"], labels: Float[np.ndarray, " n"]
) -> tuple[Int[np.ndarray, " n"], Bool[np.ndarray, " n"]]:
    """The order by label, then columns, and which rows in it differ from the one before."""
    order = np.argsort(labels, kind="stable")
    same = labels[order[1:]] == labels[order[:-1]]
    # only rows that share a label are compared column by column
    tied = np.flatnonzero(np.append(same, False) | np.insert(same, 0, False))
    among_ties = order[tied]
    order[tied] = among_ties[np.lexsort((*X[among_ties].T[::-1], labels[among_ties]))]
    new = np.ones(len(labels), dtype=bool)
    second = np.flatnonzero(same)
    new[second + 1] = (X[order[second + 1]] != X[order[second]]).any(axis=1)
    return order, new


def fold_of_rows(
    X: Float[np.ndarray, "n d"], labels: Float[np.ndarray, " n"], n_folds: int, rng: np.random.Generator
) -> Int[np.ndarray, " n"]:
    """Fold of every row, balanced over the labels: each run of ``n_folds`` distinct rows next in order is dealt out.

    Rows that are equal in columns and label share a fold: a copy in the training rows would give its twin away, and
    an integer weight does what repetition does.
    """
    order, new = _sorted_rows(X, labels)
    distinct = np.cumsum(new) - 1
    n_runs = -(-(int(distinct[-1]) + 1) // n_folds)
    dealt = rng.permuted(np.tile(np.arange(n_folds), (n_runs, 1)), axis=1).ravel()
    folds = np.empty(len(labels), dtype=int)
    folds[order] = dealt[distinct]
    return folds


def splits_by_value(
    n_folds: int, X: Float[np.ndarray, "n d"], labels: Float[np.ndarray, " n"], rng: np.random.Generator
) -> list[Split]:
    """Training and held-out rows of the folds of :func:`fold_of_rows`; fewer than asked for where rows are few.

    Raises:
        ValueError: fewer than two folds asked for.
    """
    if n_folds < 2:
        raise ValueError(f"cv={n_folds} must be at least 2 folds")
    folds = fold_of_rows(X, labels, n_folds, rng)
    present = np.unique(folds)
    return [(np.flatnonzero(folds != k), np.flatnonzero(folds == k)) for k in present]


def given_splits(
    cv: Any, X: Float[np.ndarray, "n d"], labels: Float[np.ndarray, " n"], kept: Bool[np.ndarray, " n"]
) -> list[Split]:
    """Splits of a scikit-learn splitter, or an iterable of splits, as indices into the rows that are ``kept``.

    Raises:
        ValueError: fewer than two splits, or one of them without rows.
    """
    place = np.cumsum(kept) - 1
    found = []
    for pair in cv.split(X, labels) if hasattr(cv, "split") else cv:
        train, held_out = (np.arange(len(X))[np.asarray(part)] for part in pair)
        found.append((place[train[kept[train]]], place[held_out[kept[held_out]]]))
    if len(found) < 2:
        raise ValueError(f"cv gives {len(found)} splits: at least 2 are needed")
    if not all(len(train) and len(held_out) for train, held_out in found):
        raise ValueError("cv gives a split without rows of positive weight to train on or to hold out")
    return found


def among(rows: Int[np.ndarray, " k"], n: int, pairs: list[Split]) -> list[Split]:
    """Splits of ``n`` rows as splits of some of them, as indices into these.

    Raises:
        ValueError: a split of which nothing is left.
    """
    place = np.full(n, -1)
    place[rows] = np.arange(len(rows))
    found = [(place[train][place[train] >= 0], place[held_out][place[held_out] >= 0]) for train, held_out in pairs]
    if not all(len(train) and len(held_out) for train, held_out in found):
        raise ValueError(f"cv gives a split with hardly any rows among {n}: give fewer splits or larger parts")
    return found
