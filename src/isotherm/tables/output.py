"""The table that was given, with predictions in columns of their own, as CSV or Parquet.

The cells that were there are copied as they are: those of a CSV as the text they were, never read as numbers, dates or
formulas on the way. A cell that begins with "=" stays so; a spreadsheet may take it for a formula, which is said.
"""

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from isotherm.lib import files
from isotherm.store.arrays import open_results
from isotherm.tables import preparing, reading
from isotherm.tables import recipe as recipes
from isotherm.tables.columns import is_text, pyarrow, quote
from isotherm.tables.model import Predicted, build, predictions
from isotherm.tables.recipe import Recipe

if TYPE_CHECKING:
    from pyarrow import Array, Table

BATCH_ROWS = 1 << 16  # that are written at a time
PREDICTION_DIGITS = 7  # of predictions, and of numbers that were not text before


def place_beside(table: Path) -> Path:
    """Return the file for predictions, named after the table."""
    suffix = ".parquet" if table.suffix == ".parquet" else ".csv"
    return Path(f"{table.name.split('.')[0] or 'table'}-predictions{suffix}")


def predict_table(run: Path, path: Path, out: Path) -> tuple[int, list[str]]:
    """Write the table at `path` with predictions to `out`; return the number of rows, and sentences about them."""
    check_place(path, out)
    recipe, tree = recipes.read(run), open_results(run)
    table = preparing.new_rows(recipe, path)
    notes, lacking = recipe.unknown_levels(table), recipe.incomplete(table)
    if lacking.any() and recipe.missing == "error":
        raise ValueError(
            f"{path} has missing values in {lacking.sum():,} rows, the first is row {int(np.argmax(lacking)) + 1:,}; "
            "the run was made without any (--missing error): fill them in, or fit again with another rule"
        )
    if lacking.any():
        rule = "no prediction" if recipe.missing == "drop" else f"predictions by the rule {recipe.missing}"
        notes.append(f"{lacking.sum():,} of {table.rows:,} rows lack a value: they get {rule}")
    found = predictions(recipe, build(recipe), tree, recipe.encode(table))
    if recipe.missing == "drop":
        found = Predicted._make(np.where(lacking, np.nan, each.T).T for each in found)
    return table.rows, notes + write(recipe, path, out, columns(recipe, found))


def columns(recipe: Recipe, predicted: Predicted) -> dict[str, NDArray[np.generic]]:
    """Return the new columns, by name."""
    target = recipe.target
    if not target.classes:
        names = ("mean", "mean low", "mean high", "low", "high")
        values = predicted.mean, predicted.low, predicted.high, predicted.new_low, predicted.new_high
        return {f"{target.name} {name}": value for name, value in zip(names, values, strict=True)}
    aim = target.words
    known = np.asarray(np.isfinite(predicted.mean).all(axis=1))
    likeliest = np.array(target.classes, object)[np.where(known[:, None], predicted.mean, 0).argmax(axis=1)]
    likeliest[~known] = None
    found: dict[str, NDArray[np.generic]] = {f"{aim} predicted": likeliest}
    for code in range(1 if len(target.classes) == 2 else 0, len(target.classes)):
        name = f"p({aim} = {target.classes[code]})"
        found |= {name: predicted.mean[:, code], f"{name} low": predicted.low[:, code]}
        found[f"{name} high"] = predicted.high[:, code]
    return found


def write(recipe: Recipe, path: Path, out: Path, new: Mapping[str, NDArray[np.generic]]) -> list[str]:
    """Write the table at `path` with `new` columns to `out`; return what there is to say about it."""
    pa, file_type, delimiter = pyarrow(), reading.type_of(path), recipe.source.delimiter
    if file_type == "csv":  # each cell as the text that it is
        table = reading.read_csv(path, delimiter, verbatim=True)
    else:
        table = reading.arrow_table(path, file_type)
    if taken := set(new) & set(table.column_names):
        raise ValueError(f"{path} has a column {quote(taken.pop())} already, which is what a new one would be called")
    for name, values in new.items():
        kind = pa.string() if values.dtype == object else pa.float64()
        lacks = np.array([value is None for value in values]) if values.dtype == object else np.isnan(values)
        table = table.append_column(name, pa.array(values, kind, mask=lacks))
    with files.replacing(out, durable=False) as partial:
        if out.suffix == ".parquet":
            from pyarrow import parquet

            parquet.write_table(table, partial)
        else:
            form = reading.csv_form(path, delimiter) if file_type == "csv" else reading.CsvForm(",", ".", [])
            write_csv(table, partial, form.mark, form.point)
    return [] if out.suffix == ".parquet" else formulas(table, out)


def check_place(path: Path, out: Path) -> None:
    """Refuse a place that cannot be written to, before any work."""
    if out.suffix not in (".csv", ".tsv", ".txt", ".parquet"):
        raise ValueError(f"--out must end in .csv or .parquet, got {str(out)!r}")
    if out.exists() and path.exists() and out.samefile(path):
        raise ValueError(f"--out must be another file than the table, got {str(out)!r} for both")
    if not out.absolute().parent.is_dir():
        raise ValueError(f"--out {str(out)!r} cannot be made: there is no folder {str(out.absolute().parent)!r}")


def write_csv(table: "Table", path: Path, delimiter: str, point: str = ".") -> None:
    """Write cells with quotes only where they must be, which pyarrow's own writer does not do."""
    with open(path, "x", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter=delimiter, lineterminator="\n")
        writer.writerow(table.column_names)
        for batch in table.to_batches(BATCH_ROWS):
            writer.writerows(zip(*(cells(column, point) for column in batch.columns), strict=True))


def cells(column: "Array", point: str) -> list[object]:
    values = column.to_pylist()
    if not pyarrow().types.is_floating(column.type):
        return ["" if value is None else value for value in values]
    return ["" if value is None else f"{value:.{PREDICTION_DIGITS}g}".replace(".", point) for value in values]


def formulas(table: "Table", out: Path) -> list[str]:
    """Return a sentence, if there are cells that a spreadsheet would take for formulas."""
    from pyarrow import compute

    texts = [table.column(name) for name in table.column_names if is_text(table.column(name).type)]
    count = sum(compute.sum(compute.match_substring_regex(each, "^[=@]")).as_py() or 0 for each in texts)
    if not count:
        return []
    return [
        f"{count:,} cells of {out} begin with = or @, as they did in the tables: a spreadsheet would take them for "
        "formulas; import such columns as text"
    ]
