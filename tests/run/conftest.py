"""A small regression that is sampled in memory, for the tests of what a run is made of."""

import jax.numpy as jnp
import numpy as np
import pytest

import isotherm
from isotherm.run.assemble import RunSettings, assemble

RNG = np.random.default_rng(0)
DATA = {"x": RNG.standard_normal((200, 3)).astype(np.float32), "y": RNG.standard_normal(200).astype(np.float32)}
INIT = {"offset": np.float32(0), "slope": np.zeros(3, np.float32)}


def log_likelihood(params, example):
    return -0.5 * (example["y"] - example["x"] @ params["slope"] - params["offset"]) ** 2


def log_prior(params):
    return -0.5 * (jnp.sum(params["slope"] ** 2) + params["offset"] ** 2)


POSTERIOR = isotherm.Posterior(log_likelihood, log_prior)


@pytest.fixture(scope="session")
def posterior():
    return POSTERIOR


@pytest.fixture(scope="session")
def data():
    return DATA


@pytest.fixture(scope="session")
def init():
    return INIT


@pytest.fixture(scope="session")
def sample():
    """A function that samples, with some of its arguments changed."""

    def sampled(sampler=None, *, init=INIT, **changed):
        settings = {"batch_size": 20, "steps": 300, "chains": 3, "thin": 7, "progress": False} | changed
        return isotherm.sample(POSTERIOR, sampler or isotherm.mccadl(0.02), DATA, init, **settings)

    return sampled


@pytest.fixture(scope="session")
def make():
    """A function that makes the `Run` without running it, with some of its arguments changed."""

    def made(sampler=None, *, data=DATA, init=INIT, notes=None, **changed):
        settings = {"batch_size": 20, "replace": True, "chains": 3, "seed": 0, "name": None} | changed
        return assemble(POSTERIOR, sampler or isotherm.mccadl(0.02), data, init, RunSettings(**settings), notes)

    return made


@pytest.fixture(scope="session")
def flat():
    """Draws as flat positions, by (chain, draw, parameter)."""
    return lambda tree: np.concatenate([tree.posterior.offset.values[..., None], tree.posterior.slope.values], axis=-1)


@pytest.fixture(scope="session")
def assert_same_run():
    """The same draws, statistics and moments."""

    def compare(a, b):
        for group in ("posterior", "sample_stats", "posterior_mean", "posterior_variance"):
            for name in a[group].data_vars:
                np.testing.assert_array_equal(a[group][name], b[group][name], err_msg=f"{group}/{name}")

    return compare
