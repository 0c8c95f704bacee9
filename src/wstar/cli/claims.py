"""``wstar claims``."""

from pathlib import Path
from typing import Any

import click
from rich.console import Console

from wstar.cli.options import run_options
from wstar.cli.running import folder_to_fill, resumable
from wstar.experiments.claims import KIND, RESULT, ClaimsConfig, prepare, read_claims, run_claims
from wstar.experiments.store import RunFolder
from wstar.report.claims import print_claims
from wstar.report.claims_document import write_document
from wstar.report.page import write_report
from wstar.theory.claims.verdict import Claim


@click.command()
@click.option("--paper", type=click.Choice(["zg", "lmz"]), help="Only this paper's statements.")
@click.option("--quick/--full", default=None, help="Small sizes (minutes for all), or the full ones.  [quick]")
@click.option("--claim", multiple=True, help='Only this statement, as in "ZG Lemma F.5"; may be given several times.')
@click.option("--jobs", type=click.IntRange(min=1), help="Processes.  [one a core]")
@click.option("--docs", type=click.Path(path_type=Path), help="Also write the verdicts to this Markdown file.")
@run_options
def claims(out: Path | None, force: bool, as_json: bool, jobs: int | None, docs: Path | None, **options: Any) -> None:
    """Check the papers' statements; each verdict is computed.

    Verdicts are written as they come: the same command with the same --out goes on where a killed run was.
    """
    given = {name: value for name, value in options.items() if value not in (None, ())}
    settings = ClaimsConfig.build(given | ({"claim": list(given["claim"])} if "claim" in given else {}))
    prepared = prepare(settings)
    if docs is not None and not docs.parent.is_dir():
        raise ValueError(f"--docs {docs}: there is no folder {docs.parent}; make it first")
    run = folder_to_fill(KIND, settings, out, force=force)
    start_claims(settings, prepared, run, as_json=as_json, jobs=jobs, docs=docs)


def start_claims(
    settings: ClaimsConfig,
    prepared: list[Claim],
    run: RunFolder,
    *,
    as_json: bool,
    jobs: int | None = None,
    docs: Path | None = None,
) -> None:
    """Check what the folder still lacks; write claims.json, the page and, if asked for, the document."""
    quiet = Console(stderr=True)

    def tell(verdict: dict[str, Any], done: int, total: int) -> None:
        quiet.print(f"{done}/{total} {verdict['claim']}: {verdict['verdict']}", highlight=False, markup=False)

    with resumable(run):
        if run.finished:
            result = read_claims(run.path)
        else:
            result = run_claims(settings, prepared, run, None if as_json else tell, jobs=jobs)
        page = write_report(run.path)
        if docs is not None:
            write_document(result, docs)
    if as_json:
        click.echo((run.path / RESULT).read_text(encoding="utf-8"))
        return
    terminal = Console(soft_wrap=True)
    print_claims(terminal, result)
    terminal.print(f"page: {page}", highlight=False)
