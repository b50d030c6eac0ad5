"""From finished jobs to cells, tables and figures of one experiment."""

import math
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, median, stdev
from typing import Any

import numpy as np

from isotherm import plots
from isotherm.experiments import paper
from isotherm.experiments.runner import Finished
from isotherm.experiments.settings import LABELS, Task
from isotherm.report import Entry, Picture, Section, Table

IDENTITY = ("kind", "experiment", "dataset", "sampler", "step_size", "friction", "seed")
CURVES = {
    "w2": ("2-Wasserstein distance", "log"),
    "log_likelihood": ("test log-likelihood of the\nposterior mean (nats an example)", "linear"),
    "error": ("test error of the\nposterior mean", "linear"),
}
Cells = Sequence[dict[str, Any]]


def cells(finished: Sequence[Finished]) -> list[dict[str, Any]]:
    """Each job as one entry of results.json, with its distance to the reference where there is one."""
    truth = {job.settings["dataset"]: result for job, result in finished if job.settings["kind"] == "reference"}
    return [_cell(job.settings, result, truth.get(job.settings["dataset"])) for job, result in finished]


def _cell(settings: dict[str, Any], result: dict[str, Any], truth: dict[str, Any] | None) -> dict[str, Any]:
    metrics = dict(result["metrics"])
    if settings["kind"] == "cell" and truth is not None and result["moments"]:
        metrics |= to_reference(result["moments"], truth["moments"])
    elif settings["kind"] == "cell" and truth is not None:
        metrics |= {"variance_ratio": None, "mean_error": None}
    if "standard_error" in result:
        metrics["expected_log_loss_standard_error"] = result["standard_error"]
    return {
        **{name: settings[name] for name in IDENTITY},
        "metrics": metrics,
        "first_bad_step": result.get("first_bad_step"),
        "seconds": result["seconds"],
        "seconds_per_step": result.get("seconds_per_step"),
        "curves": result.get("curves", {}),
        "trials": result.get("trials", []),
        "at_limit": result.get("at_limit", False),
        # The run itself keeps its burn-in, which the metrics then drop: what the task says holds.
        "settings": result.get("settings", {}) | {k: v for k, v in settings.items() if k not in IDENTITY},
    }


def to_reference(mine: dict[str, Any], truth: dict[str, Any]) -> dict[str, float]:
    """tr(H C)/tr(H C_ref) and √((m − m_ref)ᵀH(m − m_ref)/d), with H the Hessian at the mode."""
    shift = np.subtract(mine["whitened_mean"], truth["whitened_mean"])
    return {
        "variance_ratio": mine["whitened_variance"] / truth["whitened_variance"],
        "mean_error": float(np.sqrt(shift @ shift / shift.size)),
    }


def of_task(found: Cells, task: Task, kind: str = "cell") -> list[dict[str, Any]]:
    return [cell for cell in found if cell["dataset"] == task.dataset and cell["kind"] == kind]


def section(
    name: str, title: str, notes: str, tasks: Sequence[Task], curve: str, found: Cells, figures: Path
) -> Section:
    """The experiment's figure, its tables and its settings; figures are written as PNG and PDF."""
    drawn = figure(tasks, found, curve)
    plots.save(drawn, figures / f"{name}.pdf")
    picture = Picture(plots.save(drawn, figures / f"{name}.png"), title)
    tables = [table for task in tasks for table in task_tables(task, found)]
    return Section(title, notes, tables, [picture], [settings(task, found) for task in tasks])


def settings(task: Task, found: Cells) -> dict[str, Any]:
    mine = of_task(found, task)
    return {
        "dataset": task.dataset,
        "step_sizes": task.step_sizes,
        "frictions": task.frictions,
        "samplers": task.methods,
        "seeds": sorted({cell["seed"] for cell in mine}),
        "passes": sorted({cell["settings"]["passes"] for cell in mine}),
        "batch_size": task.batch_size,
        "burn_in": task.burn_in,
        "thin": task.thin,
        "notes": task.notes,
    }


def grouped(found: Cells) -> dict[tuple[str, float, float], list[dict[str, Any]]]:
    """Cells that differ in the seed only, by (method, step size, friction)."""
    groups = defaultdict(list)
    for cell in found:
        groups[cell["sampler"], cell["step_size"], cell["friction"]].append(cell)
    return groups


def average(group: Cells, metric: str) -> tuple[float, float]:
    """Mean and standard deviation over seeds (0 for one seed); NaN as soon as one of them diverged."""
    values = [math.nan if cell["metrics"].get(metric) is None else cell["metrics"][metric] for cell in group]
    if not values or any(math.isnan(value) for value in values):
        return math.nan, math.nan
    return fmean(values), stdev(values) if len(values) > 1 else 0.0


def task_tables(task: Task, found: Cells) -> list[Table]:
    """Every metric the cells have, a table each; then largest steps and times."""
    mine, groups = of_task(found, task), grouped(of_task(found, task))
    reference = of_task(found, task, "reference")
    truth = reference[0]["metrics"] if reference else {}
    metrics = list(dict.fromkeys(name for cell in mine for name in cell["metrics"]))
    tables = [_metric_table(task, name, groups, truth) for name in metrics]
    steps = of_task(found, task, "largest_step")
    if steps:
        tables.append(_step_table(task, steps))
    return [*tables, _time_table(task, mine)]


METRICS = {
    "w2": "2-Wasserstein distance to the exact posterior",
    "expected_log_loss": "posterior expected log loss",
    "posterior_mean_log_loss": "log loss of the posterior mean",
    "posterior_mean_error": "error of the posterior mean",
    "predictive_log_loss": "log loss of the posterior predictive",
    "predictive_error": "error of the posterior predictive",
    "calibration_error": "expected calibration error of the posterior predictive",
    "variance_ratio": "variance over the reference's, tr(HC)/tr(HC_ref)",
    "mean_error": "error of the mean, in posterior standard deviations",
}
IDEAL = {"variance_ratio": 1.0}
LOWEST = ("w2", "calibration_error", "mean_error")  # best is zero


def _metric_table(task: Task, metric: str, groups: Any, truth: dict[str, float]) -> Table:
    printed = paper.losses(task.dataset) if metric == "expected_log_loss" else {}
    ideal = None if metric in LOWEST else IDEAL.get(metric, truth.get(metric))
    rows = []
    for friction in task.frictions:
        for h in task.step_sizes:
            values = {method: average(groups[method, h, friction], metric) for method in task.methods}
            numbers = [value for value, _ in values.values() if not math.isnan(value)]
            best = min(numbers, key=lambda value: abs(value - (ideal or 0.0)), default=math.nan)
            row = [Entry(f"A = {friction:g}, h = {h:g}")]
            for method, (value, spread) in values.items():
                group, said = groups[method, h, friction], printed.get((method, h, friction))
                row.append(_entry(value, spread, group, said, ideal, value == best))
            rows.append(row)
    columns = ["", *(LABELS[method] for method in task.methods)]
    return Table(f"{task.title}: {METRICS.get(metric, metric)}", columns, rows, _caption(metric, truth, bool(printed)))


def _caption(metric: str, truth: dict[str, float], printed: bool) -> str:
    said = []
    if metric in truth:
        error = truth.get(f"{metric}_standard_error")
        said.append(f"reference (NUTS): {truth[metric]:.4f}" + (f" ± {error:.4f} (its own error)" if error else ""))
    if printed:
        said.append("small print: the paper's value and how far ours is from it")
    return "; ".join(said)


def _entry(
    value: float, spread: float, group: Cells, said: paper.Citation | None, ideal: float | None, best: bool
) -> Entry:
    bad = [cell["first_bad_step"] for cell in group if cell["first_bad_step"] is not None]
    detail = ""
    if said is not None:
        detail = f"paper {_number(said.value)}"
        if math.isfinite(said.value) and not math.isnan(value):
            detail += f" ({100 * (value / said.value - 1):+.1f} %)"
    if bad:
        return Entry(f"NaN, step {min(bad)}", detail, "gone")
    if math.isnan(value):
        return Entry("–", detail)
    text = _number(value) + (f" ± {_number(spread)}" if spread else "")
    return Entry(text, detail, _shade(value, ideal), best)


def _shade(value: float, ideal: float | None) -> str:
    if not ideal:
        return ""
    away = abs(value / ideal - 1)
    return next((name for name, within in (("near", 0.01), ("close", 0.05), ("off", 0.2)) if away <= within), "far")


def _number(value: float) -> str:
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Inf"
    return f"{value:.4f}" if abs(value) < 1000 else f"{value:.3g}"


def _step_table(task: Task, steps: Cells) -> Table:
    first = next((cell["metrics"]["largest_usable_step"] for cell in steps if cell["sampler"] == "ccadl"), None)
    row = []
    for cell in steps:
        value = cell["metrics"]["largest_usable_step"]
        text = "none" if value is None else f"{'≥ ' if cell['at_limit'] else ''}{value:.2e}"
        row.append(Entry(text, f"{value / first:.1f} × CCAdL's" if value and first else ""))
    caption = (
        "usable: every draw finite and the posterior-mean test loss at most 5 % above its value at "
        f"h = {task.small_step:g}; A = {steps[0]['friction']:g}; found by bisection to 10 %"
    )
    return Table(f"{task.title}: largest usable step", [LABELS[cell["sampler"]] for cell in steps], [row], caption)


def _time_table(task: Task, mine: Cells) -> Table:
    entries = []
    for method in task.methods:
        seconds = [cell["seconds_per_step"] for cell in mine if cell["sampler"] == method]
        whole = [c["seconds_per_step"] for c in mine if c["sampler"] == method and c["first_bad_step"] is None]
        entries.append(Entry(f"{1e6 * median(whole or seconds):.0f}"))
    caption = f"median over cells, compilation within; {task.workers} cells at a time"
    return Table(f"{task.title}: microseconds a step", [LABELS[method] for method in task.methods], [entries], caption)


def figure(tasks: Sequence[Task], found: Cells, curve: str) -> Any:
    """One row a task, one panel a step size."""
    ylabel, yscale = CURVES[curve]
    rows = [[_panel(task, h, found, curve) for h in task.step_sizes] for task in tasks]
    return plots.draw(rows, "passes over the data", ylabel, yscale=yscale)


def _panel(task: Task, h: float, found: Cells, curve: str) -> plots.Panel:
    groups = grouped(of_task(found, task))
    lines = []
    bad: dict[str, dict[float, int]] = defaultdict(dict)
    for friction in task.frictions:
        for method in task.methods:
            group = groups[method, h, friction]
            steps = [cell["first_bad_step"] for cell in group if cell["first_bad_step"] is not None]
            if steps:
                bad[method][friction] = min(steps)
            elif group:
                lines.append(_line(f"{LABELS[method]}, A = {friction:g}", method, friction, group, curve))
    level = None
    reference = of_task(found, task, "reference")
    if reference and curve == "log_likelihood":
        level = ("NUTS", -reference[0]["metrics"]["posterior_mean_log_loss"])
    return plots.Panel(f"{task.title}\nstep size {h:g}", lines, level, _note(bad), _limits(lines, curve))


def _note(bad: dict[str, dict[float, int]]) -> str:
    """Which methods diverged, at which friction, and when first."""
    said = []
    for method, steps in bad.items():
        where = ", ".join(f"{step} (A = {friction:g})" for friction, step in steps.items())
        said.append(f"{LABELS[method]} diverged at step {where}")
    return "\n".join(said)


def _line(label: str, method: str, friction: float, group: Cells, curve: str) -> plots.Line:
    values = np.array([[math.nan if v is None else v for v in cell["curves"][curve]] for cell in group], np.float64)
    spread = values.std(axis=0, ddof=1).tolist() if len(group) > 1 else None
    return plots.Line(label, group[0]["curves"]["passes"], values.mean(axis=0).tolist(), method, friction, spread)


def _limits(lines: Sequence[plots.Line], curve: str) -> tuple[float, float] | None:
    """A range in which good curves can be told apart; what is far worse runs out of it."""
    if not lines or curve == "w2":
        return None
    ends = [line.y[-1] for line in lines]
    if curve == "error":
        return 0.0, min(1.0, 4 * max(min(ends), 0.02))
    best = max(ends)
    return 1.6 * best, 0.9 * best
