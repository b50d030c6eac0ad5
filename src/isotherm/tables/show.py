"""What a run of a table found, shown: as tables in the terminal, and as a part of its report."""

from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from isotherm.report import html, plots, report
from isotherm.tables.columns import plain
from isotherm.tables.recipe import Recipe
from isotherm.tables.results import Coefficient, Score, TableResults, reliability

WIDE = 120  # characters of a line in a file or a pipe
PRINTED_NUMBERS = 30  # coefficients of numbers: the strongest, if there are more
PRINTED_LEVELS = 3  # at either end of a column's
PAGE_STRONGEST = 30  # coefficients before one has to ask for all
PAGE_ALL = 3000  # that a page holds
SCORE_HEADS = ["", "held-out rows", "without any column", "what it is"]
CALIBRATION = (
    "Held-out rows by predicted probability, ± 2 standard errors: on the dashed line, probabilities are what they say."
)


def coefficient_heads(recipe: Recipe) -> list[str]:
    ends = (f"{50 * (1 - recipe.interval):.3g} %", f"{50 * (1 + recipe.interval):.3g} %")
    classes = ["class"] if recipe.target.several else []
    return ["", *classes, "mean", "s.d.", *ends, *(["rows"] if recipe.levels else [])]


def coefficient_row(recipe: Recipe, each: Coefficient) -> list[str]:
    numbers = [f"{value:.4g}" for value in (each.mean, each.deviation, each.low, each.high)]
    classes = [plain(each.of)] if recipe.target.several else []
    rows = [f"{each.rows:,}" if each.rows else ""] if recipe.levels else []
    return [plain(each.name), *classes, *numbers, *rows]


def score_row(score: Score) -> list[str]:
    return [score.name, f"{score.value:.4g}", "" if score.average is None else f"{score.average:.4g}", score.words]


def meaning(recipe: Recipe) -> str:
    """Return what a coefficient is, in a sentence or two."""
    aim = plain(recipe.target.name)
    what = {
        "gaussian": f"{aim} changes",
        "bernoulli": f"the log odds of {aim} {plain(' '.join(recipe.target.classes[1:]))} change",
        "categorical": "the log odds of the class, against the average class, change",
        "poisson": f"the logarithm of the mean of {aim} changes",
    }[recipe.target.family]
    levels = " A level is compared with the average row." if recipe.levels else ""
    return f"A coefficient says by how much {what} with one unit of the column, all others being equal.{levels}"


def write_report(found: TableResults, path: Path) -> None:
    """Write the page about a run, with the parts that a table has beside."""
    title = f"{found.recipe.model} model of {plain(found.recipe.target.name)}"
    title = title[0].upper() + title[1:]
    report.write(found.tree, found.verdict, path, names=found.names, found=section(found), title=title)


def print_results(found: TableResults) -> None:
    """Print tables in the terminal. Texts are shown as they are: rich's markup is not read in them."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=WIDE)  # into a file or a pipe
    console.print(Group(*_parts(found)), highlight=False)


def _parts(found: TableResults) -> Iterator[RenderableType]:
    yield Text(found.words)
    if found.coefficients:
        yield Text("")
        grid = _grid(coefficient_heads(found.recipe), left=1 + bool(found.recipe.target.several))
        for each in choose(found.coefficients):
            if isinstance(each, str):
                grid.add_row(Text(each, style="dim"))
            else:
                grid.add_row(*map(Text, coefficient_row(found.recipe, each)))
        yield grid
        yield Text(meaning(found.recipe), style="dim")
    if found.scores:
        yield Text("")
        grid = _grid(SCORE_HEADS[:3], left=1)
        grid.add_column("")
        for score in found.scores:
            grid.add_row(*map(Text, map(plain, score_row(score))))
        yield grid
    yield Text("")
    yield Text(found.verdict.summary, style="bold green" if found.verdict else "bold red")
    for line in found.verdict.table:
        if not line.good:
            yield Text(str(line))


def _grid(heads: Sequence[str], left: int) -> Table:
    """Return an empty table, of whose columns the first `left` hold words and the others numbers."""
    grid = Table(box=None, pad_edge=False, header_style="bold")
    for place, head in enumerate(heads):
        grid.add_column(head, justify="right" if place >= left else "left")
    return grid


def choose(coefficients: Sequence[Coefficient]) -> Iterator[Coefficient | str]:
    """Choose all that is not a level, or the strongest; of each column's levels the greatest and the least; and a line
    where some are not shown."""
    yield from (each for each in coefficients if each.kind == "intercept")
    numbers = [each for each in coefficients if each.kind == "number"]
    if len(numbers) <= PRINTED_NUMBERS:
        yield from numbers
    else:
        yield from sorted(numbers, key=lambda each: -each.strength)[:PRINTED_NUMBERS]
        yield f"… {len(numbers) - PRINTED_NUMBERS:,} that are nearer to zero, in the report"
    columns = dict.fromkeys((each.column, each.of) for each in coefficients if each.kind == "level")
    for column, of in columns:
        levels = [each for each in coefficients if each.kind == "level" and (each.column, each.of) == (column, of)]
        levels.sort(key=lambda each: -each.mean)
        if len(levels) <= 2 * PRINTED_LEVELS + 1:
            yield from levels
        else:
            yield from levels[:PRINTED_LEVELS]
            yield f"… {len(levels) - 2 * PRINTED_LEVELS:,} levels between, in the report"
            yield from levels[-PRINTED_LEVELS:]
    yield from (each for each in coefficients if each.kind == "sigma")


def section(found: TableResults) -> str:
    """Return the part of a report about predictions, calibration and coefficients, as HTML."""
    notes = "".join(f"<li>{escape(note)}</li>" for note in found.recipe.notes)
    scores = "<p>No rows were held out, so nothing is said of how well new rows are predicted.</p>"
    if found.scores:
        scores = html.texts(SCORE_HEADS, [score_row(score) for score in found.scores], "numbers")
    calibration = ""
    if found.probabilities is not None and found.y is not None:
        png = plots.reliability(*reliability(found.probabilities, found.y))
        calibration = f"<h3>Calibration</h3>{html.pictures('', [('calibration', png)], CALIBRATION)}"
    words = f"<p>{escape(found.words)}</p><ul>{notes}</ul>"
    return f"<h2>Predictions</h2>{words}{scores}{calibration}<h2>Coefficients</h2>{_coefficients(found)}"


def _coefficients(found: TableResults) -> str:
    recipe, all_of = found.recipe, found.coefficients
    if not all_of:
        return "<p>There are none to read in a network.</p>"

    def table(some: Sequence[Coefficient]) -> str:
        return html.texts(coefficient_heads(recipe), [coefficient_row(recipe, each) for each in some], "numbers")

    note = html.note(meaning(recipe))
    if len(all_of) <= PAGE_STRONGEST:
        return f"{note}{table(all_of)}"
    strongest = sorted(all_of, key=lambda each: -each.strength)[:PAGE_STRONGEST]
    left = f" of {len(all_of):,}; the strongest come first in the table above" if len(all_of) > PAGE_ALL else ""
    return (
        f"{note}<p>The {PAGE_STRONGEST} furthest from zero, in their standard deviations:</p>{table(strongest)}"
        f"<details><summary>{min(len(all_of), PAGE_ALL):,} coefficients{left}</summary>{table(all_of[:PAGE_ALL])}"
        "</details>"
    )
