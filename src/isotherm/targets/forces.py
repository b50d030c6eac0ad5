"""The gradient of the log posterior at draws, from few rows, with little noise."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from isotherm.data import processes
from isotherm.data.alias_table import make_table
from isotherm.data.on_disk import host
from isotherm.lib.progress import Passes
from isotherm.lib.types import Array, Batch, Float, Params, Vector
from isotherm.posterior import Unravel
from isotherm.targets import checks, minibatch_noise, newton
from isotherm.targets.anchor import PROBES, UNKNOWN, rows_for_curvature
from isotherm.targets.anchored import Anchored, Coordinates
from isotherm.targets.newton import spectrum, turned
from isotherm.targets.start import flattening
from isotherm.targets.sums import RowSums
from isotherm.targets.target import Target

QUIET = 0.5  # the variance of a force's noise in z, at most, in its noisiest direction
LEAST_ROWS = 64  # for one force
MOST_ROWS, MOST_PASSES = 2**21, 4  # for all of them together, whichever is more


class Forces:
    """Forces of an anchored posterior, each from rows drawn for it; near the origin they have little noise."""

    def __init__(self, anchored: Anchored, unravel: Unravel, data: Batch, rng: np.random.Generator, passes: Passes):
        self.anchored, self.unravel, self.data, self.rng, self.passes = anchored, unravel, data, rng, passes
        self.origin, self.factor = (np.asarray(part, np.float64) for part in anchored.coordinates)

    @classmethod
    def around(
        cls,
        center: np.ndarray,
        spread: np.ndarray,
        posterior: Target,
        params: Params,
        data: Batch,
        rng: np.random.Generator,
        passes: Passes,
    ) -> "Forces":
        """In coordinates around `center` in which the curvature is about 1. There the log-likelihood is taken exactly
        to first order. `spread` is a rough scale of each parameter."""
        data = checks.checked_data(data)
        rows = sum(processes.row_counts(data))
        checks.check_model(posterior, params, data)
        dtype, unravel = flattening(params)
        everything = RowSums(posterior, unravel, data, advance=passes.add, shared=True)
        at = Coordinates(center.astype(dtype), np.diag(spread).astype(dtype))
        passes.say("curvature")
        at = turned(at, _whitening(posterior, unravel, data, rows, at, rng, passes))
        passes.say("leverages")
        leverages, _ = everything.leverages(at, rng.standard_normal((len(at.origin), PROBES)))
        table = make_table(minibatch_noise.probabilities_of(leverages), dtype, overwrite=True)
        passes.say("gradient")
        gradient = everything.gradient(at)[1]
        coordinates, G = jax.tree.map(lambda array: jnp.asarray(array, dtype), (at, gradient))
        model = posterior.log_likelihood, posterior.log_prior
        return cls(Anchored(*model, coordinates, G, None, table, UNKNOWN, unravel), unravel, data, rng, passes)

    def positions(self, draws: np.ndarray) -> np.ndarray:
        """z of flat parameters (…, d)."""
        shifts = (draws - self.origin).reshape(-1, len(self.origin))
        return np.linalg.solve(self.factor, shifts.T).T.reshape(draws.shape)

    def quiet_size(self, positions: np.ndarray) -> int:
        """How many rows make the noise of a force at these positions small, within MOST_ROWS and MOST_PASSES. If that
        is more than half of all rows, all of them: then there is no noise."""
        self.passes.say("forces")
        z = positions.reshape(-1, len(self.origin))
        some = z[self.rng.permutation(len(z))[: minibatch_noise.DRAWS]]
        largest = minibatch_noise.measure_at(self.anchored, self.unravel, self.data, self.rng, some).largest
        most = max(MOST_PASSES * self.passes.rows, MOST_ROWS) // len(z)
        size = int(np.clip(_power_of_two(largest / QUIET), LEAST_ROWS, max(LEAST_ROWS, most)))
        return self.population if 2 * size > self.population else size

    def at(self, positions: np.ndarray, size: int) -> np.ndarray:
        """The forces at positions z (…, d), each from so many rows; from each row once, if that is all of them."""
        anchored, dtype = self.anchored, self.anchored.gradient.dtype
        everything = self.all_rows() if size == self.population else None
        forces = [
            _force(anchored, self.unravel, z, *(everything or self.some_rows(size)))
            for z in positions.reshape(-1, len(self.origin)).astype(dtype)
        ]
        self.passes.add(size * len(forces))
        return np.stack(forces).reshape(positions.shape)

    @property
    def population(self) -> int:
        return len(self.anchored.rows.weights)

    def some_rows(self, size: int) -> tuple[Batch, np.ndarray]:
        """Rows drawn by leverage, and how often each counts."""
        return minibatch_noise.weighted_rows(self.data, self.anchored.rows, size, self.rng)

    def all_rows(self) -> tuple[Batch, Vector]:
        """All rows, each of which counts once."""
        every = processes.rows_of(jax.tree.map(host, self.data), np.arange(self.population))
        return jax.device_put(every), jnp.ones(self.population, self.anchored.gradient.dtype)


def forces_at(
    draws: np.ndarray,
    center: np.ndarray,
    posterior: Target,
    params: Params,
    data: Batch,
    rng: np.random.Generator,
    passes: Passes,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draws by (chain, draw, parameter) as positions z around `center`, where the curvature is about 1; the forces
    there; and the factor of the coordinates."""
    forces = Forces.around(center, spread_of(draws), posterior, params, data, rng, passes)
    z = forces.positions(draws)
    return z, forces.at(z, forces.quiet_size(z)), forces.factor


def spread_of(draws: np.ndarray) -> np.ndarray:
    """The standard deviations of draws by (chain, draw, parameter); not zero."""
    return np.maximum(draws.std(axis=(0, 1), dtype=np.float64), np.finfo(np.float32).tiny)


def _power_of_two(number: float) -> float:
    """The next power of two: there are few of them, so the next check finds its program compiled."""
    return 2.0 ** np.ceil(np.log2(max(number, 1.0)))


def _whitening(
    posterior: Target,
    unravel: Unravel,
    data: Batch,
    rows: int,
    at: Coordinates,
    rng: np.random.Generator,
    passes: Passes,
) -> np.ndarray:
    """The W that whitens the curvature; where that is negative, as it may be far from the mode, by its size."""
    size = min(rows, rows_for_curvature(len(at.origin)))
    chosen = rng.choice(rows, size, replace=False, shuffle=False)
    some = processes.rows_of(jax.tree.map(host, data), chosen)
    target = newton.Target(RowSums(posterior, unravel, some, None, rows / size, passes.add))
    return spectrum(target.local(at, target.slope(at)).curvature)[0]


@partial(jax.jit, static_argnames="unravel")
def _force(posterior: Anchored, unravel: Unravel, z: Vector, batch: Batch, weights: Float[Array, " n"]) -> Vector:
    population = len(posterior.rows.weights)
    return posterior.noisy(z, batch, population=population, unravel=unravel, weights=weights).force
