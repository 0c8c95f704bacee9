"""Which experiments there are: one table from the kind of a run to its settings and functions.

An experiment is a module with a config class and two functions: ``prepare(config)``, which checks all input before any
work, and a run function ``(config, prepared, folder, on_progress)``, which fills the run folder and returns its result.
One that sweeps can repeat has a module of that name with ``_measures`` besides: ``measure(configs)``, numbers by name
for each of several settings, and ``alike(config)``, equal for settings that are measured fastest together and None for
one that is measured by itself.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from importlib import import_module
from types import ModuleType
from typing import Any

from wstar.experiments.config import Config
from wstar.experiments.store import RunFolder

# numbers by name; NaN where there is none
Summary = dict[str, float]


@dataclass(frozen=True)
class Experiment:
    """One kind of run; its module is imported when something of it is asked for."""

    kind: str
    module: str
    config_name: str
    run_name: str
    can_be_swept: bool = False

    @cached_property
    def config(self) -> type[Config]:
        """The class of its settings."""
        found: type[Config] = getattr(self._module, self.config_name)
        return found

    def prepare(self, config: Config) -> Any:
        """What a run starts from; all input is checked here.

        Raises:
            ValueError: settings that do not go together.
        """
        return self._module.prepare(config)

    def run(
        self, config: Config, prepared: Any, folder: RunFolder, on_progress: Callable[[Any], None] | None = None
    ) -> dict[str, Any]:
        """Run, or go on with, the experiment in ``folder``; returns the contents of result.json."""
        result: dict[str, Any] = getattr(self._module, self.run_name)(config, prepared, folder, on_progress)
        return result

    def measure(self, configs: list[Any]) -> list[Summary]:
        """Numbers of one run for each of ``configs``, which :meth:`alike` puts together; nothing is written."""
        found: list[Summary] = self._measures.measure(configs)
        return found

    def alike(self, config: Any) -> Hashable:
        """Equal for settings that :meth:`measure` runs fastest together; None for those that run alone."""
        key: Hashable = self._measures.alike(config)
        return key

    @cached_property
    def _module(self) -> ModuleType:
        return import_module(f"wstar.experiments.{self.module}")

    @cached_property
    def _measures(self) -> ModuleType:
        return import_module(f"wstar.experiments.{self.module}_measures")


# a new kind of run is one entry here
_EXPERIMENTS = {
    experiment.kind: experiment
    for experiment in (
        Experiment("recover", "recover", "RecoverConfig", "run_recover", can_be_swept=True),
        Experiment("fit", "table.fit", "FitConfig", "fit_table", can_be_swept=True),
        Experiment("truncate", "truncate", "TruncateConfig", "run_truncate", can_be_swept=True),
        Experiment("claims", "claims", "ClaimsConfig", "run_claims"),
        Experiment("zg", "papers.zg", "ZgConfig", "run_zg"),
        Experiment("lmz", "papers.lmz", "LmzConfig", "run_lmz"),
    )
}


def kinds() -> tuple[str, ...]:
    """All kinds of run."""
    return tuple(_EXPERIMENTS)


def sweepable() -> tuple[str, ...]:
    """Kinds that a study can repeat."""
    return tuple(kind for kind, experiment in _EXPERIMENTS.items() if experiment.can_be_swept)


def experiment(kind: str, where: str = "kind") -> Experiment:
    """The experiment that makes runs of this ``kind``.

    Raises:
        ValueError: there is none; names the nearest one.
    """
    if kind not in _EXPERIMENTS:
        near = get_close_matches(kind, _EXPERIMENTS, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]!r}?" if near else _known(kinds())
        raise ValueError(f"{where}: there is no experiment {kind!r}; {hint}")
    return _EXPERIMENTS[kind]


def measure(kind: str, runs: Sequence[dict[str, Any]]) -> list[Summary]:
    """:meth:`Experiment.measure` of settings as they stand in a file."""
    found = experiment(kind)
    return found.measure([found.config.build(fields) for fields in runs])


def alike(kind: str, fields: dict[str, Any]) -> Hashable:
    """:meth:`Experiment.alike` of settings as they stand in a file."""
    found = experiment(kind)
    return found.alike(found.config.build(fields))


def _known(names: tuple[str, ...]) -> str:
    return f"choose one of {', '.join(names)}"
