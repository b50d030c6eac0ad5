"""`isotherm.sample` as a whole: seeds, exact gradients, one compilation, what it refuses, and ArviZ."""

import arviz_stats
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import isotherm

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


def test_arviz_takes_it_as_it_is():
    tree = sample(steps=2000)
    assert np.isfinite(arviz_stats.ess(tree).slope).all()
    assert (arviz_stats.rhat(tree).slope < 1.5).all()


def test_same_seed_same_draws_and_another_seed_others():
    assert_same_run(sample(seed=5), sample(seed=5))
    assert not np.allclose(flat(sample(seed=5)), flat(sample(seed=6)))


def test_exact_gradients_make_batches_that_do_not_matter():
    runs = [sample(isotherm.sgld(1e-4), batch_size=200, replace=False, seed=s, steps=20, thin=1) for s in (0, 0)]
    assert_same_run(*runs)
    tree = sample(isotherm.mccadl(1e-2), batch_size=200, replace=False, steps=20, thin=1)
    assert (tree.sample_stats.expm_error == 0).all()


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
                            steps=100, progress=False)  # fmt: skip
