"""`isotherm fit` and `isotherm predict` as commands; nothing heavy is imported before one of them runs."""

import shlex
from pathlib import Path
from typing import Annotated, TypeAlias

import typer
from typer.models import OptionInfo

from isotherm.cli import errors

Text: TypeAlias = str | None  # None: not given
Count: TypeAlias = int | None
Number: TypeAlias = float | None
Place: TypeAlias = Path | None


def option(words: str, default: str | None = None, metavar: str | None = None) -> OptionInfo:
    """Make an option whose None stands for "not given", so that a TOML file may give it; --help shows `default`."""
    info: OptionInfo = typer.Option(help=words, show_default=default or False, metavar=metavar)
    return info


COLUMNS = "A,B"
TARGET = 'The column to predict, or a comparison, as in "delay > 15".'
MODEL = "linear, logistic, softmax, poisson, drbm or mlp."
MISSING = (
    "What to do with missing values: error, mean (the column's mean; for a level the effect 0), indicator (the same, "
    "and a coefficient for being missing), or drop (leave such rows out)."
)
PRIOR = "Standard deviation of the prior of effects, of slopes of standardised numbers, and of a network's weights."
PRIORS = "2.5; of networks 2 for classes, 1 for numbers, 3 for drbm"


def fit(
    context: typer.Context,
    table: Annotated[Place, typer.Argument(metavar="TABLE", help="A CSV, Parquet, .npz or LIBSVM file.")] = None,
    target: Annotated[Text, option(TARGET, metavar="COLUMN")] = None,
    model: Annotated[Text, option(MODEL, "guessed from the target", "NAME")] = None,
    missing: Annotated[Text, option(MISSING, "error", "RULE")] = None,
    categorical: Annotated[
        Text, option("Columns of numbers that are levels, as text always is.", None, COLUMNS)
    ] = None,
    ignore: Annotated[Text, option("Columns to leave out.", metavar=COLUMNS)] = None,
    ignore_constant: Annotated[
        bool | None, typer.Option("--ignore-constant", help="Leave out columns that are the same in every row.")
    ] = None,
    holdout: Annotated[
        Number, option("The share of rows held out, to see how well they are predicted.", "0.2", "SHARE")
    ] = None,
    test: Annotated[Place, option("A table of rows to predict instead; none are then held out.", None, "FILE")] = None,
    na: Annotated[Text, option("Texts that stand for a missing value, beside the usual ones.", None, COLUMNS)] = None,
    delimiter: Annotated[
        Text, option("Between the cells of a CSV: a character, or tab.", "what its header has most")
    ] = None,
    prior_scale: Annotated[Number, option(PRIOR, PRIORS)] = None,
    hidden: Annotated[Count, option("Hidden units of mlp and drbm.", "20")] = None,
    ess: Annotated[Count, option("Effective draws that every parameter must have.", "400")] = None,
    seconds: Annotated[Number, option("When to stop sampling at the latest.")] = None,
    chains: Annotated[Count, option("How many independent chains.", "4")] = None,
    interval: Annotated[Number, option("How much of the posterior an interval holds.", "0.95", "SHARE")] = None,
    seed: Annotated[Count, option("The same seed gives the same split and the same draws.", "0")] = None,
    run: Annotated[Place, option("The folder to make for the draws.", "named after TABLE, .zarr", "RUN")] = None,
    report: Annotated[Place, option("The page to write.", "named after RUN, .html", "FILE")] = None,
    config: Annotated[Place, option("A TOML file with any of these options; flags come first.", None, "FILE")] = None,
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
    out: Annotated[Place, option("The table to write, .csv or .parquet.", "TABLE-predictions", "FILE")] = None,
) -> None:
    """Write a table with predictions and their intervals added, from the folder of a run alone."""
    with errors.in_a_sentence():
        from isotherm.tables import command

        place = out if out is not None else command.place_of_predictions(table)
        rows = command.predict_table(run, table, place, tell)
    typer.echo(f"{rows:,} rows with predictions: {place}")


def tell(note: str) -> None:
    typer.echo(note, err=True)
