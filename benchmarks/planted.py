"""TwoLayerRegressor on four planted index models: noise-free test error and how well each neuron is named.

python benchmarks/planted.py [a b c d] [--cv] [--seeds 10 11 12] [--peers ridge mlp krr hgb ppr skpp xrfm]

Coordinates are rotated (W = V Qᵀ, Q random orthonormal), f has standard deviation 1, error is over 5,000 fresh
noise-free rows: a: d=20, three positive ReLU neurons in a plane, N=3000, noise 0.1; b: d=50, four ReLU neurons
(+−+−) in three dimensions, N=5000, noise 0.1; c: d=30, Σ of 5 orthonormal |w·x|, N=10⁴; d: d=30, Σ of 30, N=10⁴.
a and b on two seeds unless told otherwise; neurons are at least 0.4 rad apart.
"""

import argparse
import time

import numpy as np
from peers import NAMES, peer

import wstar

_KINDS = {
    "a": (20, 2, 3, 3000, 0.1),
    "b": (50, 3, 4, 5000, 0.1),
    "c": (30, 5, 5, 10_000, 0.0),
    "d": (30, 30, 30, 10_000, 0.0),
}


def planted(kind: str, seed: int) -> tuple[np.ndarray, ...]:
    """Training rows and labels, fresh rows and clean labels, and the neurons' directions."""
    rng = np.random.default_rng(seed)
    d, rank, width, n, noise = _KINDS[kind]
    span = np.linalg.qr(rng.normal(size=(d, rank)))[0]
    inside, outputs = np.eye(width, rank), np.ones(width)
    if kind in "ab":
        apart = False
        while not apart:
            inside = rng.normal(size=(width, rank))
            inside /= np.linalg.norm(inside, axis=1, keepdims=True)
            apart = bool((np.abs(inside @ inside.T) - np.eye(width)).max() < np.cos(0.4))
        outputs = np.ones(3) if kind == "a" else np.array([1.0, -1.0, 1.0, -1.0])
    W = inside @ span.T

    def f(X: np.ndarray) -> np.ndarray:
        pre = X @ W.T
        return (np.maximum(pre, 0.0) if kind in "ab" else np.abs(pre)) @ outputs

    scale = f(rng.normal(size=(100_000, d))).std()
    X, fresh = rng.normal(size=(n, d)), rng.normal(size=(5000, d))
    return X, f(X) / scale + noise * rng.normal(size=n), fresh, f(fresh) / scale, W


def main() -> None:
    """Fit and score."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="*", default=list(_KINDS))
    parser.add_argument("--cv", action="store_true")
    parser.add_argument("--seeds", type=int, nargs="+")
    parser.add_argument("--peers", nargs="*", choices=NAMES, default=[])
    options = parser.parse_args()
    regressor = wstar.TwoLayerRegressorCV if options.cv else wstar.TwoLayerRegressor
    for kind in options.kinds:
        for seed in options.seeds or ((0, 1) if kind in "ab" else (0,)):
            X, y, fresh, clean, W = planted(kind, seed)
            began, processor = time.perf_counter(), time.process_time()
            model = regressor(random_state=0).fit(X, y)
            seconds, processor = time.perf_counter() - began, time.process_time() - processor
            rows = model.directions_ / np.linalg.norm(model.directions_, axis=1, keepdims=True)
            named = np.abs(rows @ W.T).max(axis=0)
            error = np.mean((model.predict(fresh) - clean) ** 2) / clean.var()
            print(
                f"{kind} seed {seed}: error/variance {error:.1e}, {len(rows)} neurons ({model.activation_}), best "
                f"|cos| min {named.min():.4f}, median {np.median(named):.4f}; {seconds:.1f} s "
                f"({processor:.1f} of the processor)",
                flush=True,
            )
            for name in options.peers:
                began = time.perf_counter()
                error = np.mean((peer(name).fit(X, y).predict(fresh) - clean) ** 2) / clean.var()
                print(f"  {name}: error/variance {error:.1e} in {time.perf_counter() - began:.1f} s", flush=True)


if __name__ == "__main__":
    main()
