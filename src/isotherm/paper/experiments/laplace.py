"""The mode of a posterior and its Hessian there (the Laplace precision), by Newton's method in float64."""

import threading
from functools import lru_cache, partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from isotherm.lib.types import Batch, Matrix, Params, Scalar, Vector
from isotherm.models.model import Model
from isotherm.paper.experiments.tasks import Materials

NEWTON_STEPS = 50  # those of MNIST and CIFAR-10 take 5 to 8
_one_at_a_time = threading.Lock()


class Laplace(NamedTuple):
    """Mode (d,) and negative Hessian of the log-posterior there (d, d), float64."""

    mode: np.ndarray
    precision: np.ndarray


def laplace(materials: Materials) -> Laplace:
    """Return the approximation, computed once for the same materials."""
    with _one_at_a_time:
        return _newton(materials)


@lru_cache(maxsize=4)
def _newton(materials: Materials) -> Laplace:
    """Climb from the task's start, for parameters that are one vector; steps are halved until they climb."""
    with jax.enable_x64(True):
        data = jax.tree.map(lambda column: jnp.asarray(column, jnp.float64), materials.data)
        at = jnp.asarray(materials.init, jnp.float64)
        for _ in range(NEWTON_STEPS):
            value, slope, curvature = _expansion(materials.model, at, data)
            move = jnp.linalg.solve(-curvature, slope)
            if float(move @ slope) < 1e-12 * abs(float(value)):
                return Laplace(np.asarray(at), np.asarray(-(curvature + curvature.T) / 2))
            while float(log_density(materials.model, at + move, data)) < float(value):
                move = move / 2
            at = at + move
    raise ArithmeticError(f"no mode found in {NEWTON_STEPS} Newton steps")


@partial(jax.jit, static_argnames="model")
def log_density(model: Model, position: Params, data: Batch) -> Scalar:
    """Return the log-likelihood of all examples plus the log-prior."""
    return jax.vmap(model.log_likelihood, in_axes=(None, 0))(position, data).sum() + model.log_prior(position)


@partial(jax.jit, static_argnames="model")
def _expansion(model: Model, position: Vector, data: Batch) -> tuple[Scalar, Vector, Matrix]:
    value, slope = jax.value_and_grad(log_density, argnums=1)(model, position, data)
    return value, slope, jax.hessian(log_density, argnums=1)(model, position, data)
