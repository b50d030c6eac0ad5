import jax
import numpy as np

from isotherm.estimators.rows import SORTED_ROWS, Weighted, fill_up, make_rows
from isotherm.models import GeneralisedLinear, families


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


def test_filled_up_with_rows_that_do_not_count():
    data = {"x": np.arange(10.0).reshape(5, 2), "y": np.arange(5), "weight": np.ones(5)}
    more = fill_up(data)
    assert {len(column) for column in more.values()} == {16}
    np.testing.assert_array_equal(more["x"][:5], data["x"])
    assert more["weight"].sum() == 5
    for rows, size in ((17, 32), (257, 512), (SORTED_ROWS, SORTED_ROWS), (SORTED_ROWS + 1, SORTED_ROWS + 1)):
        assert len(fill_up({"weight": np.ones(rows)})["weight"]) == size


def test_a_weight_counts_an_example_as_often():
    model = GeneralisedLinear(2, families.Poisson())
    params = model.init(jax.random.key(0), scale=1.0)
    example = {"x": np.float32([1, 2]), "y": np.float32(3)}
    found = Weighted(model).log_likelihood(params, example | {"weight": 2.5})
    np.testing.assert_allclose(found, 2.5 * model.log_likelihood(params, example), rtol=1e-6)
    assert Weighted(model).log_likelihood == Weighted(GeneralisedLinear(2, families.Poisson())).log_likelihood
