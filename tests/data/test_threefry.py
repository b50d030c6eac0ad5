"""The same numbers as JAX's own keys, bit for bit."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from isotherm.data import threefry

DRAWS = {
    "key": jax.random.key_data,
    "split": lambda key: jax.random.key_data(jax.random.split(key, (3, 2))),
    "fold_in": lambda key: jax.random.key_data(jax.random.fold_in(key, 2**31 + 7)),
    "bits": lambda key: jax.random.bits(key, (5, 3)),
    "bytes": lambda key: jax.random.bits(key, (5,), "uint8"),
    "normal": lambda key: jax.random.normal(key, (2, 7)),
    "one normal": jax.random.normal,
    "randint": lambda key: jax.random.randint(key, (9,), 0, 12_214),
    "permutation": lambda key: jax.random.permutation(key, 11),
    "many keys": lambda key: jax.vmap(lambda k: jax.random.normal(k, (4,)))(jax.random.split(key, 3)),
}


@pytest.mark.parametrize("seed", [0, 2**31 - 1])
@pytest.mark.parametrize("name", DRAWS)
def test_same_as_jax(name, seed):
    for draw in (DRAWS[name], jax.jit(DRAWS[name])):
        np.testing.assert_array_equal(draw(threefry.key(seed)), draw(jax.random.key(seed)))


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("seed", [3, 2**40 + 5])
@pytest.mark.parametrize("name", DRAWS)
def test_same_as_jax_in_double_precision(name, seed):
    np.testing.assert_array_equal(DRAWS[name](threefry.key(seed)), DRAWS[name](jax.random.key(seed)))
    assert jax.random.normal(threefry.key(seed)).dtype == jnp.float64


def test_more_than_a_counter_holds_is_refused():
    with pytest.raises(ValueError, match="at most 4294967295 random numbers a call"):
        jax.jit(lambda key: jax.random.bits(key, (2**16, 2**16))).lower(threefry.key(0))


MORE = (pytest.param(bound, marks=pytest.mark.slow) for bound in (3, 1000, 2**16 - 1, 2**16, 3_000_000, 10**9))


@pytest.mark.parametrize("bound", [2, 7, 12_214, 2**16 + 1, 2**30 - 1, *MORE])
def test_integers_are_those_of_randint(bound):
    """Number for number; small, large and odd bounds, an odd count."""
    for seed in range(3):
        key = threefry.key(seed)
        ours = threefry.integers_below(key, 4001, bound)
        np.testing.assert_array_equal(ours, jax.random.randint(key, (4001,), 0, bound))


def test_remainders_are_right_at_the_edges():
    x = np.array([0, 1, 2**31 - 1, 2**31, 2**32 - 2, 2**32 - 1], np.uint32)
    for bound in (2, 3, 5, 2**16 - 1, 2**16 + 1, 2**29 + 11, 2**30 - 1):
        near = np.concatenate([x, [(k * bound + e) % 2**32 for k in range(5) for e in (-1, 0, 1)]])
        near = near.astype(np.uint32)
        np.testing.assert_array_equal(threefry._remainder(jnp.asarray(near), bound), near % np.uint32(bound))
