"""Standard units: weights count rows, and columns that are mostly one value are as large as where they are not."""

import numpy as np

from isotherm.models.priors import column_units, standard_units


def test_units_are_those_of_the_weighted_rows():
    rng = np.random.default_rng(0)
    X, weight = rng.normal(3, 2, (50, 2)), rng.integers(0, 4, 50)
    units = standard_units(X, weight.astype(float))
    every = X.repeat(weight, axis=0)
    np.testing.assert_allclose(units.centre, every.mean(axis=0))
    np.testing.assert_allclose(units.scale, every.std(axis=0))


def test_a_column_that_does_not_vary_is_left_alone():
    X = np.column_stack([np.full(5, 0.1), np.arange(5.0), np.full(5, 1e9)])
    units = column_units(X)
    np.testing.assert_array_equal(units.scale[[0, 2]], 1)
    np.testing.assert_allclose(units.standard(X)[:, [0, 2]], 0, atol=1e-6)
    unmoved = standard_units(X, centred=False)
    np.testing.assert_array_equal(unmoved.centre, 0)


def test_a_column_that_is_mostly_0_is_as_large_as_where_it_is_not():
    rng = np.random.default_rng(0)
    X = np.column_stack([np.arange(1000) < 10, rng.normal(size=1000), np.where(np.arange(1000) < 10, 7.0, 0.0)])
    X, weight = X.astype(float), rng.integers(1, 4, 1000)
    units = column_units(X, np.ones(1000))
    np.testing.assert_allclose(units.scale, [0.99**0.5, X[:, 1].std() * (1000 / 999) ** 0.5, 7 * 0.99**0.5])
    weighted = column_units(X, weight.astype(float))
    repeated = column_units(X.repeat(weight, axis=0))
    np.testing.assert_allclose(weighted.scale, repeated.scale, rtol=1e-12)
    np.testing.assert_allclose(weighted.centre, repeated.centre, rtol=1e-12)
