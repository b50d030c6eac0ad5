"""An alias table draws rows with the probabilities that were asked for, and weighs them so that sums are unbiased."""

import tracemalloc

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isotherm.data.alias_table import THRESHOLD_ONE, make_table

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
def test_refused(p, said):
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
