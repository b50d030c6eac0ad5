"""What a run of a table found, as tables in the terminal."""

from collections.abc import Iterator, Sequence

from rich.console import Console, Group, RenderableType
from rich.table import Table as Grid
from rich.text import Text

from isotherm.tables.columns import plain
from isotherm.tables.recipe import Recipe
from isotherm.tables.results import Found
from isotherm.tables.section import interval_heads, meaning
from isotherm.tables.summary import Coefficient

MOST_NUMBERS = 30  # coefficients of numbers that are shown: the strongest, if there are more
WIDE = 120
ENDS = 3  # levels at either end of a column's


def show(found: Found) -> None:
    """Texts are shown as they are: rich's markup is not read in them."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=WIDE)  # into a file or a pipe
    console.print(Group(*_parts(found)), highlight=False)


def _parts(found: Found) -> Iterator[RenderableType]:
    recipe = found.recipe
    yield Text(found.words)
    if found.coefficients:
        yield Text("")
        yield _coefficients(recipe, found.coefficients)
        yield Text(meaning(recipe), style="dim")
    if found.scores:
        yield Text("")
        yield _scores(found)
    yield Text("")
    yield Text(found.verdict.summary, style="bold green" if found.verdict else "bold red")
    for line in found.verdict.table:
        if not line.good:
            yield Text(str(line))


def _scores(found: Found) -> Grid:
    grid = Grid(box=None, pad_edge=False, header_style="bold")
    for head, side in (("", "left"), ("held-out rows", "right"), ("without any column", "right"), ("", "left")):
        grid.add_column(head, justify=side)  # type: ignore[arg-type]
    for score in found.scores:
        usual = "" if score.average is None else f"{score.average:.4g}"
        grid.add_row(*map(Text, (score.name, f"{score.value:.4g}", usual, plain(score.words))))
    return grid


def _coefficients(recipe: Recipe, coefficients: Sequence[Coefficient]) -> Grid:
    several = recipe.target.family == "categorical"
    grid = Grid(box=None, pad_edge=False, header_style="bold")
    low, high = interval_heads(recipe)
    heads = ["", *(["class"] if several else []), "mean", "s.d.", low, high, *(["rows"] if recipe.levels else [])]
    for place, head in enumerate(heads):
        grid.add_column(head, justify="right" if place > several else "left")
    for each in chosen(coefficients):
        if isinstance(each, str):
            grid.add_row(Text(each, style="dim"))
            continue
        numbers = [f"{value:.4g}" for value in (each.mean, each.deviation, each.low, each.high)]
        rows = [f"{each.rows:,}" if each.rows else ""] if recipe.levels else []
        grid.add_row(*map(Text, [plain(each.name), *([plain(each.of)] if several else []), *numbers, *rows]))
    return grid


def chosen(coefficients: Sequence[Coefficient]) -> Iterator[Coefficient | str]:
    """All that is not a level, or the strongest; of each column's levels the greatest and the least; and a line where
    some are not shown."""
    yield from (each for each in coefficients if each.kind == "intercept")
    numbers = [each for each in coefficients if each.kind == "number"]
    kept = sorted(numbers, key=lambda each: -each.strength)[:MOST_NUMBERS]
    yield from numbers if len(numbers) <= MOST_NUMBERS else kept
    if len(numbers) > MOST_NUMBERS:
        yield f"… {len(numbers) - MOST_NUMBERS:,} that are nearer to zero, in the report"
    columns = dict.fromkeys((each.column, each.of) for each in coefficients if each.kind == "level")
    for column, of in columns:
        levels = [each for each in coefficients if each.kind == "level" and (each.column, each.of) == (column, of)]
        levels.sort(key=lambda each: -each.mean)
        if len(levels) <= 2 * ENDS + 1:
            yield from levels
        else:
            yield from levels[:ENDS]
            yield f"… {len(levels) - 2 * ENDS:,} levels between, in the report"
            yield from levels[-ENDS:]
    yield from (each for each in coefficients if each.kind == "sigma")
