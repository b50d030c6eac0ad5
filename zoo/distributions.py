"""Distributions without covariates."""

import jax
import jax.numpy as jnp
import jax.scipy.stats as stats
import numpy as np
from jax.scipy.special import gammaln
from registry import Case, counts, model, normal_prior, normals, uniforms

from isotherm import Posterior


@model
def negative_binomial_logpmf():
    def log_likelihood(p, y):
        return stats.nbinom.logpmf(y, jnp.exp(p[0]), jax.nn.sigmoid(p[1]))

    return Case(Posterior(log_likelihood, normal_prior), counts()["y"], jnp.zeros(2))


@model
def beta_distribution():
    def log_likelihood(p, y):
        return stats.beta.logpdf(y, jnp.exp(p[0]), jnp.exp(p[1]))

    return Case(Posterior(log_likelihood, normal_prior), uniforms(300), jnp.zeros(2))


@model
def beta_by_gammaln():
    def log_likelihood(p, y):
        a, b = jnp.exp(p["a"]), jnp.exp(p["b"])
        return gammaln(a + b) - gammaln(a) - gammaln(b) + (a - 1) * jnp.log(y) + (b - 1) * jnp.log1p(-y)

    return Case(Posterior(log_likelihood, normal_prior), uniforms(300), {"a": jnp.zeros(()), "b": jnp.zeros(())})


@model
def dirichlet_distribution():
    data = np.random.default_rng(0).dirichlet([2.0, 3.0, 4.0], 200)

    def log_likelihood(log_alpha, y):
        alpha = jnp.exp(log_alpha)
        return gammaln(jnp.sum(alpha)) - jnp.sum(gammaln(alpha)) + jnp.sum((alpha - 1) * jnp.log(y))

    return Case(Posterior(log_likelihood, normal_prior), data, jnp.zeros(3))


@model
def von_mises_direction():
    data = np.random.default_rng(0).vonmises(0.5, 2.0, 300)

    def log_likelihood(p, angle):
        return stats.vonmises.logpdf(angle - p["mean"], jnp.exp(p["log_kappa"]))

    return Case(Posterior(log_likelihood, normal_prior), data, {"mean": jnp.zeros(()), "log_kappa": jnp.zeros(())})


@model
def truncated_normal():
    data = np.abs(normals(300))

    def log_likelihood(p, y):
        sigma = jnp.exp(p[1])
        return stats.norm.logpdf(y, p[0], sigma) - stats.norm.logcdf(p[0] / sigma)

    return Case(Posterior(log_likelihood, normal_prior), data, jnp.zeros(2))


@model
def exponential_distribution():
    return Case(
        Posterior(lambda log_rate, y: log_rate - jnp.exp(log_rate) * y, lambda log_rate: -0.5 * log_rate**2),
        np.random.default_rng(0).exponential(2.0, 300),
        jnp.zeros(()),
    )


@model
def pareto_distribution():
    data = 1 + np.random.default_rng(0).pareto(2.0, 300)
    return Case(
        Posterior(lambda log_shape, y: stats.pareto.logpdf(y, jnp.exp(log_shape)), normal_prior), data, jnp.zeros(())
    )
