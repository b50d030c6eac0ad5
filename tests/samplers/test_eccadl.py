"""eCCAdL: when its covariance is renewed, what protects a far start, what it picks by itself, what memory it takes."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import isotherm
from isotherm.models import MLP
from isotherm.run import loop
from isotherm.run.assemble import RunSettings, assemble
from isotherm.run.plan import Plan
from isotherm.targets.noisy import estimate
from isotherm.targets.target import as_target


@pytest.mark.parametrize(
    ("sampler", "parameters", "following"),
    [
        (isotherm.eccadl(every=20), 20, 140),
        (isotherm.eccadl(), 20, 150),
        (isotherm.eccadl(), 100, 200),
        (isotherm.eccadl(), 2000, 130),
        (isotherm.eccadl(covariance="diagonal"), 100, 136),
    ],
)
def test_how_often_the_covariance_is_renewed(sampler, parameters, following):
    """A d×d matrix is decomposed once in d steps, at least 50; others are renewed every 5, or 16 times while the steps
    double."""
    assert 129 + int(sampler.steps_to_renewal(jnp.int32(129), parameters)) == following


@pytest.mark.parametrize("dtype", [jnp.float16, jnp.bfloat16])
@pytest.mark.parametrize("covariance", ["dense", "low_rank", "diagonal"])
def test_parameters_of_16_bits_are_refused(dtype, covariance):
    posterior = isotherm.Posterior(lambda theta, x: -jnp.sum((x - theta) ** 2), lambda theta: -jnp.sum(theta**2))
    sampler, data, init = isotherm.eccadl(covariance=covariance), np.ones((9, 2), dtype), jnp.zeros(2, dtype)
    words = rf"init must have 32 or 64 bits for eccadl, got dtype {jnp.dtype(dtype).name}; convert it"
    with pytest.raises(TypeError, match=words):
        isotherm.sample(posterior, sampler, data, init, batch_size=3, steps=20, progress=False)


@pytest.mark.parametrize("parameters", [1, *(pytest.param(d, marks=pytest.mark.slow) for d in (2, 6))])
def test_large_steps_keep_the_shape_of_few_parameters(parameters):
    """At h = 1, the step of an anchored posterior: a Gaussian has kurtosis 3, and 38.3 % within half a standard
    deviation. A thermostat with the mass of so few particles is not resolved by such steps: with it the kurtosis was
    36, 5.7 and 3.5, with variances that were right. The error of the kurtosis is 0.01 to 0.03."""
    rows = np.random.default_rng(0).standard_normal((8, parameters))
    posterior = isotherm.Posterior(lambda t, x: -jnp.sum((t - x) ** 2) / 16, lambda t: 0 * jnp.sum(t))
    settings = {"batch_size": 8, "replace": False, "steps": 20_000, "burn_in": 0.05, "thin": 2, "progress": False}
    data, init = (rows - rows.mean(axis=0)).astype(np.float32), np.zeros(parameters, np.float32)
    tree = isotherm.sample(posterior, isotherm.eccadl(1.0), data, init, **settings)
    draws = tree.posterior.theta.values.astype(np.float64)
    assert abs(np.mean(draws**4) / np.mean(draws**2) ** 2 - 3) < 0.12
    assert abs(np.mean(abs(draws) < 0.5) - 0.383) < 0.01
    assert abs(np.mean(draws**2) - 1) < 0.05
    assert abs(float(tree.sample_stats.friction.mean()) - 1) < 0.05


@pytest.mark.parametrize("inflation", [1.0, 9.0], ids=["near", "far"])
def test_far_from_the_mode_less_noise_counts_against_the_curvature(inflation):
    """h at "auto" is bounded by the largest eigenvalue of K − S/(8·inflation), where K = 21I and S = cI, c about 57."""
    rows = jnp.asarray(list(itertools.product([-1.0, 1.0], repeat=3)), jnp.float32)
    posterior = as_target(isotherm.Posterior(lambda t, x: -jnp.sum((t - x) ** 2) / 2, lambda t: -jnp.sum(t**2) / 2))
    sampler, key, noisy = isotherm.eccadl(), jax.random.key(0), estimate(posterior, jnp.zeros(3), rows, population=20)
    state = sampler.init(key, jnp.zeros(3), noisy)
    memory = state.memory._replace(inflation=jnp.float32(inflation))
    found = sampler.renew(key, state._replace(memory=memory), noisy, jnp.int32(1)).memory.estimate
    np.testing.assert_allclose(found.curvature, 21 * np.eye(3), rtol=1e-5, atol=1e-4)
    np.testing.assert_allclose(found.stiffness, 21 - found.average[0, 0] / (8 * inflation), rtol=1e-4)


N, d, n = 5000, 20, 250
rng = np.random.default_rng(0)
SCALES = np.geomspace(1, 30, d)
TRUTH = rng.standard_normal(d) / SCALES
X = (rng.standard_normal((N, d)) * SCALES).astype(np.float32)
Y = np.where(rng.random(N) < 1 / (1 + np.exp(-X @ TRUTH)), 1, -1).astype(np.float32)
POSTERIOR = isotherm.Posterior(
    lambda theta, example: jax.nn.log_sigmoid(example["y"] * (example["x"] @ theta)),
    lambda theta: -0.5 * jnp.sum(theta**2),
)


def sampled(init, step_size, steps=1500):
    start, settings = jnp.asarray(init, jnp.float32), {"batch_size": n, "chains": 2, "progress": False}
    sampler, data = isotherm.eccadl(step_size), {"x": X, "y": Y}
    burn_in = 1 - 600 / steps
    tree = isotherm.sample(POSTERIOR, sampler, data, start, steps=steps, burn_in=burn_in, thin=5, **settings)
    return tree.posterior.theta.values.reshape(-1, d)


@pytest.mark.slow
@pytest.mark.parametrize(("step_size", "steps"), [("auto", 1500), (1.0, 3000)])
def test_a_far_start_comes_home(step_size, steps):
    """From 20 times the mode's opposite, 293 standard deviations away, most labels are wrong with certainty: S is far
    larger than near the mode, and there is no curvature. The mean of the last 600 steps is right within the error of
    their number, about 40 independent ones; it was off by 1.7 standard deviations once. At "auto" all of 20 chains are
    home after 900 steps; of those that were given a step that is too large far away, one in ten needs 1,500."""
    near, far = sampled(TRUTH, 0.1), sampled(-20 * TRUTH, step_size, steps)
    assert np.sqrt(np.mean(((far.mean(0) - near.mean(0)) / near.std(0)) ** 2)) < 0.5


@pytest.mark.slow
def test_the_thermostat_does_not_wind_up_on_a_long_way_down():
    """A linear regression whose coefficients are 10, from 0: 450 standard deviations away. ξ, which loses 1 in a unit
    of time at most, once took up 166, and the variance was a third of what it should be for a long time."""
    x = rng.standard_normal((2000, 10)).astype(np.float32)
    data = {"x": x, "y": (x @ np.full(10, 10.0) + rng.standard_normal(2000)).astype(np.float32)}
    posterior = isotherm.Posterior(
        lambda b, row: -0.5 * (row["y"] - row["x"] @ b) ** 2, lambda b: -0.05 * jnp.sum(b**2)
    )
    tree = isotherm.sample(
        posterior,
        isotherm.eccadl(),
        data,
        jnp.zeros(10),
        batch_size=100,
        passes=300,
        burn_in=1 / 3,
        thin=2,
        progress=False,
    )
    draws, H = tree.posterior.theta.values.reshape(-1, 10).astype(float), x.T @ x.astype(float) + 0.1 * np.eye(10)
    assert abs(np.trace(H @ np.cov(draws.T)) / 10 - 1) < 0.05  # 1,600 independent draws of ten: 1.1 %
    error = draws.mean(0) - np.linalg.solve(H, x.T @ data["y"].astype(float))
    assert np.sqrt(error @ H @ error / 10) < 0.1
    assert abs(tree.sample_stats.friction.mean() - 1) < 0.5


@pytest.mark.slow
def test_the_friction_outweighs_the_noise_that_a_low_rank_estimate_does_not_see():
    """A is r(h/2)ρ, with r = 5 for a noise whose standard deviation is half its mean, and ξ moves with it."""
    sampler = isotherm.eccadl(0.003, covariance="low_rank", rank=4)
    tree = isotherm.sample(
        POSTERIOR, sampler, {"x": X, "y": Y}, jnp.asarray(TRUTH, jnp.float32), batch_size=n, steps=3000, progress=False
    )
    assert float(tree.sample_stats.friction.min()) > 100
    np.testing.assert_allclose(tree.sample_stats.kinetic_temperature.mean(), 1, atol=0.1)


@pytest.mark.slow
def test_directions_outside_a_low_rank_estimate_have_about_the_right_variance():
    """18 directions outside the span have half and 18 one and a half times the mean noise. A friction of that mean
    alone would leave their variances at 0.6 and 1.4; with r = 5 the errors are 0.5/6 = 8 %. The means over 18
    directions of four chains of 40,000 steps, which relax in 120, are known to 2 %."""
    size, rows, rng = 40, 4000, np.random.default_rng(3)
    scales = np.sqrt([*[20.0] * 4, *[0.5, 1.5] * 18])
    x = (rng.standard_normal((rows, size)) * scales).astype(np.float32)
    data = {"x": x, "y": rng.standard_normal(rows).astype(np.float32)}
    posterior = isotherm.Posterior(
        lambda theta, example: -0.5 * (example["y"] - example["x"] @ theta) ** 2,
        lambda theta: -0.05 * jnp.sum(theta**2),
    )
    sampler = isotherm.eccadl(covariance="low_rank", rank=4)
    tree = isotherm.sample(
        posterior, sampler, data, jnp.zeros(size), batch_size=100, steps=40_000, thin=20, burn_in=0.1, progress=False
    )
    draws, H = tree.posterior.theta.values.reshape(-1, size).astype(float), x.T.astype(float) @ x + 0.1 * np.eye(size)
    right = draws.var(axis=0) / np.diagonal(np.linalg.inv(H))
    np.testing.assert_allclose([right[4::2].mean(), right[5::2].mean()], 1, atol=0.15)
    np.testing.assert_allclose(right.mean(), 1, atol=0.06)


@pytest.mark.slow
def test_auto_leaves_the_noise_that_a_low_rank_estimate_does_not_see_to_the_friction():
    """r(h/2)ρ is at most A, so a tenth of the friction gives a tenth of the step."""
    data, found = {"x": X, "y": Y}, {}
    for friction in (1e-3, 1e-4, 0.0):
        sampler = isotherm.eccadl("auto", friction, covariance="low_rank", rank=4)
        tree = isotherm.sample(
            POSTERIOR, sampler, data, jnp.zeros(d), batch_size=n, steps=1, thin=1, burn_in=0, chains=1, progress=False
        )
        found[friction] = float(tree.sample_stats.step_size[0, 0])
    np.testing.assert_allclose(found[1e-3] / found[1e-4], 10, rtol=0.2)  # one renewal lies between start and step
    assert found[0.0] > found[1e-3]


@pytest.mark.slow
def test_a_call_that_begins_between_renewals_computes_none(monkeypatch):
    """A renewal costs as much as many steps, and how many steps a call makes follows the clock."""
    asked, renew, sampler = [], type(isotherm.eccadl()).renew, isotherm.eccadl(1e-3, covariance="low_rank", rank=2)

    def counted(self, key, state, noisy, step):
        jax.debug.callback(lambda step: asked.append(int(step)), step)
        return renew(self, key, state, noisy, step)

    monkeypatch.setattr(type(sampler), "renew", counted)
    data, settings = {"x": X[:, :7], "y": Y}, {"batch_size": n, "replace": True, "chains": 1, "seed": 0, "name": None}
    run = assemble(POSTERIOR, sampler, data, jnp.zeros(7), RunSettings(**settings))
    ids = loop.ChainIds(np.uint32(1), np.arange(1, dtype=np.uint32))
    carry = loop.start(sampler, run.data, run.starts, ids, run.evaluation)
    for step in range(12):
        carry, _ = loop.advance(sampler, carry, run.data, ids, Plan(100, 0, 10), (step, step + 1), run.evaluation, 2)
    jax.block_until_ready(carry)
    jax.effects_barrier()
    assert asked == [0, 1, 2, 4, 5, 8, 10]


@pytest.mark.slow
@pytest.mark.parametrize("rank", [8, 24])
def test_memory_of_low_rank_is_the_basis_and_a_few_copies(rank):
    """At most rank + 18 copies of θ, of which five are θ, p and the moments; the record of draws is beside that. There
    are more rows than could be evaluated at once in as much memory."""
    model = MLP(200, 500, 10, prior_variance=1.0)
    data = {"x": np.zeros((20_000, 200), np.float32), "y": np.zeros(20_000, np.int32)}
    posterior, sampler = isotherm.Posterior(model.log_likelihood, model.log_prior), isotherm.eccadl(1e-3, rank=rank)
    settings = {"batch_size": 10, "replace": True, "chains": 1, "seed": 0, "name": None}
    run = assemble(posterior, sampler, data, model.init(jax.random.key(0)), RunSettings(**settings))
    size, ids = run.starts.size, loop.ChainIds(np.uint32(1), np.arange(1, dtype=np.uint32))
    assert size > 100_000
    carry = jax.eval_shape(lambda: loop.start(sampler, run.data, run.starts, ids, run.evaluation))
    slots, plan = 2, Plan(100, 0, 10)
    lowered = loop.advance.lower(sampler, carry, run.data, ids, plan, (0, 10), run.evaluation, slots)
    use = lowered.compile().memory_analysis()
    copies = (use.temp_size_in_bytes + use.output_size_in_bytes) / (4 * size) - slots
    assert rank + 5 < copies <= rank + 18
