"""Where the chains of a run are and how they get ahead.

Chains that one program advances together are a lane. On a CPU each chain has its own, and as many run at a time as
there are cores, so that a batch stays in its core's cache. Elsewhere one lane holds them all.
"""

import os
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from isotherm import store as stores
from isotherm.loop import Carry, Chains, Plan, advance, observed, start
from isotherm.store import Checkpoint, Draws, Parts

RECORD_BYTES = 2**22  # what a chunk may record on the device
SMALL = 2**19  # n·d up to which a step is faster as one kernel than shared among two cores (benchmarks/kernel.py)


class Lanes:
    """All lanes of a run, at its beginning or where a checkpoint has them.

    The loop is compiled beside what else there is to prepare, once for all lanes, and here rather than in the threads
    that run it, since JAX's settings are those of a thread.
    """

    def __init__(self, parts: Parts, saved: Checkpoint | None = None) -> None:
        what = parts.what
        self.parts, self.chains = parts, divided(parts, parts.chains if jax.default_backend() == "cpu" else 1)
        self.slots = max(2, min(RECORD_BYTES // what.starts.nbytes, 8192))
        self.small = parts.batches.size * what.starts.shape[1] <= SMALL
        self.pool = ThreadPoolExecutor(min(len(self.chains), cores()))
        self.compiling = self.pool.submit(self._lowered(self.small).compile)
        self.carries = list(map(self._start, self.chains)) if saved is None else self._stored(saved)

    def advance(self, plan: Plan, first: int, last: int) -> Draws:
        """The steps from `first` up to `last`, of all lanes; the draws that they complete."""
        program, sampler, data = self.program, self.parts.sampler, self.parts.what.data
        fresh = plan.completed(last) - plan.completed(first)

        def ahead(carry: Carry, chains: Chains) -> tuple[Carry, Draws]:
            carry, record = program(sampler, carry, data, chains, plan, (first, last))
            # Cut on the host: on the device, JAX would compile and keep a program for every length.
            return carry, {name: np.asarray(values)[:fresh] for name, values in record.items()}

        done = list(self.pool.map(ahead, self.carries, self.chains))
        self.carries = [carry for carry, _ in done]
        return {name: np.concatenate([record[name] for _, record in done], axis=1) for name in done[0][1]}

    @cached_property
    def program(self) -> Any:
        """The compiled loop, when it is ready."""
        try:
            return self.compiling.result()
        except jax.errors.JaxRuntimeError:
            if not self.small:
                raise
            return self._lowered(small=False).compile()  # XLA could not make one kernel of this model after all

    def close(self) -> None:
        self.pool.shutdown()

    def joined(self, *, state: bool = True) -> Carry:
        """All chains, with or without their state: a copy on the host, since a step reuses the memory of the last."""
        carries = self.carries if state else [carry._replace(state=None) for carry in self.carries]
        return jax.tree.map(lambda *parts: np.concatenate(parts), *carries)

    def missing(self, draws: int = 0) -> Draws:
        """So many draws that were not made: NaN, with the names and shapes of those that are."""
        fields, chains = observed(self.carries[0].state).items(), self.parts.chains
        return {name: np.full((draws, chains, *v.shape[1:]), np.nan, v.dtype) for name, v in fields}

    @property
    def first_bad_steps(self) -> np.ndarray:
        return np.concatenate([carry.first_bad_step for carry in self.carries])

    @property
    def temperature(self) -> float | None:
        """The kinetic temperature now, of samplers that have one."""
        if not hasattr(self.carries[0].state, "kinetic_temperature"):
            return None
        return float(np.concatenate([carry.state.kinetic_temperature for carry in self.carries]).mean())

    def _start(self, chains: Chains) -> Carry:
        what = self.parts.what
        program = (what.posterior, what.unravel, self.parts.batches)
        return start(self.parts.sampler, what.data, what.starts[chains.numbers], chains, *program)

    def _stored(self, saved: Checkpoint) -> list[Carry]:
        whole = jax.eval_shape(lambda: self._start(divided(self.parts, 1)[0]))
        carry = jax.tree.map(np.asarray, stores.filled(whole, saved, "carry."))
        return [jax.tree.map(lambda x, some=chains.numbers: jnp.asarray(x[some]), carry) for chains in self.chains]

    def _lowered(self, small: bool) -> Any:
        what, chains = self.parts.what, self.chains[0]
        carry = jax.eval_shape(lambda: self._start(chains))
        program = (what.posterior, what.unravel, self.parts.batches, self.slots, small)
        return advance.lower(self.parts.sampler, carry, what.data, chains, Plan(1, 0, 1), (0, 1), *program)


def divided(parts: Parts, lanes: int) -> list[Chains]:
    numbers = np.arange(parts.chains, dtype=np.uint32)
    return [Chains(np.uint32(parts.seed), some) for some in np.array_split(numbers, lanes)]


def cores() -> int:
    """How many this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
