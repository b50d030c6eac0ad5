"""Optional packages (`pip install 'isotherm[plots]'`): imported where they are used, or named in a sentence."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

PACKAGES = {"sklearn": "scikit-learn"}  # by module, where a package has another name


class MissingExtraError(ModuleNotFoundError):
    """A package of one of isotherm's extras is not installed."""


def sentence(module: str, name: str, purpose: str) -> str:
    return f"{purpose} needs {PACKAGES.get(module, module)}: pip install 'isotherm[{name}]'"


@contextmanager
def extra(name: str, purpose: str) -> Iterator[None]:
    """Surround the imports of one extra: `with extra("plots", "a picture"): import matplotlib`.

    Raises:
        MissingExtraError: what `purpose` needs, and how to install it.
    """
    try:
        yield
    except ModuleNotFoundError as missing:
        module = (missing.name or "").split(".")[0]
        if module in {"", "isotherm"}:
            raise
        raise MissingExtraError(sentence(module, name, purpose), name=missing.name) from None


def require(module: str, name: str, purpose: str) -> None:
    """Raise MissingExtraError before work that would be lost, where the import itself comes late."""
    if find_spec(module) is None:
        raise MissingExtraError(sentence(module, name, purpose), name=module)
