"""`isotherm fit` and `isotherm predict` as commands; nothing heavy is imported before one of them runs."""

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from isotherm.cli import errors


def option(words: str, default: str | None = None, metavar: str | None = None) -> Any:
    """An option whose None stands for "not given", so that a TOML file may give it; `default` is what --help shows."""
    return typer.Option(help=words, show_default=default if default is not None else False, metavar=metavar)


COLUMNS = "A,B"
MISSING = (
    "What to do with missing values: error, mean (the column's mean; for a level the effect 0), indicator (the same, "
    "and a coefficient for being missing), or drop (leave such rows out)."
)


def fit(
    context: typer.Context,
    table: Annotated[Path | None, typer.Argument(metavar="TABLE", help="A CSV, Parquet, .npz or LIBSVM file.")] = None,
    target: Annotated[
        str | None, option('The column to predict, or a comparison, as in "delay > 15".', metavar="COLUMN")
    ] = None,
    model: Annotated[
        str | None, option("linear, logistic, softmax, poisson, drbm or mlp.", "guessed from the target", "NAME")
    ] = None,
    missing: Annotated[str | None, option(MISSING, "error", "RULE")] = None,
    categorical: Annotated[
        str | None, option("Columns of numbers that are levels, as text always is.", metavar=COLUMNS)
    ] = None,
    ignore: Annotated[str | None, option("Columns to leave out.", metavar=COLUMNS)] = None,
    ignore_constant: Annotated[
        bool | None, typer.Option("--ignore-constant", help="Leave out columns that are the same in every row.")
    ] = None,
    holdout: Annotated[
        float | None, option("The share of rows held out, to see how well they are predicted.", "0.2", "SHARE")
    ] = None,
    test: Annotated[
        Path | None, option("A table of rows to predict instead; none are then held out.", metavar="FILE")
    ] = None,
    na: Annotated[
        str | None, option("Texts that stand for a missing value, beside the usual ones.", metavar=COLUMNS)
    ] = None,
    delimiter: Annotated[
        str | None, option("Between the cells of a CSV: a character, or tab.", "what its header has most")
    ] = None,
    prior_scale: Annotated[
        float | None, option("Standard deviation of the prior of effects, and of slopes of standardised numbers.", "1")
    ] = None,
    hidden: Annotated[int | None, option("Hidden units of mlp and drbm.", "20")] = None,
    ess: Annotated[int | None, option("Effective draws that every parameter must have.", "400")] = None,
    seconds: Annotated[float | None, option("When to stop sampling at the latest.")] = None,
    chains: Annotated[int | None, option("How many independent chains.", "4")] = None,
    interval: Annotated[float | None, option("How much of the posterior an interval holds.", "0.95", "SHARE")] = None,
    seed: Annotated[int | None, option("The same seed gives the same split and the same draws.", "0")] = None,
    run: Annotated[Path | None, option("The folder to make for the draws.", "named after TABLE, .zarr", "RUN")] = None,
    report: Annotated[Path | None, option("The page to write.", "named after RUN, .html", "FILE")] = None,
    config: Annotated[
        Path | None, option("A TOML file with any of these options; flags come first.", metavar="FILE")
    ] = None,
) -> None:
    """Learn from a table to predict one of its columns: sample the posterior, print coefficients with intervals and how
    well held-out rows are predicted, write a report. Text columns are categories, each level with an effect."""
    given = {name: str(value) if isinstance(value, Path) else value for name, value in context.params.items()}
    del given["config"]
    with errors.in_a_sentence():
        from isotherm.tables import command, options, results, show

        chosen = options.make(given, config)
        places = command.places(chosen)
        prepared, tree = command.fit_table(chosen, tell)
        if tree.attrs["interrupted"]:
            words = shlex.join(["isotherm", "resume", str(places.run)])
            tell(f"stopped; the draws so far are in {places.run}; go on with: {words}")
            raise typer.Exit(130)
        what = results.collect(prepared, tree)
        command.report_table(what, places.report)
        show.print_results(what)
    typer.echo(f"draws: {places.run}\nreport: {places.report}")


def predict(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder that `isotherm fit` made.")],
    table: Annotated[Path, typer.Argument(metavar="TABLE", help="New rows, with the columns that were learned from.")],
    out: Annotated[
        Path | None, option("The table to write, .csv or .parquet.", "named after TABLE, -predictions", "FILE")
    ] = None,
) -> None:
    """Write a table with predictions and their intervals added, from the folder of a run alone."""
    with errors.in_a_sentence():
        from isotherm.tables import command

        place = out if out is not None else command.place_of_predictions(table)
        rows = command.predict_table(run, table, place, tell)
    typer.echo(f"{rows:,} rows with predictions: {place}")


def tell(note: str) -> None:
    typer.echo(note, err=True)
