"""``wstar claims`` as a user runs it: processes, a folder that survives a kill, a page, a document, wrong input."""

import json
import os
import re
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from plotly.graph_objects import Figure

from wstar.cli.main import main
from wstar.report.claims import claim_figure, headline
from wstar.report.claims_document import small_plot
from wstar.theory.claims import pictures
from wstar.theory.claims.verdict import Effort

WSTAR = [sys.executable, "-c", "from wstar.cli.main import main; main()"]
# seconds each, a rate, an inequality with ratios, a correction, and identities
CHEAP = ["ZG Lemma A.1 (decay)", "ZG Lemma E.5", "ZG Lemma I.2", "ZG Lemma A.1", "ZG Claim A.1", "ZG Lemma I.1"]


def command(names, *more):
    return [*WSTAR, "claims", *(part for name in names for part in ("--claim", name)), *map(str, more)]


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("claims")
    (folder / "docs").mkdir()
    done = subprocess.run(
        command(CHEAP, "--out", "run", "--jobs", 2, "--docs", "docs/claims.md"),
        cwd=folder, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return folder, done


def test_the_run_leaves_verdicts_table_and_page(finished):
    folder, done = finished
    result = json.loads((folder / "run" / "claims.json").read_text())
    assert {row["claim"] for row in result["claims"]} == set(CHEAP)
    assert len(list((folder / "run" / "verdicts").glob("*.json"))) == len(CHEAP)
    assert result["verdicts"] == {"holds": 5, "holds as corrected": 1}
    assert all(name in done.stdout for name in CHEAP)
    assert headline(result["claims"]) in done.stdout
    page = (folder / "run" / "report.html").read_text()
    assert all(f">{name}</a>" in page for name in CHEAP)
    drawn = json.loads(re.search(r'id="page-data">(.*?)</script>', page, flags=re.DOTALL)[1])["figures"]
    for figure in drawn.values():
        Figure(figure)
    assert len(drawn) >= 3


def test_the_document_says_what_the_json_says(finished):
    folder, _ = finished
    text = (folder / "docs" / "claims.md").read_text()
    for row in json.loads((folder / "run" / "claims.json").read_text())["claims"]:
        section = text.split(f"## {row['claim']}\n")[1].split("\n## ")[0]
        assert row["verdict"].capitalize() in section
    anchors = re.findall(r"\]\(#([^)]+)\)", text)
    headings = [
        re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in re.findall(r"^## (.*)$", text, re.MULTILINE)
    ]
    assert anchors == headings
    for image in re.findall(r"!\[[^\]]*\]\(([^)]+)\)", text):
        assert ET.parse(folder / "docs" / image).getroot().tag.endswith("svg")


def test_a_finished_run_is_not_run_again(finished):
    folder, _ = finished
    before = (folder / "run" / "claims.json").read_bytes()
    again = subprocess.run(
        command(CHEAP, "--out", "run", "--json"), cwd=folder, capture_output=True, text=True, timeout=120, check=True
    )
    assert json.loads(again.stdout) == json.loads(before)
    assert (folder / "run" / "claims.json").read_bytes() == before


def test_a_killed_run_goes_on_where_it_was(tmp_path):
    names = [*CHEAP, "ZG Lemma G.2", "ZG Lemma H.1"]
    verdicts = tmp_path / "run" / "verdicts"
    process = subprocess.Popen(
        command(names, "--out", "run", "--jobs", 1), cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    deadline = time.monotonic() + 120.0
    while len(list(verdicts.glob("*.json"))) < 2:
        assert process.poll() is None, "it ended before it could be killed"
        assert time.monotonic() < deadline
        time.sleep(0.01)
    children = workers_of(process.pid)
    process.send_signal(signal.SIGKILL)
    process.wait()
    while any(alive(child) for child in children):
        assert time.monotonic() < deadline, "a worker outlived its parent"
        time.sleep(0.05)
    kept = {path.name: path.read_bytes() for path in verdicts.glob("*.json")}
    assert not (tmp_path / "run" / "claims.json").exists()
    if len(kept) == len(names):
        pytest.fail("the run was over before the kill: nothing was tested")
    done = subprocess.run(
        [*WSTAR, "resume", "run"], cwd=tmp_path, capture_output=True, text=True, timeout=200, check=False
    )
    assert done.returncode == 0, done.stderr
    # what was there is kept as it was, and only the rest was done
    assert all((verdicts / name).read_bytes() == content for name, content in kept.items())
    assert done.stderr.count(": holds") == len(names) - len(kept)
    result = json.loads((tmp_path / "run" / "claims.json").read_text())
    assert {row["claim"] for row in result["claims"]} == set(names)


def workers_of(parent):
    """Process ids of its children, the resource tracker among them."""
    path = f"/proc/{parent}/task/{parent}/children"
    return [int(child) for child in open(path).read().split()] if os.path.exists(path) else []


def alive(pid):
    try:
        return open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--claim", "ZG Lema F.5"], "did you mean 'ZG Lemma F.5'?"),
        (["--paper", "zh"], "zh"),
        (["--jobs", "0"], "jobs"),
        (["--docs", "nowhere/claims.md"], "there is no folder nowhere"),
        (["--claim", "ZG Lemma E.5", "--out", "taken"], "taken exists"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(arguments, said, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "taken").mkdir()
    monkeypatch.setattr(sys, "argv", ["wstar", "claims", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
    assert [p.name for p in tmp_path.iterdir()] == ["taken"]


@pytest.mark.parametrize("claim", pictures.CLAIMS, ids=lambda c: c.claim)
def test_pictures_become_figures_and_drawings(claim):
    verdict = claim(Effort())
    row = {"data": verdict.data}
    figure = claim_figure(row)
    Figure(figure)
    assert len(figure["data"]) == len(verdict.data["curves"])
    for trace, curve in zip(figure["data"], verdict.data["curves"], strict=True):
        np.testing.assert_array_equal(trace["x"], curve["x"])
    assert ET.fromstring(small_plot(row)).tag.endswith("svg")
