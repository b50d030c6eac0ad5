"""What `isotherm.check` says of a cell's draws: beside what NUTS says of them, and where there is no NUTS."""

from typing import Any

import numpy as np

from isotherm.paper.experiments.tasks import Materials
from isotherm.run.check import check
from isotherm.targets.noisy import DENSE_PARAMETERS

NAMES = ("checked_variance", "checked_mean_error")  # variance_ratio and mean_error, without a reference


def of_run(tree: Any, materials: Materials, burn_in: float, seed: int) -> dict[str, Any]:
    """Whether nothing is bad, which lines are, what it cost, and how far variance and mean were found to be off; an
    empty dict where that would take matrices that are too large."""
    draws = tree["posterior"].sizes["draw"]
    entries = sum(np.prod(array.shape[2:], dtype=int) for array in tree["posterior"].data_vars.values())
    if entries > DENSE_PARAMETERS:
        return {}
    kept = tree.isel(draw=slice(int(burn_in * draws), None))
    verdict = check(kept, materials.posterior, materials.data, init=materials.init, seed=seed, progress=False)
    found = {
        "good": bool(verdict),
        "bad": [line.name for line in verdict.table if not line.good],
        "lines": [str(line) for line in verdict.table],
        "passes": verdict.passes,
    }
    if verdict.moments is not None:
        found |= dict(zip(NAMES, (verdict.moments.found.trace, verdict.moments.found.distance), strict=True))
    return found
