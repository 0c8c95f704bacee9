"""Every check of a ZG claim on optima and trained networks: it holds, and fails on its broken input."""

import numpy as np
import pytest

from wstar.algorithms.optimum.optimal_measure import optimal_measure
from wstar.theory.claims import close, local, optima, pictures, training
from wstar.theory.claims.landscape import nearby, scenes
from wstar.theory.claims.registry import CLAIMS
from wstar.theory.claims.verdict import CORRECTED, FAILS, HOLDS, Claim, Effort, envelope

MINE = [claim for group in (optima, local, training, close, pictures) for claim in group.CLAIMS]
# compared with w*_i as printed, the average neuron does not converge: a*_i is missing
AS_CORRECTED = {"ZG Lemma F.10"}
ANY = Claim("any", "ZG", "anything", "rate", lambda claim, effort: claim.identity(0.0, 0.0))


@pytest.mark.parametrize("claim", MINE, ids=lambda c: c.claim)
def test_claim_holds(claim):
    verdict = claim(Effort())
    assert verdict.verdict == (CORRECTED if claim.claim in AS_CORRECTED else HOLDS), verdict
    assert np.isfinite(verdict.measured)
    if "claimed" in verdict.data:
        assert np.ptp(np.log10(verdict.data["x"])) >= 1.5
        assert verdict.interval[0] <= verdict.measured <= verdict.interval[1]
        assert len(verdict.data["axes"]) == 2


@pytest.mark.parametrize("claim", MINE, ids=lambda c: c.claim)
def test_claim_fails_on_a_broken_input(claim):
    assert claim(Effort(broken=True)).verdict == FAILS


def test_claims_are_registered():
    assert {claim.claim for claim in MINE} <= {claim.claim for claim in CLAIMS}


def test_the_gap_of_a_network_is_that_of_its_measure():
    # ζ from the network's own value against loss and mass of the measure, both from kernel sums of their own
    scene = scenes(True, 0)[0]
    for near in [n for n in scene.constructed if n.family in ("pairs", "tempting")][::5]:
        optimum = next(o for o in scene.optima if o.weight_decay == near.weight_decay)
        loss = near.residual.loss
        np.testing.assert_allclose(
            near.zeta, loss + near.weight_decay * near.total_mass - optimum.objective, rtol=1e-6, atol=1e-14
        )
        assert abs(np.sum(near.student.outputs**2) - np.sum(near.student.weights**2)) <= 1e-12


def test_no_network_is_better_than_the_certified_optimum():
    for near in nearby(Effort()):
        optimum = next(o for o in near.scene.optima if o.weight_decay == near.weight_decay)
        assert near.zeta > 10.0 * optimum.duality_gap


def test_optima_are_those_of_a_cold_start():
    scene = scenes(True, 0)[0]
    warm = scene.optima[4]
    cold = optimal_measure(scene.teacher, warm.weight_decay, seed=5)
    assert abs(cold.objective - warm.objective) <= cold.duality_gap + warm.duality_gap + 1e-15


def test_envelope_takes_the_worst_of_like_instances():
    rng = np.random.default_rng(0)
    x = np.geomspace(1.0, 1e4, 400)
    y = x**2 * 10.0 ** -rng.exponential(1.0, len(x))
    upper = np.array(envelope(x, y, n_bins=8))
    assert upper.shape == (2, 8)
    for a, b in upper.T:
        assert b == y[x == a]
    lower = np.array(envelope(x, y, largest=False, n_bins=8))
    assert (lower[1] < upper[1]).all()


def test_a_wide_interval_decides_only_on_one_side():
    rng = np.random.default_rng(1)
    x = np.geomspace(1.0, 100.0, 8)
    y = x**4 * 10.0 ** rng.normal(0.0, 0.6, len(x))
    wide = ANY.rate(x, y, 1.0, side="at least")
    assert wide.interval[1] - wide.interval[0] > 0.75
    assert wide.verdict == HOLDS
    assert ANY.rate(x, y, 1.0, side="at most").verdict == FAILS
    assert ANY.rate(x, y, 4.0, side="equal").verdict == "not decidable here"
    assert ANY.rate(x, y, wide.measured, side="at least").verdict == "not decidable here"
