import jax
import jax.numpy as jnp
import numpy as np
import pytest

from isotherm.diagnostics import kernel, kernel_stein_discrepancy

RNG = np.random.default_rng(0)


@pytest.mark.parametrize(("scale", "exponent"), [(1.0, -0.5), (0.7, -0.3)])
def test_it_is_its_definition(float64, scale, exponent):
    """With the derivatives of the kernel by JAX."""
    x, F = RNG.standard_normal((2, 7, 3))

    def k(a, b):
        return (scale**2 + jnp.sum((a - b) ** 2)) ** exponent

    def u(a, s, b, t):
        mixed = jax.jacfwd(jax.grad(k, 1))(a, b)
        return s @ t * k(a, b) + s @ jax.grad(k, 1)(a, b) + t @ jax.grad(k, 0)(a, b) + jnp.trace(mixed)

    pairs = [[u(x[i], F[i], x[j], F[j]) for j in range(7)] for i in range(7)]
    found = kernel_stein_discrepancy(x, F, scale=scale, exponent=exponent)
    assert found == pytest.approx(float(np.sqrt(np.mean(pairs))), rel=1e-10)


def test_blocks_change_nothing(monkeypatch):
    x, F = RNG.standard_normal((2, 4, 25, 3))
    whole = kernel_stein_discrepancy(x, F)
    monkeypatch.setattr(kernel, "BLOCK_NUMBERS", 700)  # 7 rows at a time
    assert kernel_stein_discrepancy(x, F) == pytest.approx(whole, rel=1e-12)


def test_of_right_draws_it_is_what_chance_makes():
    """Its square is u(x, x)'s mean over n, on average: 2d/n for a Gaussian."""
    draws, d = 400, 3
    squares = [kernel_stein_discrepancy(z, -z) ** 2 for z in RNG.standard_normal((40, draws, d))]
    # One square has a spread of about a fifth of itself; the mean of 40 of them, of 3 %.
    assert np.mean(squares) == pytest.approx(2 * d / draws, rel=0.15)


@pytest.mark.parametrize(("shift", "width"), [(0.3, 1.0), (0.0, 1.3), (0.0, 0.7)])
def test_wrong_draws_are_told(shift, width):
    z = RNG.standard_normal((1000, 3))
    wrong = shift + width * z
    assert kernel_stein_discrepancy(wrong, -wrong) > 1.5 * kernel_stein_discrepancy(z, -z)


def test_offsets_cost_no_digits():
    z = RNG.standard_normal((50, 2))
    assert kernel_stein_discrepancy(z + 1e6, -z) == pytest.approx(kernel_stein_discrepancy(z, -z), rel=1e-7)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"scale": 0.0}, "scale must be positive, got 0.0"),
        ({"exponent": 0.5}, "exponent must be between -1 and 0, got 0.5"),
    ],
)
def test_bad_arguments_are_named(arguments, words):
    with pytest.raises(ValueError, match=words):
        kernel_stein_discrepancy(np.zeros((2, 1)), np.zeros((2, 1)), **arguments)
