"""How long a run goes on, and which of its steps are kept: a plan, which a goal makes longer until it is met."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from isotherm.data.batches import Batches
from isotherm.diagnostics.convergence import Convergence
from isotherm.lib import arguments

MOST_STEPS = 2**31 - 1  # steps are counted in 32-bit integers
R_HAT = 1.01  # at most (Vehtari et al. 2021)
DRAWS_GROWTH = (1.25, 4.0)  # bounds on the growth of the number of draws until convergence is computed again
MARGIN = 1.1  # times what is missing if further draws are worth as much as those before
BURN_IN_SHARE = 0.25  # of the seconds, at most
FEWEST = 8  # draws that are kept, however little time or however few steps there may be
WATCHED = 1024  # entries of the parameters that are looked at, if there are more than
WATCH_ALL_UP_TO = 4096


class Plan(NamedTuple):
    """The number of steps, those of burn-in, and steps a draw; fixed when a run starts, unless it has a goal."""

    steps: int
    burn_in: int
    thin: int

    @property
    def draws(self) -> int:
        return self.completed(self.steps)

    def completed(self, step: int) -> int:
        """Return the number of draws that are complete after `step` steps."""
        return max(0, step - self.burn_in) // self.thin

    def extended(self, more: int) -> "Plan":
        return self._replace(steps=arguments.integer("steps", self.steps + more, 1, MOST_STEPS))


def make_plan(steps: int | None, passes: float | None, burn_in: float, thin: int, batches: Batches) -> Plan:
    if (steps is None) == (passes is None):
        raise ValueError(f"give one of steps and passes, got steps={steps!r} and passes={passes!r}")
    if passes is not None:
        steps = max(1, round(arguments.positive("passes", passes) * batches.population / batches.size))
    steps = arguments.integer("steps", steps, 1, MOST_STEPS)
    thin = arguments.integer("thin", thin, 1)
    if not 0 <= arguments.number("burn_in", burn_in) < 1:
        raise ValueError(f"burn_in must be a fraction of the steps, at least 0 and less than 1, got {burn_in!r}")
    plan = Plan(steps, int(burn_in * steps), thin)
    if not plan.draws:
        raise ValueError(
            f"thin={thin} keeps no draw of the {steps - plan.burn_in} steps after burn-in; lower thin or raise steps"
        )
    return plan


class Goal(NamedTuple):
    """So many effective draws of every parameter, in bulk and tails, and R-hat at most 1.01; but no longer than
    `seconds`, if that is given, and no more than `most_steps`."""

    ess: float
    most_steps: int
    seconds: float | None = None

    def extend(self, plan: Plan, found: Convergence) -> Plan:
        """Return a longer plan, if what was found of its draws is not enough and there may be more."""
        most = min(self.most_steps, MOST_STEPS)
        if plan.steps >= most or self.is_met(found):
            return plan
        needed = self.ess / max(float(np.nanmin(found.least_ess, initial=self.ess)), 1)
        if not np.nanmax(found.r_hat, initial=1) <= R_HAT:
            needed = max(needed, DRAWS_GROWTH[0])
        growth = min(max(MARGIN * needed, DRAWS_GROWTH[0]), DRAWS_GROWTH[1])
        return plan._replace(steps=min(most, plan.steps + math.ceil((growth - 1) * plan.draws) * plan.thin))

    def is_met(self, found: Convergence) -> bool:
        """Parameters that never move have no numbers, and are not asked for any."""
        ess = float(np.nanmin(found.least_ess, initial=np.inf))
        return ess >= self.ess and float(np.nanmax(found.r_hat, initial=1)) <= R_HAT

    def advice(self, steps: int) -> str:
        """Return what to do about a run that fell short of it after these steps."""
        if steps >= min(self.most_steps, MOST_STEPS):
            return f"{steps:,} steps are the most that it makes by itself; add some with isotherm.resume(…, steps=…)"
        return "give it more seconds, or go on with isotherm.resume if it has a store"

    def end_burn_in(self, plan: Plan, step: int, seconds: float) -> Plan:
        """End burn-in at this step if it has used its share of the time, and thin so that some draws fit in the rest;
        otherwise return the plan as it is."""
        if self.seconds is None or step >= plan.burn_in or seconds < BURN_IN_SHARE * self.seconds:
            return plan
        left = step * max(0.0, self.seconds / seconds - 1)
        return plan._replace(burn_in=step, thin=max(1, min(plan.thin, int(left / FEWEST))))

    def is_over(self, seconds: float) -> bool:
        """Whether the time is up."""
        return self.seconds is not None and seconds >= self.seconds


def watched(sizes: Sequence[int], most: int = WATCHED, all_up_to: int = WATCH_ALL_UP_TO) -> np.ndarray:
    """Which entries are looked at, of parameters with these many entries one after the other: all, or if there are too
    many, some of each parameter, chosen at random. Small ones are looked at whole: a single scale beside large arrays
    of effects is what most often does not mix."""
    if sum(sizes) <= all_up_to:
        return np.arange(sum(sizes))
    rng, chosen, room = np.random.default_rng(0), [], most
    begins = np.cumsum([0, *sizes])
    for done, i in enumerate(sorted(range(len(sizes)), key=lambda i: sizes[i])):
        here = min(sizes[i], room // (len(sizes) - done))
        chosen.append(begins[i] + rng.choice(sizes[i], here, replace=False))
        room -= here
    return np.sort(np.concatenate(chosen))
