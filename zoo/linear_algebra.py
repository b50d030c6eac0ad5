"""Solves, decompositions and determinants inside the likelihood or the prior."""

import jax
import jax.numpy as jnp
import jax.scipy.linalg as linalg
import jax.scipy.stats as stats
import numpy as np
from registry import Case, gaussian, integers, model, normal_prior, normals, regression

from isotherm import Posterior


def spd(values, size):
    """A positive definite matrix of size² values."""
    root = values.reshape(size, size)
    return root @ root.T + jnp.eye(size, dtype=values.dtype)


def case_of(log_likelihood, size, data=None):
    init = jnp.asarray(normals(size, seed=9) / 5)
    return Case(Posterior(log_likelihood, normal_prior), normals(80, 3) if data is None else data, init)


@model
def solve():
    return case_of(lambda theta, y: -0.5 * y @ jnp.linalg.solve(spd(theta, 3), y), 9)


@model
def inverse():
    return case_of(lambda theta, y: -0.5 * y @ jnp.linalg.inv(spd(theta, 3)) @ y, 9)


@model
def cholesky_and_triangular_solve():
    def log_likelihood(theta, y):
        lower = jnp.linalg.cholesky(spd(theta, 3))
        z = linalg.solve_triangular(lower, y, lower=True)
        return -0.5 * z @ z - jnp.sum(jnp.log(jnp.diag(lower)))

    return case_of(log_likelihood, 9)


@model
def multivariate_normal_logpdf():
    return case_of(lambda theta, y: stats.multivariate_normal.logpdf(y, jnp.zeros(3, theta.dtype), spd(theta, 3)), 9)


@model
def packed_cholesky_factor():
    def log_likelihood(p, y):
        rows, columns = np.tril_indices(3)
        lower = jnp.zeros((3, 3)).at[rows, columns].set(p["packed"])
        lower = lower + jnp.eye(3)
        z = linalg.solve_triangular(lower, y - p["mean"], lower=True)
        return -0.5 * z @ z - jnp.sum(jnp.log(jnp.abs(jnp.diag(lower))))

    return Case(Posterior(log_likelihood, normal_prior), normals(80, 3), {"packed": jnp.zeros(6), "mean": jnp.zeros(3)})


@model
def slogdet():
    return case_of(lambda theta, y: -jnp.linalg.slogdet(spd(theta, 3) + jnp.outer(y, y))[1], 9)


@model
def determinant():
    return case_of(lambda theta, y: -jnp.log(jnp.linalg.det(spd(theta, 3) + jnp.outer(y, y))), 9)


@model
def eigenvalues_symmetric():
    def log_likelihood(theta, y):
        values, vectors = jnp.linalg.eigh(spd(theta, 3))
        return -0.5 * jnp.sum((vectors.T @ y) ** 2 / values)

    return case_of(log_likelihood, 9)


@model
def eigenvalues_general():
    # Derivatives of eigenvectors of general matrices do not exist in JAX; those of eigenvalues do.
    return case_of(lambda theta, y: -jnp.max(jnp.abs(jnp.linalg.eigvals(theta.reshape(3, 3) + jnp.outer(y, y)))), 9)


@model
def singular_values():
    return case_of(lambda theta, y: -jnp.sum(jnp.linalg.svd(theta.reshape(3, 4) + y[:, None], compute_uv=False)), 12)


@model
def qr_orthogonal_weights():
    def log_likelihood(theta, y):
        q, _ = jnp.linalg.qr(theta.reshape(3, 3) + jnp.eye(3))
        return -0.5 * jnp.sum((q @ y - 1) ** 2)

    return case_of(log_likelihood, 9)


@model
def lu_solve_inside():
    def log_likelihood(theta, y):
        return -0.5 * y @ linalg.lu_solve(linalg.lu_factor(spd(theta, 3)), y)

    return case_of(log_likelihood, 9)


@model
def matrix_exponential():
    return case_of(lambda theta, y: -0.5 * jnp.sum((linalg.expm(theta.reshape(3, 3)) @ y) ** 2), 9)


@model
def rate_matrix_of_a_markov_jump_process():
    data = {"from": integers(3, 100), "to": integers(3, 100, seed=1), "time": np.abs(normals(100)) + 0.1}

    def log_likelihood(theta, row):
        rates = jnp.exp(theta.reshape(3, 3)) * (1 - jnp.eye(3))
        generator = rates - jnp.diag(rates.sum(1))
        return jnp.log(linalg.expm(generator * row["time"])[row["from"], row["to"]])

    return case_of(log_likelihood, 9, data)


@model
def matrix_power():
    return case_of(lambda theta, y: -0.5 * jnp.sum((jnp.linalg.matrix_power(theta.reshape(3, 3), 3) @ y) ** 2), 9)


@model
def least_squares_inside():
    def log_likelihood(theta, y):
        design = jnp.stack([jnp.ones(6), theta], axis=1)
        coefficients = jnp.linalg.solve(design.T @ design + jnp.eye(2), design.T @ jnp.tile(y, 2))
        return -0.5 * coefficients @ coefficients

    return case_of(log_likelihood, 6)


@model
def pseudo_inverse():
    return case_of(lambda theta, y: -0.5 * jnp.sum((jnp.linalg.pinv(theta.reshape(4, 3)) @ jnp.ones(4) - y) ** 2), 12)


@model
def norms():
    def log_likelihood(theta, y):
        return -jnp.linalg.norm(y - theta) - jnp.linalg.norm(theta + 1, ord=1)

    return case_of(log_likelihood, 3)


@model
def einsum_of_three():
    data = {"a": normals(100, 3), "b": normals(100, 4), "y": normals(100)}

    def log_likelihood(theta, row):
        return gaussian(jnp.einsum("i,ij,j->", row["a"], theta.reshape(3, 4), row["b"]), row["y"])

    return case_of(log_likelihood, 12, data)


@model
def kronecker_product():
    return case_of(lambda theta, y: -0.5 * jnp.sum(jnp.kron(theta.reshape(2, 2), jnp.eye(3)) @ jnp.tile(y, 2)) ** 2, 4)


@model
def toeplitz_covariance():
    def log_likelihood(theta, y):
        covariance = linalg.toeplitz(jnp.exp(-jnp.arange(3.0) * jnp.exp(theta[0]))) + 0.1 * jnp.eye(3)
        return -0.5 * y @ jnp.linalg.solve(covariance, y) - 0.5 * jnp.linalg.slogdet(covariance)[1]

    return case_of(log_likelihood, 1)


@model
def gaussian_process_marginal_likelihood():
    data = {"x": normals(40, 6), "y": normals(40, 6, seed=1)}

    def log_likelihood(theta, row):
        gap = row["x"][:, None] - row["x"]
        gram = jnp.exp(-0.5 * gap**2 * jnp.exp(theta[0])) + jnp.exp(theta[1]) * jnp.eye(6)
        factor = linalg.cho_factor(gram, lower=True)
        return -0.5 * row["y"] @ linalg.cho_solve(factor, row["y"]) - jnp.sum(jnp.log(jnp.diag(factor[0])))

    return case_of(log_likelihood, 2, data)


@model
def wishart_like_prior():
    def log_prior(theta):
        precision = spd(theta, 3)
        return jnp.linalg.slogdet(precision)[1] - 0.5 * jnp.trace(precision)

    def log_likelihood(theta, y):
        return -0.5 * y @ spd(theta, 3) @ y + 0.5 * jnp.linalg.slogdet(spd(theta, 3))[1]

    return Case(Posterior(log_likelihood, log_prior), normals(80, 3), jnp.asarray(normals(9) / 3))


@model
def lkj_like_prior():
    def log_prior(p):
        correlation = jnp.tanh(p["r"])
        return jnp.log1p(-(correlation**2)) - 0.5 * jnp.sum(p["beta"] ** 2)

    def log_likelihood(p, row):
        return gaussian(row["x"] @ p["beta"] * (1 + 0.1 * jnp.tanh(p["r"])), row["y"])

    return Case(Posterior(log_likelihood, log_prior), regression(), {"r": jnp.zeros(()), "beta": jnp.zeros(4)})


@model
def conjugate_gradient_inside():
    def log_likelihood(theta, y):
        matrix = spd(theta, 3)
        return -0.5 * y @ jax.scipy.sparse.linalg.cg(lambda v: matrix @ v, y, maxiter=5)[0]

    return case_of(log_likelihood, 9)
