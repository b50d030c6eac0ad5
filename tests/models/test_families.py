"""Families against SciPy's densities, at ordinary predictors and far out."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, stats

from isotherm.models.families import LARGEST_LOG_RATE, Bernoulli, Categorical, Gaussian, Poisson, bounded_exp, softplus

FAMILIES = [Gaussian(), Bernoulli(), Categorical(3), Poisson()]
each_family = pytest.mark.parametrize("family", FAMILIES, ids=lambda family: type(family).__name__)
LOG_SIGMA = 0.3


def scipy_distribution(family, predictor):
    if isinstance(family, Gaussian):
        return stats.norm(predictor, np.exp(LOG_SIGMA))
    if isinstance(family, Bernoulli):
        return stats.bernoulli(1 / (1 + np.exp(-predictor)))
    return stats.poisson(np.exp(predictor))


@each_family
def test_density_mean_and_variance_are_scipys(family, float64):
    rng = np.random.default_rng(0)
    own = {"log_sigma": jnp.asarray(LOG_SIGMA)}
    for y in (0, 1, 2 if family.shape == (3,) else 1):
        predictor = rng.normal(size=family.shape)
        found = [
            family.log_density(jnp.asarray(predictor), y, own),
            family.mean(jnp.asarray(predictor)),
            family.variance(jnp.asarray(predictor), own),
        ]
        if family.shape:
            p = np.exp(predictor) / np.exp(predictor).sum()
            expected = [np.log(p[y]), p, p * (1 - p)]
        else:
            law = scipy_distribution(family, predictor)
            log_density = law.logpdf if isinstance(family, Gaussian) else law.logpmf
            expected = [log_density(y), law.mean(), law.var()]
        for mine, theirs in zip(found, expected, strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=1e-12)


def test_prior_of_the_noise_is_a_scaled_inverse_chi_square(float64):
    """σ² ~ guess²/χ²₁, as a density of log σ: it integrates to one."""
    family = Gaussian(guess=0.4)
    u = np.array([-2.0, -0.5, 1.0])
    variance = np.exp(2 * u)
    expected = stats.chi2(1).logpdf(0.16 / variance) + np.log(0.16 / variance**2) + np.log(2 * variance)
    density = jax.jit(jax.vmap(lambda log_sigma: family.log_prior({"log_sigma": log_sigma})))
    np.testing.assert_allclose(density(u), expected, rtol=1e-12)
    grid = np.linspace(-8, 25, 20_001)
    np.testing.assert_allclose(integrate.simpson(np.exp(density(grid)), x=grid), 1, rtol=1e-6)


@each_family
def test_far_out_predictors_give_finite_derivatives(family):
    """Up to the second, in single precision: Newton's method may step there."""

    @jax.jit
    def derivatives(predictor, log_sigma, y):
        def value(*at):
            return family.log_density(at[0], y, {"log_sigma": at[1]})

        at = predictor, log_sigma
        return [value(*at), *jax.grad(value, (0, 1))(*at), *jax.hessian(value, (0, 1))(*at)[0]]

    for size in (1e-30, 1.0, 80.0, 1e4, -1e4):
        for y in (0, 1):
            at = jnp.full(family.shape, size, jnp.float32), jnp.asarray(-20.0 if size > 1e3 else 0.0)
            found = derivatives(*at, y)
            if isinstance(family, Gaussian) and abs(size) > 1e3:
                found = found[:3]  # the square of 1e4 over e⁻²⁰ is as good as infinite
            assert all(np.isfinite(part).all() for part in found), (size, y)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@each_family
def test_keeps_the_dtype_of_the_predictor(family, dtype):
    with jax.enable_x64(True):
        predictor, own = jnp.zeros(family.shape, dtype), {"log_sigma": jnp.zeros((), dtype)}
        parts = [family.mean(predictor), family.variance(predictor, own)]
        parts += [family.log_density(predictor, y, own) for y in (1, np.float64(1), np.int32(1))]
        assert {part.dtype for part in parts} == {np.dtype(dtype)}


def test_exponential_is_smooth_where_it_stops():
    """Value and two derivatives agree on both sides, to the spacing of the points."""
    with jax.enable_x64(True):
        for derivative in (bounded_exp, jax.grad(bounded_exp), jax.grad(jax.grad(bounded_exp))):
            below, above = derivative(LARGEST_LOG_RATE - 1e-9), derivative(LARGEST_LOG_RATE + 1e-9)
            np.testing.assert_allclose(above, below, rtol=1e-8)


def test_compare_by_value():
    assert Categorical(3) == Categorical(3) != Categorical(4)
    assert hash(Gaussian()) == hash(Gaussian())
    assert Bernoulli() != Poisson()


@pytest.mark.parametrize(
    ("build", "words"),
    [(lambda: Categorical(1), "classes must be at least 2"), (lambda: Gaussian(0.0), "guess must be positive")],
)
def test_refuses_bad_arguments_by_name(build, words):
    with pytest.raises(ValueError, match=words):
        build()


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
