"""The same problem in the libraries people use today, each as its own documentation writes the loop."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from problems import Case

Run = Callable[[], Any]


def blackjax_parts(case: Case, name: str, **options: float) -> tuple[Any, Any, Callable[[Any, Any], Any], Any]:
    import blackjax
    from blackjax.sgmcmc.gradients import grad_estimator

    gradient = grad_estimator(case.model.log_prior, case.model.log_likelihood, case.population)
    sampler = getattr(blackjax, name)(gradient, **options)
    data = jax.tree.map(jnp.asarray, case.data)

    def take(key: Any, data: Any) -> Any:
        rows = jax.random.randint(key, (case.batch_size,), 0, case.population)
        return jax.tree.map(lambda column: column[rows], data)

    init = jnp.asarray(case.init)
    state = sampler.init(init, jax.random.key(3)) if name == "sgnht" else init
    return sampler, state, take, data


def blackjax_loop(case: Case, name: str, steps: int, step_size: float) -> Run:
    """Its documented loop: a jitted step called from Python."""
    sampler, state, take, data = blackjax_parts(case, name)
    step, batch = jax.jit(sampler.step), jax.jit(take)

    def run() -> Any:
        current = state
        for key in jax.random.split(jax.random.key(4), steps):
            rows_key, step_key = jax.random.split(key)
            current = step(step_key, current, batch(rows_key, data), step_size)
        return current

    return run


def blackjax_runs(case: Case, name: str, steps: int, **options: float) -> Callable[[float, int], Any]:
    """The same step in a hand-written `lax.scan`: a step size and a seed to the positions."""
    sampler, state, take, data = blackjax_parts(case, name, **options)

    @jax.jit
    def scan(state: Any, data: Any, keys: Any, step_size: Any) -> Any:
        def body(state: Any, key: Any) -> tuple[Any, Any]:
            rows_key, step_key = jax.random.split(key)
            state = sampler.step(step_key, state, take(rows_key, data), step_size)
            return state, state.position if name == "sgnht" else state

        return jax.lax.scan(body, state, keys)[1]

    return lambda step_size, seed: scan(state, data, jax.random.split(jax.random.key(seed), steps), step_size)


def blackjax_scan(case: Case, name: str, steps: int, step_size: float) -> Run:
    runs = blackjax_runs(case, name, steps)
    return lambda: runs(step_size, 4)


def posteriors_loop(case: Case, name: str, steps: int, step_size: float) -> Run:
    """posteriors' documented loop, in PyTorch; on one thread, which is faster for it at this size on a busy machine."""
    import posteriors
    import torch

    torch.set_num_threads(1)
    data = {key: torch.as_tensor(np.asarray(value)) for key, value in case.data.items()}
    variance, scale = case.model.prior_variance, case.population

    def log_posterior(params: Any, batch: Any) -> tuple[Any, Any]:
        margin = batch["y"] * (batch["x"] @ params["theta"])
        prior = -0.5 * (params["theta"] ** 2).sum() / variance
        return torch.nn.functional.logsigmoid(margin).mean() + prior / scale, torch.tensor([])

    transform = getattr(posteriors.sgmcmc, name).build(log_posterior, lr=step_size, temperature=1 / scale)
    state = transform.init({"theta": torch.zeros(case.d)})
    generator = torch.Generator().manual_seed(0)

    def run() -> Any:
        current = state
        for _ in range(steps):
            rows = torch.randint(0, scale, (case.batch_size,), generator=generator)
            current = transform.update(current, {key: value[rows] for key, value in data.items()})[0]
        return ()

    return run
