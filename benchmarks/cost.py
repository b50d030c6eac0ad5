"""How a step's time grows with n, d, N, chains and rank."""

from pathlib import Path
from typing import Any

import numpy as np

import isotherm
from contestants import isotherms
from isotherm.paper.experiments import plots
from problems import logistic
from table import Row, microseconds
from timing import turns


def cost(repeats: int, figure_path: Path) -> list[Row]:
    """How a step's time grows with n, d, chains and rank, logistic regression; and a figure of it, with N's."""
    kinds: dict[str, Any] = {
        "sgnht": isotherm.sgnht(1e-5),
        "mccadl": isotherm.mccadl(1e-5, rank=4),
        "eccadl": isotherm.eccadl(),
    }
    sweeps: dict[str, list[tuple[int, dict[str, Any]]]] = {
        "n": [(n, {"n": n}) for n in (125, 250, 500, 1000, 2000)],
        "d": [(d, {"d": d}) for d in (25, 50, 100, 200, 400)],
        "N": [(N, {"N": N}) for N in (10**4, 10**5, 10**6)],
        "chains": [(c, {"chains": c}) for c in (1, 4, 16, 64)],
    }
    rows, panels = [], []
    for sweep, points in sweeps.items():
        lines: dict[str, list[float]] = {name: [] for name in kinds}
        for value, changed in points:
            case = logistic(**{"n": 500, "d": 100, "N": 10**4} | {k: v for k, v in changed.items() if k != "chains"})
            chains, steps = changed.get("chains", 1), max(20, 1000 // changed.get("chains", 1))
            taken = turns({name: isotherms(case, s, steps, chains=chains) for name, s in kinds.items()}, repeats)
            for name, seconds in taken.items():
                lines[name].append(1e6 * float(np.median(seconds[:, 0])) / steps)
                rows.append(microseconds(f"a step of {name}, {sweep} = {value}", seconds, steps))
        drawn = [plots.Curve(name, [p[0] for p in points], y, name) for name, y in lines.items()]
        panels.append(plots.Panel(f"against {sweep}", drawn))
    case = logistic(500, 100, 10**4)
    ranks = (1, 2, 4, 6, 8, 12)
    taken = turns({str(k): isotherms(case, isotherm.mccadl(1e-5, rank=k), 1000) for k in ranks}, repeats)
    times = [1e6 * float(np.median(taken[str(k)][:, 0])) / 1000 for k in ranks]
    rows += [microseconds(f"a step of mccadl, rank = {k}", taken[str(k)], 1000) for k in ranks]
    panels.append(plots.Panel("against mccadl's rank", [plots.Curve("mccadl", ranks, times, "mccadl")]))
    figure = plots.draw([panels], "n, d, N, chains or rank", "µs a step", "log", "log")
    for axes in figure.axes:
        axes.xaxis.set_minor_formatter("")
    plots.save(figure, figure_path)
    return rows
