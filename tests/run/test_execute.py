"""Chunk after chunk to the end, or to where a run is stopped; and what the user is told meanwhile and then."""

import os
import select
import signal
import subprocess
import sys
import warnings

import arviz_stats
import jax.numpy as jnp
import numpy as np
import pytest
import xarray
from jax.nn import log_sigmoid
from threadpoolctl import threadpool_info, threadpool_limits

import isotherm
from isotherm.diagnostics.verdict import VerdictWarning
from isotherm.run import chains, execute
from isotherm.run.plan import Goal, Plan
from isotherm.run.sample import run_to_end


@pytest.mark.parametrize("seconds", [0.0, pytest.param(1e-3, marks=pytest.mark.slow), 10.0])
def test_chunk_length_changes_nothing(monkeypatch, sample, assert_same_run, seconds):
    expected = sample()
    monkeypatch.setattr(execute, "CHUNK_SECONDS", seconds)
    monkeypatch.setattr(chains, "RECORD_BYTES", 200 if seconds else 0)
    assert_same_run(sample(), expected)


def test_divergence_is_data(data):
    """A start beyond a cliff for some chains: those are marked from their first bad step, the others go on."""
    posterior = isotherm.Posterior(
        lambda t, x: -0.5 * jnp.sum((x - t) ** 2), lambda t: jnp.where(t[0] > 5.0, -jnp.sum(t**6), jnp.sum(t) * 0.0)
    )
    starts = iter([0.0, 100.0, 0.0])
    settings = {"batch_size": 20, "steps": 40, "chains": 3, "thin": 5, "burn_in": 0.0, "progress": False}
    with pytest.warns(RuntimeWarning, match=r"1 of 3 chains diverged \(chain 1 at step \d+\)"):
        tree = isotherm.sample(
            posterior, isotherm.sgld(1e-3), data["x"], lambda key: jnp.full(3, next(starts)), **settings
        )
    first = tree.sample_stats.first_bad_step.values
    assert first[0] == first[2] == -1
    assert 1 <= first[1] <= 40
    ends = 5 * np.arange(1, 9)
    np.testing.assert_array_equal(tree.sample_stats.diverging.values[1], ends >= first[1])
    assert not tree.sample_stats.diverging.values[[0, 2]].any()
    assert np.isfinite(tree.posterior.theta.values[[0, 2]]).all()
    assert np.isnan(tree.posterior_mean.theta.values[1]).all()


def test_all_chains_diverged(sample):
    with pytest.warns(RuntimeWarning, match="all 3 chains diverged .* smaller step_size than 50"):
        tree = sample(isotherm.sgnht(50.0))
    assert tree.posterior.slope.shape == (3, 34, 3)
    assert tree.sample_stats.diverging.all()
    assert tree.attrs["interrupted"] == 0


def test_a_warning_points_at_the_users_line():
    posterior = isotherm.Posterior(lambda t, x: -0.5 * jnp.sum((x - t) ** 2), lambda t: -0.5 * jnp.sum(t**2))
    data, settings = np.ones((9, 2), np.float32), {"batch_size": 3, "steps": 30, "thin": 5, "chains": 1}
    with pytest.warns(RuntimeWarning, match="the chain diverged") as told:
        isotherm.sample(posterior, isotherm.sgnht(50.0), data, np.zeros(2, np.float32), progress=False, **settings)
    assert told[0].filename == __file__


def test_who_diverged_and_when_is_said():
    def said(first_bad, step_size=0.5):
        first_bad = np.array(first_bad)
        return execute.divergence(first_bad, np.flatnonzero(first_bad >= 0), step_size)

    assert said([7]).startswith("the chain diverged (chain 0 at step 7): use a smaller step_size than 0.5, or")
    assert said([-1, 7], step_size=abs).startswith(
        "1 of 2 chains diverged (chain 1 at step 7): use a smaller step_size than now"
    )
    assert (
        "all 6 chains diverged (chain 0 at step 2, chain 1 at step 3, chain 2 at step 4, chain 3 at step 5, …)"
        in said([2, 3, 4, 5, 6, 7])
    )
    assert said([1, -1, 1]).startswith(
        "2 of 3 chains diverged (chain 0 at step 1, chain 2 at step 1): the first step was not"
    )


def test_ctrl_c_returns_what_there_is(monkeypatch, sample, flat):
    """A real SIGINT, as soon as the run is under way."""
    see = execute.DrawsOutsidePrior.see

    def interrupt(bar, chunk):
        see(bar, chunk)
        if chunk.step >= 7:  # there is a draw
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(execute.DrawsOutsidePrior, "see", interrupt)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background may ignore it
    try:
        tree = sample(steps=100_000_000, burn_in=0.0)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
    assert tree.attrs["interrupted"] == 1
    assert tree.attrs["steps_done"] < 100_000_000
    draws = tree.posterior.sizes["draw"]
    assert draws == tree.attrs["steps_done"] // 7
    assert np.isfinite(flat(tree)).all()


def test_ctrl_c_in_burn_in_says_that_there_are_no_draws(monkeypatch, sample):
    monkeypatch.setattr(execute.DrawsOutsidePrior, "see", lambda *_: signal.raise_signal(signal.SIGINT))
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.warns(RuntimeWarning, match=r"stopped at step \d+ of 100000, before the first draw .* no draws"):
            tree = sample(steps=100_000, burn_in=0.9)
    finally:
        signal.signal(signal.SIGINT, before)
    assert tree.posterior.sizes["draw"] == 0


def test_draws_beyond_a_hard_bound_are_told(posterior, data, init):
    bounded = isotherm.Posterior(
        posterior.log_likelihood, lambda p: jnp.where(p["offset"] < -0.02, -jnp.inf, posterior.log_prior(p))
    )
    with pytest.warns(RuntimeWarning, match=r"\d+ draws lie where log_prior is not finite.* transformed parameter"):
        tree = isotherm.sample(bounded, isotherm.mccadl(0.02), data, init, batch_size=20, steps=300, progress=False)
    assert (tree.sample_stats.log_prior == -np.inf).any()
    assert (np.isneginf(tree.sample_stats.log_prior) == (tree.posterior.offset < -0.02)).all()


def test_lapack_has_one_thread_during_a_run(monkeypatch, sample):
    def threads():
        return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]

    seen, advance = [], chains.Chains.advance

    def watched(*arguments):
        seen.append(threads())
        return advance(*arguments)

    monkeypatch.setattr(chains.Chains, "advance", watched)
    with threadpool_limits(2, user_api="blas"):
        before = threads()
        assert set(before) == {2}
        sample()
        assert threads()[: len(before)] == before
    assert seen[0]
    assert set(seen[0]) == {1}


SHORT = Plan(100, 20, 1)


def to_goal(run, goal, plan=SHORT):
    return run_to_end(run, plan, None, progress=False, goal=goal)


def test_a_goal_makes_the_plan_longer(make, assert_same_run):
    """Until there are enough draws; and they are those of a run that was planned so long from the first."""
    run = make(isotherm.mccadl(0.02), chains=2)
    tree = to_goal(run, Goal(60.0, 100_000))
    steps = tree.attrs["steps"]
    assert 100 < steps < 100_000
    assert tree.attrs["steps_done"] == steps
    assert tree.attrs["interrupted"] == 0
    assert tree.posterior.sizes["draw"] == steps - 20
    np.testing.assert_array_equal(tree.posterior.draw, np.arange(steps - 20))
    for group in (arviz_stats.ess(tree, method="bulk"), arviz_stats.ess(tree, method="tail", prob=(0.05, 0.95))):
        assert min(float(group.offset), float(group.slope.min())) >= 60
    assert_same_run(tree, run_to_end(run, Plan(steps, 20, 1), None, progress=False))


def test_a_goal_that_is_met_at_once_adds_nothing(make, monkeypatch):
    monkeypatch.setattr("isotherm.run.plan.R_HAT", 10.0)
    assert to_goal(make(isotherm.mccadl(0.02)), Goal(1e-3, 100_000)).attrs["steps"] == 100


def test_a_goal_ends_at_its_most_steps(make):
    tree = to_goal(make(isotherm.mccadl(0.02)), Goal(1e9, 350))
    assert tree.attrs["steps"] == tree.attrs["steps_done"] == 350


def test_seconds_end_a_run_early(make, monkeypatch):
    """With the draws that there are, in a plan that ends there, so that it is not called interrupted."""
    monkeypatch.setattr(execute, "CHUNK_SECONDS", 1e-3)
    tree = to_goal(make(isotherm.mccadl(0.02)), Goal(1e9, 10**9, seconds=0.5), Plan(10**8, 20, 1))
    steps = tree.attrs["steps"]
    assert 20 < steps < 10**8
    assert (tree.attrs["steps_done"], tree.attrs["interrupted"]) == (steps, 0)
    burn_in, thin = (tree.attrs[name] for name in ("burn_in", "thin"))  # smaller on a machine that is busy
    assert tree.posterior.sizes["draw"] == (steps - burn_in) // thin
    assert np.isfinite(tree.posterior_mean.slope).all()


def test_seconds_do_not_end_a_run_before_its_first_draw(make):
    tree = to_goal(make(isotherm.mccadl(0.02)), Goal(1e9, 10**9, seconds=1e-9), Plan(10**6, 50, 1))
    assert tree.posterior.sizes["draw"] > 0
    assert tree.attrs["steps"] < 10**6


PROGRAM = """
import numpy as np, jax.numpy as jnp, isotherm
posterior = isotherm.Posterior(lambda t, x: -0.5 * jnp.sum((x - t) ** 2), lambda t: -0.5 * jnp.sum(t**2))
data = np.ones((50, 2), np.float32)
isotherm.sample(posterior, isotherm.sgnht(0.01), data, np.zeros(2, np.float32), batch_size=5, steps=3000)
"""


@pytest.mark.slow
def test_no_bar_where_there_is_no_terminal():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert done.stdout == done.stderr == ""


@pytest.mark.slow
def test_a_bar_on_a_terminal():
    """In a real pseudo-terminal."""
    ours, theirs = os.openpty()
    with subprocess.Popen([sys.executable, "-c", PROGRAM], stderr=theirs, stdout=theirs) as process:
        os.close(theirs)
        text = ""
        while process.poll() is None or select.select([ours], [], [], 0)[0]:
            try:
                text += os.read(ours, 4096).decode(errors="replace")
            except OSError:  # the other side is closed
                break
    os.close(ours)
    assert process.returncode == 0
    assert "steps/s" in text
    assert "temperature" in text
    assert "3000/3000" in text


def test_what_a_bar_says():
    bar = execute.StepBar(300, done=30)
    (task,) = bar.progress.tasks
    assert (task.description, task.completed, task.total) == ("compiling", 30, 300)
    bar.see(execute.Chunk(59, Plan(300, 60, 1), 0, {}, np.array([-1]), 12345.6, 1.23456))
    assert (task.description, task.completed, task.fields) == (
        "burn-in",
        59,
        {"speed": "12,346", "temperature": "1.23"},
    )
    bar.see(execute.Chunk(60, Plan(400, 60, 1), 0, {}, np.array([-1]), 1.0, None))
    assert (task.description, task.completed, task.fields) == ("sampling", 60, {"speed": "1", "temperature": "–"})
    assert task.total == 400


def test_a_short_run_warns_and_keeps_its_words(sample):
    with pytest.warns(VerdictWarning, match="effective draws") as told:
        found = sample(steps=60)
    sentences = [str(each.message) for each in told if each.category is VerdictWarning]
    assert found.attrs["warnings"].splitlines() == sentences


def test_a_warning_of_the_verdict_points_at_the_users_line(sample):
    with pytest.warns(VerdictWarning) as told:
        sample(steps=60)
    assert {each.filename for each in told} == {sample.__code__.co_filename}


def test_a_stored_run_keeps_them_too(sample, tmp_path):
    with pytest.warns(VerdictWarning, match="effective draws"):
        found = sample(steps=60, store=tmp_path / "run.zarr")
    with xarray.open_datatree(tmp_path / "run.zarr", engine="zarr") as stored:
        assert stored.attrs["warnings"] == found.attrs["warnings"]
        assert "effective draws" in stored.attrs["warnings"]


@pytest.mark.slow
def test_a_good_run_is_silent(sample):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = sample(isotherm.eccadl(), steps=6_000, thin=6)
    assert "warnings" not in found.attrs


@pytest.mark.slow
def test_a_stored_run_that_is_extended_until_it_is_good_forgets_them(sample, posterior, data, tmp_path):
    with pytest.warns(VerdictWarning, match="effective draws"):
        sample(isotherm.eccadl(), steps=60, thin=6, store=tmp_path / "run.zarr")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = isotherm.resume(tmp_path / "run.zarr", posterior, data, steps=6_000, progress=False)
    assert "warnings" not in found.attrs


def test_python_silences_them(sample):
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        warnings.simplefilter("ignore", VerdictWarning)
        sample(steps=60)
    assert told == []


@pytest.mark.slow
def test_rare_levels_under_plain_batches_do_not_come_back_in_silence():
    """Levels with 20 rows of 20,000 are in one batch of 200 out of five, and then kick with 100 times their weight."""
    rng = np.random.default_rng(0)
    rows, levels, rare = 20_000, 20, 15
    level = np.concatenate([np.repeat(np.arange(rare), 20), rng.integers(rare, levels, rows - 20 * rare)])
    late = rng.random(rows) < 1 / (1 + np.exp(1.5 - 0.5 * rng.standard_normal(levels)[level]))
    data = {"level": level.astype(np.int32), "late": late.astype(np.float32)}

    def log_likelihood(params, example):
        return log_sigmoid((2 * example["late"] - 1) * (params["intercept"] + params["level"][example["level"]]))

    def log_prior(params):
        return -2 * (jnp.sum(params["level"] ** 2) + params["intercept"] ** 2)

    init = {"intercept": np.float32(0), "level": np.zeros(levels, np.float32)}
    posterior = isotherm.Posterior(log_likelihood, log_prior)
    with pytest.warns(VerdictWarning) as told:
        found = isotherm.sample(
            posterior, isotherm.eccadl(), data, init, batch_size=200, passes=10, chains=4, progress=False
        )
    words = " ".join(str(each.message) for each in told)
    assert "R-hat" in words or "friction" in words
    assert "effective draws" in words
    assert "level[" in words
    assert found.attrs["warnings"]
