"""What a random batch says of the posterior at a position: the one place where rows, model and parameters meet."""

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

import jax
import numpy as np
from jax.tree_util import register_dataclass

from isotherm.data.batches import AliasTable, Batches, ExtraBatch
from isotherm.data.sharded import BatchShard, Shards
from isotherm.lib.types import Array, Batch, Int, RandomKey, Scalar, Vector
from isotherm.targets.noisy import Noisy, estimate
from isotherm.targets.target import Target

FORCE = "force"  # the batch that is drawn whatever a sampler declares
Numbers: TypeAlias = Any  # an array of JAX or NumPy, or its shape before there is one
NO_EXTRA: Mapping[str, ExtraBatch] = MappingProxyType({})


class Minibatch(NamedTuple):
    """The rows of a batch, and how often each of them counts; None if all count alike. Where rows are spread over
    devices, those of the batch that are here, and what part of it they are."""

    columns: Batch
    weights: Numbers | None = None
    shard: BatchShard | None = None


class PrefetchedBatches(NamedTuple):
    """In place of data: the batches that were read for what one chain does next, by name."""

    batches: dict[str, Minibatch]


@register_dataclass
@dataclass(frozen=True)
class Evaluation:
    """A target, how batches of its data are drawn, and with which probabilities, if not equal ones. It is a pytree:
    functions and sizes are part of the compiled program, arrays are its arguments."""

    target: Target
    batches: Batches = field(metadata={"static": True})
    table: AliasTable | None = None

    def noisy(
        self, key: RandomKey, position: Vector, data: Batch, extra: Mapping[str, ExtraBatch] = NO_EXTRA
    ) -> tuple[Noisy, RandomKey]:
        """Return the estimates on a batch drawn with `key`, and a key for what is then done with them. `extra` are the
        further batches that `Noisy.on` evaluates, by name; one that it is not asked for is not drawn."""
        batch_key, next_key = jax.random.split(key)
        draws = self._draws(batch_key, extra)

        def on(name: str, position: Vector) -> Noisy:
            if name not in extra:
                raise ValueError(f"the sampler uses a batch {name!r}, and its extra_batches declares {[*extra]}")
            return self.at(position, self._take(data, name, *draws[name]), self.batches.size)

        here = self.at(position, self._take(data, FORCE, *draws[FORCE]))
        return replace(here, _on=on), next_key

    def row_numbers(self, key: RandomKey, extra: Mapping[str, ExtraBatch]) -> dict[str, Int[Array, " n"]]:
        """Return the numbers of the rows of each batch that `noisy` draws with the same key, by name."""
        draws = self._draws(jax.random.split(key)[0], extra)
        return {name: batches.row_numbers(key, self.table) for name, (key, batches) in draws.items()}

    def at(self, position: Vector, batch: Minibatch, size: int | None = None) -> Noisy:
        """Return the estimates on this batch; the covariance is that of batches of `size` rows, if it is given."""
        return estimate(
            self.target,
            position,
            batch.columns,
            population=self.batches.population,
            replace=self.batches.replace,
            size=size,
            weights=batch.weights,
            shard=batch.shard,
        )

    def log_prior(self, flat: Vector) -> Scalar:
        """Return the log-prior of flat parameters."""
        return self.target.log_prior(self.target.unravel(flat))

    def _draws(self, key: RandomKey, extra: Mapping[str, ExtraBatch]) -> dict[str, tuple[RandomKey, Batches]]:
        """Return the key of each batch and how it is drawn, by name."""
        draws = {FORCE: (key, self.batches)}
        if FORCE in extra:
            raise ValueError(f"extra_batches must not declare {FORCE!r}, the batch that is always drawn; rename it")
        for name, batch in extra.items():
            own_key = jax.random.fold_in(key, np.uint32(zlib.crc32(name.encode())))
            draws[name] = own_key, self.batches.resized(batch.rows, weighted=self.table is not None)
        return draws

    def _take(self, data: Batch, name: str, key: RandomKey, batches: Batches) -> Minibatch:
        if isinstance(data, PrefetchedBatches):
            return data.batches[name]
        if isinstance(data, Shards):
            return Minibatch(*data.take(key, batches, self.table))
        return Minibatch(*batches.take(key, data, self.table))
