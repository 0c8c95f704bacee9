"""Baselines on LMZ's target at N = 10⁴, d = 30: ``python benchmarks/baselines.py [NAME ...]``.

Labels are ``Σ |w*_i·x|/d`` with orthonormal w*_i. One line a baseline, each fitted in its own process: seconds to fit
and to predict 10⁴ fresh rows, peak memory, d times the mean square error on these rows with its standard error. Above
them, d times the energy of the orders beyond p, the least that any polynomial of degree p leaves. The bar for kernels
is 60 s on the clock of a quiet machine and 3 GB.
"""

import subprocess
import sys

from wstar.kernels.hermite import coefficient_energy

ROWS, DIM = 10_000, 30
MODELS = {
    "ntk-relu": "KernelRidge('ntk')",
    "ntk-abs": "KernelRidge('ntk', activation='abs')",
    "ntk-relu-first": "KernelRidge('ntk', layers='first')",
    "ntk-abs-first": "KernelRidge('ntk', activation='abs', layers='first')",
    "nngp-relu": "KernelRidge('nngp')",
    "nngp-abs": "KernelRidge('nngp', activation='abs')",
    "rbf": "KernelRidge('rbf')",
    "polynomial-2": "KernelRidge('polynomial', degree=2)",
    "polynomial-4": "KernelRidge('polynomial', degree=4)",
    "random-relu": "RandomFeatures(2000)",
    "random-abs": "RandomFeatures(2000, activation='abs')",
    "one-step-relu": "OneStepFeatures(2000)",
    "one-step-abs": "OneStepFeatures(2000, activation='abs')",
    "subspace-relu": "SubspaceFeatures(2000)",
    "subspace-abs": "SubspaceFeatures(2000, activation='abs')",
}

MEASURE = """
import resource, sys, time
import numpy as np
from wstar.baselines import *
rows, dim = int(sys.argv[2]), int(sys.argv[3])
rng = np.random.default_rng(1)
basis = np.linalg.qr(rng.standard_normal((dim, dim)))[0]
X, new = rng.standard_normal((rows, dim)), rng.standard_normal((rows, dim))
y, labels = (np.abs(part @ basis.T).mean(axis=1) for part in (X, new))
model = eval(sys.argv[1])
began, cpu = time.perf_counter(), time.process_time()
model.fit(X, y)
fitted, cpu = time.perf_counter(), time.process_time() - cpu
squares = dim * (model.predict(new) - labels) ** 2
predicted = time.perf_counter()
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9
print(fitted - began, cpu, predicted - fitted, peak, squares.mean(), squares.std() / np.sqrt(rows), model.penalty_)
"""


def measure(model: str) -> tuple[float, ...]:
    """Seconds to fit, of the processor, and to predict; peak GB; d·error, its standard error; the penalty."""
    command = [sys.executable, "-c", MEASURE, model, str(ROWS), str(DIM)]
    return tuple(float(v) for v in subprocess.run(command, check=True, capture_output=True, text=True).stdout.split())


def main() -> None:
    """The floors, then one line a baseline."""
    floors = {p: 1.0 - sum(coefficient_energy(k) for k in range(0, p + 1, 2)) for p in (0, 2, 4, 6)}
    print("d × floor of order p: " + ", ".join(f"p={p} {value:.4f}" for p, value in floors.items()), flush=True)
    for name in sys.argv[1:] or MODELS:
        fit, cpu, predict, peak, error, spread, penalty = measure(MODELS[name])
        bar = "reached" if fit <= 60.0 and peak <= 3.0 else "MISSED"
        print(
            f"{name:18s} fit {fit:5.1f} s (processor {cpu:.1f}), predict {predict:4.1f} s, peak {peak:.2f} GB ({bar}), "
            f"d × error {error:.4f} ± {spread:.4f}, penalty {penalty:.3g}",
            flush=True,
        )


if __name__ == "__main__":
    main()
