"""A resumed run is the run that was never interrupted, bit for bit; what differs from it is refused by name."""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import isotherm
from isotherm.samplers.base import OverdampedState
from isotherm.store import identity


@pytest.mark.parametrize("chunks", [pytest.param(1, marks=pytest.mark.slow), 40])
def test_resumed_equals_uninterrupted(
    tmp_path, run, resume, uninterrupted, assert_same, interrupt, monkeypatch, chunks
):
    interrupt(chunks)
    part = run(tmp_path / "run.zarr")
    assert part.attrs["interrupted"] == 1
    assert part.attrs["steps_done"] < 400
    draws = part["posterior"].sizes["draw"]
    assert part["posterior"]["w"].values.tobytes() == uninterrupted["posterior"]["w"].values[:, :draws].tobytes()
    monkeypatch.undo()
    resumed = resume(tmp_path / "run.zarr")
    assert_same(resumed, uninterrupted)
    assert resumed.attrs["sampling_time"] > part.attrs["sampling_time"]  # of both processes


@pytest.mark.slow
@pytest.mark.parametrize(
    "sampler",
    [isotherm.ccadl(step_size=0.01), isotherm.eccadl(step_size=0.01)],
    ids=lambda sampler: type(sampler).__name__,
)
def test_a_state_with_more_in_it_is_resumed(tmp_path, run, resume, assert_same, interrupt, monkeypatch, sampler):
    interrupt(10)
    run(tmp_path / "run.zarr", sampler, steps=60)
    monkeypatch.undo()
    assert_same(resume(tmp_path / "run.zarr"), run(sampler=sampler, steps=60))


def test_extended_equals_longer(tmp_path, run, resume, assert_same):
    run(tmp_path / "run.zarr", steps=200, burn_in=0.0)
    extended = resume(tmp_path / "run.zarr", steps=200)
    assert_same(extended, run(burn_in=0.0))
    assert extended.attrs["steps"] == 400


def test_resuming_a_finished_run_changes_nothing(tmp_path, run, resume, uninterrupted, assert_same):
    run(tmp_path / "run.zarr")
    again = resume(tmp_path / "run.zarr")
    assert_same(again, uninterrupted)
    assert again.attrs["interrupted"] == 0


def test_a_schedule_is_asked_for_again(tmp_path, run, resume, assert_same, interrupt, monkeypatch):
    def schedule(step):
        return 0.01 / (1 + step / 100)

    interrupt(20)
    run(tmp_path / "run.zarr", isotherm.sgld(step_size=schedule))
    monkeypatch.undo()
    with pytest.raises(ValueError, match="step_size is a function, which is not stored; pass sampler= again"):
        resume(tmp_path / "run.zarr")
    other = isotherm.sgld(step_size=lambda step: 0.01 / (1 + step / 50))
    with pytest.raises(ValueError, match=r"another sampler: step_size\(1\) is 0\.0098.*, was 0\.0099"):
        resume(tmp_path / "run.zarr", sampler=other)
    same = isotherm.sgld(step_size=schedule)
    assert_same(resume(tmp_path / "run.zarr", sampler=same), run(sampler=same))


def test_a_sampler_of_ones_own_with_the_name_of_one_of_ours_is_asked_for_again(tmp_path, run, resume, assert_same):
    """It went on with ours."""

    @jax.tree_util.register_dataclass
    @dataclass(frozen=True)
    class SGLD:
        step_size: float
        temperature: float

        def init(self, key, position, noisy):
            return OverdampedState(position, jnp.zeros((), jnp.int32))

        def step(self, key, state, noisy):
            return OverdampedState(state.position + self.step_size * noisy.force, state.step + 1)

    mine = SGLD(0.001, 1.0)
    run(tmp_path / "run.zarr", mine, steps=20, burn_in=0.0)
    with pytest.raises(ValueError, match="its sampler, sgld, is not one of isotherm's; pass it again as sampler="):
        resume(tmp_path / "run.zarr")
    with pytest.raises(ValueError, match="another sampler: sampler is isotherm's sgld, was another sgld"):
        resume(tmp_path / "run.zarr", sampler=isotherm.sgld(0.001))
    longer = resume(tmp_path / "run.zarr", steps=20, sampler=mine)
    assert_same(longer, run(sampler=mine, steps=40, burn_in=0.0))


class Named(NamedTuple):
    w: np.ndarray
    b: np.ndarray


def test_parameters_of_another_kind_are_asked_for_again(tmp_path, run, resume, posterior, init):
    of_named = isotherm.Posterior(
        lambda p, e: posterior.log_likelihood(p._asdict(), e), lambda p: posterior.log_prior({"w": p.w, "b": p.b})
    )
    run(tmp_path / "run.zarr", posterior=of_named, init=Named(**init))
    with pytest.raises(ValueError, match="not a nest of dicts, lists and tuples; pass init= again"):
        resume(tmp_path / "run.zarr", of_named)
    tree = resume(tmp_path / "run.zarr", of_named, init=Named(**init), steps=50)
    assert tree.attrs["steps_done"] == 450
    wrong = Named(np.zeros(3, np.float32), init["b"])
    other = isotherm.Posterior(lambda p, e: p.b, lambda p: p.b)
    with pytest.raises(ValueError, match=r"different parameters: init\.w is .*\(3,\), was .*\(2,\)"):
        resume(tmp_path / "run.zarr", other, init=wrong)


def same(unchanged):
    return unchanged


@pytest.mark.parametrize(
    ("change_posterior", "change_data", "said"),
    [
        (same, lambda data: data | {"y": data["y"] + 1}, r"data\['y'\]"),
        (
            same,
            lambda data: {k: v[:-1] for k, v in data.items()},
            r"different data: data\['x'\] has shape \(39, 2\), was \(40, 2\)",
        ),
        (
            same,
            lambda data: data | {"y": data["y"].astype(np.float16)},
            r"data\['y'\] has dtype float16, was float32",
        ),
        (same, lambda data: data | {"z": data["y"]}, r"data\['z'\] is new"),
        (
            lambda posterior: isotherm.Posterior(posterior.log_likelihood, lambda p: 2 * posterior.log_prior(p)),
            same,
            "another posterior: log_prior is .* at a test point, was",
        ),
        (
            lambda posterior: isotherm.Posterior(lambda p, e: p["v"], posterior.log_prior),
            same,
            "log_likelihood does not fit",
        ),
    ],
    ids=["contents", "length", "dtype", "extra", "prior", "shape"],
)
def test_what_differs_is_refused_by_name(tmp_path, run, resume, posterior, data, change_posterior, change_data, said):
    run(tmp_path / "run.zarr", steps=20)
    with jax.numpy_dtype_promotion("standard"), pytest.raises(ValueError, match=said):
        resume(tmp_path / "run.zarr", change_posterior(posterior), change_data(data))


def test_another_sampler_or_precision_is_refused(tmp_path, run, resume):
    run(tmp_path / "run.zarr", steps=20)
    with pytest.raises(ValueError, match="another sampler: sampler is sgld, was sgnht"):
        resume(tmp_path / "run.zarr", sampler=isotherm.sgld(step_size=0.01))
    with pytest.raises(ValueError, match=r"another sampler: friction is 3\.0, was 2\.0"):
        resume(tmp_path / "run.zarr", sampler=isotherm.sgnht(0.01, 3.0))
    with jax.enable_x64(True), pytest.raises(ValueError, match="jax_enable_x64 is True, was False"):
        resume(tmp_path / "run.zarr")


def test_another_version_is_told(tmp_path, run, resume, monkeypatch):
    run(tmp_path / "run.zarr", steps=20)
    now = identity.versions()
    monkeypatch.setattr(identity, "versions", lambda: now | {"jax": "99.0"})
    with pytest.warns(RuntimeWarning, match=r"made with jax .* → 99\.0; draws from here on"):
        resume(tmp_path / "run.zarr")


@pytest.fixture(scope="module")
def anchored(posterior, data, init):
    return isotherm.anchor(posterior, data, init, progress=False)


@pytest.fixture
def run_anchored(run, anchored):
    """The run on the anchored posterior, from its own starts and with its own batch size."""

    def sampled(store=None, **changed):
        settings = {"posterior": anchored, "init": None, "batch_size": None, "steps": 90} | changed
        return run(store, isotherm.eccadl(), **settings)

    return sampled


@pytest.mark.slow
@pytest.mark.parametrize("given", ["plain", "anchored"])
def test_an_anchored_run_goes_on_with_the_plain_posterior(
    tmp_path, run_anchored, anchored, resume, posterior, assert_same, interrupt, monkeypatch, given
):
    """Or with the anchored one, which is not used for more than its model."""
    interrupt(30)
    part = run_anchored(tmp_path / "run.zarr")
    assert part.attrs["steps_done"] < 90
    monkeypatch.undo()
    resumed = resume(tmp_path / "run.zarr", posterior if given == "plain" else anchored)
    assert resumed.attrs["steps_done"] == 90
    assert_same(resumed, run_anchored())


@pytest.mark.slow
def test_an_anchored_run_is_extended(tmp_path, run_anchored, resume, assert_same):
    run_anchored(tmp_path / "run.zarr", steps=60, burn_in=0.0)
    assert_same(resume(tmp_path / "run.zarr", steps=30), run_anchored(burn_in=0.0))


@pytest.mark.slow
def test_probabilities_need_not_be_given_again(tmp_path, run, resume, assert_same, interrupt, monkeypatch):
    p = np.linspace(0.5, 3.0, 40)
    interrupt(20)
    run(tmp_path / "run.zarr", probabilities=p)
    monkeypatch.undo()
    whole = run(probabilities=p)
    assert_same(resume(tmp_path / "run.zarr"), whole)
    assert (whole["posterior"]["w"].values != run()["posterior"]["w"].values).any()


def test_an_anchor_that_is_gone_or_another_is_refused(tmp_path, run_anchored, resume, data, posterior, init):
    store = tmp_path / "run.zarr"
    run_anchored(store)
    kept = (store / ".isotherm" / "constants").read_bytes()
    (store / ".isotherm" / "constants").write_bytes(kept[:-1] + bytes([kept[-1] ^ 1]))
    with pytest.raises(isotherm.StoreError, match="constants is damaged"):
        resume(store)
    (store / ".isotherm" / "constants").unlink()
    with pytest.raises(isotherm.StoreError, match="constants is missing"):
        resume(store)
    other = isotherm.anchor(posterior, data, init, seed=9, progress=False)
    run_anchored(tmp_path / "other.zarr", posterior=other)
    (store / ".isotherm" / "constants").write_bytes((tmp_path / "other.zarr/.isotherm/constants").read_bytes())
    with pytest.raises(isotherm.StoreError, match="constants"):
        resume(store)


def test_an_anchored_run_is_for_its_data_and_its_model(tmp_path, run_anchored, resume, data, posterior):
    run_anchored(tmp_path / "run.zarr")
    with pytest.raises(ValueError, match=r"data\['y'\]"):
        resume(tmp_path / "run.zarr", data=data | {"y": data["y"] + 1})
    with pytest.raises(ValueError, match="there are probabilities for 40 rows, and data has 39"):
        resume(tmp_path / "run.zarr", data={name: column[:-1] for name, column in data.items()})
    other = isotherm.Posterior(lambda p, e: 2 * posterior.log_likelihood(p, e), posterior.log_prior)
    with pytest.raises(ValueError, match="another posterior: log_likelihood"):
        resume(tmp_path / "run.zarr", other)
