"""Times of LMZ's Algorithm 1 at the sizes of their simulations: ``python benchmarks/truncated.py [NAME ...]``.

A share of the steps is run three times after a run that compiles, and the medians, of the clock and of the processor,
are scaled to all of them; records are left out. The last line compares 32 seeds at once with one seed. ``recover``
instead runs all 2·10⁴ steps on samples, as a user would, and prints the cosines beside those of projection pursuit
(median 0.42 to 0.57 on the same data).
"""

import os
import sys
import time
from collections.abc import Callable

import numpy as np

import wstar

DIM, ROWS = 30, 10_000
# name → (width, samples?, all steps, share that is run, seconds to reach)
RUNS = {
    "samples": (100, True, 20_000, 0.02, 60.0),
    "population": (100, False, 100_000, 0.05, 8.0),
    "wide": (400, False, 100_000, 0.01, 60.0),
}
SEEDS, SEED_WIDTH, SEED_STEPS, SEED_COST = 32, 60, 1000, 20.0


def target() -> wstar.Teacher:
    """LMZ's: coordinate axes, a_i = 1/d."""
    return wstar.Teacher(np.full(DIM, 1.0 / DIM), np.eye(DIM), activation="abs")


def sample(seed: int = 0) -> wstar.EmpiricalRisk:
    """N rows of it."""
    X = np.random.default_rng(seed).standard_normal((ROWS, DIM))
    return wstar.EmpiricalRisk(X, target()(X), preprocessed=False)


def median_seconds(run: Callable[[], object], rounds: int = 3) -> tuple[float, float]:
    """Of the clock and of the processor, after one call that compiles."""
    run()
    times = []
    for _ in range(rounds):
        began, cpu = time.perf_counter(), time.process_time()
        run()
        times.append((time.perf_counter() - began, time.process_time() - cpu))
    clock, processor = np.median(times, axis=0)
    return float(clock), float(processor)


def report(name: str) -> None:
    """One line: seconds of the whole run, scaled, with the bar."""
    width, sampled, steps, share, bar = RUNS[name]
    risk = sample() if sampled else wstar.PopulationRisk(target(), preprocessed=False)
    options = {"width": width, "n_steps": int(share * steps), "record_steps": ()}
    clock, processor = (t / share for t in median_seconds(lambda: wstar.truncated_descent(risk, **options)))
    verdict = "reached" if clock <= bar else "MISSED"
    said = f"{clock:6.1f} s, {1e3 * clock / steps:.3f} ms each, processor {processor:.1f} s"
    print(f"{name:10s} m={width} {steps:,} steps: {said} (bar {bar:g}: {verdict})")


def report_seeds() -> None:
    """Rounds alternate, so that other load hits both."""
    risk = wstar.PopulationRisk(target(), preprocessed=False)
    options = {"width": SEED_WIDTH, "n_steps": SEED_STEPS, "record_steps": ()}
    ratios = []
    for turn in range(4):
        began = time.perf_counter()
        wstar.truncated_descent(risk, **options)
        middle = time.perf_counter()
        wstar.truncated_descent_many(risk, range(SEEDS), **options)
        if turn:
            ratios.append((time.perf_counter() - middle) / (middle - began))
    ratio = float(np.median(ratios))
    verdict = "reached" if ratio <= SEED_COST else "MISSED"
    print(f"seeds      {SEEDS} seeds at m={SEED_WIDTH} cost {ratio:.1f} times one (bar {SEED_COST:g}: {verdict})")


def report_recovery() -> None:
    """The whole run, compilation and records included."""
    began = time.perf_counter()
    result = wstar.truncated_descent(sample(), width=100, n_steps=20_000, teacher=target())
    cosines = result.trajectory.best_cosine.values[-1]
    seconds = time.perf_counter() - began
    print(f"recover    |cos| least {cosines.min():.4f}, median {np.median(cosines):.4f} in {seconds:.0f} s")


def main() -> None:
    """The runs that are named, or all but ``recover``."""
    print(f"load average {os.getloadavg()[0]:.1f} on {len(os.sched_getaffinity(0))} cores", flush=True)
    for name in sys.argv[1:] or [*RUNS, "seeds"]:
        {"seeds": report_seeds, "recover": report_recovery}.get(name, lambda name=name: report(name))()
        sys.stdout.flush()


if __name__ == "__main__":
    main()
