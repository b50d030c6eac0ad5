import jax
import numpy as np

from isotherm.models.activation import softplus


def test_values_and_derivatives_at_both_ends():
    x = np.float32([-1e30, -80, -1, 0, 1, 100, 1e30])
    expected = np.logaddexp(x.astype(np.float64), 0)
    np.testing.assert_allclose(softplus(x), expected, rtol=1e-6)
    derivative = jax.vmap(jax.grad(softplus))(x)
    np.testing.assert_allclose(
        derivative, [0, np.exp(-80.0), 1 / (1 + np.e), 0.5, np.e / (1 + np.e), 1, 1], rtol=1e-5, atol=1e-40
    )


def test_linearisation_keeps_one_array():
    _, push = jax.linearize(softplus, np.ones(3, np.float32))
    jaxpr = jax.make_jaxpr(push)(np.ones(3, np.float32))
    assert len(jaxpr.jaxpr.constvars) == 1
    assert [e.primitive.name for e in jaxpr.jaxpr.eqns] == ["mul"]
