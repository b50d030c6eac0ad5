"""How figures look, also in grey: a method has a colour and a marker, a friction a line style."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from isotherm.lib import files
from isotherm.lib.optional import extra
from isotherm.report.plots import STYLE

COLOURS = {
    "mccadl-known": "#009E73",
    "mccadl-own": "#D55E00",
    "sghmc": "#E69F00",
    "sgnht": "#56B4E9",
    "ccadl": "#CC79A7",
    "mccadl": "#0072B2",
    "eccadl": "#000000",
}
MARKERS = {
    "mccadl-known": "P",
    "mccadl-own": "X",
    "sghmc": "s",
    "sgnht": "^",
    "ccadl": "v",
    "mccadl": "o",
    "eccadl": "D",
}
DASHES = {1.0: "-", 10.0: "--"}  # by friction


class Line(NamedTuple):
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
    lines: Sequence[Line]
    level: tuple[str, float] | None = None
    note: str = ""
    limits: tuple[float, float] | None = None


def draw(
    rows: Sequence[Sequence[Panel]], xlabel: str, ylabel: str, xscale: str = "linear", yscale: str = "linear"
) -> Any:
    """A figure of rows of panels with one legend above; a row shares its vertical axis."""
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
        handles: dict[str, Any] = {}  # each label once, whichever panels it occurs in
        for place in axes.flat:
            handles |= {label: handle for handle, label in zip(*place.get_legend_handles_labels(), strict=True)}
        if handles:
            ncols = min(2 * columns, len(handles))
            figure.legend(handles.values(), handles.keys(), loc="outside upper center", ncols=ncols, fontsize=8)
    return figure


def _panel(axes: Any, panel: Panel, xscale: str, yscale: str) -> None:
    for line in panel.lines:
        look = {
            "color": COLOURS.get(line.method),
            "marker": MARKERS.get(line.method, "."),
            "linestyle": DASHES.get(line.friction, ":"),
            "markevery": max(1, math.ceil(len(line.x) / 8)),
        }
        axes.plot(line.x, line.y, label=line.label, **look)
        if line.spread is not None:
            floor = [abs(y) / 10 if yscale == "log" else -math.inf for y in line.y]  # a band has no logarithm below 0
            low = [max(y - s, f) for y, s, f in zip(line.y, line.spread, floor, strict=True)]
            high = [y + s for y, s in zip(line.y, line.spread, strict=True)]
            axes.fill_between(line.x, low, high, color=look["color"], alpha=0.15, linewidth=0)
    if panel.level is not None:
        axes.axhline(panel.level[1], color="0.4", linewidth=1, linestyle=":", label=panel.level[0])
    # Above the axes, where the words hide no curve.
    title = axes.set_title("\n".join(words for words in (panel.title, panel.note) if words))
    title.set_fontsize(9 if not panel.note else 8)
    axes.set(xscale=xscale, yscale=yscale)
    if panel.limits is not None:
        axes.set_ylim(*panel.limits)


def save(figure: Any, path: Path) -> Path:
    """Write the figure as `path` says (.png, .pdf, .svg), making its folder."""
    with files.replacing(path, durable=False) as partial:
        figure.savefig(partial, format=path.suffix.removeprefix("."))
    return path
