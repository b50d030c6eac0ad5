"""`isotherm demo`: linear regression with its exact posterior, every method at a small and a large step."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from isotherm.lib.optional import require
from isotherm.lib.types import Json
from isotherm.paper.experiments import plots
from isotherm.paper.experiments.catalogue import LINEAR_REGRESSION
from isotherm.paper.experiments.cell import Cell, measure
from isotherm.paper.experiments.jobs import no_run_warnings
from isotherm.paper.experiments.tasks import LABELS, METHODS

STEP_SIZES = (1e-3, 5e-3)
PASSES = 300  # a minute on two cores; SGNHT at the large step diverges only after about 490
ORDER = tuple(reversed(METHODS))  # ours first
CELLS = [Cell(method, step_size, 1.0, 0) for step_size in STEP_SIZES for method in ORDER]
INTRODUCTION = (
    "Bayesian linear regression, N = 10,000 rows, d = 100 parameters, batches of n = 500, friction A = 1.\n"
    f"2-Wasserstein distance of the draws to the exact posterior after {PASSES} passes, the first fifth dropped; "
    "0 is perfect."
)
Results = dict[Cell, Json]

if TYPE_CHECKING:
    from rich.table import Table


def run() -> Iterator[tuple[Cell, Json]]:
    """Yield each cell with its result, as it is done."""
    require("matplotlib", "plots", "the figure at the end")
    materials = LINEAR_REGRESSION.load(None)
    for cell in CELLS:
        with no_run_warnings():
            result = measure(LINEAR_REGRESSION, materials, cell, PASSES)
        yield cell, result


def table(results: Results) -> "Table":
    """Make a table of distances, a method a row, a step size a column, the smallest of each column in bold."""
    from rich.table import Table

    columns = Table("sampler", *(f"step size {h:g}" for h in STEP_SIZES))
    distances = {cell: result["metrics"]["w2"] for cell, result in results.items()}
    best = {h: min(w2 for cell, w2 in distances.items() if cell.step_size == h and w2 is not None) for h in STEP_SIZES}

    def text(cell: Cell) -> str:
        if results[cell]["first_bad_step"] is not None:
            return f"[red]{_divergence(results[cell])}[/red]"
        style = "[bold green]" if distances[cell] == best[cell.step_size] else ""
        return f"{style}{distances[cell]:.4f}"

    for method in ORDER:
        columns.add_row(LABELS[method], *(text(Cell(method, h, 1.0, 0)) for h in STEP_SIZES))
    return columns


def figure(results: Results, path: Path) -> Path:
    """Draw distance against passes, one panel a step size."""
    panels = []
    for h in STEP_SIZES:
        here = [(LABELS[cell.method], cell.method, result) for cell, result in results.items() if cell.step_size == h]
        lines = [
            plots.Curve(label, result["curves"]["passes"], result["curves"]["w2"], method)
            for label, method, result in here
            if result["first_bad_step"] is None
        ]
        diverged = [f"{label} {_divergence(r)}" for label, _, r in here if r["first_bad_step"] is not None]
        panels.append(plots.Panel(f"step size {h:g}", lines, note="\n".join(diverged)))
    drawn = plots.draw([panels], "passes over the data", "2-Wasserstein distance", yscale="log")
    return plots.save(drawn, path)


def _divergence(result: Json) -> str:
    return f"diverged at step {result['first_bad_step']}"
