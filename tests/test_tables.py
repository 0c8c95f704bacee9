"""Tables: every wrong one is refused in words, the right ones are encoded as by hand, from training rows alone."""

import warnings

import numpy as np
import pandas as pd
import pytest

from wstar.experiments.encoding import CONSTANT, GUARD, SHRINKAGE, Encoding, input_map
from wstar.experiments.tables import read_table, split_rows

GOOD = "a,b,y\n1,5,1\n2,4,4\n3,7,9\n4,1,16\n5,2,25\n6,6,36\n"


def write(folder, text, name="table.csv"):
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@pytest.mark.parametrize(
    ("text", "target", "words"),
    [
        (GOOD, "yy", ["no column 'yy'", "did you mean 'y'"]),
        (GOOD, "price", ["no column 'price'", "it has a, b, y"]),
        ("", "y", ["empty"]),
        ("a,y\n", "y", ["no rows"]),
        ("a,y\n1,2\n", "y", ["one row"]),
        ("a,b,c,y\n1,2,3,4\n2,2,3,4\n3,2,1,5\n4,4,4,6\n", "y", ["4 usable rows for 3 columns", "5 are needed"]),
        (GOOD.replace("a,b,y", "a,a,y"), "y", ["more than one column named 'a'", "rename"]),
        ("a,y\n" + "".join(f"{i},7\n" for i in range(6)), "y", ["'y' is 7 in all 6 rows"]),
        ("y\n1\n2\n3\n", "y", ["no input column"]),
        (GOOD.replace("3,7", ",7").replace("6,6", "inf,6"), "y", ["'a' holds 2", "--missing drop", "--missing mean"]),
        (GOOD.replace("3,7,9", ",,9"), "y", ["'a' holds 1", "a (1), b (1)"]),
        (GOOD.replace("36", ""), "y", ["'y' holds 1"]),
        (GOOD.replace("5,2", "5,two"), "y", ["'b' holds text in 1 of 6 rows", "'two'", "--categories onehot"]),
        ("a,b,y\nu,v,1\nw,v,2\nu,w,3\nw,w,5\n", "y", ["'a' holds text", "also in 'b'", "--categories drop"]),
        ("a,y\n1,low\n2,high\n3,low\n", "y", ["target 'y' holds text", "numbers"]),
        ("a,y\n1,2,3\n2,3,4\n3,4,5\n", "y", ["more fields"]),
        ("a,y\n1,2\n2,3,4\n3,4\n", "y", ["cannot be read", "line 3"]),
        ("ä,y\n1,2\n".encode("latin-1"), "y", ["cannot be read", "utf-8"]),
    ],
)
def test_a_wrong_table_is_refused_in_one_line(tmp_path, text, target, words):
    with pytest.raises(ValueError, match=r".") as caught:
        read_table(write(tmp_path, text), target)
    assert "\n" not in str(caught.value)
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize(
    ("name", "words"),
    [("none.csv", "does not exist"), ("table.xlsx", ".csv and .parquet"), (".", ".csv and .parquet")],
)
def test_a_file_that_cannot_be_a_table(tmp_path, name, words):
    with pytest.raises(ValueError, match=words):
        read_table(tmp_path / name, "y")


def test_a_damaged_parquet_file(tmp_path):
    with pytest.raises(ValueError, match="cannot be read"):
        read_table(write(tmp_path, "not parquet at all", "t.parquet"), "y")


def test_dates_are_refused(tmp_path):
    frame = pd.DataFrame({"day": pd.date_range("2020-01-01", periods=9), "y": np.arange(9.0) ** 2})
    frame.to_parquet(tmp_path / "t.parquet")
    with pytest.raises(ValueError, match="'day' holds dates"):
        read_table(tmp_path / "t.parquet", "y")


def test_csv_in_any_dress_and_parquet_give_the_same_table(tmp_path):
    frame = pd.read_csv(write(tmp_path, GOOD))
    frame.to_parquet(tmp_path / "t.parquet")
    frame.to_csv(tmp_path / "numbered.csv")
    dressed = {
        "semicolons.csv": GOOD.replace(",", ";"),
        "tabs.csv": GOOD.replace(",", "\t"),
        "marked.csv": "\ufeff" + GOOD,
        "carriage.csv": GOOD.replace("\n", "\r\n"),
        "quoted.csv": GOOD.replace("a,b", '"a", b'),
    }
    paths = [write(tmp_path, text, name) for name, text in dressed.items()]
    for path in [*paths, tmp_path / "t.parquet", tmp_path / "numbered.csv"]:
        table = read_table(path, "y")
        assert list(table.inputs.columns) == ["a", "b"]
        np.testing.assert_array_equal(table.inputs.to_numpy(), frame[["a", "b"]].to_numpy())
        np.testing.assert_array_equal(table.labels, frame["y"])
    assert any("numbers the rows" in note for note in table.notes)


def test_a_first_column_that_only_looks_like_row_numbers_stays(tmp_path):
    table = read_table(write(tmp_path, GOOD.replace("a,b", "index,b").replace("6,6,36", "8,6,36")), "y")
    assert list(table.inputs.columns) == ["index", "b"]


def test_rows_with_gaps_are_dropped_or_kept_for_filling(tmp_path):
    path = write(tmp_path, GOOD.replace("3,7,9", ",7,9").replace("5,2,25", "5,2,") + "7,3,49\n8,8,64\n")
    dropped = read_table(path, "y", missing="drop")
    np.testing.assert_array_equal(dropped.labels, [1, 4, 16, 36, 49, 64])
    assert any("Dropped 2 rows" in note and "a (1), y (1)" in note for note in dropped.notes)
    kept = read_table(path, "y", missing="mean")
    np.testing.assert_array_equal(kept.labels, [1, 4, 9, 16, 36, 49, 64])
    assert np.isnan(kept.inputs["a"][2])


def test_text_columns_can_be_left_out(tmp_path):
    text = "\n".join(line + ("," + ("s" if i == 0 else "uv"[i % 2])) for i, line in enumerate(GOOD.splitlines()))
    table = read_table(write(tmp_path, text), "y", categories="drop")
    assert list(table.inputs.columns) == ["a", "b"]
    assert "Dropped text columns: s." in table.notes


@pytest.mark.parametrize(("argument", "value"), [("missing", "zero"), ("categories", "embed")])
def test_unknown_choices(tmp_path, argument, value):
    with pytest.raises(ValueError, match=f"{argument}='{value}'"):
        read_table(write(tmp_path, GOOD), "y", **{argument: value})


def test_a_column_that_gives_the_target_away_is_warned_of(tmp_path):
    rows = [f"{i % 5},{-3 * i * i + 2},{i * i}" for i in range(9)]
    with pytest.warns(UserWarning, match="'double' is 'y' up to scale"):
        read_table(write(tmp_path, "a,double,y\n" + "\n".join(rows)), "y")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read_table(write(tmp_path, GOOD), "y")


@pytest.mark.parametrize(("n", "test_size", "held"), [(10, 0.2, 2), (7, 0.01, 1), (5, 0.0, 0), (101, 0.5, 50)])
def test_split(n, test_size, held):
    train, test = split_rows(n, test_size, seed=3)
    assert len(test) == held
    np.testing.assert_array_equal(np.sort(np.concatenate([train, test])), np.arange(n))
    np.testing.assert_array_equal(train, split_rows(n, test_size, seed=3)[0])


@pytest.mark.parametrize("test_size", [1.0, -0.1, np.nan])
def test_an_impossible_split(test_size):
    with pytest.raises(ValueError, match="test_size"):
        split_rows(10, test_size, seed=0)


# ---------------------------------------------------------------- encoding


@pytest.fixture
def training():
    return pd.DataFrame(
        {
            "x": [1.0, 2.0, np.nan, 5.0, 0.0, 4.0, 2.0],
            "kind": np.array(["b", "a", "a", None, "b", "a", "c"], dtype=object),
            "same": 3.0,
        }
    )


def test_encoding_against_hand(training):
    encoding = Encoding.fit(training)
    assert encoding.columns == ("x", "kind=b", "kind=(missing)", "kind=c")
    x = np.array([1, 2, 14 / 6, 5, 0, 4, 2])
    b = np.array([1, 0, 0, 0, 1, 0, 0])
    gap, c = np.array([0, 0, 0, 1, 0, 0, 0]), np.array([0, 0, 0, 0, 0, 0, 1])
    by_hand = np.column_stack([(v - v.mean()) / v.std() for v in (x, b, gap, c)])
    np.testing.assert_allclose(encoding(training), by_hand, atol=1e-14)
    assert any("does not vary" in note and "same" in note for note in encoding.notes)
    raw = np.column_stack([x, b, gap, c, np.ones(7)])
    np.testing.assert_allclose(raw @ encoding.standardising().T, np.column_stack([by_hand, np.ones(7)]), atol=1e-14)


def test_unseen_rows_are_guarded(training):
    encoding = Encoding.fit(training)
    far = pd.DataFrame({"x": [1e9, -1e9, np.nan], "kind": ["zebra", "a", "c"], "same": [9.0, 9.0, 9.0]})
    z = encoding(far)
    seen = encoding(training)
    assert z[0, 0] == pytest.approx(seen[:, 0].max() + GUARD)
    assert z[1, 0] == pytest.approx(seen[:, 0].min() - GUARD)
    assert z[2, 0] == pytest.approx(0.0, abs=1e-14)
    np.testing.assert_array_equal(z[0, 1:], z[1, 1:])


def test_encoding_refuses_what_it_cannot_carry(training):
    with pytest.raises(ValueError, match=r"5 training rows for 4 columns.*6 are needed"):
        Encoding.fit(training.iloc[[0, 1, 3, 5, 6]])
    names = pd.DataFrame({"name": np.array([f"n{i}" for i in range(40)], dtype=object)})
    with pytest.raises(ValueError, match="'name' has 40 levels"):
        Encoding.fit(names)
    with pytest.raises(ValueError, match="no input column varies"):
        Encoding.fit(pd.DataFrame({"a": np.full(6, 0.1)}))


def test_levels_do_not_depend_on_the_order_of_rows(training):
    assert Encoding.fit(training.iloc[::-1]).columns == Encoding.fit(training).columns


def test_inputs_are_nearly_uncorrelated_and_carry_a_constant():
    rng = np.random.default_rng(0)
    z = rng.standard_normal((500, 3)) @ rng.standard_normal((3, 3))
    z = (z - z.mean(axis=0)) / z.std(axis=0)
    mapping = input_map(z)
    whitening, correlation = mapping[:3, :3], z.T @ z / 500
    shrunk = (correlation + SHRINKAGE * np.eye(3)) / (1.0 + SHRINKAGE)
    np.testing.assert_allclose(whitening @ shrunk @ whitening, np.eye(3), atol=1e-12)
    np.testing.assert_allclose(whitening, whitening.T, atol=1e-12)
    np.testing.assert_array_equal(mapping[3], [0, 0, 0, CONSTANT])
    np.testing.assert_array_equal(mapping[:3, 3], 0.0)
