"""Local optima and their repair: ``python benchmarks/repair.py [--solver newton|descent] [--teachers N]``.

Random teachers of rank 3 and width 4 (those of ``recover``'s defaults) and of rank 4 and width 8, trained without and
with ``repair=True``: how many are recovered (angles within 0.01, masses within 5 %), ζ/λ² at the end, neurons inserted,
processor seconds.
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


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--solver", choices=("newton", "descent"), default="newton")
    parser.add_argument("--teachers", type=int)
    chosen = parser.parse_args()
    for case in CASES:
        for repair in (False, True):
            report(case, chosen.solver, repair, chosen.teachers)
