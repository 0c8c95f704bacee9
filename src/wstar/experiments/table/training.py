"""What ``wstar fit`` computes: a table split and encoded, the regressor on its training rows, resamples and bounds."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float, Int

from wstar.estimator.bands import Resamples
from wstar.estimator.certificate import Certificate
from wstar.estimator.cross_validation import TwoLayerRegressorCV
from wstar.estimator.inputs import widened
from wstar.experiments.config import FitConfig
from wstar.experiments.table.encoding import Encoding
from wstar.experiments.table.index_model import IndexModel
from wstar.experiments.table.table import LEAST_ROWS, Table, read_table, split_rows

# bands need every neuron polished on every resample, the certificate a search: both on at most so many rows
_MOST_ROWS = 20_000
# with fewer training rows a column there is a caution
_ROWS_FOR_COLUMN = 3


@dataclass(frozen=True, eq=False)
class Prepared:
    """A table ready to be learnt from: encoded columns in their own units, and what was done to get them."""

    table: Table
    encoding: Encoding
    notes: tuple[str, ...]
    cautions: tuple[str, ...]
    train: Int[np.ndarray, " n"]
    test: Int[np.ndarray, " k"]
    X_train: Float[np.ndarray, "n d"]
    y_train: Float[np.ndarray, " n"]
    X_test: Float[np.ndarray, "k d"]
    y_test: Float[np.ndarray, " k"]


@dataclass(frozen=True, eq=False)
class Fitted:
    """What was learnt.

    Attributes:
        regressor: the estimator, fitted to centred columns.
        centre: (d,), the training means taken off.
        model: the same function of centred columns.
        resamples: None where there is no neuron or none was asked for.
        shrunk: how much narrower bands are than those of the resamples, which may be of a part of the rows.
        certificate: None where there is no neuron or the rows are too many.
    """

    regressor: TwoLayerRegressorCV
    centre: Float[np.ndarray, " d"]
    model: IndexModel
    resamples: Resamples | None
    shrunk: float
    certificate: Certificate | None

    def predict(self, X: Float[np.ndarray, "n d"]) -> Float[np.ndarray, " n"]:
        """For encoded columns in their own units."""
        return self.model(X - self.centre)


def prepare(config: FitConfig) -> Prepared:
    """Read, check, split and encode the table; every constant comes from the training rows.

    Raises:
        ValueError: whatever is wrong with the table (see :func:`read_table`, :func:`encode`).
    """
    table = read_table(
        config.table,
        config.target,
        missing=config.missing,
        categories=config.categories,
        dates=config.dates,
        leave_out=config.leave_out,
    )
    return encode(table, *split_rows(table, config.test_size, config.seed))


def encode(table: Table, train: Int[np.ndarray, " n"], test: Int[np.ndarray, " k"]) -> Prepared:
    """``table`` with the rows ``train`` to fit and ``test`` held back.

    Raises:
        ValueError: fewer than 8 training rows, no column that varies over them, or a target that does not.
    """
    if len(train) < LEAST_ROWS - 2:
        raise ValueError(f"{len(train)} training rows: at least {LEAST_ROWS - 2} are needed; lower --test-size")
    y_train = table.labels[train]
    if np.ptp(y_train) == 0.0:
        raise ValueError(f"the target {table.target!r} is {y_train[0]:g} in all training rows: hold fewer rows back")
    training = table.inputs.iloc[train]
    encoding, notes = Encoding.fit(training)
    X_test = encoding(table.inputs.iloc[test]) if len(test) else np.empty((0, len(encoding.columns)))
    return Prepared(
        table,
        encoding,
        (*table.notes, *notes),
        (*table.cautions, *_few_rows(len(train), len(encoding.columns))),
        train,
        test,
        encoding(training),
        y_train,
        X_test,
        table.labels[test],
    )


def train(config: FitConfig, prepared: Prepared, on_progress: Callable[[str], None] | None = None) -> Fitted:
    """Cross-validate, fit, resample and certify on the training rows; ``on_progress`` is told what comes next."""
    say = on_progress or _silent
    X, y = prepared.X_train, prepared.y_train
    # away from zero, thresholds of resampled neurons would hold their directions' share of the columns' means
    centre = X.mean(axis=0)
    X = X - centre
    regressor = TwoLayerRegressorCV(
        cv=config.folds,
        one_standard_error=config.rule == "one-se",
        average=False,
        # the page speaks of the columns as they are
        powers=None,
        robust=config.robust,
        random_state=config.seed,
    )
    say("cross-validation")
    with warnings.catch_warnings():
        # the table's own check has said so, with the column's name
        warnings.filterwarnings("ignore", message=".*up to scale")
        regressor.fit(X, y)
    rows: slice | np.ndarray = slice(None)
    if len(X) > _MOST_ROWS:
        rows = np.sort(np.random.default_rng([config.seed, 6]).choice(len(X), _MOST_ROWS, replace=False))
    resamples = None
    if config.resamples and len(regressor.masses_):
        say("resampling")
        resamples = regressor.bootstrap(X[rows], y[rows], n_resamples=config.resamples, seed=config.seed)
    say("certificate")
    certificate = regressor.certify(X, y) if len(X) <= _MOST_ROWS else None
    shrunk = float(np.sqrt(len(X[rows]) / len(X)))
    return Fitted(regressor, centre, _model(regressor, X, y), resamples, shrunk, certificate)


def in_units(fitted: Fitted) -> IndexModel:
    """The model as a function of the encoded columns in their own units."""
    model, centre = fitted.model, fitted.centre
    return replace(
        model,
        thresholds=model.thresholds - model.directions @ centre,
        intercept=model.intercept - float(model.linear @ centre),
        low=model.low + centre,
        high=model.high + centre,
    )


def _model(regressor: TwoLayerRegressorCV, X: Float[np.ndarray, "n d"], y: Float[np.ndarray, " n"]) -> IndexModel:
    low, high = widened(X.min(axis=0), X.max(axis=0), regressor.guard)
    floor, ceiling = widened(y.min(keepdims=True), y.max(keepdims=True), regressor.guard)
    return IndexModel(
        regressor.masses_,
        regressor.directions_,
        regressor.thresholds_,
        regressor.linear_,
        regressor.intercept_,
        low,
        high,
        regressor.activation_ == "relu",
        float(floor[0]),
        float(ceiling[0]),
    )


def _few_rows(n: int, d: int) -> list[str]:
    if n >= _ROWS_FOR_COLUMN * d:
        return []
    return [
        f"{n} training rows for {d} columns are few: what is found may be chance; leave out columns that say little"
    ]


def _silent(_: str) -> None:
    return None
