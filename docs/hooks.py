"""What the site has beyond its Markdown files: formulas as MathML, pages taken from the root, links in docstrings."""

import html
import re
from pathlib import Path

from latex2mathml.converter import convert
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

import wstar

ROOT = Path(__file__).parents[1]

# pages of the site that are files elsewhere: written once, read in both places
ELSEWHERE = {
    "index.md": "README.md",
    "project/changelog.md": "CHANGELOG.md",
    "project/contributing.md": "CONTRIBUTING.md",
    "project/measured.md": "benchmarks/RESULTS.md",
}
_FORMULA = re.compile(r'<(span|div) class="arithmatex">(.*?)</\1>', re.DOTALL)
# as an operator a bar would stand apart from what it encloses
_BAR = re.compile(r"<mo[^>]*>(?:&#x0007C;|\|)</mo>")
# :class:`~wstar.risks.base.Risk` as Markdown has left it
_ROLE = re.compile(r":(?:class|func|meth|attr|mod):<code>~?([\w.]+)</code>")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are files of the root, their links turned to where the files are on the site."""
    for place, source in ELSEWHERE.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        files.append(File.generated(config, place, content=relinked(text, source, place)))
    return files


def relinked(text: str, source: str, place: str) -> str:
    """``text`` of the root's file ``source`` with its relative links as the page ``place`` needs them."""
    up = "../" * place.count("/")

    def turned(match: re.Match[str]) -> str:
        target, _, anchor = match[1].partition("#")
        if "://" in target or not target:
            return match[0]
        path = str((ROOT / source).parent.joinpath(target).resolve().relative_to(ROOT))
        pages = {file: page for page, file in ELSEWHERE.items()}
        if path in pages:
            found = pages[path]
        elif path.startswith("docs/"):
            found = path.removeprefix("docs/")
        else:
            return "](https://spdx.org/licenses/Apache-2.0.html)" if path == "LICENSE" else match[0]
        return f"]({up}{found}{'#' if anchor else ''}{anchor})"

    return re.sub(r"\]\(([^)\s]+)\)", turned, text)


def on_page_content(content: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Formulas become MathML, which browsers set by themselves; roles in docstrings become links or code."""
    content = _FORMULA.sub(lambda match: formula(html.unescape(match[2]), block=match[1] == "div"), content)
    return _ROLE.sub(lambda match: role(match[1], at_reference=page.file.src_uri == "reference/api.md"), content)


def formula(source: str, *, block: bool) -> str:
    r"""MathML of ``\(…\)`` or ``\[…\]``."""
    inner = source.strip()[2:-2].strip()
    mathml = convert(inner, display="block" if block else "inline")
    mathml = _BAR.sub('<mo stretchy="false" lspace="0" rspace="0">|</mo>', mathml)
    return f'<div class="formula">{mathml}</div>' if block else mathml


def role(target: str, *, at_reference: bool) -> str:
    """A link to a public name on the reference page, or its last part as code."""
    name = target.rpartition(".")[2]
    if at_reference and name in wstar._PUBLIC:
        return f'<a href="#wstar.{wstar._PUBLIC[name]}.{name}"><code>{name}</code></a>'
    return f"<code>{name}</code>"
