"""What the project says about itself holds: imports change nothing, and the documents name only what exists."""

import ast
import importlib
import inspect
import re
import shlex
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from itertools import takewhile
from pathlib import Path

import click
import pytest

import wstar

ROOT = Path(__file__).parents[1]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def run_python(script):
    """Standard output of a fresh interpreter, where nothing of the tests' own settings holds."""
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=300)
    assert run.returncode == 0, run.stderr
    return run.stdout


# ---------------------------------------------------------------------- imports


def test_importing_everything_changes_no_setting_and_no_random_state():
    run_python("""
import importlib, pkgutil, sys
import jax, numpy as np

def settings():
    return {
        "jax": dict(jax.config.values),
        "numpy": np.geterr(),
        "printing": np.get_printoptions(),
        "numpy random": [str(part) for part in np.random.get_state()],
        "path": list(sys.path),
    }

before = settings()
import wstar
for module in pkgutil.walk_packages(wstar.__path__, "wstar."):
    importlib.import_module(module.name)
after = settings()
changed = [name for name in before if before[name] != after[name]]
assert not changed, changed
assert jax.numpy.ones(1).dtype == "float32"
""")


def test_importing_wstar_imports_nothing_heavy():
    heavy = run_python("""
import sys, wstar
print([name for name in ("jax", "numpy", "scipy", "sklearn", "pandas", "xarray", "plotly") if name in sys.modules])
""")
    assert heavy.strip() == "[]"


@pytest.mark.parametrize("name", wstar.__all__)
def test_every_public_name_is_there_and_says_what_it_is(name):
    value = getattr(wstar, name)
    assert name in dir(wstar)
    assert name == "__version__" or inspect.getdoc(value)


def test_a_wrong_public_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'teacher'"):
        wstar.teacher  # noqa: B018


def test_every_import_is_a_declared_dependency():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    declared = {re.match(r"[\w.-]+", line)[0].lower().replace("_", "-") for line in project["dependencies"]}
    owners = packages_distributions()
    for file in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                names = [node.module]
            for top in {name.split(".")[0] for name in names} - {"wstar"} - set(sys.stdlib_module_names):
                assert {o.lower().replace("_", "-") for o in owners[top]} & declared, f"{file}: {top}"


# ---------------------------------------------------------------------- documents


def named(document):
    """What a document is called among the tests."""
    return str(document.relative_to(ROOT)).replace("/", ".")


def resolve(path):
    """The object behind ``module.Class.attribute`` or ``module.function(parameter)`` inside wstar."""
    path, _, parameter = path.rstrip(")").partition("(")
    parts = path.split(".")
    depth = max(i for i in range(1, len(parts) + 1) if is_module(".".join(["wstar", *parts[:i]])))
    found = importlib.import_module(".".join(["wstar", *parts[:depth]]))
    for part in parts[depth:]:
        fields = {*getattr(found, "__dataclass_fields__", ()), *getattr(found, "_fields", ())}
        found = fields if part in fields else getattr(found, part)
    if parameter:
        assert parameter in inspect.signature(found).parameters, f"{path} has no parameter {parameter}"
    return found


def is_module(name):
    """Whether a module of that name can be imported."""
    try:
        importlib.import_module(name)
    except ModuleNotFoundError:
        return False
    return True


def test_every_name_of_the_notation_exists():
    rows = [line for line in (ROOT / "docs" / "notation.md").read_text().splitlines() if line.startswith("| ")]
    names = [name for row in rows for name in re.findall(r"`([a-z_]+\.[\w.()]+)`", row)]
    assert len(names) > 40
    for name in names:
        assert resolve(name) is not None


@pytest.mark.parametrize("document", DOCUMENTS, ids=named)
def test_links_between_documents_lead_somewhere(document):
    for target in re.findall(r"\]\(([^)]+)\)", document.read_text()):
        if "://" not in target:
            assert (document.parent / target.partition("#")[0]).exists(), target


@pytest.mark.parametrize("document", DOCUMENTS, ids=named)
def test_files_that_documents_name_exist(document):
    text = document.read_text()
    bases = (ROOT, ROOT / "src", ROOT / "src" / "wstar")
    for path in re.findall(r"`((?:\w+/)+\w*\.?\w*)`", text):
        folder = path.partition("/")[0]
        # other folders are those that a run makes
        if "NAME" not in path and folder != "runs" and any((base / folder).is_dir() for base in bases):
            assert any((base / path).exists() for base in bases), path


@pytest.mark.parametrize("document", DOCUMENTS, ids=named)
def test_commands_that_documents_show_are_there(document):
    text = document.read_text()
    shown = "\n".join(re.findall(r"^```(?:sh|console)\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE))
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
    for target in [*re.findall(r"`make ([\w-]+)", text), *re.findall(r"^make ([\w-]+)", shown, flags=re.MULTILINE)]:
        assert target in targets
    for line in re.findall(r"^(?:\$ )?(wstar .*)$", shown, flags=re.MULTILINE):
        words = shlex.split(line, comments=True)[1:]
        parse(list(takewhile(lambda word: word not in (">", "|", "&&"), words)))


def parse(words):
    """Let click read a command line to its end without running anything; it raises for what it does not know."""
    command = importlib.import_module("wstar.cli.main").app
    context = click.Context(command)
    if words[0] in {flag for parameter in command.get_params(context) for flag in parameter.opts}:
        return
    while isinstance(command, click.Group):
        name, command, words = command.resolve_command(context, words)
    command.make_context(name, words)
