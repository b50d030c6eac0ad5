"""`isotherm reproduce`: run the jobs of the experiments asked for, then write results, figures and the report."""

from collections.abc import Callable, Sequence
from pathlib import Path

from isotherm.lib.optional import require, sentence
from isotherm.paper.datasets import DatasetError
from isotherm.paper.experiments import NAMES, catalogue, jobs, nuts, report, weak_order
from isotherm.paper.experiments.experiment import Experiment, Options

TITLE = "mCCAdL and eCCAdL: the paper's experiments, reproduced"


def chosen(names: Sequence[str]) -> list[str]:
    """Return the experiments asked for, in the paper's order; "all" is all of them."""
    for name in names:
        if name not in (*NAMES, "all"):
            raise ValueError(f"NAME must be one of {', '.join(NAMES)} or all, got {name!r}")
    return [name for name in NAMES if name in names or "all" in names]


def experiment(name: str) -> Experiment | weak_order.WeakOrder:
    """Return the experiment of this name; both kinds have the same methods."""
    return weak_order.EXPERIMENT if name == "weak-order" else catalogue.EXPERIMENTS[name]


def reproduce(
    names: Sequence[str], options: Options, out: Path, tick: Callable[..., object], tell: Callable[[str], object]
) -> list[Path]:
    """Run what is not on file yet; `tick(done, total, name)` after each job, and `tell` which experiments are left out,
    as their data cannot be had; alone, that is an error."""
    experiments = {name: experiment(name) for name in chosen(names)}
    require("matplotlib", "plots", "a figure")
    planned: dict[str, list[jobs.Job]] = {name: one.jobs(options) for name, one in experiments.items()}
    if not nuts.available():
        tell(f"{sentence('blackjax', 'paper', nuts.PURPOSE)}; continuing without it")
    total, done, reused = sum(map(len, planned.values())), 0, 0
    entries, sections, quick = [], [], list[str]()
    for name, its_jobs in planned.items():
        results: dict[str, jobs.JobResult] = {}
        try:
            tick(done, total, name)
            with jobs.no_run_warnings():
                for one in jobs.run(its_jobs, out / "cells", experiments[name].workers):
                    results[one.job.name] = one
                    tick(done + len(results), total, one.job.name)
        except DatasetError as missing:
            if len(planned) == 1:
                raise
            tell(f"{name} left out: {missing}")
            sections.append(report.Section(name, f"Left out: {missing}"))
            total -= len(its_jobs)
            continue
        done += len(its_jobs)
        reused += sum(one.reused for one in results.values())
        its_entries, section = experiments[name].summarise([results[job.name] for job in its_jobs], out / "figures")
        entries += its_entries
        sections.append(section)
        quick += experiments[name].quick_lengths if options.quick else ()
    origin = report.describe_origin()
    if reused:
        origin.append(
            f"{reused} of {total} runs were there from earlier commands, perhaps of another version or machine"
        )
    return [
        report.write_json(entries, out / "results.json"),
        report.write_csv(entries, out / "results.csv"),
        report.write_html(TITLE, sections, out / "report.html", origin, quick),
    ]
