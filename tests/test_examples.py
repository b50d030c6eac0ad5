"""The examples run as they are, on a few rows."""

import dataclasses
import hashlib
import importlib.util
import io
from pathlib import Path

import jax
import numpy as np
import pytest

from isotherm.datasets import flights

EXAMPLES = Path(__file__).parents[1] / "examples"
AIRPORTS = np.array(["ABE", "BGR", "JFK", "LAX", "SFO", "YUM"])
SHARES = np.array([0.3, 0.3, 0.2, 0.15, 0.0498, 0.0002])  # of the flights: the last airport has a handful


@pytest.fixture(autouse=True)
def _as_a_user():
    """A user's JAX promotes, and no window opens."""
    import matplotlib as mpl

    mpl.use("agg")
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield


@pytest.fixture
def example():
    def load(name):
        spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return load


@pytest.fixture
def few_flights(tmp_path, monkeypatch):
    """A folder with a table of 30,000 flights, late more often from BGR, in the real format."""
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    rng, N = np.random.default_rng(0), 30_000
    origin, destination = rng.choice(6, (2, N), p=SHARES)
    rows = {
        "date": np.datetime64("2001-01-01", "ms") + np.sort(rng.integers(0, 180 * 24 * 60, N)) * np.timedelta64(60_000),
        "delay": np.where(rng.random(N) < np.where(origin == 1, 0.4, 0.2), 30, 0),
        "distance": rng.integers(100, 2_000, N),
        "origin": AIRPORTS[origin],
        "destination": AIRPORTS[destination],
    }
    stream = io.BytesIO()
    parquet.write_table(pyarrow.table(rows), stream)
    content = stream.getvalue()
    file = dataclasses.replace(flights.SOURCE.files[0], sha256=hashlib.sha256(content).hexdigest(), size=len(content))
    monkeypatch.setattr(flights, "SOURCE", dataclasses.replace(flights.SOURCE, files=(file,)))
    (tmp_path / flights.NAME).write_bytes(content)
    return tmp_path


def test_flights(example, few_flights, tmp_path, capsys):
    picture = tmp_path / "flights.png"
    example("flights").main(["--data", str(few_flights), "--rows", "25000", "--picture", str(picture)])
    said = capsys.readouterr().out
    assert "25,000 flights, 45 parameters" in said
    assert "anchored eccadl" in said
    leaving = said[said.index("from ") :].splitlines()[1:]
    assert leaving[0].split()[0] == "BGR"
    # The odds are 0.4/0.6 against 0.2/0.8 and, on average, three in ten are from BGR: more than 1.5 times the average.
    assert float(leaving[0].split()[2]) > 1.5
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_effects_of_flights(example):
    """Compared with the average flight, in the order of their means, without airports that have none."""
    draws = np.log([[[2.0, 8.0, 1.0]], [[2.0, 8.0, 3.0]]])
    found = example("flights").effects(draws, np.array([0, 0, 1, 1]), ("A", "B", "C"))
    assert list(found.codes) == ["A", "B"]
    np.testing.assert_array_equal(found.flights, [2, 2])
    np.testing.assert_allclose(found.odds, [0.5, 2])  # the average of the logarithms is log 4
    np.testing.assert_allclose(found.low, found.high)


@pytest.mark.long
def test_flights_on_real_rows(example, real_data, tmp_path, capsys):
    if not (real_data / "flights").is_dir():
        pytest.skip(f"no flights at {real_data}")
    arguments = ["--data", str(real_data), "--rows", "200000", "--picture", str(tmp_path / "flights.png")]
    example("flights").main(arguments)
    assert "200,000 flights, 490 parameters" in capsys.readouterr().out
