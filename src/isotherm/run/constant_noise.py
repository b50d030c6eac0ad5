"""Whether the noise of the gradients is the same all over the posterior, as an average of S over a run assumes."""

from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np

from isotherm.data.processes import rows_of
from isotherm.lib.types import Vector
from isotherm.run.assemble import Run
from isotherm.run.plan import Plan
from isotherm.targets.noisy import DENSE_PARAMETERS
from isotherm.targets.parameters import variable_names

ROWS = 1000  # examples, at least, that S is compared on; the same at all positions
POSITIONS = 32  # draws at which it is compared, at most
FEWEST = 8  # at least
MOST_KEPT = 128  # draws of a run that are kept to choose from; the first half of them may still be burn-in
LEAST_STEPS = 2000  # after burn-in: a shorter run says too little
LARGEST_CHANGE = 0.2  # root mean square of the relative change of S over directions and draws: posteriors that came out
# right had 0.01 to 0.07, hierarchies that did not 0.29 and 0.37 (benchmarks/unfriendly.py)
NAMED = 0.8  # a correlation above which a parameter is named


class Seen:
    """Some draws of a run, to compare S at: every k-th, where k doubles as the run gets longer, so that which they are
    does not depend on where chunks end. None are kept if the sampler does not assume that S is constant, if S would
    not fit in memory, if the run is too short, or if the posterior is anchored: S is then small beside the curvature,
    and may change."""

    def __init__(self, run: Run, plan: Plan) -> None:
        target = run.evaluation.target
        constant = getattr(run.sampler, "assumes_constant_noise", False) and not target.curvature_is_identity
        self.wanted = constant and run.starts.shape[1] <= DENSE_PARAMETERS and plan.steps - plan.burn_in >= LEAST_STEPS
        self.every, self.kept = 1, dict[int, np.ndarray]()

    def add(self, first: int, positions: np.ndarray) -> None:
        """`positions` is draws by chains by parameters; `first` is the number of the first of these draws."""
        if not self.wanted:
            return
        begin, end = next(iter(self.kept), first), first + len(positions)
        while len(_multiples(self.every, begin, end)) > MOST_KEPT:
            self.every *= 2
        self.kept = {number: kept for number, kept in self.kept.items() if number % self.every == 0}
        for number in _multiples(self.every, first, end):
            self.kept[number] = positions[number - first].copy()

    def later(self, good: np.ndarray) -> np.ndarray:
        """The second half of them, of the `good` chains: positions by parameters."""
        kept = list(self.kept.values())
        return np.concatenate([position[good] for position in kept[len(kept) // 2 :]]) if kept else np.empty((0, 0))


def _multiples(of: int, begin: int, end: int) -> range:
    return range(begin + -begin % of, end, of)


def noise_warning(run: Run, seen: Seen, good: np.ndarray) -> Iterator[str]:
    """A sentence if S at draws of the `good` chains, which have not diverged, differs too much from its mean."""
    positions = seen.later(good)
    if len(positions) < FEWEST or run.batches.population < 2:
        return
    positions = positions[np.linspace(0, len(positions) - 1, min(POSITIONS, len(positions))).astype(int)]
    matrices = covariances(run, positions)
    if not np.isfinite(matrices).all() or not np.any(matrices):
        return
    values, vectors = np.linalg.eigh(matrices.mean(axis=0))
    large = values > 1e-6 * values[-1]
    values, vectors = values[large], vectors[:, large]
    along = np.einsum("dj,kde,ej->kj", vectors, matrices, vectors) / values
    change = np.sqrt(np.mean((along - 1) ** 2))
    if change > LARGEST_CHANGE:
        yield (
            f"the noise of the gradients changes by {change:.0%} over the posterior{_where(run, positions, along)}, "
            "and eccadl takes it to be the same everywhere: standard deviations may be off; compare with a run at a "
            "larger batch_size, or write the model in other coordinates (a hierarchy centred, say)"
        )


def covariances(run: Run, positions: np.ndarray) -> np.ndarray:
    """S at each position, on the same rows."""
    rows = np.random.default_rng(0).permutation(run.batches.population)[: max(ROWS, 5 * positions.shape[1])]
    batch = rows_of(run.data, rows)

    def one(position: Vector) -> jax.Array:
        return run.evaluation.at(position, batch, size=run.batches.size).covariance.dense()

    return np.asarray(jax.jit(lambda some: jax.lax.map(one, some))(jnp.asarray(positions)), np.float64)


def _where(run: Run, positions: np.ndarray, along: np.ndarray) -> str:
    """The parameter that S changes with, if there is one."""
    size = np.log(along.mean(axis=1))
    with np.errstate(all="ignore"):
        correlations = np.abs([np.corrcoef(size, column)[0, 1] for column in positions.T.astype(np.float64)])
    if not np.nanmax(correlations, initial=0) > NAMED:
        return ""
    marked = np.zeros(positions.shape[1], positions.dtype)
    marked[np.nanargmax(correlations)] = 1
    params = run.evaluation.target.unravel(jnp.asarray(marked))
    name = next(
        name for name, leaf in zip(variable_names(params), jax.tree.leaves(params), strict=True) if np.any(leaf)
    )
    return f", most of all with {name}"
