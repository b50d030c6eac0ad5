"""When a run that goes on until it is good enough is good enough."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from isotherm.diagnostics.convergence import Convergence
from isotherm.run.plan import MOST_STEPS, Plan

R_HAT = 1.01  # at most (Vehtari et al. 2021)
GROWTH = (1.25, 4.0)  # of the number of draws, at least and at most, before the next look at convergence
MARGIN = 1.1  # times what is missing if further draws are worth as much as those before
BURN_IN_SHARE = 0.25  # of the seconds, at most
FEWEST = 8  # draws that are kept, however little time or however few steps there may be
WATCHED = 1024  # entries of the parameters that are looked at, if there are more than
WATCH_ALL_UP_TO = 4096


class Goal(NamedTuple):
    """So many effective draws of every parameter, in bulk and tails, and R-hat at most 1.01; but no longer than
    `seconds`, if that is given, and no more than `most_steps`."""

    ess: float
    most_steps: int
    seconds: float | None = None

    def extended(self, plan: Plan, found: Convergence) -> Plan | None:
        """A longer plan, if what was found of its draws is not enough and there may be more."""
        most = min(self.most_steps, MOST_STEPS)
        if plan.steps >= most or self.is_met(found):
            return None
        missing = self.ess / max(float(np.nanmin(found.least_ess, initial=self.ess)), 1)
        if not np.nanmax(found.r_hat, initial=1) <= R_HAT:
            missing = max(missing, GROWTH[0])
        growth = min(max(MARGIN * missing, GROWTH[0]), GROWTH[1])
        return plan._replace(steps=min(most, plan.steps + math.ceil((growth - 1) * plan.draws) * plan.thin))

    def is_met(self, found: Convergence) -> bool:
        """Parameters that never move have no numbers, and are not asked for any."""
        ess = float(np.nanmin(found.least_ess, initial=np.inf))
        return ess >= self.ess and float(np.nanmax(found.r_hat, initial=1)) <= R_HAT

    def advice(self, steps: int) -> str:
        """What to do about a run that fell short of it after so many steps."""
        if steps >= min(self.most_steps, MOST_STEPS):
            return f"{steps:,} steps are the most that it makes by itself; add some with isotherm.resume(…, steps=…)"
        return "give it more seconds, or go on with isotherm.resume if it has a store"

    def hurried(self, plan: Plan, step: int, seconds: float) -> Plan:
        """Where burn-in has had its share of the time: a plan in which it ends at this step, `seconds` into the run,
        and in what is left of the time some draws are completed."""
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
