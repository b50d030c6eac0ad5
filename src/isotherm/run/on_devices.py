"""Chains on several devices: one program for all of them, in which each device has some of the chains, some of the rows
of the data, or both (`data/sharded.py`)."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import PartitionSpec as P
from jax.stages import Compiled, Lowered

from isotherm.data import processes
from isotherm.data.processes import TRACING
from isotherm.data.sharded import CHAINS, ROWS, Shards, replicated
from isotherm.lib.types import Array, Batch, Draws, Int
from isotherm.run.assemble import Run
from isotherm.run.chains import MOST_SLOTS, ONE_THREAD_UP_TO, RECORD_BYTES, Chains
from isotherm.run.loop import ONE_THREAD, Carry, ChainIds, Record, advance, start
from isotherm.run.plan import Plan

# Devices of one process wait for each other inside a sum, and XLA ends the process if they wait too long: the machine
# may be busy, or asleep.
PATIENCE = {"xla_cpu_collective_call_terminate_timeout_seconds": 10**6}


class SpreadChains(Chains):
    """All chains of a run on the devices of a mesh. Where the chains do not divide evenly, the last is computed more
    than once and counted once."""

    def __init__(self, run: Run, carry: Carry | None = None, like: "SpreadChains | None" = None) -> None:
        assert run.shards is not None
        mesh = run.shards.mesh
        self.run, self.mesh = run, mesh
        self.slots = max(2, min(RECORD_BYTES // run.starts.nbytes, MOST_SLOTS))
        places = mesh.shape[CHAINS]
        numbers = np.minimum(np.arange(-(-run.chains // places) * places), run.chains - 1).astype(np.uint32)
        self.ids = ChainIds(np.uint32(run.seed), numbers)
        self.evaluation = replicated(mesh, run.evaluation)
        self._pool = ThreadPoolExecutor(1)
        with TRACING:
            self._compiling = self._pool.submit(self._lower().compile) if like is None else like._compiling
            if carry is None:
                begin, *arguments = self._start()
                carry = begin(*arguments)
            else:
                carry = jax.tree.map(lambda leaf: np.asarray(leaf)[numbers], carry)
            self._carries = [carry]

    def advance(self, plan: Plan, first: int, last: int) -> Draws:
        """If a chain diverges, that may be because a batch had more rows on a device than there was room for: the steps
        are then repeated with room for all."""
        before, bad = self._carries, self.first_bad_steps
        draws = self._advanced(self.program, self._data, plan, first, last)
        if isinstance(self._data, Shards) and (self.first_bad_steps != bad).any():
            self._carries = before
            draws = self._advanced(self._roomy, self._data.with_capacity_for_all(), plan, first, last)
        return draws

    def _advanced(self, program: Compiled, data: Batch, plan: Plan, first: int, last: int) -> Draws:
        carry = self._carries[0]
        with processes.in_touch():
            carry, record, same = program(self.run.sampler, carry, data, self.ids, plan, (first, last), self.evaluation)
            agree, drawn = on_host(same), {name: on_host(values, 1) for name, values in record.items()}
        if not agree:
            raise RuntimeError(
                "the devices that share the rows do not compute the same numbers from the same sums, and their chains "
                "have come apart; use devices and hosts of one kind, with the same versions of jax and jaxlib"
            )
        self._carries = [carry]
        complete = plan.completed(last) - plan.completed(first)
        return {name: values[:complete, : self.run.chains] for name, values in drawn.items()}

    def _lower_without_options(self) -> Lowered:
        return self._lower(with_options=False)

    @cached_property
    def _roomy(self) -> Compiled:
        """The loop with room for every row of a batch on each device."""
        with TRACING:
            return self._lower(roomy=True).compile()

    @property
    def _data(self) -> Batch:
        """The shards, or plain columns where every device has all rows, so that nothing need be summed."""
        shards = self.run.shards
        assert shards is not None
        return shards if self.mesh.shape[ROWS] > 1 else shards.columns

    _data_spec = P(ROWS)
    _ids_spec = ChainIds(P(), P(CHAINS))  # type: ignore[arg-type]

    def _joined(self, parts: Sequence[jax.Array]) -> np.ndarray:
        return on_host(parts[0])[: self.run.chains]

    def _lower(self, roomy: bool = False, with_options: bool = True) -> Lowered:  # type: ignore[override]
        """As one program a device; on a CPU, where a step is small, on one thread each."""
        run, data = self.run, self._data
        if roomy:
            data = data.with_capacity_for_all()
        options: dict[str, Any] = {}
        if with_options and jax.default_backend() == "cpu":
            small = run.batches.size * run.starts.shape[1] <= ONE_THREAD_UP_TO
            options = PATIENCE | (ONE_THREAD if small else {})
        specs = P(), P(CHAINS), self._data_spec, self._ids_spec, P(), P(), P()
        results = P(CHAINS), P(None, CHAINS), P()
        loop = self._over_devices(partial(_advance_here, self.slots), specs, results, options)
        carry = jax.eval_shape(*self._start())
        return loop.lower(run.sampler, carry, data, self.ids, Plan(1, 0, 1), (0, 1), self.evaluation)

    def _start(self) -> tuple[Any, ...]:
        """The function that makes the chains at their starts, and its arguments."""
        begin = self._over_devices(start, (P(), self._data_spec, P(CHAINS), self._ids_spec, P()), P(CHAINS))
        return begin, self.run.sampler, self._data, self.run.starts[self.ids.numbers], self.ids, self.evaluation

    def _over_devices(self, function: Any, in_specs: Any, out_specs: Any, options: Any = None) -> jax.stages.Wrapped:
        # What is replicated is so because all devices compute it from the same numbers; `same` checks that they do.
        mapped = jax.shard_map(function, mesh=self.mesh, in_specs=in_specs, out_specs=out_specs, check_vma=False)
        return jax.jit(mapped, compiler_options=options)


def _advance_here(slots: int, *arguments: Any) -> tuple[Carry, Record, Int[Array, ""]]:
    """The steps on one device, and 1 if all that share its chains have come to the same positions, bit by bit."""
    carry, record = advance(*arguments, slots=slots)
    position = carry.state.position
    bits = jax.lax.bitcast_convert_type(position, jnp.dtype(f"uint{8 * position.dtype.itemsize}"))
    same = (jax.lax.pmax(bits, ROWS) == jax.lax.pmin(bits, ROWS)).all().astype(jnp.int32)
    return carry, record, jax.lax.pmin(same, CHAINS) if jax.lax.axis_size(CHAINS) > 1 else same


def on_host(array: jax.Array | np.ndarray, axis: int = 0) -> np.ndarray:
    """An array whose parts along an axis are on several devices, each here at least once."""
    if isinstance(array, np.ndarray) or array.is_fully_addressable:
        return np.asarray(array)
    parts = {shard.index[axis].start or 0 if shard.index else 0: shard.data for shard in array.addressable_shards}
    return np.concatenate([parts[start] for start in sorted(parts)], axis=axis) if array.ndim else np.asarray(parts[0])


def make_chains(run: Run, carry: Carry | None = None, like: Chains | None = None) -> Chains:
    """The chains of a run, on one device or on several."""
    if run.shards is None:
        return Chains(run, carry, like)
    assert like is None or isinstance(like, SpreadChains)
    return SpreadChains(run, carry, like)
