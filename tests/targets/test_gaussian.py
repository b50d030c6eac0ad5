"""The search for the Gaussian of a model with effects."""

import jax.numpy as jnp
import numpy as np
import pytest

import isotherm
from isotherm import Effect, Posterior
from isotherm.lib.progress import Passes
from isotherm.targets.arrow import Point
from isotherm.targets.gaussian import LEVEL_STEP, GaussianSearch, LevelRows, make_layout
from isotherm.targets.user import with_defaults
from isotherm.targets.wide_anchor import as_point


def search(posterior, data, init):
    target, columns, start = with_defaults(posterior, data, init)
    layout = make_layout(target, start)
    rows = LevelRows(target, layout, columns, Passes(len(data["y"]), False))
    return GaussianSearch(rows, np.random.default_rng(0)), as_point(layout, start)


@pytest.fixture(scope="module")
def gaussian():
    """A Gaussian model with one effect, noise 1 and a prior of 1/τ that is flat in log τ: its marginal is known."""
    rng = np.random.default_rng(1)
    group = np.repeat(np.arange(60), rng.integers(1, 12, 60))
    y = 0.5 + rng.normal(0, 0.7, 60)[group] + rng.standard_normal(len(group))
    model = Posterior(
        lambda p, r: -0.5 * (r["y"] - p["a"] - p["g"]) ** 2,
        lambda p: 0.0 * p["a"],
        effects={"g": Effect("group", scale_prior=lambda sd: -jnp.log(sd))},
    )
    return model, {"y": y.astype(np.float32), "group": group}


def test_scales_are_those_of_restricted_maximum_likelihood(gaussian):
    """The best η of a Gaussian response maximises the likelihood with the mean integrated out."""
    model, data = gaussian
    found, start = search(model, data, {"a": np.float32(0)})
    eta = found.approach(start, near=0.01)[0].eta[0]
    counts, y = np.bincount(data["group"]), data["y"].astype(float)
    means = np.bincount(data["group"], y) / counts

    def restricted(log_tau):
        variances = np.exp(2 * log_tau) + 1 / counts
        center = np.sum(means / variances) / np.sum(1 / variances)
        return -0.5 * (
            np.log(variances).sum() + np.log(np.sum(1 / variances)) + ((means - center) ** 2 / variances).sum()
        )

    grid = np.linspace(-3, 2, 50_001)
    assert eta == pytest.approx(grid[np.argmax([restricted(x) for x in grid])], abs=2e-3)


def test_a_level_whose_rows_all_agree(gaussian):
    """It is not thrown off: a step moves no level by more than LEVEL_STEP of its scale, and the search ends."""
    rng = np.random.default_rng(2)
    group = np.concatenate([np.zeros(3000, int), rng.integers(1, 400, 4000)])
    y = np.where(group == 0, 1.0, rng.random(len(group)) < 0.3).astype(np.float32)

    def log_likelihood(p, r):
        eta = p["a"] + p["g"]
        return r["y"] * eta - jnp.logaddexp(0.0, eta)

    model = Posterior(log_likelihood, lambda p: -0.5 * p["a"] ** 2, effects={"g": Effect("group")})
    found, start = search(model, {"y": y, "group": group}, {"a": np.float32(0)})
    far = Point(np.zeros(1), np.zeros(1), [np.full((400, 1), -9.0)])
    assert np.abs(found.limited(far, np.log([0.5])).levels[0]).max() == pytest.approx(LEVEL_STEP * 0.5)
    at, _ = found.approach(start)
    assert found.rows.passes.done < 30
    assert 1 < at.levels[0][0, 0] < 12


def test_an_anchored_posterior_goes_where_a_posterior_goes(gaussian):
    """With the data that it was anchored with, in whatever form they are; not with others."""
    model, data = gaussian
    anchored = isotherm.anchor(model, data, {"a": np.float32(0)}, progress=False)
    as_lists = {"y": data["y"].tolist(), "group": data["group"].tolist()}
    runs = [
        isotherm.sample(anchored, isotherm.eccadl(), each, steps=50, thin=5, progress=False)["posterior"]
        for each in (data, as_lists)
    ]
    assert runs[0].sizes["g_level"] == 60
    assert (runs[0]["g"].values == runs[1]["g"].values).all()
    fewer = {name: column[data["group"] > 0] for name, column in data.items()}
    with pytest.raises(ValueError, match="data has other levels of g than the posterior was anchored with"):
        isotherm.sample(anchored, isotherm.eccadl(), fewer, steps=50, progress=False)
