"""What several processes cost and gain: sums between them, steps whose rows they share, and the same draws as one.

    python benchmarks/processes.py [--processes 1,2,4] [--data DIR] [--only work,sums,steps,draws] [--results FILE]

For each number of processes on this machine (gloo, loopback): the time of a sum of so many numbers over all processes
inside a compiled loop; the time of a step of isotherm.sgnht (one sum a step, of 4 chains) on logistic regression with
100 parameters and batches of 500 to 50,000 rows; and draws of MNIST 7/9 and flights (with --data) beside those of one
process. First, on one core alone: the time W(m) of a step with batches of m rows, for many m, and the time c that it
takes a process to draw the number of a row and to see whether the row is its own. Of these it makes a model of the step
time of P processes that share C cores (as many as there are; on hosts of their own each has one),

    t(P) = max(1, P/C) (f W(m) + n c + 2(P − 1) q (latency + bytes / P / bandwidth)),    t(1) = W(n) / min(C, chains),

where m is the number of rows for which a process has room, and latency and bandwidth come from the sums of two. f and q
say how much longer rows and sums take within the program of several processes; they come from the smallest and the
largest batch of two. It prints the model beside what was measured, and for up to 1,000 hosts. gloo sums around a ring:
each number makes 2(P − 1) hops. What is measured is kept in FILE, and not measured again if it is there.
"""

import argparse
import importlib.util
import json
import os
import socket
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import PartitionSpec as P

import isotherm
from isotherm.data import processes, threefry
from isotherm.data.batches import Batches
from isotherm.data.sharded import Shards
from isotherm.run.assemble import RunSettings, assemble
from isotherm.run.execute import make_chains
from isotherm.run.plan import Plan

LENGTHS = (1, 400, 10_000, 1_000_000)  # numbers summed
SIZES = (500, 5_000, 50_000)  # batches
GRID = (10, 30, 60, 125, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000)  # for which W is measured
D, N, CHAINS = 100, 400_000, 4
HOSTS = (1, 2, 4, 10, 100, 1000)
SECONDS = 2.0  # of a measurement, about


def timed(work: Any, rounds: int = 10) -> float:
    """Seconds of one round of `work(rounds)`, which is compiled already: the least of many measurements, since others
    may be busy on the machine."""
    work(rounds)
    best, began = np.inf, time.perf_counter()
    while True:
        begin = time.perf_counter()
        work(rounds)
        best = min(best, (time.perf_counter() - begin) / rounds)
        if processes.gathered(np.array(time.perf_counter() - began))[0] > SECONDS:
            return float(processes.gathered(np.array(best)).max())


def sums() -> dict[str, float]:
    mesh = jax.sharding.Mesh(np.array(jax.devices()), ("rows",))
    found = {}
    for length in LENGTHS:

        def loop(x: jax.Array, rounds: jax.Array) -> jax.Array:
            return jax.lax.fori_loop(0, rounds, lambda _, x: jax.lax.psum(x, "rows") / jax.process_count(), x)

        mapped = jax.jit(jax.shard_map(loop, mesh=mesh, in_specs=(P(), P()), out_specs=P(), check_vma=False))
        x = np.ones(length, np.float32)
        found[str(length)] = timed(lambda rounds, f=mapped, x=x: jax.block_until_ready(f(x, rounds)))
    return found


def work() -> dict[str, Any]:
    """On one core: steps with batches of so many rows, and choosing among the numbers of 50,000 rows those of two."""
    n, share = SIZES[-1], Shards((), jnp.zeros((1, 2), jnp.int32), 0.5)
    batches, room = Batches(N, n), share.capacity(n)

    def chosen(key: jax.Array) -> jax.Array:
        rows = batches.rows(key)
        (places,) = jnp.nonzero(rows < N // 2, size=room, fill_value=0)
        return rows[places].sum()

    def loop(rounds: jax.Array) -> jax.Array:
        keys = jax.vmap(lambda chain: jax.random.fold_in(threefry.key(0), chain))(jnp.arange(CHAINS))
        each = jax.vmap(lambda key, i: chosen(jax.random.fold_in(key, i)), (0, None))
        return jax.lax.fori_loop(0, rounds, lambda i, total: total + each(keys, i).sum(), 0)

    run = jax.jit(loop)
    choosing = timed(lambda rounds: jax.block_until_ready(run(rounds)))
    return {"steps": steps(GRID), "choosing": choosing / n}


def steps(sizes: tuple[int, ...] = SIZES) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((N, D), np.float32) / 10
    y = rng.integers(0, 2, N).astype(np.float32)
    data, found = processes.share({"x": x, "y": y}), {}
    posterior = isotherm.Posterior(
        lambda theta, row: jax.nn.log_sigmoid((2 * row["y"] - 1) * (row["x"] @ theta)),
        lambda theta: -0.5 * jnp.sum(theta**2),
    )
    settings: Any = {"replace": True, "chains": CHAINS, "seed": 0, "name": None}
    for size in sizes:
        run = assemble(posterior, isotherm.sgnht(1e-3), data, jnp.zeros(D), RunSettings(batch_size=size, **settings))
        share = run.shards.capacity(size) / size if isinstance(run.shards, Shards) and processes.several() else 1.0
        with closing(make_chains(run)) as chains:
            at = 0

            def go(rounds: int, chains: Any = chains) -> None:
                nonlocal at
                chains.advance(Plan(2**30, 2**29, 1), at, at + rounds)
                at += rounds

            found[str(size)] = {"seconds": timed(go, max(10, min(200, SIZES[-1] * 5 // size))), "share": share}
    return found


def draws(data_dir: Path) -> dict[str, list[float]]:
    """Of the first parameters, after a few hundred steps, so that they can be compared one by one."""
    from isotherm.paper.experiments.stored_runs import PROBLEMS

    spec = importlib.util.spec_from_file_location("flights", Path(__file__).parents[1] / "examples" / "flights.py")
    assert spec is not None
    assert spec.loader is not None
    flights = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(flights)
    mnist, loaded = PROBLEMS["mnist-7-9"].load(data_dir), isotherm.datasets.flights.load(data_dir)
    airports = {"origin": loaded.origins, "destination": loaded.destinations}
    sizes = {"hour": 24, "weekday": 7} | {name: len(codes) for name, codes in airports.items()}
    init = {"intercept": jnp.zeros(()), "log_distance": jnp.zeros(())}
    init |= {name: jnp.zeros(size) for name, size in sizes.items()}
    delays = isotherm.Posterior(flights.log_likelihood, flights.log_prior)
    cases = {
        "MNIST 7/9": (mnist.posterior, isotherm.mccadl(1e-3, 10.0), mnist.data, mnist.init, 500),
        "flights": (delays, isotherm.mccadl(1e-4, 10.0), loaded.data, init, 2000),
    }
    found = {}
    for name, (posterior, sampler, data, start, size) in cases.items():
        settings: Any = {"batch_size": size, "steps": 300, "thin": 20, "chains": 2, "progress": False}
        tree = isotherm.sample(posterior, sampler, processes.share(data), start, **settings)
        arrays = [np.ravel(array.values) for array in tree["posterior"].data_vars.values()]
        found[name] = np.concatenate(arrays).astype(float).tolist()
    return found


def worker(process: int, count: int, port: int, only: str, data_dir: str) -> None:
    import warnings

    warnings.simplefilter("ignore")
    if count > 1:
        processes.join(f"127.0.0.1:{port}", count, process)
    found: dict[str, Any] = {}
    if only == "work":
        found["work"] = work()
    if "sums" in only:
        found["sums"] = sums()
    if "steps" in only:
        found["steps"] = steps()
    if "draws" in only and data_dir:
        found["draws"] = draws(Path(data_dir))
    if process == 0:
        print("RESULT" + json.dumps(found), flush=True)


def measured(count: int, only: str, data_dir: str) -> dict[str, Any]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, __file__, "--only", only, "--data", data_dir, "--worker"]
    running = [
        subprocess.Popen([*command, f"{process},{count},{port}"], stdout=subprocess.PIPE, text=True)
        for process in range(count)
    ]
    if only == "work":  # before it has begun with JAX
        os.sched_setaffinity(running[0].pid, {min(os.sched_getaffinity(0))})
    said = [each.communicate()[0] for each in running]
    if any(each.returncode for each in running):
        raise SystemExit(f"a process of {count} failed")
    return json.loads(said[0].split("RESULT")[1])


def print_model(found: dict[int, Any]) -> None:
    """The constants, and the model beside what was measured."""
    two, lengths, cores = found[2]["sums"], sorted(LENGTHS), len(os.sched_getaffinity(0))
    latency = two[str(lengths[1])] / 2
    bandwidth = 4 * lengths[-1] / (two[str(lengths[-1])] - two[str(lengths[1])])
    seen, c = found[1]["work"]["steps"], found[1]["work"]["choosing"]
    W = {size: seen[str(size)]["seconds"] for size in GRID}
    print(f"{cores} cores; latency {latency * 1e6:.0f} µs a hop, bandwidth {bandwidth / 1e9:.2f} GB/s, ", end="")
    print(f"c = {c * 1e9:.1f} ns a row of {CHAINS} chains; W in µs on one core: ", end="")
    print(", ".join(f"{seconds * 1e6:,.0f} for {size:,}" for size, seconds in W.items()))

    def terms(size: int, count: int) -> np.ndarray:
        """What rows, sums and row numbers take."""
        rows = Shards((), jnp.zeros((1, 2), jnp.int32), 1 / count).capacity(size)
        waiting = 2 * (count - 1) * (latency + 4 * CHAINS * D / count / bandwidth)
        return np.array([np.interp(rows, GRID, list(W.values())), waiting, size * c])

    ends = np.stack([terms(size, 2) for size in (SIZES[0], SIZES[-1])])
    of_two = [found[2]["steps"][str(size)]["seconds"] for size in (SIZES[0], SIZES[-1])]
    f, q = np.linalg.solve(ends[:, :2], np.array(of_two) / max(1, 2 / cores) - ends[:, 2])
    print(f"f = {f:.1f}, q = {q:.1f}")

    def model(size: int, count: int, shared: bool) -> float:
        if count == 1:
            return W[size] / min(cores, CHAINS)
        return float(terms(size, count) @ [f, q, 1]) * (max(1, count / cores) if shared else 1)

    for words, counts, shared in (("processes that share these cores", sorted(found), True), ("hosts", HOSTS, False)):
        print(f"a step of {words}, in microseconds:\n  n       " + "".join(f"{count:>26,}" for count in counts))
        for size in SIZES:
            cells = []
            for count in counts:
                was = f" (measured {found[count]['steps'][str(size)]['seconds'] * 1e6:,.0f})" if shared else ""
                cells.append(f"{model(size, count, shared) * 1e6:,.0f}{was}")
            print(f"  {size:<8}" + "".join(f"{cell:>26}" for cell in cells))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", default="1,2,4")
    parser.add_argument("--data", default="")
    parser.add_argument("--only", default="work,sums,steps,draws")
    parser.add_argument("--results", type=Path, help="JSON")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        process, count, port = map(int, arguments.worker.split(","))
        return worker(process, count, port, arguments.only, arguments.data)
    kept = arguments.results
    if kept is not None and kept.exists():
        found = {int(count): each for count, each in json.loads(kept.read_text()).items()}
    else:
        found = {int(n): measured(int(n), arguments.only, arguments.data) for n in arguments.processes.split(",")}
        if "work" in arguments.only:
            found[1] |= measured(1, "work", "")
    if kept is not None:
        kept.write_text(json.dumps(found))
    for count, each in found.items():
        for length, seconds in each.get("sums", {}).items():
            print(f"{count} processes: a sum of {int(length):>9,} numbers {seconds * 1e6:>9,.1f} µs")
        for name, values in each.get("draws", {}).items():
            reference = np.array(found[1]["draws"][name])
            difference = float(np.max(abs(np.array(values) - reference)))
            print(f"{count} processes: {name}, {len(values):,} numbers, largest difference {difference:.1e}", end=" ")
            print(f"(standard deviation {reference.std():.2g})")
    if "work" in found[1] and all("sums" in found.get(n, {}) and "steps" in found[n] for n in (1, 2)):
        print_model(found)
    return None


if __name__ == "__main__":
    main()
