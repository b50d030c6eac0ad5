"""An experiment: tasks that share a figure and a command, the jobs they make, and their part of the report."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import NamedTuple

from isotherm.lib.types import Json
from isotherm.paper.experiments import largest_step, nuts, plots, results, tables
from isotherm.paper.experiments.cell import Cell, measure
from isotherm.paper.experiments.jobs import Job, JobResult
from isotherm.paper.experiments.report import Section
from isotherm.paper.experiments.tasks import Materials, PaperTask
from isotherm.samplers.settings import attributes


class Options(NamedTuple):
    """What was asked for on the command line of `isotherm reproduce`."""

    quick: bool = False
    seeds: int | None = None
    data_dir: Path | None = None


@dataclass(frozen=True)
class Experiment:
    """`curve` names what the figure shows against passes: a key of plots.CURVES."""

    name: str
    title: str
    tasks: tuple[PaperTask, ...]
    curve: str

    @property
    def workers(self) -> int:
        """Return how many cells run at the same time: the fewest that a task allows."""
        return min(task.workers for task in self.tasks)

    @property
    def quick_lengths(self) -> list[str]:
        """Say how much shorter `--quick` is."""
        return [f"{task.title}: {task.quick_passes:g} of {task.passes:g} passes" for task in self.tasks]

    def jobs(self, options: Options) -> list[Job]:
        """Make the jobs, the most important first, as the command may be stopped early."""
        order = {"first seed": 0, "reference": 1, "cell": 2, "largest_step": 3}

        def turn(job: Job) -> tuple[int, int]:
            kind, seed = job.settings["kind"], job.settings["seed"]
            return order["first seed" if kind == "cell" and seed == 0 else kind], seed

        return sorted((job for task in self.tasks for job in task_jobs(self.name, task, options)), key=turn)

    def summarise(self, done: Sequence[JobResult], figures: Path) -> tuple[list[Json], Section]:
        """Return the entries of results.json, and the experiment's section of the report."""
        entries = results.entries(done)
        picture = plots.of_tasks(self.name, self.title, self.tasks, self.curve, entries, figures)
        task_tables = [table for task in self.tasks for table in tables.of_task(task, entries)]
        settings = [tables.settings(task, entries) for task in self.tasks]
        return entries, Section(self.title, "", task_tables, [picture], settings)


def grid(task: PaperTask, seeds: int | None = None) -> list[Cell]:
    """Return every cell of a task, seed by seed."""
    runs = range(task.seeds if seeds is None else seeds)
    settings = product(runs, task.step_sizes, task.frictions, task.methods)
    return [Cell(method, step_size, friction, seed) for seed, step_size, friction, method in settings]


def task_jobs(experiment: str, task: PaperTask, options: Options) -> list[Job]:
    """Make the reference, the cells and the searches of one task, each with the settings that determine its result."""
    passes = task.quick_passes if options.quick else task.passes
    load, loading = cache(task.load), threading.Lock()
    of_task = {name: getattr(task, name) for name in ("dataset", "batch_size", "burn_in", "thin", "notes")}
    shared = {"experiment": experiment, **of_task, "step_size": None, "friction": None, "seed": 0}
    jobs = []

    def add(name: str, compute: Callable[[Materials], Json], **settings: object) -> None:
        def load_and_compute() -> Json:
            with loading:  # for the first job that asks; jobs run in several threads
                materials = load(options.data_dir)
            return compute(materials)

        jobs.append(Job(f"{experiment}/{task.dataset}/{name}", shared | settings, load_and_compute))

    if task.reference_draws and nuts.available():
        draws = task.reference_draws // (5 if options.quick else 1)
        settings = {"draws": draws, "averaged_draws": draws, "warmup": nuts.WARMUP}
        add("nuts", partial(nuts.measure, draws=draws), kind="reference", sampler="nuts", **settings)
    for cell in grid(task, None if task.seeds == 1 else options.seeds):
        add(
            f"{cell.method}-h{cell.step_size:g}-A{cell.friction:g}-seed{cell.seed}",
            partial(measure, task, cell=cell, passes=passes),
            **attributes(task.sampler(cell.method, cell.step_size, cell.friction)) | {"sampler": cell.method},
            kind="cell",
            step_size=cell.step_size,
            friction=cell.friction,
            seed=cell.seed,
            passes=passes,
        )
    if task.small_step is not None:
        for method in task.methods:
            add(
                f"{method}-largest-step",
                partial(largest_step.measure, task, method=method, passes=passes),
                **attributes(task.sampler(method, task.small_step, largest_step.FRICTION)) | {"sampler": method},
                kind="largest_step",
                friction=largest_step.FRICTION,
                passes=passes,
                small_step=task.small_step,
                limit=largest_step.LIMIT,
                tolerance=largest_step.TOLERANCE,
                precision=largest_step.PRECISION,
            )
    return jobs
