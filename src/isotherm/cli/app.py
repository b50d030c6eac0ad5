"""The command line. Nothing heavy is imported before a command needs it, so that --help answers at once."""

import re
import shlex
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer
from typer.models import OptionInfo

from isotherm.cli import paper
from isotherm.lib.optional import MissingExtraError, require

if TYPE_CHECKING:
    from isotherm.lib.types import Results

STATUS = 2  # of a command that cannot do what it was asked for; 1 is the answer "no", of `isotherm check` for instance


@contextmanager
def in_a_sentence() -> Iterator[None]:
    """End the command with one sentence and `STATUS` at an error that a user can cause; warnings are sentences too."""
    try:
        with warnings.catch_warnings():
            warnings.showwarning = lambda message, *_: typer.echo(f"warning: {message}", err=True)
            yield
    except (OSError, ValueError, MissingExtraError) as error:  # DatasetError and StoreError are OSErrors
        sentence = re.sub(r"^\[Errno \d+\] ", "", str(error)).replace("data_dir (--data)", "--data")
        typer.echo(f"error: {sentence}", err=True)
        raise typer.Exit(STATUS) from None


app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Sample Bayesian posteriors with stochastic gradients, and reproduce the paper's experiments.",
)


def print_version(wanted: bool) -> None:
    if wanted:
        from isotherm.lib.version import __version__

        typer.echo(f"isotherm {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=print_version, is_eager=True)
    ] = False,
) -> None:
    pass


def option(words: str, default: str | None = None, metavar: str | None = None) -> OptionInfo:
    """Make an option whose None stands for "not given", so that a TOML file may give it; --help shows `default`."""
    info: OptionInfo = typer.Option(help=words, show_default=default or False, metavar=metavar)
    return info


Text: TypeAlias = str | None  # None: not given
Count: TypeAlias = int | None
Number: TypeAlias = float | None
Place: TypeAlias = Path | None

COLUMNS = "A,B"
MISSING = (
    "What to do with missing values: error, mean (the column's mean; for a level the effect 0), indicator (the same, "
    "and a coefficient for being missing), or drop (leave such rows out)."
)
PRIOR = "Standard deviation of the prior of effects, of slopes of standardised numbers, and of a network's weights."
PRIORS = "2.5; of networks 2 for classes, 1 for numbers, 3 for drbm"


def fit(
    context: typer.Context,
    table: Annotated[Place, typer.Argument(metavar="TABLE", help="A CSV, Parquet, .npz or LIBSVM file.")] = None,
    target: Annotated[
        Text, option('The column to predict, or a comparison, as in "delay > 15".', None, "COLUMN")
    ] = None,
    model: Annotated[
        Text, option("The model: linear, logistic, softmax, poisson, drbm or mlp.", "guessed from the target", "NAME")
    ] = None,
    missing: Annotated[Text, option(MISSING, "error", "RULE")] = None,
    categorical: Annotated[
        Text, option("Columns of numbers to take as categories, as text always is.", None, COLUMNS)
    ] = None,
    ignore: Annotated[Text, option("Columns to leave out.", None, COLUMNS)] = None,
    ignore_constant: Annotated[
        bool | None, typer.Option("--ignore-constant", help="Leave out columns that are the same in every row.")
    ] = None,
    holdout: Annotated[
        Number, option("The share of rows that are held out, to see how well new rows are predicted.", "0.2", "SHARE")
    ] = None,
    test: Annotated[Place, option("A table whose rows are predicted instead of held-out ones.", None, "FILE")] = None,
    na: Annotated[Text, option("Texts that stand for a missing value, beside the usual ones.", None, COLUMNS)] = None,
    delimiter: Annotated[
        Text, option("The character between the cells of a CSV, or tab.", "what its header has most")
    ] = None,
    prior_scale: Annotated[Number, option(PRIOR, PRIORS)] = None,
    hidden: Annotated[Count, option("Hidden units of mlp and drbm.", "20")] = None,
    ess: Annotated[Count, option("Effective draws that every parameter must have.", "400")] = None,
    seconds: Annotated[Number, option("Stop sampling after this many seconds.")] = None,
    chains: Annotated[Count, option("How many independent chains.", "4")] = None,
    interval: Annotated[Number, option("The posterior probability of each interval.", "0.95", "SHARE")] = None,
    seed: Annotated[Count, option("The same seed gives the same split and the same draws.", "0")] = None,
    run: Annotated[Place, option("The folder to make for the draws.", "named after TABLE, .zarr", "RUN")] = None,
    report: Annotated[Place, option("The page to write.", "named after RUN, .html", "FILE")] = None,
    config: Annotated[Place, option("A TOML file with any of these options; flags win.", None, "FILE")] = None,
) -> None:
    """Learn from a table to predict one of its columns: sample the posterior, print coefficients with intervals and how
    well held-out rows are predicted, write a report. Text columns are categories, each level with an effect."""
    from isotherm.tables import model as models
    from isotherm.tables import options, preparing, results, show

    given = {name: str(value) if isinstance(value, Path) else value for name, value in context.params.items()}
    del given["config"]
    require("matplotlib", "plots", "the report of a run")
    chosen = options.make(given, config)
    prepared = preparing.prepare(chosen)
    say(prepared.recipe.notes)
    tree = models.fit_table(chosen, prepared.recipe, prepared.train)
    if tree.attrs["interrupted"]:
        words = shlex.join(["isotherm", "resume", str(chosen.run_folder)])
        say([f"stopped; the draws so far are in {chosen.run_folder}; go on with: {words}"])
        raise typer.Exit(130)
    found = results.collect(prepared, tree)
    show.write_report(found, chosen.report_file)
    show.print_results(found)
    typer.echo(f"draws: {chosen.run_folder}\nreport: {chosen.report_file}")


def predict(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder that `isotherm fit` made.")],
    table: Annotated[Path, typer.Argument(metavar="TABLE", help="New rows, with the columns that were learned from.")],
    out: Annotated[Place, option("The table to write, .csv or .parquet.", "TABLE-predictions", "FILE")] = None,
) -> None:
    """Write a table with predictions and their intervals added, from the folder of a run alone."""
    from isotherm.tables import output

    out = out or output.place_beside(table)
    rows, notes = output.predict_table(run, table, out)
    say(notes)
    typer.echo(f"{rows:,} rows with predictions: {out}")


Run = Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run of `isotherm fit` or `isotherm sample`.")]
OfRun = Annotated[
    Path | None,
    typer.Option(
        "--data",
        metavar="PLACE",
        help="Of a run of `isotherm fit`, the table, if it is no longer where it was. Of one of `isotherm sample`, the "
        "folder with the data sets, as there.",
    ),
]
FILES = (Path(__file__).parents[1] / "samplers").glob("[!_]*.py")  # importing them would take a second
SAMPLERS = sorted({file.stem for file in FILES} - {"base", "settings"}, key=lambda name: (name != "eccadl", name))
SEVERAL = "Several processes"
Coordinator = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT",
        help="Of several processes that share the rows: where process 0 listens. Give it to each of them, with "
        '--processes and --process; "auto" finds all three under Slurm, Open MPI and Kubernetes.',
        rich_help_panel=SEVERAL,
    ),
]
Processes = Annotated[Count, typer.Option(help="How many processes there are.", rich_help_panel=SEVERAL)]
Process = Annotated[Count, typer.Option(help="The number of this process, from 0.", rich_help_panel=SEVERAL)]


def sample(
    problem: Annotated[
        str,
        typer.Argument(metavar="PROBLEM", help="A model with its data: mnist-7-9, letter, …; a wrong name lists all."),
    ],
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder to make for the draws, such as run.zarr.")],
    sampler: Annotated[str, typer.Option(help=f"{', '.join(SAMPLERS[:-1])} or {SAMPLERS[-1]}.")] = "eccadl",
    step_size: Annotated[str, typer.Option(help='A number, or "auto", which finds one.')] = "auto",
    friction: Annotated[
        Number, option("The friction A, for samplers that have one.", "1, or what eccadl chooses")
    ] = None,
    steps: Annotated[Count, option("How many steps each chain takes; or give --passes.")] = None,
    passes: Annotated[Number, option("How many passes over the data each chain takes.", "as in the experiment")] = None,
    chains: Annotated[int, typer.Option(help="How many independent chains.")] = 4,
    thin: Annotated[int, typer.Option(help="Keep one draw every this many steps.")] = 10,
    seed: Annotated[int, typer.Option(help="The same seed gives the same draws.")] = 0,
    data: paper.Data = None,
    coordinator: Coordinator = None,
    processes: Processes = None,
    process: Process = None,
) -> None:
    """Sample a model of the experiments into a folder; `isotherm resume` continues it if it is interrupted."""
    join(coordinator, processes, process)
    from isotherm.paper.experiments import stored_runs

    settings = {"steps": steps, "passes": passes, "chains": chains, "thin": thin, "seed": seed}
    finish(lambda: stored_runs.start(problem, run, sampler, step_size, friction, data, **settings), run, data)


def resume(
    run: Run,
    steps: Annotated[Count, option("Take this many steps beyond those asked for at the start.")] = None,
    data: OfRun = None,
    coordinator: Coordinator = None,
    processes: Processes = None,
    process: Process = None,
) -> None:
    """Continue an interrupted run exactly where it stopped, or extend a finished one; any number of processes can."""
    join(coordinator, processes, process)
    from isotherm.paper.experiments import stored_runs

    finish(lambda: stored_runs.continue_run(run, steps, data), run, data)


def check(run: Run, data: OfRun = None) -> None:
    """Say whether to believe a run: convergence, mean, variance and tails, without a reference; exit code 1 if not."""
    from isotherm.paper.experiments import stored_runs

    verdict = stored_runs.check_run(run, data)
    typer.echo(str(verdict))
    if not verdict:
        raise typer.Exit(1)


def report(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run, also of store= in Python.")],
    data: OfRun = None,
    out: Annotated[Path, typer.Option(metavar="FILE", help="The page to write.")] = Path("report.html"),
) -> None:
    """Write one HTML page about a run: whether to believe it, and pictures of its draws."""
    from isotherm.paper.experiments import stored_runs

    verdict = stored_runs.report_run(run, data, out)
    typer.echo(f"{verdict.summary}\nreport: {out}")


def say(notes: Iterable[str]) -> None:
    """Print sentences that are no results, on stderr."""
    for note in notes:
        typer.echo(note, err=True)


def join(coordinator: str | None, processes: int | None, process: int | None) -> None:
    """Become one of several processes, if that is asked for; before JAX is used."""
    if coordinator is None and (processes is not None or process is not None):
        raise ValueError("--coordinator must be given with --processes and --process, such as host:1234")
    if coordinator is not None:
        from isotherm.data.processes import join

        join(coordinator, processes, process)


def finish(work: Callable[[], "Results"], run: Path, data: Path | None) -> None:
    """Run `work` and print how far the run in the folder `run` is; exit code 130 if Ctrl-C ended it."""
    from isotherm.data.processes import ProcessLost, is_first
    from isotherm.paper.experiments.stored_runs import status

    try:
        tree = work()
    except ProcessLost as lost:
        raise OSError(str(lost)) from lost
    if is_first():
        typer.echo(status(tree, run, data))
    if tree.attrs["interrupted"]:
        raise typer.Exit(130)


COMMANDS: tuple[Callable[..., None], ...] = (
    paper.demo, fit, predict, paper.reproduce, sample, resume, check, report
)  # fmt: skip
for command in COMMANDS:
    app.command()(in_a_sentence()(command))
data_app = typer.Typer(no_args_is_help=True, help="List, download and check the data sets.")
app.add_typer(data_app, name="data")
data_app.command("list")(in_a_sentence()(paper.list_datasets))
data_app.command("fetch")(in_a_sentence()(paper.fetch_dataset))
data_app.command("check")(in_a_sentence()(paper.check_datasets))
