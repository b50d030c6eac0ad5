"""Logistic regression on data that are larger than memory: how much memory a fit takes, how fast its steps are beside
those on data in memory, and how fast anchoring reads beside a plain read of the file.

    python benchmarks/larger_than_memory.py FOLDER [--gigabytes 26] [--fitting 2]

FOLDER needs room for both files; they are deleted in the end. `--fitting` is the size of the data for the comparison
with data in memory. Each part is a process of its own, so that its memory is its own.
"""

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np

COLUMNS = 250
ROWS_AT_ONCE = 20_000
STEPS, AT_ONCE = 4_000, 1_000  # of each chain, over which steps a second are measured, and in turns of so many
WARM_UP = 8_000  # steps before them: the loop is compiled, and the process that copies rows is there


def write(folder: Path, gigabytes: float) -> None:
    """x: normal numbers times a factor of the row's own; y: ±1 by the logistic model. A part at a time, each with the
    same normal numbers: drawing new ones would take longer than all the rest."""
    rows = int(gigabytes * 1e9 / (4 * (COLUMNS + 1)))
    folder.mkdir(parents=True)
    normal = np.random.default_rng(2).standard_normal((ROWS_AT_ONCE, COLUMNS), np.float32)
    truth = np.random.default_rng(1).standard_normal(COLUMNS).astype(np.float32) / COLUMNS**0.5
    x = np.lib.format.open_memmap(folder / "x.npy", "w+", np.float32, (rows, COLUMNS))
    y = np.lib.format.open_memmap(folder / "y.npy", "w+", np.float32, (rows,))
    x.flush(), y.flush()
    del x
    with open(folder / "x.npy", "r+b") as file:
        np.lib.format.read_magic(file), np.lib.format.read_array_header_1_0(file)
        for first in range(0, rows, ROWS_AT_ONCE):
            rng = np.random.default_rng([3, first])
            factors = rng.uniform(-2, 2, (min(ROWS_AT_ONCE, rows - first), 1)).astype(np.float32)
            block = factors * normal[: len(factors)]
            chance = 1 / (1 + np.exp(-block @ truth))
            y[first : first + len(block)] = np.where(rng.random(len(block)) < chance, 1, -1)
            file.write(block.data)
        file.flush()
        os.fsync(file.fileno())
    y.flush()


def opened(folder: Path) -> dict[str, np.ndarray]:
    return {name: np.load(folder / f"{name}.npy", mmap_mode="r") for name in ("x", "y")}


def drop_from_cache(folder: Path) -> None:
    os.sync()
    for path in folder.glob("*.npy"):
        with open(path, "rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def model():
    import jax
    import jax.numpy as jnp

    import isotherm

    return isotherm.Posterior(
        lambda theta, row: jax.nn.log_sigmoid(row["y"] * (row["x"] @ theta)), lambda theta: -0.5 * jnp.sum(theta**2)
    )


class Memory:
    """The most resident memory so far: of the process itself, of files that it maps, and of both together."""

    def __init__(self) -> None:
        self.most = {"RssAnon": 0, "RssFile": 0}
        threading.Thread(target=self.watch, daemon=True).start()

    def watch(self) -> None:
        while True:
            for line in Path("/proc/self/status").read_text().splitlines():
                name, _, rest = line.partition(":")
                if name in self.most:
                    self.most[name] = max(self.most[name], int(rest.split()[0]))
            time.sleep(0.05)

    def found(self) -> dict[str, float]:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return {f"{name}, GB": 1024 * kibibytes / 1e9 for name, kibibytes in {**self.most, "VmHWM": peak}.items()}


def sequential(folder: Path) -> float:
    """Gigabytes a second of a plain read of x from its beginning."""
    size, began, room = 0, time.perf_counter(), bytearray(2**24)
    with open(folder / "x.npy", "rb", buffering=0) as file:
        while got := file.readinto(room):
            size += got
    return size / (time.perf_counter() - began) / 1e9


def fit(folder: Path) -> dict:
    """The whole of `isotherm.fit`, from a cold cache."""
    import jax.numpy as jnp

    import isotherm
    from isotherm.lib.progress import Passes

    passes, leave = [], Passes.__exit__
    Passes.__exit__ = lambda self, *why: (passes.append((self.done, time.perf_counter())), leave(self, *why))[1]
    memory, began = Memory(), time.perf_counter()

    def say(self: Passes, doing: str) -> None:
        now, used = time.perf_counter() - began, time.process_time()
        print(
            f"{now:6.0f} s, {used:6.0f} of the processor, {self.done:.2f} passes: {doing}", file=sys.stderr, flush=True
        )

    Passes.say = say
    drop_from_cache(folder)
    tree = isotherm.fit(model(), opened(folder), jnp.zeros(COLUMNS), progress=False)
    seconds = time.perf_counter() - began
    return {
        "gigabytes": (folder / "x.npy").stat().st_size / 1e9,
        "rows": int(np.load(folder / "y.npy", mmap_mode="r").shape[0]),
        "seconds": seconds,
        "processor_seconds": time.process_time(),
        "anchoring_seconds": passes[0][1] - began,
        "anchoring_passes": passes[0][0],
        "method": tree.attrs["fit_method"],
        "draws": int(tree.posterior.sizes["draw"] * tree.posterior.sizes["chain"]),
        **memory.found(),
    }


def anchoring(folder: Path) -> dict:
    """A pass of the gradient and one of leverages over x, from a cold cache, beside a plain read of it."""
    import jax.numpy as jnp

    from isotherm.targets import checks
    from isotherm.targets.newton import RowSums
    from isotherm.targets.target import Coordinates, Target

    posterior, data, size = model(), opened(folder), (folder / "x.npy").stat().st_size / 1e9
    few, sums = (
        RowSums(Target(posterior.log_likelihood, posterior.log_prior, unravel), checks.checked_data(some))
        for some in ({name: np.array(column[:ROWS_AT_ONCE]) for name, column in data.items()}, data)
    )
    at = Coordinates(jnp.zeros(COLUMNS), jnp.eye(COLUMNS) / sums.rows**0.5)
    probes, found = np.random.default_rng(0).standard_normal((COLUMNS, 32)), {}
    few.gradient(at), few.leverages(at, probes)  # compiled
    for name, work in (
        ("plain read", lambda: sequential(folder)),
        ("gradient", lambda: sums.gradient(at)),
        ("leverages", lambda: sums.leverages(at, probes)),
        ("plain read again", lambda: sequential(folder)),
    ):
        drop_from_cache(folder)
        began, used = time.perf_counter(), time.process_time()
        work()
        seconds = time.perf_counter() - began
        found[name] = {"GB/s": size / seconds, "cores": (time.process_time() - used) / seconds}
    return found


def let_go(chains) -> None:
    """End the process that maps the files, since what is mapped stays in the cache; it starts again as in a new run."""
    feed = chains._feed
    if feed is not None and feed.reader is not None:
        feed.forget()
        feed.reader.close()
        feed.reader, feed.seconds = None, 0.0


def processor_seconds(chains) -> float:
    """Of this process, and of the one that copies rows for these chains."""
    reader = None if chains._feed is None else chains._feed.reader
    if reader is None:
        return time.process_time()
    user, system = Path(f"/proc/{reader.process.pid}/stat").read_text().rsplit(")", 1)[1].split()[11:13]
    return time.process_time() + (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def unravel(flat):
    return flat


def speed(folder: Path) -> dict:
    """Steps a second of four chains, compiled before, on data in memory and on disk with a warm cache, in turns, then
    with a cold one; and that the draws are the same. What is read ahead counts in the turn in which it is read. Small
    data are read into memory when a run starts; how long that takes is measured first, and not done after that."""
    import jax
    import jax.numpy as jnp

    import isotherm
    from isotherm.data.on_disk import open_data
    from isotherm.data.on_disk.open_data import on_disk
    from isotherm.run.assemble import RunSettings, assemble
    from isotherm.run.chains import Chains
    from isotherm.run.execute import one_lapack_thread
    from isotherm.run.plan import Plan

    disk, found = opened(folder), {}
    for cache, prepare in (("warm", sequential), ("cold", drop_from_cache)):
        prepare(folder)
        began = time.perf_counter()
        read = open_data.open_columns(disk)
        if on_disk(read):
            found[f"read into memory, {cache} cache"] = "too large beside the memory that is free"
        else:
            found[f"read into memory, {cache} cache, s"] = time.perf_counter() - began
        del read
    open_data.available = lambda: 0  # from here on
    memory = jax.tree.map(np.array, disk)
    anchored = isotherm.anchor(model(), memory, jnp.zeros(COLUMNS), progress=False)
    found["anchored batch_size"] = anchored.chosen_batch_size
    settings = {"replace": True, "chains": 4, "seed": 0, "name": None}
    for name, posterior, sampler, size in (
        ("anchored eccadl", anchored, isotherm.eccadl(), None),
        ("plain sgnht", model(), isotherm.sgnht(1e-5), 500),
    ):
        places = {"memory": memory, "disk, warm": disk, "disk, cold": disk}
        runs = [
            assemble(posterior, sampler, data, jnp.zeros(COLUMNS), RunSettings(batch_size=size, **settings))
            for data in places.values()
        ]
        chains = [Chains(run) for run in runs]
        plan, seconds, used = Plan(WARM_UP + STEPS, 0, 1), np.zeros(3), np.zeros(3)
        firsts, draws = range(WARM_UP, WARM_UP + STEPS, AT_ONCE), {}
        with one_lapack_thread():
            for each in chains:
                each.advance(plan, 0, WARM_UP)
            # What a process maps stays in the cache, so a cold one comes when it has let go.
            for which, first in [*((which, first) for first in firsts for which in (0, 1)), *((2, f) for f in firsts)]:
                each = chains[which]
                if which == 2:
                    for other in chains:
                        let_go(other)
                (drop_from_cache if which == 2 else sequential)(folder)
                began, before = time.perf_counter(), processor_seconds(each)
                found_draws = each.advance(plan, first, first + AT_ONCE)["position"]
                if each._feed is not None and each._feed.next is not None:
                    each._feed.next[1].exception()  # wait for it
                seconds[which] += time.perf_counter() - began
                used[which] += processor_seconds(each) - before
                assert np.array_equal(draws.setdefault(first, found_draws), found_draws)
        for each in chains:
            each.close()
        for place, wall, processor in zip(places, STEPS / seconds, STEPS / used, strict=True):
            found[f"{name}, {place}"] = {"steps/s": wall, "steps/s of processor time": processor}
    return found


PARTS = {"write": write, "fit": fit, "anchoring": anchoring, "speed": speed}


def in_a_process(part: str, folder: Path, *more: str) -> dict:
    command = [sys.executable, __file__, str(folder), "--part", part, *more]
    cache = {"JAX_COMPILATION_CACHE_DIR": str(folder.parent / "compiled")}
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=os.environ | cache)
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--gigabytes", type=float, default=26)
    parser.add_argument("--fitting", type=float, default=2)
    parser.add_argument("--part", choices=PARTS, help="one part alone, on data that are there")
    asked = parser.parse_args()
    if asked.part:
        print(
            json.dumps(
                write(asked.folder, asked.gigabytes) if asked.part == "write" else PARTS[asked.part](asked.folder)
            )
        )
        return
    asked.folder.mkdir(parents=True, exist_ok=True)
    for name, size, parts in (("small", asked.fitting, ("speed",)), ("large", asked.gigabytes, ("anchoring", "fit"))):
        folder = asked.folder / name
        if 1.1 * size * 1e9 > shutil.disk_usage(asked.folder).free:
            sys.exit(f"{asked.folder} has no room for {size} GB")
        try:
            in_a_process("write", folder, "--gigabytes", str(size))
            for part in parts:
                print(f"{part}, {size:g} GB")
                for key, value in in_a_process(part, folder).items():
                    print(f"  {key:32} {value if not isinstance(value, float) else round(value, 3)}", flush=True)
        finally:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
