"""From options to a recipe and arrays: read, choose the columns, split the rows, encode. And, from a recipe, the same
arrays again, or those of new rows. What there is to say of a step comes back beside its result, as sentences."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from isotherm.lib.types import Batch
from isotherm.tables import model, reading, target
from isotherm.tables.columns import Frame, TableColumn, join_names, plain, quote
from isotherm.tables.options import TableOptions
from isotherm.tables.recipe import ConstantColumn, Recipe, TableSource, plan_column, why_unused

LEARNED_ROWS = 10  # to learn from


class Prepared(NamedTuple):
    """The rows that are learned from, and those that are held out, if any, as arrays with the target `y`."""

    recipe: Recipe
    train: Batch
    held_out: Batch | None


KeptRows = tuple[Frame, list[str]]  # some rows of a table, and sentences about those that were left out


def prepare(options: TableOptions) -> Prepared:
    """Read the table of some options, and make the recipe of its columns."""
    read, wanted = read_first(options)
    known, no_target = with_target(as_columns(read, wanted), wanted.name, options.missing)
    used, left_out = used_columns(known, read, wanted.name, options)
    table, incomplete = without_missing(known, used, options.missing)
    chosen, why = (options.model, "") if options.model else target.guess(wanted.name, table[wanted.name])
    aim = target.make(wanted, table[wanted.name], chosen)
    source = source_of(options, read, [*used, wanted.name])
    train, held_out = split(table, source.holdout, source.seed)
    if train.rows < LEARNED_ROWS:
        raise ValueError(f"--holdout {source.holdout:g} leaves {train.rows} rows; there must be {LEARNED_ROWS} or more")
    plans = tuple(plan_column(name, train[name], options.missing) for name in used)
    scale = options.prior_scale or model.default_scale(chosen, aim)
    recipe = Recipe(chosen, options.missing, scale, options.hidden, aim, plans, source, options.interval)
    notes = [f"model {chosen}, as {why}; --model takes another"] if why else []
    notes += [*no_target, *left_out, *incomplete]
    if options.test:
        held_out, test_notes = rows_of_test(recipe, Path(options.test))
        notes += test_notes
    notes += [*missing_words(recipe), *(recipe.unknown_levels(held_out) if held_out is not None else [])]
    return encode_rows(dataclasses.replace(recipe, notes=tuple(notes)), train, held_out)


def prepare_again(recipe: Recipe, path: Path | None = None) -> Prepared:
    """Return the arrays of a run, from its table, which may have been moved to `path`."""
    path = path if path is not None else Path(recipe.source.table)
    if not path.exists():
        raise ValueError(f"the table of this run, {str(path)!r}, is not there; say where it is with --data FILE")
    train, held_out = split(rows_with_target(recipe, path)[0], recipe.source.holdout, recipe.source.seed)
    if recipe.source.test is not None and Path(recipe.source.test).exists():
        held_out = rows_of_test(recipe, Path(recipe.source.test))[0]
    return encode_rows(recipe, train, held_out)


def encode_rows(recipe: Recipe, train: Frame, held_out: Frame | None) -> Prepared:
    def with_y(table: Frame) -> Batch:
        return {**recipe.encode(table), "y": target.encode(recipe.target, table[recipe.target.name])}

    return Prepared(recipe, with_y(train), None if held_out is None else with_y(held_out))


def new_rows(recipe: Recipe, path: Path) -> Frame:
    """Read the columns that predictions need."""
    return read_by(recipe, path, [name for name in recipe.source.kinds if name != recipe.target.name])


def read_first(options: TableOptions) -> tuple[Frame, target.Wanted]:
    """Read the table, by the options alone, and find its target."""
    path = Path(options.table)
    if options.target in options.ignore:
        raise ValueError(f"--target and --ignore both name {quote(options.target)}")
    kinds = dict.fromkeys(options.categorical, "text")
    read = reading.read(path, kinds=kinds, na=options.na, delimiter=options.mark, ignore=options.ignore)
    read.require(options.categorical, "--categorical")
    aim = options.target or (reading.LABEL if reading.type_of(path) == "libsvm" else "")
    if not aim:
        names = ", ".join(map(quote, read.columns))
        raise ValueError(f"--target must be given: the column to predict, one of {names}")
    return read, target.parse(aim, list(read.columns), str(path))


def source_of(options: TableOptions, read: Frame, used: Sequence[str]) -> TableSource:
    """Return where the rows came from; of the columns, those of which a part is used."""
    return TableSource(
        str(Path(options.table).absolute()),
        str(Path(options.test).absolute()) if options.test else None,
        options.na,
        options.mark,
        {name: column.kind for name, column in read.columns.items() if not column.parts(name).keys().isdisjoint(used)},
        0.0 if options.test else options.holdout,
        options.seed,
    )


def rows_of_test(recipe: Recipe, path: Path) -> KeptRows:
    table, notes = rows_with_target(recipe, path)
    classes = target.class_names(table[recipe.target.name]) if recipe.target.classes else ()
    if new := [name for name in classes if name not in recipe.target.classes]:
        raise ValueError(
            f"{path} has the class {quote(new[0])} in {quote(recipe.target.name)}, which the table has not"
        )
    return table, notes


def rows_with_target(recipe: Recipe, path: Path) -> KeptRows:
    """Read a table again, by a recipe."""
    table = read_by(recipe, path, list(recipe.source.kinds))
    known, notes = with_target(table, recipe.target.name, recipe.missing)
    whole, more = without_missing(known, [column.name for column in recipe.columns], recipe.missing)
    return whole, notes + more


def read_by(recipe: Recipe, path: Path, only: Sequence[str]) -> Frame:
    source = recipe.source
    read = reading.read(
        path,
        kinds={column: kind for column, kind in source.kinds.items() if column in only},
        na=source.na,
        delimiter=source.delimiter,
        only=only,
        features=max((int(column) for column in source.kinds if column.isdecimal()), default=0),
    )
    return as_columns(read, target.parse(recipe.target.words, [recipe.target.name], str(path)))


def as_columns(read: Frame, wanted: target.Wanted) -> Frame:
    """Return the table with the target compared, and each column as those that are learned from it."""
    columns: dict[str, TableColumn] = {}
    for name, column in read.columns.items():
        columns |= (target.compare(column, wanted) if name == wanted.name else column).parts(name)
    return Frame(read.source, columns, read.rows)


def with_target(table: Frame, name: str, rule: str) -> KeptRows:
    """Return the rows whose target is known."""
    missing = table[name].is_missing()
    count = int(missing.sum())
    if not count:
        return table, []
    if count == table.rows:
        raise ValueError(f"the target {quote(name)} has no values at all")
    if rule == "error":
        raise ValueError(
            f"the target {quote(name)} is missing in {count:,} of {table.rows:,} rows; any rule of --missing (mean, "
            "indicator, drop) leaves these rows out"
        )
    note = f"{count:,} of {table.rows:,} rows are left out: they have no {plain(name)}"
    return table.take(np.flatnonzero(~missing)), [note]


def used_columns(table: Frame, read: Frame, aim: str, options: TableOptions) -> tuple[list[str], list[str]]:
    """Return the columns to learn from, and sentences about the others; `read` has those of the file."""
    used, notes, constant = list[str](), list[str](), list[str]()
    for name, column in table.columns.items():
        if name == aim:
            continue
        try:
            reason = why_unused(name, column, name in options.categorical)
        except ConstantColumn:
            if name in read.columns and not options.ignore_constant:
                raise
            constant.append(plain(name))
            continue
        if reason:
            notes.append(f"{plain(name)} is left out: {reason}")
        else:
            used.append(name)
    if constant:
        notes.append(f"left out, as they are the same in every row: {join_names(constant)}")
    if not used:
        raise ValueError(f"{table.source} has no column to learn from beside the target")
    return used, notes


def without_missing(table: Frame, used: Sequence[str], rule: str) -> KeptRows:
    """Return the rows that lack no value, if the rule is to drop others; refuse missing values by the rule error."""
    missing = {name: table[name].is_missing() for name in used}
    counts = {name: int(where.sum()) for name, where in missing.items() if where.any()}
    notes = []
    if rule == "error" and counts:
        words = join_names([f"{plain(name)} ({count:,} rows)" for name, count in counts.items()])
        raise ValueError(
            f"{table.source} has missing values, in {len(counts)} of {len(used)} columns: {words}. Say what to do with "
            "them: --missing mean (the column's mean instead), indicator (the same, and a coefficient for it) or drop "
            "(leave such rows out)"
        )
    if rule == "drop" and counts:
        lacks = np.any(list(missing.values()), axis=0)
        notes = [f"{lacks.sum():,} of {table.rows:,} rows are left out: they lack a value"]
        table = table.take(np.flatnonzero(~lacks))
    if table.rows < LEARNED_ROWS:
        raise ValueError(f"{table.source} has {table.rows} rows that can be used; there must be {LEARNED_ROWS} or more")
    return table, notes


def split(table: Frame, holdout: float, seed: int) -> tuple[Frame, Frame | None]:
    """Return rows to learn from, and rows held out, each in their order."""
    held = round(holdout * table.rows)
    if not held:
        return table, None
    chosen = np.zeros(table.rows, np.bool_)
    chosen[np.random.default_rng(seed).permutation(table.rows)[:held]] = True
    return table.take(np.flatnonzero(~chosen)), table.take(np.flatnonzero(chosen))


def missing_words(recipe: Recipe) -> list[str]:
    """Return what was done about missing values, with counts."""
    is_indicated = recipe.missing == "indicator"
    number = "are the column's mean" + (", and being missing has a coefficient" if is_indicated else "")
    level = f"have {'a level of its own' if is_indicated else 'the effect 0'}"
    words = []
    for what, columns in ((f"missing numbers {number}", recipe.numbers), (f"missing levels {level}", recipe.levels)):
        if counted := [f"{plain(column.name)} ({column.missing:,})" for column in columns if column.missing]:
            words.append(f"{what}: {join_names(counted)}")
    return words
