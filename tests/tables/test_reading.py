"""Files as columns: the same table in every format, and what the cells of each hold."""

import datetime
import gzip

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from isotherm.tables import reading
from isotherm.tables.columns import ARROW, WORDS, Levels, Numbers, Times, arrow_type

CSV = """name,age,weight,smokes,seen
ann,31,60.5,true,2001-01-01 10:30:00
bob,,70,false,2001-01-07 23:59:59
"=1+1",40,NA,,
"""


def texts(column):
    return [None if code < 0 else column.names[code] for code in column.values]


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "people.csv"
    path.write_text(CSV)
    return path


def check_people(read):
    assert read.rows == 3
    assert texts(read["name"]) == ["ann", "bob", "=1+1"]  # a formula is text
    np.testing.assert_array_equal(read["age"].values, [31, np.nan, 40])
    np.testing.assert_array_equal(read["weight"].values, [60.5, 70, np.nan])
    assert texts(read["smokes"]) == ["true", "false", None]
    assert read["smokes"].truth
    assert isinstance(read["seen"], Times)
    first = datetime.datetime(2001, 1, 1, 10, 30, tzinfo=datetime.UTC).timestamp()
    assert read["seen"].values[0] == first
    np.testing.assert_array_equal(read["seen"].is_missing(), [False, False, True])


def test_csv(table):
    check_people(reading.read(table))


@pytest.mark.parametrize("mark", [";", "\t", "|"])
def test_other_delimiters_are_seen_in_the_header(tmp_path, mark):
    (tmp_path / "t.csv").write_text(CSV.replace(",", mark))
    check_people(reading.read(tmp_path / "t.csv"))


def test_decimal_commas_where_cells_are_not_separated_by_commas(tmp_path):
    (tmp_path / "t.csv").write_text("ort;preis;menge\nUlm, Mitte;-3,14;1\nBonn;1e3;2\nUlm;;3\n")
    read = reading.read(tmp_path / "t.csv")
    np.testing.assert_array_equal(read["preis"].values, [-3.14, 1000, np.nan])
    assert texts(read["ort"]) == ["Ulm, Mitte", "Bonn", "Ulm"]


def test_a_table_with_decimal_points_keeps_its_texts_with_commas(tmp_path):
    (tmp_path / "t.csv").write_text("codes;x\n1,2;0.5\n3,4;1.5\n")
    read = reading.read(tmp_path / "t.csv")
    assert texts(read["codes"]) == ["1,2", "3,4"]
    np.testing.assert_array_equal(read["x"].values, [0.5, 1.5])


def test_compressed_csv_with_a_byte_order_mark(tmp_path):
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(b"\xef\xbb\xbf" + CSV.encode()))
    check_people(reading.read(tmp_path / "t.csv.gz"))


def test_parquet(tmp_path):
    stamp = [datetime.datetime(2001, 1, 1, 10, 30), datetime.datetime(2001, 1, 7, 23, 59, 59), None]
    columns = {
        "name": pa.array(["ann", "bob", "=1+1"]).dictionary_encode(),
        "age": pa.array([31, None, 40], pa.int32()),
        "weight": pa.array([60.5, 70, None]),
        "smokes": pa.array([True, False, None]),
        "seen": pa.array(stamp, pa.timestamp("ns")),
    }
    parquet.write_table(pa.table(columns), tmp_path / "t.parquet")
    check_people(reading.read(tmp_path / "t.parquet"))


def test_npz(tmp_path):
    x = np.arange(6, dtype=np.float32).reshape(3, 2)
    np.savez(tmp_path / "t.npz", x=x, y=np.array(["a", "b", ""]), late=np.array([True, False, True]))
    read = reading.read(tmp_path / "t.npz")
    np.testing.assert_array_equal(read["x[1]"].values, [1, 3, 5])
    assert texts(read["y"]) == ["a", "b", None]
    assert texts(read["late"]) == ["true", "false", "true"]


def test_npz_with_objects_is_not_unpickled(tmp_path):
    np.savez(tmp_path / "t.npz", x=np.array([{"a": 1}], object))
    with pytest.raises(ValueError, match=r"is not an \.npz file of arrays of numbers and text"):
        reading.read(tmp_path / "t.npz")


def test_libsvm(tmp_path):
    (tmp_path / "t.scale").write_text("1 1:0.5 3:2\n-1 2:1\n")
    read = reading.read(tmp_path / "t.scale", features=4)
    assert list(read.columns) == ["label", "1", "2", "3", "4"]
    np.testing.assert_array_equal(read["label"].values, [1, -1])
    np.testing.assert_array_equal(read["3"].values, [2, 0])
    np.testing.assert_array_equal(read["4"].values, [0, 0])


def test_a_column_can_be_asked_for_as_text(table, tmp_path):
    assert texts(reading.read(table, kinds={"age": "text"})["age"]) == ["31", None, "40"]
    np.savez(tmp_path / "t.npz", code=np.array([10, 9, 10]), half=np.array([0.5, 2, np.nan]))
    read = reading.read(tmp_path / "t.npz", kinds={"code": "text", "half": "text"})
    assert texts(read["code"]) == ["10", "9", "10"]
    assert texts(read["half"]) == ["0.5", "2", None]


def test_every_kind_has_words_and_a_type_of_arrow():
    assert ARROW.keys() == WORDS.keys()
    assert not any(pa.types.is_null(arrow_type(kind)) for kind in ARROW)


@pytest.mark.parametrize("late", ["2001-01-07 23:59:59", "2001-01-07 23:59:59.25", "2001-01-07", "9999-12-31 00:00"])
def test_every_kind_can_be_read_again(tmp_path, late):
    """As a run's table is, by the kinds of its columns."""
    (tmp_path / "t.csv").write_text(f"name,age,smokes,seen\nann,31,true,2001-01-01\nbob,,False,{late}\n")
    read = reading.read(tmp_path / "t.csv")
    kinds = {name: column.kind for name, column in read.columns.items()}
    assert set(kinds.values()) == set(WORDS)
    again = reading.read(tmp_path / "t.csv", kinds=kinds)
    for name, column in read.columns.items():
        np.testing.assert_array_equal(again[name].values, column.values)


def test_more_texts_may_stand_for_a_missing_value(tmp_path):
    (tmp_path / "t.csv").write_text("a,b\n1,x\n?,?\n")
    read = reading.read(tmp_path / "t.csv", na=["?"])
    assert isinstance(read["a"], Numbers)
    assert texts(read["b"]) == ["x", None]


def test_cells_may_hold_line_ends_and_quotes(tmp_path):
    (tmp_path / "t.csv").write_text('a,b\n1,"two\nlines"\n2,"a ""quote"", and more"\n')
    assert texts(reading.read(tmp_path / "t.csv")["b"]) == ["two\nlines", 'a "quote", and more']


def test_numbers_kept_as_text_are_numbers(tmp_path):
    parquet.write_table(pa.table({"a": ["1.5", None, "-2"]}), tmp_path / "t.parquet")
    np.testing.assert_array_equal(reading.read(tmp_path / "t.parquet")["a"].values, [1.5, np.nan, -2])


def test_a_time_becomes_days_hours_and_weekdays(table):
    read = reading.read(table)["seen"].parts("seen")
    assert np.diff(read["seen"].values[:2])[0] == pytest.approx(6 + (13 * 3600 + 29 * 60 + 59) / 86400)
    assert texts(read["seen (hour)"]) == ["10", "23", None]
    assert texts(read["seen (weekday)"]) == ["1 Monday", "7 Sunday", None]


def test_taking_rows(table):
    read = reading.read(table).take(np.array([2, 0]))
    assert read.rows == 2
    assert texts(read["name"]) == ["=1+1", "ann"]
    assert isinstance(read["smokes"], Levels)
    np.testing.assert_array_equal(read["age"].values, [40, 31])
