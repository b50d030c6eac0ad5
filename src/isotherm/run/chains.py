"""The chains of a run and how they advance.

On a CPU each chain is a group of its own, and as many groups run at a time as there are cores, so that a batch stays in
its core's cache. Elsewhere one group holds all chains, and one program advances them together.
"""

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cached_property
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.stages import Compiled, Lowered

from isotherm.data.on_disk.open_data import on_disk, shapes
from isotherm.data.processes import TRACING, cores
from isotherm.lib.types import Batch, Draws
from isotherm.run.assemble import Run
from isotherm.run.loop import Carry, ChainIds, advance, advance_on_one_thread, observables, start
from isotherm.run.plan import Plan
from isotherm.run.prefetch import Feed

RECORD_BYTES = 2**22  # what a call of the loop may record on the device
RECORD_DRAWS = 8192  # bound on the draws in it: a quarter of a second's worth on the smallest models
ONE_THREAD_UP_TO = 2**19  # n·d up to which a step is faster on one thread than shared among two (benchmarks/threads.py)


class Snapshot(NamedTuple):
    """Where a run stands between two steps: a copy on the host, which later steps do not change."""

    carry: Carry
    step: int
    seconds: float


class Chains:
    """All chains of a run, at its beginning or as `carry` has them.

    The loop is compiled in the background, once for all groups, and here rather than in the threads that run it, since
    JAX's settings are per thread. Chains that differ from those of `like` only in their sampler's numbers, or in where
    they are, reuse its program.
    """

    _feed: Feed | None = None  # where the rows come from, if the data are on disk and read as they are needed

    def __init__(self, run: Run, carry: Carry | None = None, like: "Chains | None" = None) -> None:
        self.run, self.slots = run, max(2, min(RECORD_BYTES // run.starts.nbytes, RECORD_DRAWS))
        with TRACING:
            self._pool = ThreadPoolExecutor(self._arrange(like))
            compiling = self._pool.submit(self._lower().compile) if like is None else like._compiling
            self._compiling: Future[Compiled] = compiling
            self._carries = self._initial_carries(carry)

    def _arrange(self, like: "Chains | None") -> int:
        """Put the chains into groups; return how many of these run at a time."""
        self.groups = chain_groups(self.run, self.run.chains if jax.default_backend() == "cpu" else 1)
        if on_disk(self.run.data):
            self._feed = Feed(self.run, self.groups, None if like is None else like._feed)
            self.slots = max(2, min(self.slots, self._feed.programs.steps))  # a call touches no more draws
        return min(len(self.groups), cores())

    def _initial_carries(self, carry: Carry | None) -> list[Carry]:
        """Return the chains of each group where they start, or as `carry` has them."""
        if carry is not None:
            return [jax.tree.map(lambda x, ids=ids: jnp.asarray(x[ids.numbers]), carry) for ids in self.groups]
        feed = self._feed
        run, data = self.run, [self.run.data if feed is None else feed.start(ids) for ids in self.groups]
        parts = zip(data, self.groups, strict=True)
        return [start(run.sampler, each, run.starts[ids.numbers], ids, run.evaluation) for each, ids in parts]

    def reach(self, plan: Plan, step: int) -> int:
        """Return how far one can go with the rows in memory, waiting for some if need be; DataError if that fails."""
        return plan.steps if self._feed is None else self._feed.at(step, plan.steps).last

    def advance(self, plan: Plan, first: int, last: int) -> Draws:
        """Make the steps from `first` up to `last` of all chains; return the draws that they complete."""
        parts = list[Draws]()
        while first < last or not parts:
            end = min(last, self.reach(plan, first))
            parts.append(self._advance(plan, first, end))
            first = end
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]} if parts[1:] else parts[0]

    def _advance(self, plan: Plan, first: int, last: int) -> Draws:
        program, run = self.program, self.run
        data = [run.data] * len(self.groups) if self._feed is None else self._feed.at(first, plan.steps).blocks
        complete = plan.completed(last) - plan.completed(first)
        x64 = jax.dtypes.canonicalize_dtype(np.int64) == np.int64

        def advance_group(carry: Carry, ids: ChainIds, data: Batch) -> tuple[Carry, Draws]:
            with jax.enable_x64(x64):  # a user's `with jax.enable_x64(True)` holds in the user's thread alone
                carry, record = program(run.sampler, carry, data, ids, plan, (first, last), run.evaluation)
            # Cut on the host: on the device, JAX would compile and keep a program for every length.
            return carry, {name: np.asarray(values)[:complete] for name, values in record.items()}

        advanced = list(self._pool.map(advance_group, self._carries, self.groups, data))
        self._carries = [carry for carry, _ in advanced]
        records = [record for _, record in advanced]
        return {name: np.concatenate([record[name] for record in records], axis=1) for name in records[0]}

    @cached_property
    def program(self) -> Compiled:
        """The compiled loop, when it is ready."""
        try:
            return self._compiling.result()
        except jax.errors.JaxRuntimeError as error:
            if "compile option" not in str(error):
                raise
            return self._lower(with_options=False).compile()  # a version of XLA that does not know one of them

    def wait_for_compiler(self) -> None:
        """Block until compiled, so that compilation is not counted as sampling time."""
        _ = self.program

    def close(self) -> None:
        if self._feed is not None:
            self._feed.close()
        self._pool.shutdown()

    def snapshot(self, step: int, seconds: float, *, state: bool = True) -> Snapshot:
        """Return where the chains are, with or without the state of the sampler."""
        carries = self._carries if state else [carry._replace(state=None) for carry in self._carries]
        return Snapshot(jax.tree.map(lambda *parts: self._joined(parts), *carries), step, seconds)

    def nan_draws(self, draws: int = 0) -> Draws:
        """Return draws that are NaN, with the names and shapes of those that are made."""
        return nan_draws(self.run, self._carries[0], draws)

    @property
    def first_bad_steps(self) -> np.ndarray:
        return self._joined([carry.first_bad_step for carry in self._carries])

    @property
    def temperature(self) -> float | None:
        """The kinetic temperature now, of samplers that have one."""
        if not hasattr(self._carries[0].state, "kinetic_temperature"):
            return None
        return float(self._joined([carry.state.kinetic_temperature for carry in self._carries]).mean())

    def _joined(self, parts: Sequence[jax.Array]) -> np.ndarray:
        """Return the parts of the groups as one array of all chains."""
        return np.concatenate(parts)

    @property
    def _on_one_thread(self) -> bool:
        """Whether a step is faster on one thread than shared among several."""
        small = self.run.batches.size * self.run.starts.shape[1] <= ONE_THREAD_UP_TO
        return jax.default_backend() == "cpu" and small

    def _lower(self, with_options: bool = True) -> Lowered:
        run, ids = self.run, self.groups[0]
        loop = advance_on_one_thread if with_options and self._on_one_thread else advance
        data = run.data if self._feed is None else self._feed.programs.block
        carry = carry_shapes(run, ids)
        return loop.lower(run.sampler, carry, data, ids, Plan(1, 0, 1), (0, 1), run.evaluation, self.slots)


def chain_groups(run: Run, groups: int) -> list[ChainIds]:
    numbers = np.arange(run.chains, dtype=np.uint32)
    return [ChainIds(np.uint32(run.seed), some) for some in np.array_split(numbers, groups)]


def carry_shapes(run: Run, ids: ChainIds) -> Carry:
    """Return the shapes of what these chains of a run are made of."""
    found: Carry = jax.eval_shape(start, run.sampler, shapes(run.data), run.starts[ids.numbers], ids, run.evaluation)
    return found


def nan_draws(run: Run, carry: Carry, draws: int) -> Draws:
    """Return draws that are NaN, with the names and shapes of a record of these chains."""
    shapes = {name: (v.shape[1:], v.dtype) for name, v in observables(carry.state).items()}
    dtype, kept = carry.state.position.dtype, run.evaluation.target.kept
    shapes |= {"log_prior": ((), dtype)} if kept is None else {"position": (kept.shape, dtype)}
    return {name: np.full((draws, run.chains, *shape), np.nan, dtype) for name, (shape, dtype) in shapes.items()}
