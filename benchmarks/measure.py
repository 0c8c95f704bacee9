"""The certified optimum over measures on random teachers (mixed signs, min_angle 0.3): gaps, clusters, seconds.

python benchmarks/measure.py [RANK WIDTH N_TEACHERS WEIGHT_DECAY ...]     (3 4 8 0.02 0.0025 3e-4 1e-5)
"""

import sys
import time
import warnings

import numpy as np

import wstar


def main(rank: int = 3, width: int = 4, n_teachers: int = 8, *weight_decays: float) -> None:
    """One line a weight decay: worst certified gap, cluster counts that differ from the teachers', seconds."""
    for decay in weight_decays or (0.02, 0.0025, 3e-4, 1e-5):
        gaps, seconds, other = [], [], 0
        for seed in range(n_teachers):
            teacher = wstar.random_teacher(dim=20, rank=rank, width=width, min_angle=0.3, seed=seed)
            began = time.perf_counter()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)
                optimum = wstar.optimal_measure(teacher, decay)
            seconds.append(time.perf_counter() - began)
            gaps.append(optimum.duality_gap)
            other += len(optimum.clusters) != width
        print(
            f"rank {rank}, width {width}, λ = {decay:g}: gap at most {max(gaps):.1e}, median {np.median(gaps):.1e}; "
            f"{other} of {n_teachers} have other than {width} clusters; "
            f"{np.median(seconds):.2f} s median, {max(seconds):.2f} s at most",
            flush=True,
        )


if __name__ == "__main__":
    numbers = sys.argv[1:]
    main(*(int(x) for x in numbers[:3]), *(float(x) for x in numbers[3:]))
