"""Ways in from other libraries, one small file each: `blackjax`, `equinox`, `flax`, `numpyro`.

None of those libraries is needed by isotherm itself; each is imported when its bridge is used.
"""

import importlib
from types import ModuleType

__all__ = ["blackjax", "equinox", "flax", "numpyro"]


def __getattr__(name: str) -> ModuleType:
    if name in __all__:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"isotherm.bridges has no {name}, only {', '.join(__all__)}")
