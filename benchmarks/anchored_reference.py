"""What is right for the posteriors of anchored_problems.py: draws by BlackJAX's NUTS on all the data.

    python benchmarks/anchored_reference.py [NAME ...] [--draws 2000] [--chains 2] [--cache benchmarks/.cache]

NUTS runs in coordinates z that the Laplace approximation whitens, θ = mode + spread z, from the mode, with unit mass;
mode and curvature are found by Newton's method in float64. The full `flights` has the Laplace approximation only. Each
problem is kept as NAME.npz, parameters flat in the order of `jax.flatten_util.ravel_pytree`:

- draws (chain, draw, d), and gradients (chain, draw, d) of the log-density at them in z;
- mode (d,), precision (d, d), the Hessian of the negative log-density there, and spread (d, d), precision⁻¹ = spread
  spreadᵀ, whose columns are the eigenvectors of the precision over the roots of its eigenvalues;
- seconds: of Newton's method, of the warm-up, of the draws.
"""

import argparse
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
from arviz_stats.base import array_stats
from jax.flatten_util import ravel_pytree
from scipy.sparse import csr_array, hstack
from scipy.special import expit

from anchored_problems import PROBLEMS, Problem

CACHE = Path(__file__).parent / ".cache"
WARMUP = 300  # steps in which only a step size is found: the coordinates are whitened already
BLOCK = 100  # draws between two lines of progress
ROWS = 2_000  # whose Hessians are computed together
MOST_ITERATIONS = 50  # of Newton's method


class Reference(NamedTuple):
    """See above; float64 but for draws and gradients."""

    draws: np.ndarray
    gradients: np.ndarray
    mode: np.ndarray
    precision: np.ndarray
    spread: np.ndarray
    seconds: np.ndarray

    def whitened(self, draws: np.ndarray) -> np.ndarray:
        """z of draws (…, d)."""
        return (draws.astype(np.float64) - self.mode) @ (self.precision @ self.spread)


def newton(problem: Problem) -> tuple[np.ndarray, np.ndarray]:
    """The mode and the precision. Uphill along every eigenvector, whatever the sign of the curvature; steps are halved
    until they climb."""
    with jax.enable_x64(True):
        value, expansion = expanded(problem)
        at = jnp.asarray(ravel_pytree(problem.init)[0], jnp.float64)
        for _ in range(MOST_ITERATIONS):
            height, slope, precision = expansion(at)
            values, vectors = np.linalg.eigh(precision)
            move = vectors @ (vectors.T @ slope / np.maximum(np.abs(values), 1e-8 * values[-1]))
            if move @ slope < 1e-10 and values[0] > 0:
                return np.asarray(at), np.asarray(precision)
            while not value(at + move) > height and move @ slope > 1e-10:
                move = move / 2
            at = at + move
    raise ArithmeticError(f"{problem.name}: no mode found in {MOST_ITERATIONS} Newton steps")


def expanded(problem: Problem) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """The log-density of flat parameters, float64; and the same with its gradient and negative Hessian."""
    unravel = ravel_pytree(jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float64), problem.init))[1]
    blocks = problem.population // ROWS
    wide = {
        name: jnp.asarray(column, jnp.float64 if column.dtype.kind == "f" else None)
        for name, column in problem.data.items()
    }
    whole = {name: column[: blocks * ROWS].reshape(blocks, ROWS, *column.shape[1:]) for name, column in wide.items()}
    rest = {name: column[blocks * ROWS :] for name, column in wide.items()}

    def likelihood(at: Any, rows: Any) -> Any:
        return jax.vmap(problem.posterior.log_likelihood, (None, 0))(unravel(at), rows).sum()

    def prior(at: Any) -> Any:
        return problem.posterior.log_prior(unravel(at))

    def total(of_rows: Callable[..., Any], of_prior: Callable[..., Any], at: Any) -> Any:
        def add(sums: Any, rows: Any) -> Any:
            return jax.tree.map(jnp.add, sums, of_rows(at, rows)), None

        start = jax.tree.map(jnp.add, of_prior(at), of_rows(at, rest))
        return jax.lax.scan(add, start, whole)[0]

    def both(function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *arguments: (*jax.value_and_grad(function)(*arguments), -jax.hessian(function)(*arguments))

    return jax.jit(lambda at: total(likelihood, prior, at)), jax.jit(
        lambda at: total(both(likelihood), both(prior), at)
    )


def newton_of_flights(problem: Problem) -> tuple[np.ndarray, np.ndarray]:
    """The same for logistic regression on levels, as the product of sparse matrices: 3,000,000 rows in seconds."""
    rows, sign = problem.population, 2 * problem.data["late"].astype(np.float64) - 1
    parts = []
    for name in sorted(problem.init):
        levels = problem.init[name].size
        column = np.zeros(rows, np.int32) if levels == 1 else problem.data[name]
        values = problem.data[name].astype(np.float64) if name == "log_distance" else np.ones(rows)
        parts.append(csr_array((values, column, np.arange(rows + 1)), (rows, levels)))
    x = hstack(parts, "csr")
    at, prior = np.zeros(problem.d), 4.0
    for _ in range(MOST_ITERATIONS):
        wrong = expit(-sign * (x @ at))
        slope = x.T @ (sign * wrong) - prior * at
        weighted = csr_array((x.data * np.repeat(wrong * (1 - wrong), len(parts)), x.indices, x.indptr), x.shape)
        precision = (x.T @ weighted).toarray() + prior * np.eye(problem.d)
        move = np.linalg.solve(precision, slope)
        if move @ slope < 1e-10:
            return at, (precision + precision.T) / 2
        at = at + move
    raise ArithmeticError(f"{problem.name}: no mode found in {MOST_ITERATIONS} Newton steps")


def density(problem: Problem, mode: np.ndarray, spread: np.ndarray) -> Callable[[Any], Any]:
    """The log-density of z less that at the mode, row by row: small numbers, that float32 does not round away."""
    unravel = ravel_pytree(problem.init)[1]
    mode, spread = jnp.asarray(mode, jnp.float32), jnp.asarray(spread, jnp.float32)
    data = jax.tree.map(jnp.asarray, problem.data)

    def each(theta: Any) -> Any:
        params = unravel(theta)
        return jax.vmap(problem.posterior.log_likelihood, (None, 0))(params, data), problem.posterior.log_prior(params)

    rows, prior = jax.jit(each)(mode)

    def log_density(z: Any) -> Any:
        rows_there, prior_there = each(mode + spread @ z)
        return jnp.sum(rows_there - rows) + (prior_there - prior)

    return log_density


def nuts(log_density: Callable[[Any], Any], d: int, draws: int, chains: int, seed: int) -> Any:
    """z and gradients (chain, draw, d), and the seconds of warm-up and of draws. The chains go out from one warm-up,
    each on a thread of its own; their first tenth is dropped."""
    warm_key, key = jax.random.split(jax.random.key(seed))
    began = time.perf_counter()
    adaptation = blackjax.window_adaptation(blackjax.nuts, log_density)
    (state, adapted), _ = adaptation.run(warm_key, jnp.zeros(d, jnp.float32), num_steps=WARMUP)
    kernel = blackjax.nuts(log_density, adapted["step_size"], jnp.ones(d, jnp.float32))
    warm = time.perf_counter()
    say(f"step size {float(adapted['step_size']):.3g} after {warm - began:.0f} s")

    def step(state: Any, key: Any) -> Any:
        state, info = kernel.step(key, state)
        return state, (state.position, state.logdensity_grad, info.num_integration_steps)

    block = jax.jit(lambda state, key: jax.lax.scan(step, state, jax.random.split(key, BLOCK)))
    dropped = -(-draws // (10 * BLOCK))
    blocks = dropped + -(-draws // BLOCK)

    def chain(number: int) -> Any:
        here, found = state, []
        for i, key_of_block in enumerate(jax.random.split(jax.random.fold_in(key, number), blocks)):
            here, (z, g, steps) = jax.block_until_ready(block(here, key_of_block))
            if i % 5 == 4 and number == 0:
                say(f"{BLOCK * (i + 1)} draws, {float(steps.mean()):.1f} gradients each, {since(warm):.0f} s")
            if i >= dropped:
                found.append((np.asarray(z), np.asarray(g)))
        return [np.concatenate(parts) for parts in zip(*found, strict=True)]

    with ThreadPoolExecutor(chains) as pool:
        z, g = (np.stack(parts) for parts in zip(*pool.map(chain, range(chains)), strict=True))
    return z, g, (warm - began, since(warm))


def since(moment: float) -> float:
    return time.perf_counter() - moment


def say(words: str) -> None:
    print(f"  {words}", flush=True)


def make(name: str, draws: int, chains: int, seed: int) -> Reference:
    problem = PROBLEMS[name]()
    print(f"{name}: N = {problem.population:,}, d = {problem.d}", flush=True)
    began = time.perf_counter()
    mode, precision = newton_of_flights(problem) if name.startswith("flights") else newton(problem)
    seconds = since(began)
    values = np.linalg.eigvalsh(precision)
    say(f"mode in {seconds:.0f} s, condition number {values[-1] / values[0]:.3g}")
    spread = whitening(precision)
    if name == "flights":
        none = np.zeros((0, 0, problem.d), np.float32)
        return Reference(none, none, mode, precision, spread, np.array([seconds, 0.0, 0.0]))
    z, gradients, times = nuts(density(problem, mode, spread), problem.d, draws, chains, seed)
    theta = (mode + z.astype(np.float64) @ spread.T).astype(np.float32)
    return Reference(theta, gradients, mode, precision, spread, np.array([seconds, *times]))


def whitening(precision: np.ndarray) -> np.ndarray:
    values, vectors = np.linalg.eigh(precision)
    return vectors / np.sqrt(values)


def save(reference: Reference, folder: Path, name: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    np.savez(folder / f"{name}.npz", **reference._asdict())
    return folder / f"{name}.npz"


def load(name: str, folder: Path = CACHE) -> Reference:
    path = folder / f"{name}.npz"
    if not path.exists():
        raise SystemExit(f"no reference at {path}: python benchmarks/anchored_reference.py {name}")
    with np.load(path) as found:
        return Reference(**found)


def effective(series: np.ndarray) -> np.ndarray:
    """The effective sample size (d,) of the mean of each series of (chain, draw, d)."""
    return array_stats.ess(np.moveaxis(series, 2, 0), chain_axis=-2, draw_axis=-1, method="mean")


def quality(reference: Reference) -> str:
    if not reference.draws.size:
        return f"the Laplace approximation, {reference.seconds[0]:.0f} s"
    z = reference.whitened(reference.draws)
    rhat = array_stats.rhat(np.moveaxis(z, 2, 0), chain_axis=-2, draw_axis=-1)
    sizes = [f"{np.min(ess):,.0f} (median {np.median(ess):,.0f})" for ess in (effective(z), effective(z**2))]
    return (
        f"{z.shape[0]} × {z.shape[1]} draws, least ESS of z {sizes[0]}, of z² {sizes[1]}, R-hat {np.max(rhat):.4f}; "
        f"mode {reference.seconds[0]:.0f} s, warm-up {reference.seconds[1]:.0f} s, draws {reference.seconds[2]:.0f} s"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(PROBLEMS))
    parser.add_argument("--draws", type=int, default=2000, help="of each chain")
    parser.add_argument("--chains", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cache", type=Path, default=CACHE, help="a folder for references")
    parser.add_argument("--show", action="store_true", help="say how good those are that are there, and stop")
    args = parser.parse_args()
    for name in args.names or PROBLEMS:
        if name not in PROBLEMS:
            raise SystemExit(f"no problem is named {name!r}; there are {', '.join(PROBLEMS)}")
        if args.show:
            print(f"{name}: {quality(load(name, args.cache))}", flush=True)
            continue
        reference = make(name, args.draws, args.chains, args.seed)
        say(f"{save(reference, args.cache, name)}: {quality(reference)}")


if __name__ == "__main__":
    main()
