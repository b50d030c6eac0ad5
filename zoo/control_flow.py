"""Branches, loops, derivatives of one's own, randomness and transformations inside the model."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from registry import Case, gaussian, integers, model, normal_prior, normals, regression

from isotherm import Posterior


def case_of(mean, init=None, data=None, **settings):
    """A Gaussian around mean(theta, x)."""
    posterior = Posterior(lambda theta, row: gaussian(mean(theta, row["x"]), row["y"]), normal_prior)
    return Case(posterior, regression() if data is None else data, jnp.zeros(4) if init is None else init, **settings)


@model
def cond_on_data():
    return case_of(lambda theta, x: jax.lax.cond(x[0] > 0, lambda: x @ theta, lambda: -(x @ theta)))


@model
def cond_on_parameters():
    return case_of(lambda theta, x: jax.lax.cond(theta[0] > 0, lambda t: x @ t, lambda t: jnp.tanh(x @ t), theta))


@model
def cond_with_closed_over_table():
    table = jnp.asarray(normals(30, 4))
    return case_of(lambda theta, x: jax.lax.cond(x[0] > 0, lambda: jnp.sum(table @ theta) / 30, lambda: x @ theta))


@model
def switch_on_integer_column():
    data = regression() | {"kind": integers(3, 200)}
    links = [lambda z: z, jnp.tanh, lambda z: jnp.exp(jnp.minimum(z, 2.0))]

    def log_likelihood(theta, row):
        return gaussian(jax.lax.switch(row["kind"], links, row["x"] @ theta), row["y"])

    return Case(Posterior(log_likelihood, normal_prior), data, jnp.zeros(4))


@model
def select_of_many():
    def mean(theta, x):
        z = x @ theta
        return jnp.select([z < -1, z < 1], [-z, z**2], jnp.sqrt(jnp.abs(z) + 1))

    return case_of(mean)


@model
def piecewise():
    return case_of(lambda theta, x: jnp.piecewise(x @ theta, [x[0] < 0, x[0] >= 0], [lambda z: -z, lambda z: 2 * z]))


@model
def where_guard_of_logarithm():
    def mean(theta, x):
        z = x @ theta
        return jnp.where(z > 0, jnp.log(jnp.where(z > 0, z, 1.0)), 0.0)

    return case_of(mean)


@model
def where_guard_of_division():
    return case_of(lambda theta, x: jnp.where(x[0] == 0, 0.0, (x @ theta) / jnp.where(x[0] == 0, 1.0, x[0])) / 10)


@model
def fori_loop_inside():
    return case_of(lambda theta, x: jax.lax.fori_loop(0, 5, lambda i, z: jnp.tanh(z + theta[i % 4]), x @ theta))


@model
def python_loop_inside():
    def mean(theta, x):
        z = 0.0
        for i in range(4):
            z = jnp.sin(z + theta[i] * x[i])
        return z

    return case_of(mean)


@model
def newton_iterations_by_scan():
    def mean(theta, x):
        target = 1 + jax.nn.softplus(x @ theta)
        return jax.lax.scan(lambda root, _: (0.5 * (root + target / root), None), 1.0, None, length=6)[0]

    return case_of(mean)


@model
def while_loop_on_data_only():
    data = regression() | {"halvings": integers(6, 200)}

    def log_likelihood(theta, row):
        left, scale = jax.lax.while_loop(lambda c: c[0] > 0, lambda c: (c[0] - 1, c[1] / 2), (row["halvings"], 1.0))
        return gaussian(scale * (row["x"] @ theta) + 0 * left, row["y"])

    return Case(Posterior(log_likelihood, normal_prior), data, jnp.zeros(4))


@model
def custom_root_by_custom_vjp():
    @jax.custom_vjp
    def cube_root(z):
        return jnp.cbrt(z)

    cube_root.defvjp(lambda z: (cube_root(z), z), lambda z, g: (g / (3 * jnp.cbrt(z) ** 2 + 0.1),))
    # Forward derivatives of a custom_vjp do not exist, and a covariance is applied by them unless it is dense.
    return case_of(lambda theta, x: cube_root(x @ theta), refused_by=("msgld", "mccadl"))


@model
def custom_jvp_softplus():
    @jax.custom_jvp
    def softplus(z):
        return jnp.logaddexp(z, 0.0)

    softplus.defjvps(lambda t, _, z: jax.nn.sigmoid(z) * t)
    return case_of(lambda theta, x: softplus(x @ theta))


@model
def custom_jvp_with_closed_over_table():
    table = jnp.asarray(normals(40))

    @jax.custom_jvp
    def lookup(z):
        return jnp.interp(z, jnp.linspace(-3, 3, 40), table)

    lookup.defjvps(lambda t, _, z: t * jnp.cos(z))
    return case_of(lambda theta, x: lookup(x @ theta))


@model
def checkpointed_layers():
    layer = jax.checkpoint(lambda z, w: jnp.tanh(w * z))
    return case_of(lambda theta, x: jnp.sum(layer(layer(x, theta), theta)))


@model
def stop_gradient_inside():
    return case_of(lambda theta, x: x @ theta + jax.lax.stop_gradient(theta[0]))


@model
def jit_inside():
    mean = jax.jit(lambda theta, x: jnp.tanh(x @ theta))
    return case_of(mean)


@model
def jit_with_static_argument():
    @partial(jax.jit, static_argnames="power")
    def mean(theta, x, power):
        return jnp.sum(theta * x**power)

    return case_of(lambda theta, x: mean(theta, jnp.tanh(x), power=3))


@model
def vmap_inside():
    return case_of(lambda theta, x: jnp.sum(jax.vmap(lambda t, z: jnp.sin(t * z))(theta, x)))


@model
def grad_inside():
    energy = jax.grad(lambda z: jnp.sum(jnp.cosh(z)))
    return case_of(lambda theta, x: jnp.sum(energy(0.1 * theta * x)))


@model
def hessian_inside():
    def mean(theta, x):
        return jnp.trace(jax.hessian(lambda z: jnp.sum(jnp.sin(z * theta)))(x))

    return case_of(mean)


@model
def jacobian_of_a_flow():
    def log_likelihood(p, y):
        def flow(z):
            return z + jnp.tanh(p["W"] @ z + p["b"]) / 2

        return -0.5 * jnp.sum(flow(y) ** 2) + jnp.linalg.slogdet(jax.jacfwd(flow)(y))[1]

    init = {"W": jnp.asarray(normals(2, 2) / 3), "b": jnp.zeros(2)}
    return Case(Posterior(log_likelihood, normal_prior), normals(200, 2), init)


@model
def fixed_random_key():
    def mean(theta, x):
        noise = jax.random.normal(jax.random.key(7), (8,))
        return jnp.mean(jnp.tanh(x @ theta + noise))

    return case_of(mean)


@model
def fixed_old_style_key():
    def mean(theta, x):
        return x @ theta + 0.1 * jax.random.uniform(jax.random.PRNGKey(3))

    return case_of(mean)


@model
def closed_over_random_key():
    key = jax.random.key(5)
    return case_of(lambda theta, x: jnp.mean(jnp.tanh(x @ theta + jax.random.normal(key, (8,)))))


@model
def key_from_integer_column():
    data = regression() | {"i": np.arange(200)}

    def log_likelihood(theta, row):
        noise = jax.random.normal(jax.random.fold_in(jax.random.key(0), row["i"]), (4,))
        return gaussian(row["x"] @ theta + 0.1 * noise @ theta, row["y"])

    return Case(Posterior(log_likelihood, normal_prior), data, jnp.zeros(4))


@model
def importance_weighted_bound():
    noise = normals(16, 2)

    def log_likelihood(p, y):
        z = p["mean"] + jnp.exp(p["log_sigma"]) * noise
        return jax.nn.logsumexp(-0.5 * jnp.sum((y - z) ** 2, axis=1) + 0.5 * jnp.sum(noise**2, 1)) - jnp.log(16)

    return Case(
        Posterior(log_likelihood, normal_prior), normals(150, 2), {"mean": jnp.zeros(2), "log_sigma": jnp.zeros(2)}
    )


@model
def pure_callback_of_data():
    def double(x):
        return np.asarray(2 * np.asarray(x), np.float32)

    def mean(theta, x):
        shape = jax.ShapeDtypeStruct(x.shape, jnp.float32)
        return jax.pure_callback(double, shape, x, vmap_method="expand_dims") @ theta

    return case_of(mean)


@model
def pure_callback_of_parameters():
    def mean(theta, x):
        shape = jax.ShapeDtypeStruct((), theta.dtype)
        return jax.pure_callback(lambda t, x: np.sum(t * x, axis=-1), shape, theta, x, vmap_method="broadcast_all")

    return case_of(mean, expected="refused")  # it has no derivative


@model
def debug_print_inside():
    def mean(theta, x):
        jax.debug.callback(lambda z: None, x[0])
        return x @ theta

    return case_of(mean)


@model
def named_scope_inside():
    def mean(theta, x):
        with jax.named_scope("mean"):
            return x @ theta

    return case_of(mean)


@model
def optimization_barrier_inside():
    return case_of(lambda theta, x: x @ jax.lax.optimization_barrier(theta))


@model
def map_inside():
    return case_of(lambda theta, x: jnp.sum(jax.lax.map(lambda pair: pair[0] * jnp.tanh(pair[1]), (theta, x))))
