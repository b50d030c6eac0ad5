"""Does `isotherm.check` let draws pass that are right, and find faults in draws that are not?

    python benchmarks/power.py [--only NAME,...] [--cases CASE,...] [--seeds 20] [--cache benchmarks/.cache]

Right are windows of NUTS's draws (anchored_reference.py left them in `--cache`; linear regression has an exact
posterior) and what `isotherm.fit(ess=1000)` returns. The faults, but for the last, are made from NUTS's windows, in
coordinates z that the Laplace approximation whitens:

- variance: z scaled by √1.1 about its mean, so that the variance is 10 % too large in every direction;
- mean: z moved by 0.2 in every direction, up or down at random;
- one wide: 1.5 times as wide along the direction in which one parameter, chosen at random, changes;
- burn-in: one chain starts 3 standard deviations away, root mean square over directions, and forgets it with a time
  constant of a fifth of its length;
- two modes: half of the chains are 2 standard deviations away, root mean square over directions;
- sghmc: a run of SGHMC with batches of 100, h = 0.2/√λ and A = √λ, λ the largest curvature: heated by noise.

Each cell says in how many of the cases `check` said what it should. What was found is kept in `--cache` as it comes,
by problem, case and seed: the same command goes on where it was stopped. Markdown on standard output; then the lines
of the verdict that were bad, with how often they were.
"""

import argparse
import json
import time
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import jax
import numpy as np
import xarray
from jax.flatten_util import ravel_pytree

import isotherm
from anchored_problems import PROBLEMS, Problem
from anchored_reference import CACHE, Reference, load
from isotherm.models import Linear
from isotherm.paper.datasets import linear_regression

CHAINS, DRAWS = 4, 600  # of a window of NUTS's draws, some 1,000 effective ones in z²
ESS = 1000  # of fit
SGHMC = {"batch_size": 100, "steps": 4_000, "thin": 5}


def linear() -> Problem:
    """Linear regression, d = 30, N = 10,000."""
    model, data = Linear(30), linear_regression.make(d=30).data
    posterior = isotherm.Posterior(model.log_likelihood, model.log_prior)
    return Problem("linear", posterior, data, np.zeros(30, np.float32))


CASES = ("nuts", "fit", "variance", "mean", "one wide", "burn-in", "two modes", "sghmc")
RIGHT = ("nuts", "fit")
CHOSEN = {
    "linear": linear,
    **{name: PROBLEMS[name] for name in ("poisson", "hierarchical", "mnist-79", "cifar10")},
}


def exact(problem: Problem) -> Reference:
    """Of linear regression: the posterior, and draws of it in four chains."""
    mean, covariance = linear_regression.posterior(problem.data)
    values, vectors = np.linalg.eigh(covariance)
    spread = vectors * np.sqrt(values)
    z = np.random.default_rng(0).standard_normal((2, 20_000, problem.d))
    return Reference(mean + z @ spread.T, -z, mean, np.linalg.inv(covariance), spread, np.zeros(3))


def window(reference: Reference, rng: np.random.Generator) -> np.ndarray:
    """z of draws that follow each other, one stretch from each half of NUTS's two chains."""
    z = reference.whitened(reference.draws)
    halves = z.reshape(CHAINS, -1, z.shape[2])
    starts = rng.integers(0, halves.shape[1] - DRAWS + 1, CHAINS)
    return np.stack([half[start : start + DRAWS] for half, start in zip(halves, starts, strict=True)])


def spoiled(case: str, z: np.ndarray, reference: Reference, rng: np.random.Generator) -> np.ndarray:
    d, middle = z.shape[2], z.mean(axis=(0, 1))
    if case == "variance":
        return middle + np.sqrt(1.1) * (z - middle)
    if case == "mean":
        return z + 0.2 * rng.choice([-1, 1], d)
    if case == "one wide":
        along = reference.spread[rng.integers(d)]
        along = along / np.linalg.norm(along)
        return z + 0.5 * ((z - middle) @ along)[..., None] * along
    z = z.copy()
    if case == "burn-in":
        left = np.exp(-np.arange(DRAWS) / (DRAWS / 5))
        z[rng.integers(CHAINS)] += 3 * left[:, None] * rng.standard_normal(d)
    elif case == "two modes":
        z[: CHAINS // 2] += 2 * rng.standard_normal(d)
    return z


def labelled(z: np.ndarray, problem: Problem, reference: Reference) -> Any:
    """Draws as `check` takes them from any sampler."""
    flat = (reference.mode + z @ reference.spread.T).astype(np.float32)
    params = jax.vmap(jax.vmap(ravel_pytree(problem.init)[1]))(flat)
    arrays = params if isinstance(params, dict) else {"theta": params}
    sizes = {name: ["chain", "draw", *(f"{name}_{i}" for i in range(array.ndim - 2))] for name, array in arrays.items()}
    dataset = xarray.Dataset({name: (sizes[name], np.asarray(array)) for name, array in arrays.items()})
    return xarray.DataTree.from_dict({"posterior": dataset})


def draws_of(case: str, problem: Problem, reference: Reference, seed: int) -> Any:
    if case == "fit":
        return isotherm.fit(problem.posterior, problem.data, problem.init, ess=ESS, seed=seed, progress=False)
    if case == "sghmc":
        size = float(np.sqrt(np.linalg.eigvalsh(reference.precision)[-1]))
        mode = ravel_pytree(problem.init)[1](reference.mode.astype(np.float32))
        sampler = isotherm.sghmc(0.2 / size, friction=size)
        return isotherm.sample(problem.posterior, sampler, problem.data, mode, seed=seed, progress=False, **SGHMC)
    rng = np.random.default_rng([seed, CASES.index(case)])
    return labelled(spoiled(case, window(reference, rng), reference, rng), problem, reference)


def measure(case: str, problem: Problem, reference: Reference, seed: int) -> dict[str, Any]:
    began, about = time.perf_counter(), {"problem": problem.name, "case": case, "seed": seed}
    try:
        tree = draws_of(case, problem, reference, seed)
    except ValueError as error:  # fit refuses a posterior that it takes to be improper
        nothing = {"lines": [], "passes": np.nan, "run": np.nan, "check": np.nan}
        return about | nothing | {"accepted": False, "bad": [f"refused: {error}"]}
    ran = time.perf_counter()
    verdict = isotherm.check(tree, problem.posterior, problem.data, init=problem.init, seed=seed, progress=False)
    return about | {
        "accepted": bool(verdict),
        "bad": [line.name for line in verdict.table if not line.good],
        "lines": [str(line) for line in verdict.table],
        "passes": verdict.passes,
        "run": ran - began,
        "check": time.perf_counter() - ran,
    }


def row(name: str, found: list[dict[str, Any]], cases: list[str]) -> str:
    cells = []
    for case in cases:
        verdicts = [each["accepted"] for each in found if each["case"] == case]
        right = sum(verdicts) if case in RIGHT else len(verdicts) - sum(verdicts)
        cells.append(f"{right}/{len(verdicts)}")
    runs = [each["run"] for each in found if each["case"] == "fit"]
    checks, passes = (np.nanmedian([each[what] for each in found]) for what in ("check", "passes"))
    ran = f"{np.nanmedian(runs):.1f} s" if runs else ""
    return f"| {name} | {' | '.join(cells)} | {checks:.1f} s, {passes:.0f} passes | {ran} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default=",".join(CHOSEN))
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--cache", type=Path, default=CACHE)
    parser.add_argument("--results", type=Path, help="the file for what was found; power.jsonl in the cache without it")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", RuntimeWarning)
    path, cases = arguments.results or arguments.cache / "power.jsonl", arguments.cases.split(",")
    known = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    blamed = Counter[tuple[str, str, str]]()
    print(f"| posterior | {' | '.join(cases)} | check | fit |\n|{'---|' * (len(cases) + 3)}")
    for name in arguments.only.split(","):
        wanted = {(case, seed) for case in cases for seed in range(arguments.seeds)}
        found = [each for each in known if each["problem"] == name and (each["case"], each["seed"]) in wanted]
        missing = wanted - {(each["case"], each["seed"]) for each in found}
        if missing:
            problem = CHOSEN[name]()
            reference = exact(problem) if name == "linear" else load(name, arguments.cache)
        for seed, case in sorted((seed, case) for case, seed in missing):
            found.append(measure(case, problem, reference, seed))
            with path.open("a") as file:
                file.write(json.dumps(found[-1]) + "\n")
        print(row(name, found, cases), flush=True)
        blamed.update((name, each["case"], line) for each in found for line in each["bad"])
    print("\n| posterior | case | line | bad |\n|---|---|---|---|")
    for (name, case, line), count in sorted(blamed.items(), key=lambda item: (item[0][0], CASES.index(item[0][1]))):
        print(f"| {name} | {case} | {line} | {count} |")


if __name__ == "__main__":
    main()
