"""Any sampler of isotherm in the form of BlackJAX's: a pair of functions `init` and `step`, with a minibatch a step."""

import dataclasses
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
from jax.flatten_util import ravel_pytree

from isotherm.lib import arguments
from isotherm.lib.optional import extra
from isotherm.lib.types import Batch, Number, Params, RandomKey, Vector
from isotherm.posterior import Posterior
from isotherm.samplers.base import Renewing, Sampler, check_sampler
from isotherm.targets.noisy import Noisy, estimate
from isotherm.targets.target import as_target

if TYPE_CHECKING:
    from blackjax.base import SamplingAlgorithm  # type: ignore[import-untyped]


class AlgorithmState(NamedTuple):
    """The parameters, as the user has them, and the state of the sampler, in which they are one flat vector."""

    position: Params
    sampler: Any


def algorithm(
    posterior: Posterior, sampler: Sampler[Any], data_size: int, *, replace: bool = True
) -> "SamplingAlgorithm":
    """Make a sampler of isotherm for a loop of one's own, with the interface of `blackjax.sgld` and its relatives.

    >>> import isotherm, jax, jax.numpy as jnp
    >>> posterior = isotherm.Posterior(lambda mean, row: -0.5 * (row - mean) ** 2, lambda mean: -0.5 * mean**2)
    >>> batch = jnp.array([1.0, 2.0, 3.0])
    >>> sgnht = algorithm(posterior, isotherm.sgnht(0.01), data_size=1000)
    >>> state = sgnht.init(jnp.zeros(()), jax.random.key(0), batch)
    >>> state = jax.jit(sgnht.step)(jax.random.key(1), state, batch, 0.01)
    >>> state.position.shape
    ()

    Args:
        posterior: the model.
        sampler: `isotherm.mccadl(...)` or another.
        data_size: the number of rows of all the data.
        replace: whether minibatches are drawn with replacement.

    Returns:
        A `blackjax.base.SamplingAlgorithm`: `init(position, rng_key, minibatch)`, which unlike BlackJAX's needs a
        minibatch, and `step(rng_key, state, minibatch, step_size=None)`; without `step_size`, it is the sampler's. A
        state has the `position`.

    A sampler that remembers batches (`isotherm.eccadl`) remembers here those of the steps before, and sees no other
    rows: give it batches of at least five rows a parameter. `isotherm.sample` draws batches of its own for that.
    """
    with extra("blackjax", "isotherm.bridges.blackjax"):
        from blackjax.base import SamplingAlgorithm
    check_sampler(sampler)
    rows = arguments.integer("data_size", data_size, 1)
    target = as_target(posterior)
    if target.row_probabilities is not None:
        raise ValueError(
            "an anchored posterior draws its rows itself: use isotherm.sample, or give the plain posterior"
        )

    def noisy(position: Vector, like: Params, minibatch: Batch) -> Noisy:
        here = dataclasses.replace(target, unravel=ravel_pytree(like)[1])
        return estimate(here, position, minibatch, population=rows, replace=replace)

    def init(position: Params, rng_key: RandomKey, minibatch: Batch) -> AlgorithmState:
        flat, _ = ravel_pytree(position)
        return AlgorithmState(position, sampler.init(rng_key, flat, noisy(flat, position, minibatch)))

    def step(
        rng_key: RandomKey, state: AlgorithmState, minibatch: Batch, step_size: Number | None = None
    ) -> AlgorithmState:
        stepping = sampler if step_size is None else dataclasses.replace(sampler, step_size=step_size)  # type: ignore[type-var]
        step_key, renewal_key = jax.random.split(rng_key)
        inner = stepping.step(step_key, state.sampler, noisy(state.sampler.position, state.position, minibatch))
        if isinstance(stepping, Renewing):
            due = stepping.steps_to_renewal(inner.step - 1, inner.position.size) <= 1
            renew, here = stepping.renew, noisy(inner.position, state.position, minibatch)
            inner = jax.lax.cond(due, lambda s: renew(renewal_key, s, here, s.step), lambda s: s, inner)
        return AlgorithmState(ravel_pytree(state.position)[1](inner.position), inner)

    return SamplingAlgorithm(init, step)
