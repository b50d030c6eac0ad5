"""A run is killed in the middle, by the operating system and without warning, and goes on as if nothing had happened.

    python examples/killed_and_resumed.py [--store DIR] [--seconds S]

A process of its own samples a logistic regression into a store. As soon as a checkpoint is on disk (one is written
every ten seconds) it gets SIGKILL, which no program can catch. `isotherm.resume` then finishes the run, and the draws
are compared with those of a run that nobody touched: they are the same to the last bit.
"""

import argparse
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray

import isotherm

ROWS, COLUMNS, BATCH = 50_000, 20, 500
TRIAL = 2_000  # steps that show how fast this machine is
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
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", isotherm.VerdictWarning
        )  # the trial is too short to be believed, and need not be
        return isotherm.sample(
            POSTERIOR,
            isotherm.eccadl(),
            data(),
            jnp.zeros(COLUMNS),
            batch_size=BATCH,
            steps=steps,
            thin=100,
            store=store,
            progress=False,
        )


def steps_done(store: Path) -> int:
    """How far the run is, as far as the disk knows: a store can be opened while it is being written."""
    try:
        return int(xarray.open_datatree(store, engine="zarr").attrs["steps_done"])
    except (FileNotFoundError, KeyError, OSError, ValueError):
        return 0


def kill_in_the_middle(store: Path, steps: int) -> int:
    """Start the run in a process of its own, kill that, and say how many steps are safe."""
    process = subprocess.Popen([sys.executable, __file__, "--store", str(store), "--steps", str(steps)])
    began = time.perf_counter()
    while steps_done(store) == 0 and process.poll() is None:
        time.sleep(LOOK)
    process.send_signal(signal.SIGKILL)
    process.wait()
    how = "finished before it could be killed" if process.returncode == 0 else "killed"
    print(f"process {process.pid} was {how} after {time.perf_counter() - began:.0f} seconds", flush=True)
    return steps_done(store)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--store", metavar="DIR", type=Path, help="where the run is kept; in a temporary folder if not given"
    )
    parser.add_argument("--seconds", type=float, default=14, help="how long the whole run takes, about")
    parser.add_argument("--steps", type=int, help=argparse.SUPPRESS)  # this is the process that gets killed
    options = parser.parse_args(arguments)
    if options.steps is not None:
        sample(options.steps, options.store)
        return

    folder = Path(tempfile.mkdtemp())
    store = options.store or folder / "run.zarr"
    trial = sample(TRIAL, None).attrs["sampling_time"]
    steps = max(TRIAL, int(TRIAL * options.seconds / trial) // 1_000 * 1_000)
    print(
        f"{steps:,} steps of four chains on {ROWS:,} rows, which is about {steps * trial / TRIAL:.0f} seconds",
        flush=True,
    )
    safe = kill_in_the_middle(store, steps)
    print(f"{safe:,} of {steps:,} steps are in {store}", flush=True)
    resumed = isotherm.resume(store, POSTERIOR, data(), progress=False)
    print(
        f"resumed: {resumed.attrs['steps_done']:,} steps, {resumed.posterior.sizes['draw']:,} draws a chain", flush=True
    )
    whole = sample(steps, None)
    print(f"{'':10}  resumed   never touched")
    for i in (0, COLUMNS // 2, COLUMNS - 1):
        means = (float(tree.posterior.theta[..., i].mean()) for tree in (resumed, whole))
        print(f"{f'theta[{i}]':10}  {next(means):+.4f}   {next(means):+.4f}")
    same = np.array_equal(resumed.posterior.theta.values, whole.posterior.theta.values)
    print("the draws are the same, bit for bit" if same else "THE DRAWS DIFFER")
    shutil.rmtree(folder)
    sys.exit(0 if same else 1)


if __name__ == "__main__":
    main()
