"""One step of ours against one of PyTorch's, side by side in one run: ``python benchmarks/step.py``.

The model is LMZ's, ``(1/m) Σ ‖w_i‖|w_i·x|`` fitted to the mean of d orthonormal ``|w*_j·x|``. Ours on the population
is exact; PyTorch differentiates through 10⁴ samples, as one trains such a model otherwise. Rounds alternate between the
two and medians are compared, so that what else the machine does hits both.
"""

import argparse
import os
import time
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import torch

import wstar
from wstar.algorithms.run import drive
from wstar.algorithms.truncated.mean_field import TruncatedStep
from wstar.kernels.activations import ABS
from wstar.networks.parametrisation import MeanField
from wstar.risks.base import Risk

RATE = 0.1
# (width, dim): the ratio to reach against float64 and against float32
EXACT = {(100, 30): (80.0, 25.0), (400, 30): (None, None), (400, 50): (None, None), (1000, 100): (None, None)}
# seconds that 10⁵ exact steps may take
HUNDRED_THOUSAND = {(100, 30): 8.0, (400, 30): 60.0}
SEEDS, SEED_COST = 32, 20.0
SAMPLES = {10_000: 2.0, 100_000: 2.0}


def our_steps(risk: Risk, width: int) -> Callable[[int], None]:
    """A function that takes so many steps of truncated descent with the thresholds out of reach."""
    with jax.enable_x64(True):
        on_device = jax.tree.map(jnp.asarray, risk)
        numbers = (jnp.asarray(x) for x in (RATE, 1e6, 1e9))
        update = TruncatedStep(on_device, *numbers, ABS)
        state = MeanField(jnp.asarray(wstar.gaussian_start(width, risk.dim, seed=0)))

    def take(n: int) -> None:
        with jax.enable_x64(True):
            drive(update, state, max_steps=n, tolerance=0.0, pause_seconds=60.0)

    return take


def torch_steps(width: int, X: np.ndarray, y: np.ndarray, dtype: torch.dtype) -> Callable[[int], None]:
    """A function that takes so many steps of SGD on the mean square error by automatic differentiation."""
    rows, labels = torch.tensor(X, dtype=dtype), torch.tensor(y, dtype=dtype)
    weights = torch.tensor(wstar.gaussian_start(width, X.shape[1], seed=0), dtype=dtype, requires_grad=True)
    optimiser = torch.optim.SGD([weights], lr=RATE)

    def take(n: int) -> None:
        for _ in range(n):
            optimiser.zero_grad()
            output = (weights.norm(dim=1) * (rows @ weights.T).abs()).mean(1)
            ((output - labels) ** 2).mean().backward()
            optimiser.step()

    return take


def seconds_a_step(contestants: dict[str, Callable[[int], None]], rounds: int, seconds: float) -> dict[str, float]:
    """Median over rounds; each turn lasts about ``seconds``."""
    counts = {}
    for name, take in contestants.items():
        take(20)
        began = time.perf_counter()
        take(4)
        counts[name] = max(2, int(4 * seconds / (time.perf_counter() - began)))
        # the driver's first pieces are short; a second call with the same count has none of their compilation
        take(counts[name])
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(rounds):
        for name, take in contestants.items():
            began = time.perf_counter()
            take(counts[name])
            times[name].append((time.perf_counter() - began) / counts[name])
    return {name: float(np.median(t)) for name, t in times.items()}


def verdict(ratio: float, bar: float | None) -> str:
    """The ratio with its bar."""
    return f"{ratio:7.1f}×" + ("" if bar is None else f" (bar {bar:g}: {'reached' if ratio >= bar else 'MISSED'})")


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=0.3, help="of each turn")
    options = parser.parse_args()
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    rng = np.random.default_rng(0)
    print(f"{torch.get_num_threads()} threads; JAX {jax.__version__}, PyTorch {torch.__version__}\n")
    print("exact population step against PyTorch autograd on 10⁴ samples")
    for (width, dim), bars in EXACT.items():
        teacher = wstar.Teacher(np.full(dim, 1.0 / dim), np.eye(dim), activation="abs")
        X = rng.standard_normal((10_000, dim))
        contestants = {
            "ours": our_steps(wstar.PopulationRisk(teacher, preprocessed=False), width),
            "float64": torch_steps(width, X, teacher(X), torch.float64),
            "float32": torch_steps(width, X, teacher(X), torch.float32),
        }
        times = seconds_a_step(contestants, options.rounds, options.seconds)
        line = f"  m={width:5d} d={dim:4d}: ours {1e6 * times['ours']:8.1f} µs"
        if (width, dim) in HUNDRED_THOUSAND:
            line += f" (10⁵ steps {1e5 * times['ours']:.1f} s, bar {HUNDRED_THOUSAND[width, dim]:g})"
        for name, bar in zip(("float64", "float32"), bars, strict=True):
            line += f";  {name} {1e3 * times[name]:7.2f} ms, {verdict(times[name] / times['ours'], bar)}"
        print(line, flush=True)
    print("\nempirical step against PyTorch autograd on the same samples, float64, m=100, d=30")
    for n, bar in SAMPLES.items():
        X = rng.standard_normal((n, 30))
        y = np.abs(X).mean(axis=1)
        contestants = {
            "ours": our_steps(wstar.EmpiricalRisk(X, y, preprocessed=False), 100),
            "float64": torch_steps(100, X, y, torch.float64),
        }
        times = seconds_a_step(contestants, options.rounds, max(options.seconds, 2e-5 * n))
        ours, theirs = 1e3 * times["ours"], 1e3 * times["float64"]
        print(f"  N={n:7d}: ours {ours:7.2f} ms;  float64 {theirs:7.2f} ms, {verdict(theirs / ours, bar)}", flush=True)
    print(f"\n{SEEDS} seeds at once against one seed, exact steps, m=60, d=30")
    single, many = seeds_at_once(steps=4000, rounds=3)
    ratio = many / single
    reached = "reached" if ratio <= SEED_COST else "MISSED"
    print(f"  one {single:.3f} s;  {SEEDS} seeds {many:.3f} s, {ratio:.1f}× (bar {SEED_COST:g}: {reached})")


def seeds_at_once(steps: int, rounds: int) -> tuple[float, float]:
    """Seconds of one run and of 32, the least of a few rounds, after one that compiles."""
    teacher = wstar.Teacher(np.full(30, 1.0 / 30), np.eye(30), activation="abs")
    risk = wstar.PopulationRisk(teacher, preprocessed=False)
    options = {"width": 60, "n_steps": steps, "record_steps": ()}
    turns = {
        "single": lambda: wstar.truncated_descent(risk, **options),
        "many": lambda: wstar.truncated_descent_many(risk, range(SEEDS), **options),
    }
    least = dict.fromkeys(turns, float("inf"))
    for turn in range(rounds + 1):
        for name, take in turns.items():
            began = time.perf_counter()
            take()
            if turn:
                least[name] = min(least[name], time.perf_counter() - began)
    return least["single"], least["many"]


if __name__ == "__main__":
    main()
