"""The jobs of an experiment: a reference, every cell, and each method's largest usable step."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from isotherm import diagnostics, results, stepsize
from isotherm.experiments import classify, reference
from isotherm.experiments.run import draw, finite, parameters, run
from isotherm.experiments.runner import Job
from isotherm.experiments.settings import Cell, Materials, Task, grid

STEP_LIMIT = 0.1  # the largest step that is tried
STEP_FRICTION = 10.0  # the friction at which largest steps are sought


class Options(NamedTuple):
    """What the command line says."""

    quick: bool = False
    seeds: int | None = None
    data_dir: Path | None = None


def jobs(experiment: str, task: Task, options: Options) -> list[Job]:
    """The reference first, then the grid, then the largest steps."""
    materials = once(lambda: task.load(options.data_dir))
    passes = task.quick_passes if options.quick else task.passes
    seeds = task.seeds if options.seeds is None or task.seeds == 1 else options.seeds
    found = []
    if task.reference_draws and reference.available():
        found.append(_reference_job(experiment, task, materials, options.quick))
    found += [_cell_job(experiment, task, materials, cell, passes) for cell in grid(task, seeds)]
    if task.small_step is not None:
        found += [_step_job(experiment, task, materials, method, passes) for method in task.methods]
    return found


def turn(settings: dict[str, Any]) -> tuple[int, int]:
    """When a job's turn comes: a command that is stopped early should have what is looked at first."""
    order = ("first", "reference", "cell", "largest_step")
    kind = "first" if settings["kind"] == "cell" and settings["seed"] == 0 else settings["kind"]
    return order.index(kind), settings["seed"]


def _shared(experiment: str, task: Task, kind: str) -> dict[str, Any]:
    return {
        "kind": kind,
        "experiment": experiment,
        "dataset": task.dataset,
        "batch_size": task.batch_size,
        "burn_in": task.burn_in,
        "thin": task.thin,
        "notes": task.notes,
    }


def _cell_job(experiment: str, task: Task, materials: Callable[[], Materials], cell: Cell, passes: float) -> Job:
    sampler = task.sampler(cell.method, cell.step_size, cell.friction)
    settings = _shared(experiment, task, "cell") | {
        "sampler": cell.method,
        "step_size": cell.step_size,
        "friction": cell.friction,
        "seed": cell.seed,
        "passes": passes,
        **results.settings("sampler", sampler),
    }
    name = f"{task.dataset}/{cell.method}-h{cell.step_size:g}-A{cell.friction:g}-seed{cell.seed}"
    return Job(f"{experiment}/{name}", settings, lambda: run(task, materials(), cell, passes))


def _reference_job(experiment: str, task: Task, materials: Callable[[], Materials], quick: bool) -> Job:
    draws = task.reference_draws // 5 if quick else task.reference_draws
    settings = _shared(experiment, task, "reference") | {
        "sampler": "nuts",
        "step_size": None,
        "friction": None,
        "seed": 0,
        "draws": draws,
        "averaged_draws": draws,
        "warmup": reference.WARMUP,
    }
    name = f"{experiment}/{task.dataset}/nuts"
    return Job(name, settings, lambda: reference.reference(materials(), draws))


def _step_job(experiment: str, task: Task, materials: Callable[[], Materials], method: str, passes: float) -> Job:
    assert task.small_step is not None
    settings = _shared(experiment, task, "largest_step") | {
        "sampler": method,
        "step_size": None,
        "friction": STEP_FRICTION,
        "seed": 0,
        "passes": passes,
        "small_step": task.small_step,
        "limit": STEP_LIMIT,
        "tolerance": stepsize.TOLERANCE,
        "precision": stepsize.PRECISION,
        **results.settings("sampler", task.sampler(method, task.small_step, STEP_FRICTION)),
    }
    name = f"{experiment}/{task.dataset}/{method}-largest-step"
    return Job(name, settings, lambda: largest_step(task, materials(), method, passes))


def largest_step(task: Task, materials: Materials, method: str, passes: float) -> dict[str, Any]:
    """The largest usable step of one method, with all that was tried."""
    assert task.small_step is not None
    seconds = 0.0

    def loss(step_size: float) -> float:
        nonlocal seconds
        tree = draw(task, materials, Cell(method, step_size, STEP_FRICTION, 0), passes)
        seconds += tree.attrs["sampling_time"]
        if tree.attrs["interrupted"]:
            raise KeyboardInterrupt
        if tree["sample_stats"]["first_bad_step"].values[0] >= 0:
            return float("nan")
        return posterior_mean_loss(parameters(tree), materials, task.burn_in)

    found = stepsize.largest_usable_step(loss, task.small_step, STEP_LIMIT)
    return {
        "metrics": {"largest_usable_step": found.step_size},
        "at_limit": found.at_limit,
        "trials": [{"step_size": h, "loss": finite(value), "usable": good} for h, value, good in found.trials],
        "first_bad_step": None,
        "seconds": seconds,
    }


def posterior_mean_loss(draws: Any, materials: Materials, burn_in: float) -> float:
    """Test log loss of the mean of the draws after burn-in."""
    mean = jax.tree.map(lambda array: array[int(burn_in * len(array)) :].mean(axis=0), draws)
    test = materials.test
    assert test is not None
    log_p = np.minimum(classify.predict(materials.model, mean, jnp.asarray(test["x"])), 0)
    return diagnostics.log_loss(log_p, np.asarray(materials.model.class_index(test["y"])))


def once(load: Callable[[], Materials]) -> Callable[[], Materials]:
    """`load`, called when first needed and never again."""
    lock = threading.Lock()
    loaded: list[Materials] = []

    def get() -> Materials:
        with lock:
            if not loaded:
                loaded.append(load())
        return loaded[0]

    return get
