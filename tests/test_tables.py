"""Tables: wrong ones are refused in words, right ones become numbers as by hand, by rules from training rows alone."""

import datetime
import warnings
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

from wstar.experiments.table.column_rules import MOST_LEVELS, DateColumn, NumberColumn, TextColumn
from wstar.experiments.table.columns import as_dates, as_numbers, as_texts, kind_of
from wstar.experiments.table.encoding import Encoding
from wstar.experiments.table.table import LEAST_ROWS, Table, read_table, split_rows

ROWS = [(i, (5 * i) % 7, i * i) for i in range(1, 13)]
GOOD = "a,b,y\n" + "".join(f"{a},{b},{y}\n" for a, b, y in ROWS)


def write(folder, text, name="table.csv"):
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("text", "target", "words"),
    [
        (GOOD, "yy", ["no column 'yy'", "did you mean 'y'"]),
        (GOOD, "price", ["no column 'price'", "it has a, b, y"]),
        ("", "y", ["empty"]),
        ("a,y\n", "y", ["no rows"]),
        ("a,y\n1,2\n", "y", ["one row"]),
        ("a,y\n" + "".join(f"{i},{i % 4}\n" for i in range(9)), "y", ["9 usable rows", "at least 10"]),
        (GOOD.replace("a,b,y", "a,a,y"), "y", ["more than one column named 'a'", "rename"]),
        ("a,y\n" + "".join(f"{i},7\n" for i in range(11)), "y", ["'y' is 7 in all 11 rows"]),
        ("y\n" + "".join(f"{i}\n" for i in range(11)), "y", ["no input column"]),
        ("a,y\n" + "".join(f"{i},\n" for i in range(11)), "y", ["'y' is empty in all 11 rows"]),
        ("a,y\n" + "".join(f"{i},{'lo' if i % 2 else 'hi'}\n" for i in range(11)), "y", ["'y' holds text", "numbers"]),
        (GOOD.replace("\n5,", "\n1e200,"), "y", ["'a' has values of size 1e+200", "rescale"]),
        (GOOD.replace(",144\n", ",many\n"), "y", ["'y' holds text in 1 of 12 rows", "'many'"]),
        ("a,y\n" + "".join(f"{i},2024-05-{10 + i}\n" for i in range(11)), "y", ["'y' holds dates"]),
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
    ("text", "choice", "words"),
    [
        (GOOD.replace("3,1,9", ",1,9").replace("7,0,", "inf,0,"), {"missing": "refuse"}, ["'a' holds 2", "impute"]),
        (GOOD.replace("3,1,9", ",,9"), {"missing": "refuse"}, ["'a' holds 1", "a (1), b (1)", "--missing drop"]),
        (GOOD.replace(",9\n", ",\n"), {"missing": "refuse"}, ["'y' holds 1"]),
        (
            GOOD.replace("\n", ",u\n").replace("y,u", "y,s"),
            {"categories": "refuse"},
            ["'s' holds text, e.g. 'u'", "--categories onehot", "--categories drop"],
        ),
        (
            GOOD.replace("\n", ",2024-01-31\n").replace("y,2024-01-31", "y,day"),
            {"dates": "refuse"},
            ["'day' holds dates", "--dates parts", "--dates drop"],
        ),
    ],
)
def test_what_is_to_be_refused_is(tmp_path, text, choice, words):
    with pytest.raises(ValueError, match=r".") as caught:
        read_table(write(tmp_path, text), "y", **choice)
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


@pytest.mark.parametrize(("argument", "value"), [("missing", "zero"), ("categories", "embed"), ("dates", "years")])
def test_unknown_choices(tmp_path, argument, value):
    with pytest.raises(ValueError, match=f"{argument}='{value}'"):
        read_table(write(tmp_path, GOOD), "y", **{argument: value})


def test_columns_to_leave_out(tmp_path):
    path = write(tmp_path, GOOD)
    table = read_table(path, "y", leave_out=["a"])
    assert list(table.inputs.columns) == ["b"]
    assert "Left out as asked: a." in table.notes
    with pytest.raises(ValueError, match="no column 'aa'; did you mean 'a'"):
        read_table(path, "y", leave_out=["aa"])
    with pytest.raises(ValueError, match="it cannot be left out"):
        read_table(path, "y", leave_out=["y"])


# ---------------------------------------------------------------- what is read


def test_csv_in_any_dress_and_parquet_give_the_same_table(tmp_path):
    frame = pd.read_csv(write(tmp_path, GOOD))
    frame.to_parquet(tmp_path / "t.parquet")
    frame.sample(frac=1.0, random_state=0).sort_index().to_csv(tmp_path / "numbered.csv")
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
        np.testing.assert_array_equal(table.rows, np.arange(1, 13))
    assert any("numbers the rows" in note for note in table.notes)


@pytest.mark.parametrize(
    ("name", "values", "stays"),
    [
        ("rownames", range(12), False),
        ("", [*range(5), *range(7, 14)], False),
        ("index", reversed(range(12)), False),
        ("index", [*range(11), 40], True),
        ("rownames", [0, 0, *range(10)], True),
        ("number", range(12), True),
    ],
)
def test_a_first_column_that_numbers_the_rows_goes(tmp_path, name, values, stays):
    lines = [f"{v},{a},{b},{y}" for v, (a, b, y) in zip(values, ROWS, strict=True)]
    table = read_table(write(tmp_path, "\n".join([f"{name},a,b,y", *lines])), "y")
    assert list(table.inputs.columns) == [*([name] if stays else []), "a", "b"]


KINDS = [
    ([1, 2, None], "number", [1.0, 2.0, np.nan]),
    ([True, False, None], "number", [1.0, 0.0, np.nan]),
    ([Decimal("1.5"), None, Decimal("2")], "number", [1.5, np.nan, 2.0]),
    (["1", " 2.5", None], "number", [1.0, 2.5, np.nan]),
    ([np.inf, 1.0, -np.inf], "number", [np.nan, 1.0, np.nan]),
    ([None, None, None], "number", [np.nan] * 3),
    (pd.Series([1.0, None, 3.0]).astype("category"), "number", [1.0, np.nan, 3.0]),
    (pd.to_timedelta([1.5, None, 2.0], unit="D"), "number", [1.5, np.nan, 2.0]),
    (["a", None, " b"], "text", ["a", None, "b"]),
    (["1", "b", "2"], "text", ["1", "b", "2"]),
    ([1, None, "b"], "text", ["1", None, "b"]),
    (pd.Series(["u", None, "v"]).astype("category"), "text", ["u", None, "v"]),
    ([1 + 2j, 3j, 0j], "text", ["(1+2j)", "3j", "0j"]),
    (["2024-05-31", None, "2024-05-31 14:30"], "date", ["2024-05-31", "NaT", "2024-05-31T14:30"]),
    (["2024-05-31T14:30:05Z", "2024-05-31T14:30+02:00"], "date", ["2024-05-31T14:30:05", "2024-05-31T12:30"]),
    ([datetime.date(2024, 5, 31), None, datetime.date(2025, 1, 1)], "date", ["2024-05-31", "NaT", "2025-01-01"]),
    (pd.to_datetime(["2024-05-31", None, "2025-01-01"]), "date", ["2024-05-31", "NaT", "2025-01-01"]),
    (["31.05.2024", "01.06.2024", "02.06.2024"], "text", ["31.05.2024", "01.06.2024", "02.06.2024"]),
]  # fmt: skip


@pytest.mark.parametrize(("cells", "kind", "values"), KINDS)
def test_what_a_column_holds(cells, kind, values):
    column = pd.Series(cells)
    before = column.copy()
    assert kind_of(column) == kind
    if kind == "number":
        np.testing.assert_array_equal(as_numbers(column), values)
    elif kind == "date":
        np.testing.assert_array_equal(as_dates(column), np.array(values, dtype="datetime64[s]"))
    else:
        assert as_texts(column).tolist() == values
    pd.testing.assert_series_equal(column, before)


def mixed(n=200):
    """Numbers with gaps, booleans, dates, times and text, as one would have them."""
    rng = np.random.default_rng(0)
    days = pd.Timestamp("2022-03-01") + pd.to_timedelta(rng.integers(0, 700, n), unit="D")
    frame = pd.DataFrame(
        {
            "x": rng.standard_normal(n),
            "count": rng.integers(0, 5, n),
            "on": rng.random(n) < 0.5,
            "day": days,
            "at": days + pd.to_timedelta(rng.integers(0, 1440, n), unit="min"),
            "kind": rng.choice(["u", "v", "w"], n),
            "y": rng.standard_normal(n),
        }
    )
    frame.loc[rng.choice(n, 20, replace=False), "x"] = np.nan
    frame.loc[rng.choice(n, 5, replace=False), "kind"] = None
    frame.loc[rng.choice(n, 5, replace=False), "day"] = pd.NaT
    return frame


def test_csv_and_parquet_of_mixed_columns_give_the_same_table(tmp_path):
    frame = mixed()
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.to_parquet(tmp_path / "t.parquet")
    frame.assign(kind=frame["kind"].astype("category")).to_parquet(tmp_path / "c.parquet")
    first = read_table(tmp_path / "t.csv", "y")
    for name in ("t.parquet", "c.parquet"):
        other = read_table(tmp_path / name, "y")
        pd.testing.assert_frame_equal(first.inputs, other.inputs)
        np.testing.assert_allclose(first.labels, other.labels, rtol=1e-15)
    kinds = {"x": "f", "count": "f", "on": "f", "day": "M", "at": "M", "kind": "O"}
    assert {name: first.inputs[name].dtype.kind for name in first.inputs} == kinds


def test_stray_text_among_numbers_counts_as_empty_and_is_told(tmp_path):
    text = GOOD.replace("\n5,4,25\n", "\n5,?,25\n")
    table = read_table(write(tmp_path, text), "y")
    assert np.isnan(table.inputs["b"][4])
    assert any("1 cell of b without a number ('?')" in note for note in table.notes)
    with pytest.raises(ValueError, match="'b' holds 1"):
        read_table(write(tmp_path, text), "y", missing="refuse")


def test_rows_with_gaps_are_dropped_or_kept_for_filling(tmp_path):
    path = write(tmp_path, GOOD.replace("\n3,1,9", "\n,1,9").replace("\n5,4,25", "\n5,4,"))
    dropped = read_table(path, "y", missing="drop")
    np.testing.assert_array_equal(dropped.rows, [1, 2, 4, 6, 7, 8, 9, 10, 11, 12])
    assert any("Dropped 2 rows" in note and "a (1), y (1)" in note for note in dropped.notes)
    kept = read_table(path, "y")
    np.testing.assert_array_equal(kept.rows, [1, 2, 3, 4, 6, 7, 8, 9, 10, 11, 12])
    assert np.isnan(kept.inputs["a"][2])
    assert any("Dropped 1 row without a value of y" in note for note in kept.notes)


def test_text_and_dates_can_be_left_out(tmp_path):
    mixed().to_csv(tmp_path / "t.csv", index=False)
    table = read_table(tmp_path / "t.csv", "y", categories="drop", dates="drop")
    assert list(table.inputs.columns) == ["x", "count", "on"]
    assert any("kind, day, at" in note for note in table.notes)


@pytest.mark.parametrize(("scale", "shift"), [(1, 0), (-3, 2), (1e-10, 0)])
def test_a_column_that_gives_the_target_away_is_warned_of(tmp_path, scale, shift):
    lines = [f"{a},{scale * y + shift},{y}" for a, _, y in ROWS]
    lines[4] = f"5,,{ROWS[4][2]}"
    with pytest.warns(UserWarning, match="'double' is 'y' up to scale"):
        table = read_table(write(tmp_path, "\n".join(["a,double,y", *lines])), "y")
    assert "--leave-out double" in table.cautions[0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read_table(write(tmp_path, GOOD), "y").cautions == ()


# ---------------------------------------------------------------- training and test rows


def as_table(inputs, labels):
    return Table("t.csv", "y", inputs, labels, np.arange(1, len(labels) + 1), ())


@pytest.mark.parametrize(("n", "test_size", "held"), [(10, 0.2, 2), (11, 0.01, 1), (50, 0.0, 0), (101, 0.5, 50)])
def test_split(n, test_size, held):
    rng = np.random.default_rng(0)
    table = as_table(pd.DataFrame({"a": rng.standard_normal(n)}), rng.standard_normal(n))
    train, test = split_rows(table, test_size, seed=3)
    assert len(test) == held
    np.testing.assert_array_equal(np.sort(np.concatenate([train, test])), np.arange(n))
    np.testing.assert_array_equal(train, split_rows(table, test_size, seed=3)[0])
    if held > 1:
        assert set(test) != set(split_rows(table, test_size, seed=4)[1])


@pytest.mark.parametrize("test_size", [1.0, -0.1, np.nan])
def test_an_impossible_split(test_size):
    with pytest.raises(ValueError, match="test_size"):
        split_rows(as_table(pd.DataFrame({"a": np.arange(10.0)}), np.arange(10.0)), test_size, seed=0)


@pytest.mark.parametrize("ties", [False, True])
def test_the_split_depends_on_values_alone(tmp_path, ties):
    frame = mixed()
    if ties:
        frame["y"] = frame["y"].round(0)
    frame.to_csv(tmp_path / "a.csv", index=False)
    shuffled = frame.sample(frac=1.0, random_state=1)
    shuffled.assign(x=1e3 * shuffled["x"] + 7, y=1e-3 * shuffled["y"]).to_csv(tmp_path / "b.csv", index=False)
    first, second = (read_table(tmp_path / f"{name}.csv", "y") for name in "ab")
    for one, other in zip(split_rows(first, 0.25, 5), split_rows(second, 0.25, 5), strict=True):
        np.testing.assert_allclose(first.labels[one], 1e3 * second.labels[other], rtol=1e-12)
        for name in ("count", "at", "kind"):
            assert first.inputs[name].iloc[one].tolist() == second.inputs[name].iloc[other].tolist()


# ---------------------------------------------------------------- encoding


@pytest.fixture
def training():
    return pd.DataFrame(
        {
            "x": [1.0, 2.0, np.nan, 5.0, 0.0, 4.0, 2.0, 8.0],
            "kind": np.array(["b", "a", "a", None, "b", "a", None, None], dtype=object),
            "same": 3.0,
        }
    )


def test_encoding_against_hand(training):
    encoding, notes = Encoding.fit(training)
    gap = np.array([0, 0, 1, 0, 0, 0, 0, 0])
    x = np.array([1, 2, 2, 5, 0, 4, 2, 8])
    # three of each but b: the first by name of the most frequent is the reference, b is rare
    assert encoding.columns == ["x", "x=(empty)", "kind=a", "kind=(other)"]
    a, b = np.array([0, 1, 1, 0, 0, 1, 0, 0]), np.array([1, 0, 0, 0, 1, 0, 0, 0])
    np.testing.assert_array_equal(encoding(training), np.column_stack([x, gap, a, b]))
    assert any("does not vary" in note and "same" in note for note in notes)
    assert any("1 empty training cells of x hold its median 2" in note for note in notes)
    assert encoding.sources == ["x", "kind", "same"]


def test_an_encoding_comes_back_from_its_file(training):
    frame = mixed().drop(columns="y").astype({"on": float, "count": float})
    for rows in (training, frame):
        encoding = Encoding.fit(rows)[0]
        again = Encoding.model_validate_json(encoding.model_dump_json())
        assert again == encoding
        np.testing.assert_array_equal(again(rows), encoding(rows))


def test_rows_to_come_are_encoded_by_the_old_rules(training):
    encoding = Encoding.fit(training)[0]
    new = pd.DataFrame({"x": ["3.5", "much", None], "kind": ["zebra", "a", None], "same": [9.0, 9.0, 9.0]})
    np.testing.assert_array_equal(encoding(new), [[3.5, 0, 0, 1], [2.0, 1, 1, 0], [2.0, 1, 0, 0]])
    assert encoding.strange(new) == {"x": 1, "kind": 1}


def test_a_level_that_is_a_number_is_known_again_beside_a_gap():
    part, _ = TextColumn.fit(pd.Series(["1", "A"] * 10, name="grade", dtype=object))
    assert part is not None
    assert part.strange(pd.Series([1.0, np.nan, 1.0], name="grade")) == 1
    np.testing.assert_array_equal(part(pd.Series([1.0, 1.0], name="grade")), part(pd.Series(["1", "1"], name="grade")))


def test_names_of_rows_are_dropped_and_rare_texts_joined():
    n = 100
    name = pd.Series([f"n{i}" for i in range(n)], name="name", dtype=object)
    part, notes = TextColumn.fit(name)
    assert part is None
    assert "100 different texts in 100 rows" in notes[0]
    levels = [f"l{i:02d}" for i in range(30) for _ in range(100 - i)]
    part, notes = TextColumn.fit(pd.Series(levels, name="many", dtype=object))
    assert part is not None
    assert part.reference == "l00"
    assert part.levels == tuple(f"l{i:02d}" for i in range(1, MOST_LEVELS + 1))
    assert part.other
    assert "9 rarer texts" in notes[0]
    encoded = part(pd.Series(levels, name="many", dtype=object))
    assert encoded.sum() == len(levels) - 100
    assert set(encoded.sum(axis=1)) == {0.0, 1.0}


def test_levels_do_not_depend_on_the_order_of_rows(training):
    assert Encoding.fit(training.iloc[::-1])[0].columns == Encoding.fit(training)[0].columns


def test_dates_against_pandas():
    frame = mixed(400)
    part, notes = DateColumn.fit(frame["at"])
    column = frame["at"]
    first = column.min().normalize()
    assert (part.year, part.clock, len(part.weekdays)) == (True, True, 6)
    day = (column - column.dt.normalize()) / pd.Timedelta(days=1)
    within = (column.dt.day_of_year - 1 + day) / 365.2425
    expected = [(column - first) / pd.Timedelta(days=1)]
    expected += [
        np.cos(2 * np.pi * within),
        np.sin(2 * np.pi * within),
        np.cos(2 * np.pi * day),
        np.sin(2 * np.pi * day),
    ]
    expected += [(column.dt.day_name() == name).astype(float) for name in part.weekdays]
    np.testing.assert_allclose(part(column), np.column_stack(expected), atol=1e-4)
    assert column.dt.day_name().value_counts().idxmax() not in part.weekdays
    assert f"days since {first.date()}" in notes[0]
    assert part.names[0] == f"at (days since {first.date()})"
    assert len(part.names) == part(column).shape[1]


@pytest.mark.parametrize(
    ("dates", "year", "weekdays"),
    [
        (pd.date_range("2020-01-01", periods=100, freq="D"), False, 0),
        (pd.date_range("2020-01-01", periods=200, freq="D"), False, 6),
        (pd.date_range("2000-01-01", periods=200, freq="MS"), True, 0),
        (pd.date_range("2000-01-01", periods=200, freq="W"), True, 0),
    ],
)
def test_parts_of_a_date_are_those_that_rows_can_tell(dates, year, weekdays):
    part, _ = DateColumn.fit(pd.Series(dates, name="day"))
    assert (part.year, len(part.weekdays), part.clock) == (year, weekdays, False)


def test_constants_and_copies_are_dropped_with_their_names():
    rng = np.random.default_rng(0)
    x = rng.standard_normal(50)
    frame = pd.DataFrame({"x": x, "twice": -2.0 * x + 1.0, "z": rng.standard_normal(50), "one": 1e9, "again": 3.0 * x})
    encoding, notes = Encoding.fit(frame)
    assert encoding.columns == ["x", "z"]
    assert "Dropped twice: it is x up to scale." in notes
    assert "Dropped again: it is x up to scale." in notes
    assert any("does not vary" in note and "one" in note for note in notes)
    with pytest.raises(ValueError, match="no input column varies"):
        Encoding.fit(pd.DataFrame({"a": np.full(6, 0.1), "b": np.full(6, np.nan)}))


def test_units_of_columns_change_nothing_but_their_unit():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.standard_normal((40, 3)), columns=list("abc"))
    for unit in (1e-150, 1e-8, 1e8, 1e150):
        scaled, _ = Encoding.fit(unit * frame)
        assert scaled.columns == ["a", "b", "c"]
        np.testing.assert_array_equal(scaled(unit * frame), unit * frame.to_numpy())


def test_medians_are_of_filled_cells():
    values = np.array([1.0, np.nan, 9.0, 4.0, np.nan])
    part, _ = NumberColumn.fit(pd.Series(values, name="v"))
    assert part.fill == np.median([1.0, 9.0, 4.0])
    assert part.names == ["v", "v=(empty)"]
    assert LEAST_ROWS == 10
