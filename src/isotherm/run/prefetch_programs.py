"""The rows that the chains of a run will ask for, by compiled programs of seed, chain and step; the size of a block."""

import math
from collections.abc import Callable
from functools import cached_property, partial
from typing import TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax.stages import Compiled

from isotherm.lib.types import RandomKey
from isotherm.run.assemble import Run
from isotherm.run.loop import Carry, ChainIds, SamplerState, begun, is_due, renewed, start, stepped
from isotherm.run.prefetched import Block, Part, Parts
from isotherm.run.row_requests import Wish, wishes
from isotherm.samplers.base import Renewing, Sampler
from isotherm.targets.evaluation import Evaluation

BLOCK_BYTES = 3 * 2**25  # of a block, for the steps of all chains; for renewals as much again
MOST_STEPS = 4096  # of a block

Wishes: TypeAlias = tuple[Wish, ...]
Act: TypeAlias = Callable[..., SamplerState]  # of a sampler: a step or a renewal


class Forecast:
    """The forecast for a group of chains; other groups of as many chains use the same programs. Each is compiled when
    it is first asked for."""

    def __init__(self, run: Run, ids: ChainIds) -> None:
        self.run, self.ids = run, ids
        self.columns = jax.tree.map(
            lambda leaf: jax.ShapeDtypeStruct(leaf.shape, jax.dtypes.canonicalize_dtype(leaf.dtype)), run.data
        )
        self.arguments = run.sampler, run.evaluation, ids
        self.renews = isinstance(run.sampler, Renewing)

    @cached_property
    def of_start(self) -> Compiled:
        """What is asked for before the first step."""
        return jax.jit(self._of_start).lower(*self.arguments).compile()

    @cached_property
    def carry(self) -> Carry:
        """The shapes of the chains."""
        asked = jax.eval_shape(self._of_start, *self.arguments)
        run, block = self.run, start_block(self.parts(asked))
        return jax.eval_shape(start, run.sampler, block, run.starts[self.ids.numbers], self.ids, run.evaluation)

    @cached_property
    def steps(self) -> int:
        """How many steps a block is for."""
        return min(MOST_STEPS, self._fitting(stepped))

    @cached_property
    def renewals(self) -> int:
        """How many renewals a block is for, at most."""
        return min(self.steps, self._fitting(renewed)) if self.renews else 0

    @cached_property
    def of_steps(self) -> Compiled:
        """What some steps ask for, by (chain, step, row)."""
        return self._compiled(stepped, self.steps)

    @cached_property
    def of_renewals(self) -> Compiled:
        """What the renewals before some steps ask for."""
        return self._compiled(renewed, self.renewals)

    @cached_property
    def due(self) -> Compiled:
        """Before which steps of a block there is a renewal."""

        def due(sampler: Renewing[SamplerState], steps: jax.Array) -> jax.Array:
            return jax.vmap(lambda step: is_due(sampler, step, self.run.starts.shape[1]))(steps)

        return jax.jit(due).lower(self.run.sampler, np.zeros(self.steps, np.int32)).compile()

    @cached_property
    def block(self) -> Block:
        """The shapes of a block."""
        of_renewals = self.parts(self.of_renewals.out_info) if self.renews else ()
        renewals = jax.ShapeDtypeStruct((self.renewals,), jnp.int32)
        return Block(jax.ShapeDtypeStruct((), jnp.int32), renewals, self.parts(self.of_steps.out_info), of_renewals)

    def parts(self, asked: Wishes) -> Parts:
        """The shapes of the batches that are asked for."""
        table = self.run.evaluation.table

        def part(rows: jax.Array | np.ndarray) -> Part:
            batch = jax.tree.map(
                lambda leaf: jax.ShapeDtypeStruct((*rows.shape, *leaf.shape[1:]), leaf.dtype), self.columns
            )
            return Part(batch, None if table is None else jax.ShapeDtypeStruct(rows.shape, table.weights.dtype))

        return tuple(part(wish.rows) for wish in asked)

    def _of_start(self, sampler: Sampler[SamplerState], evaluation: Evaluation, ids: ChainIds) -> Wishes:
        one, position = partial(begun, sampler, evaluation), self.run.starts[0]
        asked = jax.vmap(lambda key: wishes(one, self.columns, (key,), position))(ids.keys())
        return jax.tree.map(lambda leaf: leaf[:, None], asked)  # as if it were one step

    def _of(self, act: Act) -> Callable[..., Wishes]:
        state = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), self.carry.state)

        def all_steps(
            sampler: Sampler[SamplerState], evaluation: Evaluation, ids: ChainIds, steps: jax.Array
        ) -> Wishes:
            def one(key: RandomKey, step: jax.Array) -> Wishes:
                return wishes(partial(act, sampler, evaluation), self.columns, (key, step), state)

            return jax.vmap(jax.vmap(one, (None, 0)), (0, None))(ids.keys(), steps)

        return all_steps

    def _compiled(self, act: Act, steps: int) -> Compiled:
        return jax.jit(self._of(act)).lower(*self.arguments, np.zeros(steps, np.int32)).compile()

    def _fitting(self, act: Act) -> int:
        asked = jax.eval_shape(self._of(act), *self.arguments, np.zeros(1, np.int32))
        leaves = jax.tree.leaves(self.parts(asked))
        each = max(1, sum(math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in leaves))
        return max(1, BLOCK_BYTES * len(self.ids.numbers) // self.run.chains // each)


def start_block(parts: Parts) -> Block:
    """What is asked for before the first step, in the form of a block."""
    return Block(np.zeros((), np.int32), np.zeros(0, np.int32), parts, ())
