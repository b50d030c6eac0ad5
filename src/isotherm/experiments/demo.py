"""`isotherm demo`: linear regression with its exact posterior, every method at a small and a large step."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from isotherm import plots
from isotherm.experiments.linear_regression import TASK
from isotherm.experiments.run import run
from isotherm.experiments.runner import divergence_is_data
from isotherm.experiments.settings import LABELS, METHODS, Cell

STEP_SIZES = (1e-3, 5e-3)
PASSES = 300  # a minute on two cores; SGNHT at the large step diverges only after about 490
ORDER = tuple(reversed(METHODS))  # ours first
CELLS = [Cell(method, step_size, 1.0, 0) for step_size in STEP_SIZES for method in ORDER]
WORDS = (
    "Bayesian linear regression, N = 10,000 rows, d = 100 parameters, batches of n = 500, friction A = 1.\n"
    f"2-Wasserstein distance of the draws to the exact posterior after {PASSES} passes, the first fifth dropped; "
    "0 is perfect."
)
Found = Sequence[tuple[Cell, dict[str, Any]]]


def results() -> Iterator[tuple[Cell, dict[str, Any]]]:
    """Each cell with its result, as it is done."""
    materials = TASK.load(None)
    for cell in CELLS:
        with divergence_is_data():
            result = run(TASK, materials, cell, PASSES)
        yield cell, result


def table(found: Found) -> Any:
    """Distances, a method a row, a step size a column, the smallest of each column in bold."""
    from rich.table import Table

    shown = Table("sampler", *(f"step size {h:g}" for h in STEP_SIZES))
    by_cell = dict(found)
    for method in ORDER:
        shown.add_row(LABELS[method], *(_said(Cell(method, h, 1.0, 0), by_cell) for h in STEP_SIZES))
    return shown


def _said(cell: Cell, by_cell: dict[Cell, dict[str, Any]]) -> str:
    result = by_cell[cell]
    if result["first_bad_step"] is not None:
        return f"[red]diverged at step {result['first_bad_step']}[/red]"
    distance = result["metrics"]["w2"]
    others = [r["metrics"]["w2"] for other, r in by_cell.items() if other.step_size == cell.step_size]
    best = min(value for value in others if value is not None)
    return f"[bold green]{distance:.4f}[/bold green]" if distance == best else f"{distance:.4f}"


def figure(found: Found, path: Path) -> Path:
    """Distance against passes, one panel a step size."""
    panels = []
    for h in STEP_SIZES:
        here = [(cell, result) for cell, result in found if cell.step_size == h]
        lines = [
            plots.Line(LABELS[cell.method], result["curves"]["passes"], result["curves"]["w2"], cell.method)
            for cell, result in here
            if result["first_bad_step"] is None
        ]
        gone = [
            f"{LABELS[cell.method]} diverged at step {result['first_bad_step']}"
            for cell, result in here
            if result["first_bad_step"] is not None
        ]
        panels.append(plots.Panel(f"step size {h:g}", lines, note="\n".join(gone)))
    drawn = plots.draw([panels], "passes over the data", "2-Wasserstein distance", yscale="log")
    return plots.save(drawn, path)
