"""The compiled time loop: what a step does to every chain, and what is kept of it.

What step i computes depends on i and the state alone (its random numbers come from the chain's key folded with i, its
moments from a recurrence), so where one call ends and the next begins changes nothing.

A sampler that remembers batches renews its memory before some of the steps, with a batch of its own. The loop goes from
one such step to the next, so that the steps between carry the memory along and never copy it.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from isotherm.data import threefry
from isotherm.lib.types import Array, Batch, Bool, Float, Int, Key, RandomKey, UInt32, Vector
from isotherm.run.plan import Plan
from isotherm.run.prefetched import Parts, for_renewal, for_step, source
from isotherm.samplers.base import Renewing, Sampler
from isotherm.targets.evaluation import Evaluation

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

START = 2**31  # what a chain's key is folded with before its first step, and for renewals: no step has this number


class Moments(NamedTuple):
    """Mean and variance of the parameters over every sampled step, about a reference so that float32 keeps digits."""

    reference: Float[Array, "chains d"]
    mean: Float[Array, "chains d"]
    variance: Float[Array, "chains d"]

    def updated(self, position: Float[Array, "chains d"], count: Step) -> "Moments":
        """Welford's recurrence; `count` is this step's number after burn-in, before which nothing changes."""
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
        key = threefry.key(self.seed)
        return jax.vmap(lambda number: jax.random.fold_in(key, number))(self.numbers)


# What one chain does, with batches from `data`: all that is asked of the data is asked here.


def begun(sampler: Sampler[Any], evaluation: Evaluation, data: Batch, position: Vector, key: RandomKey) -> SamplerState:
    """The state in which it starts."""
    noisy, init_key = evaluation.noisy(jax.random.fold_in(key, START), position, data)
    state = sampler.init(init_key, position, noisy)
    if not (hasattr(state, "_asdict") and hasattr(state, "position") and hasattr(state, "step")):
        raise TypeError(
            f"sampler.init must return a NamedTuple with the fields position and step, got {type(state).__name__}"
        )
    return state


def stepped(
    sampler: Sampler[Any], evaluation: Evaluation, data: Batch, state: SamplerState, key: RandomKey, step: Step
) -> SamplerState:
    """The state after a step."""
    noisy, step_key = evaluation.noisy(jax.random.fold_in(key, step), state.position, data)
    return sampler.step(step_key, state._replace(step=step), noisy)


def renewed(
    sampler: Renewing[Any], evaluation: Evaluation, data: Batch, state: SamplerState, key: RandomKey, step: Step
) -> SamplerState:
    """The state with its memory renewed before a step."""
    key = jax.random.fold_in(jax.random.fold_in(key, START), step)
    noisy, renewal_key = evaluation.noisy(key, state.position, data)
    return sampler.renew(renewal_key, state, noisy, step)


def is_due(sampler: Renewing[Any], step: Step, parameters: int) -> Bool[Array, ""]:
    """Whether the memory is to be renewed before this step."""
    return (step == 0) | (sampler.steps_to_renewal(jnp.maximum(step - 1, 0), parameters) <= 1)


@jax.jit
def start(sampler: Sampler[Any], data: Batch, starts: Array, chains: ChainIds, evaluation: Evaluation) -> Carry:
    """Where chains begin."""

    def one(key: RandomKey, position: Vector, parts: Parts) -> SamplerState:
        return begun(sampler, evaluation, source(data, parts), position, key)

    zeros = jnp.zeros_like(starts)
    unbroken = jnp.full(starts.shape[:1], -1, jnp.int32)
    state = over_chains(one)(chains.keys(), starts, for_step(data, jnp.int32(0)))
    return Carry(state, Moments(zeros, zeros, zeros), unbroken)


def _advance(
    sampler: Sampler[Any],
    carry: Carry,
    data: Batch,
    chains: ChainIds,
    plan: Plan,
    span: tuple[Step, Step],
    evaluation: Evaluation,
    slots: int,
) -> tuple[Carry, Record]:
    """Steps span[0] up to span[1]. The k-th slot of the record is the k-th draw that these steps touch."""
    first, last, burn_in, thin = (jnp.asarray(n, jnp.int32) for n in (*span, plan.burn_in, plan.thin))
    keys = chains.keys()
    first_draw = jnp.maximum(0, first - burn_in) // thin

    def body(step: Step, loop: tuple[Carry, Record]) -> tuple[Carry, Record]:
        carry, record = loop

        def one(key: RandomKey, state: SamplerState, parts: Parts) -> SamplerState:
            return stepped(sampler, evaluation, source(data, parts), state, key, step)

        state = over_chains(one)(keys, carry.state, for_step(data, step))
        flat = over_chains(evaluation.target.flat_parameters)(state.position)
        moments = carry.moments.updated(flat, step + 1 - burn_in)
        inside = jnp.abs(flat) < largest(flat.dtype)  # NaN is not
        bad = ~inside.all(axis=1) & (carry.first_bad_step < 0)
        first_bad_step = jnp.where(bad, step + 1, carry.first_bad_step)
        slot = jnp.maximum(0, step - burn_in) // thin - first_draw
        record = {
            name: jax.lax.dynamic_update_index_in_dim(record[name], value, slot, 0)
            for name, value in observed(state._replace(position=flat)).items()
        }
        return Carry(state, moments, first_bad_step), record

    def steps(first: Step, last: Step, loop: tuple[Carry, Record]) -> tuple[Carry, Record]:
        return jax.lax.fori_loop(first, last, body, loop)

    def with_renewals(sampler: Renewing[Any], loop: tuple[Carry, Record]) -> tuple[Carry, Record]:
        def stretch(loop: tuple[Step, Carry, Record]) -> tuple[Step, Carry, Record]:
            """A renewal, if it is due, and the steps up to the next. A call may begin between
            two: a loop of no rounds then does nothing, and unlike `jax.lax.cond` it never copies the memory."""
            step, carry, record = loop
            parameters = carry.state.position.shape[1]
            due = is_due(sampler, step, parameters)

            def one(key: RandomKey, state: SamplerState, parts: Parts) -> SamplerState:
                return renewed(sampler, evaluation, source(data, parts), state, key, step)

            def renew(_: Step, state: SamplerState) -> SamplerState:
                return over_chains(one)(keys, state, for_renewal(data, step))

            state = jax.lax.fori_loop(0, due.astype(jnp.int32), renew, carry.state)
            following = jnp.maximum(sampler.steps_to_renewal(step, parameters), 1)
            after = step + jnp.minimum(last - step, following.astype(jnp.int32))
            return after, *steps(step, after, (carry._replace(state=state), record))

        return jax.lax.while_loop(lambda loop: loop[0] < last, stretch, (first, *loop))[1:]

    empty = {name: jnp.zeros((slots, *v.shape), v.dtype) for name, v in observed(carry.state).items()}
    if isinstance(sampler, Renewing):
        carry, record = with_renewals(sampler, (carry, empty))
    else:
        carry, record = steps(first, last, (carry, empty))
    touched = jnp.maximum(0, last - burn_in + thin - 1) // thin - first_draw
    return carry, record | {"log_prior": _log_priors(evaluation, record["position"], touched)}


def _log_priors(
    evaluation: Evaluation, positions: Float[Array, "slots chains d"], touched: Step
) -> Float[Array, "slots chains"]:
    """The log-prior of the slots that were touched, a block at a time: a draw where it is −inf is outside the prior."""
    slots, chains, _ = positions.shape
    block = min(PRIOR_BLOCK, slots)

    def fill(i: Step, values: Array) -> Array:
        some = jax.lax.dynamic_slice_in_dim(positions, i * block, block)
        priors = jax.vmap(jax.vmap(evaluation.log_prior))(some)
        return jax.lax.dynamic_update_slice_in_dim(values, priors.astype(values.dtype), i * block, 0)

    return jax.lax.fori_loop(0, (touched + block - 1) // block, fill, jnp.zeros((slots, chains), positions.dtype))


advance = jax.jit(_advance, static_argnames="slots", donate_argnames="carry")
advance_on_one_thread = jax.jit(_advance, static_argnames="slots", donate_argnames="carry", compiler_options=ONE_THREAD)


def largest(dtype: jnp.dtype) -> float:
    """A position beyond this has diverged: its square, which the variance needs, would overflow."""
    top = float(jnp.finfo(dtype).max)
    return top**0.5 / 4 if top > 1e9 else top  # float16 ends so early that its whole range is needed


def over_chains(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function` for each chain; one chain alone is not vmapped, which would slow its products."""

    def mapped(*arguments: Any) -> Any:
        if jax.tree.leaves(arguments)[0].shape[0] > 1:
            return jax.vmap(function)(*arguments)
        alone = jax.tree.map(lambda x: x[0], arguments)
        return jax.tree.map(lambda x: x[None], function(*alone))

    return mapped


def observed(state: SamplerState) -> dict[str, Any]:
    """What a draw records of a state, or the shapes of it: the position (the loop puts the parameters in its place) and
    every floating scalar, by name."""
    fields = state._asdict().items()
    arrays = {k: v for k, v in fields if isinstance(v, jax.Array | jax.ShapeDtypeStruct)}
    scalars = {k: v for k, v in arrays.items() if len(v.shape) == 1 and jnp.issubdtype(v.dtype, jnp.floating)}
    return {"position": state.position, **scalars}
