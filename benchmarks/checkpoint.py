"""What storing costs: logistic regression on MNIST 7/9 with mCCAdL, with a store and without, in turn.

    python benchmarks/checkpoint.py [seconds of a run] [turns]

A checkpoint is due every 10 seconds. Two figures: the ratio of the running times, which a busy machine blurs, and the
time taken by storing itself: the seconds for which the loop waited, and the seconds of processor that the writing
thread used, as shares of the run.
"""

import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import isotherm
from isotherm.store import recorder
from problems import logistic_mnist
from timing import ratio

SPENT = {"waiting": 0.0, "writing": 0.0, "checkpoints": 0.0}


def measured(name: str, account: str, clock: Any) -> None:
    """Have a method of the recorder put its time on an account."""
    method = getattr(recorder.Recorder, name)

    def timed(self: Any, *arguments: Any) -> Any:
        began = clock()
        try:
            return method(self, *arguments)
        finally:
            SPENT[account] += clock() - began
            SPENT["checkpoints"] += name == "write_checkpoint"

    setattr(recorder.Recorder, name, timed)


def main(seconds: float, turns: int) -> None:
    case = logistic_mnist()
    folder = Path(tempfile.mkdtemp())

    def run(steps: int, store: Path | None = None) -> float:
        began = time.perf_counter()
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
        return time.perf_counter() - began

    for name in ("add", "look", "finish"):
        measured(name, "waiting", time.perf_counter)
    for name in ("write_chunk", "write_checkpoint"):
        measured(name, "writing", time.thread_time)
    try:
        run(1000)  # compiles
        run(1000, folder / "warm.zarr")
        steps = int(5000 * seconds / run(5000))
        SPENT.update(dict.fromkeys(SPENT, 0.0))
        plain, stored = [], []
        for turn in range(turns):
            plain.append(run(steps))
            stored.append(run(steps, folder / f"{turn}.zarr"))
            print(f"turn {turn}: {plain[-1]:.1f} s without a store, {stored[-1]:.1f} s with", flush=True)
    finally:
        shutil.rmtree(folder)
    total = sum(stored)
    print(f"{case.name}, mCCAdL, {steps} steps, {SPENT['checkpoints'] / turns:.1f} checkpoints a run")
    print(f"running time with a store / without: {ratio(np.array(stored), np.array(plain))}")
    print(f"the loop waited for storing:         {SPENT['waiting'] / total:.2%} of the run")
    print(f"processor used by the writer:        {SPENT['writing'] / total:.2%} of the run")


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 30.0, int(sys.argv[2]) if len(sys.argv) > 2 else 3)
