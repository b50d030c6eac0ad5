"""What a random batch says of the posterior at a position: the one place where rows, model and parameters meet."""

from dataclasses import dataclass, field, replace

import jax
from jax.tree_util import register_dataclass

from isotherm.data.alias_table import AliasTable
from isotherm.data.batches import Batches, Requests
from isotherm.data.sharded import Part, Shards
from isotherm.lib.types import Array, Batch, Float, Params, RandomKey, Scalar, Vector
from isotherm.posterior import Unravel
from isotherm.targets.noisy import Noisy
from isotherm.targets.target import Target


@register_dataclass
@dataclass(frozen=True)
class Evaluation:
    """A posterior, the way from flat parameters back to the user's, how batches are drawn, and with which
    probabilities, if not equal ones.

    It is a pytree: functions and sizes are part of the compiled program, arrays are its arguments. The data are not
    part of it.
    """

    posterior: Target
    unravel: Unravel = field(metadata={"static": True})
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
        return replace(self.at(position, batch, weights, part=part), _fresh=fresh), next_key

    def taken(
        self, key: RandomKey, data: Batch, batches: Batches
    ) -> tuple[Batch, Float[Array, " n"] | None, Part | None]:
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
        part: Part | None = None,
    ) -> Noisy:
        """Force and covariance on this batch; the covariance is that of batches of `size` rows, if it is given."""
        population, replaced = self.batches.population, self.batches.replace
        return self.posterior.noisy(
            position,
            batch,
            population=population,
            replace=replaced,
            unravel=self.unravel,
            size=size,
            weights=weights,
            part=part,
        )

    def params(self, position: Vector) -> Params:
        """The user's parameters at a position."""
        return self.unravel(self.posterior.flat_parameters(position))

    def log_prior(self, flat: Vector) -> Scalar:
        """Of flat parameters."""
        return self.posterior.log_prior(self.unravel(flat))
