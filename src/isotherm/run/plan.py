"""How long a run goes on, and which of its steps are kept."""

from typing import NamedTuple

from isotherm.data.batches import Batches
from isotherm.lib import arguments

MOST_STEPS = 2**31 - 1  # steps are counted in 32-bit integers


class Plan(NamedTuple):
    """All in steps; fixed when a run starts, unless it has a goal."""

    steps: int
    burn_in: int
    thin: int

    @property
    def draws(self) -> int:
        return self.completed(self.steps)

    def completed(self, step: int) -> int:
        """How many draws are complete after this many steps."""
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
