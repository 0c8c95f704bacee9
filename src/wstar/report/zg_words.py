"""What the page of the reproduction of ZG says: every word is chosen by a number of the run."""

from typing import Any

from wstar.report.numbers import count, number, plural, radians

# a fitted power within this of the paper's agrees with it, as in the verdicts on claims
_SLACK = 0.1
# a wider interval decides nothing
_WIDEST = 0.75


def with_interval(fit: dict[str, Any]) -> str:
    """``1.98 to 2.02``."""
    return f"{number(fit['interval'][0])} to {number(fit['interval'][1])}"


def power(fit: dict[str, Any]) -> str:
    """``2.00 (1.98 to 2.02)``."""
    return f"{number(fit['exponent'])} ({with_interval(fit)})"


def agrees(fit: dict[str, Any], value: float) -> bool:
    """Whether ``value`` is in the interval of the fitted power, give or take 0.1."""
    low, high = fit["interval"]
    return bool(low - _SLACK <= value <= high + _SLACK)


def undecided(fit: dict[str, Any]) -> bool:
    """Whether the interval of the fitted power is too wide to decide anything."""
    return bool(fit["interval"][1] - fit["interval"][0] > _WIDEST)


def headline(result: dict[str, Any]) -> str:
    """One sentence on Theorem 2 end to end."""
    runs = result["theorem_2"]["runs"]
    found = sum(run["recovered"] for run in runs)
    if found == len(runs):
        return f"Every one of {plural(found, 'run')} recovers its hidden network, as Theorem 2 has it"
    if found == 0:
        return f"None of {plural(len(runs), 'run')} recovers its hidden network"
    return f"{found} of {len(runs)} runs recover their hidden network, end to end"


def training_sentences(result: dict[str, Any]) -> list[str]:
    """Loss and angle against λ, time against ε, and the rate that is seen."""
    fits, said = result["theorem_2"]["fits"], []
    if fits["loss"] and fits["angle"]:
        order = "the order of the bound λ²" if agrees(fits["loss"], 2.0) else _beside(fits["loss"], 2.0, "the bound λ²")
        said.append(
            f"As λ halves, the loss falls as λ to the power {power(fits['loss'])}, {order}, and the largest angle of a "
            f"heavy neuron as λ to the power {power(fits['angle'])}."
        )
    if fits["time"]:
        low, high = fits["time"]["interval"]
        verdict = (
            "far within the bound" if high < 1.5 else "within the bound" if low <= 2.0 + _SLACK else "beyond the bound"
        )
        said.append(
            f"The time to reach loss ε grows as 1/ε to the power {power(fits['time'])}, {verdict} of Theorem 2, ε⁻²."
        )
    if fits["rate"]:
        nearer = sum(rate["geometric"] for rate in fits["rates"])
        said.append(
            "Over the last three quarters of an epoch the gap falls at a rate that goes as λ to the power "
            f"{power(fits['rate'])}, where Lemma 6 alone gives λ⁴; in {nearer} of "
            f"{plural(len(fits['rates']), 'epoch')} that fall is nearer to an exponential than to a power of time."
        )
    return said


def _beside(fit: dict[str, Any], value: float, name: str) -> str:
    return f"faster than {name}" if fit["exponent"] > value else f"slower than {name}"


def net_rows(nets: list[dict[str, Any]]) -> list[list[str]]:
    """Exponents of the net in the number of directions, for each r, beside a uniform net's."""
    rows = []
    for part in nets:
        fits, expected = part["fits"], -1.0 / (part["rank"] - 1)
        cells = []
        for key in ("teacher", "cover", "uniform_cover"):
            cells.append(power(fits[key]) if fits[key] else "too few widths")
        names = {"teacher": "nearest", "cover": "cover radius"}
        good = [name for key, name in names.items() if fits[key] and agrees(fits[key], expected)]
        verdict = " and ".join(good) if good else "neither, at these m"
        rows.append([str(part["rank"]), number(expected), *cells, verdict])
    return rows


def sentence_of_widths(frozen: list[dict[str, Any]]) -> str:
    """What frozen first layers need for the smallest ε that the trained ones reach."""
    said = []
    for part in frozen:
        most = part["rows"][-1]["width"]
        trained = [n for n in part["needed"]["trained"] if n is not None]
        if not trained:
            said.append(f"at r = {part['rank']}, trained networks do not reach ε = {number(part['epsilons'][0])}")
            continue
        k = len(trained) - 1
        epsilon, ours, theirs = part["epsilons"][k], trained[k], part["needed"]["one step"][k]
        if theirs is not None:
            reach = f"{count(theirs)} frozen after one step do"
        else:
            reach = f"{count(most)} frozen after one step do not"
            fit = part["fits"]["one step"]
            if fit and fit["exponent"] < 0.0:
                needed = (epsilon / fit["constant"]) ** (1.0 / fit["exponent"])
                reach += f" (by the fitted power, {number(needed, 2)} would)"
        said.append(f"at r = {part['rank']}, {ours} trained directions reach ε = {number(epsilon)}; {reach}")
    text = "; ".join(said)
    return f"{text[:1].upper()}{text[1:]}."


def sample_sentences(samples: dict[str, Any]) -> list[str]:
    """Whether the curves collapse in N/d², by single neurons and by their common span."""
    said = []
    names = {"neuron": "Single neurons need", "span": "The span of all neurons together needs"}
    for key, name in names.items():
        fit = samples["collapse"][key]["fit"]
        if fit is None:
            said.append(f"{name} an unknown N: too few d at which half of the data sets are found.")
            continue
        halves = [half for half in samples["collapse"][key]["halves"] if half["half"]]
        last = max(halves, key=lambda half: half["dim"])
        if undecided(fit):
            verdict = "the data scatter too much to say whether the curves collapse in N/d²"
        elif agrees(fit, 2.0):
            verdict = "the curves collapse in N/d²"
        elif fit["interval"][1] < 2.0:
            verdict = "the curves do not collapse in N/d²: fewer samples than d² are enough"
        else:
            verdict = "the curves do not collapse in N/d²: more samples than d² are needed"
        said.append(
            f"{name} N growing as d to the power {power(fit)}, {number(last['half'] / last['dim'] ** 2, 2)} d² at "
            f"d = {last['dim']}: {verdict}."
        )
    return said


def sentence_of_learnt(learnt: dict[str, Any]) -> str:
    """From how many samples on half of the whole runs recover, in units of d², and whether that is a law."""
    reached = [half for half in learnt["halves"] if half["half"]]
    if not reached:
        return "At no d does the share of recovered runs pass one half within the N that were run."
    said = ", ".join(f"{number(half['half'] / half['dim'] ** 2, 2)} at d = {half['dim']}" for half in reached)
    text = f"Half of the runs recover from N/d² = {said}"
    fit = learnt["fit"]
    if fit is None:
        return f"{text}; at fewer than four d, which fits no power."
    if undecided(fit):
        verdict = "which leaves open whether the curves collapse in N/d²"
    elif agrees(fit, 2.0):
        verdict = "so the curves collapse in N/d²"
    else:
        verdict = f"so {'fewer' if fit['exponent'] < 2.0 else 'more'} samples than in proportion to d² are needed"
    return f"{text}: N grows as d to the power {power(fit)}, {verdict}."


def _half(row: dict[str, Any]) -> int | None:
    """The smallest width from which on at least half of the runs of a row recover."""
    best = None
    for cell in reversed(row["cells"]):
        if cell["share"]["share"] < 0.5:
            break
        best = cell["width"]
    return best


def sentence_of_phases(phases: dict[str, list[dict[str, Any]]]) -> list[str]:
    """Where recovery begins in each diagram."""
    said = []
    widest = phases["angle"][0]["cells"][-1]["width"]
    for key, name, show in (
        ("angle", "separation", radians),
        ("rank", "rank", str),
        ("decay", "first λ", "{:g}".format),
    ):
        rows = sorted(phases[key], key=lambda row: row[key])
        halves = [(row[key], _half(row)) for row in rows]
        reached = [(value, width) for value, width in halves if width is not None]
        if not reached:
            said.append(f"At no {name} do half of the runs recover with up to {widest} neurons.")
            continue
        widths = {width for _, width in halves}
        if len(widths) == 1:
            said.append(f"At every {name} half of the runs recover from {reached[0][1]} neurons on.")
            continue
        parts = [f"{show(value)}: {width if width is not None else f'more than {widest}'}" for value, width in halves]
        said.append(f"Neurons from which on half of the runs recover, by {name}: {', '.join(parts)}.")
    short = [row for row in phases["angle"] if row["optimum_share"]["share"] < 1.0]
    as_good = [row["angle"] for row in short if row["cells"][-1]["share"]["found"] >= row["optimum_share"]["found"]]
    if as_good:
        where = ", ".join(radians(angle) for angle in sorted(as_good))
        said.append(
            f"At separations of {where} the widest networks recover as often as the optimum over all networks at the "
            "last λ: what is missing there is missing for λ, not for width."
        )
    return said


def sentence_of_hard(hard: dict[str, list[dict[str, Any]]]) -> list[str]:
    """The smallest angle and κ down to which half of the runs recover, and the rows that break."""
    said = []
    for key, name, show in (
        ("equal", "nearly parallel pairs of equal signs", radians),
        ("opposite", "nearly parallel pairs of opposite signs", radians),
        ("kappa", "nearly degenerate H", lambda value: f"κ = {number(value)}"),
    ):
        rows = sorted(hard[key], key=lambda row: row["value"], reverse=True)
        reached = None
        for row in rows:
            if row["share"]["share"] < 0.5:
                break
            reached = row
        if reached is None:
            said.append(f"For {name} fewer than half of the runs recover already at {show(rows[0]['value'])}.")
        elif reached is rows[-1]:
            said.append(f"For {name} at least half of the runs recover down to {show(reached['value'])}, the smallest.")
        else:
            said.append(f"For {name} at least half of the runs recover down to {show(reached['value'])}, not below.")
    for key, name in (("geometry", "geometries"), ("activations", "activations")):
        broken = [row["name"] for row in hard[key] if row["share"]["share"] < 0.5]
        if broken:
            said.append(f"Of the other {name} fewer than half of the runs recover for: {'; '.join(broken)}.")
        else:
            said.append(f"Of the other {name}, at least half of the runs recover in every row.")
    return said
