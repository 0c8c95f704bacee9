"""TwoLayerRegressor on many rows and on many columns: seconds, peak memory, directions.

python benchmarks/estimator_scale.py [rows] [columns] [cv]

rows: N = 10⁶, d = 30, five orthonormal |w·x|, noise 0.1; columns: N = 10⁴, d = 10³, two of them; cv: N = 2·10⁵,
d = 30 with TwoLayerRegressorCV. Each runs in a process of its own. Memory is the largest resident set during the fit
less what the process held before it made X (imports and a small fit), in multiples of X: 1 is X itself; the bar is 2 at
N = 10⁶.
"""

import subprocess
import sys

MEASURE = """
import sys, threading, time
import numpy as np
from wstar import TwoLayerRegressor, TwoLayerRegressorCV


def resident():
    with open("/proc/self/statm") as file:
        return 4096 * int(file.read().split()[1])


n, d, k, kind = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
regressor = TwoLayerRegressorCV if kind == "cv" else TwoLayerRegressor
small = np.random.default_rng(1).normal(size=(300, 4))
regressor(random_state=0).fit(small, np.abs(small[:, 0]) + 0.1 * small[:, 1])
before = resident()
rng = np.random.default_rng(0)
X, W, y = rng.standard_normal((n, d)), np.linalg.qr(rng.normal(size=(d, k)))[0].T, np.empty(n)
for start in range(0, n, 10_000):
    y[start : start + 10_000] = np.abs(X[start : start + 10_000] @ W.T).sum(axis=1)
y += 0.1 * rng.standard_normal(n)
peak, running = resident(), True


def watch():
    global peak
    while running:
        peak = max(peak, resident())
        time.sleep(0.005)


watcher = threading.Thread(target=watch)
watcher.start()
began, processor = time.perf_counter(), time.process_time()
model = regressor(random_state=0).fit(X, y)
seconds, processor = time.perf_counter() - began, time.process_time() - processor
running = False
watcher.join()
rows = model.directions_ / np.linalg.norm(model.directions_, axis=1, keepdims=True)
named = np.abs(rows @ W.T).max(axis=0, initial=0.0).min()
print((peak - before) / X.nbytes, seconds, processor, named, len(rows))
"""

_CASES = {"rows": (10**6, 30, 5, "path"), "columns": (10**4, 10**3, 2, "path"), "cv": (2 * 10**5, 30, 5, "cv")}


def measure(n: int, d: int, width: int, kind: str) -> tuple[float, float, float, float, int]:
    """Peak in multiples of X, seconds, seconds of the processor, least |cos|, neurons; in a fresh process."""
    command = [sys.executable, "-c", MEASURE, str(n), str(d), str(width), kind]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    peak, seconds, processor, named = map(float, printed[:4])
    return peak, seconds, processor, named, int(printed[4])


def main() -> None:
    """One line a case."""
    for name in sys.argv[1:] or list(_CASES):
        if name not in _CASES:
            sys.exit(f"estimator_scale.py: choose of {', '.join(_CASES)}")
        n, d, width, kind = _CASES[name]
        peak, seconds, processor, named, neurons = measure(n, d, width, kind)
        print(
            f"{name}: N={n} d={d}: peak {peak:.2f} times X ({8 * n * d / 2**20:.0f} MB), {seconds:.1f} s "
            f"({processor:.1f} of the processor), least |cos| {named:.5f}, {neurons} neurons for {width}",
            flush=True,
        )


if __name__ == "__main__":
    main()
