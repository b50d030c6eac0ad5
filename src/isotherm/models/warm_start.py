"""Near a mode, from a draw of the prior: a short run of Adam (Kingma & Ba 2015) on batches.

A sampler that starts where a network predicts at random finds steep walls and takes tiny steps there.
"""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from isotherm.lib.types import Batch, Params, RandomKey, Scalar
from isotherm.models.model import Model
from isotherm.posterior import Posterior

ADAM_STEPS = 500  # enough for networks of some thousand weights to fit tables as well as they will
ADAM_ROWS = 1024  # of a batch, at most
ADAM_RATE = 0.05  # of a parameter whose prior has standard deviation 1, at first; it falls to zero linearly


def start_near_a_mode(posterior: Posterior, model: Model, data: Batch) -> Callable[[RandomKey], Params]:
    """Return a start for each chain: uphill from a draw of N(0, I)."""
    on_device, scale = jax.device_put(data), np.float32(model.prior_variance**0.5)

    def start(key: RandomKey) -> Params:
        return climb(posterior, model.init(key, scale=1.0), on_device, key, scale)

    return start


@partial(jax.jit, static_argnums=0)
def climb(posterior: Posterior, start: Params, data: Batch, key: RandomKey, scale: np.float32) -> Params:
    """Return parameters of high posterior density; `scale` is the prior's standard deviation."""
    rows = jax.tree.leaves(data)[0].shape[0]
    size = min(rows, ADAM_ROWS)

    def energy(params: Params, batch: Batch) -> Scalar:
        each = jax.vmap(posterior.log_likelihood, in_axes=(None, 0))(params, batch)
        return -(rows / size) * jnp.sum(each) - posterior.log_prior(params)

    def step(carry: tuple[Params, Params, Params], t: jax.Array) -> tuple[tuple[Params, Params, Params], None]:
        params, m, v = carry
        chosen = jax.random.randint(jax.random.fold_in(key, t), (size,), 0, rows)
        batch = data if size == rows else jax.tree.map(lambda column: column[chosen], data)
        g = jax.grad(energy)(params, batch)
        m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, m, g)
        v = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, v, g)

        def moved(p: jax.Array, m: jax.Array, v: jax.Array) -> jax.Array:
            count = (t + 1).astype(p.dtype)
            rate = ADAM_RATE * scale * (1 - t.astype(p.dtype) / ADAM_STEPS)
            return p - rate * (m / (1 - 0.9**count)) / (jnp.sqrt(v / (1 - 0.999**count)) + 1e-8)

        return (jax.tree.map(moved, params, m, v), m, v), None

    zeros = jax.tree.map(jnp.zeros_like, start)
    return jax.lax.scan(step, (start, zeros, zeros), jnp.arange(ADAM_STEPS))[0][0]
