"""The command line. Nothing heavy is imported before a command needs it, so that --help answers at once."""

import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from isotherm.cli import errors, table_flags
from isotherm.paper.experiments import NAMES

if TYPE_CHECKING:
    from isotherm.lib.types import Results

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


@app.command()
def demo() -> None:
    """Compare the samplers on linear regression, whose posterior is known exactly (about a minute)."""
    from rich.console import Console
    from rich.progress import track

    from isotherm.paper.experiments import demo as demonstration

    console = Console()
    console.print(demonstration.INTRODUCTION)
    total = len(demonstration.CELLS)
    with errors.in_a_sentence():
        results = dict(track(demonstration.run(), "sampling", total, console=Console(stderr=True)))
    console.print(demonstration.table(results))
    path = demonstration.figure(results, Path("isotherm-demo") / "w2.png")
    console.print(f"figure: {path}", soft_wrap=True, highlight=False)


app.command()(table_flags.fit)
app.command()(table_flags.predict)

Data = Annotated[
    Path | None,
    typer.Option(
        "--data",
        metavar="DIR",
        help="Folder with the data sets. Without it: the folder that ISOTHERM_DATA names, then your cache; what is in "
        "neither is downloaded.",
    ),
]
OfRun = Annotated[
    Path | None,
    typer.Option(
        "--data",
        metavar="PLACE",
        help="Of a run of `isotherm fit`, the table, if it is no longer where it was. Of one of `isotherm sample`, the "
        "folder with the data sets, as there.",
    ),
]
Run = Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run of `isotherm fit` or `isotherm sample`.")]


@app.command()
def reproduce(
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help=f"{', '.join(NAMES)}, or all.")],
    quick: Annotated[
        bool, typer.Option("--quick", help="Every run, but shorter; the numbers cannot be compared with the paper's.")
    ] = False,
    seeds: Annotated[
        int | None,
        typer.Option(
            min=1, help="How many seeds each setting is run with. Default: 3; always 1 for the largest models."
        ),
    ] = None,
    data: Data = None,
    out: Annotated[
        Path, typer.Option(help="Folder for the results. Runs that are finished there are not run again.")
    ] = Path("out"),
) -> None:
    """Run experiments of the paper; write results.json, results.csv, figures and report.html."""
    from rich import progress
    from rich.console import Console

    from isotherm.paper.experiments import reproduce as experiments
    from isotherm.paper.experiments.experiment import Options

    columns = progress.TextColumn("{task.description}"), progress.BarColumn(), progress.MofNCompleteColumn()
    times = progress.TimeElapsedColumn(), progress.TimeRemainingColumn()
    with progress.Progress(*columns, *times, console=Console(stderr=True)) as bar, errors.in_a_sentence(bar.stop):
        task = bar.add_task("setting up", total=None)

        def tick(done: int, total: int, name: str) -> None:
            bar.update(task, completed=done, total=total, description=name)

        try:
            written = experiments.reproduce(names, Options(quick, seeds, data), out, tick, bar.console.print)
        except KeyboardInterrupt:
            bar.stop()
            typer.echo(f"stopped; finished runs are in {out / 'cells'}: the same command continues there", err=True)
            if threading.active_count() > 1:  # the runs in other threads would be thrown away: do not wait for them
                sys.stderr.flush()
                os._exit(130)
            raise typer.Exit(130) from None
    for path in written:
        typer.echo(path)


Coordinator = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT",
        help="Of several processes that share the rows: where process 0 listens. Give it to each of them, with "
        '--processes and --process; "auto" finds all three under Slurm, Open MPI and Kubernetes.',
        rich_help_panel="Several processes",
    ),
]
Processes = Annotated[int | None, typer.Option(help="How many there are.", rich_help_panel="Several processes")]
Process = Annotated[int | None, typer.Option(help="Which this is, from 0.", rich_help_panel="Several processes")]


@app.command()
def sample(
    problem: Annotated[
        str,
        typer.Argument(metavar="PROBLEM", help="A model with its data: mnist-7-9, letter, …; a wrong name lists all."),
    ],
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder to make for the draws, such as run.zarr.")],
    sampler: Annotated[str, typer.Option(help="eccadl, ccadl, mccadl, msgld, sghmc, sgld or sgnht.")] = "eccadl",
    step_size: Annotated[str, typer.Option(help='A number, or "auto", which finds one.')] = "auto",
    friction: Annotated[
        float | None,
        typer.Option(help="The friction A, for samplers that have one. Default: 1, or what eccadl chooses."),
    ] = None,
    steps: Annotated[int | None, typer.Option(help="How many steps each chain takes; or give --passes.")] = None,
    passes: Annotated[
        float | None,
        typer.Option(help="How many passes over the data each chain takes. Default: as in the experiment."),
    ] = None,
    chains: Annotated[int, typer.Option(help="How many independent chains.")] = 4,
    thin: Annotated[int, typer.Option(help="Keep one draw every this many steps.")] = 10,
    seed: Annotated[int, typer.Option(help="The same seed gives the same draws.")] = 0,
    data: Data = None,
    coordinator: Coordinator = None,
    processes: Processes = None,
    process: Process = None,
) -> None:
    """Sample a model of the experiments into a folder; `isotherm resume` continues it if it is interrupted."""
    join(coordinator, processes, process)
    from isotherm.paper.experiments import stored_runs

    settings = {"steps": steps, "passes": passes, "chains": chains, "thin": thin, "seed": seed}
    _run(lambda: stored_runs.start(problem, run, sampler, step_size, friction, data, **settings), run, data)


@app.command()
def resume(
    run: Run,
    steps: Annotated[int | None, typer.Option(help="Take this many steps beyond those asked for at the start.")] = None,
    data: OfRun = None,
    coordinator: Coordinator = None,
    processes: Processes = None,
    process: Process = None,
) -> None:
    """Continue an interrupted run exactly where it stopped, or extend a finished one; any number of processes can."""
    join(coordinator, processes, process)
    from isotherm.paper.experiments import stored_runs

    _run(lambda: stored_runs.continue_run(run, steps, data), run, data)


@app.command()
def check(
    run: Run,
    data: OfRun = None,
) -> None:
    """Say whether to believe a run: convergence, mean, variance and tails, without a reference; exit code 1 if not."""
    from isotherm.paper.experiments import stored_runs

    with errors.in_a_sentence():
        verdict = stored_runs.check_run(run, data)
    typer.echo(str(verdict))
    if not verdict:
        raise typer.Exit(1)


@app.command()
def report(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run, also of store= in Python.")],
    data: OfRun = None,
    out: Annotated[Path, typer.Option(metavar="FILE", help="The page to write.")] = Path("report.html"),
) -> None:
    """Write one HTML page about a run: whether to believe it, and pictures of its draws."""
    from isotherm.paper.experiments import stored_runs

    with errors.in_a_sentence():
        verdict = stored_runs.report_run(run, data, out)
    typer.echo(f"{verdict.summary}\nreport: {out}")


def join(coordinator: str | None, processes: int | None, process: int | None) -> None:
    """Become one of several processes, if that is asked for; before JAX is used."""
    with errors.in_a_sentence():
        if coordinator is None and (processes is not None or process is not None):
            raise ValueError("--coordinator must be given with --processes and --process, such as host:1234")
        if coordinator is not None:
            from isotherm.data.processes import join

            join(coordinator, processes, process)


def _run(work: Callable[[], "Results"], run: Path, data: Path | None) -> None:
    """Run `work` and print how far the run in the folder `run` is; exit code 130 if Ctrl-C ended it."""
    from isotherm.data.processes import ProcessLost, is_first
    from isotherm.paper.experiments.stored_runs import status

    with errors.in_a_sentence():
        try:
            tree = work()
        except ProcessLost as lost:
            raise OSError(str(lost)) from lost
    if is_first():
        typer.echo(status(tree, run, data))
    if tree.attrs["interrupted"]:
        raise typer.Exit(130)


data_app = typer.Typer(no_args_is_help=True, help="List, download and check the data sets.")
app.add_typer(data_app, name="data")


@data_app.command("list")
def data_list() -> None:
    """Print name, contents, licence and home page of each data set."""
    from isotherm.paper.datasets import catalogue

    for entry in catalogue():
        typer.echo(f"{entry['name']}: {entry['title']}\n  licence: {entry['licence']}\n  {entry['homepage']}".rstrip())


@data_app.command("fetch")
def data_fetch(
    name: Annotated[str, typer.Argument(help="A data set, as `isotherm data list` names it.")], data: Data = None
) -> None:
    """Find the files of one data set, download those that are nowhere, check all, and print where they are."""
    from isotherm.paper.datasets import fetch

    with errors.in_a_sentence():
        paths = fetch(name, data)
    for path in paths:
        typer.echo(path)


@data_app.command("check")
def data_check(data: Data = None) -> None:
    """Print for every file whether it is there and right; exit code 1 if one is there and wrong."""
    from isotherm.paper.datasets import check

    with errors.in_a_sentence():
        files = check(data)
    for name, file, status in files:
        typer.echo(f"{name}/{file}: {status}")
    if any(status not in ("ok", "missing", "present, no checksum known") for _, _, status in files):
        raise typer.Exit(1)
