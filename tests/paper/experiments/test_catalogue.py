"""`reproduce acoustic` from end to end, on files of LIBSVM's format made from the 300 real rows."""

import bz2
import dataclasses
import gzip
import json

import pytest

from isotherm.paper.datasets import DatasetError, acoustic
from isotherm.paper.experiments import reproduce
from isotherm.paper.experiments.experiment import Options

ROWS = (200, 100)


@pytest.fixture
def folder(real_data, tmp_path, monkeypatch):
    """Every third row for testing; features scaled to [−1, 1] over all rows, as LIBSVM's are."""
    lines = gzip.decompress((real_data / "acoustic" / "acoustic.sample300.gz").read_bytes()).decode().split("\n")
    rows = [[pair.split(":") for pair in line.split()] for line in lines if line]
    features = sorted({int(name) for row in rows for name, *_ in row[1:]})
    columns = {f: [float(dict(map(tuple, row[1:])).get(str(f), 0)) for row in rows] for f in features}
    edges = {f: (min(values), max(values)) for f, values in columns.items()}

    def line(number):
        scaled = [
            f"{f}:{2 * (columns[f][number] - low) / (high - low or 1) - 1:.6g}" for f, (low, high) in edges.items()
        ]
        return " ".join([rows[number][0][0], *scaled]) + "\n"

    parts = {"acoustic_scale": [], "acoustic_scale.t": []}
    for number in range(300):
        parts["acoustic_scale.t" if number % 3 == 0 else "acoustic_scale"].append(line(number))
    (tmp_path / "data" / "acoustic").mkdir(parents=True)
    for name, content in parts.items():
        (tmp_path / "data" / "acoustic" / f"{name}.bz2").write_bytes(bz2.compress("".join(content).encode()))
    monkeypatch.setattr(acoustic, "ROWS", ROWS)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "data"


def test_end_to_end(folder, tmp_path, monkeypatch):
    whole = reproduce.experiment("acoustic")
    (task,) = whole.tasks
    small = dataclasses.replace(task, step_sizes=(1.5e-3,), frictions=(10.0,), methods=("sghmc", "mccadl"))
    monkeypatch.setattr(reproduce, "experiment", lambda name: dataclasses.replace(whole, tasks=(small,)))
    written = reproduce.reproduce(["acoustic"], Options(data_dir=folder), tmp_path / "out", lambda *_: None, print)
    cells = json.loads(written[0].read_text())
    assert [cell["sampler"] for cell in cells] == ["sghmc", "mccadl"]
    for cell in cells:
        assert 0 < cell["metrics"]["predictive_log_loss"] < 2
    assert "paper\N{NO-BREAK SPACE}0.6137" in written[2].read_text()


def test_an_excerpt_is_refused_in_words(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(acoustic, "ROWS", (78_823, 100))
    with pytest.raises(DatasetError, match="must have 78,823 rows, got 200"):
        reproduce.reproduce(["acoustic"], Options(data_dir=folder), tmp_path / "out", lambda *_: None, print)
