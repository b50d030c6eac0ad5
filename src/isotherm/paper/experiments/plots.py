"""The figures: which curves an experiment shows against passes, and how figures look, also in grey: a method has a
colour and a marker, a friction a line style.
"""

import math
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from isotherm.lib import files
from isotherm.lib.optional import extra
from isotherm.paper.experiments import results
from isotherm.paper.experiments.report import Picture
from isotherm.paper.experiments.results import Entries
from isotherm.paper.experiments.tasks import LABELS, PaperTask
from isotherm.report.plots import STYLE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LOOKS = {  # colour and marker, by method
    "mccadl-known": ("#009E73", "P"),
    "mccadl-own": ("#D55E00", "X"),
    "sghmc": ("#E69F00", "s"),
    "sgnht": ("#56B4E9", "^"),
    "ccadl": ("#CC79A7", "v"),
    "mccadl": ("#0072B2", "o"),
    "eccadl": ("#000000", "D"),
}
DASHES = {1.0: "-", 10.0: "--"}  # by friction
CURVES = {
    "w2": ("2-Wasserstein distance", "log"),
    "log_likelihood": ("test log-likelihood of the\nposterior mean (nats an example)", "linear"),
    "error": ("test error of the\nposterior mean", "linear"),
}
Limits = tuple[float, float] | None


class Curve(NamedTuple):
    """One curve; `method` and `friction` choose how it looks, `spread` is half the height of a band around it."""

    label: str
    x: Sequence[float]
    y: Sequence[float]
    method: str = ""
    friction: float = 1.0
    spread: Sequence[float] | None = None


class Panel(NamedTuple):
    """One set of axes: its title, curves, a horizontal line (label, y), a note above and the limits of its y axis."""

    title: str
    lines: Sequence[Curve]
    level: tuple[str, float] | None = None
    note: str = ""
    limits: Limits = None


def draw(
    rows: Sequence[Sequence[Panel]], xlabel: str, ylabel: str, xscale: str = "linear", yscale: str = "linear"
) -> "Figure":
    """Draw rows of panels with one legend above; a row shares its vertical axis."""
    with extra("plots", "a figure"):
        import matplotlib
        from matplotlib.figure import Figure

    with matplotlib.rc_context(STYLE):
        columns = max(len(row) for row in rows)
        figure = Figure(figsize=(3.3 * columns + 0.4, 2.7 * len(rows) + 0.7), layout="constrained")
        axes = figure.subplots(len(rows), columns, squeeze=False, sharey="row")
        for row, panels in zip(axes, rows, strict=True):
            for place, panel in zip(row, panels, strict=False):
                _panel(place, panel, xscale, yscale)
            row[0].set_ylabel(ylabel)
            for empty in row[len(panels) :]:
                empty.set_visible(False)
        for column in axes.T:
            [place for place in column if place.get_visible()][-1].set_xlabel(xlabel)
        pairs = [zip(*place.get_legend_handles_labels(), strict=True) for place in axes.flat]
        handles = {label: handle for panel in pairs for handle, label in panel}  # each label once
        if handles:
            ncols = min(2 * columns, len(handles))
            figure.legend(handles.values(), handles.keys(), loc="outside upper center", ncols=ncols, fontsize=8)
    return figure


def _panel(axes: "Axes", panel: Panel, xscale: str, yscale: str) -> None:
    for line in panel.lines:
        (colour, marker), dashes = LOOKS.get(line.method, (None, ".")), DASHES.get(line.friction, ":")
        every = max(1, math.ceil(len(line.x) / 8))
        axes.plot(line.x, line.y, label=line.label, color=colour, marker=marker, linestyle=dashes, markevery=every)
        if line.spread is not None:
            y, spread = np.array(line.y), np.array(line.spread)
            floor = abs(y) / 10 if yscale == "log" else -math.inf  # a band has no logarithm below 0
            axes.fill_between(line.x, np.maximum(y - spread, floor), y + spread, color=colour, alpha=0.15, linewidth=0)
    if panel.level is not None:
        axes.axhline(panel.level[1], color="0.4", linewidth=1, linestyle=":", label=panel.level[0])
    # Above the axes, where the words hide no curve.
    axes.set_title("\n".join(filter(None, (panel.title, panel.note))), fontsize=8 if panel.note else 9)
    axes.set(xscale=xscale, yscale=yscale)
    if panel.limits is not None:
        axes.set_ylim(*panel.limits)


def save(figure: "Figure", path: Path) -> Path:
    """Write the figure as `path` says (.png, .pdf, .svg), making its folder."""
    with files.replacing(path, durable=False) as partial:
        figure.savefig(partial, format=path.suffix.removeprefix("."))
    return path


def save_picture(figure: "Figure", folder: Path, name: str, caption: str) -> Picture:
    """Write a figure as PDF and PNG; the PNG is what the report shows."""
    save(figure, folder / f"{name}.pdf")
    return Picture(save(figure, folder / f"{name}.png"), caption)


def of_tasks(name: str, title: str, tasks: Sequence[PaperTask], curve: str, entries: Entries, folder: Path) -> Picture:
    """Draw one row a task, one panel a step size, and write it."""
    ylabel, yscale = CURVES[curve]
    rows = [_row(task, curve, entries) for task in tasks]
    drawn = draw(rows, "passes over the data", ylabel, yscale=yscale)
    return save_picture(drawn, folder, name, _caption(title, rows))


def _caption(title: str, rows: Sequence[Sequence[Panel]]) -> str:
    panels = [panel for row in rows for panel in row]
    banded = any(line.spread is not None for panel in panels for line in panel.lines)
    bands = "A line is the mean over seeds, the band around it ± one standard deviation over seeds."
    sentences = [f"{title}.", bands if banded else "One seed: no bands."]
    if any(panel.level is not None for panel in panels):
        sentences.append("Dotted: the reference, NUTS on all the data.")
    if any(panel.note for panel in panels):
        sentences.append("Above a panel: which methods diverged, and which curves lie outside its axes at the end.")
    return " ".join(sentences)


def _row(task: PaperTask, curve: str, entries: Entries) -> list[Panel]:
    """Make the panels of one task, which share a vertical axis."""
    groups = results.by_setting(results.of_task(entries, task))
    reference = results.reference_metrics(entries, task)
    level = ("NUTS", -reference["posterior_mean_log_loss"]) if reference and curve == "log_likelihood" else None
    settings = [(method, friction) for friction in task.frictions for method in task.methods]
    lines: dict[float, list[Curve]] = {}
    diverged: dict[float, dict[tuple[str, float], int]] = {}
    for h in task.step_sizes:
        steps = {(m, a): results.first_divergence(groups[m, h, a]) for m, a in settings if groups[m, h, a]}
        diverged[h] = {setting: step for setting, step in steps.items() if step is not None}
        lines[h] = [_line(m, a, groups[m, h, a], curve) for (m, a), step in steps.items() if step is None]
    limits = _limits([line for h in task.step_sizes for line in lines[h]], curve)
    return [
        Panel(f"{task.title}\nstep size {h:g}", lines[h], level, _note(diverged[h], lines[h], limits), limits)
        for h in task.step_sizes
    ]


def _note(diverged: dict[tuple[str, float], int], lines: Sequence[Curve], limits: Limits) -> str:
    """Say which methods diverged, at which friction and when first; and which curves end outside the axes."""
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


def _line(method: str, friction: float, group: Entries, curve: str) -> Curve:
    values = np.array([[math.nan if v is None else v for v in cell["curves"][curve]] for cell in group], np.float64)
    spread = values.std(axis=0, ddof=1).tolist() if len(group) > 1 else None
    label, passes = f"{LABELS[method]}, A = {friction:g}", group[0]["curves"]["passes"]
    return Curve(label, passes, values.mean(axis=0).tolist(), method, friction, spread)


def _limits(lines: Sequence[Curve], curve: str) -> Limits:
    """Choose a range that tells good curves apart: from a little better than the best end to well worse than it."""
    if not lines or curve == "w2":
        return None
    ends = [line.y[-1] for line in lines]
    if curve == "error":
        return 0.0, min(1.0, 4 * max(min(ends), 0.02))  # 0.02: with hardly an error left, still up to 8 %
    return 1.6 * max(ends), 0.9 * max(ends)
