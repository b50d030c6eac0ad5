"""Our samplers in a loop of one's own, as BlackJAX has them."""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import isotherm
from isotherm.targets.noisy import estimate
from isotherm.targets.target import Target

blackjax = pytest.importorskip("blackjax")
N, n = 1_000, 100
ROWS = np.random.default_rng(0).standard_normal((N, 2)).astype(np.float32) + np.float32([1, -1])
POSTERIOR = isotherm.Posterior(
    lambda params, row: -0.5 * jnp.sum((row - params["mean"]) ** 2), lambda params: -0.5 * jnp.sum(params["mean"] ** 2)
)
START = {"mean": jnp.zeros(2)}
SAMPLERS = {
    "sgld": isotherm.sgld(1e-4),
    "sgnht": isotherm.sgnht(1e-2, friction=10.0),
    "mccadl": isotherm.mccadl(1e-2, friction=10.0),
    "eccadl": isotherm.eccadl(),
}


def run(algorithm, steps, seed=0):
    """Positions of a chain that draws its own minibatches."""

    def one(state, key):
        rows_key, step_key = jax.random.split(key)
        batch = jnp.asarray(ROWS)[jax.random.randint(rows_key, (n,), 0, N)]
        state = algorithm.step(step_key, state, batch)
        return state, state.position["mean"]

    keys = jax.random.split(jax.random.key(seed), steps + 1)
    return jax.jit(lambda: jax.lax.scan(one, algorithm.init(START, keys[0], jnp.asarray(ROWS[:n])), keys[1:])[1])()


@pytest.mark.parametrize("name", SAMPLERS)
def test_a_step_is_the_samplers(name):
    """From the same state, on the same batch, with the same key."""
    sampler = SAMPLERS[name]
    algorithm = isotherm.bridges.blackjax.algorithm(POSTERIOR, sampler, N)
    assert isinstance(algorithm, blackjax.base.SamplingAlgorithm)
    state = jax.jit(algorithm.init)(START, jax.random.key(0), ROWS[:n])
    after = jax.jit(algorithm.step)(jax.random.key(1), state, ROWS[n : 2 * n])
    key, _ = jax.random.split(jax.random.key(1))
    target = Target(POSTERIOR.log_likelihood, POSTERIOR.log_prior, lambda flat: {"mean": flat})

    @jax.jit
    def expected(state):
        batch = jnp.asarray(ROWS[n : 2 * n])
        noisy = estimate(target, state.position, batch, population=N)
        return sampler.step(key, state, noisy).position

    np.testing.assert_allclose(after.position["mean"], expected(state.sampler), rtol=1e-5)
    assert after.sampler.step == 1


def test_the_step_size_of_a_step():
    algorithm = isotherm.bridges.blackjax.algorithm(POSTERIOR, isotherm.sgld(1.0), N)
    state = algorithm.init(START, jax.random.key(0), ROWS[:n])
    small = algorithm.step(jax.random.key(1), state, ROWS[:n], 1e-8)
    assert abs(small.position["mean"]).max() < 1e-2
    assert abs(algorithm.step(jax.random.key(1), state, ROWS[:n]).position["mean"]).max() > 100


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mccadl", "eccadl"])
def test_moments(name):
    """The posterior is N(Σx/(N+1), 1/(N+1)). Steps of mccadl remember about 1/(hA·…) = 100 others, so 20,000 steps have
    some 200 independent draws: the mean is known to 0.07 standard deviations, the standard deviation to 5 %; four of
    those."""
    algorithm = isotherm.bridges.blackjax.algorithm(POSTERIOR, SAMPLERS[name], N)
    draws = np.asarray(run(algorithm, 20_000))[2_000:]
    scale = (N + 1) ** -0.5
    np.testing.assert_allclose(draws.mean(axis=0), ROWS.sum(axis=0) / (N + 1), atol=4 * 0.07 * scale)
    np.testing.assert_allclose(draws.std(axis=0), scale, rtol=4 * 0.05)


def test_refusals(monkeypatch):
    data = {"x": ROWS}
    posterior = isotherm.Posterior(
        lambda mean, row: -0.5 * jnp.sum((row["x"] - mean) ** 2), lambda mean: -0.5 * jnp.sum(mean**2)
    )
    anchored = isotherm.anchor(posterior, data, jnp.zeros(2))
    with pytest.raises(ValueError, match=r"an anchored posterior draws its rows itself: use isotherm\.sample"):
        isotherm.bridges.blackjax.algorithm(anchored, isotherm.sgld(1.0), N)
    with pytest.raises(TypeError, match="sampler must be a sampler"):
        isotherm.bridges.blackjax.algorithm(POSTERIOR, None, N)
    monkeypatch.setitem(sys.modules, "blackjax.base", None)
    with pytest.raises(ModuleNotFoundError, match=r"needs blackjax: pip install 'isotherm\[blackjax\]'"):
        isotherm.bridges.blackjax.algorithm(POSTERIOR, isotherm.sgld(1.0), N)
