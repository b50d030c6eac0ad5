"""One cell: sample, then say how good the draws are."""

import math
from typing import Any

from isotherm.driver import sample
from isotherm.experiments import classify, gaussian
from isotherm.experiments.settings import Cell, Materials, Task


def run(task: Task, materials: Materials, cell: Cell, passes: float) -> dict[str, Any]:
    """The cell's metrics, curves, first bad step (or None) and times; a diverged cell has None for metrics."""
    tree = draw(task, materials, cell, passes)
    first_bad = int(tree["sample_stats"]["first_bad_step"].values[0])
    if tree.attrs["interrupted"]:
        raise KeyboardInterrupt
    measure = gaussian.measure if materials.exact is not None else classify.measure
    metrics, curves, moments = measure(parameters(tree), materials, task.burn_in, first_bad < 0)
    steps_a_pass = tree.attrs["population"] / tree.attrs["batch_size"]
    curves["passes"] = [draws * task.thin / steps_a_pass for draws in curves.pop("draws")]
    return {
        "metrics": {name: finite(value) for name, value in metrics.items()},
        "curves": {name: [finite(value) for value in values] for name, values in curves.items()},
        "moments": moments,
        "first_bad_step": None if first_bad < 0 else first_bad,
        "seconds": tree.attrs["sampling_time"],
        "seconds_per_step": tree.attrs["sampling_time"] / tree.attrs["steps_done"],
        "settings": {k: v for k, v in tree.attrs.items() if not k.startswith(("sampling_time", "created"))},
    }


def draw(task: Task, materials: Materials, cell: Cell, passes: float) -> Any:
    """The run itself, burn-in kept: it is dropped by the curves, point by point."""
    return sample(
        materials.posterior,
        task.sampler(cell.method, cell.step_size, cell.friction),
        materials.data,
        materials.init,
        batch_size=task.batch_size,
        passes=passes,
        burn_in=0.0,
        thin=task.thin,
        chains=1,
        seed=cell.seed,
        progress=False,
    )


def parameters(tree: Any) -> Any:
    """The draws of the only chain as parameters with a leading axis: an array, or a dict of arrays."""
    arrays = {name: variable.values[0] for name, variable in tree["posterior"].data_vars.items()}
    return arrays["theta"] if list(arrays) == ["theta"] else arrays


def finite(value: float) -> float | None:
    """A number JSON can hold: None for NaN and infinity."""
    return float(value) if value is not None and math.isfinite(value) else None
