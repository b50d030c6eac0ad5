"""Sums over rows, a chunk at a time, against JAX's derivatives of the whole sum."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from isotherm.lib.progress import Passes
from isotherm.targets import newton as module
from isotherm.targets.newton import prior_gradient, prior_hessian
from isotherm.targets.target import Coordinates

RNG = np.random.default_rng(1)
FACTOR = RNG.standard_normal((4, 4))
ORIGIN = RNG.standard_normal(4)
WEIGHTS = RNG.random(700)


def whole(posterior, data, unravel, weights, scale=1.0):
    """The weighted sum over all rows as one function of z."""

    def total(z):
        rows = jax.vmap(posterior.log_likelihood, in_axes=(None, 0))(unravel(ORIGIN + FACTOR @ z), data)
        return scale * jnp.sum(jnp.asarray(weights) * rows)

    return total


@pytest.fixture
def doubles(badly_scaled):
    """The model in double precision, so that nothing but a mistake can make a difference."""
    posterior, data, init = badly_scaled
    with jax.enable_x64(True):
        as_double = [jax.tree.map(lambda a: np.asarray(a, np.float64), tree) for tree in (data, init)]
        yield posterior, as_double[0] | {"x": as_double[0]["x"] / [1e-2, 1, 1e2]}, as_double[1]


@pytest.mark.parametrize("rows", [700, 64, 100], ids=lambda rows: f"chunks of {rows}")
def test_gradient_and_hessian(doubles, sums, monkeypatch, rows):
    """Chunks that hold all rows, that divide them with a rest, and others; to 1e-12 of the largest entry, some
    thousand roundings."""
    monkeypatch.setattr(module, "LARGEST_CHUNK", rows)
    posterior, data, init = doubles
    seen, passes = [], Passes(700, show=False)
    monkeypatch.setattr(passes, "add", seen.append)
    found, _ = sums(posterior, data, init, weights=WEIGHTS, scale=3.0, passes=passes)
    at = Coordinates(ORIGIN, FACTOR)
    total = whole(posterior, data, found.target.unravel, WEIGHTS, 3.0)
    value, gradient = found.gradient(at)
    assert sum(seen) == 700
    assert max(seen) == rows
    expected = np.asarray(jax.grad(total)(jnp.zeros(4)))
    np.testing.assert_allclose(value, total(jnp.zeros(4)), rtol=1e-12)
    np.testing.assert_allclose(gradient, expected, atol=1e-12 * np.abs(expected).max() * 700)
    hessian = found.hessian(at)
    expected = np.asarray(jax.hessian(total)(jnp.zeros(4)))
    np.testing.assert_allclose(hessian, expected, atol=1e-12 * np.abs(expected).max())
    np.testing.assert_array_equal(hessian, hessian.T)


def test_leverages(doubles, sums, monkeypatch):
    """With the unit vectors times √d for probes, their means are traces: exactly ‖Lᵀ∇ℓ_i‖² and, where all second
    derivatives have one sign, |tr Lᵀ∇²ℓ_iL|."""
    monkeypatch.setattr(module, "LARGEST_CHUNK", 100)
    posterior, data, init = doubles
    found, _ = sums(posterior, data, init)
    bends, slopes = found.leverages(Coordinates(ORIGIN, FACTOR), 2 * np.eye(4))

    def one(z, row):
        return posterior.log_likelihood(found.target.unravel(ORIGIN + FACTOR @ z), row)

    gradients = jax.vmap(jax.grad(one), in_axes=(None, 0))(jnp.zeros(4), data)
    hessians = jax.vmap(jax.hessian(one), in_axes=(None, 0))(jnp.zeros(4), data)
    np.testing.assert_allclose(slopes, np.sum(np.asarray(gradients) ** 2, axis=1), rtol=1e-10)
    np.testing.assert_allclose(bends, -np.trace(hessians, axis1=1, axis2=2), rtol=1e-10)


def test_float32_sums_are_added_in_float64(badly_scaled, sums, monkeypatch):
    """In chunks of 64: each is off by its own rounding at most, 64 · 6e-8, and no more for being 100 of them."""
    monkeypatch.setattr(module, "LARGEST_CHUNK", 64)
    posterior, data, init = badly_scaled
    many = jax.tree.map(lambda column: np.tile(column, (10,) + (1,) * (column.ndim - 1)), data)
    once, at = sums(posterior, data, init)
    ten, _ = sums(posterior, many, init)
    value, gradient = ten.gradient(at)
    np.testing.assert_allclose(value, 10 * once.gradient(at)[0], rtol=4e-6)
    np.testing.assert_allclose(value, 7000 * np.log(0.5), rtol=4e-6)
    sizes = np.append(0.5 * 7000, 0.5 * np.abs(many["x"]).sum(axis=0, dtype=np.float64))  # b comes first
    exact = np.append(0.5 * many["y"].sum(), 0.5 * (many["y"].astype(np.float64) @ many["x"]))
    assert gradient.dtype == np.float64
    assert (abs(gradient - exact) < 4e-6 * sizes).all()


def test_the_prior_is_differentiated_in_the_same_coordinates(doubles, sums):
    posterior, data, init = doubles
    found, _ = sums(posterior, data, init)
    at = Coordinates(ORIGIN, FACTOR)

    def prior(z):
        return posterior.log_prior(found.target.unravel(ORIGIN + FACTOR @ z))

    value, gradient = prior_gradient(found.target, at)
    np.testing.assert_allclose(value, prior(np.zeros(4)), rtol=1e-12)
    np.testing.assert_allclose(gradient, jax.grad(prior)(jnp.zeros(4)), rtol=1e-10)
    expected = np.asarray(jax.hessian(prior)(jnp.zeros(4)))
    np.testing.assert_allclose(prior_hessian(found.target, at), expected, atol=1e-12 * np.abs(expected).max())


def test_a_last_chunk_is_filled_up():
    column = np.arange(6).reshape(3, 2)
    assert module.pad(column, 3) is column
    np.testing.assert_array_equal(module.pad(column, 5), [[0, 1], [2, 3], [4, 5], [4, 5], [4, 5]])
