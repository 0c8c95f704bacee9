"""Every Python block of the documents runs: those of a page in order, as one program, in an empty folder."""

import re
import signal
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
# of the processor, compilation included
SECONDS_A_PAGE = 60


def blocks(page: Path) -> Iterator[tuple[int, str]]:
    """Line number and text of each fenced Python block."""
    text = page.read_text(encoding="utf-8")
    for match in re.finditer(r"^```python\n(.*?)^```$", text, flags=re.DOTALL | re.MULTILINE):
        yield text[: match.start(1)].count("\n"), match[1]


@pytest.fixture
def limited():
    """A page that takes longer than its minute is stopped where it stands, however busy the machine is."""

    def stop(*_):
        raise TimeoutError(f"the page's blocks take more than {SECONDS_A_PAGE} s of the processor")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, SECONDS_A_PAGE)
    yield
    signal.setitimer(signal.ITIMER_PROF, 0)
    signal.signal(signal.SIGPROF, before)


@pytest.fixture
def alone(tmp_path, monkeypatch):
    """An empty folder, and warnings as a program sees them."""
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        yield


def run(page: Path) -> dict:
    """What the page's blocks leave behind, run one after the other in one namespace."""
    names = {"__name__": page.stem}
    for line, block in blocks(page):
        # blank lines before it, so that a traceback names the line of the page
        exec(compile("\n" * line + block, str(page), "exec"), names)
    return names


@pytest.mark.usefixtures("as_shipped", "limited", "alone")
@pytest.mark.parametrize(
    "page", [p for p in PAGES if any(blocks(p))], ids=lambda p: str(p.relative_to(ROOT)).replace("/", ".")
)
def test_the_blocks_of_a_page_run_in_order(page):
    names = run(page)
    if page.name == "README.md":
        assert names["alignment"].largest_heavy_angle <= 1e-3
        np.testing.assert_allclose(names["alignment"].gathered(within_angle=0.01), names["teacher"].outputs, rtol=0.05)


def test_the_pages_that_teach_have_blocks():
    taught = {str(page.relative_to(ROOT)) for page in PAGES if any(blocks(page))}
    assert {"README.md", "docs/tutorial-theorist.md", "docs/mathematics/exact-loss.md"} <= taught
