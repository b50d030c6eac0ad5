"""The time loop: chains, chunks, seeds, labels, divergence, Ctrl-C."""

import os
import select
import signal
import subprocess
import sys

import arviz_stats
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from threadpoolctl import threadpool_info

import isotherm
from isotherm.run import chains, execute, loop
from isotherm.run.plan import Plan
from isotherm.run.problem import make_run
from isotherm.samplers.settings import NAMES as SAMPLERS

RNG = np.random.default_rng(0)
DATA = {"x": RNG.standard_normal((200, 3)).astype(np.float32), "y": RNG.standard_normal(200).astype(np.float32)}


def log_likelihood(params, example):
    return -0.5 * (example["y"] - example["x"] @ params["slope"] - params["offset"]) ** 2


def log_prior(params):
    return -0.5 * (jnp.sum(params["slope"] ** 2) + params["offset"] ** 2)


POSTERIOR = isotherm.Posterior(log_likelihood, log_prior)
INIT = {"offset": np.float32(0), "slope": np.zeros(3, np.float32)}


def sample(sampler=None, **settings):
    settings = {"batch_size": 20, "steps": 300, "chains": 3, "thin": 7, "progress": False} | settings
    return isotherm.sample(POSTERIOR, sampler or isotherm.mccadl(0.02), DATA, settings.pop("init", INIT), **settings)


def flat(tree):
    return np.concatenate([tree.posterior.offset.values[..., None], tree.posterior.slope.values], axis=-1)


def assert_same_run(a, b):
    for group in ("posterior", "sample_stats", "posterior_mean", "posterior_variance"):
        for name in a[group].data_vars:
            np.testing.assert_array_equal(a[group][name], b[group][name], err_msg=f"{group}/{name}")


def test_labels():
    tree = sample()
    assert tree.posterior.slope.dims == ("chain", "draw", "slope_dim_0")
    assert tree.posterior.slope.shape == (3, 34, 3)  # (300 − 60) // 7
    assert tree.posterior.offset.shape == (3, 34)
    assert tree.posterior.slope.dtype == np.float32
    assert {"kinetic_temperature", "friction", "expm_error", "diverging"} <= set(tree.sample_stats.data_vars)
    assert tree.sample_stats.friction.dims == ("chain", "draw")
    assert not tree.sample_stats.diverging.any()
    assert (tree.sample_stats.first_bad_step == -1).all()
    assert tree.posterior_mean.slope.dims == ("chain", "slope_dim_0")
    said = {"sampler": "mccadl", "sampler_step_size": 0.02, "sampler_friction": 1.0, "batch_size": 20, "steps": 300,
            "burn_in": 60, "thin": 7, "chains": 3, "seed": 0, "population": 200, "interrupted": 0,
            "inference_library": "isotherm", "inference_library_version": isotherm.__version__}  # fmt: skip
    assert said.items() <= tree.attrs.items()


def test_arviz_takes_it_as_it_is():
    tree = sample(steps=2000)
    assert np.isfinite(arviz_stats.ess(tree).slope).all()
    assert (arviz_stats.rhat(tree).slope < 1.5).all()


def test_a_bare_array_is_called_theta():
    posterior = isotherm.Posterior(lambda t, x: -0.5 * jnp.sum((x - t) ** 2), lambda t: -0.5 * jnp.sum(t**2))
    tree = isotherm.sample(
        posterior, isotherm.sgld(1e-3), DATA["x"], np.zeros(3, np.float32), batch_size=20, steps=50, progress=False
    )
    assert tree.posterior.theta.shape == (4, 4, 3)


def test_same_seed_same_draws_and_another_seed_others():
    assert_same_run(sample(seed=5), sample(seed=5))
    assert not np.allclose(flat(sample(seed=5)), flat(sample(seed=6)))


def test_chains_differ_and_one_alone_is_the_first_of_many():
    """To rounding: products of one and of many chains may add in another order; 300 contracting steps keep it small."""
    many, one = flat(sample(chains=3)), flat(sample(chains=1))
    np.testing.assert_allclose(many[:1], one, rtol=1e-3, atol=1e-4)
    assert np.abs(many[0] - many[1]).max() > 1e-2


@pytest.mark.usefixtures("float64")
def test_every_chain_equals_itself_run_alone():
    """In double precision, each of three chains against its own key alone, to 1e-10."""
    data, init = (jax.tree.map(np.float64, tree) for tree in (DATA, INIT))
    sampler, plan = isotherm.mccadl(0.02), Plan(100, 0, 1)
    run = make_run(POSTERIOR, sampler, data, init, batch_size=20, replace=True, chains=3, seed=9, name=None)

    def positions(which):
        ids = loop.ChainIds(np.uint32(1), np.arange(3, dtype=np.uint32)[which])
        carry = loop.start(sampler, run.data, run.starts[which], ids, run.evaluation)
        return loop.advance(sampler, carry, run.data, ids, plan, (0, 100), run.evaluation, 100)[1]["position"]

    together = positions(slice(None))
    for chain in range(3):
        alone = positions(slice(chain, chain + 1))[:, 0]
        np.testing.assert_allclose(alone, together[:, chain], rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("seconds", [0.0, 1e-3, 10.0])
def test_chunk_length_changes_nothing(monkeypatch, seconds):
    expected = sample()
    monkeypatch.setattr(execute, "CHUNK_SECONDS", seconds)
    monkeypatch.setattr(chains, "RECORD_BYTES", 200 if seconds else 0)
    assert_same_run(sample(), expected)


def test_moments_are_those_of_every_step():
    """Against all the steps themselves; float32 sums, relative to the spread."""
    tree = sample(thin=1)
    draws = flat(tree).astype(np.float64)
    mean = np.concatenate([tree.posterior_mean.offset.values[:, None], tree.posterior_mean.slope.values], axis=1)
    variance = np.concatenate(
        [tree.posterior_variance.offset.values[:, None], tree.posterior_variance.slope.values], axis=1
    )
    np.testing.assert_allclose(mean, draws.mean(1), atol=1e-5 * draws.std())
    np.testing.assert_allclose(variance, draws.var(1), rtol=1e-4)
    thinned = sample(thin=50)
    np.testing.assert_array_equal(thinned.posterior_mean.slope, tree.posterior_mean.slope)
    np.testing.assert_array_equal(flat(thinned), flat(tree)[:, 49::50])


def test_passes_are_steps():
    assert sample(steps=None, passes=30).attrs["steps"] == 300


def test_exact_gradients_make_batches_that_do_not_matter():
    runs = [sample(isotherm.sgld(1e-4), batch_size=200, replace=False, seed=s, steps=20, thin=1) for s in (0, 0)]
    assert_same_run(*runs)
    tree = sample(isotherm.mccadl(1e-2), batch_size=200, replace=False, steps=20, thin=1)
    assert (tree.sample_stats.expm_error == 0).all()


def test_starts_can_be_drawn():
    tree = sample(isotherm.sgld(1e-12), init=lambda key: jax.tree.map(
        lambda leaf: leaf + jax.random.normal(key, leaf.shape), INIT), burn_in=0.0, thin=1, steps=1)  # fmt: skip
    starts = flat(tree)[:, 0]
    assert np.abs(starts[0] - starts[1]).max() > 0.1


def test_divergence_is_data():
    """A start beyond a cliff for some chains: those are marked from their first bad step, the others go on."""
    posterior = isotherm.Posterior(
        lambda t, x: -0.5 * jnp.sum((x - t) ** 2), lambda t: jnp.where(t[0] > 5.0, -jnp.sum(t**6), jnp.sum(t) * 0.0)
    )
    starts = iter([0.0, 100.0, 0.0])
    settings = {"batch_size": 20, "steps": 40, "chains": 3, "thin": 5, "burn_in": 0.0, "progress": False}
    with pytest.warns(RuntimeWarning, match=r"1 of 3 chains diverged \(chain 1 at step \d+\): use a smaller step_size"):
        tree = isotherm.sample(
            posterior, isotherm.sgld(1e-3), DATA["x"], lambda key: jnp.full(3, next(starts)), **settings
        )
    first = tree.sample_stats.first_bad_step.values
    assert first[0] == first[2] == -1
    assert 1 <= first[1] <= 40
    ends = 5 * np.arange(1, 9)
    np.testing.assert_array_equal(tree.sample_stats.diverging.values[1], ends >= first[1])
    assert not tree.sample_stats.diverging.values[[0, 2]].any()
    assert np.isfinite(tree.posterior.theta.values[[0, 2]]).all()
    assert np.isnan(tree.posterior_mean.theta.values[1]).all()


def test_all_chains_diverged():
    with pytest.warns(RuntimeWarning, match="all 3 chains diverged .* smaller step_size than 50"):
        tree = sample(isotherm.sgnht(50.0))
    assert tree.posterior.slope.shape == (3, 34, 3)
    assert tree.sample_stats.diverging.all()
    assert tree.attrs["interrupted"] == 0


def test_a_second_call_compiles_nothing():
    compiled = []
    jax.monitoring.register_event_duration_secs_listener(
        lambda event, *_, **__: compiled.append(event) if event.endswith("backend_compile_duration") else None
    )
    sample(isotherm.mccadl(0.011, scheme="BAODCDOAB", rank=3))
    assert compiled
    compiled.clear()
    sample(isotherm.mccadl(0.01, 3.0, rank=3), seed=1, steps=400)
    jax.monitoring.clear_event_listeners()
    assert not compiled


def test_a_sampler_that_needs_more_than_it_gets():
    with pytest.raises(ValueError, match="mass has 3 entries but there are 4 parameters"):
        sample(isotherm.sgld(0.1, mass=np.ones(3)))
    with pytest.raises(ValueError, match="batch_size must be at least 2 to estimate a covariance, got 1"):
        sample(batch_size=1)


def test_ctrl_c_returns_what_there_is(monkeypatch):
    """A real SIGINT, as soon as the run is under way."""
    update = execute.Bar.update

    def interrupt(bar, *told):
        update(bar, *told)
        if told[0] >= 7:  # steps: there is a draw
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(execute.Bar, "update", interrupt)
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


def test_ctrl_c_in_burn_in_says_that_there_are_no_draws(monkeypatch):
    monkeypatch.setattr(execute.Bar, "update", lambda *_: signal.raise_signal(signal.SIGINT))
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.warns(RuntimeWarning, match=r"stopped at step \d+ of 100000, before the first draw .* no draws"):
            tree = sample(steps=100_000, burn_in=0.9)
    finally:
        signal.signal(signal.SIGINT, before)
    assert tree.posterior.sizes["draw"] == 0


def test_a_model_that_is_not_finite_at_the_start_is_refused():
    """With words about the model, not about the step size; −inf and NaN in a row whose gradient is finite, too."""
    cases = [
        (lambda p, e: jnp.log(e["x"][0]) + log_likelihood(p, e), log_prior, r"log_likelihood must be .* got nan at "
            r"init for row \d+ and \d+ other rows of the data; start elsewhere"),
        (lambda p, e: jnp.where(e["y"] == DATA["y"][7], -jnp.inf, log_likelihood(p, e)), log_prior,
            "got -inf at init for row 7 of the data"),
        (log_likelihood, lambda p: jnp.where(p["offset"] < 1, -jnp.inf, log_prior(p)), "log_prior must be finite where "
            "the chains start, got -inf at init; start inside the region"),
    ]  # fmt: skip
    for likelihood, prior, words in cases:
        with pytest.raises(ValueError, match=words):
            isotherm.sample(isotherm.Posterior(likelihood, prior), isotherm.mccadl(0.02), DATA, INIT, batch_size=20,
                            steps=20, thin=1, progress=False)  # fmt: skip


def test_draws_beyond_a_hard_bound_are_told():
    bounded = isotherm.Posterior(log_likelihood, lambda p: jnp.where(p["offset"] < -0.02, -jnp.inf, log_prior(p)))
    with pytest.warns(RuntimeWarning, match=r"\d+ draws lie where log_prior is not finite.* transformed parameter"):
        tree = isotherm.sample(bounded, isotherm.mccadl(0.02), DATA, INIT, batch_size=20, steps=300, progress=False)
    assert (tree.sample_stats.log_prior == -np.inf).any()
    assert (np.isneginf(tree.sample_stats.log_prior) == (tree.posterior.offset < -0.02)).all()


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", SAMPLERS)
def test_every_sampler_runs_with_64_bits(name, dtype):
    """A step's number is a 32-bit integer there, too: eCCAdL once waited for ever for its next renewal."""
    data, init = (jax.tree.map(dtype, tree) for tree in (DATA, INIT))
    sampler = getattr(isotherm, name)(1e-3)
    tree = isotherm.sample(POSTERIOR, sampler, data, init, batch_size=20, steps=70, thin=10, chains=2, progress=False)
    assert tree.posterior.slope.dtype == dtype
    assert np.isfinite(flat(tree)).all()


PROGRAM = """
import numpy as np, jax.numpy as jnp, isotherm
posterior = isotherm.Posterior(lambda t, x: -0.5 * jnp.sum((x - t) ** 2), lambda t: -0.5 * jnp.sum(t**2))
data = np.ones((50, 2), np.float32)
isotherm.sample(posterior, isotherm.sgnht(0.01), data, np.zeros(2, np.float32), batch_size=5, steps=3000)
"""


def test_no_bar_where_there_is_no_terminal():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert done.stdout == done.stderr == ""


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


def test_lapack_has_one_thread_during_a_run(monkeypatch):
    def threads():
        return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]

    seen, advance = [], chains.Chains.advance

    def watched(*arguments):
        seen.append(threads())
        return advance(*arguments)

    monkeypatch.setattr(chains.Chains, "advance", watched)
    before = threads()
    sample()
    assert seen[0]
    assert set(seen[0]) == {1}
    assert threads()[: len(before)] == before
