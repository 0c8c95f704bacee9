"""All claims, in the order of the papers."""

from wstar.theory.claims.verdict import Claim

CLAIMS: tuple[Claim, ...] = ()
