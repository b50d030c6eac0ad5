"""`isotherm sample`, `resume`, `check` and `report`: the models of the experiments on their data, stored as they go.

A stored run carries the name of its problem, by which the other commands find the model and the data again; a run of
`isotherm fit` has a file about its table instead.
"""

import shlex
from inspect import signature
from pathlib import Path
from typing import Any

import xarray

from isotherm import samplers
from isotherm.data.processes import share
from isotherm.diagnostics.check import Verdict, check, check_without_data
from isotherm.lib.types import Results
from isotherm.paper.experiments import catalogue
from isotherm.paper.experiments.tasks import Materials
from isotherm.report.report import report
from isotherm.run.resume import resume
from isotherm.run.sample import sample
from isotherm.samplers import settings as sampler_settings
from isotherm.store.checkpoint import HIDDEN, check_is_run, latest
from isotherm.tables import model, preparing, recipe, results, show

PROBLEMS = {task.dataset: task for experiment in catalogue.ALL for task in experiment.tasks}
SAMPLERS = sorted(sampler_settings.NAMES, key=lambda name: (name != "eccadl", name))


def start(
    problem: str,
    store: Path,
    sampler: str,
    step_size: str,
    friction: float | None,
    data_dir: Path | None,
    **settings: Any,
) -> Results:
    """Sample a problem into a new store; batch size and, unless given, number of passes are the experiment's."""
    if problem not in PROBLEMS:
        raise ValueError(f"PROBLEM must be one of {', '.join(PROBLEMS)}, got {problem!r}")
    task = PROBLEMS[problem]
    if settings["steps"] is None and settings["passes"] is None:
        settings["passes"] = task.passes
    settings |= {"batch_size": task.batch_size, "store": store, "name": problem}
    built = build_sampler(sampler, step_size, friction)
    materials = task.load(data_dir)
    return sample(materials.posterior, built, share(materials.data), materials.init, **settings)


def continue_run(store: Path, steps: int | None, data_dir: Path | None) -> Results:
    """Continue a run that `start` began."""
    if recipe.is_there(store):
        table = preparing.prepare_again(recipe.read(store), data_dir)
        posterior = model.make_posterior(model.build(table.recipe))
        return resume(store, posterior, share(table.train), steps=steps)
    materials = materials_of(store, data_dir, f"continue it in Python, with isotherm.resume({str(store)!r}, …)")
    return resume(store, materials.posterior, share(materials.data), steps=steps)


def check_run(store: Path, data_dir: Path | None) -> Verdict:
    """Say whether to believe a run that `start` began, or one of a table."""
    if recipe.is_there(store):
        table = preparing.prepare_again(recipe.read(store), data_dir)
        return results.verdict_of(table.recipe, open_results(store), table.train)
    materials = materials_of(store, data_dir, "check it in Python, with isotherm.check(tree, posterior, data)")
    return check(open_results(store), materials.posterior, materials.data, init=materials.init)


def report_run(store: Path, data_dir: Path | None, out: Path) -> Verdict:
    """Write the report of any stored run; the verdict is whole only if the run says what its data are."""
    check_is_there(store)
    if recipe.is_there(store):
        found = results.collect(preparing.prepare_again(recipe.read(store), data_dir), open_results(store))
        show.write_report(found, out)
        return found.verdict
    tree = open_results(store)
    verdict = check_run(store, data_dir) if tree.attrs.get("name") in PROBLEMS else check_without_data(tree)
    report(tree, path=out, verdict=verdict)
    return verdict


def open_results(store: Path) -> Results:
    """Open the results in a store. Ours have consolidated metadata; those of others may not."""
    ours = (store / HIDDEN).is_dir()
    return xarray.open_datatree(store, engine="zarr", chunks=None, consolidated=ours)


def materials_of(store: Path, data_dir: Path | None, instead: str) -> Materials:
    """Return the model and the data of a stored run, by the name of its problem."""
    check_is_there(store)
    check_is_run(store)
    problem = latest(store).header.name
    if problem not in PROBLEMS:
        raise ValueError(
            f"{store} was not started with `isotherm fit` or `isotherm sample`: it has no problem's name; {instead}"
        )
    return PROBLEMS[problem].load(data_dir)


def check_is_there(store: Path) -> None:
    if not store.is_dir():
        raise ValueError(
            f"RUN must be a folder made by `isotherm fit` or `isotherm sample`, got {str(store)!r}, which is not there"
        )


def build_sampler(name: str, step_size: str, friction: float | None) -> samplers.Sampler:
    if name not in SAMPLERS:
        raise ValueError(f"--sampler must be one of {', '.join(SAMPLERS)}, got {name!r}")
    try:
        size = step_size if step_size == "auto" else float(step_size)
    except ValueError:
        raise ValueError(f'--step-size must be a number or "auto", got {step_size!r}') from None
    builder = getattr(samplers, name)
    if friction is None:
        return builder(size)
    if "friction" not in signature(builder).parameters:
        raise ValueError(f"--friction is not for {name}, which has none, got {friction:g}; leave it out")
    return builder(size, friction)


def status(tree: Results, store: Path, data_dir: Path | None) -> str:
    """Say how far a run is and, if it was interrupted, the command that continues it."""
    shape = dict(tree["posterior"].sizes)
    done, steps = tree.attrs["steps_done"], tree.attrs["steps"]
    line = f"{store}: step {done:,} of {steps:,}, {shape['chain']} chains of {shape['draw']:,} draws"
    if not tree.attrs["interrupted"]:
        return line
    words = ["isotherm", "resume", str(store), *(["--data", str(data_dir)] if data_dir is not None else [])]
    return f"{line}; continue with: {shlex.join(words)}"
