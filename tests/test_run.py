"""The driver: cutting a run in pieces changes no bit, and every ending says why."""

from itertools import pairwise

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wstar.algorithms.run import CONVERGED, DIVERGED, STEP_CAP, Progress, Update, drive, log_spaced_steps
from wstar.precision import double_precision


class Shrink(Update):
    """x ← factor·x + 0.1 sin x: irrational enough that any change of arithmetic shows in the last bit."""

    factor: float

    def __call__(self, state):
        following = self.factor * state + 0.1 * jnp.sin(state)
        return following, jnp.sqrt(jnp.sum(state**2))


START = np.array([1.0, -2.0, 0.3])


@double_precision
def run(update=Shrink(0.85), **kwargs):  # noqa: B008 (a frozen setting)
    options = {"max_steps": 300, "tolerance": 1e-4} | kwargs
    return drive(update, jnp.asarray(options.pop("state", START)), **options)


def by_hand(n_steps, factor=0.85):
    state, norms = START, []
    for _ in range(n_steps):
        norms.append(np.linalg.norm(state))
        state = factor * state + 0.1 * np.sin(state)
    return state, norms


def test_it_does_the_steps_and_stops_after_the_first_norm_below_tolerance():
    outcome = run()
    _, norms = by_hand(300)
    first = next(i for i, norm in enumerate(norms) if norm <= 1e-4)
    assert outcome.reason == CONVERGED
    assert outcome.step == first + 1
    np.testing.assert_allclose(outcome.state, by_hand(outcome.step)[0], rtol=1e-13)


def test_the_step_cap_is_reported():
    outcome = run(max_steps=7)
    assert (outcome.reason, outcome.step) == (STEP_CAP, 7)
    assert outcome.norm == pytest.approx(by_hand(7)[1][-1], rel=1e-13)


def test_divergence_stops_the_run_before_the_cap(nans_allowed):
    outcome = run(Shrink(1e30), max_steps=10_000)
    assert outcome.reason == DIVERGED
    assert outcome.step < 50


@given(st.sets(st.integers(0, 120), max_size=12), st.sampled_from([0.0, 1e-4, 10.0]))
def test_recording_and_pausing_change_no_bit(record_at, pause_seconds):
    seen = []
    outcome = run(
        record_at=record_at,
        on_record=lambda state, progress: seen.append(progress.step),
        on_pause=lambda state, progress: None,
        pause_seconds=pause_seconds,
    )
    plain = run()
    assert np.array_equal(outcome.state, plain.state)
    assert outcome.step == plain.step
    expected = {s for s in record_at if 0 < s <= plain.step} | {plain.step}
    assert seen == sorted(expected)


@given(st.integers(1, 60))
def test_a_resumed_run_is_bit_equal(cut):
    first = run(max_steps=cut, tolerance=0.0)
    second = run(state=first.state, start_step=cut)
    unbroken = run()
    assert np.array_equal(second.state, unbroken.state)
    assert (second.step, second.reason) == (unbroken.step, unbroken.reason)


def test_progress_carries_the_step_and_norm():
    seen: list[Progress] = []
    run(on_pause=lambda state, progress: seen.append(progress), pause_seconds=0.0)
    assert [p.step for p in seen] == sorted({p.step for p in seen})
    assert all(np.isfinite(p.norm) for p in seen)
    assert [p.reason for p in seen[:-1]] == [None] * (len(seen) - 1)
    assert seen[-1].reason == CONVERGED


@pytest.mark.parametrize("max_steps", [1, 9, 1000, 123_456])
def test_log_spaced_steps_are_increasing_and_reach_the_end(max_steps):
    steps = log_spaced_steps(max_steps, per_decade=4)
    assert steps[0] == 0
    assert steps[-1] == max_steps
    assert all(b > a for a, b in pairwise(steps))
    assert len(steps) <= 4 * (np.log10(max_steps) + 1) + 2
