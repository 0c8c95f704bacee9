"""Risks on several devices: a fresh process in which JAX is told to make four out of one processor."""

import json
import os
import subprocess
import sys

import pytest

import wstar

COMPARE = """
import json
import jax, numpy as np, wstar

rng = np.random.default_rng(0)
teacher = wstar.random_teacher(dim=7, rank=3, width=4, min_angle=0.3, min_kappa=0.1, seed=0)
target = wstar.Teacher(np.full(5, 0.2), np.eye(5), activation="abs")
X, Z, points = rng.standard_normal((1003, 7)), rng.standard_normal((901, 5)), rng.standard_normal((9, 7))
student = wstar.Student(rng.normal(size=31), rng.normal(size=(31, 7)), 0.3, rng.normal(size=7))
weight = rng.uniform(0.5, 2.0, size=1003)

def numbers(devices):
    found = {}
    for name, risk in (
        ("population", wstar.PopulationRisk(teacher, devices=devices)),
        ("raw", wstar.PopulationRisk(teacher, preprocessed=False, devices=devices)),
        ("sample", wstar.EmpiricalRisk(X, teacher(X), sample_weight=weight, devices=devices)),
    ):
        gradient = risk.gradient(student, 0.1)
        run = wstar.three_stage(
            risk, width=30, seed=0, weight_decay=0.05, n_epochs=1, certify=False, max_steps=50, learning_rate=0.05
        ) if name != "raw" else None
        found[name] = [
            np.atleast_1d(risk.value(student, 0.1)), gradient.outputs, gradient.weights, gradient.bias,
            gradient.linear, *risk.field(student, points), list(risk.tensor_losses(student).values()),
        ] + ([run.student.weights, run.student.linear, risk.value(run.student)] if run else [])
    for name, risk in (
        ("truncated, population", wstar.PopulationRisk(target, preprocessed=False, devices=devices)),
        ("truncated, sample", wstar.EmpiricalRisk(Z, target(Z), preprocessed=False, devices=devices)),
    ):
        one = wstar.truncated_descent(risk, width=11, seed=0, n_steps=40, learning_rate=0.1)
        found[name] = [one.student.weights]
        if "population" in name:
            two = wstar.truncated_descent_many(risk, [0, 1], 11, 40, 0.1)
            found[name] += [r.student.weights for r in two]
    found["optimum"] = [wstar.optimal_measure(
        wstar.EmpiricalRisk(X[:200], teacher(X[:200]), devices=devices), weight_decay=0.1
    ).objective]
    return found

def refused(devices):
    try:
        wstar.PopulationRisk(teacher, devices=devices)
    except ValueError as error:
        return str(error)

one, four = numbers(None), numbers(4)
apart = {
    name: max(float(np.abs(np.asarray(b) - np.asarray(a)).max() / max(np.abs(np.asarray(a)).max(), 1.0))
              for a, b in zip(one[name], four[name], strict=True))
    for name in one
}
spread = wstar.EmpiricalRisk(X, teacher(X), devices=jax.devices()[1:4])
back, labels, weights = spread.rows()
print(json.dumps({
    "apart": apart,
    "shares": sorted((s.device.id, len(s.data)) for s in spread.X.addressable_shards),
    "rows": bool((back == X).all() and spread.n_samples == 1003 and abs(weights.sum() - 1) < 1e-14),
    "dtype": str(spread.X.dtype),
    "refused": [refused(0), refused(5), refused([jax.devices()[0]] * 2), refused([])],
}))
"""


@pytest.fixture(scope="module")
def found():
    environment = os.environ | {"XLA_FLAGS": "--xla_force_host_platform_device_count=4", "JAX_PLATFORMS": "cpu"}
    done = subprocess.run([sys.executable, "-c", COMPARE], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_four_devices_give_the_digits_of_one(found):
    assert len(found["apart"]) == 6
    for name, apart in found["apart"].items():
        assert apart < 1e-12, name


def test_rows_are_dealt_out_evenly_and_come_back(found):
    assert found["shares"] == [[1, 335], [2, 335], [3, 335]]
    assert found["rows"]
    assert found["dtype"] == "float64"


def test_devices_that_are_not_there_are_refused(found):
    none, many, twice, empty = found["refused"]
    assert none.startswith("devices=0: JAX has 4 here, ask for 1 to 4")
    assert many.startswith("devices=5: JAX has 4 here")
    assert "each of them once" in twice
    assert "at least one" in empty


def test_one_device_is_the_risk_as_it_is():
    teacher = wstar.random_teacher(dim=4, rank=2, width=3, min_angle=0.3, seed=0)
    student = wstar.symmetric_start(6, 4, seed=0)
    alone = wstar.PopulationRisk(teacher, devices=1).value(student)
    assert alone == pytest.approx(wstar.PopulationRisk(teacher).value(student), rel=1e-14)
