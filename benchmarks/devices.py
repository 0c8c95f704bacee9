"""One gradient on one device and on two, beside the model of ``docs/scale.md``: ``python benchmarks/devices.py``.

Every line is a fresh process in which JAX makes the devices out of this machine's cores, so that time can at best stay
the same while each device's share halves. The model's two speeds are fitted on the smallest size of each kind; it must
foretell the others. Memory is the peak resident set above what the imports and the inputs take.
"""

import argparse
import json
import os
import subprocess
import sys

WORKER = """
import json, resource, sys, time
import numpy as np
import wstar

kind, size, width, dim, devices = sys.argv[1], *map(int, sys.argv[2:])
rng = np.random.default_rng(0)
teacher = wstar.random_teacher(dim=dim, rank=4, width=4, min_angle=0.3, seed=0)
student = wstar.Student(rng.standard_normal(width), rng.standard_normal((width, dim)))
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

def risk_of(rows):
    if kind == "neurons":
        return wstar.PopulationRisk(teacher, devices=devices)
    X = rng.standard_normal((rows, dim))
    return wstar.EmpiricalRisk(X, teacher(X), preprocessed=False, devices=devices)

small = wstar.Student(student.outputs[:64], student.weights[:64])
risk_of(1000).gradient(small)
risk = risk_of(size)
before = peak()
risk.gradient(student)
seconds = []
for _ in range(5):
    began = time.perf_counter()
    risk.gradient(student)
    seconds.append(time.perf_counter() - began)
print(json.dumps({"seconds": sorted(seconds)[2], "bytes": peak() - before}))
"""

# rows held at once, of what the sums are made of: see kernels/gram.py and risks/empirical.py
PAIR_BLOCK, ROW_BLOCK = 2**21, 2**20


def measure(kind: str, size: int, width: int, dim: int, devices: int) -> dict[str, float]:
    """Median seconds of a gradient and bytes of the peak above its inputs."""
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={devices}"
    command = [sys.executable, "-c", WORKER, kind, *map(str, (size, width, dim, devices))]
    done = subprocess.run(
        command, check=True, capture_output=True, text=True, env=os.environ | {"XLA_FLAGS": flags.strip()}
    )
    return json.loads(done.stdout)


def work(kind: str, size: int, width: int, dim: int) -> float:
    """Pairs of neurons, or rows times neurons: what time is proportional to at one dimension."""
    return float(width * (width + 4)) if kind == "neurons" else float(size * width)


def memory(kind: str, width: int, dim: int, devices: int) -> float:
    """Bytes by the model: atoms and their weighted copy on every device, shares of points and sums, the blocks."""
    if kind == "neurons":
        return 8.0 * (2 * devices * (width + 4) * dim + 4 * width * dim + 5 * devices * PAIR_BLOCK)
    return 8.0 * devices * 3 * ROW_BLOCK


def main() -> None:
    """Print one line a size and number of devices."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dim", type=int, default=32)
    dim = parser.parse_args().dim
    sizes = {
        "neurons": [(0, width) for width in (2_000, 4_000, 8_000, 16_000)],
        "rows": [(rows, 100) for rows in (50_000, 200_000, 800_000)],
    }
    for kind, cases in sizes.items():
        unit = None
        for size, width in cases:
            for devices in (1, 2):
                found = measure(kind, size, width, dim, devices)
                amount = work(kind, size, width, dim)
                unit = unit or found["seconds"] / amount
                print(
                    f"{kind}: m={width}{f' N={size}' if size else ''} d={dim}, {devices} device(s): "
                    f"{found['seconds']:.3f} s, {1e9 * found['seconds'] / amount:.2f} ns each, "
                    f"{found['seconds'] / (unit * amount):.2f} of the model; peak "
                    f"{found['bytes'] / 2**20:.0f} MB, model {memory(kind, width, dim, devices) / 2**20:.0f} MB",
                    flush=True,
                )


if __name__ == "__main__":
    main()
