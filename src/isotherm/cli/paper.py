"""The commands about the paper: `isotherm demo`, `reproduce` and `data`."""

import os
import sys
import threading
from pathlib import Path
from typing import Annotated

import typer

from isotherm.paper.experiments import NAMES

Data = Annotated[
    Path | None,
    typer.Option(
        "--data",
        metavar="DIR",
        help="Folder with the data sets. Without it: the folder that ISOTHERM_DATA names, then your cache; what is in "
        "neither is downloaded.",
    ),
]


def demo() -> None:
    """Compare the samplers on linear regression, whose posterior is known exactly (about a minute)."""
    from rich.console import Console
    from rich.progress import track

    from isotherm.paper.experiments import demo as demonstration

    console = Console()
    console.print(demonstration.INTRODUCTION)
    results = dict(track(demonstration.run(), "sampling", len(demonstration.CELLS), console=Console(stderr=True)))
    console.print(demonstration.table(results))
    path = demonstration.figure(results, Path("isotherm-demo") / "w2.png")
    console.print(f"figure: {path}", soft_wrap=True, highlight=False)


def reproduce(
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help=f"{', '.join(NAMES)}, or all.")],
    quick: Annotated[
        bool, typer.Option("--quick", help="Shorten every run; the numbers cannot be compared with the paper's.")
    ] = False,
    seeds: Annotated[
        int | None, typer.Option(min=1, help="Seeds of each setting. Default: 3; always 1 for the largest models.")
    ] = None,
    data: Data = None,
    out: Annotated[Path, typer.Option(help="Folder for the results; what is finished there is not run again.")] = Path(
        "out"
    ),
) -> None:
    """Run experiments of the paper; write results.json, results.csv, figures and report.html."""
    from rich import progress
    from rich.console import Console

    from isotherm.paper.experiments import reproduce as experiments
    from isotherm.paper.experiments.experiment import Options

    columns = "{task.description}", progress.BarColumn(), progress.MofNCompleteColumn()
    times = progress.TimeElapsedColumn(), progress.TimeRemainingColumn()
    with progress.Progress(*columns, *times, console=Console(stderr=True)) as bar:
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


def list_datasets() -> None:
    """Print name, contents, licence and home page of each data set."""
    from isotherm.paper.datasets import catalogue

    for entry in catalogue():
        typer.echo(f"{entry['name']}: {entry['title']}\n  licence: {entry['licence']}\n  {entry['homepage']}".rstrip())


def fetch_dataset(
    name: Annotated[str, typer.Argument(help="A data set, as `isotherm data list` names it.")], data: Data = None
) -> None:
    """Find the files of one data set, download those that are nowhere, check all, and print where they are."""
    from isotherm.paper.datasets import fetch

    for path in fetch(name, data):
        typer.echo(path)


def check_datasets(data: Data = None) -> None:
    """Print for every file whether it is there and right; exit code 1 if one is there and wrong."""
    from isotherm.paper.datasets import check

    files = check(data)
    for name, file, status in files:
        typer.echo(f"{name}/{file}: {status}")
    if any(status not in ("ok", "missing", "present, no checksum known") for _, _, status in files):
        raise typer.Exit(1)
