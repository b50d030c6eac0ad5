"""Bayesian sampling of large data sets with stochastic-gradient thermostats.

The public names are listed in `__init__.pyi` and loaded when first used, so that the command line answers at once.
"""

import ast
from importlib import import_module
from pathlib import Path
from typing import Any

from isotherm.lib.version import __version__ as __version__


def _places() -> dict[str, tuple[str, str | None]]:
    """For each public name, the module it is in and its name there; None if it is the module itself."""
    stub = ast.parse(Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
    places: dict[str, tuple[str, str | None]] = {}
    for line in stub.body:
        if isinstance(line, ast.ImportFrom):
            for alias in line.names:
                place = (line.module, alias.name) if line.module else (alias.name, None)
                places[alias.asname or alias.name] = (f"{__name__}.{place[0]}", place[1])
    return places


_PLACES = _places()
__all__ = sorted(_PLACES)


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, attribute = _PLACES[name]
    found = import_module(module)
    value = found if attribute is None else getattr(found, attribute, None) or import_module(f"{module}.{attribute}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__]
