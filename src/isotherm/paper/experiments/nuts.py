"""The reference that other samplers are compared with: the posterior by BlackJAX's NUTS on all the data.

NUTS runs in coordinates whitened by the Laplace approximation, from the mode, with unit mass: only its step size is
adapted. The reference's own Monte Carlo error comes from batch means.
"""

import time
from importlib.util import find_spec

import jax
import jax.numpy as jnp
import numpy as np

from isotherm.lib.optional import extra
from isotherm.lib.types import Json, Scalar, Vector
from isotherm.paper.experiments import metrics
from isotherm.paper.experiments.laplace import laplace, log_density
from isotherm.paper.experiments.tasks import Materials

WARMUP = 300  # steps in which only a step size is found: the coordinates are whitened already
PURPOSE = "the reference posterior"
BATCHES = 20  # of consecutive draws: the 2,000 of MNIST give batches of 100


def available() -> bool:
    return find_spec("blackjax") is not None


def measure(materials: Materials, draws: int, seed: int = 0) -> Json:
    """Return metrics and moments of `draws` of NUTS, the standard error of the expected log loss and the time taken."""
    began = time.perf_counter()
    positions = draw(materials, draws, seed)
    values, _, moments = metrics.of_classifier(positions, materials, 0.0, most=draws)
    losses = [metrics.predictive(part, materials)["expected_log_loss"] for part in np.array_split(positions, BATCHES)]
    return {
        "metrics": values,
        "moments": moments,
        "standard_error": float(np.std(losses, ddof=1) / np.sqrt(BATCHES)),
        "seconds": time.perf_counter() - began,
    }


# BlackJAX's own code relies on the promotions that a strict user may have switched off.
@jax.numpy_dtype_promotion("standard")
@jax.numpy_rank_promotion("allow")
def draw(materials: Materials, draws: int, seed: int) -> np.ndarray:
    """Draw (draws, d), float32."""
    with extra("paper", PURPOSE):
        import blackjax  # type: ignore[import-untyped]
    around = laplace(materials)
    values, vectors = np.linalg.eigh(around.precision)
    mode = jnp.asarray(around.mode, jnp.float32)
    spread = jnp.asarray(vectors / np.sqrt(values), jnp.float32)
    data = jax.tree.map(jnp.asarray, materials.data)

    def density(whitened: Vector) -> Scalar:
        return log_density(materials.model, mode + spread @ whitened, data)

    warm_key, key = jax.random.split(jax.random.key(seed))
    warmup = blackjax.window_adaptation(blackjax.nuts, density)
    (state, adapted), _ = warmup.run(warm_key, jnp.zeros_like(mode), num_steps=WARMUP)
    kernel = blackjax.nuts(density, adapted["step_size"], jnp.ones_like(mode))

    sampled = jax.jit(lambda state, keys: jax.lax.scan(lambda s, k: (kernel.step(k, s)[0],) * 2, state, keys)[1])
    whitened = sampled(state, jax.random.split(key, draws)).position
    return np.asarray(mode[None] + whitened @ spread.T)
