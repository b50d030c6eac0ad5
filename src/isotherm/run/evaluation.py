"""What a random batch says of the posterior at a position: the one place where rows, model and parameters meet."""

from collections.abc import Callable
from dataclasses import dataclass, replace

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

        def fresh(key: RandomKey, position: Vector, rows: int) -> Noisy:
            return self.at(position, self.batches.larger(rows).take(key, data), self.batches.size)

        return replace(self.at(position, self.batches.take(batch_key, data)), _fresh=fresh), next_key

    def at(self, position: Vector, batch: Batch, size: int | None = None) -> Noisy:
        """Force and covariance on this batch; the covariance is that of batches of `size` rows, if it is given."""
        population, replaced = self.batches.population, self.batches.replace
        return self.posterior.noisy(
            position, batch, population=population, replace=replaced, unravel=self.unravel, size=size
        )

    def log_prior(self, position: Vector) -> Scalar:
        return self.posterior.log_prior(self.unravel(position))
