"""`isotherm fit` and `isotherm predict`, and what `resume`, `check` and `report` need of a run of a table."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from isotherm.lib import optional
from isotherm.lib.types import Batch, Results
from isotherm.posterior import Posterior
from isotherm.report import report
from isotherm.run.check import Verdict, check
from isotherm.run.fit import fit
from isotherm.store.arrays import open_results
from isotherm.store.folder import check_new, slots
from isotherm.tables import model, output, preparing, recipe, results
from isotherm.tables.columns import plain
from isotherm.tables.model import Predicted
from isotherm.tables.options import TableOptions
from isotherm.tables.results import TableResults
from isotherm.tables.show import section

Tell = Callable[[str], None]


class Places(NamedTuple):
    """Where a run and its report go: beside each other, and named after the table, unless said otherwise."""

    run: Path
    report: Path


class TableMaterials(NamedTuple):
    """What a run of a table was made with."""

    posterior: Posterior
    data: Batch


def places(options: TableOptions) -> Places:
    stem = Path(options.table).name.split(".")[0] or "table"
    run = Path(options.run or f"{stem}.zarr")
    return Places(run, Path(options.report) if options.report else run.with_suffix(".html"))


def fit_table(options: TableOptions, tell: Tell) -> tuple[preparing.Prepared, Results]:
    """Sample the posterior of a table into a new folder."""
    optional.require("matplotlib", "plots", "the report of a run")
    run = places(options).run
    try:
        check_new(run)
    except ValueError as fault:
        raise ValueError(str(fault).replace("store=", "--run ")) from None
    prepared = preparing.prepare(options)
    made = prepared.recipe
    for note in made.notes:
        tell(note)
    built, is_new = model.build(made), not run.exists()
    recipe.write(made, run)
    try:
        tree = fit(
            model.make_posterior(built),
            prepared.train,
            model.start(made, built, prepared.train),
            ess=options.ess,
            seconds=options.seconds or None,
            anchored=made.model not in recipe.NETWORKS,
            chains=options.chains,
            seed=options.seed,
            store=run,
        )
    finally:
        if is_new and not any(slot.exists() for slot in slots(run)):
            shutil.rmtree(run, ignore_errors=True)  # nothing was sampled
    return prepared, tree


def report_table(what: TableResults, path: Path) -> Path:
    title = f"{what.recipe.model} model of {plain(what.recipe.target.name)}"
    return report.write(
        what.tree, what.verdict, path, names=what.names, found=section(what), title=title[0].upper() + title[1:]
    )


def results_of(run: Path, table: Path | None) -> TableResults:
    """Return all that is to be said about a run in a folder."""
    return results.collect(preparing.prepare_again(recipe.read(run), table), open_results(run))


def materials(run: Path, table: Path | None) -> TableMaterials:
    """Return what a run in a folder was made with, from its table, which may have been moved to `table`."""
    made = recipe.read(run)
    return TableMaterials(model.make_posterior(model.build(made)), preparing.prepare_again(made, table).train)


def check_table(run: Path, table: Path | None) -> Verdict:
    """Return the verdict on a run, with the columns' names."""
    made = materials(run, table)
    verdict = check(open_results(run), made.posterior, made.data)
    return results.rename_entries(verdict, results.entry_names(recipe.read(run)))


def place_of_predictions(table: Path) -> Path:
    """Return the file for predictions, named after the table."""
    suffix = ".parquet" if table.suffix == ".parquet" else ".csv"
    return Path(f"{table.name.split('.')[0] or 'table'}-predictions{suffix}")


def predict_table(run: Path, path: Path, out: Path, tell: Tell) -> int:
    """Write the table at `path` with predictions to `out`; return the number of rows."""
    output.check_place(path, out)
    made = recipe.read(run)
    tree = open_results(run)
    table = preparing.new_rows(made, path)
    for sentence in made.unknown_levels(table):
        tell(sentence)
    lacking = made.incomplete(table)
    if lacking.any() and made.missing == "error":
        raise ValueError(
            f"{path} has missing values in {lacking.sum():,} rows, the first is row {int(np.argmax(lacking)) + 1:,}; "
            "the run was made without any (--missing error): fill them in, or fit again with another rule"
        )
    if lacking.any():
        rule = "no prediction" if made.missing == "drop" else f"predictions by the rule {made.missing}"
        tell(f"{lacking.sum():,} of {table.rows:,} rows lack a value: they get {rule}")
    predicted = model.predictions(made, model.build(made), tree, made.encode(table))
    if made.missing == "drop":
        predicted = _without(predicted, lacking)
    for sentence in output.write(made, path, out, output.columns(made, predicted)):
        tell(sentence)
    return table.rows


def _without(predicted: Predicted, rows: np.ndarray) -> Predicted:
    """Return the predictions, with NaN in these rows."""
    hidden = {
        name: np.where(rows.reshape(-1, *[1] * (values.ndim - 1)), np.nan, values)
        for name, values in predicted._asdict().items()
        if values is not None
    }
    return predicted._replace(**hidden)
