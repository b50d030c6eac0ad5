"""What a draw costs as the data grow: logistic regression, d = 50, N from 1e4 to 1e7, anchored.

    python benchmarks/growth.py [--sizes 10000,100000,1000000,10000000] [--steps 10000] [--numpy]

Each N has a process of its own, in which the posterior is anchored twice, with compiling (cold) and without (warm), and
sampled with `isotherm.eccadl()` as `isotherm.sample` does it, every step a draw, 4 chains. The clock of the draws
starts when the loop is compiled, and is shown beside the processor's. Effective draws are the least over all
parameters, in the bulk. Memory is the most that was resident, from the start of the process to its end, less the data's
size; what Python and the libraries take by themselves is in it, and is shown beside it. The data are on the device from
the start; with `--numpy` they are NumPy's, which are copied there, so that they are in memory twice while they are
looked at.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from contextlib import closing
from typing import Any, NamedTuple

import arviz_stats
import jax
import numpy as np

import isotherm
from isotherm.data.batches import LINE
from isotherm.models import Logistic
from isotherm.run.assemble import RunSettings, assemble
from isotherm.run.chains import Chains
from isotherm.run.execute import execute
from isotherm.run.plan import Plan
from isotherm.run.recorder import Labels, Recorder
from isotherm.targets.checks import check_starts

SIZES = (10**4, 10**5, 10**6, 10**7)
D = 50
BLOCK = 2**16  # rows that are made at a time
BURN_IN = 200  # steps; chains start at typical draws
MARKS = {"draws": 1.5, "from": 10**5, "passes": 8, "megabytes": 1000}


class Made(NamedTuple):
    posterior: isotherm.Posterior
    data: dict[str, Any]
    init: np.ndarray

    @property
    def bytes(self) -> int:
        return sum(column.nbytes for column in self.data.values())


def made(N: int, on_device: bool = True) -> Made:
    """Columns with scales from 0.1 to 10, of which each follows the one before it; a bit more than a third of the
    labels could not be guessed. Made in blocks, in place."""
    rng = np.random.default_rng([N, D])
    mixing = np.linalg.cholesky(0.5 ** np.abs(np.subtract.outer(np.arange(D), np.arange(D)))).T
    scales = np.geomspace(0.1, 10, D)
    theta = np.random.default_rng(D).standard_normal(D) / np.sqrt(D) / scales
    x, y = aligned(N, D), aligned(N)
    for first in range(0, N, BLOCK):
        block = x[first : first + BLOCK]
        block[:] = rng.standard_normal(block.shape, np.float32) @ (mixing * scales).astype(np.float32)
        chance = 1 / (1 + np.exp(-block @ theta))
        y[first : first + BLOCK] = np.where(rng.random(len(block)) < chance, 1, -1)
    data: dict[str, Any] = {"x": x, "y": y}
    if on_device:
        data = jax.tree.map(jax.dlpack.from_dlpack, data)  # without a copy
    model = Logistic(D)
    return Made(isotherm.Posterior(model.log_likelihood, model.log_prior), data, np.zeros(D, np.float32))


def aligned(*shape: int) -> np.ndarray:
    """Room for float32 that begins with a cache line, which JAX can use as it is."""
    size = 4 * int(np.prod(shape))
    room = np.empty(size + LINE, np.uint8)
    begin = -room.ctypes.data % LINE
    return room[begin : begin + size].view(np.float32).reshape(shape)


def resident() -> float:
    """The most megabytes that this process had so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024 * 1.048576


def sampled(posterior: isotherm.Posterior, problem: Made, plan: Plan, **settings: Any) -> Any:
    """What `isotherm.sample` does, but for the clock, which starts when the loop is compiled."""
    options = {"batch_size": None, "replace": True, "chains": 4, "seed": 1, "name": None} | settings
    init = problem.init if options["batch_size"] else None
    run = assemble(posterior, isotherm.eccadl(), problem.data, init, RunSettings(**options))
    with closing(Chains(run)) as moving:
        assert moving.program
        check_starts(run.evaluation, run.starts, run.data)
        used = time.process_time()
        tree = execute(moving, plan, 0, 0.0, Recorder(Labels(run, plan), moving.nan_draws()), progress=False)
        tree.attrs["processor_time"] = time.process_time() - used
        return tree


def least_ess(draws: np.ndarray) -> float:
    """Of draws (chain, draw, d), over the parameters, in the bulk."""
    return min(float(arviz_stats.ess(draws[:, :, j], method="bulk")) for j in range(draws.shape[2]))


def measure(N: int, steps: int, on_device: bool) -> dict[str, float]:
    alone = resident()
    problem = made(N, on_device)
    seconds = []
    for _ in range(2):
        anchored = None  # the first is given up before the second is made
        began = time.perf_counter()
        anchored = isotherm.anchor(problem.posterior, problem.data, problem.init, progress=False)
        seconds.append(time.perf_counter() - began)
    anchoring = resident()
    tree = sampled(anchored, problem, Plan(BURN_IN + steps, BURN_IN, 1))
    most = resident()
    draws = tree["posterior"]["theta"].values
    taken, used = (tree.attrs[name] * steps / (BURN_IN + steps) for name in ("sampling_time", "processor_time"))
    return {
        "N": N,
        "order": anchored.order,
        "batch_size": int(anchored.findings.batch_size),
        "passes": float(anchored.findings.passes),
        "cold": seconds[0],
        "warm": seconds[1],
        "ess": (ess := least_ess(draws)),
        "seconds": taken,
        "draws_a_second": ess / taken,
        "draws_a_processor_second": ess / used,
        "step": 1e6 * taken / steps,
        "data": problem.bytes / 1e6,
        "alone": alone,
        "anchoring": anchoring - problem.bytes / 1e6,
        "most": most - problem.bytes / 1e6,
    }


def child(*arguments: str) -> dict[str, Any]:
    """What this script prints as JSON in a process of its own."""
    made = subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(made.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)))
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--numpy", action="store_true")
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        print(json.dumps(measure(given.one, given.steps, not given.numpy)))
        return
    print(
        "| N | anchoring cold, warm, s | passes | order, n | µs for a step of 4 chains | least effective draws of "
        f"{4 * given.steps:,} | a second, of the clock and of a processor | data, MB | resident beside them, "
        "MB: imports, anchoring, all |\n"
        "|---|---|---|---|---|---|---|---|---|",
    )
    found = []
    for N in map(int, given.sizes.split(",")):
        flags = ["--numpy"] if given.numpy else []
        row = child(__file__, "--one", str(N), "--steps", str(given.steps), *flags)
        found.append(row)
        print(
            "| {N:,} | {cold:.2f}, {warm:.2f} | {passes:.1f} | {order}, {batch_size} | {step:.0f} | {ess:,.0f} | "
            "{draws_a_second:,.0f}, {draws_a_processor_second:,.0f} | {data:,.0f} | "
            "{alone:,.0f}, {anchoring:,.0f}, {most:,.0f} |".format(**row),
            flush=True,
        )
    large = [row for row in found if row["N"] >= MARKS["from"]]
    if len(large) < 2:
        return  # there is nothing to compare
    spread, used = (
        max(row[rate] for row in large) / min(row[rate] for row in large)
        for rate in ("draws_a_second", "draws_a_processor_second")
    )
    passes, most = max(row["passes"] for row in found), found[-1]["most"]
    print("\n| mark | at most | found | met |\n|---|---|---|---|")
    for what, mark, value in (
        (f"effective draws a second, largest over least, N ≥ {MARKS['from']:,}", MARKS["draws"], spread),
        ("the same of a processor, which a busy machine blurs less", MARKS["draws"], used),
        ("passes of anchoring", MARKS["passes"], passes),
        (f"megabytes beside the data, N = {found[-1]['N']:,}", MARKS["megabytes"], most),
    ):
        print(f"| {what} | {mark:g} | {value:.3g} | {'yes' if value <= mark else 'no'} |")


if __name__ == "__main__":
    main()
