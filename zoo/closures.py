"""Models that close over arrays: in the likelihood, the prior or the step size's schedule."""

import jax
import jax.numpy as jnp
import jax.scipy.linalg
import numpy as np
from registry import Case, classes, gaussian, integers, model, normal_prior, normals, regression

from isotherm import Posterior


def linear(params, row):
    return gaussian(row["x"] @ params, row["y"])


def whitened(W, columns=20):
    def log_likelihood(theta, row):
        return gaussian((W @ row["x"]) @ theta, row["y"])

    return Case(Posterior(log_likelihood, normal_prior), regression(400, columns), jnp.zeros(columns))


@model
def whitening_matrix_numpy():
    return whitened(normals(20, 20) / 5)


@model
def whitening_matrix_jax():
    return whitened(jnp.asarray(normals(20, 20) / 5))


@model
def whitening_matrix_float64():
    return whitened(np.random.default_rng(0).standard_normal((20, 20)) / 5)


@model
def whitening_matrix_fortran_order():
    return whitened(np.asfortranarray(normals(20, 20) / 5))


@model
def whitening_matrix_bfloat16():
    return whitened(jnp.asarray(normals(20, 20) / 5, jnp.bfloat16))


@model
def whitening_vector():
    scale = np.linspace(0.5, 2, 20)

    def log_likelihood(theta, row):
        return gaussian((scale * row["x"]) @ theta, row["y"])

    return Case(Posterior(log_likelihood, normal_prior), regression(400, 20), jnp.zeros(20))


@model
def precision_matrix_in_prior():
    root = normals(30, 30) / 10
    precision = root @ root.T + np.eye(30, dtype=np.float32)
    return Case(Posterior(linear, lambda theta: -0.5 * theta @ precision @ theta), regression(300, 30), jnp.zeros(30))


@model
def cholesky_solve_in_prior():
    lower = np.linalg.cholesky(0.9 ** np.abs(np.subtract.outer(np.arange(12), np.arange(12))))

    def log_prior(theta):
        z = jax.scipy.linalg.solve_triangular(jnp.asarray(lower, theta.dtype), theta, lower=True)
        return -0.5 * z @ z

    return Case(Posterior(linear, log_prior), regression(300, 12), jnp.zeros(12))


@model
def control_variate_at_a_point():
    data = regression(300, 8)
    mode = np.linalg.lstsq(data["x"], data["y"], rcond=None)[0]
    total = (data["x"] * (data["y"] - data["x"] @ mode)[:, None]).mean(0)

    def log_likelihood(theta, row):
        slope = row["x"] * (row["y"] - row["x"] @ mode)
        return gaussian(row["x"] @ theta, row["y"]) - (slope - total) @ (theta - mode)

    return Case(Posterior(log_likelihood, normal_prior), data, jnp.asarray(mode))


@model
def control_variate_of_every_row():
    data = classes(500, 10)
    gradients = data["x"] * (data["y"] - 0.5)[:, None].astype(np.float32)
    data["row"] = np.arange(500)

    def log_likelihood(theta, row):
        logit = row["x"] @ theta
        return row["y"] * logit - jax.nn.softplus(logit) - gradients[row["row"]] @ theta + gradients.mean(0) @ theta

    # NumPy arrays cannot be indexed by a traced integer, so users turn them into JAX's.
    gradients = jnp.asarray(gradients)
    return Case(Posterior(log_likelihood, normal_prior), data, jnp.zeros(10))


@model
def table_of_float64():
    table = jnp.asarray(np.random.default_rng(0).standard_normal((50, 6)))
    data = {"group": integers(50, 400), "y": normals(400)}
    return Case(
        Posterior(lambda theta, row: gaussian(table[row["group"]] @ theta, row["y"]), normal_prior), data, jnp.zeros(6)
    )


@model
def table_of_numpy_float64_taken_from():
    table = np.random.default_rng(0).standard_normal((64, 3))
    data = {"group": integers(64, 400), "y": normals(400)}

    def log_likelihood(theta, row):
        return gaussian(jnp.take(table, row["group"], axis=0) @ theta, row["y"])

    return Case(Posterior(log_likelihood, normal_prior), data, jnp.zeros(3))


@model
def table_of_complex_numbers():
    angles = np.linspace(0, 2 * np.pi, 48)
    table = jnp.asarray(np.exp(1j * np.outer(angles, np.arange(1, 5))))
    data = {"month": integers(48, 300), "y": normals(300)}

    def log_likelihood(theta, row):
        return gaussian(jnp.real(table[row["month"]] @ theta.astype(table.dtype)), row["y"])

    return Case(Posterior(log_likelihood, normal_prior), data, jnp.zeros(4))


@model
def complex_steering_vectors():
    steering = np.exp(1j * np.outer(np.arange(8), np.linspace(0, 3, 16))).astype(np.complex64)
    data = normals(300, 16)

    def log_likelihood(theta, row):
        return -jnp.sum(jnp.abs(steering @ (row * theta)) ** 2) / 50

    return Case(Posterior(log_likelihood, normal_prior), data, jnp.ones(16))


@model
def whole_data_by_index():
    columns = regression(800, 6)
    x, y = jnp.asarray(columns["x"]), jnp.asarray(columns["y"])
    return Case(Posterior(lambda theta, i: gaussian(x[i] @ theta, y[i]), normal_prior), np.arange(800), jnp.zeros(6))


@model
def whole_data_by_index_float64():
    x, y = jnp.asarray(np.random.default_rng(0).standard_normal((800, 6))), jnp.asarray(np.linspace(-1, 1, 800))
    return Case(Posterior(lambda theta, i: gaussian(x[i] @ theta, y[i]), normal_prior), np.arange(800), jnp.zeros(6))


@model
def images_by_index():
    images, labels = jnp.asarray(integers(256, 100, 8, 8), jnp.uint8), jnp.asarray(integers(2, 100))

    def log_likelihood(theta, i):
        logit = jnp.sum(images[i].astype(theta.dtype) / 255 * theta)
        return labels[i] * logit - jax.nn.softplus(logit)

    return Case(Posterior(log_likelihood, normal_prior), {"i": np.arange(100)}["i"], jnp.zeros((8, 8)))


@model
def neighbours_by_index():
    positions = jnp.asarray(normals(60, 2))
    neighbours = integers(60, 60, 5)

    def log_likelihood(theta, row):
        near = positions[row["neighbours"]]
        weight = jax.nn.softmax(-jnp.sum((near - positions[row["i"]]) ** 2, 1) * jnp.exp(theta["log_scale"]))
        return gaussian(weight @ (near @ theta["slope"]), row["y"])

    data = {"i": np.arange(60), "neighbours": neighbours, "y": normals(60)}
    return Case(Posterior(log_likelihood, normal_prior), data, {"log_scale": jnp.zeros(()), "slope": jnp.zeros(2)})


@model
def inducing_points():
    z = normals(25, 3, seed=4)

    def log_likelihood(weights, row):
        features = jnp.exp(-0.5 * jnp.sum((z - row["x"]) ** 2, axis=1))
        return gaussian(features @ weights, row["y"])

    return Case(Posterior(log_likelihood, normal_prior), regression(300, 3), jnp.zeros(25))


@model
def gaussian_process_features():
    z = np.linspace(-2, 2, 15)
    lower = np.linalg.cholesky(np.exp(-0.5 * np.subtract.outer(z, z) ** 2) + 1e-3 * np.eye(15))

    def log_likelihood(v, row):
        k = jnp.exp(-0.5 * (row["x"] - z) ** 2)
        return gaussian(jax.scipy.linalg.solve_triangular(lower, k, lower=True) @ v, row["y"])

    return Case(Posterior(log_likelihood, normal_prior), {"x": normals(200), "y": normals(200, seed=1)}, jnp.zeros(15))


@model
def gaussian_process_inverse_gram():
    z = jnp.linspace(-2, 2, 15)
    inverse = jnp.linalg.inv(jnp.exp(-0.5 * (z[:, None] - z) ** 2) + 1e-2 * jnp.eye(15))

    def log_likelihood(u, row):
        return gaussian(jnp.exp(-0.5 * (row[0] - z) ** 2) @ inverse @ u, row[1])

    return Case(Posterior(log_likelihood, lambda u: -0.5 * u @ inverse @ u), normals(200, 2), jnp.zeros(15))


@model
def noise_covariance_cho_solve():
    root = normals(6, 6) / 3
    factor = jax.scipy.linalg.cho_factor(jnp.asarray(root @ root.T + np.eye(6, dtype=np.float32)))

    def log_likelihood(mean, y):
        return -0.5 * (y - mean) @ jax.scipy.linalg.cho_solve(factor, y - mean)

    return Case(Posterior(log_likelihood, normal_prior), normals(250, 6), jnp.zeros(6))


@model
def schedule_from_a_table():
    table = jnp.asarray(1e-3 / np.sqrt(1 + np.arange(64, dtype=np.float32)))
    return Case(
        Posterior(linear, normal_prior), regression(), jnp.zeros(4), step_size=lambda i: table[jnp.minimum(i, 63)]
    )


@model
def schedule_from_a_table_of_float64():
    table = jnp.asarray(1e-3 / np.sqrt(1 + np.arange(5000)))
    return Case(Posterior(linear, normal_prior), regression(), jnp.zeros(4), step_size=lambda i: table[i % 5000])


@model
def schedule_interpolated():
    knots, values = np.array([0.0, 10.0, 1000.0]), np.array([1e-4, 1e-3, 1e-5])

    def step_size(step):
        return jnp.interp(jnp.asarray(step, jnp.float32), knots, values)

    return Case(Posterior(linear, normal_prior), regression(), jnp.zeros(4), step_size=step_size)


@model
def closed_over_in_likelihood_prior_and_schedule():
    W, precision = normals(10, 10), np.linspace(1, 2, 10)
    table = jnp.linspace(1e-3, 1e-4, 100)

    def log_likelihood(theta, row):
        return gaussian(jnp.tanh(W @ row["x"]) @ theta, row["y"])

    return Case(
        Posterior(log_likelihood, lambda theta: -0.5 * jnp.sum(precision * theta**2)),
        regression(300, 10),
        jnp.zeros(10),
        step_size=lambda step: table[jnp.clip(step, 0, 99)],
    )


@model
def random_projection_of_many_columns():
    W = normals(200, 5)
    return Case(
        Posterior(lambda theta, row: gaussian(jnp.cos(W @ row["x"]) @ theta / 10, row["y"]), normal_prior),
        regression(200, 5),
        jnp.zeros(200),
    )


@model
def table_of_a_megabyte():
    table = jnp.asarray(normals(512, 512))
    data = {"i": integers(512, 300), "y": normals(300)}
    return Case(
        Posterior(lambda theta, row: gaussian(table[row["i"], :8] @ theta, row["y"]), normal_prior), data, jnp.zeros(8)
    )


@model
def graph_laplacian_in_prior():
    edges = integers(20, 60, 2)
    laplacian = np.eye(20)
    np.subtract.at(laplacian, (edges[:, 0], edges[:, 1]), 0.1)
    laplacian = laplacian @ laplacian.T

    def log_prior(field):
        return -0.5 * jnp.einsum("i,ij,j", field, laplacian, field)

    data = {"node": integers(20, 200), "y": normals(200)}
    return Case(Posterior(lambda field, row: gaussian(field[row["node"]], row["y"]), log_prior), data, jnp.zeros(20))


@model
def mask_of_booleans():
    mask = np.arange(12) % 3 == 0
    return Case(
        Posterior(lambda theta, row: gaussian(row["x"] @ jnp.where(mask, theta, 0), row["y"]), normal_prior),
        regression(200, 12),
        jnp.zeros(12),
    )


@model
def permutation_of_int64():
    order = np.random.default_rng(0).permutation(16)
    return Case(
        Posterior(lambda theta, row: gaussian(row["x"][order] @ theta, row["y"]), normal_prior),
        regression(200, 16),
        jnp.zeros(16),
    )


@model
def sparse_matrix_as_triplets():
    rows, columns, values = integers(10, 40), integers(6, 40, seed=1), normals(40)

    def log_likelihood(theta, y):
        mean = jax.ops.segment_sum(values * theta[columns], rows, num_segments=10)
        return -0.5 * jnp.sum((y - mean) ** 2)

    return Case(Posterior(log_likelihood, normal_prior), normals(150, 10), jnp.zeros(6))


@model
def teacher_network():
    teacher = {"w": normals(5, 8), "b": normals(8), "v": normals(8)}

    def log_likelihood(theta, x):
        target = jnp.tanh(x @ teacher["w"] + teacher["b"]) @ teacher["v"]
        return gaussian(jnp.tanh(x @ theta["w"]) @ theta["v"], target)

    return Case(
        Posterior(log_likelihood, normal_prior), normals(200, 5), {"w": jnp.zeros((5, 8)), "v": jnp.ones(8) / 3}
    )


@model
def list_of_matrices():
    matrices = [normals(6, 6, seed=seed) / 4 for seed in range(5)]

    def log_likelihood(theta, row):
        x = row["x"]
        for matrix in matrices:
            x = jnp.tanh(matrix @ x)
        return gaussian(x @ theta, row["y"])

    return Case(Posterior(log_likelihood, normal_prior), regression(200, 6), jnp.zeros(6))


@model
def closed_over_array_of_one_number():
    sigma = np.array([0.7])
    return Case(
        Posterior(lambda theta, row: jnp.sum(gaussian(row["x"] @ theta, row["y"]) / sigma**2), normal_prior),
        regression(),
        jnp.zeros(4),
    )


@model
def closed_over_empty_array():
    extra = np.zeros((0,), np.float32)
    return Case(
        Posterior(lambda theta, row: gaussian(row["x"] @ theta, row["y"]) + jnp.sum(extra), normal_prior),
        regression(),
        jnp.zeros(4),
    )


@model
def standardised_by_closed_over_moments():
    data = {"x": 100 + 30 * normals(300, 5), "y": normals(300, seed=1)}
    mean, deviation = data["x"].mean(0), data["x"].std(0)

    def log_likelihood(theta, row):
        return gaussian((row["x"] - mean) / deviation @ theta, row["y"])

    return Case(Posterior(log_likelihood, normal_prior), data, jnp.zeros(5))


@model
def mass_from_a_closed_over_hessian():
    data = regression(300, 6)
    hessian = data["x"].T @ data["x"]
    return Case(Posterior(linear, normal_prior), data, jnp.zeros(6), mass=np.diag(hessian))
