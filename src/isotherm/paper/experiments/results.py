"""From the results of jobs to the entries of results.json, and averages over seeds."""

import math
from collections import defaultdict
from collections.abc import Sequence
from statistics import fmean, stdev
from typing import Any

import numpy as np

from isotherm.paper.experiments import verdicts
from isotherm.paper.experiments.jobs import JobResult
from isotherm.paper.experiments.tasks import Task

IDENTITY = ("kind", "experiment", "dataset", "sampler", "step_size", "friction", "seed")
Entries = Sequence[dict[str, Any]]
Groups = dict[tuple[str, float, float], list[dict[str, Any]]]


def entries(done: Sequence[JobResult]) -> list[dict[str, Any]]:
    """Each job as one entry of results.json, with its distance to the reference where there is one."""
    references = {one.job.settings["dataset"]: one.result for one in done if one.job.settings["kind"] == "reference"}
    return [_entry(one.job.settings, one.result, references.get(one.job.settings["dataset"])) for one in done]


def _entry(settings: dict[str, Any], result: dict[str, Any], reference: dict[str, Any] | None) -> dict[str, Any]:
    metrics = dict(result["metrics"])
    if settings["kind"] == "cell" and reference is not None:
        metrics |= distance(result["moments"], reference["moments"])
    check = result.get("check", {})  # results of earlier versions have none
    metrics |= {name: check.get(name) for name in verdicts.NAMES if settings["kind"] == "cell" and "check" in result}
    if "standard_error" in result:
        metrics["expected_log_loss_standard_error"] = result["standard_error"]
    return {
        **{name: settings[name] for name in IDENTITY},
        "metrics": metrics,
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


def distance(moments: dict[str, Any], reference: dict[str, Any]) -> dict[str, float | None]:
    """tr(H C)/tr(H C_ref) and √((m − m_ref)ᵀH(m − m_ref)/d), with H the Hessian at the mode; None without moments."""
    if not moments:
        return {"variance_ratio": None, "mean_error": None}
    shift = np.subtract(moments["whitened_mean"], reference["whitened_mean"])
    return {
        "variance_ratio": moments["whitened_variance"] / reference["whitened_variance"],
        "mean_error": float(np.sqrt(shift @ shift / shift.size)),
    }


def of_task(entries: Entries, task: Task, kind: str = "cell") -> list[dict[str, Any]]:
    return [entry for entry in entries if entry["dataset"] == task.dataset and entry["kind"] == kind]


def reference_metrics(entries: Entries, task: Task) -> dict[str, float]:
    """Those of NUTS; nothing if the task has no reference."""
    return next((entry["metrics"] for entry in of_task(entries, task, "reference")), {})


def passes(cells: Entries) -> list[float]:
    """Lengths of the runs; one number, unless they differ."""
    return sorted({cell["settings"]["passes"] for cell in cells})


def by_setting(cells: Entries) -> Groups:
    """Cells that differ in the seed only, by (method, step size, friction)."""
    groups = defaultdict(list)
    for cell in cells:
        groups[cell["sampler"], cell["step_size"], cell["friction"]].append(cell)
    return groups


def average(group: Entries, metric: str) -> tuple[float, float]:
    """Mean and standard deviation over seeds (0 for one seed); NaN as soon as one of them diverged."""
    values = [math.nan if cell["metrics"].get(metric) is None else cell["metrics"][metric] for cell in group]
    if not values or any(math.isnan(value) for value in values):
        return math.nan, math.nan
    return fmean(values), stdev(values) if len(values) > 1 else 0.0


def first_divergence(group: Entries) -> int | None:
    """The earliest step at which one of the seeds diverged."""
    return min((cell["first_bad_step"] for cell in group if cell["first_bad_step"] is not None), default=None)
