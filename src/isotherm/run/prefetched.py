"""Rows that were read ahead, as the compiled loop sees them: the batches of many steps, each in its place."""

from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
from jax.tree_util import register_dataclass

from isotherm.data.alias_table import AliasTable
from isotherm.data.batches import Batches, Requests
from isotherm.lib.types import Array, Batch, Float, Int, RandomKey

Numbers: TypeAlias = Any  # an array of JAX or NumPy, or its shape before there is one


class Part(NamedTuple):
    """A batch and how often each of its rows counts, with whatever axes in front."""

    batch: Batch
    weights: Numbers | None


Parts = tuple[Part, ...]  # in the order in which a step asks for them


@register_dataclass
@dataclass(frozen=True)
class Block:
    """In place of data: batches for the steps from `first` on, and for the renewals before the steps in `renewals`.
    The arrays of a part are by (chain, step or renewal, row, …)."""

    first: Numbers
    renewals: Numbers
    of_steps: Parts
    of_renewals: Parts


class Delivered(Requests):
    """Answers the k-th request with the k-th part, whatever the key: the part was read for that key."""

    def __init__(self, parts: Parts) -> None:
        self.parts = iter(parts)

    def answer(
        self, key: RandomKey, batches: Batches, table: AliasTable | None
    ) -> tuple[Batch, Float[Array, " n"] | None]:
        return next(self.parts)


def for_step(data: Batch, step: Int[Array, ""]) -> Parts:
    """What was read for a step, by chain; nothing where the data are in memory."""
    return _at(data.of_steps, step - data.first) if isinstance(data, Block) else ()


def for_renewal(data: Batch, step: Int[Array, ""]) -> Parts:
    """What was read for the renewal before a step, by chain."""
    return _at(data.of_renewals, jnp.argmax(data.renewals == step)) if isinstance(data, Block) else ()


def source(data: Batch, parts: Parts) -> Batch | Requests:
    """Where one chain takes its batches from: the data, or the parts that were read for it."""
    return Delivered(parts) if isinstance(data, Block) else data


def _at(parts: Parts, index: Int[Array, ""]) -> Parts:
    return jax.tree.map(lambda array: jax.lax.dynamic_index_in_dim(array, index, axis=1, keepdims=False), parts)
