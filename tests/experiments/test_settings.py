"""Settings as the paper and the issue have them, and the paper's numbers where they belong."""

import math

import pytest

from isotherm.datasets import DatasetError
from isotherm.experiments import paper, reproduce, weak_order
from isotherm.experiments.experiment import Experiment
from isotherm.experiments.plan import Options
from isotherm.experiments.runner import Job
from isotherm.experiments.settings import METHODS, grid

STANDARD = [name for name in reproduce.NAMES if name != "weak-order"]


@pytest.mark.parametrize("name", reproduce.NAMES)
def test_quick_shortens_but_drops_nothing(name):
    experiment = reproduce.experiment(name)

    def cells(quick):
        return {job.name: job.settings for job in experiment.jobs(Options(quick=quick))}

    full, quick = cells(False), cells(True)
    assert list(full) == list(quick)
    shortened = {"passes", "steps", "draws", "averaged_draws"}
    for job in full:
        assert {k: v for k, v in full[job].items() if k not in shortened} == {
            k: v for k, v in quick[job].items() if k not in shortened
        }


@pytest.mark.parametrize("name", STANDARD)
def test_every_number_of_the_paper_has_a_cell(name):
    for task in reproduce.experiment(name).tasks:
        places = {(cell.method, cell.step_size, cell.friction) for cell in grid(task)}
        printed = paper.losses(task.dataset)
        assert set(printed) <= places
        if printed:
            assert len(printed) == 4 * 3 * 2
            assert set(METHODS) == set(task.methods)


def test_numbers_and_citations():
    found = paper.losses("mnist-7-9")
    assert found["mccadl", 5e-4, 10.0] == (0.1551, "Table 1, mnist-7-9, h = 0.0005, A = 10")
    assert math.isnan(found["ccadl", 5e-4, 1.0].value)
    assert math.isinf(found["sghmc", 1.2e-3, 1.0].value)
    assert paper.losses("letter")["sgnht", 2.5e-2, 1.0].value == 0.3908
    assert paper.losses("unknown") == {}


def test_names():
    assert reproduce.chosen(["all"]) == list(reproduce.NAMES)
    assert reproduce.chosen(["mnist", "linear-regression"]) == ["linear-regression", "mnist"]
    with pytest.raises(ValueError, match=r"NAME must be one of linear-regression.* got 'mnits'"):
        reproduce.chosen(["mnits"])


def test_one_of_several_without_data_is_left_out(tmp_path, monkeypatch):
    monkeypatch.setattr(weak_order, "STEP_SIZES", (0.001,))
    monkeypatch.setattr(weak_order, "QUICK_STEPS", 200)
    monkeypatch.setattr(weak_order, "VARIANTS", ("sgnht",))

    def missing():
        raise DatasetError("acoustic_scale is not here; get it from there")

    monkeypatch.setattr(Experiment, "jobs", lambda self, options: [Job("acoustic/x", {}, missing)])
    told = []
    arguments = Options(quick=True), tmp_path, lambda *_: None, told.append
    reproduce.reproduce(["acoustic", "weak-order"], *arguments)
    assert "acoustic left out: acoustic_scale is not here" in told[-1]
    assert "Left out: acoustic_scale is not here" in (tmp_path / "report.html").read_text()
    with pytest.raises(DatasetError, match="get it from there"):
        reproduce.reproduce(["acoustic"], *arguments)
