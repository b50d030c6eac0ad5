"""The compiled loop: each chain for itself, moments of every step, any precision."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import isotherm
from isotherm.run import loop
from isotherm.run.plan import Plan
from isotherm.samplers.settings import NAMES as SAMPLERS


def test_chains_differ_and_one_alone_is_the_first_of_many(sample, flat):
    """To rounding: products of one and of many chains may add in another order; 300 contracting steps keep it small."""
    many, one = flat(sample(chains=3)), flat(sample(chains=1))
    np.testing.assert_allclose(many[:1], one, rtol=1e-3, atol=1e-4)
    assert np.abs(many[0] - many[1]).max() > 1e-2


@pytest.mark.usefixtures("float64")
def test_every_chain_equals_itself_run_alone(make, data, init):
    """In double precision, each of three chains against its own key alone, to 1e-10."""
    data, init = (jax.tree.map(np.float64, tree) for tree in (data, init))
    sampler, plan = isotherm.sgnht(0.02), Plan(100, 0, 1)
    run = make(sampler, data=data, init=init, seed=9)

    def positions(which):
        ids = loop.ChainIds(np.uint32(1), np.arange(3, dtype=np.uint32)[which])
        carry = loop.start(sampler, run.data, run.starts[which], ids, run.evaluation)
        return loop.advance(sampler, carry, run.data, ids, plan, (0, 100), run.evaluation, 100)[1]["position"]

    together = positions(slice(None))
    for chain in range(3):
        alone = positions(slice(chain, chain + 1))[:, 0]
        np.testing.assert_allclose(alone, together[:, chain], rtol=1e-10, atol=1e-10)


def test_moments_are_those_of_every_step(sample, flat):
    """Against all the steps themselves; float32 sums, relative to the spread."""
    tree = sample(thin=1)
    draws = flat(tree).astype(np.float64)
    mean = np.concatenate([tree.posterior_mean.offset.values[:, None], tree.posterior_mean.slope.values], axis=1)
    variance = np.concatenate(
        [tree.posterior_variance.offset.values[:, None], tree.posterior_variance.slope.values], axis=1
    )
    np.testing.assert_allclose(mean, draws.mean(1), atol=1e-5 * draws.std())
    np.testing.assert_allclose(variance, draws.var(1), rtol=1e-4)
    thinned = sample(thin=50)
    np.testing.assert_array_equal(thinned.posterior_mean.slope, tree.posterior_mean.slope)
    np.testing.assert_array_equal(flat(thinned), flat(tree)[:, 49::50])


@pytest.mark.slow
@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize(("name", "dtype"), [*((name, np.float32) for name in SAMPLERS), ("eccadl", np.float64)])
def test_every_sampler_runs_with_64_bits(posterior, data, init, flat, name, dtype):
    """A step's number is a 32-bit integer there, too: eCCAdL once waited for ever for its next renewal."""
    data, init = (jax.tree.map(dtype, tree) for tree in (data, init))
    sampler = getattr(isotherm, name)(1e-3)
    tree = isotherm.sample(posterior, sampler, data, init, batch_size=20, steps=70, thin=10, chains=2, progress=False)
    assert tree.posterior.slope.dtype == dtype
    assert np.isfinite(flat(tree)).all()


def test_moments_about_a_reference_keep_their_digits():
    """Far from 0, where float32 has no digits left for squares; before burn-in ends nothing is counted."""
    positions = 1e4 + np.random.default_rng(0).standard_normal((50, 2, 3)).astype(np.float32)
    zeros = jnp.zeros((2, 3))
    moments = loop.Moments(zeros, zeros, zeros)
    for step, position in enumerate(positions):
        moments = moments.update(jnp.asarray(position), jnp.asarray(step + 1 - 20, jnp.int32))
    counted = positions[20:].astype(np.float64)
    np.testing.assert_array_equal(moments.reference, positions[20])
    mean = np.float64(moments.reference) + np.float64(moments.mean)
    np.testing.assert_allclose(mean, counted.mean(0), rtol=0, atol=1e-5)  # 30 roundings of numbers near 1
    np.testing.assert_allclose(moments.variance, counted.var(0), rtol=1e-4)


def test_a_position_whose_square_overflows_has_diverged():
    for dtype in (jnp.float32, jnp.bfloat16):
        edge = loop.largest(jnp.dtype(dtype))
        assert np.isfinite(np.asarray(edge, dtype) * np.asarray(edge, dtype))
        assert 4.1 * edge * 4.1 * edge > float(jnp.finfo(dtype).max)
    assert loop.largest(jnp.dtype(jnp.float16)) == 65504


def test_one_chain_is_not_made_to_look_like_many():
    seen = []

    def shape_of(x):
        seen.append(type(x).__name__)
        return x.sum()

    np.testing.assert_array_equal(loop.over_chains(shape_of)(jnp.ones((1, 3))), [3])
    np.testing.assert_array_equal(loop.over_chains(shape_of)(jnp.ones((2, 3))), [3, 3])
    assert "Batch" not in seen[0]
    assert "Batch" in seen[1]
