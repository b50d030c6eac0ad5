"""Methods that compare by value.

In Python `a.f == b.f` only where `a is b`, so the methods of two equal models differ, and a compiled function
keyed on them would be compiled again. `@method` binds to an object that compares and hashes by (model, name).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class BoundMethod:
    """`model.name`, equal to the same method of any equal model; can be pickled whenever the model can."""

    model: Any
    name: str

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.__wrapped__(*args, **kwargs)

    @property
    def __wrapped__(self) -> Callable[..., Any]:
        """The plain bound function: `inspect.signature` and `help` follow it."""
        return getattr(type(self.model), self.name).function.__get__(self.model)

    @property
    def __name__(self) -> str:
        return self.name


class method:
    """Decorator: a method whose bound form compares by value."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.__doc__ = function.__doc__

    def __get__(self, model: Any, owner: type | None = None) -> Any:
        return self if model is None else BoundMethod(model, self.function.__name__)
