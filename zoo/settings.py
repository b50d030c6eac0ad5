"""Step sizes, batch sizes and masses as users give them."""

from functools import partial

import jax.numpy as jnp
import numpy as np
from registry import Case, gaussian, model, normal_prior, regression

from isotherm import Posterior


def linear(theta, row):
    return gaussian(row["x"] @ theta, row["y"])


def case_of(data, **settings):
    return Case(Posterior(linear, normal_prior), data, jnp.zeros(4), **settings)


@model
def step_size_is_a_callable_instance():
    class Decay:
        def __init__(self, first):
            self.first = np.asarray([first])

        def __call__(self, step):
            return (self.first / (1.0 + step) ** 0.33)[0]

    return Case(Posterior(linear, normal_prior), regression(), jnp.zeros(4), step_size=Decay(1e-4))


@model
def step_size_is_a_partial():
    def decay(first, step):
        return first / (1 + step) ** 0.5

    return Case(Posterior(linear, normal_prior), regression(), jnp.zeros(4), step_size=partial(decay, 1e-4))


@model
def step_size_returns_numpy_float64():
    return Case(
        Posterior(linear, normal_prior), regression(), jnp.zeros(4), step_size=lambda step: np.float64(1e-4) + 0 * step
    )


@model
def step_size_is_constant_function():
    return Case(Posterior(linear, normal_prior), regression(), jnp.zeros(4), step_size=lambda step: 1e-4)


@model
def batch_of_one():
    refused_by = ("msgld", "ccadl", "mccadl")  # eccadl takes the covariance from a larger batch
    return Case(Posterior(linear, normal_prior), regression(), jnp.zeros(4), batch_size=1, refused_by=refused_by)


@model
def batch_of_everything():
    return Case(Posterior(linear, normal_prior), regression(), jnp.zeros(4), batch_size=200)


@model
def without_replacement():
    return case_of(regression(), replace=False)


@model
def without_replacement_most_rows():
    return case_of(regression(), replace=False, batch_size=190)


@model
def without_replacement_all_rows():
    return case_of(regression(50), replace=False, batch_size=50)


@model
def with_replacement_more_than_rows():
    return case_of(regression(30), batch_size=64)


@model
def batch_size_of_numpy():
    return case_of(regression(), batch_size=np.int64(16))
