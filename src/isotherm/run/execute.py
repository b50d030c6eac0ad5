"""A run from a step to its end: chunk after chunk of the compiled loop, each shown to the recorder and to watchers.
Where chunks end changes nothing (`loop.py`), so their length goes by the clock."""

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import FrameType
from typing import NamedTuple

import numpy as np

from isotherm.data import processes
from isotherm.data.on_disk.column import DataError
from isotherm.diagnostics.constant_noise import NoiseChange
from isotherm.diagnostics.convergence import FEWEST_DRAWS, Convergence, convergence
from isotherm.diagnostics.verdict import VerdictWarning, doubts, shortfall
from isotherm.lib.progress import progress_bar
from isotherm.lib.types import Draws, Results
from isotherm.lib.warn import warn
from isotherm.run.assemble import Run
from isotherm.run.chains import Chains, Snapshot
from isotherm.run.loop import Carry
from isotherm.run.plan import Goal, Plan
from isotherm.run.recorder import Recorder
from isotherm.samplers.settings import traits_of
from isotherm.targets.noisy import DENSE_PARAMETERS

CHUNK_SECONDS = 0.25  # the length of a chunk: how often the host looks for signals and shows progress
FIRST_CHUNK = 4  # steps, from whose time the length of the next chunk is guessed
NOISE_STEPS = 2000  # after burn-in: a shorter run says too little of the noise
CHUNK_GROWTH = 8  # bound on the next chunk's length relative to the last: a first chunk on a cold cache says little


def make_chains(run: Run, carry: Carry | None = None, like: Chains | None = None) -> Chains:
    """Return the chains of a run, on one device or on several."""
    if run.shards is None:
        return Chains(run, carry, like)
    from isotherm.run.on_devices import SpreadChains

    return SpreadChains(run, carry, like)


class Chunk(NamedTuple):
    """What a call of the compiled loop did."""

    step: int  # at which it ended
    plan: Plan  # which it followed
    first_draw: int  # the number of the first draw that it completed
    draws: Draws  # those that it completed
    first_bad_steps: np.ndarray  # of each chain; −1: none
    speed: float  # steps a second
    temperature: float | None  # kinetic, of samplers that have one


def execute(
    chains: Chains,
    plan: Plan,
    step: int,
    seconds: float,
    recorder: Recorder,
    progress: bool,
    goal: Goal | None = None,
    judged: bool = True,
) -> Results:
    """Run from `step`, `seconds` into the run, until the plan ends, the goal is met or a signal arrives; return the
    recorder's results. Unless `judged`, there is no verdict on the draws."""
    schedule, outside = Schedule(plan, goal, recorder), DrawsOutsidePrior()
    noise = NoiseChange() if noise_matters(chains.run, plan) else None
    bar = StepBar(plan.steps, step) if progress and processes.is_first() else None
    shown = nullcontext() if bar is None else bar.progress
    with interruptible(and_terminated=recorder.keeps_state) as stop, shown, one_lapack_thread():
        chains.wait_for_compiler()
        chunks = Chunks(chains, schedule, step, seconds, stop)
        try:
            for chunk in chunks:
                recorder.add(chunk.draws, chunk.first_bad_steps)
                outside.see(chunk)
                if noise is not None:
                    noise.add(chunk.first_draw, chunk.draws["position"], chunk.first_bad_steps < 0)
                if bar is not None:
                    bar.see(chunk)
                if recorder.wants_checkpoint():
                    recorder.checkpoint(chunks.snapshot())
        except DataError as fault:
            kept = recorder.rescue(chunks.snapshot(recorder.keeps_state))
            raise DataError(fault.errno, f"{fault.strerror or fault}{kept}") from fault
        tree, doubtful = conclude(chunks, recorder, judged)
    stop.obey()
    lost = chunks.stopped and not recorder.count and not recorder.keeps_state
    sentences = [*ending(chains, schedule.plan, chunks.step, lost), *outside.sentences()]
    # A process that is told to end does not wait for the others.
    if noise is not None and not (chunks.stopped and processes.several()):
        sentences += noise.sentences(chains.run.evaluation, chains.run.data)
    for sentence in sentences:
        warn(sentence)
    for sentence in doubtful:
        warn(sentence, VerdictWarning)
    return tree


def conclude(chunks: "Chunks", recorder: Recorder, judged: bool) -> tuple[Results, list[str]]:
    """Return the results of a run that has ended, and the sentences of the verdict on them."""
    chains, schedule = chunks.chains, chunks.schedule
    any_good = bool((chains.first_bad_steps < 0).any())
    while not any_good and recorder.count < schedule.plan.draws:
        missing = min(chains.slots, schedule.plan.draws - recorder.count)
        recorder.add(chains.nan_draws(missing), chains.first_bad_steps)
    end = chunks.snapshot(recorder.keeps_state)
    tree = recorder.finish(end)
    if not judged or chunks.stopped or not recorder.has_draws:
        return tree, []
    sentences = list(doubts(tree, schedule.missing(tree) if any_good else ""))
    return recorder.annotate(tree, "\n".join(sentences), end) if sentences else tree, sentences


class Schedule:
    """The plan of a run, which is revised until a goal is met, if there is one."""

    def __init__(self, plan: Plan, goal: Goal | None, recorder: Recorder) -> None:
        self.plan, self.goal, self._recorder = plan, goal, recorder
        self._convergence: tuple[int, Convergence] | None = None

    def revise(self, step: int, seconds: float) -> bool:
        """Revise the plan of a run that has come to `step` in these seconds; return whether there is more to do."""
        goal, plan = self.goal, self.plan
        if goal is not None:
            plan = goal.end_burn_in(plan, step, seconds)
            if goal.is_over(seconds):
                plan = plan._replace(steps=step) if self._recorder.count else plan
            elif step >= plan.steps:
                plan = self._extend(goal, plan)
        if plan != self.plan:
            self.plan = plan
            self._recorder.labels.replan(plan)
        return step < plan.steps

    def _extend(self, goal: Goal, plan: Plan) -> Plan:
        """Make the plan longer if the draws are not enough; the first process, which has them all, decides."""
        steps = goal.extend(plan, self.convergence()).steps if processes.is_first() else 0
        return plan._replace(steps=int(processes.gathered(np.array(steps, np.int64))[0]))

    def missing(self, tree: Results) -> str | None:
        """Return in a sentence what the goal lacks, "" if it is met; None if there is no goal."""
        if self.goal is None:
            return None
        found = self.convergence()
        if self.goal.is_met(found):
            return ""
        lacking = shortfall(tree, found, self.goal.ess)
        return f"it stopped with {lacking}; {self.goal.advice(self.plan.steps)}"

    def convergence(self) -> Convergence:
        """Return R-hat and effective draws of the parameters that a goal watches, of chains that have not diverged; no
        effective draws where there are fewer than FEWEST_DRAWS."""
        if self._convergence is None or self._convergence[0] != self._recorder.count:
            draws = self._recorder.watched_draws()
            none = np.zeros(draws.shape[2])
            found = Convergence(none, none, none + np.nan)
            if draws.shape[1] >= FEWEST_DRAWS:
                found = convergence(draws[np.isfinite(draws).all(axis=(1, 2))])
            self._convergence = draws.shape[1], found
        return self._convergence[1]


class Chunks:
    """The chunks of a run until its schedule ends, all chains have diverged or it is stopped; the clock and the length
    of the chunks, on which several processes agree before each."""

    def __init__(self, chains: Chains, schedule: Schedule, step: int, seconds: float, stop: "Stop") -> None:
        self.chains, self.schedule, self.step, self.stopped = chains, schedule, step, False
        self._stop, self._zero = stop, time.perf_counter() - seconds

    @property
    def seconds(self) -> float:
        """The time since the run began, without what lay between a stop and `isotherm.resume`."""
        return time.perf_counter() - self._zero

    def snapshot(self, state: bool = True) -> Snapshot:
        """Return where the run stands, with or without the state of the sampler."""
        return self.chains.snapshot(self.step, self.seconds, state=state)

    def __iter__(self) -> Iterator[Chunk]:
        chains, length = self.chains, FIRST_CHUNK
        while (chains.first_bad_steps < 0).any():
            self.stopped, seconds, length = self._agree(length)
            if self.stopped or not self.schedule.revise(self.step, seconds):
                return
            plan, first = self.schedule.plan, self.step
            # The draw in progress at `first` and slots − 1 more: what the record has room for.
            recordable = plan.burn_in + (plan.completed(first) + chains.slots) * plan.thin
            end, began = min(first + length, plan.steps, recordable, chains.reach(plan, first)), time.perf_counter()
            draws = chains.advance(plan, first, end)
            bad = chains.first_bad_steps
            speed = (end - first) / (time.perf_counter() - began)
            length = max(1, min(CHUNK_GROWTH * length, round(speed * CHUNK_SECONDS)))
            self.step = end if (bad < 0).any() else int(bad.max())
            complete = plan.completed(self.step) - plan.completed(first)
            kept = {name: values[:complete] for name, values in draws.items()}
            yield Chunk(self.step, plan, plan.completed(first), kept, bad, speed, chains.temperature)

    def _agree(self, length: int) -> tuple[bool, float, int]:
        """Return whether any process is to stop; the time and the length of the next chunk as the first has them."""
        now = processes.gathered(np.array([self._stop.is_set(), self.seconds, length], np.float64))
        return bool(now[:, 0].any()), float(now[0, 1]), int(now[0, 2])


class DrawsOutsidePrior:
    """Counts draws where the prior is zero."""

    def __init__(self) -> None:
        self.count = 0

    def see(self, chunk: Chunk) -> None:
        if "log_prior" in chunk.draws:  # not where only some parameters are kept
            self.count += int((~np.isfinite(chunk.draws["log_prior"][:, chunk.first_bad_steps < 0])).sum())

    def sentences(self) -> Iterator[str]:
        if self.count:
            yield (
                f"{self.count} draws lie where log_prior is not finite, and should not be there: a gradient cannot "
                "keep a chain inside a hard bound; sample a transformed parameter instead, such as the logarithm of a "
                "positive one"
            )


def noise_matters(run: Run, plan: Plan) -> bool:
    """Return whether the sampler assumes that S is constant and it can be compared. On an anchored posterior S is small
    beside the curvature, and may change."""
    constant = traits_of(run.sampler).assumes_constant_noise
    small = run.starts.shape[1] <= DENSE_PARAMETERS and plan.steps - plan.burn_in >= NOISE_STEPS
    return constant and small and not run.evaluation.target.curvature_is_identity


class StepBar:
    """Steps a second, kinetic temperature, time left; silent unless standard error is a terminal."""

    def __init__(self, total: int, done: int = 0) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, TimeRemainingColumn

        steps = "{task.description}", BarColumn(), MofNCompleteColumn()
        rates = "{task.fields[speed]} steps/s", "temperature {task.fields[temperature]}"
        self.progress = progress_bar(True, *steps, *rates, TimeRemainingColumn())
        self.task = self.progress.add_task("compiling", total=total, completed=done, speed="–", temperature="–")

    def see(self, chunk: Chunk) -> None:
        self.progress.update(
            self.task,
            total=chunk.plan.steps,
            completed=chunk.step,
            description="burn-in" if chunk.step < chunk.plan.burn_in else "sampling",
            speed=f"{chunk.speed:,.0f}",
            temperature="–" if chunk.temperature is None else f"{chunk.temperature:.3g}",
        )


def one_lapack_thread() -> AbstractContextManager[object]:
    """Limit LAPACK to one thread. Its decompositions are small here: more threads give them nothing and, where the
    machine is busy, wait for each other so long that a step of eCCAdL on MNIST 7/9 took ten times its time."""
    import scipy.linalg  # noqa: F401  # JAX's LAPACK, which must be loaded before it can be limited
    from threadpoolctl import threadpool_limits

    limit: AbstractContextManager[object] = threadpool_limits(1, user_api="blas")
    return limit


class Stop:
    """The signal that asked to stop, if there was one, and the handlers that were there before."""

    def __init__(self) -> None:
        self.signal: int | None = None
        self.handlers_before: dict[int, Callable[[int, FrameType | None], object] | int | None] = {}

    def is_set(self) -> bool:
        return self.signal is not None

    def handle(self, signum: int, frame: FrameType | None) -> None:
        """Note a signal; a second Ctrl-C interrupts at once."""
        if self.is_set() and signum == signal.SIGINT:
            raise KeyboardInterrupt
        self.signal = signum

    def obey(self) -> None:
        """End the process, after all is stored, if a signal asked for that; Ctrl-C asks only for the draws so far."""
        if self.signal is None or self.signal == signal.SIGINT:
            return
        before = self.handlers_before[self.signal]
        if callable(before):
            before(self.signal, None)
        else:
            raise SystemExit(128 + self.signal)


@contextmanager
def interruptible(and_terminated: bool = False) -> Iterator[Stop]:
    """Let Ctrl-C set the stop, so that a loop ends well; SIGTERM and SIGHUP too if `and_terminated`, unless ignored."""
    stop = Stop()
    if threading.current_thread() is threading.main_thread():  # others have no handlers to set
        ending = (signal.SIGTERM, signal.SIGHUP) if and_terminated else ()
        # A handler that Python did not install (None) is left alone, unless there are several processes: it is then
        # JAX's for SIGTERM, which does not stop.
        others = (signal.SIG_IGN,) if processes.several() else (signal.SIG_IGN, None)
        for number in (signal.SIGINT, *(n for n in ending if signal.getsignal(n) not in others)):
            stop.handlers_before[number] = signal.signal(number, stop.handle)
    try:
        yield stop
    finally:
        for signum, before in stop.handlers_before.items():
            signal.signal(signum, signal.SIG_DFL if before is None else before)


def ending(chains: Chains, plan: Plan, step: int, lost: bool) -> Iterator[str]:
    """Yield what the user should know of how a run ended; `lost`: it stopped before its first draw and cannot go on."""
    first_bad = chains.first_bad_steps
    if (bad := np.flatnonzero(first_bad >= 0)).size:
        yield divergence(first_bad, bad, getattr(chains.run.sampler, "step_size", None))
    elif lost:
        yield (
            f"stopped at step {step} of {plan.steps}, before the first draw was complete: burn-in is the first "
            f"{plan.burn_in} steps, so there are no draws; let it run longer, or lower burn_in"
        )


def divergence(first_bad: np.ndarray, bad: np.ndarray, step_size: object) -> str:
    who = f"all {len(first_bad)} chains" if bad.size == len(first_bad) else f"{bad.size} of {len(first_bad)} chains"
    if len(first_bad) == 1:
        who = "the chain"
    which = ", ".join(f"chain {chain} at step {first_bad[chain]}" for chain in bad[:4]) + ", …" * (bad.size > 4)
    if (first_bad[bad] == 1).all():
        return (
            f"{who} diverged ({which}): the first step was not finite, so the gradient at the start may not be; look "
            "at log_likelihood and log_prior there, then use a smaller step_size"
        )
    size = step_size if isinstance(step_size, float) else "now"
    return (
        f"{who} diverged ({which}): use a smaller step_size than {size}, or a sampler that stays stable at large ones, "
        "such as isotherm.mccadl"
    )
