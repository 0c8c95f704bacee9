"""The page of ``wstar recover``: what was found of the hidden network, in words, in a table and on a sphere."""

from typing import Any

from wstar.report import figures
from wstar.report.numbers import count, degrees, duration, number, percent, plural, radians
from wstar.report.reading import FinishedRun
from wstar.report.sphere import Sphere, sphere
from wstar.theory.alignment import MASS_TOLERANCE

Page = dict[str, Any]


def recover_page(run: FinishedRun) -> Page:
    """Everything that the template ``recover.html`` shows; KeyError or TypeError where the result is not whole."""
    assert run.teacher is not None  # read_run has refused a recover run without one
    result, rows = run.result, run.result["epochs"]
    globe = sphere(run.snapshots, run.teacher, rows, int(result["teacher"]["rank"]))
    tensor = figures.tensor_losses(run.trajectory)
    drawn = {"sphere": globe.figure}
    if rows:
        drawn["loss"] = figures.losses(run.trajectory)
        drawn |= {"tensor-losses": tensor} if tensor else {}
        drawn |= {"epochs": figures.epochs(rows), "steps-per-epoch": figures.steps_per_epoch(rows)}
        if "zeta" in run.trajectory:
            drawn["optimality-gap"] = figures.optimality_gap(rows)
            drawn["gradient-against-gap"] = figures.gradient_against_gap(run.trajectory)
    return {
        "headline": headline(result["recovery"]),
        "lead": _lead(result),
        "eyebrow": _eyebrow(result["teacher"]),
        "notices": _notices(result),
        "facts": _facts(result),
        "path": _path_of_width(result),
        "neurons": [_neuron(row) for row in result["recovery"]["neurons"]],
        "tolerance": percent(MASS_TOLERANCE, 1),
        "within": radians(result["recovery"]["within_angle"]),
        "leftover": number(result["recovery"]["leftover_mass"], 2),
        "epochs": [_epoch(k, row) for k, row in enumerate(rows, 1)],
        "sphere_caption": _sphere_caption(globe),
        "frames": globe.frames,
        "last_frame": len(globe.frames) - 1,
        "frame_labels": [_frame_label(moment, len(rows)) for moment in globe.moments],
        "samples": result.get("samples") is not None,
        "figures": drawn,
    }


def headline(recovery: dict[str, Any]) -> str:
    """One sentence: how many of the hidden directions were found and, if all, how closely."""
    neurons = recovery["neurons"]
    n, total = sum(is_found(neuron) for neuron in neurons), len(neurons)
    if n == 0:
        return "The hidden direction was not found" if total == 1 else f"None of the {total} hidden directions found"
    if n < total:
        return f"{n} of {total} hidden directions found"
    heavy = recovery["largest_heavy_angle"]
    nearest = max(neuron["nearest_angle"] for neuron in neurons)
    close = heavy if heavy is not None and heavy <= recovery["within_angle"] else nearest
    whole = {1: "The hidden direction was", 2: "Both hidden directions"}.get(total, f"All {total} hidden directions")
    return f"{whole} found, to within {radians(close)}"


def is_found(neuron: dict[str, Any]) -> bool:
    """Whether the mass near a hidden direction is the true one, to the tolerance of the recovery report."""
    error = neuron["mass_error"]
    return error is not None and error < MASS_TOLERANCE


def _lead(result: dict[str, Any]) -> str:
    recovery, samples = result["recovery"], result.get("samples")
    within, heavy, leftover = recovery["within_angle"], recovery["largest_heavy_angle"], recovery["leftover_mass"]
    said = []
    if not all(is_found(neuron) for neuron in recovery["neurons"]):
        said.append(
            f"A hidden direction counts as found when the student neurons within {radians(within)} of it carry its "
            f"mass, to {percent(MASS_TOLERANCE, 1)}."
        )
    if heavy is not None and heavy <= within:
        said.append(
            f"Every student neuron that carries weight lies within {radians(heavy)} ({degrees(heavy)}) "
            "of a hidden direction."
        )
    elif heavy is not None:
        said.append(
            f"Student neurons that carry weight are up to {radians(heavy)} ({degrees(heavy)}) away from the nearest "
            f"hidden direction; mass {number(leftover, 2)} lies farther than {radians(within)} from all of them."
        )
    if samples:
        said.append(
            f"Learnt from {count(samples['n'])} samples with noise {number(samples['noise'], 2)}; on fresh noise-free "
            f"rows the squared error is {percent(samples['test_error_over_variance'])} of the variance."
        )
    return " ".join(said)


def _notices(result: dict[str, Any]) -> list[str]:
    """What a reader must know before trusting the page."""
    said = [f"{sentence}." for sentence in result["teacher"].get("violated_assumptions", [])]
    stopped = result["epochs"][-1]["reason"] if result["epochs"] else "converged"
    return said + ([f"The last epoch did not converge, it ended by: {stopped}."] if stopped != "converged" else [])


def _eyebrow(teacher: dict[str, Any]) -> str:
    neurons = plural(teacher["width"], "hidden neuron")
    activation = {"relu": "ReLU", "abs": "absolute value"}.get(teacher["activation"], teacher["activation"])
    return f"{neurons} · {count(teacher['dim'])} dimensions · rank {teacher['rank']} · {activation}"


def _facts(result: dict[str, Any]) -> list[tuple[str, str]]:
    teacher, seconds = result["teacher"], result["seconds"]
    steps = sum(row["n_steps"] for row in result["epochs"])
    return [
        (number(result["loss"], 2), "final loss L"),
        *_gap_fact(result["epochs"]),
        (percent(_worst(neuron["mass_error"] for neuron in result["recovery"]["neurons"])), "largest error of a mass"),
        (count(steps), "gradient steps"),
        (duration(seconds["total"]), f"in all, {duration(seconds['compute'])} computing"),
        (radians(teacher["separation"]), "smallest angle between hidden directions"),
        (number(teacher["kappa"], 2), "κ, how well the first step sees them"),
    ]


def _gap_fact(rows: list[dict[str, Any]]) -> list[tuple[str, str]]:
    last = rows[-1] if rows else {}
    if last.get("zeta") is None:
        return []
    return [
        (f"≤ {number(last['zeta'] + last['zeta_error'], 2)}", "optimality gap ζ at the last λ, against every width")
    ]


def _worst(errors: Any) -> float | None:
    known = [float(error) for error in errors if error is not None]
    return max(known) if known else None


def _path_of_width(result: dict[str, Any]) -> list[tuple[str, str]]:
    """How many neurons there are before and after each stage."""
    first, second, rows = result["stages"]["stage1"], result["stages"]["stage2"], result["epochs"]
    method = "the LASSO path" if second["method"] == "lars" else "subgradient steps"
    path = [
        (count(first["width"]), "student neurons at the start"),
        (count(first["directions"]), "directions after one gradient step"),
        (count(second["living"]), f"neurons kept by {method}"),
    ]
    return path + ([(count(rows[-1]["living"]), "alive at the end")] if rows else [])


def _neuron(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": row["teacher"] + 1,
        "found": is_found(row),
        "sign": "negative" if row["mass"] < 0.0 else "positive",
        "cells": [
            number(row["mass"]),
            number(row["gathered_mass"]),
            percent(row["mass_error"]),
            number(row["nearest_angle"], 2),
            number(row["average_neuron_error"], 2),
            count(row["n_students"]),
        ],
    }


def _epoch(k: int, row: dict[str, Any]) -> list[str]:
    return [
        str(k),
        number(row["weight_decay"], 2),
        count(row["n_steps"]),
        str(row["reason"]),
        number(row["loss"], 2),
        number(row["objective"], 2),
        count(row["living"]),
        number(row.get("largest_heavy_angle"), 2),
        number(row.get("zeta"), 2),
    ]


def _sphere_caption(globe: Sphere) -> str:
    rank, drawn = globe.rank, plural(globe.n_students, "student neuron")
    if rank >= 3:
        stray = "A dot inside the ball points partly out of them."
        place = "the three dimensions that the hidden directions span"
        if rank > 3:
            place = f"the three main axes of the {rank} dimensions that the hidden directions span"
            stray = "What lies inside the ball points partly along the other axes."
    elif rank == 2:
        place = "the plane that the hidden directions span"
        stray = "A dot above the circle points out of the plane."
    else:
        place = "the line of the hidden direction"
        stray = "A dot away from the line’s ends points elsewhere."
    left = f" The {count(globe.n_left_out)} lightest are not drawn." if globe.n_left_out else ""
    return (
        f"{drawn[0].upper() + drawn[1:]} in {place}. Rings are the hidden directions, drawn at both ends of their axis "
        "because a direction and its opposite count as one; dots are student neurons, larger with more mass. "
        f"{stray} Move the slider to see where the dots go, epoch by epoch.{left}"
    )


def _frame_label(moment: dict[str, Any], n_epochs: int) -> dict[str, str]:
    epoch = "Start" if moment["epoch"] == 0 else f"Epoch {moment['epoch']} of {n_epochs}"
    return {
        "epoch": epoch,
        "step": count(moment["step"]),
        "loss": number(moment["loss"], 2),
        "decay": number(moment["weight_decay"], 2),
        "angle": radians(moment["angle"]),
    }
