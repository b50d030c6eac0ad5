"""How noisy the force of an anchored posterior is at typical draws: what its order and batch size are chosen by."""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from isotherm.data import processes
from isotherm.data.alias_table import AliasTable, blocks
from isotherm.data.on_disk import host
from isotherm.lib.types import Array, Batch, Float, Matrix, Scalar, Vector
from isotherm.posterior import Unravel
from isotherm.targets.anchored import Anchored

DRAWS = 32  # typical positions at which the noise is measured, each on rows of its own
ROWS = (500, 4)  # of each such batch: at least, and for each parameter
UNIFORM = 0.25  # share of the probability that is equal for all rows, so that no row counts more than 1/0.25 times


class Noise(NamedTuple):
    """S of batches of one row, in z, averaged over typical positions: its largest eigenvalue; and how far the mean
    force is from a Gaussian's, over the size of z."""

    largest: float
    bend: float


def measure(
    posterior: Anchored, unravel: Unravel, data: Batch, rng: np.random.Generator, positions: int = DRAWS
) -> Noise:
    """The noise at so many z ~ N(0, I), draws from the Gaussian that approximates the posterior."""
    return measure_at(posterior, unravel, data, rng, rng.standard_normal((positions, len(posterior.gradient))))


def measure_at(
    posterior: Anchored, unravel: Unravel, data: Batch, rng: np.random.Generator, positions: np.ndarray
) -> Noise:
    """The noise, on average over these positions."""
    d = len(posterior.gradient)
    rows = max(ROWS[0], ROWS[1] * d)
    S, square = np.zeros((d, d)), 0.0
    for z in positions.astype(posterior.gradient.dtype):
        batch, weights = weighted_rows(data, posterior.rows, rows, rng)
        covariance, error = _noise(posterior, unravel, z, batch, weights)
        S += np.asarray(covariance, np.float64) / len(positions)
        square += float(error) / len(positions)
    bend = np.sqrt(max(square - np.trace(S) / rows, 0) / d)
    return Noise(float(np.linalg.eigvalsh(S)[-1]) if np.isfinite(S).all() else np.inf, float(bend))


@partial(jax.jit, static_argnames="unravel")
def _noise(
    posterior: Anchored, unravel: Unravel, z: Vector, batch: Batch, weights: Float[Array, " n"]
) -> tuple[Matrix, Scalar]:
    """S of one row, and the square of the distance of the force from g − z, with g the force at 0, which is exact."""
    noisy = posterior.noisy(z, batch, population=len(posterior.rows.weights), unravel=unravel, size=1, weights=weights)
    at_zero = jax.grad(lambda z: posterior.exact(z, unravel))(jnp.zeros_like(z))
    return noisy.covariance.dense(), jnp.sum((noisy.force - at_zero + z) ** 2)


def probabilities_of(leverages: np.ndarray) -> np.ndarray:
    """Probabilities of the rows, up to a factor, in float64: a share UNIFORM is equal, the rest goes by leverage."""
    mean = leverages.mean(dtype=np.float64)
    probabilities = np.ones(len(leverages))
    if np.isfinite(mean) and mean > 0:
        for some in blocks(len(leverages)):
            probabilities[some] = (1 - UNIFORM) * leverages[some] / mean + UNIFORM
    return probabilities


def weighted_rows(data: Batch, table: AliasTable, count: int, rng: np.random.Generator) -> tuple[Batch, np.ndarray]:
    """Rows with the table's probabilities, and how often each counts; on the host."""
    rows = rng.integers(0, len(table.weights), count)
    kept = rng.integers(0, 2**32, count, np.uint32) < np.asarray(table.thresholds)[rows]
    rows = np.where(kept, rows, np.asarray(table.aliases)[rows])
    return processes.rows_of(jax.tree.map(host, data), rows), np.asarray(table.weights)[rows]
