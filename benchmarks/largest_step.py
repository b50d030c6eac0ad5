"""`isotherm.largest_step` against a brute-force scan by the same definition, for mCCAdL.

    python benchmarks/largest_step.py [--only NAME,...] [--cache benchmarks/.cache] [--steps 4096] [--json FILE]

The scan tries step sizes of a grid of ratio 1.1, from the stability limit of the whole posterior, h = 2/√λ with λ its
largest curvature, downwards, each with a run of so many steps, whatever it looks like on the way. Its chains start
where the search's do, and its verdict is the search's: mean and variance over its second half, by the forces. Runs
that diverge end there. Two times are given. One is of the scan until a step passes, as it was run: how long it takes
hangs on how near to the limit that step happens to be. The other is of a scan that covers two decades, down to a
hundredth of the limit, as by somebody who does not know where the answer is: the runs that were not made, all at
smaller steps than one that passes, count as long as that one, which made all of its steps, as they would.

On MNIST 7/9, mCCAdL then runs with the step found, and its expected log loss, over draws and training rows, is compared
with that of NUTS's draws, which anchored_reference.py left in `--cache`.
"""

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np

import isotherm
from anchored import flat
from anchored_problems import PROBLEMS, Problem
from anchored_reference import CACHE, load
from isotherm.models import Linear
from isotherm.paper.datasets import linear_regression
from isotherm.run import largest_step
from isotherm.run.assemble import RunSettings, assemble

RATIO = 1.1
DECADES = 2  # that a scan covers which does not stop
FRICTION = 10.0
BATCH = 500
LOSS_DRAWS = 400


def linear() -> Problem:
    """Linear regression on 100 columns, N = 10,000, as in the paper's first figure."""
    model = Linear(100, prior_variance=10.0)
    data = linear_regression.make(N=10_000, d=100, seed=0, scale=0.1).data
    posterior = isotherm.Posterior(model.log_likelihood, model.log_prior)
    return Problem("linear-regression", posterior, data, np.zeros(100, np.float32))


CHOSEN: dict[str, Callable[[], Problem]] = {
    "linear-regression": linear,
    "mnist-79": PROBLEMS["mnist-79"],
    "cifar10": PROBLEMS["cifar10"],
}


class Scanned(largest_step.Trials):
    """One look, after so many steps."""

    steps = 0

    def judge(self, chains: Any, step_size: float) -> largest_step.Trial:
        plan = largest_step.Plan(self.steps, self.steps // 2, self.steps // 2 // self.draws)
        seen = largest_step.advance_in_pieces(chains, plan, 0)
        if seen is None:
            return largest_step.Trial(step_size, None, self.steps, False)
        found = self.bias(self.positions(seen["position"]))
        return largest_step.Trial(step_size, found, self.steps, max(largest_step.excesses(found, self.bound)) <= 0)


def compare(problem: Problem, steps: int) -> dict[str, Any]:
    """The search, then the scan; seconds of each without what both need: the anchor, and compiling."""
    sampler = isotherm.mccadl("auto", FRICTION)
    settings: Any = {"batch_size": BATCH, "replace": True, "chains": 1, "seed": 0, "name": None}
    run = assemble(problem.posterior, sampler, problem.data, problem.init, RunSettings(**settings))
    began = time.perf_counter()
    near, forces, size = largest_step.surroundings(
        run, np.random.default_rng([0, largest_step.FIRST_LOOK]), progress=False
    )
    first, anchoring = largest_step.first_step(near, forces), time.perf_counter() - began
    shared: Any = near, forces, size, largest_step.BOUND, print
    search, scan = largest_step.Trials(*shared), Scanned(*shared)
    scan.steps = steps
    began = time.perf_counter()
    search(1e6 * first)  # diverges at once: this compiles
    compiling = time.perf_counter() - began
    scan.like = search.like
    searched, found = timed(lambda: largest_step.search(search, first, largest_step.BOUND))
    for trial in found.trials:
        print(f"  search: {trial.steps} steps, {trial}", flush=True)
    scanned, (largest, tried, last) = timed(lambda: brute_force(scan, 2 * first))
    left = round(DECADES * np.log(10) / np.log(RATIO)) + 1 - tried
    covered = scanned[0] + left * last[0], scanned[1] + left * last[1]
    ratio = found.largest.step_size / largest.step_size
    return {
        "name": problem.name,
        "found": found.largest.step_size,
        "scan": largest.step_size,
        "ratio": max(ratio, 1 / ratio),
        "seconds": searched,
        "scan_seconds": scanned,
        "share": searched[0] / scanned[0],
        "processor_share": searched[1] / scanned[1],
        "tried": tried,
        "covered_seconds": covered,
        "covered_share": searched[0] / covered[0],
        "covered_processor_share": searched[1] / covered[1],
        "steps": sum(trial.steps for trial in found.trials),
        "anchoring": anchoring,
        "compiling": compiling,
        "bias": found.largest.bias._asdict(),
    }


def timed(function: Callable[[], Any]) -> tuple[tuple[float, float], Any]:
    """Seconds by the clock and of the processor."""
    began, used = time.perf_counter(), time.process_time()
    result = function()
    return (time.perf_counter() - began, time.process_time() - used), result


def brute_force(scan: Scanned, first: float) -> tuple[largest_step.Trial, int, tuple[float, float]]:
    """The first step that passes, how many were tried, and the seconds of its own run."""
    for power in range(200):
        seconds, trial = timed(lambda power=power: scan(first / RATIO**power))
        print(f"  scan: {trial}", flush=True)
        if trial.passes:
            return trial, power + 1, seconds
    raise ArithmeticError("no step passes")


def log_losses(problem: Problem, step_size: float, cache: Path) -> dict[str, float]:
    """The expected log loss of mCCAdL with the step found, and NUTS's."""
    tree = isotherm.sample(
        problem.posterior,
        isotherm.mccadl(step_size, FRICTION),
        problem.data,
        problem.init,
        batch_size=BATCH,
        passes=600,
        burn_in=0.5,
        thin=10,
        chains=4,
        progress=False,
    )

    def loss(draws: np.ndarray) -> float:
        every = draws.reshape(-1, problem.d)
        some = every[np.linspace(0, len(every) - 1, LOSS_DRAWS).astype(int)]
        of_rows = jax.vmap(problem.posterior.log_likelihood, (None, 0))
        each = jax.jit(lambda theta: -of_rows(theta, problem.data).mean())
        return float(np.mean([each(theta) for theta in some.astype(np.float32)]))

    return {"loss": loss(flat(tree, problem.init)), "nuts": loss(load(problem.name, cache).draws)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help="names, with commas: " + ", ".join(CHOSEN))
    parser.add_argument("--cache", type=Path, default=CACHE, help="the folder of the references")
    parser.add_argument("--steps", type=int, default=2**12, help="of each run of the scan")
    parser.add_argument("--json", type=Path, help="a file for all the numbers")
    args = parser.parse_args()
    records = []
    for name in args.only.split(",") if args.only else CHOSEN:
        problem = CHOSEN[name]()
        print(name, flush=True)
        records.append(compare(problem, args.steps))
        if name == "mnist-79":
            records[-1] |= log_losses(problem, records[-1]["found"], args.cache)
        if args.json:
            args.json.write_text(json.dumps(records, indent=1, default=float))
        print(records[-1], flush=True)
    heads = "seconds, of the scan | share of it | share of two decades (≤ 0.1) | steps tried | log loss, NUTS's"
    print(f"| posterior | largest_step | scan | ratio (≤ 1.5) | {heads} |\n|{'---|' * 9}")
    for r in records:
        losses = f"{r['loss']:.5f}, {r['nuts']:.5f} ({r['loss'] / r['nuts'] - 1:+.2%})" if "loss" in r else ""
        took = f"{r['seconds'][0]:.0f}, {r['scan_seconds'][0]:.0f}"
        begin = f"| {r['name']} | {r['found']:.3g} | {r['scan']:.3g} | {r['ratio']:.2f} | {took} |"
        covered = f"{r['covered_share']:.3f}, {r['covered_processor_share']:.3f} | {r['tried']}"
        print(f"{begin} {r['share']:.3f}, {r['processor_share']:.3f} | {covered} | {losses} |")


if __name__ == "__main__":
    main()
