"""Regressions: one mean or rate a row, many likelihoods."""

import jax
import jax.numpy as jnp
import jax.scipy.stats as stats
import numpy as np
from jax.scipy.special import gammaln
from registry import Case, classes, counts, gaussian, integers, model, normal_prior, normals, regression, uniforms

from isotherm import Posterior


def positive_targets(rows=200, columns=4):
    return {"x": 0.3 * normals(rows, columns), "y": np.exp(normals(rows, seed=1))}


def with_scale(columns=4):
    return {"beta": jnp.zeros(columns), "log_sigma": jnp.zeros(())}


@model
def linear_regression():
    return Case(
        Posterior(lambda theta, row: gaussian(row["x"] @ theta, row["y"]), normal_prior), regression(), jnp.zeros(4)
    )


@model
def linear_regression_with_scale():
    def log_likelihood(p, row):
        return stats.norm.logpdf(row["y"], row["x"] @ p["beta"], jnp.exp(p["log_sigma"]))

    return Case(Posterior(log_likelihood, normal_prior), regression(), with_scale())


@model
def linear_regression_float64():
    rng = np.random.default_rng(0)
    data = {"x": rng.standard_normal((200, 4)), "y": rng.standard_normal(200)}
    return Case(Posterior(lambda theta, row: gaussian(row["x"] @ theta, row["y"]), normal_prior), data, np.zeros(4))


@model
def heteroscedastic_regression():
    def log_likelihood(p, row):
        log_sigma = row["x"] @ p["gamma"]
        return -0.5 * ((row["y"] - row["x"] @ p["beta"]) / jnp.exp(log_sigma)) ** 2 - log_sigma

    return Case(Posterior(log_likelihood, normal_prior), regression(), {"beta": jnp.zeros(4), "gamma": jnp.zeros(4)})


@model
def logistic_regression():
    def log_likelihood(theta, row):
        logit = row["x"] @ theta
        return row["y"] * logit - jax.nn.softplus(logit)

    return Case(Posterior(log_likelihood, normal_prior), classes(), jnp.zeros(4))


@model
def logistic_regression_signs():
    data = classes()
    data["y"] = np.where(data["y"], 1.0, -1.0)
    return Case(
        Posterior(lambda theta, row: jax.nn.log_sigmoid(row["y"] * (row["x"] @ theta)), normal_prior),
        data,
        jnp.zeros(4),
    )


@model
def probit_regression():
    def log_likelihood(theta, row):
        z = row["x"] @ theta
        return jnp.where(row["y"] == 1, stats.norm.logcdf(z), stats.norm.logcdf(-z))

    return Case(Posterior(log_likelihood, normal_prior), classes(), jnp.zeros(4))


@model
def complementary_log_log_regression():
    def log_likelihood(theta, row):
        rate = jnp.exp(row["x"] @ theta)
        return jnp.where(row["y"] == 1, jnp.log(-jnp.expm1(-rate)), -rate)

    return Case(Posterior(log_likelihood, normal_prior), classes(), jnp.zeros(4))


@model
def softmax_regression():
    def log_likelihood(W, row):
        return jax.nn.log_softmax(row["x"] @ W)[row["y"]]

    return Case(Posterior(log_likelihood, normal_prior), classes(300, 5, 3), jnp.zeros((5, 3)))


@model
def softmax_regression_one_hot():
    data = classes(300, 5, 3)
    data["y"] = np.eye(3, dtype=np.float32)[data["y"]]

    def log_likelihood(W, row):
        return row["y"] @ jax.nn.log_softmax(row["x"] @ W)

    return Case(Posterior(log_likelihood, normal_prior), data, jnp.zeros((5, 3)))


@model
def poisson_regression():
    def log_likelihood(theta, row):
        eta = row["x"] @ theta
        return row["y"] * eta - jnp.exp(eta)

    return Case(Posterior(log_likelihood, normal_prior), counts(), jnp.zeros(4))


@model
def poisson_regression_logpmf():
    def log_likelihood(theta, row):
        return stats.poisson.logpmf(row["y"], jnp.exp(row["x"] @ theta))

    return Case(Posterior(log_likelihood, normal_prior), counts(), jnp.zeros(4))


@model
def poisson_regression_with_exposure():
    data = counts() | {"exposure": uniforms(200)}

    def log_likelihood(theta, row):
        log_rate = row["x"] @ theta + jnp.log(row["exposure"])
        return row["y"] * log_rate - jnp.exp(log_rate) - gammaln(row["y"] + 1.0)

    return Case(Posterior(log_likelihood, normal_prior), data, jnp.zeros(4))


@model
def negative_binomial_regression():
    def log_likelihood(p, row):
        mean, shape = jnp.exp(row["x"] @ p["beta"]), jnp.exp(p["log_shape"])
        y = row["y"]
        return (
            gammaln(y + shape)
            - gammaln(shape)
            - gammaln(y + 1.0)
            + shape * jnp.log(shape / (shape + mean))
            + y * jnp.log(mean / (shape + mean))
        )

    return Case(
        Posterior(log_likelihood, normal_prior), counts(), {"beta": jnp.zeros(4), "log_shape": jnp.asarray(0.0)}
    )


@model
def gamma_regression():
    def log_likelihood(p, row):
        shape = jnp.exp(p["log_shape"])
        return stats.gamma.logpdf(row["y"], shape, scale=jnp.exp(row["x"] @ p["beta"]) / shape)

    return Case(
        Posterior(log_likelihood, normal_prior), positive_targets(), {"beta": jnp.zeros(4), "log_shape": jnp.zeros(())}
    )


@model
def beta_regression():
    def log_likelihood(p, row):
        mean, precision = jax.nn.sigmoid(row["x"] @ p["beta"]), jnp.exp(p["log_precision"])
        return stats.beta.logpdf(row["y"], mean * precision, (1 - mean) * precision)

    data = {"x": normals(200, 4), "y": uniforms(200)}
    return Case(Posterior(log_likelihood, normal_prior), data, {"beta": jnp.zeros(4), "log_precision": jnp.ones(())})


@model
def student_t_regression():
    def log_likelihood(p, row):
        return stats.t.logpdf(row["y"], 4.0, row["x"] @ p["beta"], jnp.exp(p["log_sigma"]))

    return Case(Posterior(log_likelihood, normal_prior), regression(), with_scale())


@model
def student_t_with_free_degrees():
    def log_likelihood(p, row):
        return stats.t.logpdf(row["y"], 1 + jax.nn.softplus(p["nu"]), row["x"] @ p["beta"])

    return Case(Posterior(log_likelihood, normal_prior), regression(), {"beta": jnp.zeros(4), "nu": jnp.asarray(2.0)})


@model
def laplace_regression():
    return Case(
        Posterior(lambda theta, row: -jnp.abs(row["y"] - row["x"] @ theta), normal_prior), regression(), jnp.zeros(4)
    )


@model
def cauchy_regression():
    return Case(
        Posterior(lambda theta, row: stats.cauchy.logpdf(row["y"], row["x"] @ theta, 1.0), normal_prior),
        regression(),
        jnp.zeros(4),
    )


@model
def huber_regression():
    def log_likelihood(theta, row):
        r = jnp.abs(row["y"] - row["x"] @ theta)
        return -jnp.where(r < 1, 0.5 * r**2, r - 0.5)

    return Case(Posterior(log_likelihood, normal_prior), regression(), jnp.zeros(4))


@model
def quantile_regression():
    def log_likelihood(theta, row):
        r = row["y"] - row["x"] @ theta
        return -jnp.maximum(0.9 * r, -0.1 * r)

    return Case(Posterior(log_likelihood, normal_prior), regression(), jnp.zeros(4))


@model
def lognormal_regression():
    def log_likelihood(p, row):
        z = (jnp.log(row["y"]) - row["x"] @ p["beta"]) / jnp.exp(p["log_sigma"])
        return -0.5 * z**2 - p["log_sigma"] - jnp.log(row["y"])

    return Case(Posterior(log_likelihood, normal_prior), positive_targets(), with_scale())


@model
def weibull_survival():
    def log_likelihood(p, row):
        shape, log_scale = jnp.exp(p["log_shape"]), row["x"] @ p["beta"]
        z = jnp.log(row["y"]) - log_scale
        return jnp.log(shape) - log_scale + (shape - 1) * z - jnp.exp(shape * z)

    return Case(
        Posterior(log_likelihood, normal_prior), positive_targets(), {"beta": jnp.zeros(4), "log_shape": jnp.zeros(())}
    )


@model
def weibull_survival_censored():
    data = positive_targets() | {"died": integers(2, 200, seed=3).astype(bool)}

    def log_likelihood(p, row):
        shape, log_scale = jnp.exp(p["log_shape"]), row["x"] @ p["beta"]
        z = jnp.log(row["y"]) - log_scale
        survived = -jnp.exp(shape * z)
        return jnp.where(row["died"], jnp.log(shape) - log_scale + (shape - 1) * z + survived, survived)

    return Case(Posterior(log_likelihood, normal_prior), data, {"beta": jnp.zeros(4), "log_shape": jnp.zeros(())})


@model
def tobit_regression():
    data = regression()
    data["censored"] = data["y"] < 0
    data["y"] = np.maximum(data["y"], 0)

    def log_likelihood(p, row):
        sigma, mean = jnp.exp(p["log_sigma"]), row["x"] @ p["beta"]
        return jnp.where(row["censored"], stats.norm.logcdf(-mean / sigma), stats.norm.logpdf(row["y"], mean, sigma))

    return Case(Posterior(log_likelihood, normal_prior), data, with_scale())


@model
def lasso_prior():
    return Case(
        Posterior(lambda theta, row: gaussian(row["x"] @ theta, row["y"]), lambda theta: -jnp.sum(jnp.abs(theta))),
        regression(),
        jnp.zeros(4),
    )


@model
def horseshoe_prior():
    def log_prior(p):
        scales = p["z"] * jnp.exp(p["log_local"] + p["log_global"])
        return -0.5 * jnp.sum(p["z"] ** 2) - jnp.sum(jnp.log1p(jnp.exp(2 * p["log_local"]))) - 0.001 * scales @ scales

    def log_likelihood(p, row):
        return gaussian(row["x"] @ (p["z"] * jnp.exp(p["log_local"] + p["log_global"])), row["y"])

    init = {"z": jnp.zeros(10), "log_local": jnp.zeros(10), "log_global": jnp.asarray(-1.0)}
    return Case(Posterior(log_likelihood, log_prior), regression(200, 10), init)


@model
def polynomial_regression():
    data = {"x": normals(200), "y": normals(200, seed=1)}
    return Case(
        Posterior(lambda c, row: gaussian(jnp.polyval(c, jnp.tanh(row["x"])), row["y"]), normal_prior),
        data,
        jnp.zeros(5),
    )


@model
def spline_regression():
    knots = np.linspace(-2, 2, 9)

    def log_likelihood(theta, row):
        return gaussian(jnp.maximum(row["x"] - knots, 0) ** 3 @ theta, row["y"])

    return Case(Posterior(log_likelihood, normal_prior), {"x": normals(200), "y": normals(200, seed=1)}, jnp.zeros(9))


@model
def fourier_features():
    frequencies = np.arange(1, 9)

    def log_likelihood(p, row):
        phase = frequencies * row["x"]
        return gaussian(jnp.sin(phase) @ p["sin"] + jnp.cos(phase) @ p["cos"], row["y"])

    data = {"x": normals(200), "y": normals(200, seed=1)}
    return Case(Posterior(log_likelihood, normal_prior), data, {"sin": jnp.zeros(8), "cos": jnp.zeros(8)})


@model
def multivariate_regression():
    def log_likelihood(W, row):
        return -0.5 * jnp.sum((row["y"] - row["x"] @ W) ** 2)

    return Case(
        Posterior(log_likelihood, normal_prior), {"x": normals(200, 4), "y": normals(200, 3)}, jnp.zeros((4, 3))
    )
