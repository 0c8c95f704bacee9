"""The statements of the two papers, each with a check that computes its verdict."""

from collections.abc import Callable, Iterable, Sequence

from wstar.theory.claims.registry import CLAIMS
from wstar.theory.claims.verdict import Effort, Verdict


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
    if paper not in (None, "ZG", "LMZ"):
        raise ValueError(f"paper={paper!r}: choose 'ZG' or 'LMZ', or leave it out for both")
    wanted: Sequence[str] | None = None if claims is None else list(claims)
    known = [c.claim for c in CLAIMS]
    for name in wanted or []:
        if name not in known:
            raise ValueError(f"unknown claim {name!r}; the claims are {', '.join(known)}")
    verdicts = []
    for claim in CLAIMS:
        if (paper is None or claim.paper == paper) and (wanted is None or claim.claim in wanted):
            verdicts.append(claim(Effort(quick=quick)))
            if on_verdict:
                on_verdict(verdicts[-1])
    return verdicts
