"""What becomes of a run's draws: kept in memory, unless a subclass (`run/store_recorder.py`) writes them to disk."""

import numpy as np

from isotherm.lib.types import Draws, Results
from isotherm.run.chains import Snapshot
from isotherm.run.labels import Labels
from isotherm.run.plan import Plan


class Recorder:
    """Gets draws as they are completed, a snapshot when it wants one, and makes the results in the end.

    `draws` are those to begin with; their names and shapes, if there are none.
    """

    keeps_state = False  # whether its snapshots need the samplers' state, so that another process can go on
    has_draws = True  # whether its results have the draws in them

    def __init__(self, labels: Labels, draws: Draws) -> None:
        import arviz_base  # noqa: F401  # needed in the end, and now there is time: the loop is being compiled

        self.labels, self.parts = labels, [draws]

    def replanned(self, plan: Plan) -> Plan:
        """The plan is another one from here on."""
        self.labels.replan(plan)
        return plan

    def watched_draws(self) -> np.ndarray:
        """The draws so far by (chain, draw, parameter), of the parameters that a goal looks at."""
        positions = self.joined()["position"]
        return positions[..., self.labels.watched].swapaxes(0, 1)

    @property
    def count(self) -> int:
        """The draws so far."""
        return sum(len(part["position"]) for part in self.parts)

    def add(self, draws: Draws, first_bad_step: np.ndarray) -> None:
        """Draws that follow those so far, and each chain's first bad step (−1: none)."""
        self.parts.append(draws)

    def joined(self) -> Draws:
        """All parts as one."""
        if len(self.parts) > 1:
            self.parts = [{name: np.concatenate([part[name] for part in self.parts]) for name in self.parts[0]}]
        return self.parts[0]

    def wants_checkpoint(self) -> bool:
        return False

    def checkpoint(self, snapshot: Snapshot) -> None:
        """Keep where the run stands; here nothing outlives the process."""

    def rescued(self, snapshot: Snapshot) -> str:
        """The run cannot go on from here: what is kept of it, for the end of a sentence that says why."""
        return ""

    def finish(self, snapshot: Snapshot) -> Results:
        """The labelled results of a run that ends here."""
        return self.labels.tree(self.joined(), 0, snapshot)

    def annotated(self, tree: Results, warnings: str, snapshot: Snapshot) -> Results:
        """The results, with what was warned of among their attributes."""
        tree.attrs["warnings"] = warnings
        return tree


class Follower(Recorder):
    """The recorder of a process that keeps no draws, since the first of several processes stores them. `draws` has
    names and shapes only, `count` is how many draws there are to begin with."""

    keeps_state = True
    has_draws = False

    def __init__(self, labels: Labels, draws: Draws, count: int) -> None:
        super().__init__(labels, draws)
        self.kept_elsewhere = count

    @property
    def count(self) -> int:
        return self.kept_elsewhere

    def add(self, draws: Draws, first_bad_step: np.ndarray) -> None:
        self.kept_elsewhere += len(draws["position"])
