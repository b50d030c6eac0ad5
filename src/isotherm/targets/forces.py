"""The force of an anchored posterior from few rows: its noise at typical draws, and forces with little noise."""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from isotherm.data import processes
from isotherm.data.batches import AliasTable, blocks, make_table
from isotherm.data.on_disk.open_data import host
from isotherm.lib.progress import Passes
from isotherm.lib.types import Array, Batch, Float, Matrix, Params, Scalar, Vector
from isotherm.targets import checks
from isotherm.targets.newton import PROBES, LogPosterior, RowSums, spectrum, turned
from isotherm.targets.noisy import estimate
from isotherm.targets.parameters import flattening
from isotherm.targets.target import Anchored, Coordinates, Target

# Rows drawn by leverage, and the noise that they leave
UNIFORM_SHARE = 0.25  # of the probability, equal for all rows, so that no row counts more than 1/0.25 times
NOISE_POSITIONS = 32  # typical positions at which the noise is measured, each on rows of its own
NOISE_ROWS = (500, 4)  # of each such batch: the fewest, and for each parameter

# Forces with little noise
CURVATURE_ROWS = (20_000, 100)  # from which the curvature is taken: at least, and for each parameter
FORCE_NOISE = 0.5  # the largest variance of a force's noise in z, in its noisiest direction
FORCE_ROWS = 64  # the fewest for one force
ALL_ROWS, ALL_PASSES = 2**21, 4  # the most for all forces together, whichever is more


class Noise(NamedTuple):
    """S of batches of one row, in z, averaged over typical positions: its largest eigenvalue; and how far the mean
    force is from a Gaussian's, over the size of z."""

    largest: float
    bend: float


def measure_noise(anchored: Anchored, data: Batch, rng: np.random.Generator, positions: np.ndarray) -> Noise:
    """Return the noise, on average over these positions."""
    d = len(anchored.gradient)
    rows = max(NOISE_ROWS[0], NOISE_ROWS[1] * d)
    S, square = np.zeros((d, d)), 0.0
    for z in positions.astype(anchored.gradient.dtype):
        covariance, error = _noise(anchored, z, *weighted_rows(data, anchored.rows, rows, rng))
        S += np.asarray(covariance, np.float64) / len(positions)
        square += float(error) / len(positions)
    bend = np.sqrt(max(square - np.trace(S) / rows, 0) / d)
    return Noise(float(np.linalg.eigvalsh(S)[-1]) if np.isfinite(S).all() else np.inf, float(bend))


@jax.jit
def _noise(anchored: Anchored, z: Vector, batch: Batch, weights: Float[Array, " n"]) -> tuple[Matrix, Scalar]:
    """Return S of one row, and the square of the distance of the force from g − z; g, the force at 0, is exact."""
    noisy = estimate(anchored, z, batch, population=len(anchored.rows.weights), size=1, weights=weights)
    at_zero = jax.grad(anchored.exact)(jnp.zeros_like(z))
    return noisy.covariance.dense(), jnp.sum((noisy.force - at_zero + z) ** 2)


def table_by_leverage(sums: RowSums, at: Coordinates, rng: np.random.Generator) -> tuple[AliasTable, float]:
    """Return the table that draws rows by their leverage at these coordinates, and Σ‖Lᵀ∇ℓ_i‖²."""
    leverages, squares = sums.leverages(at, rng.standard_normal((len(at.origin), PROBES)))
    total, probabilities = float(squares.sum(dtype=np.float64)), probabilities_of(leverages)
    del leverages, squares  # which are as long as the data
    return make_table(probabilities, at.origin.dtype, overwrite=True), total


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


def make_anchored(
    target: Target, at: Coordinates, gradient: np.ndarray, hessian: np.ndarray | None, table: AliasTable
) -> Anchored:
    """Return the anchored posterior, with its arrays on the device in the precision of the parameters."""
    on_device = partial(jnp.asarray, dtype=at.origin.dtype)
    return Anchored(
        **vars(target),
        coordinates=Coordinates(on_device(at.origin), on_device(at.factor)),
        gradient=on_device(gradient),
        hessian=None if hessian is None else on_device(hessian),
        rows=table,
    )


class Forces:
    """Forces of an anchored posterior, each from rows drawn for it; near the origin they have little noise."""

    def __init__(self, anchored: Anchored, data: Batch, rng: np.random.Generator, passes: Passes) -> None:
        self.anchored, self.data, self.rng, self.passes = anchored, data, rng, passes
        self.population = len(anchored.rows.weights)
        self.factor = np.asarray(anchored.coordinates.factor, np.float64)

    @classmethod
    def around(
        cls,
        center: np.ndarray,
        spread: np.ndarray,
        target: Target,
        params: Params,
        data: Batch,
        rng: np.random.Generator,
        passes: Passes,
    ) -> "Forces":
        """Return the forces of a target in coordinates around `center` in which the curvature is about 1, where the
        log-likelihood is taken exactly to first order. `spread` is a rough scale of each parameter."""
        data = checks.checked_data(data)
        checks.check_model(target, params, data)
        dtype, unravel = flattening(params)
        target = Target(target.log_likelihood, target.log_prior, unravel)
        everything = RowSums(target, data, passes=passes, shared=True)
        at = Coordinates(center.astype(dtype), np.diag(spread).astype(dtype))
        passes.say("curvature")
        at = turned(at, _whitening(target, data, at, rng, passes))
        passes.say("leverages")
        table, _ = table_by_leverage(everything, at, rng)
        passes.say("gradient")
        return cls(make_anchored(target, at, everything.gradient(at)[1], None, table), data, rng, passes)

    def positions(self, draws: np.ndarray) -> np.ndarray:
        """Return z of flat parameters (…, d)."""
        return self.anchored.coordinates.position(draws)

    def quiet_size(self, positions: np.ndarray) -> int:
        """Return how many rows make the noise of a force at these positions small, within ALL_ROWS and ALL_PASSES. If
        that is more than half of all rows, all of them: then there is no noise."""
        self.passes.say("forces")
        z = positions.reshape(-1, positions.shape[-1])
        some = z[self.rng.permutation(len(z))[:NOISE_POSITIONS]]
        largest = measure_noise(self.anchored, self.data, self.rng, some).largest
        most = max(ALL_PASSES * self.passes.rows, ALL_ROWS) // len(z)
        quiet = 2.0 ** np.ceil(np.log2(max(largest / FORCE_NOISE, 1)))  # few sizes: the next check finds it compiled
        size = int(np.clip(quiet, FORCE_ROWS, max(FORCE_ROWS, most)))
        return self.population if 2 * size > self.population else size

    def at(self, positions: np.ndarray, size: int) -> np.ndarray:
        """Return the forces at positions z (…, d), each from `size` rows; from each row once, if that is all."""
        anchored, dtype = self.anchored, self.anchored.gradient.dtype
        every: tuple[Batch, Vector] | None = None
        if size == self.population:
            rows = processes.rows_of(jax.tree.map(host, self.data), np.arange(size))
            every = jax.device_put(rows), jnp.ones(size, dtype)
        forces = []
        for z in positions.reshape(-1, positions.shape[-1]).astype(dtype):
            batch, weights = every or weighted_rows(self.data, anchored.rows, size, self.rng)
            forces.append(_force(anchored, z, batch, weights))
        self.passes.add(size * len(forces))
        return np.stack(forces).reshape(positions.shape)


def forces_at(
    draws: np.ndarray,
    center: np.ndarray,
    target: Target,
    params: Params,
    data: Batch,
    rng: np.random.Generator,
    passes: Passes,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return draws by (chain, draw, parameter) as positions z around `center`, where the curvature is about 1; the
    forces there; and the factor of the coordinates."""
    forces = Forces.around(center, spread_of(draws), target, params, data, rng, passes)
    z = forces.positions(draws)
    return z, forces.at(z, forces.quiet_size(z)), forces.factor


def spread_of(draws: np.ndarray) -> np.ndarray:
    """Return the standard deviations of draws by (chain, draw, parameter); not zero."""
    spread: np.ndarray = np.maximum(draws.std(axis=(0, 1), dtype=np.float64), np.finfo(np.float32).tiny)
    return spread


def _whitening(target: Target, data: Batch, at: Coordinates, rng: np.random.Generator, passes: Passes) -> np.ndarray:
    """Return the W that whitens the curvature; where that is negative, as it may be far from the mode, its size."""
    rows = sum(processes.row_counts(data))
    size = min(rows, max(CURVATURE_ROWS[0], CURVATURE_ROWS[1] * len(at.origin)))
    chosen = rng.choice(rows, size, replace=False, shuffle=False)
    some = processes.rows_of(jax.tree.map(host, data), chosen)
    density = LogPosterior(RowSums(target, some, scale=rows / size, passes=passes))
    return spectrum(density.second_order(at, density.first_order(at)).curvature)[0]


@jax.jit
def _force(anchored: Anchored, z: Vector, batch: Batch, weights: Float[Array, " n"]) -> Vector:
    return estimate(anchored, z, batch, population=len(anchored.rows.weights), weights=weights).force
