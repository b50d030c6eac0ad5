"""A small run that is stored, stopped and resumed, and the same run in memory to compare it with. The tests of what
`run` does with a store are in this folder too."""

import os
import signal

import jax.numpy as jnp
import numpy as np
import pytest

import isotherm
from isotherm.run import recorder

RNG = np.random.default_rng(0)
DATA = {"x": RNG.standard_normal((40, 2), np.float32), "y": RNG.standard_normal(40, np.float32)}
INIT = {"w": np.zeros(2, np.float32), "b": np.zeros((), np.float32)}
SETTINGS = {"batch_size": 8, "steps": 400, "burn_in": 0.25, "thin": 3, "chains": 2, "seed": 5, "progress": False}
SAMPLER = isotherm.sgnht(step_size=0.01, friction=2.0)


def log_likelihood(params, example):
    return -0.5 * (example["y"] - example["x"] @ params["w"] - params["b"]) ** 2


def log_prior(params):
    return -0.5 * (jnp.sum(params["w"] ** 2) + params["b"] ** 2)


POSTERIOR = isotherm.Posterior(log_likelihood, log_prior)


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    """Chunks and checkpoints come often enough to matter in a short run."""
    monkeypatch.setattr("isotherm.run.sample.CHUNK_DRAWS", 16)
    monkeypatch.setattr(recorder, "CHECKPOINT_SECONDS", 0.0)
    monkeypatch.setattr(recorder, "CHECKPOINT_SHARE", 1e9)
    monkeypatch.setattr(os, "fsync", lambda handle: None)  # no power cuts here


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
def run():
    """A function that makes the run, with some of its arguments changed."""

    def sampled(store=None, sampler=SAMPLER, *, posterior=POSTERIOR, init=INIT, **changed):
        return isotherm.sample(posterior, sampler, DATA, init, store=store, **(SETTINGS | changed))

    return sampled


@pytest.fixture(scope="session")
def resume():
    """A function that goes on with the run, with the arguments it was made with unless others are given."""

    def resumed(store, posterior=POSTERIOR, data=DATA, **changed):
        return isotherm.resume(store, posterior, data, **({"progress": False} | changed))

    return resumed


@pytest.fixture(scope="session")
def uninterrupted(run):
    """The run in memory."""
    return run()


@pytest.fixture(scope="session")
def assert_same():
    """The same arrays, byte for byte, under the same names."""

    def compare(tree, other):
        assert set(tree.children) == set(other.children)
        for group in other.children:
            found, expected = tree[group].to_dataset(), other[group].to_dataset()
            assert set(found.variables) == set(expected.variables)
            for name, variable in expected.variables.items():
                assert found[name].dims == variable.dims, name
                assert found[name].dtype == variable.dtype, name
                assert found[name].values.tobytes() == variable.values.tobytes(), name

    return compare


class StopAfter:
    """Sets the stop of a run after so many chunks, as a signal would."""

    def __init__(self, chunks, signum=signal.SIGINT):
        self.left, self.signum = chunks, signum

    def __call__(self, *_):
        self.left -= 1
        if self.left == 0:
            signal.raise_signal(self.signum)


@pytest.fixture
def interrupt(monkeypatch):
    """A function that makes the next run stop after so many chunks of at most 32 steps."""

    def at(chunks, signum=signal.SIGINT):
        monkeypatch.setattr("isotherm.run.execute.CHUNK_SECONDS", 1e-9)
        monkeypatch.setattr("isotherm.run.execute.DrawsOutsidePrior.see", StopAfter(chunks, signum))

    return at
