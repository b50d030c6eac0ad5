"""Ways to take many steps: each function returns a call that takes `steps` steps and waits for nothing."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from isotherm import lanes, loop, threefry
from isotherm.batches import Batches
from isotherm.problem import problem
from problems import Case

Run = Callable[[], Any]


def isotherms(case: Case, sampler: Any, steps: int, chains: int = 1) -> Run:
    """The driver's compiled loop: moments, divergence and a record of every tenth step included."""
    advance, arguments = _advance(case, sampler, steps, chains)
    carry, rest = arguments[1], (arguments[0], *arguments[2:])

    def run() -> Any:
        nonlocal carry
        carry, _ = advance(rest[0], carry, *rest[1:])
        return carry

    return run


def compiled(case: Case, sampler: Any, steps: int = 1) -> Any:
    """The loop as XLA has it, for its own count of operations and memory."""
    advance, arguments = _advance(case, sampler, steps, 1)
    return advance.lower(*arguments).compile()


def _advance(case: Case, sampler: Any, steps: int, chains: int) -> tuple[Any, tuple]:
    what = problem(case.posterior, case.data, case.init, chains, 0)
    batches = Batches(case.population, case.batch_size)
    some = loop.Chains(np.uint32(1), np.arange(chains, dtype=np.uint32))
    static = (what.posterior, what.unravel, batches)
    carry = loop.start(sampler, what.data, what.starts, some, *static)
    slots = max(2, min(lanes.RECORD_BYTES // what.starts.nbytes, 8192))
    plan = loop.Plan(10**8, 0, 10)
    small = case.batch_size * case.d <= lanes.SMALL
    return loop.advance, (sampler, carry, what.data, some, plan, (0, steps), *static, slots, small)


def bare(case: Case, steps: int) -> Run:
    """The limit for logistic regression: random rows, their gather, two products, random normals; no sampler."""
    n, d, batches = case.batch_size, case.d, Batches(case.population, case.batch_size)
    assert n < case.population

    @jax.jit
    def run(theta: Any, data: Any, key: Any) -> Any:
        def body(step: Any, theta: Any) -> Any:
            rows_key, noise_key = jax.random.split(jax.random.fold_in(key, step))
            batch = batches.take(rows_key, data)
            x, y = batch["x"], batch["y"]
            force = (y * jax.nn.sigmoid(-y * (x @ theta))) @ x
            return theta + 1e-6 * force + 1e-3 * jax.random.normal(noise_key, (d,))

        return jax.lax.fori_loop(0, steps, body, theta)

    data, key = jax.tree.map(jnp.asarray, case.data), threefry.key(2)
    return lambda: run(jnp.zeros(d), data, key)
