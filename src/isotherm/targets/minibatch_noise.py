"""The noise of an anchored posterior's force at typical draws, by which its order and batch size are chosen."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from isotherm.data import processes
from isotherm.data.alias_table import AliasTable, blocks
from isotherm.data.on_disk import host
from isotherm.lib.types import Array, Batch, Float, Matrix, Scalar, Vector
from isotherm.targets.anchored import Anchored

NOISE_POSITIONS = 32  # typical positions at which the noise is measured, each on rows of its own
NOISE_ROWS = (500, 4)  # of each such batch: the fewest, and for each parameter
UNIFORM_SHARE = 0.25  # of the probability, equal for all rows, so that no row counts more than 1/0.25 times


class Noise(NamedTuple):
    """S of batches of one row, in z, averaged over typical positions: its largest eigenvalue; and how far the mean
    force is from a Gaussian's, over the size of z."""

    largest: float
    bend: float


def measure(anchored: Anchored, data: Batch, rng: np.random.Generator, positions: np.ndarray) -> Noise:
    """Return the noise, on average over these positions."""
    d = len(anchored.gradient)
    rows = max(NOISE_ROWS[0], NOISE_ROWS[1] * d)
    S, square = np.zeros((d, d)), 0.0
    for z in positions.astype(anchored.gradient.dtype):
        batch, weights = weighted_rows(data, anchored.rows, rows, rng)
        covariance, error = _noise(anchored, z, batch, weights)
        S += np.asarray(covariance, np.float64) / len(positions)
        square += float(error) / len(positions)
    bend = np.sqrt(max(square - np.trace(S) / rows, 0) / d)
    return Noise(float(np.linalg.eigvalsh(S)[-1]) if np.isfinite(S).all() else np.inf, float(bend))


@jax.jit
def _noise(anchored: Anchored, z: Vector, batch: Batch, weights: Float[Array, " n"]) -> tuple[Matrix, Scalar]:
    """Return S of one row, and the square of the distance of the force from g − z; g, the force at 0, is exact."""
    noisy = anchored.noisy(z, batch, population=len(anchored.rows.weights), size=1, weights=weights)
    at_zero = jax.grad(anchored.exact)(jnp.zeros_like(z))
    return noisy.covariance.dense(), jnp.sum((noisy.force - at_zero + z) ** 2)


def probabilities_of(leverages: np.ndarray) -> np.ndarray:
    """Return probabilities of the rows, up to a factor, in float64: UNIFORM_SHARE is equal, the rest by leverage."""
    mean = leverages.mean(dtype=np.float64)
    probabilities = np.ones(len(leverages))
    if np.isfinite(mean) and mean > 0:
        for some in blocks(len(leverages)):
            probabilities[some] = (1 - UNIFORM_SHARE) * leverages[some] / mean + UNIFORM_SHARE
    return probabilities


def weighted_rows(data: Batch, table: AliasTable, count: int, rng: np.random.Generator) -> tuple[Batch, np.ndarray]:
    """Draw rows with the table's probabilities, and how often each counts; on the host."""
    rows = rng.integers(0, len(table.weights), count)
    kept = rng.integers(0, 2**32, count, np.uint32) < np.asarray(table.thresholds)[rows]
    rows = np.where(kept, rows, np.asarray(table.aliases)[rows])
    return processes.rows_of(jax.tree.map(host, data), rows), np.asarray(table.weights)[rows]
