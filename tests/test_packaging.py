"""What is handed over: pins that are the lower bounds, a wheel that runs by itself, a source archive without junk."""

import re
import subprocess
import sys
import tarfile
import tomllib
import venv
from pathlib import Path

import pytest

import wstar

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def bounds(requirements):
    """Name → lower bound."""
    found = (re.fullmatch(r"([\w.-]+)(?:\[[\w,]+\])?>=([\d.]+)(?:,<[\d.]+)?", line) for line in requirements)
    return {match[1]: match[2] for match in found if match}


def run(*command, cwd=ROOT):
    """Standard output of a command that has to succeed."""
    done = subprocess.run([str(c) for c in command], cwd=cwd, capture_output=True, text=True, check=False, timeout=900)
    assert done.returncode == 0, f"{command}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
    return done.stdout


def test_every_dependency_has_a_lower_bound():
    for requirements in (PROJECT["dependencies"], *PROJECT["optional-dependencies"].values()):
        others = [line for line in requirements if not line.startswith("wstar[")]
        assert len(bounds(others)) == len(others), requirements


def test_the_oldest_versions_are_the_lower_bounds():
    lines = (ROOT / "constraints" / "oldest.txt").read_text().splitlines()
    pinned = dict(line.split("==") for line in lines if line and not line.startswith("#"))
    runtime, of_tests = bounds(PROJECT["dependencies"]), bounds(PROJECT["optional-dependencies"]["test"])
    assert runtime.items() <= pinned.items(), "constraints/oldest.txt: pin each dependency at its lower bound"
    assert pinned.items() <= (runtime | of_tests).items(), "constraints/oldest.txt: pins that are no lower bounds"


def test_changelog_citation_and_licence_are_those_of_this_version():
    changelog = (ROOT / "CHANGELOG.md").read_text()
    assert re.search(rf"^## \[{re.escape(wstar.__version__)}\]", changelog, flags=re.MULTILINE)
    citation = (ROOT / "CITATION.cff").read_text()
    assert f"version: {wstar.__version__}\n" in citation
    assert f"license: {PROJECT['license']}\n" in citation
    assert "Apache License" in (ROOT / "LICENSE").read_text()


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The folder with wheel and source archive, the wheel built from the archive."""
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--outdir", folder, ROOT)
    return folder


@pytest.mark.slow
def test_the_wheel_runs_in_an_environment_of_its_own(built, tmp_path):
    (wheel,) = built.glob("*.whl")
    venv.create(tmp_path / "venv", with_pip=True)
    python, command = tmp_path / "venv" / "bin" / "python", tmp_path / "venv" / "bin" / "wstar"
    run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wheel)
    assert "recover" in run(command, "--help", cwd=tmp_path)
    assert wstar.__version__ in run(command, "--version", cwd=tmp_path)
    small = ["--dim", "8", "--rank", "2", "--teacher-width", "2", "--width", "20", "--n-epochs", "2"]
    run(command, "recover", *small, "--out", "small", cwd=tmp_path)
    assert "</html>" in (tmp_path / "small" / "report.html").read_text(encoding="utf-8")
    # sizes and seeds of the reproductions, and what type checkers look for
    package = Path(run(python, "-c", "import wstar; print(wstar.__path__[0])", cwd=tmp_path).strip())
    for path in (ROOT / "src" / "wstar").rglob("*"):
        if path.is_file() and path.suffix != ".pyc":
            assert (package / path.relative_to(ROOT / "src" / "wstar")).is_file(), path


@pytest.mark.slow
def test_the_source_archive_has_the_tests_and_no_junk(built, tmp_path):
    (archive,) = built.glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        opened.extractall(tmp_path, filter="data")
    (folder,) = tmp_path.iterdir()
    known = {"src", "tests", "docs", "examples", "benchmarks", "constraints"}
    assert known <= {path.name for path in folder.iterdir() if path.is_dir()}
    assert {path.name for path in folder.iterdir() if path.is_dir()} <= known
    names = [str(path.relative_to(folder)) for path in folder.rglob("*")]
    assert not [name for name in names if re.search(r"__pycache__|\.pyc$|_cache|\.venv|(^|/)(runs|site)/", name)]
    collected = run(sys.executable, "-m", "pytest", "--collect-only", "-q", "-m", "", cwd=folder)
    assert len(re.findall(r"::", collected)) > 500
