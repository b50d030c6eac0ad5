"""`isotherm reproduce`: run the jobs of the experiments asked for, then write results, figures and the report."""

from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from isotherm import report
from isotherm.datasets import DatasetError
from isotherm.experiments import reference, runner
from isotherm.experiments.plan import Options
from isotherm.experiments.runner import Finished, Job

NAMES = ("linear-regression", "mnist", "cifar10", "letter", "acoustic", "mnist10", "weak-order")
TITLE = "mCCAdL and eCCAdL: the paper's experiments, reproduced"


def chosen(names: Sequence[str]) -> list[str]:
    """The experiments asked for, in the paper's order; "all" is all of them."""
    for name in names:
        if name not in (*NAMES, "all"):
            raise ValueError(f"NAME must be one of {', '.join(NAMES)} or all, got {name!r}")
    return [name for name in NAMES if name in names or "all" in names]


def experiment(name: str) -> Any:
    """`EXPERIMENT` of the file of that name: it has jobs(options), workers and summary(finished, figures)."""
    return import_module(f"isotherm.experiments.{name.replace('-', '_')}").EXPERIMENT


def reproduce(
    names: Sequence[str], options: Options, out: Path, tick: Callable[[int, int, str], Any], tell: Callable[[str], Any]
) -> list[Path]:
    """Run what is not on file yet; `tick(done, total, name)` after each job, `tell` in words what is left out.

    With several experiments, one whose data cannot be had is left out; alone, it is an error.
    """
    experiments = {name: experiment(name) for name in chosen(names)}
    plans: dict[str, list[Job]] = {name: one.jobs(options) for name, one in experiments.items()}
    if not reference.available():
        tell(f"{reference.MISSING}; going on without it")
    total, done = sum(len(jobs) for jobs in plans.values()), 0
    cells, sections = [], []
    for name, jobs in plans.items():
        finished: dict[str, Finished] = {}
        try:
            tick(done, total, name)
            with runner.divergence_is_data():
                for outcome in runner.run(jobs, out / "cells", experiments[name].workers):
                    finished[outcome.job.name] = outcome
                    tick(done + len(finished), total, outcome.job.name)
        except DatasetError as missing:
            if len(plans) == 1:
                raise
            tell(f"{name} left out: {missing}")
            sections.append(report.Section(name, f"Left out: {missing}"))
            total -= len(jobs)
            continue
        done += len(jobs)
        found, section = experiments[name].summary([finished[job.name] for job in jobs], out / "figures")
        cells += found
        sections.append(section)
    return [
        report.write_json(cells, out / "results.json"),
        report.write_csv(cells, out / "results.csv"),
        report.write_html(TITLE, sections, out / "report.html"),
    ]
