"""Local optima and their repair: ``python benchmarks/repair.py [--solver newton|descent] [--teachers N]``.

Random teachers of rank 3 and width 4 (those of ``recover``'s defaults) and of rank 4 and width 8, trained without and
with ``repair=True``: how many are recovered (angles within 0.01, masses within 5 %), ζ/λ² at the end, neurons inserted,
processor seconds. ``--schedule`` instead compares Newton's method with gradient descent on a schedule of 14 epochs
(λ from 0.02 to 2.4e-6) over five teachers: seconds of each, and how far apart they end.
"""

import argparse
import time

import numpy as np

import wstar
from wstar.theory.alignment import recovery_report

CASES = {"rank 3 width 4": (3, 4, 20), "rank 4 width 8": (4, 8, 30)}


def report(name: str, solver: str, repair: bool, n_teachers: int | None) -> None:
    """One line."""
    rank, width, most = CASES[name]
    missed, worst, inserted, seconds = [], 0.0, 0, []
    n = min(most, n_teachers or most)
    for seed in range(n):
        teacher = wstar.random_teacher(dim=50, rank=rank, width=width, min_angle=0.3, seed=seed)
        began = time.process_time()
        run = wstar.three_stage(wstar.PopulationRisk(teacher), width=400, seed=seed, solver=solver, repair=repair)
        seconds.append(time.process_time() - began)
        if not recovery_report(run.student, teacher).recovered:
            missed.append(seed)
        worst = max(worst, run.gaps[-1].zeta / run.gaps[-1].weight_decay ** 2)
        inserted += sum(epoch.inserted for epoch in run.epochs)
    print(
        f"{name}, {solver}{', repaired' if repair else '':10s}: {n - len(missed)} of {n} recovered (missed {missed}), "
        f"ζ/λ² at most {worst:.2g}, {inserted} neurons inserted, cpu median {np.median(seconds):.1f} max "
        f"{max(seconds):.1f} s",
        flush=True,
    )


def schedule() -> None:
    """One line a teacher; the first teacher's compilation is not counted."""
    for seed in (0, 0, 1, 2, 3, 4):
        teacher = wstar.random_teacher(dim=50, rank=3, width=4, min_angle=0.3, seed=seed)
        ends = {}
        for solver in ("newton", "descent"):
            wall, began = time.perf_counter(), time.process_time()
            run = wstar.three_stage(
                wstar.PopulationRisk(teacher), seed=seed, n_epochs=14, solver=solver, certify=False, max_steps=200_000
            )
            ends[solver] = run.epochs, time.process_time() - began, time.perf_counter() - wall
        (newton, *newton_time), (descent, *descent_time) = ends["newton"], ends["descent"]
        print(
            f"teacher {seed}: newton {newton_time[0]:.2f} s cpu {newton_time[1]:.2f} s clock, "
            f"{sum(e.n_steps for e in newton)} steps; descent {descent_time[0]:.1f} s cpu, "
            f"{sum(e.n_steps for e in descent):,} steps; objectives differ by "
            f"{abs(newton[-1].objective - descent[-1].objective):.1e} at the end, newton minus descent at each epoch: "
            + " ".join(f"{n.objective - d.objective:+.0e}" for n, d in zip(newton, descent, strict=True)),
            flush=True,
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--solver", choices=("newton", "descent"), default="newton")
    parser.add_argument("--teachers", type=int)
    parser.add_argument("--schedule", action="store_true")
    chosen = parser.parse_args()
    if chosen.schedule:
        schedule()
        raise SystemExit
    for case in CASES:
        for repair in (False, True):
            report(case, chosen.solver, repair, chosen.teachers)
