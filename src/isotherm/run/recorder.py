"""What becomes of a run's draws: the Protocol of every recorder, and the one that keeps them in memory."""

from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np

from isotherm.run.chains import Snapshot
from isotherm.run.labels import Labels
from isotherm.types import Draws

if TYPE_CHECKING:
    import xarray


@runtime_checkable
class Recorder(Protocol):
    """Gets draws as they are completed, a snapshot when it wants one, and makes the results in the end."""

    @property
    def keeps_state(self) -> bool:
        """Whether its snapshots need the samplers' state, so that the run can go on in another process."""
        ...

    @property
    def count(self) -> int:
        """The draws so far."""
        ...

    def add(self, draws: Draws, first_bad_step: np.ndarray) -> None:
        """Draws that follow those so far, and each chain's first bad step (−1: none)."""
        ...

    def wants_checkpoint(self) -> bool:
        """Whether `checkpoint` should be called now."""
        ...

    def checkpoint(self, snapshot: Snapshot) -> None:
        """Keep where the run stands."""
        ...

    def finish(self, snapshot: Snapshot) -> "xarray.DataTree":
        """The labelled results of a run that ends here."""
        ...


class MemoryRecorder:
    """Keeps a run's draws until it ends."""

    keeps_state = False

    def __init__(self, labels: Labels, none: Draws) -> None:
        import arviz_base  # noqa: F401  # needed in the end, and now there is time: the loop is being compiled

        self.labels, self.parts = labels, [none]

    @property
    def count(self) -> int:
        return sum(len(part["position"]) for part in self.parts)

    def add(self, draws: Draws, first_bad_step: np.ndarray) -> None:
        self.parts.append(draws)

    def wants_checkpoint(self) -> bool:
        return False

    def checkpoint(self, snapshot: Snapshot) -> None:
        """Nothing outlives the process."""

    def finish(self, snapshot: Snapshot) -> "xarray.DataTree":
        whole = {name: np.concatenate([part[name] for part in self.parts]) for name in self.parts[0]}
        return self.labels.tree(whole, 0, snapshot)
