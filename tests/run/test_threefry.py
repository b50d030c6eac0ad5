"""The same numbers as JAX's own keys, bit for bit."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from isotherm.run import threefry

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


@pytest.mark.parametrize("seed", [0, 1, 123_456_789, 2**31 - 1])
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
