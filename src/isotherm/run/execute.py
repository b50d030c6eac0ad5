"""A run from a step to its end: chunk after chunk of the compiled loop, and the host's work between them.

Between chunks the host draws the progress bar, hands draws to a recorder, and looks for signals and divergence. Where
the chunks end changes nothing (`loop.py`), so it can go by the clock.
"""

import time
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager

import numpy as np

from isotherm.data import processes
from isotherm.data.on_disk import DataError
from isotherm.diagnostics.convergence import FEWEST_DRAWS, Convergence, convergence
from isotherm.lib.progress import progress_bar
from isotherm.lib.types import Results
from isotherm.run.chains import Chains
from isotherm.run.constant_noise import Seen, noise_warning
from isotherm.run.goal import Goal
from isotherm.run.plan import Plan
from isotherm.run.recorder import Recorder
from isotherm.run.signals import interruptible
from isotherm.run.verdict import VerdictWarning, doubts

CHUNK_SECONDS = 0.25  # how often the host looks in
FIRST_CHUNK = 4  # steps, from whose time the length of the next chunk is guessed
GROWTH = 8  # times the last chunk at most: a first chunk on a cold cache says little


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
    """Go on from `step`, `seconds` into the run, to the end or to where it is stopped; the recorder's results. With a
    goal, the plan is made longer until it is met. Unless `judged`, no doubts about the draws are looked for."""
    outside, stopped, looks = 0, False, Looks(recorder)
    bar, seen = Bar(plan.steps, progress and processes.is_first(), step), Seen(chains.run, plan)
    with interruptible(and_terminated=recorder.keeps_state) as stop, bar.progress, one_lapack_thread():
        chains.compiled()
        zero, length = time.perf_counter() - seconds, FIRST_CHUNK
        while (chains.first_bad_steps < 0).any():
            stopped, elapsed, length = agreed_now(stop.is_set(), time.perf_counter() - zero, length)
            if stopped:
                break
            if goal is not None and (hurried := goal.hurried(plan, step, elapsed)) != plan:
                plan = recorder.replanned(hurried)
            if goal is not None and goal.is_over(elapsed) and recorder.count:
                plan = recorder.replanned(plan._replace(steps=step))
            if step >= plan.steps:
                longer = None if goal is None or goal.is_over(elapsed) else extended(goal, plan, looks)
                if longer is None:
                    break
                plan = recorder.replanned(longer)
            # The draw in progress at `step` and slots − 1 more: what the record has room for.
            room = plan.burn_in + (plan.completed(step) + chains.slots) * plan.thin
            try:
                end, began = min(step + length, plan.steps, room, chains.reach(plan, step)), time.perf_counter()
            except DataError as fault:
                kept = recorder.rescued(chains.snapshot(step, time.perf_counter() - zero, state=recorder.keeps_state))
                raise DataError(fault.errno, f"{fault.strerror or fault}{kept}") from fault
            draws = chains.advance(plan, step, end)
            first_bad = chains.first_bad_steps
            reached = end if (first_bad < 0).any() else int(first_bad.max())
            fresh = plan.completed(reached) - plan.completed(step)
            outside += int((~np.isfinite(draws["log_prior"][:, first_bad < 0])).sum())
            recorder.add({name: values[:fresh] for name, values in draws.items()}, first_bad)
            seen.add(plan.completed(step), draws["position"][:fresh])
            speed = (end - step) / (time.perf_counter() - began)
            length = max(1, min(GROWTH * length, round(speed * CHUNK_SECONDS)))
            step = reached
            bar.update(step, plan, speed, chains.temperature)
            if recorder.wants_checkpoint():
                recorder.checkpoint(chains.snapshot(step, time.perf_counter() - zero))
        if (chains.first_bad_steps >= 0).all():
            while recorder.count < plan.draws:
                recorder.add(chains.missing(min(chains.slots, plan.draws - recorder.count)), chains.first_bad_steps)
        count, found, seconds = recorder.count, None, time.perf_counter() - zero
        if goal is not None and recorder.has_draws and not stopped and (chains.first_bad_steps < 0).any():
            found = looks.now()
        end_of_run = chains.snapshot(step, seconds, state=recorder.keeps_state)

        def ending() -> tuple[Results, list[str]]:
            tree = recorder.finish(end_of_run)
            said = list(doubts(tree, goal, found)) if judged and not stopped and recorder.has_draws else []
            return recorder.annotated(tree, "\n".join(said), end_of_run) if said else tree, said

        tree, said = processes.agreed(ending)
    stop.obey()
    lost = stopped and not count and not recorder.keeps_state
    noise = [] if stopped and processes.several() else noise_warning(chains.run, seen, chains.first_bad_steps < 0)
    for message in [*run_warnings(chains, plan, step, lost, outside), *noise]:
        warnings.warn(message, RuntimeWarning, stacklevel=4)  # at the user's call of sample or resume
    for message in said:
        warnings.warn(message, VerdictWarning, stacklevel=4)
    return tree


class Looks:
    """R-hat and effective draws of the parameters that a goal watches, computed once for each number of draws."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder, self.count = recorder, -1

    def now(self) -> Convergence:
        """Without chains that diverged. Of too few draws nothing is known, so they are worth none."""
        if self.count != self.recorder.count:
            draws = self.recorder.watched_draws()
            none = np.zeros(draws.shape[2])
            self.count = draws.shape[1]
            self.found = Convergence(none, none, none + np.nan)
            if self.count >= FEWEST_DRAWS:
                self.found = convergence(draws[np.isfinite(draws).all(axis=(1, 2))])
        return self.found


def agreed_now(stop: bool, seconds: float, length: int) -> tuple[bool, float, int]:
    """Whether to stop, if any process is told to; the time, and the length of the next chunk, by the first's clock."""
    if not processes.several():
        return stop, seconds, length
    now = processes.gathered(np.array([stop, seconds, length], np.float64))
    return bool(now[:, 0].any()), float(now[0, 1]), int(now[0, 2])


def extended(goal: Goal, plan: Plan, looks: Looks) -> Plan | None:
    """A longer plan, if the draws are not enough; the first process, which has them all, decides."""
    longer = goal.extended(plan, looks.now()) if processes.is_first() else None
    steps = int(processes.firsts(np.array(0 if longer is None else longer.steps, np.int64)))
    return plan._replace(steps=steps) if steps else None


class Bar:
    """Steps a second, kinetic temperature, time left; silent unless `show` and standard error is a terminal."""

    def __init__(self, total: int, show: bool, done: int = 0) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn

        self.progress = progress_bar(
            show,
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[speed]} steps/s"),
            TextColumn("temperature {task.fields[temperature]}"),
            TimeRemainingColumn(),
        )
        self.task = self.progress.add_task("compiling", total=total, completed=done, speed="–", temperature="–")

    def update(self, step: int, plan: Plan, speed: float, temperature: float | None) -> None:
        self.progress.update(
            self.task,
            total=plan.steps,
            completed=step,
            description="burn-in" if step < plan.burn_in else "sampling",
            speed=f"{speed:,.0f}",
            temperature="–" if temperature is None else f"{temperature:.3g}",
        )


def one_lapack_thread() -> AbstractContextManager[object]:
    """LAPACK's decompositions are small here: more threads give them nothing and, where the machine is busy, wait for
    each other so long that a step of eCCAdL on MNIST 7/9 took ten times its time."""
    import scipy.linalg  # noqa: F401  # JAX's LAPACK, which must be loaded before it can be limited
    from threadpoolctl import threadpool_limits

    return threadpool_limits(1, user_api="blas")


def run_warnings(chains: Chains, plan: Plan, step: int, lost: bool, outside: int) -> Iterator[str]:
    """What the user should know of how a run ended, a sentence each.

    `lost`: it was stopped before its first draw and cannot go on; `outside`: how many draws the prior does not allow.
    """
    first_bad = chains.first_bad_steps
    if (bad := np.flatnonzero(first_bad >= 0)).size:
        yield divergence(first_bad, bad, getattr(chains.run.sampler, "step_size", None))
    elif lost:
        yield (
            f"stopped at step {step} of {plan.steps}, before the first draw was complete: burn-in is the first "
            f"{plan.burn_in} steps, so there are no draws; let it run longer, or lower burn_in"
        )
    if outside:
        yield (
            f"{outside} draws lie where log_prior is not finite, and should not be there: a gradient cannot keep a "
            "chain inside a hard bound; sample a transformed parameter instead, such as the logarithm of a positive one"
        )


def divergence(first_bad: np.ndarray, bad: np.ndarray, step_size: object) -> str:
    who = f"all {len(first_bad)} chains" if bad.size == len(first_bad) else f"{bad.size} of {len(first_bad)} chains"
    if len(first_bad) == 1:
        who = "the chain"
    which = ", ".join(f"chain {chain} at step {first_bad[chain]}" for chain in bad[:4])
    which += ", …" if bad.size > 4 else ""
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
