"""Sample with stochastic-gradient thermostats, and reproduce the paper's experiments.

Nothing heavy is imported before a command needs it, so that --help answers at once.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Sample with stochastic-gradient thermostats, and reproduce the paper's experiments.",
)


def say_version(wanted: bool) -> None:
    if wanted:
        from isotherm.version import __version__

        typer.echo(f"isotherm {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=say_version, is_eager=True)
    ] = False,
) -> None:
    pass


@app.command()
def demo() -> None:
    """Compare the samplers on linear regression, whose posterior is known exactly (about a minute)."""
    from rich.console import Console
    from rich.progress import track

    from isotherm.experiments import demo as demonstration

    console = Console()
    console.print(demonstration.WORDS)
    cells = track(demonstration.results(), "sampling", len(demonstration.CELLS), console=Console(stderr=True))
    found = list(cells)
    console.print(demonstration.table(found))
    path = demonstration.figure(found, Path("isotherm-demo") / "w2.png")
    console.print(f"figure: {path}", soft_wrap=True, highlight=False)


NAMES = "linear-regression, mnist, cifar10, letter, acoustic, mnist10, weak-order, or all"
Data = Annotated[Path | None, typer.Option("--data", help="Folder of data sets; else $ISOTHERM_DATA, then the cache.")]


@app.command()
def reproduce(
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help=NAMES)],
    quick: Annotated[bool, typer.Option("--quick", help="Shorter runs; nothing is left out.")] = False,
    seeds: Annotated[int | None, typer.Option(min=1, help="Seeds a cell; 3, or 1 for the largest models.")] = None,
    data: Data = None,
    out: Annotated[Path, typer.Option(help="Where results go; finished cells there are not run again.")] = Path("out"),
) -> None:
    """Run the paper's experiments and write results.json, results.csv, figures and report.html."""
    from isotherm.datasets import DatasetError
    from isotherm.experiments import reproduce as experiments
    from isotherm.experiments.plan import Options

    with progress_bar() as bar:
        task = bar.add_task("setting up", total=None)

        def tick(done: int, total: int, name: str) -> None:
            bar.update(task, completed=done, total=total, description=name)

        try:
            written = experiments.reproduce(names, Options(quick, seeds, data), out, tick, bar.console.print)
        except (DatasetError, ValueError) as error:
            bar.stop()
            fail(error)
        except KeyboardInterrupt:
            bar.stop()
            typer.echo(f"stopped; finished cells are kept in {out / 'cells'}: the same command goes on there", err=True)
            leave(130)
    for path in written:
        typer.echo(path)


@app.command()
def sample(
    problem: Annotated[
        str, typer.Argument(metavar="PROBLEM", help="mnist-7-9, letter, …; a wrong one lists them all.")
    ],
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder to be made, such as run.zarr.")],
    sampler: Annotated[str, typer.Option(help="eccadl, ccadl, mccadl, msgld, sghmc, sgld or sgnht.")] = "eccadl",
    step_size: Annotated[str, typer.Option(help="A number, or auto for eccadl.")] = "auto",
    friction: Annotated[float, typer.Option(help="A, where the sampler has one.")] = 1.0,
    steps: Annotated[int | None, typer.Option(help="Steps of each chain; or")] = None,
    passes: Annotated[float | None, typer.Option(help="passes over the data; the experiment's unless given.")] = None,
    chains: Annotated[int, typer.Option(help="Independent chains.")] = 4,
    thin: Annotated[int, typer.Option(help="Every how many steps a draw is kept.")] = 10,
    seed: Annotated[int, typer.Option(help="Same seed, same draws.")] = 0,
    data: Data = None,
) -> None:
    """Sample a model of the experiments into a store that survives whatever ends the command."""
    from isotherm.experiments import stored

    settings = {"steps": steps, "passes": passes, "chains": chains, "thin": thin, "seed": seed}
    _stored(lambda: stored.begin(problem, run, sampler, step_size, friction, data, **settings), run)


@app.command()
def resume(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder given to `isotherm sample`.")],
    steps: Annotated[int | None, typer.Option(help="How many steps to add to the run's own.")] = None,
    data: Data = None,
) -> None:
    """Go on with a stored run, exactly where it stopped."""
    from isotherm.experiments import stored

    _stored(lambda: stored.go_on(run, steps, data), run)


def _stored(work: Callable[[], Any], run: Path) -> None:
    """A run with a store: its mistakes in one sentence, where it stands at the end; 130 if Ctrl-C ended it."""
    from isotherm.datasets import DatasetError
    from isotherm.experiments.stored import said
    from isotherm.store import StoreError

    try:
        tree = work()
    except (DatasetError, StoreError, ValueError, TypeError) as error:
        fail(error)
    typer.echo(said(tree, run))
    if tree.attrs["interrupted"]:
        raise typer.Exit(130)


def progress_bar() -> Any:
    """A bar over cells with time left, on standard error."""
    from rich import progress
    from rich.console import Console

    return progress.Progress(
        progress.TextColumn("{task.description}"),
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        progress.TimeElapsedColumn(),
        progress.TimeRemainingColumn(),
        console=Console(stderr=True),
    )


data_app = typer.Typer(no_args_is_help=True, help="List, fetch and check the data sets.")
app.add_typer(data_app, name="data")


@data_app.command("list")
def data_list() -> None:
    """Name, contents, licence and home of each data set."""
    from isotherm.datasets import catalogue

    for entry in catalogue():
        typer.echo(f"{entry['name']}: {entry['title']}\n  licence: {entry['licence']}\n  {entry['homepage']}".rstrip())


@data_app.command("fetch")
def data_fetch(name: str, data: Data = None) -> None:
    """Find or download the files of one data set and check them."""
    from isotherm.datasets import DatasetError, fetch

    try:
        paths = fetch(name, data)
    except (DatasetError, ValueError) as error:
        fail(error)
    for path in paths:
        typer.echo(path)


@data_app.command("check")
def data_check(data: Data = None) -> None:
    """Say of every file whether it is there and right; exit code 1 if one is there and wrong."""
    from isotherm.datasets import check

    wrong = False
    for name, file, status in check(data):
        typer.echo(f"{name}/{file}: {status}")
        wrong |= status not in ("ok", "missing", "present, no checksum known")
    if wrong:
        raise typer.Exit(1)


def fail(message: Any) -> NoReturn:
    """One sentence for the user, exit code 1."""
    typer.echo(f"error: {message}", err=True)
    raise typer.Exit(1)


def leave(code: int) -> NoReturn:
    """End at once if cells still run in threads: they are not worth waiting for."""
    import os
    import sys
    import threading

    if threading.active_count() > 1:
        sys.stderr.flush()
        os._exit(code)
    raise typer.Exit(code)
