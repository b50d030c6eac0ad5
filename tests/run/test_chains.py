"""Chains on one thread or several: the same draws, and a fallback where XLA does not know an option."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import isotherm
from isotherm.run import chains, loop

X = jnp.asarray(np.random.default_rng(0).uniform(0.1, 0.9, (30, 7)), jnp.float32)


POSTERIOR = isotherm.Posterior(
    lambda theta, example: -0.5 * (example["x"] @ theta - 1) ** 2, lambda theta: -0.5 * theta @ theta
)


def sampled(data=None, sampler=isotherm.mccadl):
    settings = {"batch_size": 10, "steps": 40, "thin": 1, "chains": 2, "progress": False}
    tree = isotherm.sample(POSTERIOR, sampler(0.01), data or {"x": X}, jnp.zeros(7), **settings)
    return tree.posterior.theta.values


@pytest.mark.slow
def test_a_run_is_the_same_on_one_thread_and_on_several(monkeypatch):
    """40 steps, each of which may round otherwise."""
    one = sampled()
    monkeypatch.setattr(chains, "ONE_THREAD_UP_TO", 0)
    np.testing.assert_allclose(sampled(), one, rtol=1e-4, atol=1e-5)


@pytest.mark.skipif(jax.default_backend() != "cpu", reason="the options are for CPUs")
@pytest.mark.slow
def test_an_option_that_xla_does_not_know_is_left_out(monkeypatch):
    """As in a later version of XLA: it refuses, and the run goes on without."""
    expected = sampled()
    options = loop.ONE_THREAD | {"xla_cpu_no_such_option": True}
    unknown = jax.jit(loop._advance, static_argnames="slots", donate_argnames="carry", compiler_options=options)
    monkeypatch.setattr(chains, "advance_on_one_thread", unknown)
    np.testing.assert_allclose(sampled(), expected, rtol=1e-4, atol=1e-5)


def test_a_column_that_the_model_does_not_look_at_changes_nothing():
    more = sampled({"x": X, "unused": X}, isotherm.sgnht)
    np.testing.assert_array_equal(more, sampled(sampler=isotherm.sgnht))
