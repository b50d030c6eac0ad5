"""The compiled time loop: what a step does to every chain, and what is kept of it.

What step i computes depends on i and the state alone (its random numbers come from the chain's key folded with i, its
moments from a recurrence), so where one call ends and the next begins changes nothing.

A sampler that remembers batches renews its memory before some of the steps, with a batch of its own. The loop goes from
one such step to the next, so that the steps between carry the memory along and never copy it.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from isotherm import kernel, threefry
from isotherm.batches import Batches
from isotherm.posterior import Noisy, Posterior
from isotherm.samplers.base import Renewing
from isotherm.types import RandomKey


class Moments(NamedTuple):
    """Mean and variance of every sampled step, about a reference so that float32 keeps its digits."""

    reference: Float[Array, "chains d"]
    mean: Float[Array, "chains d"]
    variance: Float[Array, "chains d"]

    def updated(self, position: Float[Array, "chains d"], count: Int[Array, ""]) -> "Moments":
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

    state: Any
    moments: Moments
    first_bad_step: Int[Array, " chains"]


class Chains(NamedTuple):
    """Which chains of a run: its seed and their numbers."""

    seed: Any
    numbers: Any

    def keys(self) -> RandomKey:
        key = threefry.key(self.seed)
        return jax.vmap(lambda number: jax.random.fold_in(key, number))(self.numbers)


class Plan(NamedTuple):
    """How long, and which steps count: fixed when a run starts."""

    steps: int
    burn_in: int
    thin: int

    @property
    def draws(self) -> int:
        return self.completed(self.steps)

    def completed(self, step: int) -> int:
        """How many draws are complete after this many steps."""
        return max(0, step - self.burn_in) // self.thin


START = 2**31  # what a chain's key is folded with before its first step, and for renewals; steps are below


@partial(jax.jit, static_argnames=("posterior", "unravel", "batches"))
def start(
    sampler: Any, data: Any, starts: Any, chains: Chains, posterior: Posterior, unravel: Any, batches: Batches
) -> Carry:
    """Where chains begin."""

    def one(key: RandomKey, position: Any) -> Any:
        noisy, init_key = _noisy(jax.random.fold_in(key, START), position, data, posterior, unravel, batches)
        return sampler.init(init_key, position, noisy)

    zeros = jnp.zeros_like(starts)
    unbroken = jnp.full(starts.shape[:1], -1, jnp.int32)
    return Carry(over_chains(one)(chains.keys(), starts), Moments(zeros, zeros, zeros), unbroken)


@partial(jax.jit, static_argnames=("posterior", "unravel", "batches", "slots", "small"), donate_argnames=("carry",))
def advance(
    sampler: Any,
    carry: Carry,
    data: Any,
    chains: Chains,
    plan: Plan,
    span: tuple,
    posterior: Posterior,
    unravel: Any,
    batches: Batches,
    slots: int,
    small: bool = False,
) -> tuple[Carry, dict[str, Array]]:
    """Steps span[0] up to span[1]. The k-th slot of the record is the k-th draw that these steps touch.

    `small` makes one kernel of the steps, if they are of such operations that XLA can.
    """
    first, last = span
    keys = chains.keys()
    first_draw = jnp.maximum(0, first - plan.burn_in) // plan.thin

    def one(key: RandomKey, state: Any, step: Any) -> Any:
        noisy, step_key = _noisy(jax.random.fold_in(key, step), state.position, data, posterior, unravel, batches)
        return sampler.step(step_key, state._replace(step=jnp.asarray(step, jnp.int32)), noisy)

    def renewed(key: RandomKey, state: Any, step: Any) -> Any:
        key = jax.random.fold_in(jax.random.fold_in(key, START), step)
        noisy, renewal_key = _noisy(key, state.position, data, posterior, unravel, batches)
        return sampler.renew(renewal_key, state, noisy, sampler.due(step, state.position.size))

    def body(step: Any, loop: tuple) -> tuple:
        carry, record = loop
        state = over_chains(lambda key, state: one(key, state, step))(keys, carry.state)
        moments = carry.moments.updated(state.position, step + 1 - plan.burn_in)
        inside = jnp.abs(state.position) < largest(state.position.dtype)  # NaN is not
        bad = ~inside.all(axis=1) & (carry.first_bad_step < 0)
        first_bad_step = jnp.where(bad, (step + 1).astype(jnp.int32), carry.first_bad_step)
        slot = jnp.maximum(0, step - plan.burn_in) // plan.thin - first_draw
        record = {
            name: jax.lax.dynamic_update_index_in_dim(record[name], value, slot, 0)
            for name, value in observed(state).items()
        }
        return Carry(state, moments, first_bad_step), record

    def stretch(loop: tuple) -> tuple:
        """A renewal, if it is due, and the steps up to the next."""
        step, carry, record = loop
        state = over_chains(lambda key, state: renewed(key, state, step))(keys, carry.state)
        after = step + jnp.minimum(last - step, sampler.until_due(step, state.position.shape[1]))
        return after, *steps(step, after, (carry._replace(state=state), record))

    def steps(first: Any, last: Any, loop: tuple) -> tuple:
        through = partial(jax.lax.fori_loop, first, last, body)
        return kernel.as_one(through, loop) if small else through(loop)

    record = {name: jnp.zeros((slots, *v.shape), v.dtype) for name, v in observed(carry.state).items()}
    if not isinstance(sampler, Renewing):
        return steps(first, last, (carry, record))
    return jax.lax.while_loop(lambda loop: loop[0] < last, stretch, (first, carry, record))[1:]


def _noisy(
    key: RandomKey, position: Any, data: Any, posterior: Posterior, unravel: Any, batches: Batches
) -> tuple[Noisy, RandomKey]:
    """What a batch says at a position, and a key for what is then done with it."""
    batch_key, other_key = jax.random.split(key)
    batch = batches.take(batch_key, data)
    noisy = posterior.noisy(position, batch, population=batches.population, replace=batches.replace, unravel=unravel)
    return noisy, other_key


def largest(dtype: Any) -> float:
    """A position beyond this has diverged: its square, which the variance needs, would overflow."""
    top = float(jnp.finfo(dtype).max)
    return top**0.5 / 4 if top > 1e9 else top  # float16 ends so early that its whole range is needed


def over_chains(function: Any) -> Any:
    """`function` for each chain; one chain alone is not made to look like many, which would slow its products."""

    def mapped(*arguments: Any) -> Any:
        if jax.tree.leaves(arguments)[0].shape[0] > 1:
            return jax.vmap(function)(*arguments)
        alone = jax.tree.map(lambda x: x[0], arguments)
        return jax.tree.map(lambda x: x[None], function(*alone))

    return mapped


def observed(state: Any) -> dict[str, Array]:
    """What a draw records of a state: the position and every floating scalar, by name."""
    fields = state._asdict().items()
    arrays = {k: v for k, v in fields if isinstance(v, jax.Array)}
    scalars = {k: v for k, v in arrays.items() if v.ndim == 1 and jnp.issubdtype(v.dtype, jnp.floating)}
    return {"position": state.position, **scalars}
