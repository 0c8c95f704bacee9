"""The site builds without a warning, every link in it leads somewhere, and it asks for nothing from elsewhere."""

import importlib
import importlib.util
import os
import re
import subprocess
import sys
from collections import defaultdict
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import click
import pytest

import wstar

ROOT = Path(__file__).parents[1]
NEEDED = ("mkdocs", "material", "mkdocs_click", "mkdocstrings", "latex2mathml")
pytestmark = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in NEEDED), reason="the extra `docs` is not installed"
)


class Found(HTMLParser):
    """Anchors, links and resources of one page."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.anchors, self.links, self.resources = set(), [], []
        self.text = page.read_text(encoding="utf-8")
        self.feed(self.text)

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.anchors |= {given[name] for name in ("id", "name") if given.get(name)}
        if tag == "a" and given.get("href"):
            self.links.append(given["href"])
        if tag in ("script", "img", "iframe", "source") and given.get("src"):
            self.resources.append(given["src"])
        if tag == "link" and given.get("href") and given.get("rel") not in ("canonical", "next", "prev"):
            self.resources.append(given["href"])


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The built site; a warning is an error."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    run = subprocess.run(
        command,
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert run.returncode == 0, run.stderr
    return folder


@pytest.fixture(scope="module")
def pages(site):
    return {page: Found(page) for page in site.rglob("*.html") if page.name != "404.html"}


def test_links_and_anchors_lead_somewhere(pages):
    broken = defaultdict(list)
    for page, found in pages.items():
        for link in found.links:
            path, _, anchor = link.partition("#")
            if ":" in path:
                continue
            target = (page.parent / unquote(path)).resolve() if path else page
            if target.is_dir():
                target = target / "index.html"
            if not target.exists() or (anchor and unquote(anchor) not in pages[target].anchors):
                broken[page.name].append(link)
    assert not broken, dict(broken)


def test_nothing_comes_from_elsewhere(site, pages):
    for page, found in pages.items():
        assert not [r for r in found.resources if re.match(r"(https?:)?//", r)], page
        for resource in found.resources:
            if not resource.startswith("data:"):
                assert (page.parent / resource.partition("?")[0]).exists(), (page, resource)
    for sheet in site.rglob("*.css"):
        assert not re.search(r"(url\(|@import )['\"]?(https?:)?//", sheet.read_text(encoding="utf-8")), sheet


def test_formulas_are_set_and_roles_are_links(pages):
    for page, found in pages.items():
        prose = re.sub(r"<(pre|code)\b.*?</\1>", "", found.text, flags=re.DOTALL)
        assert "arithmatex" not in prose, page
        assert not re.search(r"\\(?:frac|sum|mathbb|lambda)\b", prose), page
        assert ":class:" not in prose, page
        assert ":func:" not in prose, page
    assert sum(found.text.count("<math") for found in pages.values()) > 200


def test_the_reference_has_every_public_name(site):
    text = (site / "reference" / "api.html").read_text(encoding="utf-8")
    for name in wstar.__all__:
        if name != "__version__":
            module = getattr(wstar, name).__module__
            assert f'id="{module}.{name}"' in text or f'id="wstar.{name}"' in text, name


def test_the_reference_has_every_command_and_option(site):
    text = (site / "reference" / "command-line.html").read_text(encoding="utf-8")
    assert "Sentinel" not in text

    def look(command, path):
        assert " ".join(path) in text
        for parameter in command.params:
            for flag in parameter.opts if isinstance(parameter, click.Option) else ():
                assert flag in text, (path, flag)
        if isinstance(command, click.Group):
            for name in command.list_commands(click.Context(command)):
                look(command.get_command(click.Context(command), name), [*path, name])

    look(importlib.import_module("wstar.cli.main").app, ["wstar"])
