"""Small regressions with known modes, and sums over their rows."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import isotherm
from isotherm.targets.newton import RowSums
from isotherm.targets.parameters import flattening
from isotherm.targets.target import Coordinates, Target

RNG = np.random.default_rng(0)
ROWS, SCALES = 700, np.array([1e-2, 1.0, 1e2])
X = RNG.standard_normal((ROWS, 3)) * SCALES
DATA = {
    "x": X.astype(np.float32),
    "y": np.sign(X @ ([1.0, -1.0, 0.5] / SCALES) + RNG.logistic(size=ROWS)).astype(np.float32),
}


def log_likelihood(params, example):
    return jax.nn.log_sigmoid(example["y"] * (example["x"] @ params["w"] + params["b"]))


def log_prior(params):
    return -0.5 * (jnp.sum((params["w"] * jnp.asarray(SCALES, params["w"].dtype)) ** 2) / 25 + params["b"] ** 2)


POSTERIOR = isotherm.Posterior(log_likelihood, log_prior)
INIT = {"w": np.zeros(3, np.float32), "b": np.zeros((), np.float32)}


@pytest.fixture(scope="session")
def badly_scaled():
    """Posterior, data and start of a logistic regression whose columns have scales from 1e-2 to 1e2."""
    return POSTERIOR, DATA, INIT


@pytest.fixture(scope="session")
def sums():
    """A function that makes the sums of a model over its rows, and coordinates in which θ = θ̂ + z at a start."""

    def made(posterior, data, init, **changed):
        dtype, unravel = flattening(init)
        start = np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(init)]).astype(dtype)
        target = Target(posterior.log_likelihood, posterior.log_prior, unravel)
        return RowSums(target, data, **changed), Coordinates(start, np.eye(start.size, dtype=dtype))

    return made


@pytest.fixture(scope="session")
def laplace():
    """A function that finds the mode of a model from a start by Newton's method in float64, undamped; and the
    covariance there. Flat."""

    def found(posterior, data, init, steps=30):
        _, unravel = flattening(init)
        with jax.enable_x64(True):
            data = jax.tree.map(lambda column: jnp.asarray(as_double(column)), data)
            theta = jnp.concatenate([jnp.ravel(jnp.asarray(leaf, jnp.float64)) for leaf in jax.tree.leaves(init)])

            def params(flat):
                shaped = jax.eval_shape(unravel, jax.ShapeDtypeStruct(flat.shape, np.float32))
                leaves, structure = jax.tree.flatten(shaped)
                cuts = np.cumsum([leaf.size for leaf in leaves])[:-1]
                parts = jnp.split(flat, cuts)
                return structure.unflatten([part.reshape(leaf.shape) for part, leaf in zip(parts, leaves, strict=True)])

            @jax.jit
            def derivatives(flat):
                def log_posterior(flat):
                    rows = jax.vmap(posterior.log_likelihood, in_axes=(None, 0))(params(flat), data)
                    return jnp.sum(rows) + posterior.log_prior(params(flat))

                return jax.grad(log_posterior)(flat), jax.hessian(log_posterior)(flat)

            for _ in range(steps):
                gradient, hessian = derivatives(theta)
                theta -= jnp.linalg.solve(hessian, gradient)
            return np.asarray(theta), np.linalg.inv(-np.asarray(derivatives(theta)[1]))

    return found


def as_double(column):
    column = np.asarray(column)
    return column.astype(np.float64) if column.dtype.kind == "f" else column
