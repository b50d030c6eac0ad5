"""From the results of jobs to the entries of results.json, and averages over seeds."""

import math
from collections import defaultdict
from collections.abc import Sequence
from statistics import fmean, stdev

import numpy as np

from isotherm.lib.types import Json
from isotherm.paper.experiments import metrics
from isotherm.paper.experiments.jobs import JobResult
from isotherm.paper.experiments.tasks import PaperTask

IDENTITY = ("kind", "experiment", "dataset", "sampler", "step_size", "friction", "seed")
Entries = Sequence[Json]
Groups = dict[tuple[str, float, float], list[Json]]


def entries(done: Sequence[JobResult]) -> list[Json]:
    """Make each job one entry of results.json, with its distance to the reference where there is one."""
    references = {one.job.settings["dataset"]: one.result for one in done if one.job.settings["kind"] == "reference"}
    return [_entry(one.job.settings, one.result, references.get(one.job.settings["dataset"])) for one in done]


def _entry(settings: Json, result: Json, reference: Json | None) -> Json:
    values, check = dict(result["metrics"]), result.get("check", {})
    if settings["kind"] == "cell":
        values |= distance(result["moments"], reference["moments"]) if reference is not None else {}
        values |= {name: check.get(name) for name in metrics.CHECKED if "check" in result}
    if "standard_error" in result:
        values["expected_log_loss_standard_error"] = result["standard_error"]
    return {
        **{name: settings[name] for name in IDENTITY},
        "metrics": values,
        "check": check,
        "first_bad_step": result.get("first_bad_step"),
        "seconds": result["seconds"],
        "seconds_per_step": result.get("seconds_per_step"),
        "curves": result.get("curves", {}),
        "trials": result.get("trials", []),
        "at_limit": result.get("at_limit", False),
        # A cell is sampled with burn_in=0 and its metrics then drop the task's burn-in, which is the one to report.
        "settings": result.get("settings", {}) | {k: v for k, v in settings.items() if k not in IDENTITY},
    }


def distance(moments: Json, reference: Json) -> dict[str, float | None]:
    """Return tr(H C)/tr(H C_ref) and √((m − m_ref)ᵀH(m − m_ref)/d), H the Hessian at the mode; None without moments."""
    if not moments:
        return {"variance_ratio": None, "mean_error": None}
    shift = np.subtract(moments["whitened_mean"], reference["whitened_mean"])
    return {
        "variance_ratio": moments["whitened_variance"] / reference["whitened_variance"],
        "mean_error": float(np.sqrt(shift @ shift / shift.size)),
    }


def of_task(entries: Entries, task: PaperTask, kind: str = "cell") -> list[Json]:
    return [entry for entry in entries if entry["dataset"] == task.dataset and entry["kind"] == kind]


def reference_metrics(entries: Entries, task: PaperTask) -> dict[str, float]:
    """Return those of NUTS; nothing if the task has no reference."""
    return next((entry["metrics"] for entry in of_task(entries, task, "reference")), {})


def passes(cells: Entries) -> list[float]:
    """Return the lengths of the runs; one number, unless they differ."""
    return sorted({cell["settings"]["passes"] for cell in cells})


def by_setting(cells: Entries) -> Groups:
    """Group cells that differ in the seed only, by (method, step size, friction)."""
    groups = defaultdict(list)
    for cell in cells:
        groups[cell["sampler"], cell["step_size"], cell["friction"]].append(cell)
    return groups


def average(group: Entries, metric: str) -> tuple[float, float]:
    """Return mean and standard deviation over seeds (0 for one seed); NaN as soon as one of them diverged."""
    values = [math.nan if cell["metrics"].get(metric) is None else cell["metrics"][metric] for cell in group]
    if not values or any(math.isnan(value) for value in values):
        return math.nan, math.nan
    return fmean(values), stdev(values) if len(values) > 1 else 0.0


def first_divergence(group: Entries) -> int | None:
    """Return the earliest step at which one of the seeds diverged."""
    return min((cell["first_bad_step"] for cell in group if cell["first_bad_step"] is not None), default=None)
