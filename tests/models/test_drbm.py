from itertools import product

import jax
import numpy as np
import pytest

from isotherm.models import DRBM


@pytest.fixture
def parameters():
    rng = np.random.default_rng(0)
    return {
        "W": rng.normal(size=(4, 3)),
        "U": rng.normal(size=(4, 5)),
        "c": rng.normal(size=4),
        "d": rng.normal(size=5),
    }


X = np.random.default_rng(1).normal(size=(6, 3))
Y = np.arange(6, dtype=np.int32) % 5


def by_summation(params, x):
    """p(y|x) with the 2⁴ hidden states summed one by one."""
    states = np.array(list(product([0, 1], repeat=4)))
    energies = [params["d"][k] + states @ (params["c"] + params["U"][:, k] + params["W"] @ x) for k in range(5)]
    weight = np.exp(energies).sum(axis=1)
    return weight / weight.sum()


def jacobian_by_hand(params):
    """Rows of the per-example gradients, from σ, p and nothing else."""
    rows = {name: [] for name in params}
    for x, y in zip(X, Y, strict=True):
        sigma = 1 / (1 + np.exp(-(params["c"] + params["W"] @ x)[:, None] - params["U"]))
        r = np.eye(5)[y] - by_summation(params, x)
        rows["d"].append(r)
        rows["U"].append(sigma * r)
        rows["c"].append(sigma @ r)
        rows["W"].append(np.outer(sigma @ r, x))
    return {name: np.array(values) for name, values in rows.items()}


def each(params):
    return jax.vmap(DRBM(3, 4, 5).log_likelihood, in_axes=(None, 0))(params, {"x": X, "y": Y})


def test_probabilities_sum_over_all_hidden_states(parameters):
    expected = np.array([by_summation(parameters, x) for x in X])
    with jax.enable_x64(True):
        params = jax.tree.map(jax.numpy.asarray, parameters)
        np.testing.assert_allclose(np.exp(DRBM(3, 4, 5).predict(params, X)), expected)
        np.testing.assert_allclose(np.exp(each(params)), expected[np.arange(6), Y])


def test_linearisation_and_its_transpose_are_the_jacobian(parameters):
    expected = jacobian_by_hand(parameters)
    rng = np.random.default_rng(2)
    v = {name: rng.normal(size=value.shape) for name, value in parameters.items()}
    w = rng.normal(size=6)
    with jax.enable_x64(True):
        params, tangent = (jax.tree.map(jax.numpy.asarray, tree) for tree in (parameters, v))
        values, push = jax.linearize(each, params)
        (pulled,) = jax.linear_transpose(push, params)(jax.numpy.asarray(w))
        np.testing.assert_allclose(values, each(params))
        forward = sum((expected[name].reshape(6, -1) @ v[name].ravel()) for name in v)
        np.testing.assert_allclose(push(tangent), forward)
    for name in v:
        np.testing.assert_allclose(pulled[name], np.tensordot(w, expected[name], 1))


def test_products_touch_the_large_array_once(parameters):
    """The linearised function keeps one (n, hidden, classes) array and only contracts it."""
    params = jax.tree.map(np.float32, parameters)
    _, push = jax.linearize(each, params)
    jaxpr = jax.make_jaxpr(push)(params)
    large = [v for v in jaxpr.jaxpr.constvars if v.aval.shape == (6, 4, 5)]
    made = [v for e in jaxpr.jaxpr.eqns for v in e.outvars if v.aval.shape == (6, 4, 5)]
    assert len(large) == 1
    assert not made


@pytest.mark.parametrize("name", ["W", "U", "c", "d"])
def test_derivative_of_one_block_and_second_derivative(parameters, name):
    """Blocks held fixed have no tangent; the Hessian is symmetric and agrees with differences."""
    with jax.enable_x64(True):
        params = jax.tree.map(jax.numpy.asarray, parameters)

        def value(block):
            return each({**params, name: block})[0]

        block = params[name]
        gradient = jax.jit(jax.grad(value))
        np.testing.assert_allclose(gradient(block), jacobian_by_hand(parameters)[name][0])
        hessian = np.asarray(jax.jit(jax.hessian(value))(block)).reshape(block.size, block.size)
        np.testing.assert_allclose(hessian, hessian.T, atol=1e-12)
        step = 1e-6 * np.eye(block.size).reshape(block.size, *block.shape)
        # central differences of a gradient: about 1e-10 from rounding
        numeric = [np.ravel(gradient(block + s) - gradient(block - s)) / 2e-6 for s in step]
        np.testing.assert_allclose(hessian, numeric, atol=1e-8)


def test_derivative_in_x(parameters):
    with jax.enable_x64(True):
        params = jax.tree.map(jax.numpy.asarray, parameters)

        def value(x):
            return DRBM(3, 4, 5).log_likelihood(params, {"x": x, "y": Y[0]})

        numeric = [float(value(X[0] + s) - value(X[0] - s)) / 2e-6 for s in 1e-6 * np.eye(3)]
        np.testing.assert_allclose(jax.grad(value)(X[0]), numeric, atol=1e-8)


def test_prediction_does_not_depend_on_blocks(parameters):
    """More rows than one block, and not a whole number of blocks."""
    x = np.random.default_rng(3).normal(size=(600, 3)).astype(np.float32)
    model, params = DRBM(3, 4, 5), jax.tree.map(np.float32, parameters)
    params = jax.tree.map(jax.numpy.asarray, params)
    np.testing.assert_allclose(model.predict(params, x)[590:], model.predict(params, x[590:]), rtol=1e-5, atol=1e-6)
