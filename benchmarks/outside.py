"""How much noise eCCAdL's low-rank estimate leaves out, and how hot that makes the directions outside its span.

    python benchmarks/outside.py letter|network [--steps 3000] [--rank 32] [--ranks 64,128,256] [--data DIR]

runs eccadl(rank=…) for so many steps and then looks, with far larger batches, at the eigenvalues λ of S outside the
span (their density by Lanczos). Where the noise friction is that of their mean ρ, such a direction has
1 + (h/2)β(λ − ρ)/(A + (h/2)βρ) times the temperature it should have. Printed are ρ, the standard deviation of λ, and
the root mean square of that error, for the estimate as it is and for what a span with more leading directions would
leave. No test set is looked at.
"""

import argparse
import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

import isotherm
from accuracy import letter_drbm, mnist_network
from isotherm.run.assemble import RunSettings, assemble
from isotherm.run.chains import Chains
from isotherm.run.plan import Plan
from isotherm.targets.noisy import estimate
from isotherm.targets.target import as_target

PROBLEMS = {"letter": (letter_drbm, 1000, 3000, 8192), "network": (mnist_network, 256, 8000, 4096)}
AT_ONCE = 500  # steps of a call
VECTORS = 60  # of Lanczos


def state_after(materials, sampler, n, steps):
    settings = {"batch_size": n, "replace": True, "chains": 1, "seed": 0, "name": None}
    chains = Chains(assemble(materials.posterior, sampler, materials.data, materials.init, RunSettings(**settings)))
    for first in range(0, steps, AT_ONCE):
        chains.advance(Plan(10**8, 0, 100), first, min(first + AT_ONCE, steps))
    return jax.tree.map(lambda x: x[0], chains.snapshot(steps, 0.0).carry.state)


def density(product, start):
    """Eigenvalues, largest first, and how many of d directions each stands for."""
    vectors, alphas, betas = [start / np.linalg.norm(start)], [], []
    for _ in range(VECTORS):
        w = np.asarray(product(vectors[-1]), np.float64)
        alphas.append(w @ vectors[-1])
        for _ in range(2):
            w = w - np.asarray(vectors).T @ (np.asarray(vectors) @ w)
        betas.append(np.linalg.norm(w))
        vectors.append(w / betas[-1])
    values, inside = np.linalg.eigh(np.diag(alphas) + np.diag(betas[:-1], 1) + np.diag(betas[:-1], -1))
    return values[::-1], start.size * inside[0, ::-1] ** 2


def without(values, counts, more):
    """The counts without so many of the largest."""
    before = np.cumsum(counts) - counts
    return counts - np.clip(more - before, 0, counts)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("problem", choices=PROBLEMS)
    parser.add_argument("--steps", type=int, default=None)
    parser.add_argument("--rank", type=int, default=32)
    parser.add_argument("--ranks", type=lambda text: [int(rank) for rank in text.split(",")], default=[64, 128, 256])
    parser.add_argument("--data", default=None, help="folder of the data sets")
    args = parser.parse_args()
    load, n, steps, rows = PROBLEMS[args.problem]
    materials = load(args)
    state = state_after(materials, isotherm.eccadl(rank=args.rank), n, args.steps or steps)
    Q, h, A = state.memory.estimate.basis, float(state.step_size), float(state.memory.pace.friction)
    population, unravel = len(materials.data["y"]), ravel_pytree(materials.init)[1]
    rng = np.random.default_rng(0)
    chosen = rng.choice(population, rows)
    batch = {name: jnp.asarray(column[chosen]) for name, column in materials.data.items()}

    @jax.jit
    def outside(v, position, Q, batch):
        target = dataclasses.replace(as_target(materials.posterior), unravel=unravel)
        S = estimate(target, position, batch, population=population, size=n).covariance
        image = S.matvec(v.astype(Q.dtype))
        return image - (Q @ image) @ Q

    start = rng.standard_normal(Q.shape[1])
    start -= np.asarray(Q, np.float64).T @ (np.asarray(Q, np.float64) @ start)
    values, counts = density(lambda v: outside(v, state.position, Q, batch), start)
    print(f"{args.problem}, rank {len(Q)}: h = {h:.3g}, A = {A:.3g}, largest eigenvalue outside {values[0]:.4g}")
    print("| rank | ρ | s.d. of λ | r.m.s. error of the temperature at this h and A |\n|---|---|---|---|")
    for rank in [len(Q), *(rank for rank in args.ranks if rank > len(Q))]:
        left = without(values, counts, rank - len(Q))
        mean = left @ values / left.sum()
        spread = np.sqrt(max(left @ values**2 / left.sum() - mean**2, 0))
        print(f"| {rank} | {mean:.3g} | {spread:.3g} | {h / 2 * spread / (A + h / 2 * mean):.2f} |")


if __name__ == "__main__":
    main()
