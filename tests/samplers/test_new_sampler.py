"""A sampler that the package does not know: one file, this one, and all that a run says works with it."""

from dataclasses import dataclass
from types import SimpleNamespace
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import isotherm
from isotherm.run.execute import StepBar
from isotherm.run.largest_step import first_step
from isotherm.samplers.base import Traits


class OutsideState(NamedTuple):
    position: jax.Array
    momentum: jax.Array
    step: jax.Array
    kinetic_temperature: jax.Array


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class OutsideLangevin:
    """Langevin dynamics by the splitting BAOAB (Leimkuhler & Matthews 2013), which knows nothing of noise."""

    step_size: float
    friction: float
    T: float

    def traits(self):
        return Traits(has_momentum=True, temperature=self.T)

    def init(self, key, position, noisy):
        p = jnp.sqrt(self.T) * jax.random.normal(key, position.shape, position.dtype)
        return OutsideState(position, p, jnp.zeros((), jnp.int32), p @ p / p.size)

    def step(self, key, state, noisy):
        h, a, R = self.step_size, jnp.exp(-self.friction * self.step_size), jax.random.normal(key, state.momentum.shape)
        p = state.momentum + h * noisy.force
        between = a * p + jnp.sqrt(self.T * (1 - a * a)) * R
        return OutsideState(state.position + h / 2 * (p + between), between, state.step + 1, between @ between / p.size)


def log_likelihood(theta, x):
    return -0.5 * jnp.sum((x - theta) ** 2) / 100


POSTERIOR = isotherm.Posterior(log_likelihood, lambda theta: 0.0 * jnp.sum(theta))
DATA = np.random.default_rng(0).standard_normal((100, 2)).astype(np.float32)
SETTINGS = {"batch_size": 100, "replace": False, "steps": 4000, "burn_in": 0.1, "chains": 2}


def test_it_samples_is_stored_and_judged(tmp_path, monkeypatch):
    """The variance is T times the posterior's: within 4 of its standard errors, 6 % each (280 effective draws)."""
    shown, see = [], StepBar.see
    monkeypatch.setattr(StepBar, "see", lambda bar, chunk: shown.append(chunk.temperature) or see(bar, chunk))
    sampler, path = OutsideLangevin(0.5, 1.0, 2.0), tmp_path / "run.zarr"
    tree = isotherm.sample(POSTERIOR, sampler, DATA, jnp.zeros(2), **SETTINGS, store=path)
    np.testing.assert_allclose(tree.posterior.theta.var(("chain", "draw")), 2.0, rtol=0.25)
    assert tree.attrs["sampler"] == "outsidelangevin"
    assert shown
    assert all(0 < temperature < 20 for temperature in shown)
    lines = {line.name: line for line in isotherm.check(tree, POSTERIOR, DATA, progress=False).table}
    assert "should be 2" in lines["kinetic temperature"].found
    assert lines["kinetic temperature"].good
    assert lines["variance"].good
    assert "at temperature 2" in lines["variance"].found
    assert "friction" not in lines
    longer = isotherm.resume(path, POSTERIOR, DATA, steps=40, sampler=sampler, progress=False)
    assert longer.attrs["steps"] == SETTINGS["steps"] + 40


def test_the_search_for_its_step_begins_as_for_one_with_momentum():
    """A tenth of the narrowest width, not of its square."""
    target, forces = SimpleNamespace(curvature_is_identity=False), SimpleNamespace(factor=np.diag([0.1, 3.0]))
    run = SimpleNamespace(
        starts=np.zeros((1, 2), np.float32),
        evaluation=SimpleNamespace(target=target),
        sampler=OutsideLangevin(0.5, 1.0, 2.0),
    )
    np.testing.assert_allclose(first_step(run, forces), 0.1)
    run.sampler = isotherm.sgld(0.5)
    np.testing.assert_allclose(first_step(run, forces), 0.01)
