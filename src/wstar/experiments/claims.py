"""Check the papers' statements in parallel, each verdict on disk as it comes, so that a killed run goes on."""

import json
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from wstar import __version__
from wstar.experiments.config import Config
from wstar.experiments.local_pool import LocalPool
from wstar.experiments.store import RunFolder, write_json
from wstar.theory.claims import select
from wstar.theory.claims.verdict import UNDECIDED, Claim, Effort

KIND = "claims"
RESULT = "claims.json"
# how often the folder is looked at for new verdicts
_PAUSE = 0.25

OnVerdict = Callable[[dict[str, Any], int, int], None] | None


class ClaimsConfig(Config):
    """``wstar claims``: which statements to check, and at which sizes."""

    paper: Literal["zg", "lmz"] | None = Field(None, description="only this paper's statements")
    quick: bool = Field(True, description="small sizes, or the full ones")
    claim: list[str] | None = Field(None, min_length=1, description="only these statements")


def prepare(config: ClaimsConfig) -> list[Claim]:
    """The claims that ``config`` asks for.

    Raises:
        ValueError: an unknown claim, or nothing to check.
    """
    return select(config.paper.upper() if config.paper else None, config.claim)


def run_claims(
    config: ClaimsConfig,
    claims: Sequence[Claim],
    run: RunFolder,
    on_verdict: OnVerdict = None,
    *,
    jobs: int | None = None,
) -> dict[str, Any]:
    """Check what is not yet checked in the folder, on ``jobs`` processes (None: one a core), and write claims.json.

    Claims that share trained runs and optima go to one process, in order. ``on_verdict(verdict, done,
    total)`` is called for each new verdict.

    Raises:
        ValueError: ``jobs`` below 1, a verdict in the folder that is damaged, or a process that was killed.
    """
    if jobs is not None and jobs < 1:
        raise ValueError(f"jobs={jobs} must be at least 1")
    began, folder = time.perf_counter(), run.path / "verdicts"
    folder.mkdir(exist_ok=True)
    seen = {c.claim for c in claims if _file(folder, c.claim).is_file()}
    batches = _batches([c for c in claims if c.claim not in seen])

    def look() -> None:
        for claim in claims:
            if claim.claim not in seen and _file(folder, claim.claim).is_file():
                seen.add(claim.claim)
                if on_verdict:
                    on_verdict(_read(folder, claim.claim), len(seen), len(claims))

    if batches:
        size = min(jobs or os.cpu_count() or 1, len(batches))
        with LocalPool(partial(_check, config.quick, folder), size) as pool:
            _work_off(pool, batches, look)
    rows = [_read(folder, c.claim) for c in claims]
    counts = {
        verdict: sum(row["verdict"] == verdict for row in rows) for verdict in sorted({r["verdict"] for r in rows})
    }
    summary = {"kind": KIND, "wstar": __version__, "status": "finished", "quick": config.quick, "verdicts": counts}
    write_json(run.path / RESULT, summary | {"claims": rows})
    run.write_result(summary | {"seconds": {"total": time.perf_counter() - began}})
    return read_claims(run.path)


def _work_off(pool: LocalPool, batches: list[list[str]], look: Callable[[], None]) -> None:
    while batches or pool.busy:
        while batches and pool.room:
            pool.submit(batches.pop(0))
        for ended in pool.wait(_PAUSE):
            if ended.died:
                raise ValueError(f"the process that checked {', '.join(ended.item)} {ended.died}: run again to go on")
        look()


def read_claims(path: Path) -> dict[str, Any]:
    """The verdicts of a finished run.

    Raises:
        ValueError: there are none, or the file is damaged.
    """
    file = Path(path) / RESULT
    if not file.is_file():
        raise ValueError(f"{path} has no {RESULT} yet: finish it with `wstar resume {path}`")
    return _load(file)


def _batches(claims: Sequence[Claim]) -> list[list[str]]:
    """What each process is handed: the shared instances cost most, so they come first."""
    groups: dict[str, list[str]] = {}
    for claim in claims:
        groups.setdefault(claim.shares or claim.check.__module__, []).append(claim.claim)
    shared = {claim.shares for claim in claims if claim.shares}
    return [groups[name] for name in sorted(groups, key=lambda name: name not in shared)]


def _check(quick: bool, folder: Path, names: Sequence[str]) -> None:
    """In a worker: check and write, one by one."""
    for claim in select(claims=names):
        began = time.perf_counter()
        try:
            verdict = claim(Effort(quick=quick))
        except Exception as error:  # noqa: BLE001 (one broken check must not take the others with it)
            said = f"the check stopped with {type(error).__name__}: {error}"
            verdict = claim.verdict(UNDECIDED, float("nan"), float("nan"), said)
        row = asdict(verdict) | {"quick": quick, "seconds": time.perf_counter() - began}
        write_json(_file(folder, claim.claim), row)


def _file(folder: Path, claim: str) -> Path:
    """A file name that is one claim's alone."""
    return folder / ("".join(c if c.isascii() and c.isalnum() else f"-{ord(c):x}-" for c in claim) + ".json")


def _read(folder: Path, claim: str) -> dict[str, Any]:
    return _load(_file(folder, claim))


def _load(file: Path) -> dict[str, Any]:
    try:
        return dict(json.loads(file.read_text(encoding="utf-8")))
    except ValueError as error:
        raise ValueError(f"{file} is damaged ({error}): delete it and run again") from None
