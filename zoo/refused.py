"""Models with something wrong or extreme about them: most are refused in a sentence, some run all the same."""

import jax
import jax.numpy as jnp
import numpy as np
from registry import Case, gaussian, integers, model, normal_prior, normals, regression

from isotherm import Posterior


def linear(theta, row):
    return gaussian(row["x"] @ theta, row["y"])


def refused(log_likelihood=linear, log_prior=normal_prior, data=None, init=None, **settings):
    data = regression() if data is None else data
    init = jnp.zeros(4) if init is None else init
    return Case(Posterior(log_likelihood, log_prior), data, init, **{"expected": "refused", **settings})


def runs(*args, **settings):
    return refused(*args, **{"expected": "runs", **settings})


@model
def prior_constant_float():
    return runs(log_prior=lambda theta: 0.0)


@model
def prior_constant_int():
    return refused(log_prior=lambda theta: 0)


@model
def prior_constant_array():
    return runs(log_prior=lambda theta: jnp.zeros(()))


@model
def prior_numpy_float():
    return runs(log_prior=lambda theta: np.float64(0.0))


@model
def prior_none():
    return refused(log_prior=lambda theta: None)


@model
def prior_of_shape_one():
    return refused(log_prior=lambda theta: jnp.zeros(1))


@model
def prior_not_summed():
    return refused(log_prior=lambda theta: -0.5 * theta**2)


@model
def prior_minus_infinity_outside():
    return runs(log_prior=lambda theta: jnp.where(jnp.all(theta > -5), -0.5 * jnp.sum(theta**2), -jnp.inf))


@model
def prior_minus_infinity_at_start():
    return refused(log_prior=lambda theta: jnp.where(jnp.all(theta > 1), 0.0, -jnp.inf))


@model
def prior_nan_at_start():
    return refused(log_prior=lambda theta: jnp.sum(jnp.log(theta - 1)))


@model
def prior_uniform_by_logpdf():
    return runs(log_prior=lambda theta: jnp.sum(jax.scipy.stats.uniform.logpdf(theta, -10, 20)))


@model
def likelihood_nan_at_start():
    return refused(lambda theta, row: jnp.log(theta[0]) + linear(theta, row), init=-jnp.ones(4))


@model
def likelihood_infinite_at_start():
    return refused(lambda theta, row: jnp.log(theta[0]) + linear(theta, row))


@model
def likelihood_nan_for_some_rows():
    return refused(lambda theta, row: jnp.log(row["x"][0]) + linear(theta, row))


@model
def likelihood_with_nan_gradient_for_some_rows():
    return refused(lambda theta, row: jnp.sqrt(row["x"][0] + 0 * theta[0]) + linear(theta, row))


@model
def likelihood_with_nan_gradient_at_zero():
    return runs(lambda theta, row: linear(theta, row) - jnp.linalg.norm(theta))


@model
def likelihood_constant():
    return runs(lambda theta, row: 0.0)


@model
def likelihood_not_summed():
    return refused(lambda theta, row: -((row["x"] - theta) ** 2))


@model
def likelihood_integer():
    return refused(lambda theta, row: jnp.sum(theta > 0))


@model
def likelihood_complex():
    return refused(lambda theta, row: linear(theta, row) + 0j)


@model
def likelihood_returns_pair():
    return refused(lambda theta, row: (linear(theta, row), 1.0))


@model
def likelihood_of_wrong_shape():
    return refused(init=jnp.zeros(7))


@model
def likelihood_with_three_arguments():
    return refused(lambda theta, x, y: gaussian(x @ theta, y))


@model
def likelihood_with_python_if():
    return refused(lambda theta, row: linear(theta, row) if theta[0] > 0 else 0.0)


@model
def likelihood_in_numpy():
    return refused(lambda theta, row: float(np.sum(np.asarray(theta))))


@model
def likelihood_raises():
    def log_likelihood(theta, row):
        raise RuntimeError("no such file")

    return refused(log_likelihood)


@model
def likelihood_with_unknown_column():
    return refused(lambda theta, row: gaussian(row["X"] @ theta, row["y"]))


@model
def likelihood_with_reverse_mode_only_loop():
    def log_likelihood(theta, row):
        last = jax.lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, jnp.tanh(c[1])), (0, row["x"] @ theta))[1]
        return gaussian(last, row["y"])

    return refused(log_likelihood)  # JAX has no reverse derivative of a while_loop


@model
def likelihood_tiny():
    return runs(lambda theta, row: 1e-20 * linear(theta, row))


@model
def likelihood_huge():
    return runs(lambda theta, row: 1e12 * linear(theta, row))


@model
def data_of_very_large_scale():
    return runs(data={"x": 1e15 * normals(200, 4), "y": 1e15 * normals(200)})


@model
def data_of_very_small_scale():
    return runs(data={"x": 1e-30 * normals(200, 4), "y": 1e-30 * normals(200)})


@model
def parameters_of_very_different_scales():
    scales = np.logspace(-8, 8, 4).astype(np.float32)
    return runs(lambda theta, row: gaussian((row["x"] * scales) @ theta, row["y"]))


@model
def data_with_nan():
    data = regression()
    data["x"][7, 2] = np.nan
    return refused(data=data)


@model
def data_with_infinity():
    data = regression()
    data["y"][7] = np.inf
    return refused(data=data)


@model
def data_of_unequal_lengths():
    return refused(data={"x": normals(200, 4), "y": normals(199)})


@model
def data_empty():
    return refused(data={"x": normals(0, 4), "y": normals(0)})


@model
def data_scalar_column():
    return refused(data=regression() | {"sigma": 0.5})


@model
def data_of_strings():
    return refused(data={"x": normals(200, 4), "y": np.array(["yes", "no"] * 100)})


@model
def data_of_objects():
    return refused(data={"x": normals(200, 4), "y": np.array([None, 1.0] * 100, object)})


@model
def data_of_dates():
    return refused(data={"x": normals(200, 4), "y": np.arange(200).astype("datetime64[D]")})


@model
def data_ragged_lists():
    return refused(data={"x": [[1.0, 2.0], [3.0]], "y": [1.0, 2.0]})


@model
def data_none():
    return Case(Posterior(linear, normal_prior), None, jnp.zeros(4), expected="refused")


@model
def data_generator():
    return refused(data=(row for row in normals(10, 4)))


@model
def data_longdouble():
    return refused(data={name: column.astype(np.longdouble) for name, column in regression().items()})


@model
def init_of_integers():
    return refused(init=jnp.zeros(4, int))


@model
def init_complex():
    return refused(init=jnp.zeros(4, complex))


@model
def init_with_nan():
    return refused(init=jnp.array([0.0, np.nan, 0.0, 0.0]))


@model
def init_none():
    return Case(Posterior(linear, normal_prior), regression(), None, expected="refused")


@model
def init_empty_dict():
    return Case(Posterior(linear, normal_prior), regression(), {}, expected="refused")


@model
def init_of_zero_size():
    return refused(lambda theta, row: -(row["y"] ** 2) + jnp.sum(theta), init=jnp.zeros((0,)))


@model
def init_string():
    return refused(init="zeros")


@model
def init_with_a_random_key():
    return refused(lambda p, row: linear(p["w"], row), init={"w": jnp.zeros(4), "key": jax.random.key(0)})


@model
def init_function_without_arguments():
    return refused(init=lambda: jnp.zeros(4))


@model
def init_with_text():
    return refused(lambda p, row: linear(p["w"], row), init={"w": jnp.zeros(4), "name": "linear"})


@model
def init_with_mixed_keys():
    return refused(lambda p, row: linear(p["w"], row), init={"w": jnp.zeros(4), 1: jnp.zeros(1)})


@model
def init_with_slash_in_name():
    return refused(lambda p, row: linear(p["a/b"], row), init={"a/b": jnp.zeros(4)})


@model
def init_named_like_a_dimension():
    return refused(lambda p, row: linear(p["draw"], row), init={"draw": jnp.zeros(4)})


@model
def batch_size_zero():
    return refused(batch_size=0)


@model
def batch_size_float():
    return refused(batch_size=20.0)


@model
def batch_size_beyond_data_without_replacement():
    return refused(batch_size=500, replace=False)


@model
def schedule_negative():
    return refused(step_size=lambda step: -1e-3)


@model
def schedule_with_python_if():
    return refused(step_size=lambda step: 1e-3 if step < 10 else 1e-4)


@model
def schedule_of_vectors():
    return refused(step_size=lambda step: jnp.full(4, 1e-3))


@model
def schedule_that_raises():
    return refused(step_size=lambda step: [1e-3][step + 1])


@model
def schedule_from_a_numpy_table():
    table = np.linspace(1e-3, 1e-4, 50)
    return refused(step_size=lambda step: table[step])  # NumPy cannot be indexed by a traced integer


@model
def step_size_is_a_string():
    return refused(step_size="small")


@model
def mass_of_wrong_length():
    return refused(mass=np.ones(5))


@model
def mass_negative():
    return refused(mass=np.array([1.0, 1.0, -1.0, 1.0]))


@model
def labels_out_of_range():
    data = {"x": normals(200, 4), "y": 3 + integers(3, 200)}

    def log_likelihood(W, row):
        return jax.nn.log_softmax(row["x"] @ W)[row["y"]]  # JAX takes the last one for an index beyond it

    return runs(log_likelihood, data=data, init=jnp.zeros((4, 3)))
