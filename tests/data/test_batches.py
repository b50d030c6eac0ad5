"""Batches are uniform, and without replacement when they say so; or rows have the probabilities that were asked for."""

import tracemalloc

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isotherm.data import batches as batches_module
from isotherm.data.batches import THRESHOLD_ONE, Batches, make_table, place


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


RNG = np.random.default_rng(0)
RESOLUTION = 2 / THRESHOLD_ONE  # a threshold is cut to a multiple of 2⁻³², and is 1 − 2⁻³² where it should be 1


def implied(table):
    """The probability of every row: of each, its own chance to be kept and what others pass on to it, over N."""
    N = len(table.weights)
    kept = np.asarray(table.thresholds, np.float64) / THRESHOLD_ONE
    passed = np.bincount(np.asarray(table.aliases), weights=1 - kept, minlength=N)
    return (kept + passed) / N


def assert_exact(p):
    """Each of the rows that pass on to one may be off by the resolution, and float64 sums of N terms by N roundings."""
    table = make_table(p, np.float64)
    p = np.asarray(p, np.float64) / np.sum(p, dtype=np.float64)
    givers = np.bincount(np.asarray(table.aliases), minlength=p.size) + 1
    assert (abs(implied(table) - p) <= givers * RESOLUTION / p.size + 4 * np.finfo(float).eps).all()


HEAVY = {
    "one": [3.0],
    "two": [1.0, 3.0],
    "two, turned": [3.0, 1.0],
    "seven": [1, 2, 3, 4, 5, 6, 7],
    "seven with shares of exactly 1 and 2": [4, 4, 1, 8, 7, 2, 2],
    "equal": np.ones(1000),
    "equal, and rounded": np.full(3, 0.1),
    "two values": np.repeat([1.0, 3.0], 500),
    "thousand": RNG.random(1000) + 1e-3,
    "Pareto": RNG.pareto(0.5, 1000) + 1e-6,
    "one of a thousand": np.where(np.arange(1000) == 500, 1e6, 1.0),
    "all but one": np.where(np.arange(1000) == 500, 1e-9, 1.0),
    "sorted": np.sort(RNG.exponential(size=1000)),
    "twelve decades": 10.0 ** RNG.uniform(-12, 0, 1000),
}


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("p", HEAVY.values(), ids=HEAVY)
def test_the_probabilities_are_those_asked_for(p):
    assert_exact(p)


@pytest.mark.usefixtures("float64")
@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.lists(st.floats(1e-12, 1e12), min_size=1, max_size=60))
def test_any_probabilities(p):
    assert_exact(p)


@pytest.mark.parametrize("p", [HEAVY["seven"], HEAVY["Pareto"]], ids=["seven", "Pareto"])
def test_weights_are_one_over_Np(p):
    """To the precision of float32, in which they are; with them a row counts once on average, as far as the resolution
    of the table lets the rarest rows be drawn."""
    p = np.asarray(p, np.float64) / np.sum(p)
    table = make_table(p)
    assert table.weights.dtype == np.float32
    np.testing.assert_allclose(table.weights, 1 / (p.size * p), rtol=1e-7)
    tolerance = 1e-6 + RESOLUTION * float(table.weights.mean())
    np.testing.assert_allclose(implied(table) @ np.float64(table.weights), 1, atol=tolerance)


def test_the_table_is_in_the_dtypes_that_the_loop_expects():
    table = make_table([1.0, 2.0])
    assert (table.thresholds.dtype, table.aliases.dtype) == (np.uint32, np.int32)


@pytest.mark.parametrize("p", [np.array([8.0, 1, 1, 1, 4, 1, 1, 3]), RNG.pareto(1.0, 100) + 0.05], ids=["8", "100"])
def test_drawn_frequencies(p):
    """χ² over 200,000 draws, less than five standard deviations above its mean; uniform draws would be far beyond."""
    draws, p = 200_000, p / p.sum()
    rows_key, key = jax.random.split(jax.random.key(4))
    rows = jax.random.randint(rows_key, (draws,), 0, p.size)
    counts = np.bincount(np.asarray(make_table(p).pick(key, rows)), minlength=p.size)
    freedom = p.size - 1
    bound = freedom + 5 * np.sqrt(2 * freedom)
    assert ((counts - draws * p) ** 2 / (draws * p)).sum() < bound
    uniform = np.bincount(np.asarray(rows), minlength=p.size)
    assert ((uniform - draws * p) ** 2 / (draws * p)).sum() > 10 * bound


@pytest.mark.parametrize(
    ("p", "said"),
    [
        ([1.0, 0.0, 2.0, 0.0], r"positive and finite, got 0\.0 for row 1 and 1 others like it; a row that is never"),
        ([1.0, 2.0, -0.5], r"positive and finite, got -0\.5 for row 2 and 0 others"),
        ([np.nan, 1.0], "positive and finite, got nan for row 0"),
        ([1.0, np.inf], "positive and finite, got inf for row 1"),
        ([[1.0, 2.0]], r"one number a row, got shape \(1, 2\)"),
        (1.0, r"one number a row, got shape \(\)"),
    ],
)
def test_probabilities_that_cannot_be_are_refused(p, said):
    with pytest.raises(ValueError, match=f"^probabilities must be {said}"):
        make_table(p)


def test_the_memory_of_probabilities_is_used_if_it_may_be():
    """What is needed beside the table itself decides with how much memory very many rows can be anchored."""
    p, rows = RNG.random(1_000_000) + 0.1, 1_000_000
    table, kept = make_table(p), p.copy()
    assert np.array_equal(p, kept)
    tracemalloc.start()
    try:
        other = make_table(p, overwrite=True)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert most < 30 * rows  # bytes, of which the table has 12
    for one, same in zip(table, other, strict=True):
        np.testing.assert_array_equal(one, same)


def test_no_row_at_all_is_refused():
    with pytest.raises(ValueError, match="probabilities must be one number a row"):
        make_table(jnp.zeros((0,)))
