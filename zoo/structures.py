"""What users keep parameters and data in, and what they pass as functions."""

from collections import OrderedDict, namedtuple
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from registry import Case, gaussian, model, normal_prior, normals, regression

from isotherm import Posterior


def linear(theta, row):
    return gaussian(row["x"] @ theta, row["y"])


def affine(slope, offset, row):
    return gaussian(row["x"] @ slope + offset, row["y"])


@model
def params_dict():
    return Case(
        Posterior(lambda p, row: affine(p["slope"], p["offset"], row), normal_prior),
        regression(),
        {"slope": jnp.zeros(4), "offset": jnp.zeros(())},
    )


@model
def params_tuple():
    return Case(
        Posterior(lambda p, row: affine(p[0], p[1], row), normal_prior), regression(), (jnp.zeros(4), jnp.zeros(()))
    )


@model
def params_list():
    return Case(
        Posterior(lambda p, row: affine(p[0], p[1], row), normal_prior), regression(), [jnp.zeros(4), jnp.zeros(())]
    )


@model
def params_ordered_dict():
    return Case(
        Posterior(lambda p, row: affine(p["slope"], p["offset"], row), normal_prior),
        regression(),
        OrderedDict(slope=jnp.zeros(4), offset=jnp.zeros(())),
    )


class Line(NamedTuple):
    slope: jax.Array
    offset: jax.Array


@model
def params_named_tuple():
    return Case(
        Posterior(lambda p, row: affine(p.slope, p.offset, row), normal_prior),
        regression(),
        Line(jnp.zeros(4), jnp.zeros(())),
    )


@jax.tree_util.register_dataclass
@dataclass
class LineRecord:
    slope: jax.Array
    offset: jax.Array


@model
def params_dataclass():
    return Case(
        Posterior(lambda p, row: affine(p.slope, p.offset, row), normal_prior),
        regression(),
        LineRecord(jnp.zeros(4), jnp.zeros(())),
    )


@jax.tree_util.register_pytree_node_class
class Module:
    """A callable pytree, as Equinox makes them: its arrays are leaves, the activation is part of the structure."""

    def __init__(self, weight, bias, activation):
        self.weight, self.bias, self.activation = weight, bias, activation

    def __call__(self, x):
        return self.activation(x @ self.weight + self.bias)

    def tree_flatten(self):
        return (self.weight, self.bias), self.activation

    @classmethod
    def tree_unflatten(cls, activation, leaves):
        return cls(*leaves, activation)


@model
def params_callable_module():
    return Case(
        Posterior(lambda module, row: gaussian(module(row["x"]), row["y"]), normal_prior),
        regression(),
        Module(jnp.zeros(4), jnp.zeros(()), jnp.tanh),
    )


@model
def params_nested_callable_modules():
    def log_likelihood(p, row):
        return gaussian(p["second"](p["first"](row["x"])), row["y"])

    first = Module(jnp.asarray(normals(4, 3) / 3), jnp.zeros(3), jnp.tanh)
    init = {"first": first, "second": Module(jnp.zeros(3), jnp.zeros(()), lambda z: z)}
    return Case(Posterior(log_likelihood, normal_prior), regression(), init)


@model
def params_partitioned_module():
    module = Module(jnp.zeros(4), jnp.zeros(()), jnp.tanh)
    frozen = Module(None, module.bias, module.activation)

    def log_likelihood(trainable, row):
        whole = Module(trainable.weight, frozen.bias, frozen.activation)
        return gaussian(whole(row["x"]), row["y"])

    return Case(Posterior(log_likelihood, normal_prior), regression(), Module(module.weight, None, module.activation))


@model
def params_jax_partial():
    init = jax.tree_util.Partial(lambda w, x: jnp.tanh(x @ w), jnp.zeros(4))
    return Case(
        Posterior(lambda f, row: gaussian(f(row["x"]), row["y"]), normal_prior), regression(), init, expected="refused"
    )


@model
def params_deeply_nested():
    def log_likelihood(p, row):
        return affine(p["a"]["b"][0]["c"], p["d"][1][0], row)

    init = {"a": {"b": [{"c": jnp.zeros(4)}, jnp.zeros(1)]}, "d": (jnp.zeros(2), [jnp.zeros(())])}
    return Case(Posterior(log_likelihood, normal_prior), regression(), init)


@model
def params_with_none():
    return Case(
        Posterior(lambda p, row: linear(p["slope"], row), normal_prior),
        regression(),
        {"slope": jnp.zeros(4), "offset": None},
    )


@model
def params_many_leaves():
    def log_likelihood(p, row):
        return gaussian(sum(p[f"w{i}"] * row["x"][i] for i in range(30)), row["y"])

    return Case(
        Posterior(log_likelihood, normal_prior), regression(200, 30), {f"w{i}": jnp.zeros(()) for i in range(30)}
    )


@model
def params_of_python_floats():
    return Case(
        Posterior(lambda p, row: affine(p["slope"] * jnp.ones(4), p["offset"], row), normal_prior),
        regression(),
        {"slope": 0.0, "offset": 0.0},
    )


@model
def params_one_python_float():
    return Case(Posterior(gaussian, lambda theta: -0.5 * theta**2), normals(100), 0.0)


@model
def params_zero_dimensional():
    return Case(Posterior(gaussian, lambda theta: -0.5 * theta**2), normals(100), jnp.asarray(0.0))


@model
def params_numpy_scalar():
    return Case(Posterior(gaussian, lambda theta: -0.5 * theta**2), normals(100), np.float32(0))


@model
def params_of_size_one():
    return Case(Posterior(lambda theta, y: gaussian(theta[0], y), normal_prior), normals(100), jnp.zeros(1))


@model
def params_float64_numpy():
    return Case(Posterior(linear, normal_prior), regression(), np.zeros(4))


@model
def params_float16():
    return Case(Posterior(linear, normal_prior), regression(), jnp.zeros(4, jnp.float16), refused_by=("eccadl",))


@model
def params_bfloat16():
    return Case(Posterior(linear, normal_prior), regression(), jnp.zeros(4, jnp.bfloat16), refused_by=("eccadl",))


@model
def params_mixed_precision():
    def log_likelihood(p, row):
        return affine(p["slope"].astype(jnp.float32), p["offset"], row)

    init = {"slope": jnp.zeros(4, jnp.bfloat16), "offset": jnp.zeros((), jnp.float32)}
    return Case(Posterior(log_likelihood, normal_prior), regression(), init)


@model
def params_float32_and_numpy_float64():
    return Case(
        Posterior(lambda p, row: affine(p[0], p[1], row), normal_prior),
        regression(),
        (jnp.zeros(4, jnp.float32), np.float64(0.0)),
    )


@model
def params_with_three_axes():
    def log_likelihood(theta, row):
        return gaussian(jnp.einsum("i,ijk->", row["x"], theta), row["y"])

    return Case(Posterior(log_likelihood, normal_prior), regression(), jnp.zeros((4, 2, 3)))


@model
def params_of_zero_size_beside_others():
    return Case(
        Posterior(lambda p, row: linear(p["slope"], row) + jnp.sum(p["none"]), normal_prior),
        regression(),
        {"slope": jnp.zeros(4), "none": jnp.zeros((0,))},
        expected="refused",
    )


@model
def params_unused():
    return Case(
        Posterior(lambda p, row: linear(p["slope"], row), normal_prior),
        regression(),
        {"slope": jnp.zeros(4), "unused": jnp.zeros(7)},
    )


@model
def params_named_in_greek():
    return Case(
        Posterior(lambda p, row: affine(p["β"], p["α"], row), normal_prior),
        regression(),
        {"β": jnp.zeros(4), "α": jnp.zeros(())},
    )


@model
def params_with_integer_keys():
    return Case(
        Posterior(lambda p, row: affine(p[1], p[2], row), normal_prior),
        regression(),
        {1: jnp.zeros(4), 2: jnp.zeros(())},
    )


@model
def init_is_a_function():
    return Case(Posterior(linear, normal_prior), regression(), lambda key: jax.random.normal(key, (4,)))


@model
def init_is_a_partial_function():
    return Case(Posterior(linear, normal_prior), regression(), partial(jax.random.normal, shape=(4,)))


class Model:
    """A class with its likelihood and prior as methods."""

    def __init__(self, sigma):
        self.sigma = sigma
        self.table = normals(4)

    def log_likelihood(self, theta, row):
        return gaussian((row["x"] * self.table) @ theta, row["y"]) / self.sigma**2

    def log_prior(self, theta):
        return -0.5 * jnp.sum(theta**2)

    def start(self, key):
        return jax.random.normal(key, (4,)) / 10


@model
def bound_methods():
    user = Model(0.5)
    return Case(Posterior(user.log_likelihood, user.log_prior), regression(), user.start)


@dataclass
class Likelihood:
    """Callable, and not hashable, since a dataclass with == is not."""

    scale: float

    def __call__(self, theta, row):
        return self.scale * linear(theta, row)


@model
def callable_instance_that_is_not_hashable():
    return Case(Posterior(Likelihood(0.5), normal_prior), regression(), jnp.zeros(4), expected="refused")


@model
def callable_instances():
    class Prior:
        def __init__(self, precision):
            self.precision = precision

        def __call__(self, theta):
            return -0.5 * jnp.sum(self.precision * theta**2)

    return Case(Posterior(linear, Prior(np.linspace(1, 2, 4))), regression(), jnp.zeros(4))


@model
def partial_likelihood_with_arrays():
    def log_likelihood(W, theta, row):
        return gaussian((W @ row["x"]) @ theta, row["y"])

    return Case(Posterior(partial(log_likelihood, normals(12, 12)), normal_prior), regression(200, 12), jnp.zeros(12))


@model
def static_method():
    class Functions:
        @staticmethod
        def log_likelihood(theta, row):
            return linear(theta, row)

    return Case(Posterior(Functions.log_likelihood, normal_prior), regression(), jnp.zeros(4))


@model
def jitted_functions():
    return Case(Posterior(jax.jit(linear), jax.jit(normal_prior)), regression(), jnp.zeros(4))


@model
def simple_namespace_of_constants():
    config = SimpleNamespace(sigma=np.float64(0.7), offset=np.int64(2))
    return Case(
        Posterior(lambda theta, row: linear(theta, row) / config.sigma - config.offset, normal_prior),
        regression(),
        jnp.zeros(4),
    )


Point = namedtuple("Point", "x y")


@model
def data_named_tuple():
    columns = regression()
    return Case(
        Posterior(lambda theta, row: gaussian(row.x @ theta, row.y), normal_prior),
        Point(columns["x"], columns["y"]),
        jnp.zeros(4),
    )
