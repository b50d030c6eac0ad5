"""Whether the noise of the gradients is the same all over the posterior, as an average of S over a run assumes."""

from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np

from isotherm.data.processes import rows_of
from isotherm.lib.types import Batch, Vector
from isotherm.targets.evaluation import Evaluation, Minibatch
from isotherm.targets.parameters import named_entries

ROWS = 1000  # fewest rows that S is compared on; the same at all positions
POSITIONS = 32  # bound on the draws at which it is compared,
FEWEST_POSITIONS = 8  # and fewest
KEPT_DRAWS = 128  # bound on the draws of a run that are kept to choose from; the first half may still be burn-in
LARGEST_CHANGE = 0.2  # root mean square of the relative change of S over directions and draws: posteriors that came out
# right had 0.01 to 0.07, hierarchies that did not 0.29 and 0.37 (benchmarks/unfriendly.py)
NAMED_CORRELATION = 0.8  # above which a parameter is named


class NoiseChange:
    """Keeps some draws of a run, to compare S at them: every k-th, where k doubles as the run gets longer, so that
    which they are does not depend on where chunks end."""

    def __init__(self) -> None:
        self.every, self.kept, self.good = 1, dict[int, np.ndarray](), np.empty(0, bool)

    def add(self, first: int, positions: np.ndarray, good: np.ndarray) -> None:
        """Keep some positions by (draw, chain, parameter), from draw `first` on; `good` chains have not diverged."""
        self.good = good
        begin, end = next(iter(self.kept), first), first + len(positions)
        while len(_multiples(self.every, begin, end)) > KEPT_DRAWS:
            self.every *= 2
        self.kept = {number: kept for number, kept in self.kept.items() if number % self.every == 0}
        for number in _multiples(self.every, first, end):
            self.kept[number] = positions[number - first].copy()

    def sentences(self, evaluation: Evaluation, data: Batch) -> Iterator[str]:
        """Yield a sentence if S at the later half of these draws differs too much from its mean."""
        later = list(self.kept.values())[len(self.kept) // 2 :]
        positions = np.concatenate([position[self.good] for position in later]) if later else np.empty((0, 0))
        if len(positions) < FEWEST_POSITIONS or evaluation.batches.population < 2:
            return
        positions = positions[np.linspace(0, len(positions) - 1, min(POSITIONS, len(positions))).astype(int)]
        matrices = covariances(evaluation, data, positions)
        if not np.isfinite(matrices).all() or not np.any(matrices):
            return
        values, vectors = np.linalg.eigh(matrices.mean(axis=0))
        large = values > 1e-6 * values[-1]
        values, vectors = values[large], vectors[:, large]
        along = np.einsum("dj,kde,ej->kj", vectors, matrices, vectors) / values
        change = np.sqrt(np.mean((along - 1) ** 2))
        if change > LARGEST_CHANGE:
            yield (
                f"the noise of the gradients changes by {change:.0%} over the posterior"
                f"{_where(evaluation, positions, along)}, and eccadl takes it to be the same everywhere: standard "
                "deviations may be off; compare with a run at a larger batch_size, or write the model in other "
                "coordinates (a hierarchy centred, say)"
            )


def _multiples(of: int, begin: int, end: int) -> range:
    return range(begin + -begin % of, end, of)


def covariances(evaluation: Evaluation, data: Batch, positions: np.ndarray) -> np.ndarray:
    """Return S at each position, on the same rows."""
    batches = evaluation.batches
    batch = rows_of(data, np.random.default_rng(0).permutation(batches.population)[: max(ROWS, 5 * positions.shape[1])])

    def one(position: Vector) -> jax.Array:
        return evaluation.at(position, Minibatch(batch), batches.size).covariance.dense()

    return np.asarray(jax.jit(lambda some: jax.lax.map(one, some))(jnp.asarray(positions)), np.float64)


def _where(evaluation: Evaluation, positions: np.ndarray, along: np.ndarray) -> str:
    """Return the parameter that S changes with, if there is one, as the end of a sentence."""
    size = np.log(along.mean(axis=1))
    with np.errstate(all="ignore"):
        correlations = np.abs([np.corrcoef(size, column)[0, 1] for column in positions.T.astype(np.float64)])
    if not np.nanmax(correlations, initial=0) > NAMED_CORRELATION:
        return ""
    names = named_entries(evaluation.target.unravel(jnp.asarray(positions[0])))[0]
    return f", most of all with {names[np.nanargmax(correlations)]}"
