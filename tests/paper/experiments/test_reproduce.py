"""`isotherm reproduce`: every experiment by its name, whole or quick, and a report that says which."""

import pytest

from isotherm.paper.datasets import DatasetError
from isotherm.paper.experiments import NAMES, reproduce, weak_order
from isotherm.paper.experiments.experiment import Experiment, Options
from isotherm.paper.experiments.jobs import Job


@pytest.mark.parametrize("name", NAMES)
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


def test_names():
    assert reproduce.chosen(["all"]) == list(NAMES)
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
