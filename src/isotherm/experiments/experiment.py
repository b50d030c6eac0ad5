"""An experiment: tasks that share a figure and a command."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from isotherm.experiments import plan, summary
from isotherm.experiments.plan import Options
from isotherm.experiments.runner import Finished, Job
from isotherm.experiments.settings import Task
from isotherm.report import Section


@dataclass(frozen=True)
class Experiment:
    """`curve` names what the figure shows against passes: a key of summary.CURVES."""

    name: str
    title: str
    tasks: tuple[Task, ...]
    curve: str
    notes: str = ""

    @property
    def workers(self) -> int:
        """How many cells run at a time: as many as the most modest task says."""
        return min(task.workers for task in self.tasks)

    def jobs(self, options: Options) -> list[Job]:
        """The first seed of every table first, then its references, the other seeds, and the largest steps."""
        found = [job for task in self.tasks for job in plan.jobs(self.name, task, options)]
        return sorted(found, key=lambda job: plan.turn(job.settings))

    def summary(self, finished: Sequence[Finished], figures: Path) -> tuple[list[dict[str, Any]], Section]:
        """The entries of results.json, and the experiment's part of the report."""
        found = summary.cells(finished)
        return found, summary.section(self.name, self.title, self.notes, self.tasks, self.curve, found, figures)
