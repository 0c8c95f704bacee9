"""Run folders as `wstar recover` and `wstar fit` leave them, made by hand for the tests of the pages."""

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from wstar.experiments.store import RunFolder
from wstar.networks.teacher import Teacher, random_teacher

ORDERS = (0, 1, 2, 4, 6, 8)
N_EPOCHS = 6
STUDENTS_EACH = 3


def recover_folder(path: Path, *, rank: int = 3, width: int = 4, dim: int = 12, seed: int = 0) -> Path:
    """A run in which the students' angles halve with every epoch."""
    rng = np.random.default_rng(seed)
    teacher = random_teacher(dim=dim, rank=rank, width=width, min_angle=0.3, min_kappa=0.05, seed=seed)
    angles = 0.4 * 2.0 ** -np.arange(N_EPOCHS + 1)
    steps = _steps()
    trajectory = _dataset(
        steps,
        masses=np.tile(np.repeat(teacher.outputs / STUDENTS_EACH, STUDENTS_EACH), (len(steps), 1)),
        directions=_approaching(teacher, np.repeat(angles, 5)[4:], rng),
        basis=np.eye(dim),
        kind="recover",
    )
    trajectory["zeta"] = ("step", 1e-3 * trajectory["loss"].values)
    trajectory["zeta_error"] = ("step", 1e-5 * trajectory["loss"].values)
    trajectory["tensor_loss"] = (("step", "order"), 0.3 * trajectory["loss"].values[:, None] * np.arange(1.0, 7.0))
    path.mkdir(parents=True)
    np.savez(path / "teacher.npz", **teacher.to_arrays())
    np.savez(path / "student.npz", **teacher.to_arrays())
    return _write(path, trajectory, _recover_result(teacher, angles))


def fit_folder(path: Path, *, columns: tuple[str, ...] = ("rooms", "age", "tax", "lstat"), n_test: int = 80) -> Path:
    """A run on a table with two directions."""
    rng = np.random.default_rng(1)
    steps = _steps()
    directions = np.tile(np.linalg.qr(rng.normal(size=(len(columns), 2)))[0].T, (len(steps), 1, 1))
    trajectory = _dataset(
        steps, masses=np.ones((len(steps), 2)), directions=directions, basis=np.eye(len(columns)), kind="fit"
    )
    path.mkdir(parents=True)
    return _write(path, trajectory, _fit_result(columns, directions[0], n_test, rng))


def _steps() -> np.ndarray:
    """Five records an epoch after the start; epochs double in length."""
    ends = 100 * (2 ** np.arange(N_EPOCHS + 1) - 1)
    parts = [np.linspace(a, b, 6)[1:] for a, b in itertools.pairwise(ends)]
    return np.rint(np.concatenate([[0.0], *parts])).astype(int)


def _approaching(teacher: Teacher, angles: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Unit rows at the given angle from their teacher, one set a recorded step, signs mixed."""
    towards = np.repeat(teacher.weights, STUDENTS_EACH, axis=0)
    aside = rng.normal(size=towards.shape) @ np.linalg.pinv(teacher.weights) @ teacher.weights
    aside -= (aside * towards).sum(axis=1, keepdims=True) * towards
    if teacher.rank == 1:
        aside = rng.normal(size=towards.shape)
        aside -= (aside * towards).sum(axis=1, keepdims=True) * towards
    aside /= np.linalg.norm(aside, axis=1, keepdims=True)
    signs = rng.choice([-1.0, 1.0], size=(len(towards), 1))
    return np.stack([signs * (np.cos(angle) * towards + np.sin(angle) * aside) for angle in angles])


def _dataset(
    steps: np.ndarray, *, masses: np.ndarray, directions: np.ndarray, basis: np.ndarray, kind: str
) -> xr.Dataset:
    loss = 0.05 * 4.0 ** (-np.arange(len(steps)) / 5.0)
    n_steps = 100 * 2 ** np.arange(N_EPOCHS)
    decay = 0.02 * 0.5 ** np.arange(N_EPOCHS)
    return xr.Dataset(
        {
            "loss": ("step", loss),
            "objective": ("step", loss + 0.02),
            "gradient_norm": ("step", loss),
            "epoch_of_step": ("step", np.concatenate([[0], np.repeat(np.arange(N_EPOCHS), 5)])),
            "masses": (("step", "neuron"), masses),
            "directions": (("step", "neuron", "component"), directions),
            "basis": (("component", "input"), basis),
            "weight_decay": ("epoch", decay),
            "learning_rate": ("epoch", np.full(N_EPOCHS, 0.3)),
            "n_steps": ("epoch", n_steps),
            "first_step": ("epoch", np.cumsum(n_steps) - n_steps),
            "last_step": ("epoch", np.cumsum(n_steps)),
            "reason": ("epoch", np.array(["converged"] * (N_EPOCHS - 1) + ["step cap"])),
            "end_gradient_norm": ("epoch", np.full(N_EPOCHS, 1e-9)),
        },
        coords={"step": steps, "order": list(ORDERS)},
        attrs={"kind": kind, "activation": "relu"},
    )


def _epochs(angles: np.ndarray | None) -> list[dict[str, Any]]:
    return [
        {
            "epoch": k,
            "weight_decay": 0.02 * 0.5**k,
            "learning_rate": 0.3,
            "n_steps": 100 * 2**k,
            "reason": "converged" if k < N_EPOCHS - 1 else "step cap",
            "gradient_norm": 1e-9,
            "loss": 0.01 * 0.25**k,
            "objective": 0.05 * 0.5**k,
            "living": 12,
            "largest_heavy_angle": None if angles is None else float(angles[k + 1]),
            "inserted": 0,
            "zeta": None if angles is None else 1e-5 * 0.25**k,
            "zeta_error": None if angles is None else 1e-7 * 0.25**k,
        }
        for k in range(N_EPOCHS)
    ]


def _recover_result(teacher: Teacher, angles: np.ndarray) -> dict[str, Any]:
    neurons = [
        {
            "teacher": k,
            "mass": float(mass),
            "nearest_angle": float(angles[-1]),
            "gathered_mass": float(0.998 * mass),
            "mass_error": 0.002,
            "average_neuron_error": 1e-3,
            "n_students": STUDENTS_EACH,
        }
        for k, mass in enumerate(teacher.outputs)
    ]
    return {
        "kind": "recover",
        "wstar": "0.1.0",
        "status": "finished",
        "teacher": {
            "dim": teacher.dim,
            "width": teacher.width,
            "rank": teacher.rank,
            "separation": teacher.separation,
            "kappa": teacher.kappa,
            "information_exponent": 2,
            "activation": "relu",
        },
        "recovery": {
            "within_angle": 0.01,
            "recovered": True,
            "largest_heavy_angle": float(angles[-1]),
            "leftover_mass": 2e-5,
            "neurons": neurons,
        },
        "stages": {
            "stage1": {"width": 400, "directions": 200},
            "stage2": {"method": "lars", "living": 22, "violation": 1e-16, "objective": 0.1, "weight_decay": 0.02},
        },
        "epochs": _epochs(angles),
        "loss": 1e-6,
        "seconds": {"total": 3.2, "compute": 0.9},
        "samples": None,
    }


def _fit_result(
    columns: tuple[str, ...], directions: np.ndarray, n_test: int, rng: np.random.Generator
) -> dict[str, Any]:
    t = np.sort(rng.normal(size=300))
    grid = np.linspace(-3.0, 3.0, 60)
    observed = rng.normal(size=n_test)
    found = [
        {
            "mass": sign,
            "importance": importance,
            "weights": weights.tolist(),
            "curve": {"t": grid.tolist(), "value": (sign * np.maximum(grid, 0.0)).tolist()},
            "points": {"t": t.tolist(), "value": (sign * np.maximum(t, 0.0) + 0.3 * rng.normal(size=len(t))).tolist()},
        }
        for sign, importance, weights in zip((1.0, -0.4), (0.7, 0.3), directions, strict=True)
    ]
    return {
        "kind": "fit",
        "wstar": "0.1.0",
        "status": "finished",
        "table": "homes.csv",
        "target": "price",
        "columns": list(columns),
        "preprocessing": ["Columns were centred and scaled to unit variance on the training rows."],
        "n_train": 300,
        "n_test": n_test,
        "scores": {"r2_train": 0.91, "r2_test": 0.86 if n_test else None, "r2_linear_test": 0.71 if n_test else None},
        "target_sd": 9.2,
        "directions": found,
        "linear": {"intercept": 22.5, "weights": np.linspace(-1.0, 1.0, len(columns)).tolist()},
        "predictions": {"observed": observed.tolist(), "predicted": (0.9 * observed).tolist()},
        "epochs": _epochs(None),
        "seconds": {"total": 2.1, "compute": 0.7},
    }


def _write(path: Path, trajectory: xr.Dataset, result: dict[str, Any]) -> Path:
    (path / "config.toml").write_text(f'kind = "{result["kind"]}"\nseed = 0\n\n[versions]\nwstar = "0.1.0"\n')
    folder = RunFolder.open(path)
    folder.write_trajectory(trajectory)
    folder.write_result(result)
    return path
