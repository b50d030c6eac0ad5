"""The driver and the only time loop: chains, burn-in, thinning, progress, divergence, recording.

Time is spent in one compiled loop a chunk; between chunks the host draws the progress bar, collects draws and looks
for divergence. What step i computes depends on i and the state alone (its random numbers come from the chain's key
folded with i, its moments from a recurrence), so where the chunks end changes nothing.
"""

import time
import warnings
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from isotherm import arguments, results
from isotherm.batches import Batches
from isotherm.posterior import Posterior
from isotherm.problem import Problem, problem
from isotherm.progress import Bar, interruptible
from isotherm.samplers import Sampler
from isotherm.types import Batch, Params, RandomKey

CHUNK_SECONDS = 0.25  # how often the host looks in
RECORD_BYTES = 2**22  # what a chunk may record on the device


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
    """All that a run is made of between two steps, each with the chain as leading axis."""

    state: Any
    moments: Moments
    first_bad_step: Int[Array, " chains"]


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


def sample(
    posterior: Posterior,
    sampler: Sampler,
    data: Batch,
    init: Params,
    *,
    batch_size: int,
    steps: int | None = None,
    passes: float | None = None,
    burn_in: float = 0.2,
    thin: int = 10,
    chains: int = 4,
    seed: int = 0,
    replace: bool = True,
    progress: bool = True,
) -> Any:
    """Draw from `posterior` given `data` with `sampler`.

    Args:
        posterior: the model.
        sampler: `isotherm.mccadl(...)` or another.
        data: a pytree of arrays with one leading length N.
        init: the parameters to start from, or a function of a random key that draws them, one start a chain.
        batch_size: n, the number of examples a step looks at.
        steps: how many steps each chain makes; or
        passes: how many times N/n steps.
        burn_in: the fraction of the steps, from the first, that is not kept.
        thin: every how many steps a draw is kept.
        chains: how many independent chains.
        seed: same seed, same draws.
        replace: whether a batch may hold an example twice. `batch_size=N, replace=False` is the exact gradient.
        progress: whether to show a bar (on a terminal only).

    Returns:
        An `xarray.DataTree` in ArviZ's schema: `posterior` and `sample_stats` by (chain, draw), `posterior_mean` and
        `posterior_variance` over all steps after burn-in, and attributes saying how it was made. Ctrl-C returns what
        there is so far, with the attribute `interrupted` set.
    """
    if isinstance(sampler, type) or not isinstance(sampler, Sampler):
        raise TypeError(f"sampler must be a sampler such as isotherm.mccadl(step_size=1e-3), got {sampler!r}")
    chains = arguments.integer("chains", chains, 1)
    key = jax.random.key(arguments.integer("seed", seed, 0))
    what = problem(posterior, data, init, chains, jax.random.fold_in(key, 2**31))
    batches = Batches(what.population, batch_size, bool(replace))
    plan = make_plan(steps, passes, burn_in, thin, batches)
    keys = jax.vmap(lambda chain: jax.random.fold_in(key, chain))(jnp.arange(chains))

    began = time.perf_counter()
    carry = start(sampler, what.data, what.starts, keys, what.posterior, what.unravel, batches)
    with interruptible() as stop, Bar(plan.steps, progress) as bar:
        carry, recorded, done = run(sampler, carry, what, keys, batches, plan, stop, bar)
    first_bad = np.asarray(carry.first_bad_step)
    warn_divergence(first_bad, sampler)
    attributes = {
        "sampler": type(sampler).__name__.lower(),
        **results.settings("sampler", sampler),
        "batch_size": batches.size,
        "population": batches.population,
        "replace": int(batches.replace),
        **plan._asdict(),
        "chains": chains,
        "seed": int(seed),
        "steps_done": done,
        "interrupted": int(done < plan.steps and (first_bad < 0).any()),
        "sampling_time": time.perf_counter() - began,
    }
    return results.tree(recorded, plan, carry.moments, first_bad, what.unravel, attributes)


def make_plan(steps: int | None, passes: float | None, burn_in: float, thin: int, batches: Batches) -> Plan:
    if (steps is None) == (passes is None):
        raise ValueError(f"give one of steps and passes, got steps={steps!r} and passes={passes!r}")
    if passes is not None:
        steps = max(1, round(arguments.positive("passes", passes) * batches.population / batches.size))
    steps = arguments.integer("steps", steps, 1)
    thin = arguments.integer("thin", thin, 1)
    if not 0 <= arguments.number("burn_in", burn_in) < 1:
        raise ValueError(f"burn_in must be a fraction of the steps, at least 0 and less than 1, got {burn_in!r}")
    plan = Plan(steps, int(burn_in * steps), thin)
    if not plan.draws:
        raise ValueError(
            f"thin={thin} keeps no draw of the {steps - plan.burn_in} steps after burn-in; lower thin or raise steps"
        )
    return plan


@partial(jax.jit, static_argnames=("posterior", "unravel", "batches"))
def start(
    sampler: Any, data: Any, starts: Any, keys: Any, posterior: Posterior, unravel: Any, batches: Batches
) -> Carry:
    def one(key: RandomKey, position: Any) -> Any:
        batch_key, init_key = jax.random.split(jax.random.fold_in(key, 2**31))
        batch = batches.take(batch_key, data)
        noisy = posterior.noisy(
            position, batch, population=batches.population, replace=batches.replace, unravel=unravel
        )
        return sampler.init(init_key, position, noisy)

    zeros = jnp.zeros_like(starts)
    unbroken = jnp.full(starts.shape[:1], -1, jnp.int32)
    return Carry(over_chains(one)(keys, starts), Moments(zeros, zeros, zeros), unbroken)


@partial(jax.jit, static_argnames=("posterior", "unravel", "batches", "slots"), donate_argnames=("carry",))
def advance(
    sampler: Any,
    carry: Carry,
    data: Any,
    keys: Any,
    plan: Plan,
    span: tuple,
    posterior: Posterior,
    unravel: Any,
    batches: Batches,
    slots: int,
) -> tuple[Carry, dict[str, Array]]:
    """Steps span[0] up to span[1]. The k-th slot of the record is the k-th draw that these steps touch."""
    first, last = span
    first_draw = jnp.maximum(0, first - plan.burn_in) // plan.thin

    def one(key: RandomKey, state: Any, step: Any) -> Any:
        batch_key, step_key = jax.random.split(jax.random.fold_in(key, step))
        batch = batches.take(batch_key, data)
        noisy = posterior.noisy(
            state.position, batch, population=batches.population, replace=batches.replace, unravel=unravel
        )
        return sampler.step(step_key, state, noisy)

    def body(step: Any, loop: tuple) -> tuple:
        carry, record = loop
        state = over_chains(lambda key, state: one(key, state, step))(keys, carry.state)
        moments = carry.moments.updated(state.position, step + 1 - plan.burn_in)
        bad = ~jnp.isfinite(state.position).all(axis=1) & (carry.first_bad_step < 0)
        first_bad_step = jnp.where(bad, (step + 1).astype(jnp.int32), carry.first_bad_step)
        slot = jnp.maximum(0, step - plan.burn_in) // plan.thin - first_draw
        record = {
            name: jax.lax.dynamic_update_index_in_dim(record[name], value, slot, 0)
            for name, value in observed(state).items()
        }
        return Carry(state, moments, first_bad_step), record

    record = {name: jnp.zeros((slots, *v.shape), v.dtype) for name, v in observed(carry.state).items()}
    return jax.lax.fori_loop(first, last, body, (carry, record))


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
    scalars = {k: v for k, v in fields if v.ndim == 1 and jnp.issubdtype(v.dtype, jnp.floating)}
    return {"position": state.position, **scalars}


def run(
    sampler: Any, carry: Carry, what: Problem, keys: Any, batches: Batches, plan: Plan, stop: Any, bar: Bar
) -> tuple[Carry, list[dict[str, np.ndarray]], int]:
    """Chunk after chunk, until the plan is done, Ctrl-C, or no chain is left."""
    slots = max(2, min(RECORD_BYTES // what.starts.nbytes, plan.draws))
    recorded: list[dict[str, np.ndarray]] = []
    step, length, began = 0, 4, time.perf_counter()
    speed = 0.0
    while step < plan.steps and not stop.is_set() and (np.asarray(carry.first_bad_step) < 0).any():
        # The draw in progress at `step` and slots − 1 more: what the record has room for.
        room = plan.burn_in + (plan.completed(step) + slots) * plan.thin
        end = min(step + length, plan.steps, room)
        carry, record = advance(
            sampler, carry, what.data, keys, plan, (step, end), what.posterior, what.unravel, batches, slots
        )
        fresh = plan.completed(end) - plan.completed(step)
        recorded.append({name: np.asarray(values[:fresh]) for name, values in record.items()})
        elapsed, began = time.perf_counter() - began, time.perf_counter()
        speed = (end - step) / elapsed
        length = max(1, min(8 * length, round(speed * CHUNK_SECONDS)))
        step = end
        temperature = getattr(carry.state, "kinetic_temperature", None)
        bar.update(step, plan.burn_in, speed, None if temperature is None else float(temperature.mean()))
    return carry, recorded, step


def warn_divergence(first_bad: np.ndarray, sampler: Any) -> None:
    bad = np.flatnonzero(first_bad >= 0)
    if not bad.size:
        return
    who = f"all {len(first_bad)} chains" if bad.size == len(first_bad) else f"{bad.size} of {len(first_bad)} chains"
    if len(first_bad) == 1:
        who = "the chain"
    said = ", ".join(f"chain {chain} at step {first_bad[chain]}" for chain in bad[:4])
    size = sampler.step_size if isinstance(sampler.step_size, float) else "now"
    warnings.warn(
        f"{who} diverged ({said}{', …' if bad.size > 4 else ''}): use a smaller step_size than {size}, "
        "or a sampler that stays stable at large ones, such as isotherm.mccadl",
        RuntimeWarning,
        stacklevel=3,
    )
