"""All claims: those of ZG by appendix, the ones that need no optimal measure first."""

from wstar.theory.claims import (
    certificates,
    close,
    first_step,
    hermite,
    identities,
    kernel,
    local,
    optima,
    pictures,
    spike,
    steps,
    training,
    wedges,
)
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
    *optima.CLAIMS,
    *local.CLAIMS,
    *training.CLAIMS,
    *close.CLAIMS,
    *pictures.CLAIMS,
)
