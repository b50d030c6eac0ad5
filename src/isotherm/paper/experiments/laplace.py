"""The mode of a posterior and its Hessian there (the Laplace precision), by SciPy's trust region in float64."""

import threading
from functools import lru_cache, partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import minimize

from isotherm.lib.types import Batch, Params, Scalar
from isotherm.models.model import Model
from isotherm.paper.experiments.tasks import Materials

GRADIENT_TOLERANCE = 1e-5  # standard deviations are about 0.01 on MNIST: the mode is known to 1e-7 of them
_one_at_a_time = threading.Lock()


class Laplace(NamedTuple):
    """Mode (d,) and negative Hessian of the log-posterior there (d, d), float64."""

    mode: np.ndarray
    precision: np.ndarray


def laplace(materials: Materials) -> Laplace:
    """Return the approximation, computed once for the same materials."""
    with _one_at_a_time:
        return _search(materials)


@lru_cache(maxsize=4)
def _search(materials: Materials) -> Laplace:
    """Search from the task's start, for parameters that are one vector."""
    with jax.enable_x64(True):
        data = jax.tree.map(lambda column: jnp.asarray(column, jnp.float64), materials.data)
        loss = jax.jit(lambda position, data: -log_density(materials.model, position, data))
        found = minimize(
            jax.jit(jax.value_and_grad(loss)), np.asarray(materials.init, np.float64), (data,), "trust-exact", jac=True,
            hess=jax.jit(jax.hessian(loss)), options={"gtol": GRADIENT_TOLERANCE},
        )  # fmt: skip
        if not found.success:
            raise ArithmeticError(f"no mode found: {found.message}")
        return Laplace(found.x, np.asarray(found.hess))


@partial(jax.jit, static_argnames="model")
def log_density(model: Model, position: Params, data: Batch) -> Scalar:
    """Return the log-likelihood of all examples plus the log-prior."""
    return jax.vmap(model.log_likelihood, in_axes=(None, 0))(position, data).sum() + model.log_prior(position)
