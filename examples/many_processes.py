"""One posterior, many processes, each with its own rows: logistic regression.

    python examples/many_processes.py --rows 'shards/*.npy' --store /shared/run.zarr

Run it once in every process of a Slurm job (examples/slurm.sh), an indexed job of Kubernetes (examples/kubernetes.yaml)
or an Open MPI job, or by hand, with --coordinator HOST:PORT --processes P --process K. Each process reads the files
whose turn it is, in the order of their names: with P processes, the k-th P-th of them. A file is an array of numbers in
which the last column is 0 or 1, and the others are what it is to be predicted from. Without --rows, rows are made up.

If a process is lost, the others stop and say so; the same command goes on from the last checkpoint, also with another
number of processes. The store must be in a folder that all of them see.
"""

import argparse
import glob
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import isotherm

LOST = 30  # seconds after which a host that says nothing is taken for lost


def log_likelihood(theta: jax.Array, row: Any) -> jax.Array:
    return jax.nn.log_sigmoid((2 * row["y"] - 1) * (row["x"] @ theta))


def log_prior(theta: jax.Array) -> jax.Array:
    return -0.5 * jnp.sum(theta**2) / 10


def rows_of(pattern: str | None, process: int, processes: int) -> dict[str, np.ndarray]:
    """The rows of this process. All processes together have every file once, one after the other in their order."""
    if pattern is None:
        rng = np.random.default_rng(0)
        x = rng.standard_normal((20_000, 5)).astype(np.float32)
        table = np.column_stack([x, rng.random(20_000) < 1 / (1 + np.exp(-x.sum(axis=1)))]).astype(np.float32)
        table = np.array_split(table, processes)[process]
    else:
        files = sorted(glob.glob(pattern))
        mine = files[len(files) * process // processes : len(files) * (process + 1) // processes]
        if not mine:
            raise SystemExit(f"{len(files)} files match {pattern!r}, and {processes} processes need one each at least")
        table = np.concatenate([np.load(file).astype(np.float32) for file in mine])
    return {"x": np.ascontiguousarray(table[:, :-1]), "y": np.ascontiguousarray(table[:, -1])}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", help="the files, as a pattern: 'shards/*.npy'")
    parser.add_argument("--store", type=Path, default=Path("run.zarr"))
    parser.add_argument("--coordinator", help="host and port of process 0; found by itself under Slurm and others")
    parser.add_argument("--processes", type=int)
    parser.add_argument("--process", type=int)
    parser.add_argument("--alone", action="store_true", help="one process, with all rows")
    arguments = parser.parse_args()
    if not arguments.alone:  # before anything else is done with JAX
        where = arguments.coordinator, arguments.processes, arguments.process
        jax.distributed.initialize(*where, heartbeat_timeout_seconds=LOST, shutdown_timeout_seconds=LOST)
    data = rows_of(arguments.rows, jax.process_index(), jax.process_count())
    posterior = isotherm.Posterior(log_likelihood, log_prior)
    if arguments.store.is_dir():
        tree = isotherm.resume(arguments.store, posterior, data)
    else:
        tree = isotherm.fit(posterior, data, jnp.zeros(data["x"].shape[1]), store=arguments.store)
    if jax.process_index() == 0:
        theta = tree["posterior"]["theta"]
        for number, (mean, deviation) in enumerate(
            zip(theta.mean(("chain", "draw")).values, theta.std(("chain", "draw")).values, strict=True)
        ):
            print(f"theta[{number}] = {mean:.4f} ± {deviation:.4f}")


if __name__ == "__main__":
    main()
