"""The examples run as they are, on a few rows."""

import dataclasses
import hashlib
import importlib.util
import io
from pathlib import Path

import jax
import numpy as np
import pytest

from isotherm.paper.datasets import flights

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


@pytest.mark.slow
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


@pytest.mark.slow
def test_batting(example, tmp_path, capsys):
    picture = tmp_path / "batting.png"
    example("batting").main(["--picture", str(picture)])
    said = capsys.readouterr().out
    assert "without anchoring" in said
    # Shrunk towards the mean of all, about 0.265: what Efron and Morris found, with an error half as large.
    lines = {line[:14].strip(): line[14:].replace(",", "").split() for line in said.splitlines()}
    assert 0.26 < float(lines["Clemente"][1]) < 0.33
    assert 0.22 < float(lines["Alvis"][1]) < 0.26
    before, after = (float(word) for word in said.split("error of the rest: ")[1].split()[:8:4])
    assert after < 0.7 * before
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_at_bats(example):
    rows = example("batting").at_bats()
    assert len(rows["hit"]) == 18 * 45
    np.testing.assert_array_equal(np.bincount(rows["batter"], rows["hit"])[:3], [18, 17, 16])


def test_reliability(example):
    pytest.importorskip("flax")
    pytest.importorskip("optax")
    log_p = np.log(np.repeat([[0.95, 0.05], [0.35, 0.65], [0.55, 0.45]], [10, 20, 2], axis=0))
    confidence, right = example("flax_calibration").reliability(log_p, np.repeat([0, 1, 0, 0], [9, 1, 10, 12]))
    np.testing.assert_allclose(confidence, [0.65, 0.95])
    np.testing.assert_allclose(right, [0, 0.9])


@pytest.mark.long
def test_flax_calibration(example, tmp_path, capsys):
    pytest.importorskip("flax")
    pytest.importorskip("optax")
    example("flax_calibration").main(["--seconds", "5", "--picture", str(tmp_path / "calibration.png")])
    lines = {line[:22].strip(): line[22:].split() for line in capsys.readouterr().out.splitlines()}
    trained, draws = ([float(value) for value in lines[name][1:]] for name in ("one trained network", "200 draws"))
    assert draws[0] < trained[0]  # log loss
    assert draws[1] < trained[1]  # calibration error
    assert (tmp_path / "calibration.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.long
def test_numpyro_model(example, capsys):
    """True values lie in their intervals, or hardly outside: one of three is beyond 3.5 standard deviations in 700
    runs."""
    pytest.importorskip("numpyro")
    example("numpyro_model").main(["--rows", "5000"])
    said = capsys.readouterr().out
    assert "anchored eccadl" in said
    for name in ("intercept", "warmth", "between_towns"):
        true, _, low, _, high = next(line for line in said.splitlines() if line.startswith(name)).split()[1:6]
        middle, half = (float(low) + float(high)) / 2, (float(high) - float(low)) / 2
        assert abs(float(true) - middle) < 3.5 / 1.96 * half


@pytest.mark.long
def test_killed_and_resumed(example, tmp_path, capfd):
    example("killed_and_resumed").main(["--store", str(tmp_path / "run.zarr")])
    said = capfd.readouterr().out
    assert "was killed after" in said
    assert said.endswith("the draws are the same, bit for bit\n")
