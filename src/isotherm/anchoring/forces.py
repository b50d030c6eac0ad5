"""The gradient of the log posterior at draws, from few rows, with little noise."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from isotherm.anchored import Anchored, Coordinates
from isotherm.anchoring import noise
from isotherm.anchoring.anchor import PROBES, UNKNOWN, rows_for_curvature
from isotherm.anchoring.mode import Target, spectrum, turned
from isotherm.anchoring.progress import Passes
from isotherm.anchoring.sums import RowSums
from isotherm.posterior import Posterior, Unravel
from isotherm.run import checks
from isotherm.run.problem import flattening
from isotherm.types import Batch, Params, Vector

QUIET = 0.5  # the variance of a force's noise in z, at most, in its noisiest direction
LEAST_ROWS = 64  # for one force
MOST_ROWS, MOST_PASSES = 2**21, 4  # for all of them together, whichever is more


def forces_at(
    draws: np.ndarray,
    center: np.ndarray,
    posterior: Posterior,
    params: Params,
    data: Batch,
    rng: np.random.Generator,
    passes: Passes,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draws by (chain, draw, parameter) as positions z around `center`, where the curvature is about 1; the forces
    there; and the factor of the coordinates. Around the center the log-likelihood is taken exactly to first order."""
    data = checks.as_arrays("data", data)
    rows = checks.check_data(data)
    checks.check_model(posterior, params, data)
    dtype, unravel = flattening(params)
    everything = RowSums(posterior, unravel, data, advance=passes.add)
    spread = np.maximum(draws.std(axis=(0, 1), dtype=np.float64), np.finfo(np.float32).tiny)
    at = Coordinates(center.astype(dtype), np.diag(spread).astype(dtype))
    passes.say("curvature")
    at = turned(at, _whitening(posterior, unravel, data, rows, at, rng, passes))
    passes.say("leverages")
    leverages, _ = everything.leverages(at, rng.standard_normal((len(at.origin), PROBES)))
    table = noise.table_of(leverages, dtype)
    passes.say("gradient")
    gradient = everything.gradient(at)[1]
    coordinates, G = jax.tree.map(lambda array: jnp.asarray(array, dtype), (at, gradient))
    anchored = Anchored(posterior.log_likelihood, posterior.log_prior, coordinates, G, None, table, UNKNOWN, unravel)
    factor = np.asarray(at.factor, np.float64)
    z = np.linalg.solve(factor, (draws - np.asarray(at.origin, np.float64)).reshape(-1, len(center)).T).T
    passes.say("forces")
    largest = noise.measure_at(anchored, unravel, data, rng, z[rng.permutation(len(z))[: noise.DRAWS]]).largest
    most = max(MOST_PASSES * rows, MOST_ROWS) // len(z)
    size = int(np.clip(_power_of_two(largest / QUIET), LEAST_ROWS, max(LEAST_ROWS, most)))
    forces = np.stack(
        [_force(anchored, unravel, p.astype(dtype), *noise.weighted_rows(data, table, size, rng)) for p in z]
    )
    passes.add(size * len(z))
    return z.reshape(draws.shape), forces.reshape(draws.shape), factor


def _power_of_two(number: float) -> float:
    """At least the number: so that the next check finds a program that is compiled."""
    return 2.0 ** np.ceil(np.log2(max(number, 1.0)))


def _whitening(
    posterior: Posterior,
    unravel: Unravel,
    data: Batch,
    rows: int,
    at: Coordinates,
    rng: np.random.Generator,
    passes: Passes,
) -> np.ndarray:
    """Where the curvature is negative, as it may be far from the mode, its size is taken."""
    size = min(rows, rows_for_curvature(len(at.origin)))
    chosen = rng.choice(rows, size, replace=False, shuffle=False)
    some = jax.tree.map(lambda column: np.asarray(column)[chosen], data)
    target = Target(RowSums(posterior, unravel, some, None, rows / size, passes.add))
    return spectrum(target.local(at, target.slope(at)).curvature)[0]


@partial(jax.jit, static_argnames="unravel")
def _force(posterior: Anchored, unravel: Unravel, z: Vector, batch: Batch, weights: Float[Array, " n"]) -> Vector:
    population = len(posterior.rows.weights)
    return posterior.noisy(z, batch, population=population, unravel=unravel, weights=weights).force
