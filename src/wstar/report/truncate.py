"""The page of ``wstar truncate``: the stages of LMZ's Algorithm 1 as they passed, and who won the tickets."""

from typing import Any

import numpy as np

from wstar.report import truncate_figures as figures
from wstar.report.numbers import count, duration, number, percent, plural
from wstar.report.reading import FinishedRun

Page = dict[str, Any]

# key of the time → name of the stage that ends then, and the rule by which it does
STAGES = (
    ("settled", "1.1 orders 0 and 2 fall", "the relative losses of orders 0 and 2 are at most 0.1"),
    ("plateau_end", "1.2 plateau", "the loss of order 4 is half of what it was at the end of 1.1"),
    ("warm", "2.1 tickets fit", "every recorded relative loss is at most 0.1"),
    ("fitted", "2.2 fit", "every recorded relative loss is at most 0.01"),
)


def truncate_page(run: FinishedRun) -> Page:
    """Everything that the template ``truncate.html`` shows; KeyError or TypeError where the result is not whole."""
    result, trajectory = run.result, run.trajectory
    times, rule = result["stage_times"], result["tickets"]["rule"]
    bands = figures.bands(times, int(trajectory["step"].values[-1]))
    drawn = {
        "tensor-losses": figures.tensor_losses(trajectory, bands),
        "loss": figures.loss_by_order(trajectory, bands),
        "cosines": figures.cosines(trajectory, bands),
        "norms": figures.norms(trajectory, bands),
        "basis-like": figures.basis_like(trajectory, bands),
        "gradients": figures.gradients(trajectory, bands),
        "tickets": figures.tickets(trajectory, rule["threshold"] if rule else None),
    }
    if "mass_error" in trajectory:
        drawn["mass-errors"] = figures.mass_errors(trajectory, bands)
    return {
        "headline": headline(result),
        "lead": _lead(result),
        "eyebrow": _eyebrow(result),
        "notices": [f"{notice}." for notice in result["notices"]] + _oblique(result["teacher"]),
        "facts": _facts(result),
        "stages": [[name, _step(times[key]), rule_text] for key, name, rule_text in STAGES],
        "algorithm": [_stage(k, stage) for k, stage in enumerate(result["stages"], 1)],
        "frozen": int(trajectory["frozen"].values.max()),
        "rule": _rule(rule),
        "servants": _servants(result["tickets"]["servants"]),
        "figures": drawn,
    }


def headline(result: dict[str, Any]) -> str:
    """One sentence: how many of the target's directions have a student neuron at |cos| ≥ 0.95."""
    found, total = int(result["found"]), len(result["cosines"])
    if found == total:
        return f"All {count(total)} directions found" if total > 1 else "The direction was found"
    return f"{count(found)} of {plural(total, 'direction')} found"


def _lead(result: dict[str, Any]) -> str:
    cosines, tickets = np.array(result["cosines"]), result["tickets"]
    said = [
        f"The best student neuron has |cos| {number(float(cosines.min()), 4)} with the direction matched worst, "
        f"{number(float(np.median(cosines)), 4)} with the one in the middle; at 0.95 a direction counts as found.",
        f"{result['message'][0].upper()}{result['message'][1:]}.",
    ]
    if tickets["roc_area"] is not None:
        said.append(
            "How large a neuron’s coordinates were at the start foretells whom it serves at the end with ROC area "
            f"{number(tickets['roc_area'])} (0.5 is chance)."
        )
    return " ".join(said)


def _eyebrow(result: dict[str, Any]) -> str:
    teacher, samples = result["teacher"], result["samples"]
    data = f"{count(samples['n'])} samples" if samples else "population"
    return f"{count(teacher['dim'])} dimensions · {plural(result['width'], 'student neuron')} · {data}"


def _oblique(teacher: dict[str, Any]) -> list[str]:
    if teacher["orthonormal"]:
        return []
    largest = number(teacher["largest_inner_product"], 2)
    return [
        f"W* is not orthonormal (largest inner product {largest}): mass errors by direction, the threshold rule and "
        "good, bad and potential neurons have no meaning here and are left out; losses and cosines keep theirs."
    ]


def _facts(result: dict[str, Any]) -> list[tuple[str, str]]:
    loss, teacher, samples = result["loss"], result["teacher"], result["samples"]
    facts = [
        (number(loss, 2), "final loss L" + (" on the samples" if samples else "")),
        (number(loss * teacher["dim"], 2), "d · L; fixed features stay above a constant"),
        (_step(result["stage_times"]["plateau_end"]), "steps until the plateau was over"),
        (percent(result["tickets"]["top"]), "of the servants foretold by the start"),
        (percent(result["basis_like"]["mass"]), "of the mass at |cos| ≥ 0.95"),
        (duration(result["seconds"]["compute"]), "computing"),
    ]
    if samples:
        facts[1] = (number(samples["population_loss"], 2), "L on the population")
    return facts


def _stage(k: int, stage: dict[str, Any]) -> list[str]:
    span = f"{count(stage['first_step'])} to {count(stage['last_step'])}"
    return [str(k), number(stage["level"], 2), number(stage["threshold"], 3), span, str(stage["reason"])]


def _rule(rule: dict[str, Any] | None) -> list[tuple[str, str]]:
    """The threshold rule in numbers; empty where it has no meaning."""
    if rule is None:
        return []
    return [
        (number(rule["threshold"], 2), f"threshold Γ (margin {number(rule['margin'], 2)})"),
        (count(rule["potential"]), "potential neurons, above Γ − ρ for some direction"),
        (count(rule["bad"]), "bad: potential for two directions"),
        (count(rule["good"]), "good: above Γ + ρ for one, below Γ − ρ for the others"),
        (percent(rule["precision"]), "of the good pairs serve at the end"),
        (percent(rule["recall"]), "of the serving pairs were good"),
    ]


def _servants(servants: list[int]) -> str:
    none = sum(n == 0 for n in servants)
    spread = f"{min(servants)} to {max(servants)} student neurons serve each direction"
    return spread + (f"; {plural(none, 'direction')} without any" if none else "")


def _step(value: float | None) -> str:
    return "not reached" if value is None or not np.isfinite(value) else count(round(value))
