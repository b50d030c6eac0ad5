"""Chains on several devices: one program for all of them, in which each device has some of the chains, some of the rows
of the data, or both (`data/sharded.py`)."""

from collections.abc import Callable, Sequence
from functools import cached_property, partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import PartitionSpec as P
from jax.stages import Compiled, Lowered, Wrapped

from isotherm.data import processes
from isotherm.data.processes import TRACING
from isotherm.data.sharded import CHAINS, ROWS, Shards, replicated
from isotherm.lib.types import Array, Batch, Draws, Int
from isotherm.run.chains import Chains
from isotherm.run.loop import ONE_THREAD, Carry, ChainIds, Record, advance, start
from isotherm.run.plan import Plan

# Devices of one process wait for each other inside a sum, and XLA ends the process if they wait too long: the machine
# may be busy, or asleep.
PATIENCE = {"xla_cpu_collective_call_terminate_timeout_seconds": 10**6}


class SpreadChains(Chains):
    """All chains of a run on the devices of a mesh. Where the chains do not divide evenly, the last is computed more
    than once and counted once."""

    def _arrange(self, like: Chains | None) -> int:
        assert self.run.shards is not None
        self.mesh = self.run.shards.mesh
        places = self.mesh.shape[CHAINS]
        numbers = np.minimum(np.arange(-(-self.run.chains // places) * places), self.run.chains - 1).astype(np.uint32)
        self.ids = ChainIds(np.uint32(self.run.seed), numbers)
        self.evaluation = replicated(self.mesh, self.run.evaluation)
        return 1

    def _initial_carries(self, carry: Carry | None) -> list[Carry]:
        if carry is not None:
            return [jax.tree.map(lambda leaf: np.asarray(leaf)[self.ids.numbers], carry)]
        begin, *arguments = self._start()
        with processes.collective():
            return [begin(*arguments)]

    def advance(self, plan: Plan, first: int, last: int) -> Draws:
        """Make the steps; if a chain diverges, perhaps as a batch had too many rows, repeat them with room for all."""
        before, bad = self._carries, self.first_bad_steps
        draws = self._advanced(self.program, self._data, plan, first, last)
        if isinstance(self._data, Shards) and (self.first_bad_steps != bad).any():
            self._carries = before
            draws = self._advanced(self._roomy, self._data.with_capacity_for_all(), plan, first, last)
        return draws

    def _advanced(self, program: Compiled, data: Batch, plan: Plan, first: int, last: int) -> Draws:
        carry = self._carries[0]
        with processes.collective():
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

    def _lower(self, with_options: bool = True, roomy: bool = False) -> Lowered:
        """Lower one program a device; on a CPU, where a step is small, each is on one thread."""
        run, data = self.run, self._data
        if roomy:
            data = data.with_capacity_for_all()
        options: dict[str, object] = {}
        if with_options and jax.default_backend() == "cpu":
            options = PATIENCE | (ONE_THREAD if self._on_one_thread else {})
        specs = P(), P(CHAINS), self._data_spec, self._ids_spec, P(), P(), P()
        results = P(CHAINS), P(None, CHAINS), P()
        loop = self._over_devices(partial(_advance_here, self.slots), specs, results, **options)
        carry = jax.eval_shape(*self._start())
        return loop.lower(run.sampler, carry, data, self.ids, Plan(1, 0, 1), (0, 1), self.evaluation)

    def _start(self) -> tuple[Wrapped, *tuple[object, ...]]:
        """Return the function that makes the chains at their starts, and its arguments."""
        begin = self._over_devices(start, (P(), self._data_spec, P(CHAINS), self._ids_spec, P()), P(CHAINS))
        return begin, self.run.sampler, self._data, self.run.starts[self.ids.numbers], self.ids, self.evaluation

    def _over_devices(self, function: Callable[..., object], ins: object, outs: object, **options: object) -> Wrapped:
        # What is replicated is so because all devices compute it from the same numbers; `same` checks that they do.
        mapped = jax.shard_map(function, mesh=self.mesh, in_specs=ins, out_specs=outs, check_vma=False)
        return jax.jit(mapped, compiler_options=options or None)


def _advance_here(slots: int, *arguments: object) -> tuple[Carry, Record, Int[Array, ""]]:
    """Make the steps on one device; return also 1 if all that share its chains have the same positions, bit by bit."""
    carry, record = advance(*arguments, slots=slots)
    position = carry.state.position
    bits = jax.lax.bitcast_convert_type(position, jnp.dtype(f"uint{8 * position.dtype.itemsize}"))
    same = (jax.lax.pmax(bits, ROWS) == jax.lax.pmin(bits, ROWS)).all().astype(jnp.int32)
    return carry, record, jax.lax.pmin(same, CHAINS) if jax.lax.axis_size(CHAINS) > 1 else same


def on_host(array: jax.Array | np.ndarray, axis: int = 0) -> np.ndarray:
    """Return an array whose parts along an axis are on several devices, each here at least once."""
    if isinstance(array, np.ndarray) or array.is_fully_addressable:
        return np.asarray(array)
    parts = {shard.index[axis].start or 0 if shard.index else 0: shard.data for shard in array.addressable_shards}
    return np.concatenate([parts[start] for start in sorted(parts)], axis=axis) if array.ndim else np.asarray(parts[0])
