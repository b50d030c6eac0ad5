"""The command line: `isotherm --help`."""

import typer

app = typer.Typer(no_args_is_help=True, add_completion=False, help=__doc__)
