"""Recovery of random teachers with Algorithm 1: how many, how well, how fast.

python benchmarks/recover.py teachers [N]     distribution over N random teachers at the defaults (20)
python benchmarks/recover.py command          wall clock of `wstar recover` as a whole process, and its own computing
python benchmarks/recover.py dimension        d = 100,000 beside d = 50: time and peak memory
python benchmarks/recover.py recording        what the default records cost, against none, in one process
python benchmarks/recover.py samples          d=20, r=2, 3 neurons, N=3000, noise 0.1: noise-free error over variance
"""

import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import wstar
from wstar.theory.alignment import recovery_report

_WSTAR = [sys.executable, "-c", "from wstar.cli.main import main; main()"]


def teachers(n: int = 20) -> None:
    """Every direction within 1e-2 and its mass within 5 %, at the defaults (rank 3, width 4, min_angle 0.3)."""
    errors, angles, seconds, failures = [], [], [], []
    for seed in range(n):
        teacher = wstar.random_teacher(dim=50, rank=3, width=4, min_angle=0.3, seed=seed)
        began = time.perf_counter()
        student = wstar.three_stage(wstar.PopulationRisk(teacher), width=400, seed=seed).student
        seconds.append(time.perf_counter() - began)
        report = recovery_report(student, teacher)
        errors.append(max(row.mass_error for row in report.neurons))
        angles.append(report.largest_heavy_angle)
        if not report.recovered:
            failures.append(seed)
    print(f"recovered {n - len(failures)}/{n}; failed seeds {failures}")
    for name, values in (("largest mass error", errors), ("largest heavy angle", angles), ("seconds", seconds)):
        quantiles = np.quantile(values, [0.0, 0.25, 0.5, 0.75, 1.0])
        print(f"{name}: min, quartiles, max", *(f"{q:.2g}" for q in quantiles))


def command(runs: int = 3) -> None:
    """`wstar recover` at its defaults, imports and compilation included; and what it says it computed for."""
    walls, computes, angles = [], [], []
    with tempfile.TemporaryDirectory() as folder:
        for i in range(runs):
            began = time.perf_counter()
            done = subprocess.run(
                [*_WSTAR, "recover", "--json", "--out", f"{folder}/{i}"],
                capture_output=True, text=True, check=True,
            )  # fmt: skip
            walls.append(time.perf_counter() - began)
            result = json.loads(done.stdout)
            computes.append(result["seconds"]["compute"])
            angles.append(result["recovery"]["largest_heavy_angle"])
    teacher = wstar.random_teacher()
    wstar.three_stage(wstar.PopulationRisk(teacher))
    again = []
    for _ in range(runs):
        began = time.perf_counter()
        wstar.three_stage(wstar.PopulationRisk(teacher))
        again.append(time.perf_counter() - began)
    print(f"whole process: median {statistics.median(walls):.2f} s (min {min(walls):.2f}, max {max(walls):.2f})")
    print(f"training in it, compilation included: median {statistics.median(computes):.2f} s")
    print(f"training once compiled: median {statistics.median(again):.2f} s; largest heavy angle {max(angles):.1e}")


def dimension() -> None:
    """The start itself costs m·d; after it, a run at d = 100,000 is a run in the span."""

    def go(dim: int) -> float:
        teacher = wstar.random_teacher(dim=dim, rank=3, width=4, min_angle=0.3, seed=1)
        began = time.perf_counter()
        wstar.three_stage(wstar.PopulationRisk(teacher), width=400, seed=1)
        return time.perf_counter() - began

    go(50)
    small, large = go(50), go(100_000)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"d=50: {small:.2f} s, d=100,000: {large:.2f} s, ratio {large / small:.1f}, peak memory {peak:.2f} GB")


def recording(runs: int = 7) -> None:
    """Alternating runs with the default records and with almost none."""
    risk = wstar.PopulationRisk(wstar.random_teacher())
    times: dict[int, list[float]] = {2: [], 1: []}
    settings = {2: {}, 1: {"records_per_decade": 1, "orders": ()}}
    for per_decade in (2, 1):
        wstar.three_stage(risk, **settings[per_decade])
    for _ in range(runs):
        for per_decade in (2, 1):
            began = time.perf_counter()
            wstar.three_stage(risk, **settings[per_decade])
            times[per_decade].append(time.perf_counter() - began)
    ratios = [a / b for a, b in zip(times[2], times[1], strict=True)]
    print(f"default records against one a decade and no tensor losses: median ratio {statistics.median(ratios):.3f}")


def samples(seeds: int = 3) -> None:
    """Three positive ReLU neurons, labels of standard deviation 1."""
    for seed in range(seeds):
        teacher = wstar.random_teacher(dim=20, rank=2, width=3, min_angle=0.3, seed=seed, signs="positive")
        rng = np.random.default_rng(seed)
        X, X_test = rng.standard_normal((3000, 20)), rng.standard_normal((5000, 20))
        scale = float(np.std(teacher(X_test)))
        y, clean = teacher(X) / scale + 0.1 * rng.standard_normal(3000), teacher(X_test) / scale
        risk = wstar.EmpiricalRisk(X, y)
        began = time.perf_counter()
        result = wstar.three_stage(risk, width=400, seed=seed, n_epochs=6)
        error = np.mean((risk.restore(result.student)(X_test) - clean) ** 2) / np.var(clean)
        print(f"seed {seed}: test error over variance {error:.2e} in {time.perf_counter() - began:.1f} s")


if __name__ == "__main__":
    name, *rest = sys.argv[1:] or ["teachers"]
    table = {f.__name__: f for f in (teachers, command, dimension, recording, samples)}
    if name not in table:
        sys.exit(f"{Path(__file__).name}: choose one of {', '.join(table)}")
    table[name](*map(int, rest))
