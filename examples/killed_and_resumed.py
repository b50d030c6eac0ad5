"""A run is killed in the middle, by the operating system and without warning, and goes on as if nothing had happened.

    python examples/killed_and_resumed.py [--steps N] [--store DIR]

A process of its own samples a logistic regression into a store. As soon as a checkpoint is on disk (one is written
every ten seconds) it gets SIGKILL, which no program can catch. `isotherm.resume` then finishes the run, and the draws
are compared with those of a run that nobody touched: they are the same to the last bit.
"""

import argparse
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray

import isotherm

ROWS, COLUMNS, BATCH = 50_000, 20, 500
LOOK = 0.2  # seconds between two looks at the store


def log_likelihood(theta: Any, row: Any) -> jax.Array:
    return jax.nn.log_sigmoid(row["y"] * (row["x"] @ theta))


def log_prior(theta: Any) -> jax.Array:
    return -0.5 * jnp.sum(theta**2)


POSTERIOR = isotherm.Posterior(log_likelihood, log_prior)


def data() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((ROWS, COLUMNS)).astype(np.float32)
    p = 1 / (1 + np.exp(-x @ np.linspace(-1, 1, COLUMNS)))
    return {"x": x, "y": np.where(rng.random(ROWS) < p, 1, -1).astype(np.float32)}


def sample(steps: int, store: Path | None) -> Any:
    return isotherm.sample(
        POSTERIOR,
        isotherm.eccadl(),
        data(),
        jnp.zeros(COLUMNS),
        batch_size=BATCH,
        steps=steps,
        thin=50,
        store=store,
        progress=False,
    )


def steps_done(store: Path) -> int:
    """How far the run is, as far as the disk knows: a store can be opened while it is being written."""
    try:
        return int(xarray.open_datatree(store, engine="zarr").attrs["steps_done"])
    except (FileNotFoundError, KeyError, OSError, ValueError):
        return 0


def kill_in_the_middle(store: Path, steps: int) -> None:
    """Start the run in a process of its own, and kill that when some steps are on disk."""
    command = [sys.executable, __file__, "--worker", "--store", str(store), "--steps", str(steps)]
    began, process = time.perf_counter(), subprocess.Popen(command)
    while steps_done(store) == 0 and process.poll() is None:
        time.sleep(LOOK)
    process.send_signal(signal.SIGKILL)
    process.wait()
    print(f"process {process.pid} was killed after {time.perf_counter() - began:.0f} seconds", flush=True)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=80_000, help="of each of four chains, some 20 seconds in all")
    parser.add_argument(
        "--store", metavar="DIR", type=Path, help="where the run is kept; in a temporary folder otherwise"
    )
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)  # this is the process that is killed
    options = parser.parse_args(arguments)
    if options.worker:
        sample(options.steps, options.store)
        return

    with tempfile.TemporaryDirectory() as folder:
        store, steps = options.store or Path(folder) / "run.zarr", options.steps
        kill_in_the_middle(store, steps)
        safe = steps_done(store)
        print(f"{safe:,} of {steps:,} steps are on disk" + (": it was faster" if safe == steps else ""), flush=True)
        resumed = isotherm.resume(store, POSTERIOR, data(), progress=False).load()
    done, draws = resumed.attrs["steps_done"], resumed.posterior.sizes["draw"]
    print(f"resumed, it has {done:,} steps and {draws:,} draws a chain", flush=True)
    whole = sample(steps, None)
    print(f"{'posterior mean':14}  resumed   never touched")
    for i in (0, COLUMNS // 2, COLUMNS - 1):
        means = [float(tree.posterior.theta[..., i].mean()) for tree in (resumed, whole)]
        print(f"{f'theta[{i}]':14}  {means[0]:+.4f}   {means[1]:+.4f}")
    same = np.array_equal(resumed.posterior.theta.values, whole.posterior.theta.values)
    print("the draws are the same, bit for bit" if same else "THE DRAWS DIFFER")
    if not same:
        sys.exit(1)


if __name__ == "__main__":
    main()
