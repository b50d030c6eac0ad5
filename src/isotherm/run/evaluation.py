"""What a random batch says of the posterior at a position: the one place where rows, model and parameters meet."""

from collections.abc import Callable
from dataclasses import dataclass

import jax

from isotherm.batches import Batches
from isotherm.posterior import Noisy, Posterior
from isotherm.types import Batch, Params, RandomKey, Scalar, Vector


@dataclass(frozen=True)
class Evaluation:
    """A posterior, the way from flat positions back to its parameters, and how batches are drawn.

    It is hashable, a constant of the compiled program; the data are not part of it.
    """

    posterior: Posterior
    unravel: Callable[[Vector], Params]
    batches: Batches

    def noisy(self, key: RandomKey, position: Vector, data: Batch) -> tuple[Noisy, RandomKey]:
        """Force and covariance on a batch drawn with `key`, and a key for what is then done with them."""
        batch_key, next_key = jax.random.split(key)
        batch = self.batches.take(batch_key, data)
        b = self.batches
        noisy = self.posterior.noisy(position, batch, population=b.population, replace=b.replace, unravel=self.unravel)
        return noisy, next_key

    def log_prior(self, position: Vector) -> Scalar:
        return self.posterior.log_prior(self.unravel(position))
