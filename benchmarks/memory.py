"""Peak memory of one population gradient: ``python benchmarks/memory.py [WIDTH DIM]``.

Each measurement runs in its own process and prints how much the peak resident set rose above what the imports take, and
the peak itself; the bar is 1.5 GB at m = 20,000, d = 50.
"""

import subprocess
import sys

MEASURE = """
import resource, sys, time
import numpy as np
import wstar
width, dim = int(sys.argv[1]), int(sys.argv[2])
risk = wstar.PopulationRisk(wstar.random_teacher(dim=dim, rank=3, width=4, min_angle=0.3, seed=0))
small = wstar.symmetric_start(4, dim, seed=0)
risk.gradient(small)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
student = wstar.symmetric_start(width, dim, seed=0)
began = time.perf_counter()
gradient = risk.gradient(student)
assert np.isfinite(gradient.weights).all()
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(before / 2**20, peak / 2**20, time.perf_counter() - began)
"""


def measure(width: int, dim: int) -> tuple[float, float, float]:
    """GB before, peak GB, and seconds of the gradient (with its compilation), in a fresh process."""
    command = [sys.executable, "-c", MEASURE, str(width), str(dim)]
    before, peak, seconds = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    return float(before), float(peak), float(seconds)


def main() -> None:
    """Print one line a size."""
    sizes = [(int(sys.argv[1]), int(sys.argv[2]))] if len(sys.argv) == 3 else [(2_000, 50), (20_000, 50)]
    for width, dim in sizes:
        before, peak, seconds = measure(width, dim)
        whole = 8 * width**2 / 2**30
        bar = f" (bar 1.5: {'reached' if peak <= 1.5 else 'MISSED'})" if (width, dim) == (20_000, 50) else ""
        print(
            f"m={width} d={dim}: peak {peak:.2f} GB{bar}, {peak - before:.2f} above the imports; "
            f"the whole Gram matrix would be {whole:.2f} GB; {seconds:.1f} s",
            flush=True,
        )


if __name__ == "__main__":
    main()
