"""Methods that compare by the value of their model."""

import inspect
from dataclasses import dataclass

from isotherm.models.model import method


@dataclass(frozen=True)
class Line:
    slope: float

    @method
    def at(self, x: float, y: float = 0.0) -> float:
        """slope · x + y."""
        return self.slope * x + y


class Steep(Line):
    """Inherits `at`."""


def test_bound_methods_compare_by_the_values_of_their_models():
    assert Line(2.0).at == Line(2.0).at
    assert hash(Line(2.0).at) == hash(Line(2.0).at)
    assert Line(2.0).at != Line(3.0).at
    assert Line(2.0).at != Steep(2.0).at


def test_calls_and_describes_the_function_also_when_inherited():
    for model in (Line(2.0), Steep(2.0)):
        assert model.at(3.0, y=1.0) == 7.0
        assert model.at.__name__ == "at"
        assert list(inspect.signature(model.at).parameters) == ["x", "y"]
    assert Line.at.__doc__ == "slope · x + y."
