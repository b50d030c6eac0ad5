"""Sample with stochastic-gradient thermostats, and reproduce the paper's experiments.

Nothing heavy is imported before a command needs it, so that --help answers at once.
"""

from typing import Annotated, Any

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
    from pathlib import Path

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


def fail(message: Any) -> None:
    """One sentence for the user, exit code 1."""
    typer.echo(f"error: {message}", err=True)
    raise typer.Exit(1)
