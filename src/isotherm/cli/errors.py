"""Errors that a user can cause, said in one sentence: how every command ends that cannot do what it was asked for."""

import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import typer

from isotherm.lib.optional import MissingExtraError

STATUS = 2  # as for a wrong option; 1 is the answer "no", of `isotherm check` for instance


@contextmanager
def in_a_sentence(before: Callable[[], object] = lambda: None) -> Iterator[None]:
    """End the command with one sentence and exit status 2 at an error that a user can cause; `before` is called first.
    Warnings are sentences too, without the place in the code that they come from."""
    try:
        with warnings.catch_warnings():
            warnings.showwarning = lambda message, *_: typer.echo(f"warning: {message}", err=True)
            yield
    except (OSError, ValueError, MissingExtraError) as error:  # DatasetError and StoreError are OSErrors
        before()
        sentence = re.sub(r"^\[Errno \d+\] ", "", str(error)).replace("data_dir (--data)", "--data")
        typer.echo(f"error: {sentence}", err=True)
        raise typer.Exit(STATUS) from None
