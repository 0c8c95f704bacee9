"""Strict settings for every test: shapes and types are checked on each call, JAX refuses what is usually a mistake."""

import os
from collections.abc import Iterator

import jax
import jaxtyping
import pytest
from hypothesis import settings

# before wstar is imported anywhere: the hook rewrites modules as they load
jaxtyping.install_import_hook("wstar", "strict.typechecker")

jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_debug_nans", True)

settings.register_profile("same-every-time", derandomize=True, max_examples=20, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same-every-time"))


@pytest.fixture
def as_shipped() -> Iterator[None]:
    """Without the shape checks, as a user runs it: bad input must be refused by wstar itself, with its own words."""
    before = jaxtyping.config.jaxtyping_disable
    jaxtyping.config.update("jaxtyping_disable", True)
    try:
        yield
    finally:
        jaxtyping.config.update("jaxtyping_disable", before)


@pytest.fixture
def nans_allowed() -> Iterator[None]:
    """For runs that are meant to break down: a NaN is then the result, not an error."""
    with jax.debug_nans(False):
        yield
