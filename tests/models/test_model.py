"""The two devices that models are made of: methods that compare by value, and softplus."""

import inspect
from dataclasses import dataclass

import jax
import numpy as np

from isotherm.models.model import method, softplus


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


def test_softplus_values_and_derivatives_at_both_ends():
    x = np.float32([-1e30, -80, -1, 0, 1, 100, 1e30])
    expected = np.logaddexp(x.astype(np.float64), 0)
    np.testing.assert_allclose(softplus(x), expected, rtol=1e-6)
    derivative = jax.vmap(jax.grad(softplus))(x)
    np.testing.assert_allclose(
        derivative, [0, np.exp(-80.0), 1 / (1 + np.e), 0.5, np.e / (1 + np.e), 1, 1], rtol=1e-5, atol=1e-40
    )


def test_softplus_linearisation_keeps_one_array():
    _, push = jax.linearize(softplus, np.ones(3, np.float32))
    jaxpr = jax.make_jaxpr(push)(np.ones(3, np.float32))
    assert len(jaxpr.jaxpr.constvars) == 1
    assert [e.primitive.name for e in jaxpr.jaxpr.eqns] == ["mul"]
