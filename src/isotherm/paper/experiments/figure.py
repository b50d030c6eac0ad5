"""The figure of an experiment: which curves it shows against passes, within which limits, and its caption.

Colours, markers and fonts are in report/plots.py.
"""

import math
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from isotherm.paper.experiments import plots, results
from isotherm.paper.experiments.report import Picture
from isotherm.paper.experiments.results import Entries
from isotherm.paper.experiments.tasks import LABELS, Task

CURVES = {
    "w2": ("2-Wasserstein distance", "log"),
    "log_likelihood": ("test log-likelihood of the\nposterior mean (nats an example)", "linear"),
    "error": ("test error of the\nposterior mean", "linear"),
}
Limits = tuple[float, float] | None


def write(name: str, title: str, tasks: Sequence[Task], curve: str, entries: Entries, folder: Path) -> Picture:
    """One row a task, one panel a step size."""
    ylabel, yscale = CURVES[curve]
    rows = [_row(task, curve, entries) for task in tasks]
    figure = plots.draw(rows, "passes over the data", ylabel, yscale=yscale)
    return save(figure, folder, name, _caption(title, rows))


def save(figure: Any, folder: Path, name: str, caption: str) -> Picture:
    """Write a figure as PDF and PNG; the PNG is what the report shows."""
    plots.save(figure, folder / f"{name}.pdf")
    return Picture(plots.save(figure, folder / f"{name}.png"), caption)


def _caption(title: str, rows: Sequence[Sequence[plots.Panel]]) -> str:
    panels = [panel for row in rows for panel in row]
    banded = any(line.spread is not None for panel in panels for line in panel.lines)
    bands = "A line is the mean over seeds, the band around it ± one standard deviation over seeds."
    sentences = [f"{title}.", bands if banded else "One seed: no bands."]
    if any(panel.level is not None for panel in panels):
        sentences.append("Dotted: the reference, NUTS on all the data.")
    if any(panel.note for panel in panels):
        sentences.append("Above a panel: which methods diverged, and which curves lie outside its axes at the end.")
    return " ".join(sentences)


def _row(task: Task, curve: str, entries: Entries) -> list[plots.Panel]:
    """The panels of one task, which share a vertical axis."""
    groups = results.by_setting(results.of_task(entries, task))
    reference = results.reference_metrics(entries, task)
    level = ("NUTS", -reference["posterior_mean_log_loss"]) if reference and curve == "log_likelihood" else None
    settings = [(method, friction) for friction in task.frictions for method in task.methods]
    lines: dict[float, list[plots.Line]] = {}
    diverged: dict[float, dict[tuple[str, float], int]] = {}
    for h in task.step_sizes:
        steps = {(m, a): results.first_divergence(groups[m, h, a]) for m, a in settings if groups[m, h, a]}
        diverged[h] = {setting: step for setting, step in steps.items() if step is not None}
        lines[h] = [_line(m, a, groups[m, h, a], curve) for (m, a), step in steps.items() if step is None]
    limits = _limits([line for h in task.step_sizes for line in lines[h]], curve)
    return [
        plots.Panel(f"{task.title}\nstep size {h:g}", lines[h], level, _note(diverged[h], lines[h], limits), limits)
        for h in task.step_sizes
    ]


def _note(diverged: dict[tuple[str, float], int], lines: Sequence[plots.Line], limits: Limits) -> str:
    """Which methods diverged, at which friction and when first; and which curves end outside the axes."""
    sentences, outside = [], defaultdict(list)
    for method in dict.fromkeys(method for method, _ in diverged):
        steps = ", ".join(f"{step} (A = {friction:g})" for (m, friction), step in diverged.items() if m == method)
        sentences.append(f"{LABELS[method]} diverged at step {steps}")
    for line in lines:
        if limits is not None and not min(limits) <= line.y[-1] <= max(limits):
            outside[line.method].append(f"{line.friction:g}")
    if outside:
        names = (f"{LABELS[method]} (A = {', '.join(frictions)})" for method, frictions in outside.items())
        sentences.append(f"outside the axes: {', '.join(names)}")
    return "\n".join(sentences)


def _line(method: str, friction: float, group: Entries, curve: str) -> plots.Line:
    values = np.array([[math.nan if v is None else v for v in cell["curves"][curve]] for cell in group], np.float64)
    spread = values.std(axis=0, ddof=1).tolist() if len(group) > 1 else None
    label, passes = f"{LABELS[method]}, A = {friction:g}", group[0]["curves"]["passes"]
    return plots.Line(label, passes, values.mean(axis=0).tolist(), method, friction, spread)


def _limits(lines: Sequence[plots.Line], curve: str) -> Limits:
    """A range in which good curves can be told apart: from a little better than the best end to well worse than it."""
    if not lines or curve == "w2":
        return None
    ends = [line.y[-1] for line in lines]
    if curve == "error":
        return 0.0, min(1.0, 4 * max(min(ends), 0.02))  # 0.02: with hardly an error left, still up to 8 %
    return 1.6 * max(ends), 0.9 * max(ends)
