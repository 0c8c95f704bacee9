"""All claims: those of ZG that need no optimal measure, by appendix."""

from wstar.theory.claims import certificates, first_step, hermite, identities, kernel, spike, steps, wedges
from wstar.theory.claims.verdict import Claim

CLAIMS: tuple[Claim, ...] = (
    *hermite.CLAIMS,
    *first_step.CLAIMS,
    *identities.CLAIMS,
    *steps.CLAIMS,
    *spike.CLAIMS,
    *wedges.CLAIMS,
    *kernel.CLAIMS,
    *certificates.CLAIMS,
)
