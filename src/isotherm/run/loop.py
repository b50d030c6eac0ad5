"""The compiled time loop: what a step does to every chain, and what is kept of it.

What step i computes depends on i and the state alone (its random numbers come from the chain's key folded with i, its
moments from a recurrence), so where one call ends and the next begins changes nothing.

A sampler that remembers batches renews its memory before some of the steps, with a batch of its own. The loop goes from
one such step to the next, so that the steps between carry the memory along and never copy it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import register_dataclass

from isotherm.data import threefry
from isotherm.lib.types import Array, Batch, Bool, Float, Int, Key, RandomKey, UInt32, Vector
from isotherm.run.plan import Plan
from isotherm.samplers.base import Phase, Renewing, Sampler, extra_batches
from isotherm.targets.evaluation import Evaluation, Minibatch, Numbers, PrefetchedBatches
from isotherm.targets.noisy import Noisy

SamplerState = Any  # a NamedTuple of the sampler's own (samplers/base.py)
Step = Int[Array, ""]
Record = dict[str, Array]  # slots by chains: what draws are made of, on the device

# A step on a small model takes microseconds, and handing its operations to other threads takes longer than doing them.
# These options of XLA keep it on the thread that calls, in few operations: none is split among threads (first pass),
# no sum into a tree of sums (the second), none waits for another that could run beside it (the order), and matrix
# products use one thread. Compiled as one module instead of many, the loop is ready sooner.
ONE_THREAD = {
    "xla_disable_hlo_passes": "cpu-parallel-task-assigner,tree_reduction_rewriter",
    "xla_cpu_scheduler_type": "CPU_SCHEDULER_TYPE_MEMORY_OPTIMIZED",
    "xla_cpu_multi_thread_eigen": False,
    "xla_cpu_parallel_codegen_split_count": 1,
}

PRIOR_BLOCK = 64  # draws whose log-prior is computed at once: enough that the call costs nothing beside its work

NO_STEP = 2**31  # what a chain's key is folded with before its first step, and for renewals: no step has this number


class Moments(NamedTuple):
    """Mean and variance of the parameters over every sampled step, about a reference so that float32 keeps digits."""

    reference: Float[Array, "chains d"]
    mean: Float[Array, "chains d"]
    variance: Float[Array, "chains d"]

    def update(self, position: Float[Array, "chains d"], count: Step) -> "Moments":
        """Return Welford's recurrence; `count` is this step's number after burn-in, before which nothing changes."""
        weight = jnp.where(count > 0, 1 / jnp.maximum(count, 1).astype(position.dtype), 0)
        reference = jnp.where(count == 1, position, self.reference)
        before = position - reference - self.mean
        mean = jnp.where(count > 0, self.mean + weight * before, self.mean)
        product = before * (position - reference - mean)
        variance = jnp.where(count > 0, self.variance + weight * (product - self.variance), self.variance)
        return Moments(reference, mean, variance)


class Carry(NamedTuple):
    """All that some chains of a run are made of between two steps, each with the chain as leading axis."""

    state: SamplerState
    moments: Moments
    first_bad_step: Int[Array, " chains"]


class ChainIds(NamedTuple):
    """Which chains of a run: its seed and their numbers."""

    seed: np.uint32
    numbers: UInt32[np.ndarray, " chains"]

    def keys(self) -> Key[Array, " chains"]:
        """Return the key of each chain."""
        key = threefry.key(self.seed)
        return jax.vmap(lambda number: jax.random.fold_in(key, number))(self.numbers)


@register_dataclass
@dataclass(frozen=True)
class Block:
    """In place of data: the batches of the steps from `first` on, and of the renewals before the steps in `renewals`,
    or those of `init`, by phase and name. Arrays are by (chain, step or renewal, row, …)."""

    first: Numbers
    renewals: Numbers
    batches: dict[Phase, dict[str, Minibatch]]

    def at(self, phase: Phase, step: Step) -> PrefetchedBatches:
        """Return the batches of a step, or of the renewal before it, by chain."""
        index = jnp.argmax(self.renewals == step) if phase == "renewal" else step - self.first
        at_index = partial(jax.lax.dynamic_index_in_dim, index=index, axis=1, keepdims=False)
        return PrefetchedBatches(jax.tree.map(at_index, self.batches[phase]))


def phase_key(key: RandomKey, phase: Phase, step: Step) -> RandomKey:
    """Return the key of what a chain does before its first step, in a step, or in the renewal before it."""
    if phase == "step":
        return jax.random.fold_in(key, step)
    key = jax.random.fold_in(key, NO_STEP)
    return jax.random.fold_in(key, step) if phase == "renewal" else key


class Phases(NamedTuple):
    """What a sampler does with each of some chains, on batches that are the chain's own."""

    sampler: Sampler[SamplerState]
    evaluation: Evaluation
    data: Batch
    keys: Key[Array, " chains"]

    def init(self, starts: Float[Array, "chains d"]) -> SamplerState:
        """Return the initial states of the sampler."""

        def one(key: RandomKey, position: Vector, noisy: Noisy) -> SamplerState:
            state = self.sampler.init(key, position, noisy)
            if not (hasattr(state, "_asdict") and hasattr(state, "position") and hasattr(state, "step")):
                name = type(state).__name__
                raise TypeError(f"sampler.init must return a NamedTuple with the fields position and step, got {name}")
            return state

        return self._map("init", jnp.int32(0), one, starts)

    def step(self, states: SamplerState, step: Step) -> SamplerState:
        """Return the states after a step."""
        act = self.sampler.step
        return self._map("step", step, lambda key, s, noisy: act(key, s._replace(step=step), noisy), states)

    def renew(self, states: SamplerState, step: Step) -> SamplerState:
        """Return the states with their memory renewed before a step."""
        assert isinstance(self.sampler, Renewing)
        act = self.sampler.renew
        return self._map("renewal", step, lambda key, s, noisy: act(key, s, noisy, step), states)

    def _map(self, phase: Phase, step: Step, act: Callable[..., SamplerState], before: SamplerState) -> SamplerState:
        """Return what `act` makes of each chain's key, its position or state, and the estimates there."""

        def one(key: RandomKey, before: SamplerState, batches: PrefetchedBatches | None) -> SamplerState:
            position, key = before if phase == "init" else before.position, phase_key(key, phase, step)
            extra = extra_batches(self.sampler, phase, position.size, self.evaluation.batches.size)
            noisy, own_key = self.evaluation.noisy(key, position, self.data if batches is None else batches, extra)
            return act(own_key, before, noisy)

        batches = self.data.at(phase, step) if isinstance(self.data, Block) else None
        return over_chains(one)(self.keys, before, batches)


def is_due(sampler: Renewing[SamplerState], step: Step, parameters: int) -> Bool[Array, ""]:
    """Return whether the memory is to be renewed before this step."""
    return (step == 0) | (sampler.steps_to_renewal(jnp.maximum(step - 1, 0), parameters) <= 1)


@jax.jit
def start(
    sampler: Sampler[SamplerState], data: Batch, starts: Array, chains: ChainIds, evaluation: Evaluation
) -> Carry:
    """Return the chains at their starts."""
    state = Phases(sampler, evaluation, data, chains.keys()).init(starts)
    zeros = jnp.zeros_like(starts)
    return Carry(state, Moments(zeros, zeros, zeros), jnp.full(starts.shape[:1], -1, jnp.int32))


def _advance(
    sampler: Sampler[SamplerState],
    carry: Carry,
    data: Batch,
    ids: ChainIds,
    plan: Plan,
    span: tuple[Step, Step],
    evaluation: Evaluation,
    slots: int,
) -> tuple[Carry, Record]:
    """Make the steps span[0] up to span[1]. The k-th slot of the record is the k-th draw that these steps touch."""
    first, last, burn_in, thin = (jnp.asarray(n, jnp.int32) for n in (*span, plan.burn_in, plan.thin))
    chains = Phases(sampler, evaluation, data, ids.keys())
    parameters = carry.state.position.shape[1]
    first_draw = jnp.maximum(0, first - burn_in) // thin

    def kept(flat: Float[Array, "chains d"]) -> Float[Array, "chains k"]:
        entries = evaluation.target.kept
        return flat if entries is None else flat[:, entries]

    def make_step(step: Step, before: tuple[Carry, Record]) -> tuple[Carry, Record]:
        carry, record = before
        state = chains.step(carry.state, step)
        flat = over_chains(evaluation.target.flat_parameters)(state.position)
        moments = carry.moments.update(flat, step + 1 - burn_in)
        inside = jnp.abs(flat) < largest(flat.dtype)  # NaN is not
        bad = ~inside.all(axis=1) & (carry.first_bad_step < 0)
        first_bad_step = jnp.where(bad, step + 1, carry.first_bad_step)
        slot = jnp.maximum(0, step - burn_in) // thin - first_draw
        record = {
            name: jax.lax.dynamic_update_index_in_dim(record[name], value, slot, 0)
            for name, value in observables(state._replace(position=kept(flat))).items()
        }
        return Carry(state, moments, first_bad_step), record

    def renew_and_step(before: tuple[Step, Carry, Record]) -> tuple[Step, Carry, Record]:
        """Renew the memory, if that is due, and make the steps up to the next renewal. A call may begin between two:
        a loop of no rounds then does nothing, and unlike `jax.lax.cond` it never copies the memory."""
        assert isinstance(sampler, Renewing)
        step, carry, record = before
        due = is_due(sampler, step, parameters).astype(jnp.int32)
        state = jax.lax.fori_loop(0, due, lambda _, state: chains.renew(state, step), carry.state)
        following = jnp.maximum(sampler.steps_to_renewal(step, parameters), 1)
        after = step + jnp.minimum(last - step, following.astype(jnp.int32))
        return after, *jax.lax.fori_loop(step, after, make_step, (carry._replace(state=state), record))

    shapes = observables(carry.state._replace(position=kept(carry.state.position)))
    record = {name: jnp.zeros((slots, *v.shape), v.dtype) for name, v in shapes.items()}
    if isinstance(sampler, Renewing):
        _, carry, record = jax.lax.while_loop(lambda now: now[0] < last, renew_and_step, (first, carry, record))
    else:
        carry, record = jax.lax.fori_loop(first, last, make_step, (carry, record))
    if evaluation.target.kept is not None:
        return carry, record
    touched = jnp.maximum(0, last - burn_in + thin - 1) // thin - first_draw
    return carry, record | {"log_prior": _log_priors(evaluation, record["position"], touched)}


def _log_priors(
    evaluation: Evaluation, positions: Float[Array, "slots chains d"], touched: Step
) -> Float[Array, "slots chains"]:
    """Return the log-prior of the slots that were touched, a block at a time; outside the prior it is −inf."""
    slots, chains, _ = positions.shape
    block = min(PRIOR_BLOCK, slots)

    def fill(i: Step, values: Array) -> Array:
        some = jax.lax.dynamic_slice_in_dim(positions, i * block, block)
        priors = jax.vmap(jax.vmap(evaluation.log_prior))(some)
        return jax.lax.dynamic_update_slice_in_dim(values, priors.astype(values.dtype), i * block, 0)

    zeros = jnp.zeros((slots, chains), positions.dtype)
    priors: Array = jax.lax.fori_loop(0, (touched + block - 1) // block, fill, zeros)
    return priors


advance = jax.jit(_advance, static_argnames="slots", donate_argnames="carry")
advance_on_one_thread = jax.jit(_advance, static_argnames="slots", donate_argnames="carry", compiler_options=ONE_THREAD)


def largest(dtype: jnp.dtype) -> float:
    """Return where positions have diverged: beyond this the square, which the variance needs, would overflow."""
    top = float(jnp.finfo(dtype).max)
    return top**0.5 / 4 if top > 1e9 else top  # float16 ends so early that its whole range is needed


def over_chains(function: Callable[..., Any]) -> Callable[..., Any]:
    """Map a function over chains; one chain alone is not vmapped, which would slow its products."""

    def mapped(*arguments: Any) -> Any:
        if jax.tree.leaves(arguments)[0].shape[0] > 1:
            return jax.vmap(function)(*arguments)
        alone = jax.tree.map(lambda x: x[0], arguments)
        return jax.tree.map(lambda x: x[None], function(*alone))

    return mapped


def observables(state: SamplerState) -> dict[str, Any]:
    """Return what a draw records of a state, or the shapes of it, by name: the position (the loop puts the parameters
    in its place) and every floating scalar."""
    fields = state._asdict().items()
    arrays = {k: v for k, v in fields if isinstance(v, jax.Array | jax.ShapeDtypeStruct)}
    scalars = {k: v for k, v in arrays.items() if len(v.shape) == 1 and jnp.issubdtype(v.dtype, jnp.floating)}
    return {"position": state.position, **scalars}
