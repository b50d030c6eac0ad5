"""How long a run goes on, and which of its steps are kept: a plan, which a goal makes longer until it is met."""

import math
from typing import NamedTuple

import numpy as np

from isotherm.data.batches import Batches
from isotherm.diagnostics.convergence import R_HAT, Convergence
from isotherm.lib import arguments

STEP_LIMIT = 2**31 - 1  # steps are counted in 32-bit integers
DRAWS_GROWTH = (1.25, 4.0)  # bounds on the growth of the number of draws until convergence is computed again
GROWTH_MARGIN = 1.1  # times what is missing if further draws are worth as much as those before
BURN_IN_SHARE = 0.25  # bound on burn-in's share of the seconds
KEPT_DRAWS = 8  # fewest draws that a plan keeps when time or steps are short


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
        return self._replace(steps=arguments.integer("steps", self.steps + more, 1, STEP_LIMIT))


def make_plan(steps: int | None, passes: float | None, burn_in: float, thin: int, batches: Batches) -> Plan:
    if (steps is None) == (passes is None):
        raise ValueError(f"give one of steps and passes, got steps={steps!r} and passes={passes!r}")
    if passes is not None:
        steps = max(1, round(arguments.positive("passes", passes) * batches.population / batches.size))
    steps = arguments.integer("steps", steps, 1, STEP_LIMIT)
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
    """When to stop: every parameter has `ess` effective draws in bulk and tails and R-hat up to 1.01, or `seconds` or
    `most_steps` are over."""

    ess: float
    most_steps: int
    seconds: float | None = None

    def extend(self, plan: Plan, found: Convergence) -> Plan:
        """Return a longer plan, if what was found of its draws is not enough and there may be more."""
        most = min(self.most_steps, STEP_LIMIT)
        if plan.steps >= most or self.is_met(found):
            return plan
        needed = self.ess / max(float(np.nanmin(found.least_ess, initial=self.ess)), 1)
        if not np.nanmax(found.r_hat, initial=1) <= R_HAT:
            needed = max(needed, DRAWS_GROWTH[0])
        growth = min(max(GROWTH_MARGIN * needed, DRAWS_GROWTH[0]), DRAWS_GROWTH[1])
        return plan._replace(steps=min(most, plan.steps + math.ceil((growth - 1) * plan.draws) * plan.thin))

    def is_met(self, found: Convergence) -> bool:
        """Return whether the goal is reached; parameters that never move have no numbers and do not count."""
        ess = float(np.nanmin(found.least_ess, initial=np.inf))
        return ess >= self.ess and float(np.nanmax(found.r_hat, initial=1)) <= R_HAT

    def advice(self, steps: int) -> str:
        """Return what to do about a run that fell short of it after these steps."""
        if steps >= min(self.most_steps, STEP_LIMIT):
            return f"{steps:,} steps are the most that it makes by itself; add some with isotherm.resume(…, steps=…)"
        return "give it more seconds, or go on with isotherm.resume if it has a store"

    def end_burn_in(self, plan: Plan, step: int, seconds: float) -> Plan:
        """Return a plan that ends burn-in here, if its share of the time is used, and thins so that some draws fit."""
        if self.seconds is None or step >= plan.burn_in or seconds < BURN_IN_SHARE * self.seconds:
            return plan
        left = step * max(0.0, self.seconds / seconds - 1)
        return plan._replace(burn_in=step, thin=max(1, min(plan.thin, int(left / KEPT_DRAWS))))

    def is_over(self, seconds: float) -> bool:
        """Return whether the time is up."""
        return self.seconds is not None and seconds >= self.seconds
