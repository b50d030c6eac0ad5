"""Ways to take many steps: each function returns a call that takes `steps` steps and waits for nothing."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from isotherm import kernel, loop, threefry
from isotherm.batches import Batches
from isotherm.lanes import Lanes
from isotherm.problem import problem
from isotherm.store import Parts
from problems import Case

Run = Callable[[], Any]


def isotherms(case: Case, sampler: Any, steps: int, chains: int = 1) -> Run:
    """The driver's lanes: moments, divergence and a record of every tenth step included; nothing of the host's work."""
    lanes = _lanes(case, sampler, chains)
    return lambda: lanes.advance(loop.Plan(10**8, 0, 10), 0, steps)


def compiled(case: Case, sampler: Any) -> Any:
    """The loop as XLA has it, for its own count of operations and memory."""
    return _lanes(case, sampler, 1).program


def _lanes(case: Case, sampler: Any, chains: int) -> Lanes:
    what = problem(case.posterior, case.data, case.init, chains, 0)
    return Lanes(Parts(sampler, what, Batches(case.population, case.batch_size), chains, 1, None))


def bare(case: Case, steps: int) -> Run:
    """The limit for logistic regression: random rows, their gather, two products, random normals; no sampler. In one
    kernel, as our own loop is: the limit as XLA compiles it by itself is above our samplers."""
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

        return kernel.as_one(partial(jax.lax.fori_loop, 0, steps, body), theta)

    data, key = jax.tree.map(jnp.asarray, case.data), threefry.key(2)
    return lambda: run(jnp.zeros(d), data, key)
