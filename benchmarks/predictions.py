"""How much memory and time `isotherm.predict` takes: many rows, many draws, and each of them four times as many.

    python benchmarks/predictions.py [--rows 1000000] [--draws 1000] [--features 30]

The data are a memory-mapped file, so that what is resident is what `predict` needs. Each line is a process of its own,
whose peak is the kernel's VmHWM; "before" is its peak when JAX, xarray and the draws are there and `predict` begins.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np


def resident(name: str) -> float:
    """Of this process, in MB."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(name))
    return int(line.split()[1]) / 1024


def measure(file: str, rows: int, draws: int, features: int) -> None:
    import jax
    import xarray

    import isotherm

    theta = np.random.default_rng(0).normal(size=(4, draws // 4, features)).astype(np.float32)
    posterior = xarray.Dataset({"theta": (("chain", "draw", "theta_dim_0"), theta)})
    tree = xarray.DataTree.from_dict({"posterior": posterior})
    x = np.memmap(file, np.float32, "r", shape=(rows, features))
    jax.jit(lambda v: v + 1)(0.0)
    before, began = resident("VmHWM"), time.perf_counter()
    found = isotherm.predict(tree, lambda theta, row: jax.nn.sigmoid(row["x"] @ theta), {"x": x}, progress=False)
    seconds = time.perf_counter() - began
    some = np.linspace(0, rows - 1, 50).astype(int)
    values = 1 / (1 + np.exp(-x[some].astype(np.float64) @ theta.reshape(-1, features).T.astype(np.float64)))
    off = np.abs(found["quantiles"].values[:, some] - np.quantile(values, found["quantile"], axis=1)).max()
    print(f"| {rows:,} | {draws:,} | {before:,.0f} MB | {resident('VmHWM'):,.0f} MB | {seconds:.0f} s | {off:.1e} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--draws", type=int, default=1_000)
    parser.add_argument("--features", type=int, default=30)
    parser.add_argument("--measure", metavar="FILE", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        measure(given.measure, given.rows, given.draws, given.features)
        return
    print("| rows | draws | before | peak | time | quantiles off by |\n|---|---|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        file, rng = Path(folder) / "x", np.random.default_rng(1)
        with file.open("wb") as out:
            for _ in range(0, 4 * given.rows, 10_000):
                rng.normal(size=(10_000, given.features)).astype(np.float32).tofile(out)
        for rows, draws in ((1, 1), (4, 1), (1, 4)):
            sizes = ["--rows", rows * given.rows, "--draws", draws * given.draws, "--features", given.features]
            subprocess.run([sys.executable, __file__, "--measure", file, *map(str, sizes)], check=True)


if __name__ == "__main__":
    main()
