"""Random keys whose numbers are those of `jax.random.key`, made in one pass.

On a CPU, JAX runs the rounds of Threefry (Salmon et al. 2011) as a loop of small operations; written out, they
are a single one, several times as fast (benchmarks/threefry.py prints by how much).
"""

import math
from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.random import define_prng_impl

from isotherm.lib.types import Array, Int32, RandomKey, UInt32

ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
PARITY = 0x1BD11BDA

Words = UInt32[Array, "..."]


def key(seed: int | np.uint32 | UInt32[Array, ""]) -> RandomKey:
    """Return a key that gives the numbers of `jax.random.key(seed)`, faster."""
    return jax.random.key(seed, impl=UNROLLED)


@partial(jax.jit, inline=True)  # outside of a compiled function, one program rather than one for each operation
def _block(key: Words, counter: Words) -> tuple[Words, Words]:
    """Return Threefry-2x32 with 20 rounds, of the counter (0, `counter`)."""
    schedule = (key[0], key[1], key[0] ^ key[1] ^ jnp.uint32(PARITY))
    x, y = schedule[0], counter + schedule[1]
    for i in range(5):
        for rotation in ROTATIONS[i % 2]:
            x = x + y
            y = x ^ ((y << jnp.uint32(rotation)) | (y >> jnp.uint32(32 - rotation)))
        x = x + schedule[(i + 1) % 3]
        y = y + schedule[(i + 2) % 3] + jnp.uint32(i + 1)
    return x, y


def _seed(seed: Array) -> Words:
    high = seed >> 32 if seed.dtype.itemsize == 8 else jnp.zeros_like(seed)
    return jnp.stack([high, seed]).astype(jnp.uint32)


def _once(key: Words) -> Words:
    """Compute the words of a key once: XLA would repeat the rounds wherever it is used, and take long to compile."""
    words: Words = jax.lax.optimization_barrier(key)
    return words


def _fold_in(key: Words, data: Array) -> Words:
    return _once(jnp.stack(_block(key, data.astype(jnp.uint32))))


def _split(key: Words, shape: tuple[int, ...]) -> Words:
    return _once(jnp.stack(_block(key, jax.lax.iota(jnp.uint32, math.prod(shape)).reshape(shape)), axis=-1))


def _random_bits(key: Words, width: int, shape: tuple[int, ...]) -> Array:
    size = math.prod(shape)
    if size >= 2**32:
        raise ValueError(f"at most {2**32 - 1} random numbers a call, got shape {shape}")

    def words(counters: Words) -> Array:
        high, low = _block(key, counters)
        if width == 64:
            high, low = high.astype(jnp.uint64) << jnp.uint64(32), low.astype(jnp.uint64)
        return jnp.bitwise_xor(high, low).astype(f"uint{width}")

    return _in_halves(words, size).reshape(shape)


def _in_halves(numbers: Callable[[Words], Array], size: int) -> Array:
    """Return `numbers` of the counters 0 … size − 1, made in two halves: a loop is where XLA keeps its results.

    It would otherwise repeat the rounds wherever a number is used, such as a row's index, once for each column."""
    half = (size + 1) // 2
    begins = jnp.array([0, half], jnp.uint32)
    halves = jax.lax.map(lambda begin: numbers(begin + jax.lax.iota(jnp.uint32, half)), begins)
    together: Array = halves.reshape(2 * half)[:size]
    return together


def integers_below(key: RandomKey, count: int, bound: int) -> Int32[Array, " n"]:
    """Return `jax.random.randint(key, (count,), 0, bound)`, number for number, for a bound below 2³⁰, without its
    divisions, which take longer than all the rest: XLA divides one number after the other."""
    high_key, low_key = (jax.random.key_data(half) for half in jax.random.split(key))
    factor = ((2**16 % bound) ** 2 % 2**32) % bound  # 0 from 2¹⁶ on: the higher bits then do not matter

    def below(counters: Words) -> Words:
        high, low = (_remainder(jnp.bitwise_xor(*_block(key, counters)), bound) for key in (high_key, low_key))
        return _remainder(high * jnp.uint32(factor) + low, bound) if factor else low

    return _in_halves(below, count).astype(jnp.int32)


def _remainder(x: Words, bound: int) -> Words:
    """Return x mod bound (Barrett 1986): the quotient by a product with 2³²/bound is at most 2 too small."""
    rest = x - _high_product(x, 2**32 // bound) * jnp.uint32(bound)
    return jnp.minimum(jnp.minimum(rest, rest - jnp.uint32(bound)), rest - jnp.uint32(2 * bound))


def _high_product(x: Words, y: int) -> Words:
    """Return the upper 32 of the 64 bits of xy; y is below 2³²."""
    x1, x0 = x >> jnp.uint32(16), x & jnp.uint32(0xFFFF)
    y1, y0 = jnp.uint32(y >> 16), jnp.uint32(y & 0xFFFF)
    middle = x1 * y0 + (x0 * y0 >> jnp.uint32(16))
    low: Words = x0 * y1 + (middle & jnp.uint32(0xFFFF)) >> jnp.uint32(16)
    return jnp.add(x1 * y1 + (middle >> jnp.uint32(16)), low)


UNROLLED = define_prng_impl(
    key_shape=(2,),
    seed=_seed,
    split=_split,
    random_bits=_random_bits,
    fold_in=_fold_in,  # type: ignore[arg-type]  # it gets an array, whatever its stub says
    name="threefry2x32-unrolled",
    tag="unrolled",
)
