"""Effective draws a second from 1,000,000 rows: ours, anchored, beside what people use today.

    python benchmarks/anchored_peers.py [--rows 1000000] [--only PART;...]

The posterior is that of growth.py: logistic regression, d = 50. Each contestant has a process of its own, and
its clock starts when it is compiled. Effective draws are the least over all parameters, in the bulk; below some 100
they are a guess, and a variance that is right says little, since SGLD starts at typical draws.
Variance is tr(HC)/d and mean is √((m − m*)ᵀH(m − m*)/d) with the mode m* and the precision H there, found in float64:
with so many rows the posterior is that Gaussian to well below a percent. Set-up is all that comes before the
first draw that counts, compiling included: anchoring; for those who are given the mode, and for NUTS the mass matrix,
Newton's method; warm-up. A contestant counts towards the mark if its variance is between 0.95 and 1.05.

Needs blackjax and numpyro; a contestant whose library is not there is left out.
"""

import argparse
import functools
import importlib.metadata
import importlib.util
import json
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import isotherm
from growth import BLOCK, D, Made, child, least_ess, made, sampled
from isotherm.run.plan import Plan

ROWS = 10**6
ACCURATE = (0.95, 1.05)
VERSIONS = ("isotherm", "jax", "blackjax", "numpyro", "numpy", "arviz-stats")
CHAINS = 4
STEPS = 10_000  # of an anchored chain
PLAIN_STEPS = 300_000
SGLD_STEPS, SGLD_THIN, SGLD_BATCH = 200_000, 20, 500
SGLD_SIZES = 2.0 ** np.arange(-6, 0)  # over the largest that is stable, 2 over the largest curvature
NUTS_WARMUP, NUTS_DRAWS = 30, 150
ECS_WARMUP, ECS_DRAWS, ECS_SUBSAMPLE, ECS_BLOCKS = 100, 500, 1000, 100


class Laplace(NamedTuple):
    mode: np.ndarray
    precision: np.ndarray
    seconds: float

    @property
    def spread(self) -> np.ndarray:
        """L with LLᵀ = H⁻¹."""
        return np.linalg.inv(np.linalg.cholesky(self.precision)).T


class Run(NamedTuple):
    """Draws (chain, draw, d), the seconds that they took, those of what came before, and a word on how."""

    draws: np.ndarray
    seconds: float
    setup: float
    how: str


def laplace(problem: Made) -> Laplace:
    """By Newton's method, in float64, in blocks."""
    began, theta = time.perf_counter(), np.zeros(D)
    x, y = (np.asarray(problem.data[name]) for name in ("x", "y"))
    while True:
        gradient, H = -theta / 10, np.eye(D) / 10  # of the prior
        for first in range(0, len(x), BLOCK):
            rows, sign = (column[first : first + BLOCK].astype(np.float64) for column in (x, y))
            wrong = 1 / (1 + np.exp(sign * (rows @ theta)))
            gradient += rows.T @ (sign * wrong)
            H += (rows * (wrong * (1 - wrong))[:, None]).T @ rows
        move = np.linalg.solve(H, gradient)
        if move @ gradient < 1e-6:
            return Laplace(theta, H, time.perf_counter() - began)
        theta = theta + move


def fitted(problem: Made, truth: Laplace) -> Iterator[Run]:
    """`isotherm.fit` with no argument but the model: all in one call, so there is no set-up to leave out."""
    began = time.perf_counter()
    tree = isotherm.fit(problem.posterior, problem.data, problem.init, progress=False)
    seconds = time.perf_counter() - began
    taken = tree.attrs["sampling_time"]
    yield Run(tree["posterior"]["theta"].values, taken, seconds - taken, "ess = 400; compiling is in both columns")


def anchored(problem: Made, truth: Laplace) -> Iterator[Run]:
    began = time.perf_counter()
    posterior = isotherm.anchor(problem.posterior, problem.data, problem.init, progress=False)
    tree = sampled(posterior, problem, Plan(200 + STEPS, 200, 1), chains=CHAINS)
    seconds = time.perf_counter() - began
    taken = tree.attrs["sampling_time"] * STEPS / (200 + STEPS)
    how = f"order {posterior.order}, n = {posterior.chosen_batch_size}, {CHAINS} × {STEPS:,} steps"
    yield Run(tree["posterior"]["theta"].values, taken, seconds - taken, how)


def plain(problem: Made, truth: Laplace) -> Iterator[Run]:
    began, thin = time.perf_counter(), 20
    started = problem._replace(init=truth.mode.astype(np.float32))
    plan = Plan(PLAIN_STEPS * 4 // 3, PLAIN_STEPS // 3, thin)
    tree = sampled(problem.posterior, started, plan, batch_size=500, chains=CHAINS)
    taken = tree.attrs["sampling_time"] * 3 / 4
    setup = time.perf_counter() - began - taken + truth.seconds
    how = f"from the mode; n = 500, {CHAINS} × {PLAIN_STEPS:,} steps after {PLAIN_STEPS // 3:,}"
    yield Run(tree["posterior"]["theta"].values, taken, setup, how)


def sgld(problem: Made, truth: Laplace, whitened: bool = False) -> Iterator[Run]:
    """With control variates at the mode, in a hand-written scan, a chain a thread; from typical draws, so that nothing
    is lost to burn-in. `whitened`: in the coordinates that anchoring finds, which nothing in the library would give."""
    import blackjax
    from blackjax.sgmcmc.gradients import control_variates, grad_estimator

    began = time.perf_counter()
    N, data = len(problem.data["y"]), problem.data
    spread = truth.spread if whitened else np.eye(D)
    origin, factor = jnp.asarray(truth.mode, jnp.float32), jnp.asarray(spread, jnp.float32)
    centre = jnp.zeros(D) if whitened else origin

    def params(position: Any) -> Any:
        return origin + factor @ position if whitened else position

    posterior = problem.posterior
    plain = grad_estimator(
        lambda at: posterior.log_prior(params(at)), lambda at, row: posterior.log_likelihood(params(at), row), N
    )
    step = blackjax.sgld(control_variates(jax.jit(plain), centre, data)).step

    @jax.jit
    def chain(start: Any, data: Any, key: Any, size: Any) -> Any:
        def one_step(position: Any, key: Any) -> Any:
            rows_key, step_key = jax.random.split(key)
            rows = jax.random.randint(rows_key, (SGLD_BATCH,), 0, N)
            return step(step_key, position, jax.tree.map(lambda column: column[rows], data), size), None

        def one_draw(position: Any, keys: Any) -> Any:
            position, _ = jax.lax.scan(one_step, position, keys)
            return position, params(position)

        return jax.lax.scan(one_draw, start, jax.random.split(key, (SGLD_STEPS // SGLD_THIN, SGLD_THIN)))[1]

    z = np.random.default_rng(0).standard_normal((CHAINS, D))
    starts = jnp.asarray(z if whitened else truth.mode + z @ truth.spread.T, jnp.float32)
    largest = 1.0 if whitened else float(np.linalg.eigvalsh(truth.precision)[-1])
    compiled = chain.lower(starts[0], data, jax.random.key(9), jnp.float32(0)).compile()
    setup = time.perf_counter() - began + truth.seconds
    for size in SGLD_SIZES * 2 / largest:
        began = time.perf_counter()

        def one(number: int, size: float = size) -> Any:
            return np.asarray(compiled(starts[number], data, jax.random.key(number), jnp.float32(size)))

        with ThreadPoolExecutor(CHAINS) as pool:
            draws = np.stack(list(pool.map(one, range(CHAINS))))
        how = (
            f"step size {size:.3g}, the best of six; n = {SGLD_BATCH}, {CHAINS} × {SGLD_STEPS:,} steps, one of "
            f"{SGLD_THIN} a draw"
        )
        yield Run(draws, time.perf_counter() - began, setup, how)


def nuts(problem: Made, truth: Laplace) -> Iterator[Run]:
    """On all rows, given the mode and the mass matrix of the Laplace approximation; warm-up finds the step size. One
    chain, whose gradients use all cores. The density is less that at the mode, row by row, which float32 can tell."""
    import blackjax
    from blackjax.adaptation.step_size import dual_averaging_adaptation

    began = time.perf_counter()
    mode, data, posterior = jnp.asarray(truth.mode, jnp.float32), problem.data, problem.posterior
    each = jax.vmap(posterior.log_likelihood, in_axes=(None, 0))
    at_mode = jax.jit(each)(mode, data)

    def log_density(theta: Any, data: Any, at_mode: Any) -> Any:
        return jnp.sum(each(theta, data) - at_mode) + posterior.log_prior(theta)

    mass = jnp.asarray(np.linalg.inv(truth.precision), jnp.float32)
    kernel = blackjax.nuts.build_kernel()

    @jax.jit
    def step(key: Any, state: Any, size: Any, data: Any, at_mode: Any) -> Any:
        return kernel(key, state, lambda theta: log_density(theta, data, at_mode), size, mass)

    start, update, final = dual_averaging_adaptation(0.8)
    state = blackjax.nuts.init(mode, lambda theta: log_density(theta, data, at_mode))
    keys = jax.random.split(jax.random.key(0), NUTS_WARMUP + NUTS_DRAWS)
    averaging = start(0.5)
    for key in keys[:NUTS_WARMUP]:
        state, info = step(key, state, jnp.exp(averaging.log_step_size), data, at_mode)
        averaging = update(averaging, info.acceptance_rate)
    size, draws, gradients = final(averaging), [], 0
    setup, began = time.perf_counter() - began + truth.seconds, time.perf_counter()
    for key in keys[NUTS_WARMUP:]:
        state, info = step(key, state, size, data, at_mode)
        draws.append(np.asarray(state.position))
        gradients += int(info.num_integration_steps)
    how = (
        f"given mode and mass matrix; {NUTS_DRAWS} draws, {gradients / NUTS_DRAWS:.1f} gradients each, after "
        f"{NUTS_WARMUP}; effective draws of so few are uncertain, and taken for {NUTS_DRAWS} if more"
    )
    yield Run(np.stack(draws)[None], time.perf_counter() - began, setup, how)


def hmcecs(problem: Made, truth: Laplace) -> Iterator[Run]:
    """As NumPyro's own example (covtype) has it: NUTS inside, 1,000 rows in 100 blocks; given the mode and the mass
    matrix of the Laplace approximation. The Taylor proxy is of first order: that of second order keeps d² numbers for
    every row, 10 GB here."""
    import numpyro
    import numpyro.distributions as dist
    from numpyro.infer import HMCECS, MCMC, NUTS, init_to_value

    x, labels = problem.data["x"], (problem.data["y"] > 0).astype(jnp.float32)

    def model(x: Any, labels: Any) -> None:
        theta = numpyro.sample("theta", dist.Normal(jnp.zeros(D), jnp.sqrt(10.0)).to_event(1))
        with numpyro.plate("N", x.shape[0], subsample_size=ECS_SUBSAMPLE):
            rows, some = numpyro.subsample(x, event_dim=1), numpyro.subsample(labels, event_dim=0)
            numpyro.sample("y", dist.Bernoulli(logits=rows @ theta), obs=some)

    began = time.perf_counter()
    at = {"theta": jnp.asarray(truth.mode, jnp.float32)}
    mass = jnp.asarray(np.linalg.inv(truth.precision), jnp.float32)
    inner = NUTS(
        model,
        init_strategy=init_to_value(values=at),
        dense_mass=True,
        inverse_mass_matrix=mass,
        adapt_mass_matrix=False,
        step_size=0.3,
    )
    kernel = HMCECS(inner, num_blocks=ECS_BLOCKS, proxy=HMCECS.taylor_proxy(at, degree=1))
    mcmc = MCMC(kernel, num_warmup=ECS_WARMUP, num_samples=ECS_DRAWS, progress_bar=False)
    mcmc.warmup(jax.random.key(0), x, labels)
    mcmc.run(jax.random.key(1), x, labels)  # compiles, and is further warm-up
    mcmc.post_warmup_state = mcmc.last_state
    setup, began = time.perf_counter() - began + truth.seconds, time.perf_counter()
    mcmc.run(jax.random.key(2), x, labels)
    draws = np.asarray(mcmc.get_samples()["theta"])[None]
    how = (
        f"given mode and mass matrix; {ECS_DRAWS:,} draws after {ECS_WARMUP + ECS_DRAWS:,}; {ECS_SUBSAMPLE:,} rows in "
        f"{ECS_BLOCKS} blocks"
    )
    yield Run(draws, time.perf_counter() - began, setup, how)


OURS = "isotherm, anchored eccadl"
CONTESTANTS: dict[str, tuple[Callable[[Made, Laplace], Iterator[Run]], str]] = {
    "isotherm.fit": (fitted, "isotherm"),
    OURS: (anchored, "isotherm"),
    "isotherm, plain eccadl": (plain, "isotherm"),
    "BlackJAX, SGLD with control variates": (sgld, "blackjax"),
    "the same, given our coordinates": (functools.partial(sgld, whitened=True), "blackjax"),
    "BlackJAX, NUTS": (nuts, "blackjax"),
    "NumPyro, HMCECS": (hmcecs, "numpyro"),
}


def measure(name: str, rows: int) -> dict[str, Any]:
    """The best run of a contestant: of the accurate ones, or else of all, that with most effective draws a second."""
    problem = made(rows)
    truth = laplace(problem)
    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for run in CONTESTANTS[name][0](problem, truth):
            z = (run.draws.astype(np.float64) - truth.mode) @ np.linalg.cholesky(truth.precision)
            if not np.isfinite(z).all():
                continue
            ess = min(least_ess(run.draws), z.shape[0] * z.shape[1])
            found.append(
                {
                    "name": name,
                    "ess": ess,
                    "seconds": run.seconds,
                    "setup": run.setup,
                    "variance": float(z.var(axis=(0, 1)).mean()),
                    "mean": float(np.sqrt(np.mean(z.mean(axis=(0, 1)) ** 2))),
                    "without": ess / run.seconds,
                    "with": ess / (run.seconds + run.setup),
                    "how": run.how,
                }
            )
    return max(found, key=lambda row: (is_accurate(row), row["without"]))


def is_accurate(row: dict[str, Any]) -> bool:
    return ACCURATE[0] <= row["variance"] <= ACCURATE[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--only", default="", help="a part of a name, or several, with ; between them")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        print(json.dumps(measure(given.one, given.rows)))
        return
    present = [name for name in VERSIONS if importlib.util.find_spec(name.replace("-", "_"))]
    print(
        f"N = {given.rows:,}, d = {D}; " + ", ".join(f"{name} {importlib.metadata.version(name)}" for name in present)
    )
    print(
        "\n| | effective draws a second: set-up excluded | included | least effective draws | seconds | set-up, s | "
        "variance | mean | |\n|---|---|---|---|---|---|---|---|---|"
    )
    found = {}
    for name, (_, library) in CONTESTANTS.items():
        if library not in present or not any(part in name for part in given.only.split(";")):
            continue
        row = found[name] = child(__file__, "--one", name, "--rows", str(given.rows))
        print(
            "| {name} | {without:,.3g} | {with:,.3g} | {ess:,.0f} | {seconds:.2f} | {setup:.1f} | {variance:.3f} | "
            "{mean:.3f} | {how} |".format(**row),
            flush=True,
        )
    others = {name: row for name, row in found.items() if name not in (OURS, "isotherm.fit")}
    if OURS not in found or not others:
        return
    print("\n| ours, anchored, over | set-up excluded | included | its variance is right |\n|---|---|---|---|")
    for name, row in others.items():
        ratios = (found[OURS][column] / row[column] for column in ("without", "with"))
        cells = " | ".join(f"{ratio:,.3g}" for ratio in ratios)
        print(f"| {name} | {cells} | {'yes' if is_accurate(row) else 'no'} |")


if __name__ == "__main__":
    main()
