"""A study: which runs of one experiment to make. Runs are numbered, and the settings of each follow from its number."""

import math
from collections.abc import Iterator
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from typing import Any, get_args

from pydantic import Field

from wstar.experiments import registry
from wstar.experiments.config import Config, read_toml
from wstar.experiments.registry import Experiment
from wstar.experiments.study.axes import Draw, Range, drawn

KIND = "sweep"
Fields = dict[str, Any]


class Study(Config):
    """``wstar sweep``: fields that are fixed, and a grid, random draws or a list of those that are not.

    Run number ``point · repeats + repeat`` has the settings of the point, and its seed plus ``repeat``. The points of
    a grid are its product in order, the last field fastest.
    """

    experiment: str = Field(description="which experiment is repeated")
    repeats: int = Field(1, ge=1, description="runs of every point, with seeds that follow each other")
    base: Fields = Field(default_factory=dict, description="fields that are the same in every run")
    grid: Fields = Field(default_factory=dict, description="field → list, or {start, stop, num, spacing}")
    random: Fields = Field(
        default_factory=dict, description="n, and field → list to choose from, or {low, high, spacing, integer}"
    )
    runs: list[Fields] = Field(default_factory=list, description="the points one by one")

    @classmethod
    def load(cls, path: str | Path) -> "Study":
        """A study from a TOML file in which ``kind`` is the experiment (or from the config of a sweep's folder).

        Raises:
            ValueError: no such file, not TOML, or a field that does not exist or is out of range.
        """
        values = read_toml(path)
        values.pop("versions", None)
        kind = values.pop("kind", None)
        if kind is None:
            raise ValueError(f'{path}: kind is missing: say which experiment to repeat, as in kind = "truncate"')
        return cls.build(values if kind == KIND else {"experiment": kind} | values, str(path))

    @classmethod
    def build(cls, values: dict[str, Any], where: str = "study") -> "Study":
        """A study whose every run has settings that exist and are in range; as cheap for 10⁹ runs as for ten.

        Raises:
            ValueError: one line naming the run's field.
        """
        study = super().build(values, where)
        if not registry.experiment(study.experiment, f"{where}: kind").can_be_swept:
            known = ", ".join(registry.sweepable())
            raise ValueError(f"{where}: kind={study.experiment!r} cannot be swept; choose one of {known}")
        study._refuse_unclear(where)
        study._refuse_unknown(where)
        for axis, values_of in study.axes.items():
            if isinstance(values_of, Range | Draw):
                values_of.refuse_impossible(f"{where}, {axis}")
        for place, fields in study._probes():
            study.of.config.build(fields, f"{where}, {place}")
        return study

    @cached_property
    def of(self) -> Experiment:
        """The experiment that is repeated."""
        return registry.experiment(self.experiment)

    @cached_property
    def axes(self) -> dict[str, Any]:
        """Field → what it runs through: a list, a :class:`Range` (grid) or a :class:`Draw` (random); {} for a list."""
        found: dict[str, Any] = {}
        axis: Any
        for name, values in self.grid.items():
            axis = values if isinstance(values, list) else Range.build(_table(values, name), f"[grid] {name}")
            found[name] = self._rounded(name, axis, "whole")
        for name, values in self.random.items():
            if name != "n":
                axis = values if isinstance(values, list) else Draw.build(_table(values, name), f"[random] {name}")
                found[name] = self._rounded(name, axis, "integer")
        return found

    def _rounded(self, name: str, axis: Any, switch: str) -> Any:
        """A range or draw of whole numbers where the field takes no other."""
        field = self.of.config.model_fields.get(name)
        kinds = () if field is None else (field.annotation, *get_args(field.annotation))
        whole = int in kinds and float not in kinds and isinstance(axis, Range | Draw)
        return axis.model_copy(update={switch: True}) if whole else axis

    @property
    def swept(self) -> tuple[str, ...]:
        """Fields that are not the same in every run, less the seed where it only counts repeats."""
        return tuple(self.axes) or tuple(dict.fromkeys(name for run in self.runs for name in run))

    @cached_property
    def n_points(self) -> int:
        """Different settings, up to the seed."""
        if self.random:
            return int(self.random["n"])
        return len(self.runs) if self.runs else math.prod(len(axis) for axis in self.axes.values())

    @property
    def n_runs(self) -> int:
        """All runs."""
        return self.n_points * self.repeats

    def fields(self, run: int) -> Fields:
        """The settings of a run that are not default, from its number alone."""
        point, repeat = divmod(run, self.repeats)
        fields = self.base | self.point(point)
        return fields | {"seed": int(fields.get("seed", 0)) + repeat} if self._has_seed else fields

    def point(self, point: int) -> Fields:
        """What is particular to a point."""
        if self.runs:
            return self.runs[point]
        if self.random:
            seed = int(self.base.get("seed", 0))
            return {name: drawn(axis, seed, point, name) for name, axis in self.axes.items()}
        return {name: self.axes[name][k] for name, k in zip(self.axes, self.position(point), strict=True)}

    def position(self, point: int) -> list[int]:
        """Where a point of the grid lies on every axis."""
        position = []
        for axis in reversed(self.axes.values()):
            point, k = divmod(point, len(axis))
            position.append(k)
        return position[::-1]

    @property
    def _has_seed(self) -> bool:
        return "seed" in self.of.config.model_fields

    def _refuse_unclear(self, where: str) -> None:
        given = [name for name in ("grid", "random", "runs") if getattr(self, name)]
        if len(given) > 1:
            raise ValueError(f"{where}: [{given[0]}] and [{given[1]}] exclude each other: keep one")
        n = self.random.get("n") if self.random else 1
        if isinstance(n, bool) or not isinstance(n, int) or n < 1:
            raise ValueError(f"{where}, [random]: n={n!r}: a whole number of points, at least 1, is expected")
        if self.repeats > 1 and not self._has_seed:
            raise ValueError(f"{where}: repeats={self.repeats}, but {self.experiment} has no seed: leave repeats out")
        twice = [name for name in self.swept if name in self.base and not self.runs]
        if twice:
            raise ValueError(f"{where}: {twice[0]} is in [base] and in [{given[0]}]: keep one")
        if self.repeats > 1 and "seed" in self.axes:
            raise ValueError(f"{where}: seed is in [{given[0]}] and counted by repeats={self.repeats}: keep one")
        for name, axis in {**self.grid, **self.random}.items():
            if isinstance(axis, list) and (not axis or any(value in axis[:k] for k, value in enumerate(axis))):
                raise ValueError(f"{where}, [{given[0]}] {name}={axis}: at least one value, each once, is expected")

    def _refuse_unknown(self, where: str) -> None:
        known = self.of.config.model_fields
        tables = {"[base]": self.base, "[grid]": self.grid, "[random]": self.random}
        for place, table in (tables | {f"[[runs]] {k}": run for k, run in enumerate(self.runs, 1)}).items():
            for name in table:
                if name not in known and (place, name) != ("[random]", "n"):
                    near = get_close_matches(name, known, n=1, cutoff=0.5)
                    hint = f"did you mean {near[0]!r}?" if near else f"known fields: {', '.join(known)}"
                    raise ValueError(f"{where}, {place}: {self.experiment} has no field {name!r}; {hint}")

    def _probes(self) -> Iterator[tuple[str, Fields]]:
        """Settings that are valid only if those of every run are: ranges of fields are intervals, one field each."""
        if self.runs:
            yield from ((f"[[runs]] {k}", self.base | run) for k, run in enumerate(self.runs, 1))
            return
        first = self.base | {name: _ends(axis)[0] for name, axis in self.axes.items()}
        yield ("[base]" if not self.axes else "[grid]" if self.grid else "[random]"), first
        for name, axis in self.axes.items():
            for value in _ends(axis):
                yield f"[{'grid' if self.grid else 'random'}] {name}", first | {name: value}


def _ends(axis: Any) -> list[Any]:
    """All values of a list, both ends of a range."""
    if isinstance(axis, Draw):
        return [int(end) if axis.integer else end for end in (axis.low, axis.high)]
    return [axis[0], axis[len(axis) - 1]] if isinstance(axis, Range) else axis


def _table(values: Any, name: str) -> Fields:
    """A table as it is; ValueError for a single value, which belongs in [base]."""
    if not isinstance(values, dict):
        raise ValueError(f"{name}={values!r} is neither a list nor a range: put what is fixed into [base]")
    return values
