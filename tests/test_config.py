"""Settings: what is shown is a config file, what is written is read back, and the schema says what is accepted."""

import itertools
import json
import math
import sys

import pytest
import tomlkit
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from wstar.cli.main import main
from wstar.experiments import registry
from wstar.experiments.config import Config, RecoverConfig
from wstar.experiments.settings_text import commented_toml, expected, json_schema
from wstar.experiments.study.axes import Draw, Range, drawn
from wstar.experiments.study.study import Study

KINDS = registry.kinds()


def values_of(schema):
    """A strategy for what the JSON schema of a field accepts."""
    if "anyOf" in schema:
        return st.one_of(*map(values_of, schema["anyOf"]))
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    low, high = schema.get("minimum", schema.get("exclusiveMinimum")), schema.get("maximum")
    kind = schema["type"]
    if kind == "integer":
        # TOML's integers have 64 bits
        return st.integers(-(2**63) if low is None else low, 2**63 - 1 if high is None else high)
    if kind == "number":
        top = schema.get("exclusiveMaximum", high)
        bounds = {"exclude_min": "exclusiveMinimum" in schema, "exclude_max": "exclusiveMaximum" in schema}
        return st.floats(low, top, allow_nan=False, allow_infinity=False, **bounds)
    if kind == "array":
        return st.lists(values_of(schema["items"]), min_size=schema.get("minItems", 0), max_size=6)
    if kind == "string":
        text = st.text(st.characters(exclude_categories=["Cs"]), min_size=schema.get("minLength", 0), max_size=20)
        return st.from_regex(schema["pattern"], fullmatch=True) if "pattern" in schema else text
    return {"boolean": st.booleans(), "null": st.none()}[kind]


def settings_of(kind):
    """A strategy for settings that the schema of ``kind`` accepts."""
    config = registry.experiment(kind).config
    schema = config.model_json_schema()
    fields = {name: values_of(field) for name, field in schema["properties"].items()}
    required = {name: fields.pop(name) for name in schema.get("required", [])}
    return st.fixed_dictionaries(required, optional=fields).map(config.build)


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_what_is_written_is_read_back(tmp_path_factory, kind, data):
    settings = data.draw(settings_of(kind))
    file = tmp_path_factory.mktemp("config") / "config.toml"
    for text in (settings.to_toml(kind, {"wstar": "1.0"}), commented_toml(kind, type(settings), settings)):
        file.write_text(text, encoding="utf-8")
        assert type(settings).read(file) == settings


@pytest.mark.parametrize("kind", KINDS)
def test_all_defaults_are_shown_in_a_file_that_can_be_used(kind, tmp_path):
    config = registry.experiment(kind).config
    text = commented_toml(kind, config)
    shown = tomlkit.parse(text).unwrap()
    assert shown.pop("kind") == kind
    for name, field in config.model_fields.items():
        if field.is_required() or field.default is None:
            assert f"\n# {name} =\n" in text
        else:
            assert shown.pop(name) == field.default
        assert field.description in " ".join(text.replace("\n# ", " ").split())
    assert not shown
    required = [name for name, field in config.model_fields.items() if field.is_required()]
    if not required:
        (tmp_path / "c.toml").write_text(text)
        assert config.read(tmp_path / "c.toml") == config()


def test_a_range_is_said_as_the_field_checks_it():
    schema = RecoverConfig.model_json_schema()["properties"]
    assert expected(schema["width"]) == "whole number ≥ 2"
    assert expected(schema["n_epochs"]) == "whole number, 0 to 60"
    assert expected(schema["within_angle"]) == "number > 0 and ≤ 1.5708"
    assert expected(schema["stage2"]) == 'one of "lars", "subgradient"'
    assert expected(schema["repair"]) == "true or false"
    assert expected(registry.experiment("lmz").config.model_json_schema()["properties"]["dims"]) == (
        "list of whole number"
    )


@pytest.mark.parametrize("kind", KINDS)
def test_the_schema_names_kind_and_every_field(kind):
    schema = json_schema(kind, registry.experiment(kind).config)
    assert schema["properties"]["kind"]["const"] == kind
    assert {"kind", "versions", *registry.experiment(kind).config.model_fields} == set(schema["properties"])
    assert all(field.get("description") for field in schema["properties"].values())
    assert schema["additionalProperties"] is False
    json.dumps(schema, allow_nan=False)


def call(monkeypatch, capsys, *arguments):
    monkeypatch.setattr(sys, "argv", ["wstar", "config", *map(str, arguments)])
    with pytest.raises(SystemExit) as ended:
        main()
    printed = capsys.readouterr()
    return ended.value.code, printed.out, printed.err


def test_the_command_shows_kinds_files_and_run_folders(tmp_path, monkeypatch, capsys, as_shipped):
    assert call(monkeypatch, capsys, "show", "recover") == (0, commented_toml("recover", RecoverConfig), "")
    (tmp_path / "config.toml").write_text('kind = "recover"\ndim = 7\n\n[versions]\nwstar = "1"\n')
    chosen = commented_toml("recover", RecoverConfig, RecoverConfig(dim=7))
    assert "\ndim = 7\n" in chosen
    for place in (tmp_path, tmp_path / "config.toml"):
        assert call(monkeypatch, capsys, "show", place) == (0, chosen, "")
    (tmp_path / "study.toml").write_text('kind = "recover"\nrepeats = 3\n[grid]\ndim = [5, 6]\n')
    assert call(monkeypatch, capsys, "show", tmp_path / "study.toml")[1].startswith("# 6 runs of recover\nkind")
    code, out, _ = call(monkeypatch, capsys, "schema", "recover")
    assert code == 0
    assert json.loads(out) == json_schema("recover", RecoverConfig)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["show", "recovr"], "did you mean 'recover'?"),
        (["schema", "xyzzy"], "choose one of recover, fit"),
        (["show", "typo.toml"], "unknown key 'dimm'; did you mean 'dim'?"),
        (["show", "none.toml"], "kind is missing"),
        (["show", "other.toml"], "there is no experiment 'other'"),
    ],
)
def test_what_cannot_be_shown_is_one_line(tmp_path, monkeypatch, capsys, arguments, says, as_shipped):
    (tmp_path / "typo.toml").write_text('kind = "recover"\ndimm = 3\n')
    (tmp_path / "none.toml").write_text("dim = 3\n")
    (tmp_path / "other.toml").write_text('kind = "other"\n')
    monkeypatch.chdir(tmp_path)
    code, out, error = call(monkeypatch, capsys, *arguments)
    assert (code, out) == (2, "")
    assert says in error
    assert len(error.strip().splitlines()) == 1


# ---------------------------------------------------------------------- studies


@given(
    shape=st.lists(st.integers(1, 5), min_size=1, max_size=3),
    repeats=st.integers(1, 4),
    seed=st.integers(0, 1000),
)
def test_runs_of_a_grid_are_its_product_with_the_seeds_that_follow(shape, repeats, seed):
    names = ("dim", "width", "n_steps")
    grid = {name: list(range(2, 2 + n)) for name, n in zip(names, shape, strict=False)}
    study = Study.build({"experiment": "truncate", "repeats": repeats, "base": {"seed": seed}, "grid": grid})
    assert study.n_runs == math.prod(shape) * repeats
    runs = [study.fields(k) for k in range(study.n_runs)]
    assert len({json.dumps(run) for run in runs}) == study.n_runs
    assert [run["seed"] for run in runs] == [seed + k for k in range(repeats)] * math.prod(shape)
    for k in range(study.n_points):
        assert study.point(k) == {
            name: grid[name][i] for name, i in zip(grid, study.position(k), strict=True)
        }  # fmt: skip


@given(start=st.floats(1e-3, 1e3), ratio=st.floats(1.1, 1e3), num=st.integers(2, 50), down=st.booleans())
def test_a_range_has_both_ends_and_even_steps(start, ratio, num, down):
    first, last = (start * ratio, start) if down else (start, start * ratio)
    for spacing in ("linear", "log"):
        axis = Range(start=first, stop=last, num=num, spacing=spacing)
        values = [axis[k] for k in range(len(axis))]
        assert (values[0], values[-1]) == (first, last)
        even = [math.log(v) for v in values] if spacing == "log" else values
        steps = [b - a for a, b in itertools.pairwise(even)]
        assert max(steps) - min(steps) <= 1e-9 * abs(even[-1] - even[0]) + 1e-12 * max(map(abs, even))


@given(start=st.integers(1, 30), length=st.integers(1, 60), num=st.integers(2, 40), log=st.booleans())
def test_whole_numbers_of_a_range_are_refused_exactly_where_two_coincide(start, length, num, log):
    spacing = "log" if log else "linear"
    axis = Range(start=start, stop=start + length, num=num, spacing=spacing, whole=True)
    values = [axis[k] for k in range(num)]
    if len(set(values)) < num:
        with pytest.raises(ValueError, match="not different as whole numbers"):
            axis.refuse_impossible("study")
    else:
        axis.refuse_impossible("study")
    assert all(isinstance(value, int) for value in values)


@given(low=st.integers(1, 20), more=st.integers(0, 20), seed=st.integers(0, 50), log=st.booleans())
def test_draws_lie_between_their_bounds_and_depend_on_nothing_else(low, more, seed, log):
    spacing = "log" if log else "linear"
    whole = Draw(low=low, high=low + more, spacing=spacing, integer=True)
    for point in range(20):
        value = drawn(whole, seed, point, "width")
        assert isinstance(value, int)
        assert low <= value <= low + more
        assert value == drawn(whole, seed, point, "width")
        assert low <= drawn(Draw(low=low, high=low + more, spacing=spacing), seed, point, "x") <= low + more + 1e-9
        assert drawn(["a", "b"], seed, point, "x") in ("a", "b")


def test_draws_of_whole_numbers_are_uniform():
    counts = [0] * 5
    for point in range(2000):
        counts[drawn(Draw(low=3, high=7, integer=True), 1, point, "width") - 3] += 1
    # χ² with 4 degrees of freedom is above 18.5 once in a thousand times; the draws are fixed by the seed
    assert sum((n - 400.0) ** 2 / 400.0 for n in counts) < 18.5


def test_a_field_may_come_and_the_draws_of_others_stay():
    one = {"n": 3, "learning_rate": {"low": 0.01, "high": 1.0, "spacing": "log"}}
    before = Study.build({"experiment": "truncate", "random": one})
    after = Study.build({"experiment": "truncate", "random": {"n": 5, "width": {"low": 2, "high": 9}, **one}})
    for point in range(3):
        assert before.point(point)["learning_rate"] == after.point(point)["learning_rate"]
        assert isinstance(after.point(point)["width"], int)


def test_a_study_is_read_back_from_the_folder_it_was_written_to(tmp_path):
    study = Study.build({"experiment": "truncate", "repeats": 2, "base": {"dim": 3}, "runs": [{"width": 4}, {}]})
    (tmp_path / "config.toml").write_text(study.to_toml("sweep", {"wstar": "1"}))
    assert Study.load(tmp_path / "config.toml") == study
    assert study.swept == ("width",)


def test_every_config_describes_every_field():
    assert all(issubclass(registry.experiment(kind).config, Config) for kind in KINDS)
    for model in (*(registry.experiment(kind).config for kind in KINDS), Study, Range, Draw):
        assert issubclass(model, BaseModel)
        assert all(field.description for field in model.model_fields.values())
