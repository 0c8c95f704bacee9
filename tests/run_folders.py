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
    directions = np.linalg.qr(rng.normal(size=(len(columns), 2)))[0].T
    path.mkdir(parents=True)
    result = _fit_result(columns, directions, n_test, rng)
    (path / "config.toml").write_text('kind = "fit"\nseed = 0\n\n[versions]\nwstar = "0.1.0"\n')
    RunFolder.open(path).write_result(result)
    return path


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


def _epochs(angles: np.ndarray) -> list[dict[str, Any]]:
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
            "largest_heavy_angle": float(angles[k + 1]),
            "inserted": 0,
            "zeta": 1e-5 * 0.25**k,
            "zeta_error": 1e-7 * 0.25**k,
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
    n, d = 300 + n_test, len(columns)
    observed = rng.normal(size=n)
    found = [
        _direction(sign, importance, weights, rng)
        for sign, importance, weights in zip((1.0, -0.4), (0.7, 0.3), directions, strict=True)
    ]
    scores = {
        name: {"train": _score(train), "test": _score(test) if n_test else None}
        for name, train, test in (("model", 0.91, 0.86), ("ridge", 0.75, 0.71), ("mean", 0.0, -0.01))
    }
    certain = {"level": 0.9, "r2_low": 0.8, "r2_high": 0.9, "better_than_ridge": 0.97}
    return {
        "kind": "fit",
        "wstar": "0.1.0",
        "status": "finished",
        "table": "homes.csv",
        "target": "price",
        "columns": list(columns),
        "column_mean": [1.0] * d,
        "column_sd": [2.0] * d,
        "preprocessing": ["3 empty training cells of rooms hold its median 6."],
        "cautions": ["column 'tax' is 'price' up to scale"],
        "n_train": 300,
        "n_test": n_test,
        "scores": scores | {"cross_validated_r2": 0.84, "certainty": certain if n_test else None},
        "target_sd": 9.2,
        "directions": found,
        "linear": {
            "intercept": 22.5,
            "weights": np.linspace(-1.0, 1.0, d).tolist(),
            "standardised": np.linspace(-2.0, 2.0, d).tolist(),
        },
        "predictions": {
            "row": list(range(1, n + 1)),
            "observed": observed.tolist(),
            "predicted": (0.9 * observed).tolist(),
            "unseen": [False] * 300 + [True] * n_test,
        },
        "path": _path(),
        "support": {"neurons": 2, "directions": 1, "rule": "the stated rule"},
        "certificate": {"weight_decay": 0.05, "objective": 0.2, "gap": 0.01, "sup": 1.2, "neuron_gain": 1e-3},
        "diagnosis": {
            "applies": False,
            "sentences": ["age has values far out."],
            "projections": [{"skewness": 0.1, "excess_kurtosis": 2.5}] * 2,
            "few_valued": [],
            "heavy": ["age"],
        },
        "resamples": 50,
        "summary": ["On 80 rows it has not seen, the fit misses price by 2 on average."],
        "seconds": {"total": 2.1},
    }


def _direction(sign: float, importance: float, weights: np.ndarray, rng: np.random.Generator) -> dict[str, Any]:
    t, grid = np.sort(rng.normal(size=300)), np.linspace(-3.0, 3.0, 60)
    value = sign * np.maximum(grid, 0.0)
    return {
        "mass": sign,
        "importance": importance,
        "spread": importance,
        "n_neurons": 2,
        "weights": (0.5 * weights).tolist(),
        "standardised": weights.tolist(),
        "made_of": "rooms (+) and age (−)",
        "shape": "is flat, then rises",
        "swing": 7.5,
        "middle": [-1.6, 1.6],
        "curve": {
            "t": grid.tolist(),
            "value": value.tolist(),
            "low": (value - 0.1).tolist(),
            "high": (value + 0.2).tolist(),
        },
        "points": {"t": t.tolist(), "value": (sign * np.maximum(t, 0.0) + 0.3 * rng.normal(size=len(t))).tolist()},
        "stability": {"median": 0.98, "low": 0.9},
    }


def _score(r2: float) -> dict[str, float]:
    return {"r2": r2, "rmse": 10.0 * (1.0 - r2), "mae": 8.0 * (1.0 - r2)}


def _path() -> list[dict[str, Any]]:
    """Ridge regression, five weight decays with the third of them chosen, a refit, and one that was not tried."""
    rows = [(None, False, 0.4, 0), *((0.2 * 0.6**k, False, 0.2 + 0.02 * (k - 2) ** 2, 2 + k) for k in range(5))]
    rows += [(0.2 * 0.6**2, True, 0.25, 3), (0.2 * 0.6**4, True, None, 5)]
    return [
        {
            "weight_decay": decay,
            "refitted": refitted,
            "cv_error": error,
            "cv_standard_error": None if error is None else 0.03,
            "n_neurons": neurons,
            "chosen": error == 0.2,
        }
        for decay, refitted, error, neurons in rows
    ]


def _write(path: Path, trajectory: xr.Dataset, result: dict[str, Any]) -> Path:
    (path / "config.toml").write_text(f'kind = "{result["kind"]}"\nseed = 0\n\n[versions]\nwstar = "0.1.0"\n')
    folder = RunFolder.open(path)
    folder.write_trajectory(trajectory)
    folder.write_result(result)
    return path
