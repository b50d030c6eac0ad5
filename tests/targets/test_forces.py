"""Forces at draws from few rows: right on average, with little noise, in coordinates where the curvature is 1."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.nn import log_sigmoid

from isotherm import Posterior
from isotherm.lib.progress import Passes
from isotherm.targets.forces import FORCE_NOISE, FORCE_ROWS, forces_at

N, D = 2000, 4


def log_likelihood(params, example):
    return log_sigmoid(example["y"] * (example["x"] @ params["slope"] + params["offset"]))


def log_prior(params):
    return -0.5 * (jnp.sum(params["slope"] ** 2) + params["offset"] ** 2)


POSTERIOR = Posterior(log_likelihood, log_prior)
INIT = {"offset": np.float32(0), "slope": np.zeros(D - 1, np.float32)}


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((N, D - 1)) * [1, 10, 0.1]
    y = np.where(rng.random(N) < 1 / (1 + np.exp(-x @ [0.5, 0.05, -5] - 1)), 1, -1)
    return {"x": x.astype(np.float32), "y": y.astype(np.float32)}


def exact_forces(flat, data):
    def log_density(theta):
        params = {"offset": theta[0], "slope": theta[1:]}
        return jax.vmap(log_likelihood, (None, 0))(params, data).sum() + log_prior(params)

    return np.asarray(jax.vmap(jax.grad(log_density))(jnp.asarray(flat, jnp.float32)), np.float64)


@pytest.fixture(scope="module")
def draws():
    """Two chains of positions about as far from their mean as posterior draws are, and the mean a bit off the mode."""
    rng = np.random.default_rng(1)
    spread = np.array([0.06, 0.06, 0.006, 0.6])
    return np.array([1, 0.5, 0.05, -5]) + spread * rng.standard_normal((2, 10, D))


def forces(draws, data, seed=0):
    passes = Passes(N, show=False)
    made = forces_at(draws, draws.mean(axis=(0, 1)), POSTERIOR, INIT, data, np.random.default_rng(seed), passes)
    return *made, passes


def test_positions_are_the_draws(draws, data):
    z, F, factor, _ = forces(draws, data)
    assert z.shape == F.shape == draws.shape
    np.testing.assert_allclose(draws.mean(axis=(0, 1)) + z @ factor.T, draws, atol=1e-4)


def test_on_average_over_batches_they_are_the_exact_forces(draws, data):
    """All draws at one place: the mean over their batches, and its error from the spread between them."""
    place = draws[0, 0]
    many = np.broadcast_to(place, (2, 400, D)) + 0.0
    many[0, 0], many[1, 0] = draws[1, 0], draws[1, 1]  # a spread, from which the scales are taken
    passes = Passes(N, show=False)
    _, F, factor = forces_at(many, draws.mean(axis=(0, 1)), POSTERIOR, INIT, data, np.random.default_rng(0), passes)
    here = F[:, 1:].reshape(-1, D)
    expected = exact_forces(place[None], data)[0] @ factor
    error = here.std(axis=0) / np.sqrt(len(here))
    assert (error > 0).all()
    # Five standard errors, and the rounding of float32 sums over 2,000 rows.
    np.testing.assert_array_less(abs(here.mean(axis=0) - expected), 5 * error + 1e-3)


def test_noise_is_small_beside_the_force(draws, data):
    _, F, factor, _ = forces(draws, data)
    noise = F - (exact_forces(draws.reshape(-1, D), data) @ factor).reshape(draws.shape)
    # Its variance is at most FORCE_NOISE in the noisiest direction; 80 numbers know it to √(2/80) = 16 %, four times.
    assert noise.var() < 1.6 * FORCE_NOISE
    assert abs(noise.mean()) < 5 * noise.std() / np.sqrt(noise.size)


def test_where_half_of_the_rows_would_be_needed_each_is_used_once(draws, data):
    """Batches of most of the rows have noise of weights that are far from 1, which few draws do not average out."""
    few = {name: column[: 2 * FORCE_ROWS - 1] for name, column in data.items()}
    passes = Passes(len(few["y"]), show=False)
    _, F, factor = forces_at(draws, draws.mean(axis=(0, 1)), POSTERIOR, INIT, few, np.random.default_rng(0), passes)
    expected = (exact_forces(draws.reshape(-1, D), few) @ factor).reshape(draws.shape)
    np.testing.assert_allclose(F, expected, atol=1e-4)  # float32 sums over 127 rows, of size 1
    assert passes.seen >= len(few["y"]) * (3 + draws.shape[0] * draws.shape[1])


def test_curvature_is_one_in_the_coordinates(draws, data):
    _, _, factor, _ = forces(draws, data)
    center = draws.mean(axis=(0, 1))
    step = 1e-2
    there = np.concatenate([center + step * factor.T, center - step * factor.T])
    F = exact_forces(there, data) @ factor
    K = -(F[:D] - F[D:]) / (2 * step)
    # All rows are used here; float32 forces of size 1, over steps of 0.02, know a curvature to some percent.
    np.testing.assert_allclose(K, np.eye(D), atol=0.1)


def test_passes_are_counted(draws, data):
    *_, passes = forces(draws, data)
    assert passes.seen >= 3 * N + FORCE_ROWS * draws.shape[0] * draws.shape[1]
    assert passes.done == passes.seen / N


def test_same_seed_same_forces(draws, data):
    first, again, other = (forces(draws, data, seed)[1] for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_a_parameter_that_never_moves_has_coordinates(draws, data):
    still = draws.copy()
    still[..., 2] = 0.05
    z, F, factor, _ = forces(still, data)
    assert all(np.isfinite(array).all() for array in (z, F, factor))
