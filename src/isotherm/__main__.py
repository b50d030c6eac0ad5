"""`isotherm` and `python -m isotherm`: the command line, or a sentence if what it needs is not installed."""

import sys

from isotherm.lib.optional import MissingExtraError, extra


def main() -> None:
    try:
        with extra("cli", "the command isotherm"):
            from isotherm.cli.app import app
    except MissingExtraError as missing:
        sys.exit(f"error: {missing}")
    app(prog_name="isotherm")


if __name__ == "__main__":
    main()
