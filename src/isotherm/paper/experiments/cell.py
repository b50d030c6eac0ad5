"""One cell of a table: a method at one step size, friction and seed. Sample, then measure the draws."""

import math
from typing import Any, NamedTuple

from isotherm.diagnostics.verdict import first_bad_steps
from isotherm.lib.types import Batch, Json, Params, Results
from isotherm.paper.experiments import metrics
from isotherm.paper.experiments.tasks import Materials, PaperTask
from isotherm.posterior import Posterior
from isotherm.run.sample import sample
from isotherm.samplers import Sampler


class Cell(NamedTuple):
    method: str
    step_size: float
    friction: float
    seed: int


def measure(task: PaperTask, materials: Materials, cell: Cell, passes: float) -> Json:
    """Sample the cell: its metrics (None if it diverged), curves, moments, what `isotherm.check` says of it, first bad
    step (or None) and times."""
    tree = draw(task, materials, cell, passes)
    first_bad = first_bad_step(tree)
    values, curves, moments = metrics.measure(parameters(tree), materials, task.burn_in, first_bad is None)
    steps_a_pass = tree.attrs["population"] / tree.attrs["batch_size"]
    curves["passes"] = [draws * task.thin / steps_a_pass for draws in curves.pop("draws")]
    return {
        "metrics": {name: finite(value) for name, value in values.items()},
        "curves": {name: [finite(value) for value in points] for name, points in curves.items()},
        "moments": moments,
        "check": metrics.verdict(tree, materials, task.burn_in, cell.seed) if first_bad is None else {},
        "first_bad_step": first_bad,
        "seconds": tree.attrs["sampling_time"],
        "seconds_per_step": tree.attrs["sampling_time"] / tree.attrs["steps_done"],
        "settings": {k: v for k, v in tree.attrs.items() if not str(k).startswith(("sampling_time", "created"))},
    }


def draw(task: PaperTask, materials: Materials, cell: Cell, passes: float) -> Results:
    """Run the cell, keeping every draw from the first step on: each point of a curve drops a burn-in of its own."""
    sampler = task.sampler(cell.method, cell.step_size, cell.friction)
    settings = {"batch_size": task.batch_size, "passes": passes, "burn_in": 0.0, "thin": task.thin, "chains": 1}
    return draw_tree(materials.posterior, sampler, materials.data, materials.init, settings | {"seed": cell.seed})


def draw_tree(posterior: Posterior, sampler: Sampler[Any], data: Batch, init: Params, settings: Json) -> Results:
    """Run `isotherm.sample` without a bar; a run that Ctrl-C ended is no result."""
    tree = sample(posterior, sampler, data, init, **settings, progress=False)
    if tree.attrs["interrupted"]:
        raise KeyboardInterrupt
    return tree


def first_bad_step(tree: Results) -> int | None:
    """Return the first step after which a chain was not finite; None if every chain stayed finite."""
    steps = first_bad_steps(tree)
    return None if steps is None or (steps < 0).all() else int(steps[steps >= 0].min())


def parameters(tree: Results) -> Params:
    """Return the draws of the only chain as parameters with a leading axis: an array, or a dict of arrays."""
    arrays = {name: variable.values[0] for name, variable in tree["posterior"].data_vars.items()}
    return arrays["theta"] if list(arrays) == ["theta"] else arrays


def finite(value: float) -> float | None:
    """Return a number that JSON can hold: None for NaN and infinity."""
    return float(value) if math.isfinite(value) else None
