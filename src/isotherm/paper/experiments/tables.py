"""The tables of an experiment: what they show, their captions, and when a value is bold or shaded."""

import math
import tomllib
from collections.abc import Callable, Sequence
from importlib.resources import files
from itertools import product
from statistics import median

from isotherm.lib.types import Json
from isotherm.paper.experiments import largest_step, results
from isotherm.paper.experiments.results import Entries, Groups
from isotherm.paper.experiments.tasks import LABELS, PaperTask
from isotherm.report.html import Entry, Table

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
    "checked_variance": "variance over the posterior's, as isotherm.check finds it without a reference",
    "checked_mean_error": "error of the mean, as isotherm.check finds it without a reference",
}
# The paper's numbers, expected log losses: rows by data set.
PRINTED = tomllib.loads(files("isotherm.paper.experiments").joinpath("printed.toml").read_text(encoding="utf-8"))
IDEAL = {"variance_ratio": 1.0, "checked_variance": 1.0}
LOWEST = ("w2", "calibration_error", "mean_error", "checked_mean_error")  # best is zero
VERDICTS = (
    "What isotherm.check says of the draws after burn-in, which knows nothing of the reference: ok, or which lines are "
    "bad. A run is one chain."
)
SHADES = (("near", 0.01), ("close", 0.05), ("off", 0.2), ("far", math.inf))  # report.SHADES, and up to which distance


def of_task(task: PaperTask, entries: Entries) -> list[Table]:
    """Make a table of every metric the cells have; then of verdicts, largest steps and times."""
    cells, searches = results.of_task(entries, task), results.of_task(entries, task, "largest_step")
    groups, reference = results.by_setting(cells), results.reference_metrics(entries, task)
    shortened = max(results.passes(cells)) < task.passes
    metrics = dict.fromkeys(name for cell in cells for name in cell["metrics"])

    def verdicts(friction: float, h: float) -> list[Entry]:
        return [_verdict(groups[method, h, friction]) for method in task.methods]

    tables = [_metric_table(task, name, groups, reference, shortened) for name in metrics]
    if any(cell.get("check") for cell in cells):
        tables.append(_by_setting(task, "whether to believe the draws", verdicts, VERDICTS))
    if searches:
        tables.append(_largest_step_table(task, searches))
    return [*tables, _time_table(task, cells)]


def settings(task: PaperTask, entries: Entries) -> Json:
    """Return what the report prints as the settings of a task."""
    cells = results.of_task(entries, task)
    return {
        **{name: getattr(task, name) for name in ("dataset", "step_sizes", "frictions")},
        "samplers": task.methods,
        "seeds": sorted({cell["seed"] for cell in cells}),
        "passes": results.passes(cells),
        **{name: getattr(task, name) for name in ("batch_size", "burn_in", "thin", "notes")},
    }


def _by_setting(task: PaperTask, title: str, row: Callable[[float, float], Sequence[Entry]], caption: str) -> Table:
    """Make a table with a column a method, and a row of entries for each friction and step size."""
    settings = [(friction, h) for friction in task.frictions for h in task.step_sizes]
    rows = [[Entry(f"A = {friction:g}, h = {h:g}"), *row(friction, h)] for friction, h in settings]
    return Table(f"{task.title}: {title}", ["", *(LABELS[method] for method in task.methods)], rows, caption)


def _metric_table(task: PaperTask, metric: str, groups: Groups, reference: dict[str, float], shortened: bool) -> Table:
    printed = printed_losses(task.dataset) if metric == "expected_log_loss" else {}
    ideal = None if metric in LOWEST else IDEAL.get(metric, reference.get(metric))

    def row(friction: float, h: float) -> list[Entry]:
        averages = {method: results.average(groups[method, h, friction], metric) for method in task.methods}
        numbers = [value for value, _ in averages.values() if not math.isnan(value)]
        best = min(numbers, key=lambda value: abs(value - (ideal or 0.0)), default=math.nan)
        entries = []
        for method, (value, spread) in averages.items():
            setting = method, h, friction
            detail = _beside_paper(value, printed[setting], shortened) if setting in printed else ""
            diverged = results.first_divergence(groups[setting])
            entries.append(_entry(value, spread, detail, diverged, _shade(value, ideal), value == best))
        return entries

    return _by_setting(task, METRICS.get(metric, metric), row, _caption(metric, reference, bool(printed), shortened))


def printed_losses(dataset: str) -> dict[tuple[str, float, float], float]:
    """Return every number that the paper prints for a data set, by (method, step size, friction)."""
    columns = list(product((1.0, 10.0), ("sghmc", "sgnht", "ccadl", "mccadl")))
    return {
        (method, step_size, friction): loss
        for step_size, *row in PRINTED.get(dataset, ())
        for (friction, method), loss in zip(columns, row, strict=True)
    }


def _caption(metric: str, reference: dict[str, float], printed: bool, shortened: bool) -> str:
    sentences = []
    if metric in reference:
        error = reference.get(f"{metric}_standard_error")
        own = f" ± {error:.4f} (its own error)" if error else ""
        sentences.append(f"Reference (NUTS): {reference[metric]:.4f}{own}.")
    if printed:
        how_far = "not comparable with this quick run" if shortened else "and by how much ours is above or below it"
        sentences.append(f"Small print: the paper's value, {how_far}.")
    return " ".join(sentences)


def _beside_paper(value: float, printed: float, shortened: bool) -> str:
    """Return the paper's value; ours as a percentage of it only after a run of full length."""
    if shortened or not math.isfinite(printed) or math.isnan(value):
        return f"paper {_number(printed)}"
    return f"paper {_number(printed)} ({100 * (value / printed - 1):+.1f} %)"


def _entry(value: float, spread: float, detail: str, diverged: int | None, shade: str, best: bool) -> Entry:
    if diverged is not None:
        return Entry(f"NaN, step {diverged}", detail, "diverged")
    if math.isnan(value):
        return Entry("–", detail)
    return Entry(_number(value) + (f" ± {_number(spread)}" if spread else ""), detail, shade, best)


def _shade(value: float, ideal: float | None) -> str:
    if not ideal or math.isnan(value):
        return ""
    return next(shade for shade, most in SHADES if abs(value / ideal - 1) <= most)


def _number(value: float) -> str:
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Inf"
    return f"{value:.4f}" if abs(value) < 1000 else f"{value:.3g}"


def _verdict(group: Entries) -> Entry:
    """Sum up the verdicts on the seeds of a setting."""
    if (diverged := results.first_divergence(group)) is not None:
        return Entry(f"NaN, step {diverged}", "", "diverged")
    said = [cell["check"] for cell in group if cell.get("check")]
    if not said:
        return Entry("–")
    good = sum(check["good"] for check in said)
    bad = ", ".join(dict.fromkeys(line for check in said for line in check["bad"]))
    words = "ok" if good == len(said) else "bad" if not good else f"{good} of {len(said)} ok"
    return Entry(words, bad, "good" if good == len(said) else "bad")


def _largest_step_table(task: PaperTask, searches: Entries) -> Table:
    step_sizes = {search["sampler"]: search["metrics"]["largest_usable_step"] for search in searches}
    of_ccadl = step_sizes.get("ccadl")
    row = []
    for search in searches:
        value = step_sizes[search["sampler"]]
        text = "none" if value is None else f"{'≥ ' if search['at_limit'] else ''}{value:.2e}"
        row.append(Entry(text, f"{value / of_ccadl:.1f} × CCAdL's" if value and of_ccadl else ""))
    caption = (
        "Usable: every draw is finite and the test loss of the posterior mean is at most "
        f"{100 * largest_step.TOLERANCE:g} % above its value at h = {task.small_step:g}; "
        f"A = {searches[0]['friction']:g}. Found by bisection to {100 * (largest_step.PRECISION - 1):.0f} %."
    )
    return Table(f"{task.title}: largest usable step", [LABELS[method] for method in step_sizes], [row], caption)


def _time_table(task: PaperTask, cells: Entries) -> Table:
    row = []
    for method in task.methods:
        mine = [cell for cell in cells if cell["sampler"] == method]
        finite = [cell for cell in mine if cell["first_bad_step"] is None]
        row.append(Entry(f"{1e6 * median(cell['seconds_per_step'] for cell in finite or mine):.0f}"))
    caption = f"Median over cells, with compilation; {task.workers} cells at a time."
    return Table(f"{task.title}: microseconds a step", [LABELS[method] for method in task.methods], [row], caption)
