"""What storing costs: logistic regression on MNIST 7/9 with mCCAdL, with a store and without, in turn.

    python benchmarks/checkpoint.py [seconds of a run] [turns]

A checkpoint is due every 10 seconds. The figure that counts is the ratio of the running times. A busy machine blurs it,
so the load is printed, and beside it what blurs less: the ratio of the processor times, the seconds for which the loop
waited for storing, and the seconds of processor that the writing thread used.
"""

import os
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import isotherm
from isotherm.run import recorder
from problems import logistic_mnist
from timing import ratio

SPENT = {"waiting": 0.0, "writing": 0.0, "checkpoints": 0.0}


def measured(name: str, account: str, clock: Any) -> None:
    """Have a method of the recorder put its time on an account."""
    method = getattr(recorder.StoreRecorder, name)

    def timed(self: Any, *arguments: Any) -> Any:
        began = clock()
        try:
            return method(self, *arguments)
        finally:
            SPENT[account] += clock() - began
            SPENT["checkpoints"] += name == "write_checkpoint"

    setattr(recorder.StoreRecorder, name, timed)


def main(seconds: float, turns: int) -> None:
    case = logistic_mnist()
    folder = Path(tempfile.mkdtemp())

    def run(steps: int, store: Path | None = None) -> tuple[float, float]:
        began, used = time.perf_counter(), time.process_time()
        isotherm.sample(
            case.posterior,
            isotherm.mccadl(step_size=case.step_size, friction=10.0),
            case.data,
            case.init,
            batch_size=case.batch_size,
            steps=steps,
            thin=10,
            chains=1,
            store=store,
            progress=False,
        )
        return time.perf_counter() - began, time.process_time() - used

    for name in ("add", "checkpoint", "finish"):
        measured(name, "waiting", time.perf_counter)
    for name in ("write_chunk", "write_checkpoint"):
        measured(name, "writing", time.thread_time)
    try:
        run(1000)  # compiles
        run(1000, folder / "warm.zarr")
        steps = int(5000 * seconds / run(5000)[0])
        SPENT.update(dict.fromkeys(SPENT, 0.0))
        plain, stored = [], []
        for turn in range(turns):
            plain.append(run(steps))
            stored.append(run(steps, folder / f"{turn}.zarr"))
            load = os.getloadavg()[0]
            print(
                f"turn {turn}: {plain[-1][0]:.1f} s without a store, {stored[-1][0]:.1f} s with; load {load:.1f}",
                flush=True,
            )
    finally:
        shutil.rmtree(folder)
    without, with_ = np.array(plain).T, np.array(stored).T
    total = with_[0].sum()
    print(f"{case.name}, mCCAdL, {steps} steps, {SPENT['checkpoints'] / turns:.1f} checkpoints a run")
    print(f"running time with a store / without: {ratio(with_[0], without[0])} on {os.cpu_count()} cores")
    print(f"processor time with / without:       {ratio(with_[1], without[1])}")
    print(f"the loop waited for storing:         {SPENT['waiting'] / total:.2%} of the run")
    print(f"processor used by the writer:        {SPENT['writing'] / total:.2%} of the run")


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 30.0, int(sys.argv[2]) if len(sys.argv) > 2 else 3)
