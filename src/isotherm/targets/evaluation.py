"""What a random batch says of the posterior at a position: the one place where rows, model and parameters meet."""

from dataclasses import dataclass, field, replace

import jax
from jax.tree_util import register_dataclass

from isotherm.data.alias_table import AliasTable
from isotherm.data.batches import Batches, Requests
from isotherm.data.sharded import BatchShard, Shards
from isotherm.lib.types import Array, Batch, Float, RandomKey, Scalar, Vector
from isotherm.targets.noisy import Noisy
from isotherm.targets.target import Target


@register_dataclass
@dataclass(frozen=True)
class Evaluation:
    """A target, how batches of its data are drawn, and with which probabilities, if not equal ones.

    It is a pytree: functions and sizes are part of the compiled program, arrays are its arguments. The data are not
    part of it.
    """

    target: Target
    batches: Batches = field(metadata={"static": True})
    table: AliasTable | None = None

    def noisy(self, key: RandomKey, position: Vector, data: Batch) -> tuple[Noisy, RandomKey]:
        """Force and covariance on a batch drawn with `key`, and a key for what is then done with them."""
        batch_key, next_key = jax.random.split(key)

        def fresh(key: RandomKey, position: Vector, rows: int) -> Noisy:
            larger = self.batches.larger(rows, weighted=self.table is not None)
            batch, weights, part = self.taken(key, data, larger)
            return self.at(position, batch, weights, self.batches.size, part)

        batch, weights, part = self.taken(batch_key, data, self.batches)
        return replace(self.at(position, batch, weights, shard=part), _fresh=fresh), next_key

    def taken(
        self, key: RandomKey, data: Batch, batches: Batches
    ) -> tuple[Batch, Float[Array, " n"] | None, BatchShard | None]:
        """A batch, and how often each of its rows counts; None if all count alike. Where the rows are spread over
        devices, those of the batch that are here, and what part of it they are."""
        if isinstance(data, Requests):
            return *data.answer(key, batches, self.table), None
        if isinstance(data, Shards):
            return data.taken(key, batches, self.table)
        if self.table is None:
            return batches.take(key, data), None, None
        return *batches.take_weighted(key, data, self.table), None

    def at(
        self,
        position: Vector,
        batch: Batch,
        weights: Float[Array, " n"] | None = None,
        size: int | None = None,
        shard: BatchShard | None = None,
    ) -> Noisy:
        """Return the estimates on this batch; the covariance is that of batches of `size` rows, if it is given."""
        N, replace = self.batches.population, self.batches.replace
        return self.target.noisy(
            position, batch, population=N, replace=replace, size=size, weights=weights, shard=shard
        )

    def log_prior(self, flat: Vector) -> Scalar:
        """Return the log-prior of flat parameters."""
        return self.target.log_prior(self.target.unravel(flat))
