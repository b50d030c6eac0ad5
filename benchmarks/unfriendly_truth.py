"""What is right for a row of the unfriendly suite, float64: by linear algebra where the posterior is Gaussian, else by
NUTS on all the data, kept in a folder."""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
from arviz_stats.base import array_stats
from jax.flatten_util import ravel_pytree

from isotherm.paper.experiments.laplace import laplace
from isotherm.paper.experiments.tasks import Materials

CHAINS = 4


class Truth(NamedTuple):
    """A posterior at temperature 1, float64: mean (d,), covariance (d, d), and the precision that measures distances.

    `rhat` and `error` are those of a reference: the largest R-hat, and the largest standard error of a standard
    deviation, relative to it.
    """

    mean: np.ndarray
    covariance: np.ndarray
    precision: np.ndarray
    rhat: float = 1.0
    error: float = 0.0


def gaussian(data: dict[str, np.ndarray], prior: float) -> Truth:
    """The posterior of a linear regression with unit noise."""
    x, y = (data[name].astype(np.float64) for name in ("x", "y"))
    precision = x.T @ x + np.eye(x.shape[1]) / prior
    covariance = np.linalg.inv(precision)
    return Truth(np.linalg.solve(precision, x.T @ y), (covariance + covariance.T) / 2, precision)


def near_gaussian(model: Any, data: dict[str, np.ndarray], init: np.ndarray, draws: int) -> Truth:
    """NUTS in coordinates z that the Laplace approximation whitens.

    There the gradient g of the log-density is nearly −z, and E[g] = 0 and E[g zᵀ] = −I (Stein), so that
    E[z] = E[z + g] and E[z zᵀ] = I + E[(z + g) zᵀ]: averages with little noise.
    """
    around = laplace(Materials(model, data, init))
    values, vectors = np.linalg.eigh(around.precision)
    spread = vectors / np.sqrt(values)
    with jax.enable_x64(True):
        density = whole(model, data, init)
        z, g = nuts(lambda z: density(around.mode + spread @ z), np.zeros(len(values)), 300, draws)
    mean = np.mean(z + g, axis=(0, 1))
    products = np.einsum("cti,ctj->cij", z + g, z) / draws
    covariances = np.eye(len(mean)) + (products + products.swapaxes(1, 2)) / 2 - np.outer(mean, mean)
    by_chain = np.sqrt([np.diag(spread @ covariance @ spread.T) for covariance in covariances])
    error = by_chain.std(axis=0, ddof=1) / np.sqrt(CHAINS) / by_chain.mean(axis=0)
    return Truth(
        around.mode + spread @ mean,
        spread @ covariances.mean(axis=0) @ spread.T,
        around.precision,
        largest_rhat(z),
        float(error.max()),
    )


def any_shape(model: Any, data: dict[str, np.ndarray], init: Any, draws: int) -> Truth:
    """Plain NUTS; the precision is the inverse of the covariance."""
    with jax.enable_x64(True):
        theta, _ = nuts(whole(model, data, init), np.asarray(ravel_pytree(init)[0], np.float64), 2000, draws)
    covariance = np.cov(theta.reshape(-1, theta.shape[2]).T)
    ess = array_stats.ess(np.moveaxis(theta, 2, 0), chain_axis=-2, draw_axis=-1, method="sd")
    return Truth(
        theta.mean(axis=(0, 1)),
        covariance,
        np.linalg.inv(covariance),
        largest_rhat(theta),
        float(1 / np.sqrt(2 * np.min(ess))),
    )


def whole(model: Any, data: dict[str, np.ndarray], init: Any) -> Callable[[Any], Any]:
    """The log-posterior of flat parameters, in the precision that JAX has now."""
    unravel = ravel_pytree(jax.tree.map(lambda a: jnp.asarray(a, jnp.result_type(float)), init))[1]
    columns = {k: jnp.asarray(a) if a.dtype.kind == "i" else jnp.asarray(a, float) for k, a in data.items()}

    def density(flat: Any) -> Any:
        params = unravel(flat)
        return jax.vmap(model.log_likelihood, (None, 0))(params, columns).sum() + model.log_prior(params)

    return density


def nuts(density: Callable[[Any], Any], start: np.ndarray, warmup: int, draws: int) -> tuple[np.ndarray, np.ndarray]:
    """Positions and gradients (chain, draw, d), after as many draws again over ten that are dropped."""
    warm_key, key = jax.random.split(jax.random.key(0))
    adaptation = blackjax.window_adaptation(blackjax.nuts, density)
    (state, adapted), _ = adaptation.run(warm_key, jnp.asarray(start), num_steps=warmup)
    kernel = blackjax.nuts(density, **adapted)

    def step(state: Any, key: Any) -> Any:
        state, _ = kernel.step(key, state)
        return state, (state.position, state.logdensity_grad)

    def chain(key: Any) -> Any:
        return jax.lax.scan(step, state, jax.random.split(key, draws + draws // 10))[1]

    positions, gradients = jax.jit(jax.vmap(chain))(jax.random.split(key, CHAINS))
    return np.asarray(positions[:, draws // 10 :]), np.asarray(gradients[:, draws // 10 :])


def largest_rhat(draws: np.ndarray) -> float:
    """Of draws (chain, draw, d)."""
    return float(np.max(array_stats.rhat(np.moveaxis(draws, 2, 0), chain_axis=-2, draw_axis=-1)))


def kept(folder: Path, model: Any, data: dict[str, np.ndarray], find: Callable[[], Truth]) -> Truth:
    """What `find` finds, from the folder if it was found for the same model and data before."""
    digest = hashlib.sha256(repr(model).encode())
    for key in sorted(data):
        digest.update(np.ascontiguousarray(data[key]))
    path = folder / f"{type(model).__name__.lower()}-{digest.hexdigest()[:12]}.npz"
    if path.exists():
        with np.load(path) as found:
            return Truth(found["mean"], found["covariance"], found["precision"], *map(float, found["quality"]))
    truth = find()
    folder.mkdir(parents=True, exist_ok=True)
    quality = np.array([truth.rhat, truth.error])
    np.savez(path, mean=truth.mean, covariance=truth.covariance, precision=truth.precision, quality=quality)
    return truth
