"""The page of ``wstar reproduce zg``: the experimental section that ZG does not have, in figures, tables and words."""

import base64
import json
from typing import Any

from rich.console import Console
from rich.table import Table

from wstar.report import zg_figures as figures
from wstar.report import zg_recovery_figures as recovery
from wstar.report.numbers import count, duration, number, plural
from wstar.report.reading import FinishedRun
from wstar.report.zg_words import (
    headline,
    net_rows,
    sample_sentences,
    sentence_of_hard,
    sentence_of_learnt,
    sentence_of_phases,
    sentence_of_widths,
    training_sentences,
    with_interval,
)

Page = dict[str, Any]
Result = dict[str, Any]

# name, key of the fit, what the paper proves
_RATES = (
    ("loss L at an epoch’s end, against λ", "loss", "L = O(λ²), Lemma F.4"),
    ("optimality gap ζ at an epoch’s end, against λ", "zeta", "ζ = O(λ²), Lemma E.1"),
    ("largest angle of a heavy neuron, against λ", "angle", "→ 0; |c|δ² summed is O(λ), Lemma 8 (i)"),
    ("ηT of an epoch, against λ", "epoch_time", "O(λ⁻⁴), Lemma E.1"),
    ("ηT in all, against 1/ε", "time", "O(ε⁻²), Theorem 2"),
    ("rate at which ζ falls late in an epoch, against λ", "rate", "at least λ⁴ at ζ = λ², Lemma 6"),
)


def zg_page(run: FinishedRun) -> Page:
    """Everything that the template ``zg.html`` shows; KeyError or TypeError where the result is not whole."""
    result = run.result
    sizes = result["sizes"]
    return {
        "headline": headline(result),
        "lead": " ".join(training_sentences(result)),
        "eyebrow": "Zhou & Ge 2024",
        "notices": ["These are the quick sizes: for a look, not for the record."] if result["quick"] else [],
        "facts": _facts(result),
        "sizes": sizes,
        "first_decay": number(sizes["weight_decay"], 1),
        "last_decay": number(sizes["last_decay"], 1),
        "rates": rates(result),
        "gap_seed": result["theorem_2"]["gap"]["seed"] if result["theorem_2"]["gap"] else None,
        "constant": number((result["theorem_2"]["gap"] or {}).get("constant")),
        "runs": [_run_row(run_part) for run_part in result["theorem_2"]["runs"]],
        "nets": net_rows(result["nets"]),
        "net_dims_rank": result["net_dims"][0]["rank"] if result["net_dims"] else None,
        "frozen": [_needed(part) for part in result["frozen"]],
        "frozen_words": sentence_of_widths(result["frozen"]),
        "epsilons": [number(epsilon, 1) for epsilon in result["frozen"][0]["epsilons"]],
        "samples": sample_sentences(result["samples"]),
        "learnt": sentence_of_learnt(result["learnt"]),
        "sample_width": result["samples"]["dims"][0]["width"],
        "phases": sentence_of_phases(result["phases"]),
        "hard": sentence_of_hard(result["hard"]),
        "geometry": [_hard_row(row) for row in result["hard"]["geometry"]],
        "activations": [_hard_row(row) for row in result["hard"]["activations"]],
        "downloads": [("zg.json", _address(json.dumps(result)))],
        "figures": _figures(result),
    }


def _figures(result: Result) -> dict[str, Any]:
    theorem, fits = result["theorem_2"], result["theorem_2"]["fits"]
    runs, nets = theorem["runs"], result["nets"]
    samples, level = result["samples"]["dims"], result["samples"]["found"]
    angle = "largest angle of a heavy neuron, rad"
    drawn = {
        "loss-time": figures.loss_against_time(runs),
        "time-accuracy": figures.time_against_accuracy(runs, fits["time"]),
        "loss-decay": figures.against_decay(runs, "loss", "loss L at the epoch’s end", fits["loss"], 2),
        "angle-decay": figures.against_decay(runs, "largest_heavy_angle", angle, fits["angle"], 1),
        "gap-epochs": figures.gap_within_epochs(theorem["gap"]),
        "geometric-rates": figures.geometric_rates(fits),
        "net-teacher": figures.nets(nets, "teacher", "largest angle, teacher to nearest, rad", uniform=False),
        "net-cover": figures.nets(nets, "cover", "cover radius, rad", uniform=True),
        "sample-neurons": figures.sample_angles(samples, "neuron", "median angle of a neuron to the span, rad", level),
        "sample-spans": figures.sample_angles(samples, "span", "angle of the common span, rad", level),
        "samples-needed": figures.samples_needed(result["samples"]["collapse"]),
        "learnt-shares": recovery.learnt(result["learnt"]["dims"]),
        "phase-angle": recovery.phase(result["phases"]["angle"], "angle", "separation Δ, rad"),
        "phase-rank": recovery.phase(result["phases"]["rank"], "rank", "rank r"),
        "phase-decay": recovery.phase(result["phases"]["decay"], "decay", "first weight decay λ"),
        "hard-parallel": recovery.shares(
            {"equal signs": result["hard"]["equal"], "opposite signs": result["hard"]["opposite"]}, "angle, rad"
        ),
        "hard-kappa": recovery.shares({"κ": result["hard"]["kappa"]}, "κ"),
    }
    if result["net_dims"]:
        infinite = next(part for part in nets if part["rank"] == result["net_dims"][0]["rank"])
        drawn["net-dims"] = figures.net_dims([*result["net_dims"], infinite])
    return drawn | {f"frozen-{part['rank']}": recovery.widths(part) for part in result["frozen"]}


def _facts(result: Result) -> list[tuple[str, str]]:
    runs, fits = result["theorem_2"]["runs"], result["theorem_2"]["fits"]
    found = sum(run["recovered"] for run in runs)
    facts = [(f"{found} of {len(runs)}", "runs of Theorem 2 recovered their teacher")]
    last = [run["epochs"][-1]["loss"] for run in runs if run["recovered"]]
    if last:
        facts.append((number(max(last), 2), "largest loss of these at the last λ"))
    for key, label in (("loss", "power of λ in the loss"), ("time", "power of 1/ε in the time, where 2 is proved")):
        if fits[key]:
            facts.append((number(fits[key]["exponent"], 3), label))
    return [*facts, (duration(result["seconds"]["compute"]), "computing")]


def rates(result: Result) -> list[list[str]]:
    """Fitted powers with their intervals beside what the paper proves."""
    fits = result["theorem_2"]["fits"]
    rows = []
    for name, key, proved in _RATES:
        fit = fits[key]
        seen = ["too few epochs", ""] if fit is None else [number(fit["exponent"]), with_interval(fit)]
        rows.append([name, *seen, proved])
    return rows


def _run_row(run: dict[str, Any]) -> list[str]:
    epochs = run["epochs"]
    return [
        str(run["seed"]),
        number(run["separation"], 2),
        number(run["kappa"], 2),
        number(epochs[0]["weight_decay"], 2),
        count(run["living"]),
        count(sum(row["n_steps"] for row in epochs)),
        number(epochs[-1]["loss"], 2),
        number(run["largest_heavy_angle"], 2),
        number(run["leftover_mass"], 2),
        f"{number(epochs[-1]['zeta'], 2)} ± {number(epochs[-1]['zeta_error'], 1)}",
        "yes" if run["recovered"] else "no",
    ]


def _needed(part: dict[str, Any]) -> dict[str, Any]:
    most = part["rows"][-1]["width"]
    names = {
        "trained": "trained on",
        "one step": "frozen after one step",
        "random in the span": "frozen, random in the span",
        "random": "frozen, random in all dimensions",
    }
    rows = []
    for kind, name in names.items():
        fit = part["fits"].get(kind)
        power = f"{number(fit['exponent'])} ({with_interval(fit)})" if fit else ""
        rows.append([name, *(str(n) if n else f"> {most}" for n in part["needed"][kind]), power])
    return {"rank": part["rank"], "figure": f"frozen-{part['rank']}", "rows": rows}


def _hard_row(row: dict[str, Any]) -> list[str]:
    share, best = row["share"], row["optimum_share"]
    low, high = share["interval"]
    angles = sorted(angle for angle in row["angle"] if angle is not None)
    losses = sorted(loss for loss in row["loss"] if loss is not None)
    return [
        row["name"],
        f"{share['found']} of {share['total']}",
        f"{number(low, 2)} to {number(high, 2)}",
        f"{best['found']} of {best['total']}",
        number(angles[len(angles) // 2] if angles else None, 2),
        number(losses[len(losses) // 2] if losses else None, 2),
    ]


def _address(text: str) -> str:
    return f"data:application/json;base64,{base64.b64encode(text.encode()).decode()}"


def print_zg(console: Console, result: Result) -> None:
    """The sentences of the page, then the rates."""
    words = [
        headline(result) + ".",
        *training_sentences(result),
        sentence_of_widths(result["frozen"]),
        *sample_sentences(result["samples"]),
        sentence_of_learnt(result["learnt"]),
        *sentence_of_phases(result["phases"]),
        *sentence_of_hard(result["hard"]),
    ]
    for sentence in words:
        console.print(sentence, highlight=False)
    table = Table(title=None, header_style="bold", box=None, pad_edge=False)
    for name in (plural(len(result["theorem_2"]["runs"]), "run"), "exponent", "interval (95 %)", "proved"):
        table.add_column(name)
    for row in rates(result):
        table.add_row(*row)
    console.print(table)
