"""``wstar fit``: the three stages on a table, and what they found: directions, curves, and how well they predict."""

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import xarray as xr
from jaxtyping import Float

from wstar import __version__
from wstar.algorithms.three_stage import RunProgress, three_stage
from wstar.algorithms.trajectory import Epoch, Snapshots, build_dataset
from wstar.experiments.config import FitConfig
from wstar.experiments.encoding import CONSTANT, SHRINKAGE, Encoding, input_map
from wstar.experiments.noise_level import DecayPlan, plan_weight_decay
from wstar.experiments.ridge import ridge_functions
from wstar.experiments.store import RunFolder
from wstar.experiments.tables import Table, read_table, split_rows
from wstar.networks.student import Student
from wstar.precision import double_precision
from wstar.risks.empirical import EmpiricalRisk

KIND = "fit"
_MOST_PREDICTIONS = 10_000
# a neuron counts as living above this share of the heaviest one's mass
_LIVING_SHARE = 1e-2
# see DecayPlan: what one table of pure noise in twenty exceeds
_CLEAR_STRENGTH = 1.6


@dataclass(frozen=True, eq=False)
class Prepared:
    """A table ready to be trained on: encoded and standardised columns z, labels, and the map from (z, 1) to inputs."""

    table: Table
    encoding: Encoding
    z_train: Float[np.ndarray, "n d"]
    y_train: Float[np.ndarray, " n"]
    z_test: Float[np.ndarray, "k d"]
    y_test: Float[np.ndarray, " k"]
    inputs: Float[np.ndarray, "d1 d1"]


@dataclass(frozen=True, eq=False)
class Fitted:
    """The outcome of training: a network on inputs, its linear rival, trajectory and epochs (none without neurons)."""

    student: Student
    linear: Student
    trajectory: xr.Dataset
    epochs: tuple[Epoch, ...]
    plan: DecayPlan


def prepare(config: FitConfig) -> Prepared:
    """Read, check, split and encode the table; every constant comes from the training rows.

    Raises:
        ValueError: whatever is wrong with the table (see :func:`read_table`, :class:`Encoding`), an odd width, a
            target that is constant over the training rows.
    """
    if config.width % 2:
        raise ValueError(f"width={config.width} must be even: the symmetric start pairs the neurons")
    table = read_table(config.table, config.target, missing=config.missing, categories=config.categories)
    return encode(table, *split_rows(len(table.labels), config.test_size, config.seed))


def encode(table: Table, train: np.ndarray, test: np.ndarray) -> Prepared:
    """``table`` with the rows ``train`` to fit and ``test`` held back.

    Raises:
        ValueError: as :meth:`Encoding.fit`, or a target that is constant over the training rows.
    """
    encoding = Encoding.fit(table.inputs.iloc[train])
    y_train = table.labels[train]
    if np.ptp(y_train) == 0.0:
        raise ValueError(f"the target {table.target!r} is {y_train[0]:g} in all training rows: hold fewer rows back")
    z_train = encoding(table.inputs.iloc[train])
    z_test = encoding(table.inputs.iloc[test])
    return Prepared(table, encoding, z_train, y_train, z_test, table.labels[test], input_map(z_train))


@double_precision
def train(config: FitConfig, prepared: Prepared, **options: Any) -> Fitted:
    """The three stages on the training rows; networks are on inputs ``(z, 1)`` and predict the target in its unit.

    Labels are scaled to standard deviation 1; ``options`` go to :func:`three_stage`.
    """
    centre, scale = float(prepared.y_train.mean()), float(prepared.y_train.std())
    risk = EmpiricalRisk(_with_one(prepared.z_train) @ prepared.inputs.T, (prepared.y_train - centre) / scale)
    plan = plan_weight_decay(risk, config.width, config.seed)
    first = plan.first if config.weight_decay is None else config.weight_decay
    n_epochs = config.n_epochs
    if n_epochs is None:
        n_epochs = max(1, 1 + round(np.log2(first / plan.last)))
    silent, epochs = Student(np.zeros(1), np.zeros((1, risk.dim))), tuple[Epoch, ...]()
    if first >= plan.largest:
        student, trajectory = silent, _no_trajectory(risk, silent, first)
    else:
        result = three_stage(
            risk,
            width=config.width,
            seed=config.seed,
            weight_decay=first,
            n_epochs=n_epochs,
            stage2=config.stage2,
            affine=config.affine,
            learning_rate=config.learning_rate,
            tolerance=config.tolerance,
            max_steps=config.max_steps,
            **options,
        )
        student, trajectory, epochs = result.student, result.trajectory, result.epochs

    def in_units(network: Student) -> Student:
        restored = risk.restore(network)
        scaled = Student(
            scale * restored.outputs, restored.weights, centre + scale * restored.bias, scale * restored.linear
        )
        return through(scaled, prepared.inputs)

    return Fitted(in_units(student), in_units(silent), trajectory, epochs, plan)


def fit_table(
    config: FitConfig,
    prepared: Prepared,
    run: RunFolder | None = None,
    on_progress: Callable[[RunProgress], None] | None = None,
) -> dict[str, Any]:
    """Train on what :func:`prepare` made of ``config``; writes all of the run folder but its page.

    Returns the result as it stands in result.json. student.npz is a network on the encoded columns in their own units
    with a last input that is 1: ``student(np.column_stack([columns, ones]))`` predicts the target.
    """
    began = time.perf_counter()
    fitted = train(config, prepared, on_progress=on_progress, checkpoint=run.checkpoint() if run else None)
    compute = time.perf_counter() - began
    summary = summarise(prepared, fitted)
    summary["seconds"] = {"compute": compute, "total": time.perf_counter() - began}
    if run:
        run.write_network("student", through(fitted.student, prepared.encoding.standardising()))
        run.write_trajectory(fitted.trajectory.assign_attrs(kind=KIND))
        run.write_result(summary)
    return summary


def summarise(prepared: Prepared, fitted: Fitted) -> dict[str, Any]:
    """The contents of result.json, less the seconds."""
    table, y_train, y_test = prepared.table, prepared.y_train, prepared.y_test
    ones_train, ones_test = _with_one(prepared.z_train), _with_one(prepared.z_test)
    directions, linear = ridge_functions(fitted.student, prepared.z_train, y_train)
    predicted = fitted.student(ones_test)
    shown = np.unique(np.linspace(0, len(y_test) - 1, min(len(y_test), _MOST_PREDICTIONS)).astype(int))
    return {
        "kind": KIND,
        "wstar": __version__,
        "status": "finished",
        "table": table.name,
        "target": table.target,
        "columns": list(prepared.encoding.columns),
        "preprocessing": [*table.notes, *prepared.encoding.notes, *_training_notes(fitted)],
        "n_train": len(y_train),
        "n_test": len(y_test),
        "scores": {
            "r2_train": r_squared(y_train, fitted.student(ones_train)),
            "r2_test": r_squared(y_test, predicted),
            "r2_linear_test": r_squared(y_test, fitted.linear(ones_test)),
        },
        "target_sd": float(y_train.std()),
        "directions": directions,
        "linear": linear,
        "predictions": {"observed": y_test[shown].tolist(), "predicted": predicted[shown].tolist()},
        "epochs": [_epoch_row(i, epoch, fitted.trajectory) for i, epoch in enumerate(fitted.epochs)],
    }


def through(network: Student, matrix: Float[np.ndarray, "d k"]) -> Student:
    """The network ``x ↦ network(matrix x)``."""
    return Student(network.outputs, network.weights @ matrix, network.bias, network.linear @ matrix, network.activation)


def r_squared(observed: Float[np.ndarray, " n"], predicted: Float[np.ndarray, " n"]) -> float | None:
    """``1 − Σ(y − ŷ)²/Σ(y − ȳ)²``; None where the observed values do not vary."""
    total = float(np.sum((observed - observed.mean()) ** 2)) if len(observed) > 1 else 0.0
    return 1.0 - float(np.sum((observed - predicted) ** 2)) / total if total > 0.0 else None


def _with_one(z: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d1"]:
    return np.column_stack([z, np.ones(len(z))])


def _no_trajectory(risk: EmpiricalRisk, silent: Student, weight_decay: float) -> xr.Dataset:
    snapshots, loss = Snapshots(), risk.value(silent)
    snapshots.add(0, 0, float("nan"), silent.parameters)
    nothing = Epoch(weight_decay, 0.0, 0, 0, "no neurons", float("nan"), loss, loss)
    return build_dataset(snapshots, [nothing], risk, silent.activation, np.eye(risk.dim), (), None)


def _training_notes(fitted: Fitted) -> list[str]:
    notes = [
        f"Directions are trained where (C + {SHRINKAGE:g} I)/{1 + SHRINKAGE:g} is the identity, C the correlation "
        f"matrix of the training rows; a constant input of {CONSTANT:g} gives every neuron a threshold.",
        "The target's mean and linear part on the training rows are taken off before the neurons are trained.",
    ]
    if not fitted.epochs:
        return [*notes, "No direction stands out from the noise at this weight decay: the fit is linear."]
    first, last = fitted.epochs[0].weight_decay, fitted.epochs[-1].weight_decay
    notes.append(
        f"Weight decay goes from {first:.2g} to {last:.2g} (target scaled to standard deviation 1); at "
        f"{2.0 * fitted.plan.last:.2g} noise of the residual's size would recruit no neuron."
    )
    if fitted.plan.strength < _CLEAR_STRENGTH:
        notes.append("Caution: directions as strong as these turn up in more than one table of pure noise in twenty.")
    return notes


def _epoch_row(index: int, epoch: Epoch, trajectory: xr.Dataset) -> dict[str, Any]:
    masses = np.abs(trajectory.masses.sel(step=epoch.last_step).values)
    return asdict(epoch) | {
        "epoch": index,
        "n_steps": epoch.n_steps,
        "living": int((masses > _LIVING_SHARE * masses.max()).sum()),
        "largest_heavy_angle": None,
    }
