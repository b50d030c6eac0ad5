"""Predictions of models with effects."""

import jax.numpy as jnp
import numpy as np
import pytest

import isotherm
from isotherm import Effect, Posterior

RNG = np.random.default_rng(0)
SCHOOLS = np.array([f"s{i}" for i in RNG.integers(0, 12, 400)])
X = RNG.standard_normal(400).astype(np.float32)
Y = (
    1 + X + RNG.normal(0, 1.0, 12)[np.unique(SCHOOLS, return_inverse=True)[1]] + 0.3 * RNG.standard_normal(400)
).astype(np.float32)
MODEL = Posterior(
    lambda p, r: -0.5 * ((r["y"] - p["a"] - p["school"][0] - p["school"][1] * r["x"]) / 0.3) ** 2,
    lambda p: -0.5 * p["a"] ** 2,
    effects={"school": Effect("school", size=2, correlated=True)},
)


@pytest.fixture(scope="module")
def tree():
    return isotherm.fit(MODEL, {"y": Y, "x": X, "school": SCHOOLS}, {"a": 0.0}, ess=100, progress=False)


def level(p, r):
    return p["school"]


def test_a_known_level_is_its_draws(tree):
    found = isotherm.predict(tree, level, {"school": np.array(["s3", "s11"])}, progress=False)
    expected = tree["posterior"]["school"].sel(school_level=["s3", "s11"]).mean(("chain", "draw"))
    np.testing.assert_allclose(found["mean"], expected, atol=1e-5)


def test_a_new_level_has_the_spread_of_its_population(tree):
    """Its variance is the mean of τ² over the draws, within 5 standard errors of a variance from so many draws."""
    found = isotherm.predict(tree, level, {"school": np.array(["new", "s3", "other"])}, progress=False)
    sd = tree["posterior"]["sd_school"]
    expected, count = np.sqrt((sd.values**2).mean((0, 1))), sd.sizes["chain"] * sd.sizes["draw"]
    error = 5 * expected * np.sqrt(3 / count)  # a mixture over τ has heavier tails than a normal one: kurtosis up to 9
    for row in (0, 2):
        assert np.all(abs(found["sd"].values[row] - expected) < error)


def test_rows_of_a_new_level_share_it(tree, tmp_path):
    store = tmp_path / "values.zarr"
    data = {"school": np.array(["new", "new", "other"])}
    isotherm.predict(tree, level, data, store=str(store), progress=False)
    import xarray

    values = xarray.open_datatree(store, engine="zarr")["predictions"]["prediction"].values
    assert (values[:, :, 0] == values[:, :, 1]).all()
    assert (values[:, :, 0] != values[:, :, 2]).mean() > 0.99


def test_the_log_likelihood_of_rows(tree):
    data = {"y": Y[:20], "x": X[:20], "school": SCHOOLS[:20]}
    isotherm.predict(tree, MODEL, data, log_likelihood=True, progress=False)
    draws = tree["posterior"]
    own = draws["school"].sel(school_level=SCHOOLS[7]).values
    expected = -0.5 * ((Y[7] - draws["a"].values - own[..., 0] - own[..., 1] * X[7]) / 0.3) ** 2
    (values,) = tree["log_likelihood"].data_vars.values()
    np.testing.assert_allclose(values.values[:, :, 7], expected, rtol=2e-4, atol=1e-4)


def test_a_missing_column(tree):
    with pytest.raises(ValueError, match="effect 'school': data has no column 'school'"):
        isotherm.predict(tree, lambda p, r: jnp.sum(p["school"]), {"x": X}, progress=False)
