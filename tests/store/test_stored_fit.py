"""A stored `fit` that is interrupted goes on with the plain posterior, to the same goal, bit for bit."""

import warnings

import numpy as np
import pytest

import isotherm
from isotherm.diagnostics.verdict import VerdictWarning
from isotherm.run import fit as fitting

RNG = np.random.default_rng(1)
X = RNG.standard_normal((2000, 2)).astype(np.float32)
MANY = {"x": X, "y": (X.sum(axis=1) + RNG.standard_normal(2000)).astype(np.float32)}


@pytest.fixture
def fit(posterior, init, monkeypatch):
    """A function that fits, with a first look so early that the plan has to be made longer, and without its pilot run,
    in which an interruption would come too early."""
    monkeypatch.setattr(fitting, "FIRST_DRAWS", 40)
    monkeypatch.setattr(fitting, "STEPS_A_DRAW", 0.1)
    monkeypatch.setattr(fitting, "too_hot", lambda *_: "")

    def fitted(store=None, **changed):
        settings = {"ess": 150, "chains": 2, "seed": 5, "progress": False} | changed
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # that it stopped early
            return isotherm.fit(posterior, MANY, init, store=store, **settings)

    return fitted


@pytest.fixture(scope="module")
def made():
    """The uninterrupted fit, once it was made."""
    return {}


@pytest.mark.parametrize(
    "chunks", [30, pytest.param(190, marks=pytest.mark.slow)], ids=["in the first plan", "in a longer one"]
)
def test_resumed_equals_uninterrupted(
    tmp_path, fit, resume, assert_same, interrupt, posterior, monkeypatch, made, chunks
):
    whole = made.setdefault("whole", fit())
    assert whole.attrs["fit_method"] == "anchored eccadl"
    assert whole.attrs["steps"] > 140 + 60  # longer than the first plan, and than where it will be interrupted
    interrupt(chunks)
    part = fit(tmp_path / "run.zarr")
    assert part.attrs["interrupted"] == 1
    assert (part.attrs["steps_done"] > 140) == (chunks > 140)
    monkeypatch.undo()
    resumed = resume(tmp_path / "run.zarr", posterior, MANY)
    assert_same(resumed, whole)
    for name in ("fit_method", "fit_reason", "anchor_order", "anchor_noise", "steps", "batch_size"):
        assert resumed.attrs[name] == whole.attrs[name]


def test_a_goal_that_is_met_stays_met_in_silence(tmp_path, fit, resume, assert_same, posterior):
    whole = fit(tmp_path / "run.zarr", ess=60).load()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = resume(tmp_path / "run.zarr", posterior, MANY)
    assert "warnings" not in again.attrs
    assert_same(again, whole)
    assert again.attrs["steps"] == whole.attrs["steps"]


@pytest.mark.slow
def test_a_fit_whose_time_was_up_goes_on(tmp_path, fit, resume, posterior):
    """For as long again."""
    part = fit(tmp_path / "run.zarr", ess=10**7, seconds=0.2)
    steps = part.attrs["steps_done"]
    assert "where 10000000 were asked for; give it more seconds" in part.attrs["warnings"]
    with pytest.warns(VerdictWarning, match=r"it stopped with \d+ effective draws of .*, where 10000000 were") as told:
        again = resume(tmp_path / "run.zarr", posterior, MANY)
    assert {each.filename for each in told} == {resume.__code__.co_filename}
    assert again.attrs["warnings"] == "\n".join(str(each.message) for each in told)
    assert again.attrs["steps_done"] > steps
    assert again["posterior"].sizes["draw"] == again.attrs["steps_done"] - 100


@pytest.mark.slow
def test_a_fit_whose_time_was_up_after_three_draws_goes_on(tmp_path, fit, resume, posterior, monkeypatch):
    """Of three draws no number is known, which is not the same as good ones."""
    monkeypatch.setattr("isotherm.run.execute.FIRST_CHUNK", 3)
    monkeypatch.setattr(fitting, "ANCHORED_BURN_IN", 0)
    monkeypatch.setattr(fitting.Goal, "is_over", lambda goal, seconds: goal.seconds is not None)
    part = fit(tmp_path / "run.zarr", seconds=1.0)
    assert part["posterior"].sizes["draw"] == 3
    assert "it stopped with 0 effective draws of b, where 150 were asked for" in part.attrs["warnings"]
    monkeypatch.undo()
    assert resume(tmp_path / "run.zarr", posterior, MANY)["posterior"].sizes["draw"] > 75


@pytest.mark.slow
def test_other_data_are_refused(tmp_path, fit, posterior, resume):
    fit(tmp_path / "run.zarr", ess=20)
    with pytest.raises(ValueError, match=r"data\['x'\]"):
        resume(tmp_path / "run.zarr", posterior, MANY | {"x": MANY["x"] + 1})


@pytest.mark.slow
def test_a_plain_fit_is_resumed_too(tmp_path, posterior, data, init, resume, interrupt, assert_same, monkeypatch):
    """With 40 rows, of which all are used at every step."""
    monkeypatch.setattr(fitting, "EXACT_STEPS", (20, 60, 120))
    settings = {"ess": 10**6, "chains": 1, "progress": False}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        whole = isotherm.fit(posterior, data, init, **settings)
        interrupt(30)
        part = isotherm.fit(posterior, data, init, store=tmp_path / "run.zarr", **settings)
    assert part.attrs["steps_done"] < 60
    monkeypatch.undo()
    resumed = resume(tmp_path / "run.zarr", posterior, data)
    assert resumed.attrs["fit_method"] == "plain eccadl"
    assert resumed.attrs["steps"] == 120
    assert_same(resumed, whole)
