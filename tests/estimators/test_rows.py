import numpy as np

from isotherm.estimators.rows import FEW, filled, make_rows


def test_a_weight_is_a_row_that_is_there_as_often():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(9, 2)), rng.integers(0, 3, 9).astype(float)
    times = np.array([0, 1, 2, 3, 0, 1, 1, 2, 5])
    weighted = make_rows(X, y, times.astype(float))
    repeated = make_rows(X.repeat(times, axis=0), y.repeat(times), np.ones(times.sum()))
    for one, other in zip(weighted, repeated, strict=True):
        np.testing.assert_array_equal(one, other)
    assert len(weighted.X) == 7
    assert weighted.weight.sum() == 15


def test_units_are_those_of_the_weighted_rows():
    rng = np.random.default_rng(0)
    X, weight = rng.normal(3, 2, (50, 2)), rng.integers(0, 4, 50)
    rows = make_rows(X, np.zeros(50), weight.astype(float))
    units = rows.units(rows.X)
    every = X.repeat(weight, axis=0)
    np.testing.assert_allclose(units.centre, every.mean(axis=0))
    np.testing.assert_allclose(units.scale, every.std(axis=0))


def test_a_column_that_does_not_vary_is_left_alone():
    X = np.column_stack([np.full(5, 0.1), np.arange(5.0), np.full(5, 1e9)])
    units = make_rows(X, np.arange(5.0), np.ones(5)).column_units()
    np.testing.assert_array_equal(units.scale[[0, 2]], 1)
    np.testing.assert_allclose(units.standard(X)[:, [0, 2]], 0, atol=1e-6)
    unmoved = make_rows(X, np.arange(5.0), np.ones(5)).units(X, centred=False)
    np.testing.assert_array_equal(unmoved.centre, 0)


def test_a_column_that_is_mostly_0_is_as_large_as_where_it_is_not():
    rng = np.random.default_rng(0)
    X = np.column_stack([np.arange(1000) < 10, rng.normal(size=1000), np.where(np.arange(1000) < 10, 7.0, 0.0)])
    X, weight = X.astype(float), rng.integers(1, 4, 1000)
    units = make_rows(X, np.zeros(1000), np.ones(1000)).column_units()
    np.testing.assert_allclose(units.scale, [0.99**0.5, X[:, 1].std() * (1000 / 999) ** 0.5, 7 * 0.99**0.5])
    weighted = make_rows(X, np.zeros(1000), weight.astype(float)).column_units()
    repeated = make_rows(X.repeat(weight, axis=0), np.zeros(weight.sum()), np.ones(weight.sum())).column_units()
    np.testing.assert_allclose(weighted.scale, repeated.scale, rtol=1e-12)
    np.testing.assert_allclose(weighted.centre, repeated.centre, rtol=1e-12)


def test_filled_up_with_rows_that_do_not_count():
    data = {"x": np.arange(10.0).reshape(5, 2), "y": np.arange(5), "weight": np.ones(5)}
    more = filled(data)
    assert {len(column) for column in more.values()} == {16}
    np.testing.assert_array_equal(more["x"][:5], data["x"])
    assert more["weight"].sum() == 5
    for rows, size in ((17, 32), (257, 512), (FEW, FEW), (FEW + 1, FEW + 1)):
        assert len(filled({"weight": np.ones(rows)})["weight"]) == size
