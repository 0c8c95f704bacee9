"""Losses in ball arithmetic: they contain the 40-digit value, stay non-negative and relative however small."""

import mpmath
import numpy as np
import pytest

import wstar


def by_mpmath(teacher, student, weight_decay, *, raw):
    """The definition, term by term, at 60 digits."""
    with mpmath.workdps(60):
        mpf, mean = mpmath.mpf, mpmath.sqrt(2 / mpmath.pi)

        def atoms(network, sign, factor):
            for a, w in zip(network.outputs, network.weights, strict=True):
                w = [mpf(float(x)) for x in w]
                norm = mpmath.sqrt(sum(x * x for x in w))
                if norm and a:
                    yield sign * factor * mpf(float(a)) * norm, [x / norm for x in w]

        own = list(atoms(student, 1, mpf(student.activation.even)))
        target = list(atoms(teacher, -1, mpf(teacher.activation.even)))
        total = mpf(0)
        for c, u in own + target:
            for b, v in own + target:
                rho = sum(x * y for x, y in zip(u, v, strict=True))
                rho = max(min(rho, mpf(1)), mpf(-1))
                total += c * b * 2 / mpmath.pi * (mpmath.sqrt(1 - rho**2) + rho * mpmath.asin(rho) - 1)
        odd = [(student.activation.odd / student.activation.even, own)]
        bias, linear = mpf(student.bias), [mpf(float(x)) for x in student.linear]
        counted = list(own)
        if raw:
            odd.append((teacher.activation.odd / teacher.activation.even, target))
            bias -= mpf(teacher.bias)
            linear = [x - mpf(float(y)) for x, y in zip(linear, teacher.linear, strict=True)]
            counted += target
        bias += mean * sum(c for c, _ in counted)
        for ratio, group in odd:
            for c, u in group:
                linear = [x + mpf(ratio) * c * y for x, y in zip(linear, u, strict=True)]
        total += bias**2 + sum(x * x for x in linear)
        penalty = sum(mpf(float(x)) ** 2 for x in np.concatenate([student.outputs, student.weights.ravel()]))
        return total + mpf(weight_decay) / 2 * penalty


@pytest.mark.parametrize("raw", [False, True])
@pytest.mark.parametrize("activations", [("relu", "relu"), ("abs", "leaky_relu")])
def test_the_ball_contains_the_value_at_sixty_digits(raw, activations):
    rng = np.random.default_rng(0)
    teacher = wstar.Teacher(
        rng.normal(size=3), rng.normal(size=(3, 4)), 0.3, rng.normal(size=4), activation=activations[0]
    )
    student = wstar.Student(
        rng.normal(size=5), rng.normal(size=(5, 4)), 0.1, rng.normal(size=4), activation=activations[1]
    )
    risk = wstar.PopulationRisk(teacher, preprocessed=not raw)
    for decay in (0.0, 0.1):
        value, radius = risk.value(student, decay, precise=True)
        expected = by_mpmath(teacher, student, decay, raw=raw)
        assert abs(mpmath.mpf(value) - expected) <= radius
        assert 0.0 < radius <= 1e-6 * value
        assert risk.value(student, decay) == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize("spread", [1e-3, 1e-7, 1e-11, 1e-15])
def test_tiny_losses_keep_their_relative_radius(spread):
    rng = np.random.default_rng(1)
    teacher = wstar.random_teacher(dim=5, rank=3, width=3, seed=1)
    weights = np.repeat(teacher.weights, 2, axis=0) + spread * rng.normal(size=(6, 5))
    student = wstar.Student(0.5 * np.repeat(teacher.outputs, 2), weights)
    # exact α and β are not floats: raw labels with the teacher's own affine part leave only the neurons
    risk = wstar.PopulationRisk(teacher, preprocessed=False)
    value, radius = risk.value(student, precise=True)
    assert 0.0 <= radius <= 1e-6 * value
    assert value == pytest.approx(float(by_mpmath(teacher, student, 0.0, raw=True)), rel=1e-6)


def test_an_exact_copy_has_loss_zero_within_a_tiny_radius():
    teacher = wstar.Teacher([1.0, -2.0], np.array([[1.0, 0.0], [0.0, 1.0]]))
    student = wstar.Student(teacher.outputs, teacher.weights)
    value, radius = wstar.PopulationRisk(teacher, preprocessed=False).value(student, precise=True)
    assert value == 0.0
    assert radius < 1e-100
    split = wstar.Student([0.5, 0.5, -2.0, 0.0], np.array([[1.0, 0], [1.0, 0], [0, 1.0], [0, 0]]))
    assert wstar.PopulationRisk(teacher, preprocessed=False).value(split, precise=True)[0] == 0.0


def test_a_sample_has_no_closed_form():
    risk = wstar.EmpiricalRisk(np.random.default_rng(0).normal(size=(20, 2)), np.arange(20.0))
    with pytest.raises(ValueError, match="PopulationRisk"):
        risk.value(wstar.Student([1.0], np.ones((1, 2))), precise=True)
