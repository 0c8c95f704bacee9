"""``wstar fit``: it finds what was planted, learns nothing from rows held back, and says only what the network says."""

import json

import numpy as np
import pandas as pd
import pytest

import wstar
from wstar.experiments.config import FitConfig
from wstar.experiments.fit import KIND, encode, fit_table, prepare, r_squared, summarise, through, train
from wstar.experiments.noise_level import plan_weight_decay
from wstar.experiments.ridge import ridge_functions
from wstar.experiments.store import RunFolder
from wstar.experiments.tables import Table
from wstar.networks.student import Student

CONFIG = FitConfig(table="planted.csv", target="y", width=100, max_steps=400)
DIRECTION = np.array([2.0, -1.0, 0.0, 0.5]) / np.sqrt(5.25)


def planted(n=500, seed=0, noise=0.05):
    """One ridge function with its kink off zero, and a linear column."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 4))
    y = 3.0 * np.maximum(X @ DIRECTION - 0.4, 0.0) + 0.5 * X[:, 2] + 7.0 + noise * rng.standard_normal(n)
    return X, y


def as_table(X, y):
    return Table("planted.csv", "y", pd.DataFrame(X, columns=[f"x{i}" for i in range(X.shape[1])]), y, ())


@pytest.fixture(scope="module")
def prepared():
    return encode(as_table(*planted()), np.arange(400), np.arange(400, 500))


@pytest.fixture(scope="module")
def fitted(prepared):
    return train(CONFIG, prepared)


def test_the_planted_ridge_function_is_found(prepared, fitted):
    result = summarise(prepared, fitted)
    first = result["directions"][0]
    slopes = np.array(first["weights"]) / prepared.encoding.scale
    assert abs(slopes @ DIRECTION) / np.linalg.norm(slopes) > 0.998
    assert first["importance"] > 0.9
    # noise 0.05 against a target of standard deviation 1.9 leaves 7e-4; five parameters a neuron add little
    assert result["scores"]["r2_test"] > 0.998
    assert result["scores"]["r2_linear_test"] < 0.9
    steepest = np.argmax(np.abs(np.diff(np.diff(first["curve"]["value"]) / np.diff(first["curve"]["t"]))))
    kink = first["curve"]["t"][steepest + 1] / np.linalg.norm(slopes)
    offset = prepared.encoding.mean @ (slopes / np.linalg.norm(slopes))
    assert abs(abs(kink + offset) - 0.4) < 0.1


def test_the_result_is_whole(prepared, fitted):
    result = summarise(prepared, fitted)
    assert (result["n_train"], result["n_test"]) == (400, 100)
    assert result["predictions"]["observed"] == prepared.y_test.tolist()
    assert r_squared(prepared.y_test, np.array(result["predictions"]["predicted"])) == result["scores"]["r2_test"]
    assert sum(d["importance"] for d in result["directions"]) == pytest.approx(1.0)
    assert [e["weight_decay"] for e in result["epochs"]] == fitted.trajectory.weight_decay.values.tolist()
    np.testing.assert_allclose([np.linalg.norm(d["weights"]) for d in result["directions"]], 1.0)


def test_rows_held_back_teach_nothing(prepared, fitted):
    """Neither their labels (a paper's notebook used them in preprocessing) nor their inputs."""
    X, y = planted()
    X[400:], y[400:] = 50.0 * X[400:][::-1], -1e3 * y[400:] ** 2
    other = encode(as_table(X, y), np.arange(400), np.arange(400, 500))
    again = train(CONFIG, other)
    for name in ("outputs", "weights", "linear"):
        np.testing.assert_array_equal(getattr(again.student, name), getattr(fitted.student, name))
    assert again.student.bias == fitted.student.bias
    assert other.encoding.notes == prepared.encoding.notes
    assert summarise(other, again)["scores"]["r2_test"] != summarise(prepared, fitted)["scores"]["r2_test"]


def test_units_do_not_matter(prepared, fitted):
    X, y = planted()
    units = np.array([1e-6, 3.0, 1e5, 7.0])
    other = encode(as_table(X * units + 2.0, 1e4 * y - 5.0), np.arange(400), np.arange(400, 500))
    here, there = summarise(prepared, fitted), summarise(other, train(CONFIG, other))
    assert there["scores"]["r2_test"] == pytest.approx(here["scores"]["r2_test"], abs=1e-4)
    assert there["target_sd"] == pytest.approx(1e4 * here["target_sd"])


def test_read_only_arrays_are_read_only_read(tmp_path):
    X, y = planted(n=300)
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", y[:, None])
    X_map, y_map = np.load(tmp_path / "X.npy", mmap_mode="r"), np.load(tmp_path / "y.npy", mmap_mode="r")
    weights = np.ones(300)
    weights.setflags(write=False)
    before = (tmp_path / "X.npy").read_bytes(), (tmp_path / "y.npy").read_bytes()
    risk = wstar.EmpiricalRisk(X_map, y_map, sample_weight=weights)
    plan = plan_weight_decay(risk, 40, 0)
    result = wstar.three_stage(risk, width=40, weight_decay=plan.first, n_epochs=2, max_steps=100)
    plain = wstar.EmpiricalRisk(X, y)
    assert risk.value(result.student) == pytest.approx(plain.value(result.student), rel=1e-12)
    assert before == ((tmp_path / "X.npy").read_bytes(), (tmp_path / "y.npy").read_bytes())


def test_whole_weights_are_repeated_rows():
    X, y = planted(n=120)
    counts = np.random.default_rng(1).integers(0, 4, 120).astype(float)
    given = counts.copy()
    weighted = wstar.EmpiricalRisk(X, y, sample_weight=counts)
    repeated = wstar.EmpiricalRisk(np.repeat(X, counts.astype(int), axis=0), np.repeat(y, counts.astype(int)))
    students = [
        wstar.three_stage(risk, width=40, weight_decay=0.05, n_epochs=2, max_steps=50).student
        for risk in (weighted, repeated)
    ]
    X_new = planted(n=50, seed=9)[0]
    np.testing.assert_allclose(students[0](X_new), students[1](X_new), rtol=1e-7, atol=1e-9)
    np.testing.assert_array_equal(counts, given)


def test_one_column_is_enough():
    x = np.linspace(-2.0, 2.0, 60)
    prepared = encode(as_table(x[:, None], np.abs(x - 0.5)), np.arange(0, 60, 2), np.arange(1, 60, 2))
    result = summarise(prepared, train(CONFIG, prepared))
    assert result["scores"]["r2_test"] > 0.99
    assert len(result["directions"]) == 1
    assert result["directions"][0]["weights"] == [1.0]


@pytest.mark.filterwarnings("ignore:.*up to scale")
def test_a_linear_target_needs_no_direction():
    X, _ = planted(n=80)
    prepared = encode(as_table(X, X @ [1.0, 2.0, 0.0, -1.0] + 3.0), np.arange(60), np.arange(60, 80))
    fitted = train(CONFIG, prepared)
    result = summarise(prepared, fitted)
    assert result["directions"] == []
    assert result["epochs"] == []
    assert result["scores"]["r2_train"] == pytest.approx(1.0, abs=1e-12)
    assert fitted.trajectory.sizes["step"] == 1
    assert any("the fit is linear" in note for note in result["preprocessing"])


def test_noise_is_called_noise():
    """Where the first neuron is weaker than in pure noise nothing is fitted; a strength above 1.6 has a rate of 5 %.

    Of 20 tables of noise more than 5 exceed it with probability 3e-4 at that rate.
    """
    strengths = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        risk = wstar.EmpiricalRisk(rng.standard_normal((150, 4)), rng.standard_normal(150))
        plan = plan_weight_decay(risk, 100, 0)
        strengths.append(plan.strength)
        assert (plan.first >= plan.largest) == (plan.strength < 1.0)
    assert sum(s > 1.6 for s in strengths) <= 5
    assert 0.7 < np.median(strengths) < 1.4


def test_the_plan_scales_with_the_labels():
    X, y = planted(n=300)
    here, there = (plan_weight_decay(wstar.EmpiricalRisk(X, s * y), 100, 0) for s in (1.0, 100.0))
    assert there.strength == pytest.approx(here.strength)
    for name in ("first", "last", "largest", "noise"):
        assert getattr(there, name) == pytest.approx(100.0 * getattr(here, name))
    assert here.first == pytest.approx(here.last * 2.0 ** (here.n_epochs - 1))
    assert here.last <= here.first <= max(0.1 * here.largest, here.last)


def test_given_decay_and_epochs_are_obeyed(prepared):
    config = CONFIG.model_copy(update={"weight_decay": 0.03, "n_epochs": 2, "max_steps": 20})
    epochs = train(config, prepared).epochs
    assert [e.weight_decay for e in epochs] == [0.03, 0.015]


# ---------------------------------------------------------------- ridge functions


def scattered_student(rng, width=5, dim=5):
    """A network on (z, 1) whose directions are far apart."""
    slopes = np.eye(width, dim) + 0.1 * rng.standard_normal((width, dim))
    weights = np.column_stack([slopes, rng.normal(size=width)])
    return Student(rng.normal(size=width), weights, bias=0.7, linear=rng.normal(size=dim + 1))


@pytest.mark.parametrize("seed", range(5))
def test_ridge_functions_add_up_to_the_prediction(seed):
    rng = np.random.default_rng(seed)
    student, z = scattered_student(rng), rng.standard_normal((200, 5))
    inputs = np.column_stack([z, np.ones(200)])
    labels = student(inputs) + rng.standard_normal(200)
    directions, linear = ridge_functions(student, z, labels)
    total = linear["intercept"] + z @ linear["weights"]
    for direction in directions:
        t = z @ direction["weights"]
        # all kinks are on the grid: linear interpolation is exact
        curve = np.interp(t, direction["curve"]["t"], direction["curve"]["value"])
        assert curve.mean() == pytest.approx(0.0, abs=1e-12)
        np.testing.assert_allclose(direction["points"]["value"], curve + labels - student(inputs), atol=1e-12)
        np.testing.assert_allclose(direction["points"]["t"], t)
        total = total + curve
    np.testing.assert_allclose(total, student(inputs), atol=1e-12)


def test_neurons_without_a_kink_among_the_rows_are_linear():
    z = np.random.default_rng(0).uniform(-1.0, 1.0, (50, 2))
    student = Student([2.0, -1.0, 3.0], [[1.0, 0.0, 5.0], [0.0, 1.0, -5.0], [0.0, 0.0, -1.0]])
    directions, linear = ridge_functions(student, z, np.zeros(50))
    assert directions == []
    assert linear["intercept"] == pytest.approx(10.0)
    np.testing.assert_allclose(linear["weights"], [2.0, 0.0])


def test_the_linear_part_that_only_a_turned_neuron_needs_is_taken_back():
    """``σ(x) = σ(−x) + x``: both are one network, and the one without a linear part is shown."""
    u, z = np.array([0.6, 0.8]), np.random.default_rng(0).standard_normal((100, 2))
    straight = Student([2.0], [[*u, 0.3]])
    turned = Student([2.0], [[*-u, -0.3]], bias=0.6, linear=[*(2.0 * u), 0.0])
    for student in (straight, turned):
        directions, linear = ridge_functions(student, z, np.zeros(100))
        np.testing.assert_allclose(linear["weights"], 0.0, atol=1e-14)
        value = np.interp(z @ u, directions[0]["curve"]["t"], directions[0]["curve"]["value"])
        expected = 2.0 * np.maximum(z @ u + 0.3, 0.0)
        np.testing.assert_allclose(value, expected - expected.mean(), atol=1e-12)


def test_neurons_of_one_direction_are_one_function():
    z = np.random.default_rng(0).standard_normal((100, 2))
    student = Student([1.0, 1.0, -0.5], [[1.0, 0.0, 0.0], [-1.0, 0.0, 0.4], [0.0, 2.0, 0.0]])
    directions, _ = ridge_functions(student, z, np.zeros(100))
    assert [round(abs(d["mass"]), 9) for d in directions] == [2.0, 1.0]
    np.testing.assert_allclose(np.abs([d["weights"] for d in directions]), np.eye(2), atol=1e-12)


# ---------------------------------------------------------------- the whole way


def test_from_file_to_run_folder(tmp_path):
    X, y = planted(n=200)
    frame = pd.DataFrame(X, columns=list("abcd"))
    frame["kind"], frame["y"] = np.where(np.arange(200) % 3, "u", "v"), y + 2.0 * (np.arange(200) % 3 == 0)
    frame.loc[[5, 70], "b"] = np.nan
    frame.to_parquet(tmp_path / "t.parquet")
    config = CONFIG.model_copy(
        update={"table": str(tmp_path / "t.parquet"), "missing": "drop", "categories": "onehot", "max_steps": 100}
    )
    prepared = prepare(config)
    run = RunFolder.create(tmp_path / "run", KIND, config)
    result = fit_table(config, prepared, run)
    stored = json.loads((tmp_path / "run" / "result.json").read_text())
    assert stored["columns"] == ["a", "b", "c", "d", "kind=v"]
    assert stored["scores"] == result["scores"]
    assert (stored["n_train"], stored["n_test"]) == (158, 40)
    assert any("Dropped 2 rows" in note for note in stored["preprocessing"])
    with np.load(run.path / "student.npz") as arrays:
        student = Student.from_arrays(arrays)
    columns = frame.drop(index=[5, 70]).assign(kind=lambda f: (f.kind == "v").astype(float))
    raw = np.column_stack([columns[["a", "b", "c", "d", "kind"]].to_numpy(float), np.ones(198)])
    inside = prepared.encoding(prepared.table.inputs)
    free = (np.abs(raw @ prepared.encoding.standardising().T)[:, :-1] - np.abs(inside)).max(axis=1) < 1e-9
    assert free.sum() > 150
    expected = through(student, np.eye(6))(raw)[free]
    assert r_squared(columns.y.to_numpy()[free], expected) > 0.99
    assert RunFolder.open(tmp_path / "run").read_trajectory().attrs["kind"] == KIND


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"width": 7}, "even"),
        ({"target": "z"}, "no column 'z'"),
        ({"test_size": 0.98}, "training rows"),
    ],
)
def test_wrong_settings_are_refused_before_any_work(tmp_path, change, words):
    X, y = planted(n=60)
    pd.DataFrame(X, columns=list("abcd")).assign(y=y).to_csv(tmp_path / "t.csv", index=False)
    config = CONFIG.model_copy(update={"table": str(tmp_path / "t.csv")} | change)
    with pytest.raises(ValueError, match=words):
        prepare(config)


def test_a_target_that_is_constant_in_training(tmp_path):
    X, y = planted(n=60)
    y[:50] = 1.0
    with pytest.raises(ValueError, match="all training rows"):
        encode(as_table(X, y), np.arange(50), np.arange(50, 60))


def test_without_noise_the_plan_stays_finite():
    x = np.linspace(-2.0, 2.0, 40)
    plan = plan_weight_decay(wstar.EmpiricalRisk(np.column_stack([x, np.full(40, 0.5)]), np.abs(x - 0.3)), 200, 0)
    assert 1e-5 * plan.largest <= plan.last < 1e-2 * plan.largest
    assert 1 <= plan.n_epochs <= 14
    assert not plan.empty
