"""What a run of a table found, as a part of its report: predictions, calibration, coefficients."""

from collections.abc import Sequence
from html import escape

from isotherm.report import html, plots
from isotherm.report.html import Entry, Table
from isotherm.tables.columns import plain
from isotherm.tables.recipe import Recipe
from isotherm.tables.results import Found
from isotherm.tables.summary import Coefficient, reliability

SHOWN = 30  # coefficients before one has to ask for all
MOST = 3000  # that a page holds
CALIBRATION = (
    "Held-out rows by predicted probability, ± 2 standard errors: on the dashed line, probabilities are what they say."
)


def section(found: Found) -> str:
    recipe = found.recipe
    notes = "".join(f"<li>{escape(note)}</li>" for note in recipe.notes)
    words = f"<p>{escape(found.words)}</p><ul>{notes}</ul>"
    return (
        f"<h2>Predictions</h2>{words}{_scores(found)}{_calibration(found)}{_coefficients(recipe, found.coefficients)}"
    )


def _scores(found: Found) -> str:
    if not found.scores:
        return "<p>No rows were held out, so nothing is said of how well new rows are predicted.</p>"
    rows = [
        [
            Entry(score.name),
            Entry(f"{score.value:.4g}"),
            Entry("" if score.average is None else f"{score.average:.4g}"),
            Entry(score.words),
        ]
        for score in found.scores
    ]
    return html.table(Table("", ["", "held-out rows", "without any column", "what it is"], rows), "numbers")


def _calibration(found: Found) -> str:
    if found.probabilities is None or found.y is None:
        return ""
    picture = html.image(plots.reliability(*reliability(found.probabilities, found.y)), "calibration")
    return (
        f'<h3>Calibration</h3><figure><div class="side-by-side">{picture}</div>'
        f"<figcaption>{escape(CALIBRATION)}</figcaption></figure>"
    )


def _coefficients(recipe: Recipe, coefficients: Sequence[Coefficient]) -> str:
    if not coefficients:
        return "<h2>Coefficients</h2><p>There are none to read in a network.</p>"
    strongest = sorted(coefficients, key=lambda each: -each.strength)[:SHOWN]
    note = html.note(meaning(recipe))
    if len(coefficients) <= SHOWN:
        return f"<h2>Coefficients</h2>{note}{_table(recipe, coefficients)}"
    left = f" of {len(coefficients):,}; the strongest come first in the table above" if len(coefficients) > MOST else ""
    return (
        f"<h2>Coefficients</h2>{note}<p>The {SHOWN} furthest from zero, in their standard deviations:</p>"
        f"{_table(recipe, strongest)}<details><summary>{min(len(coefficients), MOST):,} coefficients{left}</summary>"
        f"{_table(recipe, coefficients[:MOST])}</details>"
    )


def _table(recipe: Recipe, coefficients: Sequence[Coefficient]) -> str:
    several = recipe.target.family == "categorical"
    low, high = interval_heads(recipe)
    heads = ["", *(["class"] if several else []), "mean", "s.d.", low, high, *(["rows"] if recipe.levels else [])]
    rows = [
        [
            Entry(plain(each.name)),
            *([Entry(plain(each.of))] if several else []),
            *(Entry(f"{value:.4g}") for value in (each.mean, each.deviation, each.low, each.high)),
            *([Entry(f"{each.rows:,}" if each.rows else "")] if recipe.levels else []),
        ]
        for each in coefficients
    ]
    return html.table(Table("", heads, rows), "numbers")


def interval_heads(recipe: Recipe) -> tuple[str, str]:
    """The ends of the intervals, such as 2.5 % and 97.5 %."""
    return f"{50 * (1 - recipe.interval):.3g} %", f"{50 * (1 + recipe.interval):.3g} %"


def meaning(recipe: Recipe) -> str:
    """What a coefficient is, in a sentence or two."""
    aim = plain(recipe.target.name)
    what = {
        "gaussian": f"{aim} changes",
        "bernoulli": f"the log odds of {aim} {plain(' '.join(recipe.target.classes[1:]))} change",
        "categorical": "the log odds of the class, against the average class, change",
        "poisson": f"the logarithm of the mean of {aim} changes",
    }[recipe.target.family]
    levels = " A level is compared with the average row." if recipe.levels else ""
    return f"A coefficient says by how much {what} with one unit of the column, all others being equal.{levels}"
