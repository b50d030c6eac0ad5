"""Batches are uniform, and without replacement when they say so."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from isotherm.data import batches as batches_module
from isotherm.data.alias_table import make_table
from isotherm.data.batches import Batches, place


@pytest.mark.parametrize(
    "batches",
    [Batches(23, 5), Batches(23, 5, replace=False), Batches(23, 15, replace=False), Batches(23, 40)],
    ids=str,
)
def test_every_row_and_every_pair_is_as_likely(batches):
    """χ² of row counts, and the share of batches holding a given pair, within five standard errors over 4,000 draws."""
    draws = 4000
    rows = np.asarray(jax.vmap(batches.rows)(jax.random.split(jax.random.key(1), draws)))
    assert rows.min() >= 0
    assert rows.max() < 23
    held = np.stack([np.bincount(r, minlength=23) for r in rows])
    expected = draws * batches.size / 23
    chi2 = ((held.sum(0) - expected) ** 2 / expected).sum()
    assert chi2 < 22 + 5 * np.sqrt(44)
    N, n = 23, batches.size
    both = n * (n - 1) / (N * N if batches.replace else N * (N - 1))  # E[count_i count_j], i ≠ j
    product = held[:, 3] * held[:, 17]
    assert abs(product.mean() - both) < 5 * product.std() / np.sqrt(draws)
    if not batches.replace:
        assert held.max() == 1


def test_few_out_of_many_are_distinct():
    rows = jax.vmap(Batches(300, 70, replace=False).rows)(jax.random.split(jax.random.key(2), 200))
    assert all(len(set(r)) == 70 for r in np.asarray(rows).tolist())


def test_everything_without_replacement_is_the_data_itself():
    data = {"x": jnp.arange(5)}
    assert Batches(5, 5, replace=False).take(jax.random.key(0), data)[0] is data


def test_rows_of_every_array_go_together():
    data = {"x": jnp.arange(50), "y": (2.0 * jnp.arange(50.0)[:, None] * jnp.ones((1, 3)))}
    batch, weights = Batches(50, 8).take(jax.random.key(3), data)
    assert weights is None
    np.testing.assert_array_equal(batch["y"], 2.0 * np.asarray(batch["x"], np.float32)[:, None] * np.ones((1, 3)))


def test_weighted_rows_come_with_their_weights_and_make_sums_without_bias():
    """Over 4,000 batches of 8: the mean of Σ w_i x_i N/n is Σ x_i, within five of its standard errors; without weights
    it would be off by far more."""
    p = np.array([1.0, 2, 4, 8, 16])
    data, table = {"x": jnp.arange(5.0), "row": jnp.arange(5)}, make_table(p)
    batch, weights = jax.vmap(lambda key: Batches(5, 8).take(key, data, table))(
        jax.random.split(jax.random.key(3), 4000)
    )
    np.testing.assert_array_equal(batch["x"], batch["row"])  # rows of every column go together
    np.testing.assert_allclose(weights, (p.sum() / (5 * p))[np.asarray(batch["row"])], rtol=1e-6)
    sums, bare = 5 / 8 * np.sum(np.asarray(batch["x"]) * weights, axis=1), 5 / 8 * np.sum(batch["x"], axis=1)
    assert abs(sums.mean() - 10) < 5 * sums.std() / np.sqrt(4000)
    assert abs(bare.mean() - 10) > 50 * bare.std() / np.sqrt(4000)
    counts = np.bincount(np.asarray(batch["row"]).ravel(), minlength=5)
    expected = 32_000 * p / p.sum()
    assert ((counts - expected) ** 2 / expected).sum() < 4 + 5 * np.sqrt(8)


def test_a_larger_batch_of_weighted_rows_is_drawn_too():
    """Where rows have weights, all rows once are not a batch of them."""
    assert Batches(10, 4).resized(20) == Batches(10, 10, replace=False)
    assert Batches(10, 4).resized(20, weighted=True) == Batches(10, 20)
    assert Batches(10, 4).resized(3, weighted=True) == Batches(10, 3)


def test_a_larger_batch_has_as_many_rows_as_a_batch_may_have():
    most = batches_module.BATCH_ROWS
    assert Batches(10, most // 2).resized(5 * most, weighted=True) == Batches(10, most)
    assert Batches(2 * most, most).resized(5 * most, weighted=True) == Batches(2 * most, 2 * most)


def test_refused():
    with pytest.raises(ValueError, match=r"batch_size .*got 0"):
        Batches(10, 0)
    with pytest.raises(TypeError, match=r"batch_size .*got 2\.5"):
        Batches(10, 2.5)
    with pytest.raises(
        ValueError, match="at most the number of examples, 10, when drawing without replacement, got 11"
    ):
        Batches(10, 11, replace=False)


@pytest.mark.parametrize(
    ("shape", "dtype"), [((3_000, 40), np.float32), ((3_000, 4, 8), np.int32), ((2_000, 33), np.float16)]
)
def test_far_rows_are_the_rows_that_near_ones_would_be(shape, dtype, monkeypatch):
    """Whatever they hold: NaN, infinities, nothing but positive numbers."""
    x = np.abs(np.random.default_rng(0).integers(1, 100, shape)).astype(dtype)
    if dtype != np.int32:
        x[::3], x[1::3] = np.nan, np.inf
    monkeypatch.setattr(batches_module, "CACHE_BYTES", 0)
    assert batches_module.waits_for_memory(jnp.asarray(x))
    batches = Batches(shape[0], 500)
    key = jax.random.key(0)
    found = jax.jit(batches.take)(key, {"x": jnp.asarray(x)})[0]["x"]
    np.testing.assert_array_equal(found, x[np.asarray(batches.rows(key))])


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, np.int64, np.uint8, np.bool_])
def test_a_large_column_is_placed_as_it_is_and_is_a_copy(dtype, monkeypatch):
    """As `jnp.asarray` has it, in dtype too; from memory that is not in one piece."""
    monkeypatch.setattr(batches_module, "CACHE_BYTES", 0)
    column = np.random.default_rng(0).integers(0, 2, (50, 3, 4)).astype(dtype)[::2]
    found, expected = place(column), jnp.array(column)
    assert found.dtype == expected.dtype
    column[...] = 0
    np.testing.assert_array_equal(found, expected)
