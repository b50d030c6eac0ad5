"""What a step costs in this checkout over what it costs in another, both in one run, taking turns.

.venv/bin/python benchmarks/versus.py PATH-OF-THE-OTHER-CHECKOUT [turns]

Each checkout runs in a process of its own, with its own `src` and `benchmarks`, on the Python that runs this.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import IO

import numpy as np

from timing import ratio

HERE = Path(__file__).parents[1]
CHILD = """
import json, sys, time, warnings
import jax, isotherm
from contestants import isotherms
from problems import drbm_letter, linear, logistic_mnist, logistic_wide, network
warnings.simplefilter("ignore")
a, b, c, n = logistic_mnist(), logistic_wide(), drbm_letter(), network(256)
runs = {
    "(a) sgnht": (isotherms(a, isotherm.sgnht(1.2e-4), 4000), 4000),
    "(a) sghmc": (isotherms(a, isotherm.sghmc(1.2e-4), 4000), 4000),
    "(a) ccadl": (isotherms(a, isotherm.ccadl(1.2e-4), 200), 200),
    "(a) mccadl, h = 1.2e-4": (isotherms(a, isotherm.mccadl(1.2e-4), 2000), 2000),
    "(a) mccadl, h = 1.2e-3": (isotherms(a, isotherm.mccadl(1.2e-3), 2000), 2000),
    "(a) eccadl": (isotherms(a, isotherm.eccadl(), 4000), 4000),
    "(a) sgnht, 64 chains": (isotherms(a, isotherm.sgnht(1.2e-4), 200, 64), 200),
    "(b) sgnht": (isotherms(b, isotherm.sgnht(1e-4), 500), 500),
    "(b) mccadl": (isotherms(b, isotherm.mccadl(1e-3), 500), 500),
    "(c) sgnht": (isotherms(c, isotherm.sgnht(5e-3), 10), 10),
    "(c) mccadl": (isotherms(c, isotherm.mccadl(5e-3), 10), 10),
    "network of 203,530, sgnht": (isotherms(n, isotherm.sgnht(1e-4), 30), 30),
    "network of 203,530, eccadl, 30 steps": (isotherms(n, isotherm.eccadl(1e-4), 30), 30),
    "network of 203,530, eccadl, 400 steps": (isotherms(n, isotherm.eccadl(1e-4), 400), 400),
    "(e) sgnht, N = 1e4": (isotherms(linear(10**4), isotherm.sgnht(5e-4), 4000), 4000),
    "(e) sgnht, N = 1e7": (isotherms(linear(10**7), isotherm.sgnht(5e-7), 4000), 4000),
}
for run, _ in runs.values():
    jax.block_until_ready(run())
print(json.dumps(list(runs)), flush=True)
for line in sys.stdin:
    run, steps = runs[json.loads(line)]
    began, used = time.perf_counter(), time.process_time()
    jax.block_until_ready(run())
    print(json.dumps([(time.perf_counter() - began) / steps, (time.process_time() - used) / steps]), flush=True)
"""


def start(checkout: Path) -> subprocess.Popen[str]:
    paths = os.pathsep.join([str(checkout / "src"), str(checkout / "benchmarks")])
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    return subprocess.Popen([sys.executable, "-c", CHILD], env=os.environ | {"PYTHONPATH": paths}, **pipes)


def said(pipe: IO[str] | None) -> list:
    assert pipe is not None
    return json.loads(pipe.readline())


def main(other: Path, turns: int) -> None:
    children = {"here": start(HERE), "there": start(other)}
    names, _ = (said(child.stdout) for child in children.values())
    print(f"| a step here over one in {other} | elapsed, processor | here, µs | there, µs |\n|---|---|---|---|")
    for name in names:
        seconds: dict[str, list] = {who: [] for who in children}
        for turn in range(turns):
            for who in sorted(children, reverse=bool(turn % 2)):
                child = children[who]
                print(json.dumps(name), file=child.stdin, flush=True)
                seconds[who].append(said(child.stdout))
        here, there = (np.array(seconds[who]) for who in ("here", "there"))
        medians = " | ".join(f"{1e6 * np.median(taken[:, 0]):.3g}" for taken in (here, there))
        print(f"| {name} | {ratio(here, there)} | {medians} |", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), int(sys.argv[2]) if len(sys.argv) > 2 else 15)
