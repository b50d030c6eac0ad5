"""Whether S is the same at all draws: a warning if not, with the parameter it changes with."""

import warnings

import jax.numpy as jnp
import numpy as np
import pytest

import isotherm
from isotherm.diagnostics.constant_noise import NoiseChange
from isotherm.run import execute

rng = np.random.default_rng(0)
DATA = {"x": rng.standard_normal(500).astype(np.float32), "y": rng.standard_normal(500).astype(np.float32)}


def messages(posterior, init, sampler=None, **settings):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        settings = {"batch_size": 50, "progress": False, "chains": 2} | settings
        isotherm.sample(posterior, sampler or isotherm.eccadl(), DATA, init, **settings)
    return [str(warning.message) for warning in caught if "the noise of the gradients" in str(warning.message)]


def growing(params, example):
    """A residual divided by e^s, with half of what that costs: the gradients fall with s, and so does their noise."""
    return -0.5 * ((example["y"] - params["b"] * example["x"]) * jnp.exp(-params["s"])) ** 2 / 100


GROWING = isotherm.Posterior(growing, lambda params: -0.5 * (params["b"] ** 2 + params["s"] ** 2))
ZEROS = {"b": jnp.zeros(()), "s": jnp.zeros(())}


def test_noise_that_changes_over_the_posterior_is_said():
    (message,) = messages(GROWING, ZEROS, steps=4000)
    assert "most of all with s," in message
    assert "batch_size" in message


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [0.001, 100.0])
def test_what_is_said_does_not_depend_on_the_clock(seconds, monkeypatch):
    expected = messages(GROWING, ZEROS, steps=4000)
    monkeypatch.setattr(execute, "CHUNK_SECONDS", seconds)
    assert messages(GROWING, ZEROS, steps=4000) == expected


@pytest.mark.parametrize("first", [0, 1001])
@pytest.mark.parametrize("chunk", [1, 7, 100, 5000])
def test_which_draws_are_kept_does_not_depend_on_chunks(first, chunk):
    """Also of a run that goes on after draw `first`."""
    seen = NoiseChange()
    draws = np.arange(first, 5000, dtype=np.float32)[:, None, None]
    for begin in range(0, len(draws), chunk):
        seen.add(first + begin, draws[begin : begin + chunk], np.ones(1, bool))
    multiples = range(0, 5000, 64) if first == 0 else range(1024, 5000, 32)
    assert list(seen.kept) == list(multiples)
    assert [float(kept[0, 0]) for kept in seen.kept.values()] == list(multiples)


@pytest.mark.slow
def test_a_sampler_that_measures_s_at_every_step_is_not_concerned():
    assert not messages(GROWING, ZEROS, isotherm.mccadl(0.05), steps=4000)


@pytest.mark.slow
@pytest.mark.parametrize("steps", [4000, 1000])
def test_noise_that_is_the_same_is_not_said(steps):
    """Nor is anything said of a run that is too short."""
    posterior = isotherm.Posterior(
        lambda b, example: -0.5 * (example["y"] - b * example["x"]) ** 2, lambda b: -0.5 * jnp.sum(b**2)
    )
    assert not messages(posterior, jnp.zeros(()), steps=steps)


@pytest.mark.slow
def test_batches_of_all_the_data_have_no_noise():
    assert not messages(GROWING, ZEROS, isotherm.eccadl(0.05), steps=4000, batch_size=500, replace=False)
