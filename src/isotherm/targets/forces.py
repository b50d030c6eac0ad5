"""The gradient of the log posterior at draws, from few rows, with little noise."""

import jax
import jax.numpy as jnp
import numpy as np

from isotherm.data import processes
from isotherm.data.alias_table import make_table
from isotherm.data.on_disk import host
from isotherm.lib.progress import Passes
from isotherm.lib.types import Array, Batch, Float, Params, Vector
from isotherm.targets import checks, minibatch_noise
from isotherm.targets.anchor import PROBES, STAGES, make_anchored
from isotherm.targets.anchored import Anchored, Coordinates
from isotherm.targets.newton import LogPosterior, spectrum, turned
from isotherm.targets.parameters import flattening
from isotherm.targets.sums import RowSums
from isotherm.targets.target import Target

FORCE_NOISE = 0.5  # the largest variance of a force's noise in z, in its noisiest direction
FORCE_ROWS = 64  # the fewest for one force
ALL_ROWS, ALL_PASSES = 2**21, 4  # the most for all forces together, whichever is more


class Forces:
    """Forces of an anchored posterior, each from rows drawn for it; near the origin they have little noise."""

    def __init__(self, anchored: Anchored, data: Batch, rng: np.random.Generator, passes: Passes) -> None:
        self.anchored, self.data, self.rng, self.passes = anchored, data, rng, passes
        self.population = len(anchored.rows.weights)
        self.origin, self.factor = (np.asarray(part, np.float64) for part in anchored.coordinates)

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
        everything = RowSums(target, data, advance=passes.add, shared=True)
        at = Coordinates(center.astype(dtype), np.diag(spread).astype(dtype))
        passes.say("curvature")
        at = turned(at, _whitening(target, data, at, rng, passes))
        passes.say("leverages")
        leverages, _ = everything.leverages(at, rng.standard_normal((len(at.origin), PROBES)))
        table = make_table(minibatch_noise.probabilities_of(leverages), dtype, overwrite=True)
        passes.say("gradient")
        gradient = everything.gradient(at)[1]
        return cls(make_anchored(target, at, gradient, None, table), data, rng, passes)

    def positions(self, draws: np.ndarray) -> np.ndarray:
        """Return z of flat parameters (…, d)."""
        shifts = (draws - self.origin).reshape(-1, len(self.origin))
        return np.linalg.solve(self.factor, shifts.T).T.reshape(draws.shape)

    def quiet_size(self, positions: np.ndarray) -> int:
        """Return how many rows make the noise of a force at these positions small, within ALL_ROWS and ALL_PASSES. If
        that is more than half of all rows, all of them: then there is no noise."""
        self.passes.say("forces")
        z = positions.reshape(-1, len(self.origin))
        some = z[self.rng.permutation(len(z))[: minibatch_noise.NOISE_POSITIONS]]
        largest = minibatch_noise.measure(self.anchored, self.data, self.rng, some).largest
        most = max(ALL_PASSES * self.passes.rows, ALL_ROWS) // len(z)
        quiet = 2.0 ** np.ceil(np.log2(max(largest / FORCE_NOISE, 1)))  # few sizes: the next check finds it compiled
        size = int(np.clip(quiet, FORCE_ROWS, max(FORCE_ROWS, most)))
        return self.population if 2 * size > self.population else size

    def at(self, positions: np.ndarray, size: int) -> np.ndarray:
        """Return the forces at positions z (…, d), each from `size` rows; from each row once, if that is all."""
        anchored, dtype = self.anchored, self.anchored.gradient.dtype
        everything = self.all_rows() if size == self.population else None
        forces = []
        for z in positions.reshape(-1, len(self.origin)).astype(dtype):
            rows = everything or minibatch_noise.weighted_rows(self.data, anchored.rows, size, self.rng)
            forces.append(_force(anchored, z, *rows))
        self.passes.add(size * len(forces))
        return np.stack(forces).reshape(positions.shape)

    def all_rows(self) -> tuple[Batch, Vector]:
        """Return all rows, each of which counts once."""
        every = processes.rows_of(jax.tree.map(host, self.data), np.arange(self.population))
        return jax.device_put(every), jnp.ones(self.population, self.anchored.gradient.dtype)


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
    return np.maximum(draws.std(axis=(0, 1), dtype=np.float64), np.finfo(np.float32).tiny)


def _whitening(target: Target, data: Batch, at: Coordinates, rng: np.random.Generator, passes: Passes) -> np.ndarray:
    """Return the W that whitens the curvature; where that is negative, as it may be far from the mode, its size."""
    rows = sum(processes.row_counts(data))
    size = min(rows, max(STAGES[-1][0], STAGES[-1][1] * len(at.origin)))
    chosen = rng.choice(rows, size, replace=False, shuffle=False)
    some = processes.rows_of(jax.tree.map(host, data), chosen)
    density = LogPosterior(RowSums(target, some, None, rows / size, passes.add))
    return spectrum(density.second_order(at, density.first_order(at)).curvature)[0]


@jax.jit
def _force(anchored: Anchored, z: Vector, batch: Batch, weights: Float[Array, " n"]) -> Vector:
    return anchored.noisy(z, batch, population=len(anchored.rows.weights), weights=weights).force
