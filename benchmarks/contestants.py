"""Ways to take many steps: each function returns a call that takes `steps` steps and waits for nothing."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from isotherm.data import threefry
from isotherm.data.batches import Batches
from isotherm.run.assemble import RunSettings, assemble
from isotherm.run.chains import Chains
from isotherm.run.loop import ONE_THREAD
from isotherm.run.plan import Plan
from problems import Case

Run = Callable[[], Any]


def isotherms(case: Case, sampler: Any, steps: int, chains: int = 1) -> Run:
    """The chains of a run: moments, divergence and a record of every tenth step included; no work of the host's."""
    moving = _chains(case, sampler, chains)
    return lambda: moving.advance(Plan(10**8, 0, 10), 0, steps)


def compiled(case: Case, sampler: Any) -> Any:
    """The loop as XLA has it, for its own count of operations and memory."""
    return _chains(case, sampler, 1).program


def _chains(case: Case, sampler: Any, chains: int) -> Chains:
    settings = {"batch_size": case.batch_size, "replace": True, "chains": chains, "seed": 1, "name": None}
    return Chains(assemble(case.posterior, sampler, case.data, case.init, RunSettings(**settings)))


def bare(case: Case, steps: int) -> Run:
    """The limit for logistic regression: random rows, their gather, two products, random normals; no sampler. On one
    thread, as our own loop is: the limit as XLA compiles it by itself is above our samplers."""
    n, d, batches = case.batch_size, case.d, Batches(case.population, case.batch_size)
    assert n < case.population

    def run(theta: Any, data: Any, key: Any) -> Any:
        def body(step: Any, theta: Any) -> Any:
            rows_key, noise_key = jax.random.split(jax.random.fold_in(key, step))
            batch, _ = batches.take(rows_key, data)
            x, y = batch["x"], batch["y"]
            force = (y * jax.nn.sigmoid(-y * (x @ theta))) @ x
            return theta + 1e-6 * force + 1e-3 * jax.random.normal(noise_key, (d,))

        return jax.lax.fori_loop(0, steps, body, theta)

    data, key = jax.tree.map(jnp.asarray, case.data), threefry.key(2)
    fast = jax.jit(run, compiler_options=ONE_THREAD)
    return lambda: fast(jnp.zeros(d), data, key)
