import jax.numpy as jnp
import numpy as np
import pytest

import isotherm
from isotherm.lib.progress import Passes
from isotherm.targets.forces import Forces, forces_at

N, d = 3000, 3
RNG = np.random.default_rng(0)
X = RNG.standard_normal((N, d)).astype(np.float32)
DATA = {"x": X, "y": (X @ np.float32([1, 2, 3]) + RNG.standard_normal(N)).astype(np.float32)}
POSTERIOR = isotherm.Posterior(
    lambda theta, row: -0.5 * (row["y"] - row["x"] @ theta) ** 2, lambda theta: -0.5 * jnp.sum(theta**2)
)
K = X.T.astype(float) @ X + np.eye(d)
MEAN = np.linalg.solve(K, X.T.astype(float) @ DATA["y"])
DRAWS = RNG.multivariate_normal(MEAN, np.linalg.inv(K), (4, 50))


@pytest.fixture(name="passes")
def _passes():
    with Passes(N, show=False) as passes:
        yield passes


def test_forces_are_those_of_the_posterior_on_average(passes):
    z, forces, factor = forces_at(DRAWS, DRAWS.mean((0, 1)), POSTERIOR, jnp.zeros(d), DATA, RNG, passes)
    exact = -(DRAWS - MEAN) @ K @ factor
    np.testing.assert_allclose(factor @ factor.T @ K, np.eye(d), atol=1e-3)  # float32, and all rows
    np.testing.assert_allclose(z @ factor.T + DRAWS.mean((0, 1)), DRAWS, rtol=1e-5)
    off = (forces - exact).reshape(-1, d)
    assert (off.var(axis=0) < 1).all()  # FORCE_NOISE is 0.5
    assert (abs(off.mean(axis=0)) < 4 * off.std(axis=0) / np.sqrt(len(off))).all()


def test_once_made_they_are_computed_anywhere(passes):
    forces = Forces.around(MEAN, np.ones(d), POSTERIOR, jnp.zeros(d), DATA, RNG, passes)
    z = forces.positions(DRAWS)
    before = passes.seen
    few, many = forces.at(z, 64), forces.at(z[:, :2], 4096)
    assert passes.seen - before == 200 * 64 + 8 * 4096
    assert few.shape == z.shape
    exact = -(DRAWS - MEAN) @ K @ forces.factor
    np.testing.assert_allclose(many, exact[:, :2], atol=0.3)  # the noise of one row has a variance of about 3: ± 0.03
    assert 64 <= forces.quiet_size(z) < N
