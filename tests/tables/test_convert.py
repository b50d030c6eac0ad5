"""Tables become arrays on disk, row for row."""

import gzip

import numpy as np
import pytest

from isotherm.tables import convert as converting
from isotherm.tables.convert import convert, open_arrays

pyarrow = pytest.importorskip("pyarrow")

RNG = np.random.default_rng(0)
TABLE = {"a": RNG.standard_normal(1000).astype("f4"), "b": np.arange(1000, dtype="i4"), "y": RNG.random(1000) < 0.5}


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(converting, "BLOCK_ROWS", 300)
    monkeypatch.setattr(converting, "CSV_BYTES", 4000)


@pytest.fixture
def parquet(tmp_path):
    from pyarrow import parquet

    parquet.write_table(pyarrow.table(TABLE), tmp_path / "t.parquet", row_group_size=450)
    return tmp_path / "t.parquet"


@pytest.fixture
def csv(tmp_path):
    from pyarrow import csv

    csv.write_csv(pyarrow.table(TABLE), tmp_path / "t.csv")
    return tmp_path / "t.csv"


def test_parquet(parquet, tmp_path):
    data = convert(parquet, tmp_path / "t", {"x": ["b", "a"], "y": "y"}, dtype=np.float32, progress=False)
    assert isinstance(data["x"], np.memmap)
    np.testing.assert_array_equal(data["x"], np.stack([TABLE["b"], TABLE["a"]], axis=1).astype("f4"))
    np.testing.assert_array_equal(data["y"], TABLE["y"].astype("f4"))
    again = open_arrays(tmp_path / "t")
    assert list(again) == ["x", "y"]
    assert {path.name for path in tmp_path.iterdir()} == {"t.parquet", "t"}


def test_each_column_as_it_is(parquet, tmp_path):
    data = convert([parquet, parquet], tmp_path / "t", progress=False)
    for name, column in TABLE.items():
        assert data[name].dtype == column.dtype
        np.testing.assert_array_equal(data[name], np.tile(column, 2))


def test_csv(csv, tmp_path):
    """Also compressed; its numbers are 64 bits long."""
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(csv.read_bytes()))
    data = convert([csv, tmp_path / "t.csv.gz"], tmp_path / "t", {"a": "a", "b": ["b"]}, progress=False)
    assert data["b"].dtype == np.int64
    np.testing.assert_array_equal(data["a"].astype("f4"), np.tile(TABLE["a"], 2))
    np.testing.assert_array_equal(data["b"], np.tile(TABLE["b"], 2)[:, None])


def test_a_column_that_looks_like_integers_at_first(tmp_path):
    (tmp_path / "m.csv").write_text("a\n" + "1\n" * 3000 + "1.5\n" * 3000)
    data = convert(tmp_path / "m.csv", tmp_path / "t", dtype=np.float32, progress=False)
    np.testing.assert_array_equal(data["a"], np.repeat(np.float32([1, 1.5]), 3000))


def test_refused(parquet, tmp_path):
    from pyarrow import parquet as writer

    with pytest.raises(ValueError, match=r"columns has 'z', which the table has not; it has a, b, y"):
        convert(parquet, tmp_path / "t", {"x": "z"})
    with pytest.raises(ValueError, match=r"\.parquet, \.csv, \.csv\.gz, got t\.xlsx"):
        convert(tmp_path / "t.xlsx", tmp_path / "t")
    with pytest.raises(ValueError, match=r"name '\.\./x'"):
        convert(parquet, tmp_path / "t", {"../x": "a"})
    with pytest.raises(FileExistsError, match="open_arrays"):
        convert(parquet, tmp_path)
    words = {"a": ["x"] * 700, "n": [1] * 650 + [None] * 50}
    writer.write_table(pyarrow.table(words), tmp_path / "w.parquet")
    with pytest.raises(TypeError, match=r"column 'a' must hold numbers, got string"):
        convert(tmp_path / "w.parquet", tmp_path / "t", {"a": "a"})
    with pytest.raises(ValueError, match=r"column 'n' has no value in row 650"):
        convert(tmp_path / "w.parquet", tmp_path / "t", {"n": "n"})
    (tmp_path / "b.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(ValueError, match=r"b\.parquet cannot be read as parquet"):
        convert(tmp_path / "b.parquet", tmp_path / "t")
    (tmp_path / "m.csv").write_text("a\n" + "1\n" * 3000 + "1.5\n" * 3000)
    with pytest.raises(ValueError, match=r"m\.csv cannot be read: .* int64.* give a dtype"):
        convert(tmp_path / "m.csv", tmp_path / "t")
    (tmp_path / "e.csv").write_text("a,b\n")
    with pytest.raises(ValueError, match=r"e\.csv has no rows"):
        convert(tmp_path / "e.csv", tmp_path / "t")
    assert not (tmp_path / "t").exists()
    assert not list(tmp_path.glob("*.partial"))
    with pytest.raises(FileNotFoundError, match="no arrays"):
        open_arrays(tmp_path)
