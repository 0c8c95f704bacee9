"""Alignment and the recovery report: defined for any student, blind to permutation, sign and scale."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import wstar
from wstar.theory.alignment import align, recovery_report


@pytest.fixture(scope="module")
def teacher():
    return wstar.random_teacher(dim=8, rank=3, width=4, seed=3)


def split(teacher, rng, parts=3):
    """The teacher itself, each neuron split into parts of random scale, sign and order."""
    shares = rng.dirichlet(np.ones(parts), teacher.width)
    outputs = (shares * teacher.outputs[:, None]).ravel()
    weights = np.repeat(teacher.weights, parts, axis=0)
    scale = rng.uniform(0.1, 10.0, len(outputs))
    sign = rng.choice([-1.0, 1.0], len(outputs))
    order = rng.permutation(len(outputs))
    return wstar.Student((outputs / scale)[order], (weights * (scale * sign)[:, None])[order])


@given(st.integers(0, 1000))
def test_a_teacher_cut_in_pieces_is_recovered_exactly(teacher, seed):
    report = recovery_report(split(teacher, np.random.default_rng(seed)), teacher)
    assert report.recovered
    assert max(n.mass_error for n in report.neurons) < 1e-13
    assert max(n.average_neuron_error for n in report.neurons) < 1e-13
    assert report.leftover_mass == 0.0
    assert report.largest_heavy_angle < 1e-7
    assert [n.n_students for n in report.neurons] == [3] * teacher.width


def test_a_neuron_turned_by_a_known_angle_is_seen_at_that_angle(teacher):
    across = np.linalg.svd(teacher.weights)[2][-1]
    for angle in (1e-9, 1e-5, 0.02):
        weights = np.array(teacher.weights)
        weights[2] = np.cos(angle) * weights[2] + np.sin(angle) * across
        report = recovery_report(wstar.Student(teacher.outputs, weights), teacher, within_angle=1e-2)
        assert report.neurons[2].nearest_angle == pytest.approx(angle, rel=1e-6)
        assert report.largest_heavy_angle == pytest.approx(angle, rel=1e-6)
        assert report.recovered == (angle < 1e-2)
        if angle > 1e-2:
            assert report.leftover_mass == pytest.approx(abs(teacher.outputs[2]))
            assert report.neurons[2].n_students == 0


def test_far_mass_is_the_sum_of_mass_times_squared_angle(teacher):
    rng = np.random.default_rng(0)
    student = wstar.Student(rng.normal(size=5), rng.normal(size=(5, 8)))
    alignment = align(student, teacher)
    cosines = np.abs(student.directions @ teacher.directions.T)
    brute = np.arccos(cosines).min(axis=1)
    np.testing.assert_allclose(alignment.angles, brute, rtol=1e-10)
    assert alignment.far_mass == pytest.approx(np.sum(np.abs(student.masses) * brute**2))


def test_a_zero_neuron_and_an_all_zero_student_have_a_defined_answer(teacher):
    outputs = np.concatenate([teacher.outputs, [0.0, 3.0]])
    weights = np.concatenate([teacher.weights, np.zeros((2, 8))])
    alignment = align(wstar.Student(outputs, weights), teacher)
    assert alignment.nearest.tolist()[-2:] == [-1, -1]
    assert recovery_report(wstar.Student(outputs, weights), teacher).recovered
    nothing = recovery_report(wstar.Student(np.zeros(2), np.zeros((2, 8))), teacher)
    assert not nothing.recovered
    assert all(np.isnan(n.nearest_angle) for n in nothing.neurons)


def test_an_abs_teacher_is_measured_in_the_units_of_a_relu_student():
    rng = np.random.default_rng(1)
    teacher = wstar.Teacher([0.5, 0.7], np.linalg.qr(rng.normal(size=(5, 2)))[0].T, activation="abs")
    assert recovery_report(wstar.Student(2.0 * teacher.outputs, teacher.weights), teacher).recovered


def test_other_dimensions_and_impossible_angles_are_refused(teacher):
    with pytest.raises(ValueError, match="5 inputs, teacher 8"):
        align(wstar.Student([1.0], np.ones((1, 5))), teacher)
    with pytest.raises(ValueError, match="within_angle=0"):
        recovery_report(wstar.Student([1.0], np.ones((1, 8))), teacher, within_angle=0.0)
