"""Sorting, gathering, scattering, transforming and complex arithmetic inside the likelihood."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import erf, i0e, log_ndtr, polygamma
from registry import Case, gaussian, integers, model, normal_prior, normals, regression

from isotherm import Posterior


def case_of(mean, data=None, init=None):
    """A Gaussian around mean(theta, x)."""
    posterior = Posterior(lambda theta, row: gaussian(mean(theta, row["x"]), row["y"]), normal_prior)
    start = jnp.asarray(normals(6, seed=9) / 5) if init is None else init
    return Case(posterior, regression(200, 6) if data is None else data, start)


@model
def sort_of_parameters():
    return case_of(lambda theta, x: jnp.sort(theta) @ x)


@model
def sort_of_data():
    return case_of(lambda theta, x: theta @ jnp.sort(x))


@model
def argsort_of_data():
    return case_of(lambda theta, x: theta[jnp.argsort(x)] @ x)


@model
def top_k():
    return case_of(lambda theta, x: jnp.sum(jax.lax.top_k(theta * x, 2)[0]))


@model
def median_of_products():
    return case_of(lambda theta, x: jnp.median(theta * x))


@model
def quantile_of_products():
    return case_of(lambda theta, x: jnp.quantile(theta * x, 0.25))


@model
def searchsorted_bins():
    edges = np.linspace(-2, 2, 5)
    return case_of(lambda theta, x: theta[jnp.searchsorted(edges, x[0])])


@model
def digitize_and_take():
    return case_of(lambda theta, x: jnp.take(theta, jnp.digitize(x[1], jnp.array([-1.0, 0.0, 1.0]))))


@model
def interpolation():
    return case_of(lambda theta, x: jnp.interp(x[0], jnp.linspace(-2, 2, 6), theta))


@model
def segment_sum_of_parameters():
    groups = np.array([0, 0, 1, 1, 2, 2])
    return case_of(lambda theta, x: jnp.tanh(jax.ops.segment_sum(theta * x, groups, num_segments=3)).sum())


@model
def segment_sum_by_integer_column():
    data = {"x": integers(6, 200, 5), "y": normals(200)}
    return case_of(lambda theta, x: jax.ops.segment_sum(jnp.ones(5), x, num_segments=6) @ theta, data)


@model
def scatter_add():
    return case_of(lambda theta, x: jnp.sum(jnp.zeros(3).at[np.array([0, 1, 2, 0, 1, 2])].add(theta * x) ** 2))


@model
def scatter_max_and_set():
    def mean(theta, x):
        z = jnp.zeros(8).at[2:].set(theta * x)
        return jnp.sum(z.at[0].max(z[3]))

    return case_of(mean)


@model
def bag_of_words_by_bincount():
    data = {"x": integers(6, 200, 9), "y": normals(200)}
    return case_of(lambda theta, x: jnp.bincount(x, length=6) @ theta, data)


@model
def one_hot_of_integer_column():
    data = {"x": integers(6, 200), "y": normals(200)}
    return case_of(lambda theta, x: jax.nn.one_hot(x, 6) @ theta, data)


@model
def cumulative_sums_and_products():
    return case_of(lambda theta, x: jnp.cumsum(theta)[-1] * x[0] + jnp.cumprod(jnp.tanh(theta))[2] * x[1])


@model
def stick_breaking():
    def log_likelihood(theta, k):
        beta = jax.nn.sigmoid(theta)
        left = jnp.concatenate([jnp.ones(1), jnp.cumprod(1 - beta)])
        return jnp.log(jnp.append(beta, 1.0) * left)[k]

    return Case(Posterior(log_likelihood, normal_prior), integers(6, 200), jnp.zeros(5))


@model
def real_fourier_transform():
    return case_of(lambda theta, x: jnp.sum(jnp.abs(jnp.fft.rfft(theta * x)) ** 2) / 10)


@model
def complex_fourier_transform():
    return case_of(lambda theta, x: jnp.real(jnp.fft.ifft(jnp.fft.fft(theta) * jnp.fft.fft(x)))[0])


@model
def fourier_transform_in_two_dimensions():
    data = {"x": normals(60, 8, 8), "y": normals(60)}
    return case_of(lambda theta, x: jnp.real(jnp.fft.fft2(x)[0, 0]) * theta[0, 0] / 64, data, jnp.zeros((8, 8)))


@model
def complex_arithmetic():
    def mean(theta, x):
        z = jax.lax.complex(theta[:3], theta[3:]) * jnp.exp(1j * x[:3])
        return jnp.real(jnp.sum(z * jnp.conj(z) + z))

    return case_of(mean)


@model
def characteristic_function():
    def mean(theta, x):
        return jnp.angle(jnp.sum(jnp.exp(1j * theta * x)) + 3)

    return case_of(mean)


@model
def polar_of_complex():
    return case_of(lambda theta, x: jnp.abs(theta[0] + 1j * theta[1] + 1.0) * x[0] + jnp.imag(1j * theta[2]))


@model
def convolution_in_one_dimension():
    return case_of(lambda theta, x: jnp.sum(jnp.tanh(jnp.convolve(x, theta[:3], mode="valid"))))


@model
def rolling_and_flipping():
    return case_of(lambda theta, x: jnp.roll(theta, 2) @ jnp.flip(x))


@model
def outer_and_triangle():
    return case_of(lambda theta, x: jnp.sum(jnp.triu(jnp.outer(theta, x))))


@model
def maximum_and_argmax():
    return case_of(lambda theta, x: jnp.max(theta * x) + theta[jnp.argmax(x)])


@model
def dynamic_slice_by_integer():
    data = {"x": integers(4, 200), "y": normals(200)}
    return case_of(lambda theta, x: jnp.sum(jax.lax.dynamic_slice(theta, (x,), (3,))), data)


@model
def rounding_of_parameters():
    return case_of(lambda theta, x: jnp.round(theta) @ x + theta @ x)


@model
def special_functions():
    def mean(theta, x):
        return erf(theta[0] * x[0]) + log_ndtr(theta[1] * x[1]) + i0e(theta[2] * x[2]) + polygamma(1, 2 + theta[3] ** 2)

    return case_of(mean)


@model
def integer_powers_and_remainders():
    return case_of(lambda theta, x: jnp.sum(theta**3 + theta**-2 / 1e3 + jnp.mod(x, 1.0) * theta))


@model
def bits_of_an_integer_column():
    data = {"x": integers(64, 200), "y": normals(200)}
    return case_of(lambda theta, x: ((x >> jnp.arange(6)) & 1) @ theta, data)


@model
def population_count_and_clz():
    data = {"x": 1 + integers(63, 200), "y": normals(200)}
    return case_of(lambda theta, x: theta[0] * jax.lax.population_count(x) + theta[1] * jax.lax.clz(x) / 32, data)


@model
def pairwise_distances():
    return case_of(lambda theta, x: jnp.sum(jnp.exp(-((theta[:, None] - x[None, :]) ** 2))) / 36)


@model
def nan_aware_sum():
    return case_of(lambda theta, x: jnp.nansum(jnp.where(x > 2, jnp.nan, x * theta)))


@model
def where_with_three_arguments_of_numpy():
    weights = np.where(np.arange(6) % 2, 1.0, -1.0)
    return case_of(lambda theta, x: np.float64(0.5) * jnp.dot(weights * theta, x))


@model
def histogram_softly():
    centres = np.linspace(-2, 2, 10)
    return case_of(lambda theta, x: jnp.sum(jax.nn.softmax(-((x[:, None] - centres) ** 2), axis=1).mean(0)[:6] * theta))
