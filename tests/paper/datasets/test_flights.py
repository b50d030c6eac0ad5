import datetime
import io
import sys

import numpy as np
import pytest

from isotherm.paper.datasets import DatasetError, flights

pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

ROWS = {
    "date": [
        datetime.datetime(2001, 1, 1, 0, 1),  # a Monday
        datetime.datetime(2001, 1, 3, 23, 59),
        datetime.datetime(2001, 1, 7, 12, 0),
        datetime.datetime(2001, 6, 30, 5, 30),  # a Saturday
    ],
    "delay": [15, 16, -20, 300],
    "distance": [100, 1000, 100, 1000],
    "origin": ["SFO", "ABE", "SFO", "LAX"],
    "destination": ["LAX", "LAX", "ABE", "YUM"],
}


@pytest.fixture
def tiny(tmp_path, monkeypatch, with_contents):
    """A function that writes a table as the data set's file, with its checksum, and gives the folder."""

    def write(rows):
        stream = io.BytesIO()
        parquet.write_table(pyarrow.table(rows), stream, row_group_size=3)
        monkeypatch.setattr(flights, "SOURCE", with_contents(flights.SOURCE, [stream.getvalue()]))
        (tmp_path / flights.NAME).write_bytes(stream.getvalue())
        return tmp_path

    return write


def test_columns_by_hand(tiny):
    data, origins, destinations = flights.load(tiny(ROWS))
    assert origins == ("ABE", "LAX", "SFO")
    assert destinations == ("ABE", "LAX", "YUM")
    expected = {
        "late": np.array([0, 1, 0, 1], np.float32),
        "log_distance": np.array([-1, 1, -1, 1], np.float32),
        "hour": np.array([0, 23, 12, 5], np.int32),
        "weekday": np.array([0, 2, 6, 5], np.int32),
        "origin": np.array([2, 0, 2, 1], np.int32),
        "destination": np.array([1, 1, 0, 2], np.int32),
    }
    assert list(data) == list(expected)
    for name, column in expected.items():
        np.testing.assert_allclose(data[name], column, atol=1e-6)  # of float32
        assert data[name].dtype == column.dtype


def test_other_content_is_refused(tiny):
    folder = tiny(ROWS)
    path = folder / flights.NAME
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(DatasetError, match=r"flights-3m\.parquet is not flights-3m\.parquet: it is truncated"):
        flights.load(folder)


@pytest.mark.parametrize("wrong", [{"origin": None}, {"date": ["monday"] * 4}])
def test_another_table_is_refused(tiny, wrong):
    rows = {name: column for name, column in (ROWS | wrong).items() if column is not None}
    with pytest.raises(DatasetError, match="is not a table of date, delay, distance, origin and destination"):
        flights.load(tiny(rows))


def test_without_pyarrow_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ModuleNotFoundError, match=r"needs pyarrow: pip install 'isotherm\[tables\]'"):
        flights.load()


def test_real_rows_are_those_known(real_data):
    if not (real_data / "flights").is_dir():
        pytest.skip(f"no flights at {real_data}")
    data, origins, destinations = flights.load(real_data)
    assert {column.shape for column in data.values()} == {(3_000_000,)}
    assert data["late"].mean() == pytest.approx(0.200, abs=5e-4)
    for name, codes, airports in (("origin", origins, 229), ("destination", destinations, 228)):
        assert len(codes) == airports
        np.testing.assert_array_equal(np.unique(data[name]), np.arange(airports))
    np.testing.assert_array_equal(np.unique(data["hour"]), np.arange(24))
    # 2001 began on a Monday; the first rows are of one minute past midnight
    assert data["weekday"][0] == data["hour"][0] == 0
    assert (origins[data["origin"][0]], destinations[data["destination"][0]]) == ("LAS", "PHL")
    # Hartsfield, O'Hare and Dallas/Fort Worth were the three busiest airports of the US in 2001
    busiest = np.argsort(np.bincount(data["origin"]))[-3:]
    assert {origins[i] for i in busiest} == {"ATL", "ORD", "DFW"}
