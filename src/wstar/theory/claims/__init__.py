"""The statements of the two papers, each with a check that computes its verdict."""

from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches

from wstar.theory.claims.registry import CLAIMS
from wstar.theory.claims.verdict import Claim, Effort, Verdict


def check_claims(
    paper: str | None = None,
    quick: bool = True,
    *,
    claims: Iterable[str] | None = None,
    on_verdict: Callable[[Verdict], None] | None = None,
) -> list[Verdict]:
    """Run the checks and return a verdict for each.

    Args:
        paper: "ZG", "LMZ" or None for both.
        quick: the small sizes (minutes for all), else the full ones.
        claims: only these identifiers.
        on_verdict: called after each check.

    Raises:
        ValueError: an unknown paper or claim.
    """
    verdicts = []
    for claim in select(paper, claims):
        verdicts.append(claim(Effort(quick=quick)))
        if on_verdict:
            on_verdict(verdicts[-1])
    return verdicts


def select(paper: str | None = None, claims: Iterable[str] | None = None) -> list[Claim]:
    """The registered claims of one paper (or both) and of these identifiers (or all).

    Raises:
        ValueError: an unknown paper, an unknown claim (with the nearest one), or nothing left to check.
    """
    if paper not in (None, "ZG", "LMZ"):
        raise ValueError(f"paper={paper!r}: choose 'ZG' or 'LMZ', or leave it out for both")
    wanted: Sequence[str] | None = None if claims is None else list(claims)
    known = [c.claim for c in CLAIMS]
    for name in wanted or []:
        if name not in known:
            near = get_close_matches(name, known, n=1, cutoff=0.4)
            raise ValueError(
                f"unknown claim {name!r}; " + (f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known)}")
            )
    chosen = [c for c in CLAIMS if (paper is None or c.paper == paper) and (wanted is None or c.claim in wanted)]
    if not chosen:
        raise ValueError(f"no claim of paper {paper} is there to be checked: choose another paper or claim")
    return chosen
