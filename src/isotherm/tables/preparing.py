"""From options to a recipe and arrays: read, choose the columns, split the rows, encode. And, from a recipe, the same
arrays again, or those of new rows."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from isotherm.lib.types import Batch
from isotherm.tables import encoding, reading, target
from isotherm.tables.arrays import LABEL
from isotherm.tables.columns import KINDS, Column, Levels, Numbers, Table, plain, quoted
from isotherm.tables.options import MARKS, Options
from isotherm.tables.recipe import Recipe, Source

FEWEST_ROWS = 10
LISTED = 4  # columns in a sentence


class Prepared(NamedTuple):
    """The rows that are learned from, and those that are held out, if any, as arrays with the target `y`."""

    recipe: Recipe
    train: Batch
    held_out: Batch | None


def prepare(options: Options) -> Prepared:
    notes = list[str]()
    read, wanted = read_first(options)
    table = with_target_known(as_columns(read, wanted), wanted.name, options.missing, notes)
    used = used_columns(table, wanted.name, options, notes)
    table = complete(table, used, options.missing, notes)
    model, why = (options.model, "") if options.model else target.guess(wanted.name, table[wanted.name])
    if why:
        notes.insert(0, f"model {model}, as {why}; --model takes another")
    aim = target.make(wanted, table[wanted.name], model)
    source = source_of(options, read, [*used, wanted.name])
    train, held_out = split(table, source.holdout, source.seed)
    if train.rows < FEWEST_ROWS:
        raise ValueError(f"--holdout {source.holdout:g} leaves {train.rows} rows; there must be {FEWEST_ROWS} or more")
    numbers = [encoding.number_plan(n, c, options.missing) for n in used if isinstance(c := train[n], Numbers)]
    levels = [encoding.level_plan(n, c, options.missing) for n in used if isinstance(c := train[n], Levels)]
    settings = options.prior_scale, options.hidden
    recipe = Recipe(model, options.missing, *settings, aim, tuple(numbers), tuple(levels), source, options.interval)
    if options.test:
        held_out = test_rows(recipe, Path(options.test), notes)
    notes += missing_words(recipe) + ([] if held_out is None else encoding.unknown_levels(recipe, held_out))
    recipe = dataclasses.replace(recipe, notes=tuple(notes))
    return Prepared(recipe, with_y(recipe, train), None if held_out is None else with_y(recipe, held_out))


def read_first(options: Options) -> tuple[Table, target.Wanted]:
    """The table, read by the options alone, and its target."""
    path = Path(options.table)
    if options.target in options.ignore:
        raise ValueError(f"--target and --ignore both name {quoted(options.target)}")
    asked = dict.fromkeys(options.categorical, "text")
    read = reading.read(path, kinds=asked, na=options.na, delimiter=delimiter_of(options), ignore=options.ignore)
    read.require(options.categorical, "--categorical")
    return read, target.parse(target_of(options, path, read), list(read.columns), str(path))


def delimiter_of(options: Options) -> str | None:
    return MARKS.get(options.delimiter, options.delimiter) or None


def source_of(options: Options, read: Table, used: Sequence[str]) -> Source:
    origins = origins_of(used)
    return Source(
        str(Path(options.table).absolute()),
        str(Path(options.test).absolute()) if options.test else None,
        options.na,
        delimiter_of(options),
        {name: kind_of(column) for name, column in read.columns.items() if name in origins},
        0.0 if options.test else options.holdout,
        options.seed,
    )


def again(recipe: Recipe, path: Path | None = None) -> Prepared:
    """The arrays of a run, from its table, which may have been moved to `path`."""
    found = path if path is not None else Path(recipe.source.table)
    if not found.exists():
        raise ValueError(f"the table of this run, {str(found)!r}, is not there; say where it is with --data FILE")
    table = rows_with_target(recipe, found, [])
    train, held_out = split(table, recipe.source.holdout, recipe.source.seed)
    if recipe.source.test is not None and Path(recipe.source.test).exists():
        held_out = test_rows(recipe, Path(recipe.source.test), [])
    return Prepared(recipe, with_y(recipe, train), None if held_out is None else with_y(recipe, held_out))


def new_rows(recipe: Recipe, path: Path) -> Table:
    """The columns that predictions need."""
    origins = origins_of([column.name for column in recipe.columns])
    return read_by(recipe, path, [name for name in recipe.source.kinds if name in origins])


def test_rows(recipe: Recipe, path: Path, notes: list[str]) -> Table:
    table = rows_with_target(recipe, path, notes)
    classes = target.class_names(table[recipe.target.name]) if recipe.target.classes else ()
    if new := [name for name in classes if name not in recipe.target.classes]:
        raise ValueError(
            f"{path} has the class {quoted(new[0])} in {quoted(recipe.target.name)}, which the table has not"
        )
    return table


def rows_with_target(recipe: Recipe, path: Path, notes: list[str]) -> Table:
    table = read_by(recipe, path, list(recipe.source.kinds))
    table = with_target_known(table, recipe.target.name, recipe.missing, notes)
    return complete(table, [column.name for column in recipe.columns], recipe.missing, notes)


def read_by(recipe: Recipe, path: Path, only: Sequence[str]) -> Table:
    source, name = recipe.source, recipe.target.name
    indices = [int(column) for column in source.kinds if column.isdecimal()]
    read = reading.read(
        path,
        kinds={column: kind for column, kind in source.kinds.items() if column in only},
        na=source.na,
        delimiter=source.delimiter,
        only=only,
        features=max(indices, default=0),
    )
    wanted = target.parse(f"{name} {recipe.target.threshold}".strip(), [name], str(path))
    return as_columns(read, wanted)


def origins_of(columns: Sequence[str]) -> set[str]:
    """Possible names of the file's columns that these columns were made from."""
    return {*columns, *(name.removesuffix(part) for name in columns for part in reading.PARTS)}


def with_y(recipe: Recipe, table: Table) -> Batch:
    y = target.encoded(recipe.target, table[recipe.target.name])
    return {**encoding.arrays(recipe, table), "y": y}


def target_of(options: Options, path: Path, table: Table) -> str:
    if options.target:
        return options.target
    if reading.type_of(path) == "libsvm":
        return LABEL
    raise ValueError(f"--target must be given: the column to predict, one of {', '.join(map(quoted, table.columns))}")


def as_columns(read: Table, wanted: target.Wanted) -> Table:
    """The table with the target compared, and times as numbers and levels."""
    columns = dict(read.columns)
    if wanted.name in columns:
        columns[wanted.name] = target.compared(columns[wanted.name], wanted)
    return reading.with_times_as_columns(Table(read.source, columns, read.rows))


def with_target_known(table: Table, name: str, rule: str, notes: list[str]) -> Table:
    missing = table[name].is_missing()
    if not missing.any():
        return table
    count = int(missing.sum())
    if count == table.rows:
        raise ValueError(f"the target {quoted(name)} has no values at all")
    if rule == "error":
        raise ValueError(
            f"the target {quoted(name)} is missing in {count:,} of {table.rows:,} rows; any rule of --missing (mean, "
            "indicator, drop) leaves these rows out"
        )
    notes.append(f"{count:,} of {table.rows:,} rows are left out: they have no {plain(name)}")
    return table.take(np.flatnonzero(~missing))


def used_columns(table: Table, aim: str, options: Options, notes: list[str]) -> list[str]:
    """The columns to learn from."""
    used, constant = list[str](), list[str]()
    for name, column in table.columns.items():
        if name == aim:
            continue
        derived = any(name.endswith(part) and name.removesuffix(part) in table.columns for part in reading.PARTS)
        try:
            reason = encoding.why_not(name, column, name in options.categorical)
        except encoding.ConstantColumn:
            if not (derived or options.ignore_constant):
                raise
            constant.append(plain(name))
            continue
        if reason:
            notes.append(f"{plain(name)} is left out: {reason}")
        else:
            used.append(name)
    if constant:
        notes.append(f"left out, as they are the same in every row: {listed(constant)}")
    if not used:
        raise ValueError(f"{table.source} has no column to learn from beside the target")
    return used


def complete(table: Table, used: Sequence[str], rule: str, notes: list[str]) -> Table:
    """The table without rows that lack a value, if the rule is to drop them; refused, if there may be none."""
    missing = {name: table[name].is_missing() for name in used}
    counts = {name: int(where.sum()) for name, where in missing.items() if where.any()}
    if rule == "error" and counts:
        words = listed([f"{plain(name)} ({count:,} rows)" for name, count in counts.items()])
        raise ValueError(
            f"{table.source} has missing values, in {len(counts)} of {len(used)} columns: {words}. Say what to do with "
            "them: --missing mean (the column's mean instead), indicator (the same, and a coefficient for it) or drop "
            "(leave such rows out)"
        )
    if rule == "drop" and counts:
        lacks = np.any(list(missing.values()), axis=0)
        notes.append(f"{lacks.sum():,} of {table.rows:,} rows are left out: they lack a value")
        table = table.take(np.flatnonzero(~lacks))
    if table.rows < FEWEST_ROWS:
        raise ValueError(f"{table.source} has {table.rows} rows that can be used; there must be {FEWEST_ROWS} or more")
    return table


def split(table: Table, holdout: float, seed: int) -> tuple[Table, Table | None]:
    """Rows to learn from, and rows held out, each in their order."""
    held = round(holdout * table.rows)
    if not held:
        return table, None
    chosen = np.zeros(table.rows, np.bool_)
    chosen[np.random.default_rng(seed).permutation(table.rows)[:held]] = True
    return table.take(np.flatnonzero(~chosen)), table.take(np.flatnonzero(chosen))


def missing_words(recipe: Recipe) -> list[str]:
    """What was done about missing values, with counts."""
    numbers = {column.name: column.missing for column in recipe.numbers if column.missing}
    levels = {column.name: column.missing for column in recipe.levels if column.missing}
    words = []
    also = ", and being missing has a coefficient" if recipe.missing == "indicator" else ""
    if numbers:
        counted = listed([f"{plain(name)} ({count:,})" for name, count in numbers.items()])
        words.append(f"missing numbers are the column's mean{also}: {counted}")
    if levels:
        counted = listed([f"{plain(name)} ({count:,})" for name, count in levels.items()])
        what = "a level of its own" if recipe.missing == "indicator" else "the effect 0"
        words.append(f"missing levels have {what}: {counted}")
    return words


def kind_of(column: Column) -> str:
    if isinstance(column, Levels) and column.truth:
        return "truth"
    return next(kind for kind, of in KINDS.items() if isinstance(column, of))


def listed(words: Sequence[str]) -> str:
    return ", ".join(words[:LISTED]) + (f" and {len(words) - LISTED} more" if len(words) > LISTED else "")
