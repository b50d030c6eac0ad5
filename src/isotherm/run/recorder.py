"""What becomes of a run's draws: kept in memory, or written to a store as they come; in the end an `xarray.DataTree` in
ArviZ's schema, labelled, with attributes saying how it was made."""

import dataclasses
import queue
import threading
import time
from collections.abc import Callable
from functools import cached_property, partial
from pathlib import Path

import jax
import numpy as np

from isotherm.data import processes
from isotherm.diagnostics.convergence import watched
from isotherm.lib.files import StoreError
from isotherm.lib.types import Draws, Json, Results
from isotherm.lib.version import __version__
from isotherm.run.assemble import Run
from isotherm.run.chains import Snapshot
from isotherm.run.plan import Plan
from isotherm.samplers import settings
from isotherm.store import arrays, checkpoint
from isotherm.store.checkpoint import HIDDEN, SAMPLER, slots
from isotherm.store.identity import Header
from isotherm.targets.parameters import variable_names

LIBRARY = {"inference_library": "isotherm", "inference_library_version": __version__}
CHECKPOINT_SECONDS = 10.0  # between checkpoints: the most that is lost when the process is killed
CHECKPOINT_SHARE = 0.02  # bound on the share of a run's time that it waits to hand checkpoints to the thread


class Labels:
    """Names, coordinates and attributes for the arrays of a run."""

    def __init__(self, run: Run, plan: Plan) -> None:
        flat = jax.ShapeDtypeStruct(run.starts.shape[1:], run.starts.dtype)
        params = jax.eval_shape(run.evaluation.target.unravel, flat)
        self.names, self.all_leaves = variable_names(params), jax.tree.leaves(params)
        self.kept = kept_rows(self.all_leaves, run.evaluation.target.kept)
        both = zip(self.kept, self.all_leaves, strict=True)
        shapes = [leaf.shape and (len(rows), *leaf.shape[1:]) for rows, leaf in both]
        self.leaves = [jax.ShapeDtypeStruct(s, leaf.dtype) for s, leaf in zip(shapes, self.all_leaves, strict=True)]
        self.attributes: Json = {
            **settings.attributes(run.sampler),
            "batch_size": run.batches.size,
            "population": run.batches.population,
            "replace": int(run.batches.replace),
            "chains": run.chains,
            "seed": run.seed,
            **({} if run.name is None else {"name": run.name}),
            **run.notes,
        }
        self.replan(plan)

    def replan(self, plan: Plan) -> None:
        self.plan = plan
        self.attributes |= plan._asdict()

    def draws(self, draws: Draws, first: int, first_bad_step: np.ndarray) -> Results:
        """Return `posterior` and `sample_stats` by chain and draw; `first` is the first draw's number."""
        from arviz_base import from_dict

        by_chain = {name: values.swapaxes(0, 1) for name, values in draws.items()}
        positions = by_chain.pop("position")
        numbers = first + np.arange(positions.shape[1])
        ends = self.plan.burn_in + self.plan.thin * (numbers + 1)
        by_chain["diverging"] = (first_bad_step >= 0)[:, None] & (ends >= first_bad_step[:, None])
        groups = {"posterior": self.variables(positions), "sample_stats": by_chain}
        some = {
            f"{name}_dim_0": rows
            for name, rows, leaf in zip(self.names, self.kept, self.all_leaves, strict=True)
            if leaf.shape and len(rows) < leaf.shape[0]
        }
        tree: Results = from_dict(groups, coords={"draw": numbers} | some, check_conventions=False)
        for group in tree.children.values():
            group.attrs.update(LIBRARY)
        return tree

    def tree(self, draws: Draws, first: int, snapshot: Snapshot) -> Results:
        """Return all groups: the draws, and `posterior_mean` and `posterior_variance` over every step after burn-in."""
        import xarray

        first_bad_step = np.asarray(snapshot.carry.first_bad_step)
        tree = self.draws(draws, first, first_bad_step)
        tree["sample_stats"]["first_bad_step"] = xarray.DataArray(first_bad_step, dims="chain")
        labels = tree["posterior"].dataset
        for name, values in self._moments(snapshot).items():
            named = self.variables(values, self.all_leaves).items()
            arrays = {key: ([dim for dim in labels[key].dims if dim != "draw"], array) for key, array in named}
            sizes = {dim: size for dims, array in arrays.values() for dim, size in zip(dims, array.shape, strict=True)}
            coords = {
                dim: labels.coords[dim] if labels.sizes[dim] == size else np.arange(size) for dim, size in sizes.items()
            }
            tree[name] = xarray.DataTree(xarray.Dataset(arrays, coords))
        unfinished = snapshot.step < self.plan.steps and (first_bad_step < 0).any()
        progress = {"steps_done": snapshot.step, "interrupted": int(unfinished), "sampling_time": snapshot.seconds}
        tree.attrs.update(LIBRARY | self.attributes | progress)
        return tree

    def _moments(self, snapshot: Snapshot) -> dict[str, np.ndarray]:
        """Return mean and variance; NaN for chains that diverged, and for all before the first step after burn-in."""
        moments = snapshot.carry.moments
        mean = np.asarray(moments.reference, np.float64) + np.asarray(moments.mean, np.float64)
        there = (np.asarray(snapshot.carry.first_bad_step) < 0) & (snapshot.step > self.plan.burn_in)
        arrays = {"posterior_mean": mean, "posterior_variance": np.asarray(moments.variance, np.float64)}
        dtype = np.asarray(moments.mean).dtype
        return {name: np.where(there[:, None], values, np.nan).astype(dtype) for name, values in arrays.items()}

    @cached_property
    def watched(self) -> np.ndarray:
        """The entries of a flat position that a goal watches."""
        return watched([leaf.size for leaf in self.leaves])

    def variables(
        self, positions: np.ndarray, leaves: list[jax.ShapeDtypeStruct] | None = None
    ) -> dict[str, np.ndarray]:
        """Return flat positions (…, d) as the named arrays of the parameters that are kept, or of `leaves`."""
        leaves = leaves or self.leaves
        parts = np.split(positions, np.cumsum([leaf.size for leaf in leaves])[:-1], axis=-1)
        named, lead = zip(self.names, leaves, parts, strict=True), positions.shape[:-1]
        return {name: part.reshape(*lead, *leaf.shape).astype(leaf.dtype) for name, leaf, part in named}


def kept_rows(leaves: list[jax.ShapeDtypeStruct], entries: jax.Array | None) -> list[np.ndarray]:
    """Return for each array of the parameters the rows whose draws are kept: all, or those of the `entries`."""
    lengths = [leaf.shape[0] if leaf.shape else 1 for leaf in leaves]
    if entries is None:
        return [np.arange(length) for length in lengths]
    ends = np.cumsum([leaf.size for leaf in leaves])
    parts = np.split(np.asarray(entries), np.searchsorted(entries, ends[:-1]))
    widths = [max(1, leaf.size // length) for leaf, length in zip(leaves, lengths, strict=True)]
    each = zip(parts, ends, leaves, widths, strict=True)
    return [(part - end + leaf.size)[::width] // width for part, end, leaf, width in each]


class Recorder:
    """Keeps draws in memory and makes the results in the end. `draws` are those to begin with, which may be none."""

    keeps_state = False  # whether its snapshots need the samplers' state, so that another process can go on
    has_draws = True  # whether its results have the draws in them

    def __init__(self, labels: Labels, draws: Draws) -> None:
        import arviz_base  # noqa: F401  # needed in the end, and now there is time: the loop is being compiled

        self.labels, self.parts = labels, [draws]

    def watched_draws(self) -> np.ndarray:
        """Return the draws so far by (chain, draw, parameter), of the parameters that a goal watches."""
        return self.joined()["position"][..., self.labels.watched].swapaxes(0, 1)

    @property
    def count(self) -> int:
        """The number of draws so far."""
        return sum(len(part["position"]) for part in self.parts)

    def add(self, draws: Draws, first_bad_step: np.ndarray) -> None:
        """Keep draws that follow those so far; `first_bad_step` is of each chain (−1: none)."""
        self.parts.append(draws)

    def joined(self) -> Draws:
        """Return all parts as one."""
        if len(self.parts) > 1:
            self.parts = [{name: np.concatenate([part[name] for part in self.parts]) for name in self.parts[0]}]
        return self.parts[0]

    def wants_checkpoint(self) -> bool:
        return False

    def checkpoint(self, snapshot: Snapshot) -> None:
        """Store where the run stands; here nothing outlives the process."""

    def rescue(self, snapshot: Snapshot) -> str:
        """Store a run that cannot go on; return what is kept of it, for the end of a sentence that says why."""
        return ""

    def finish(self, snapshot: Snapshot) -> Results:
        """Return the labelled results of a run that ends here."""
        return self.labels.tree(self.joined(), 0, snapshot)

    def annotate(self, tree: Results, warnings: str, snapshot: Snapshot) -> Results:
        """Return the results with these warnings among their attributes."""
        tree.attrs["warnings"] = warnings
        return tree


class StoreRecorder(Recorder):
    """Has a thread write draws in chunks and state in checkpoints, in order, and forgets them. `header` says what the
    run is and where it stands; `tail` are the draws in no chunk yet. Of several processes the first writes."""

    keeps_state = True

    def __init__(self, path: Path, run: Run, header: Header, tail: Draws) -> None:
        super().__init__(Labels(run, Plan(**header.plan)), tail)
        self.has_draws = processes.is_first()
        watches = self.has_draws and header.goal
        self.watched_parts = stored_watched_draws(path, header, self.labels) if watches else None  # of whole chunks
        self.path, self.header, self.digests = path, header, dict(header.digests)
        self.sampler_arrays = {SAMPLER + name: array for name, array in settings.encode(run.sampler, 0)[1].items()}
        self.chunk, self.whole_chunks, self.serial = header.chunk, header.draws // header.chunk, header.serial + 1
        self.safe_step = None if header.serial < 0 else header.step
        self.last, self.cost = time.monotonic(), 0.0
        self.writer = Writer() if self.has_draws else None

    @property
    def count(self) -> int:
        return self.whole_chunks * self.chunk + super().count

    def add(self, draws: Draws, first_bad_step: np.ndarray) -> None:
        """Keep draws until there is a whole chunk, which goes to disk."""
        super().add(draws, first_bad_step)
        while super().count >= self.chunk:
            block, rest = cut(self.joined(), self.chunk)
            self.put(self.write_chunk, block, self.whole_chunks, first_bad_step)
            if self.watched_parts is not None:
                self.watched_parts.append(block["position"][..., self.labels.watched])
            self.parts, self.whole_chunks = [rest], self.whole_chunks + 1

    def watched_draws(self) -> np.ndarray:
        parts = [part.swapaxes(0, 1) for part in self.watched_parts or []]
        return np.concatenate([*parts, super().watched_draws()], axis=1)

    def wants_checkpoint(self) -> bool:
        return self.has_draws and time.monotonic() - self.last >= max(CHECKPOINT_SECONDS, self.cost / CHECKPOINT_SHARE)

    def checkpoint(self, snapshot: Snapshot) -> None:
        began = time.monotonic()
        self.put(self.write_checkpoint, snapshot, self.joined(), self.whole_chunks, self.serial)
        self.serial += 1
        self.last = time.monotonic()
        self.cost = self.last - began

    def rescue(self, snapshot: Snapshot) -> str:
        if not self.has_draws:
            return ""
        self.finish(snapshot)
        return f"; {self.safe()}"

    def safe(self) -> str:
        """Return in words how much of the run is stored, and how to go on."""
        kept = "no checkpoint was written" if self.safe_step is None else f"the run is safe up to step {self.safe_step}"
        return f"{kept}: put that right, then go on with isotherm.resume({str(self.path)!r}, …)"

    def finish(self, snapshot: Snapshot) -> Results:
        """Write a last checkpoint; return the results, which are read from disk when used, if they can be seen."""
        self.checkpoint(snapshot)
        self.close()
        if self.writer is not None:
            self.writer.check()
        elif not (self.path / HIDDEN).is_dir():
            return self.labels.tree(cut(self.joined(), 0)[0], 0, snapshot)
        return arrays.open_results(self.path)

    def annotate(self, tree: Results, warnings: str, snapshot: Snapshot) -> Results:
        self.labels.attributes["warnings"] = warnings
        self.guarded(self.write_checkpoint, snapshot, self.joined(), self.whole_chunks, self.serial)
        return arrays.open_results(self.path)

    def close(self) -> None:
        if self.writer is not None:
            self.writer.close()

    def put(self, write: Callable[..., None], *what: object) -> None:
        if self.writer is not None:
            self.writer.put(partial(self.guarded, write, *what))

    def guarded(self, write: Callable[..., None], *what: object) -> None:
        try:
            write(*what)
        except StoreError as error:
            raise StoreError(error.errno, f"{error}; {self.safe()}") from error

    def write_chunk(self, block: Draws, number: int, first_bad_step: np.ndarray) -> None:
        tree = self.labels.draws(block, number * self.chunk, first_bad_step)
        self.digests |= arrays.write_chunk(self.path, tree, number, self.chunk)

    def write_checkpoint(self, snapshot: Snapshot, tail: Draws, whole_chunks: int, serial: int) -> None:
        first = whole_chunks * self.chunk
        draws = first + len(tail["position"])
        header = dataclasses.replace(self.header, plan=self.labels.plan._asdict(), serial=serial, digests=self.digests)
        header = dataclasses.replace(header, step=snapshot.step, seconds=snapshot.seconds, draws=draws)
        carry = {"carry." + name: leaf for name, leaf in named_arrays(snapshot.carry)}
        content = {**self.sampler_arrays, **carry, **{"tail." + name: values for name, values in tail.items()}}
        checkpoint.write(slots(self.path)[serial % 2], header.to_json(), content)
        self.safe_step = snapshot.step
        arrays.write_rest(self.path, self.labels.tree(tail, first, snapshot), whole_chunks, self.chunk)


class Writer:
    """A thread that does one job after the other, until one fails; who hands over the next job gets the failure. Up to
    `waiting` jobs wait; handing over one more waits too, so that a slow disk costs time, not memory."""

    def __init__(self, waiting: int = 2) -> None:
        self.jobs: queue.Queue[Callable[[], None] | None] = queue.Queue(waiting)
        self.failure: BaseException | None = None
        self.thread = threading.Thread(target=self.work, name="isotherm-store", daemon=True)
        self.thread.start()

    def work(self) -> None:
        while (job := self.jobs.get()) is not None:
            try:
                if self.failure is None:
                    job()
            except BaseException as error:
                self.failure = error

    def put(self, job: Callable[[], None]) -> None:
        self.jobs.put(job)
        self.check()

    def check(self) -> None:
        if self.failure is not None:
            raise self.failure

    def close(self) -> None:
        """Finish all jobs that were handed over."""
        if self.thread.is_alive():
            self.jobs.put(None)
            self.thread.join()


def named_arrays(tree: object) -> list[tuple[str, np.ndarray]]:
    """Return the arrays of a tree with the paths to them."""
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return [(jax.tree_util.keystr(path, simple=True, separator="."), leaf) for path, leaf in leaves]


def stored_watched_draws(path: Path, header: Header, labels: Labels) -> list[np.ndarray]:
    """Read the parameters that a goal watches, of the draws in whole chunks, by (draw, chain, parameter)."""
    whole = header.draws // header.chunk * header.chunk
    if not whole:
        return []
    stored = arrays.open_results(path)["posterior"].to_dataset()
    parts = [stored[name].values[:, :whole] for name in labels.names]
    positions = np.concatenate([part.reshape(*part.shape[:2], -1) for part in parts], axis=2)
    return [positions[..., labels.watched].swapaxes(0, 1)]


def cut(draws: Draws, at: int) -> tuple[Draws, Draws]:
    return {name: values[:at] for name, values in draws.items()}, {name: values[at:] for name, values in draws.items()}
