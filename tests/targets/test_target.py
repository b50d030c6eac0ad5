"""Force and covariance against explicit per-example gradients; what the compiled step does and does not hold."""

import functools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

import isotherm
from isotherm.targets.noisy import estimate
from isotherm.targets.target import Target, as_target

N, n = 40, 9
RNG = np.random.default_rng(0)


def logistic():
    data = {"x": RNG.standard_normal((n, 4)), "y": np.sign(RNG.standard_normal(n))}
    return lambda w, e: jax.nn.log_sigmoid(e["y"] * (e["x"] @ w)), RNG.standard_normal(4), data


def softmax():
    data = {"x": RNG.standard_normal((n, 4)), "y": RNG.integers(0, 3, n)}
    return lambda W, e: jax.nn.log_softmax(W @ e["x"])[e["y"]], RNG.standard_normal((3, 4)), data


def network():
    data = (RNG.standard_normal((n, 4)), RNG.integers(0, 3, n))
    params = {"in": (RNG.standard_normal((5, 4)), RNG.standard_normal(5)), "out": RNG.standard_normal((3, 5))}

    def log_likelihood(params, example):
        W, b = params["in"]
        x, y = example
        return jax.nn.log_softmax(params["out"] @ jnp.tanh(W @ x + b))[y]

    return log_likelihood, params, data


def log_prior(params):
    return -0.5 * sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(params))


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("replace", [True, False])
@pytest.mark.parametrize("model", [logistic, softmax, network])
def test_force_and_covariance_are_those_of_per_example_gradients(model, replace):
    log_likelihood, params, batch = model()
    params, batch = jax.tree.map(jnp.asarray, (params, batch))
    theta, unravel = ravel_pytree(params)
    found = estimate(Target(log_likelihood, log_prior, unravel), theta, batch, population=N, replace=replace)
    rows = [jax.tree.map(lambda a, i=i: a[i], batch) for i in range(n)]
    g = np.stack([ravel_pytree(jax.grad(log_likelihood)(params, row))[0] for row in rows])
    force = N / n * g.sum(0) - np.asarray(theta)
    S = (N**2 / n if replace else N * (N - n) / n) * np.cov(g.T, ddof=1)
    scale = np.abs(S).max()
    v = RNG.standard_normal(theta.size)
    np.testing.assert_allclose(found.force, force, rtol=1e-10, atol=1e-10 * np.abs(force).max())
    np.testing.assert_allclose(found.covariance.matvec(jnp.asarray(v)), S @ v, rtol=1e-10, atol=1e-10 * scale)
    np.testing.assert_allclose(found.covariance.dense(), S, rtol=1e-10, atol=1e-10 * scale)
    np.testing.assert_allclose(found.covariance.diagonal(), np.diag(S), rtol=1e-10, atol=1e-10 * scale)
    np.testing.assert_allclose(found.covariance.trace(), np.trace(S), rtol=1e-10)
    w = np.exp(RNG.standard_normal(theta.size))
    white = found.covariance.whitened(jnp.asarray(w))
    np.testing.assert_allclose(white.matvec(jnp.asarray(v)), w * (S @ (w * v)), rtol=1e-10, atol=1e-10 * scale)
    np.testing.assert_allclose(white.dense(), w[:, None] * S * w, rtol=1e-10, atol=1e-10 * scale)
    for half, first in zip(found.covariance.halves(jnp.asarray(v)), (0, 1), strict=True):
        expected = (N**2 / n if replace else N * (N - n) / n) * np.cov(g[first::2].T, ddof=1) @ v
        np.testing.assert_allclose(half, expected, rtol=1e-10, atol=1e-10 * scale)


@pytest.mark.usefixtures("float64")
def test_the_whole_data_without_replacement_has_no_noise():
    log_likelihood, params, batch = logistic()
    posterior = isotherm.Posterior(log_likelihood, log_prior)
    found = estimate(as_target(posterior), jnp.asarray(params), batch, population=n, replace=False)
    assert np.abs(found.covariance.dense()).max() == 0


def test_one_example_has_no_covariance():
    log_likelihood, _, batch = logistic()
    one = jax.tree.map(lambda a: jnp.asarray(a[:1], jnp.float32), batch)
    found = estimate(Target(log_likelihood, log_prior), jnp.zeros(4), one, population=N)
    assert np.isfinite(found.force).all()
    with pytest.raises(ValueError, match="batch_size must be at least 2 to estimate a covariance, got 1"):
        found.covariance  # noqa: B018


HIDDEN, FEATURES, CLASSES, BATCH = 37, 11, 3, 19


@functools.cache
def compiled_step(name, **options):
    """The compiled text of one step of a sampler on a small network, and its number of parameters."""
    sampler = getattr(isotherm, name)(0.1, **options)

    def log_likelihood(params, example):
        return jax.nn.log_softmax(params["out"] @ jnp.tanh(params["in"] @ example["x"]))[example["y"]]

    theta, unravel = ravel_pytree({"in": jnp.ones((HIDDEN, FEATURES)), "out": jnp.ones((CLASSES, HIDDEN))})
    batch = {"x": jnp.ones((BATCH, FEATURES)), "y": jnp.zeros(BATCH, int)}

    def noisy(theta, batch):
        return estimate(Target(log_likelihood, log_prior, unravel), theta, batch, population=1000)

    def step(key, state, batch):
        return sampler.step(key, state, noisy(state.position, batch))

    state = sampler.init(jax.random.key(0), theta, noisy(theta, batch))
    return jax.jit(step).lower(jax.random.key(0), state, batch).compile().as_text(), theta.size


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("eccadl", {"covariance": "low_rank", "rank": 8}),
        ("mccadl", {"expm": "lanczos"}),
        ("mccadl", {"expm": "dense"}),
        ("ccadl", {}),
        ("ccadl", {"covariance": "diagonal"}),
        ("sgnht", {}),
        ("sghmc", {}),
        ("sgld", {}),
        ("msgld", {}),
    ],
    ids=str,
)
def test_a_step_evaluates_the_log_likelihood_once(name, options):
    """The network's only tanh over the batch stands once in the compiled step, whatever is asked of the covariance."""
    text, _ = compiled_step(name, **options)
    assert len(re.findall(r"= f32\[\d+,\d+\]\S* tanh\(", text)) == 1


@pytest.mark.parametrize(
    ("name", "options"), [("mccadl", {"expm": "lanczos"}), ("eccadl", {"covariance": "low_rank", "rank": 8})], ids=str
)
def test_matrix_free_means_no_array_of_that_size(name, options):
    """No n×d and no d×d array in the compiled step; the same look at a dense one finds them."""
    text, d = compiled_step(name, **options)
    assert largest(text) < BATCH * d
    text, d = compiled_step("mccadl", expm="dense")
    assert largest(text) >= d * d > BATCH * d


def largest(text):
    shapes = re.findall(r"\b[a-z]+\d*\[([\d,]+)\]", text)
    return max(int(np.prod([int(k) for k in shape.split(",")])) for shape in shapes)


def test_a_custom_vjp_goes_backward_only():
    """The force is there; a product with S, which goes forward too, is refused in words."""

    @jax.custom_vjp
    def square(x):
        return x**2

    square.defvjp(lambda x: (x**2, x), lambda x, g: (2 * x * g,))
    posterior = isotherm.Posterior(lambda theta, x: -square(jnp.sum(theta) - x), lambda theta: -0.5 * jnp.sum(theta**2))
    noisy = estimate(as_target(posterior), jnp.zeros(2), jnp.ones(3), population=3)
    np.testing.assert_allclose(noisy.force, 6.0)
    np.testing.assert_allclose(noisy.covariance.dense(), 0.0, atol=1e-6)
    with pytest.raises(TypeError, match=r"log_likelihood has a jax\.custom_vjp.* use jax\.custom_jvp"):
        noisy.covariance.matvec(jnp.ones(2))


def test_a_linear_solve_is_no_custom_vjp():
    """JAX's `custom_linear_solve` goes both ways, whatever its name begins with."""

    def log_likelihood(theta, x):
        return -jnp.sum(jnp.linalg.solve(jnp.eye(2) + jnp.outer(theta, theta), x) ** 2)

    posterior = isotherm.Posterior(log_likelihood, lambda theta: -0.5 * jnp.sum(theta**2))
    batch = np.random.default_rng(0).standard_normal((5, 2)).astype(np.float32)
    covariance = estimate(as_target(posterior), jnp.ones(2), batch, population=9).covariance
    v = jnp.array([1.0, -2.0])
    np.testing.assert_allclose(covariance.matvec(v), covariance.dense() @ v, rtol=1e-4)  # float32, a few roundings


def test_the_curvature_of_a_custom_vjp_goes_backward_twice():
    """Its forward rule calls itself, as many do: JAX then refuses a forward derivative only once it is batched."""

    @jax.custom_vjp
    def square(x):
        return x**2

    square.defvjp(lambda x: (square(x), x), lambda x, g: (2 * x * g,))
    posterior = isotherm.Posterior(lambda theta, x: -square(jnp.sum(theta) - x), lambda theta: -0.5 * jnp.sum(theta**2))
    noisy = estimate(as_target(posterior), jnp.zeros(2), jnp.ones(3), population=3)
    np.testing.assert_allclose(noisy.curvature.dense(jnp.zeros(2)), 6 * np.ones((2, 2)) + np.eye(2))


def wrong_second_derivative():
    """A function whose first derivative is right, and whose second has a bug of the user's."""

    @jax.custom_jvp
    def slope(x):
        return 2 * x

    @slope.defjvp
    def _(primals, tangents):
        raise ValueError("2 is not a slope")

    @jax.custom_jvp
    def square(x):
        return x**2

    square.defjvp(lambda primals, tangents: (square(primals[0]), slope(primals[0]) * tangents[0]))
    return Target(lambda theta, x: -square(jnp.sum(theta) - x), lambda theta: -0.5 * jnp.sum(theta**2))


def test_an_error_in_a_second_derivative_is_raised():
    """It once made the sampler go on as if there were no second derivative."""
    noisy = estimate(wrong_second_derivative(), jnp.zeros(2), jnp.ones(3), population=3)
    np.testing.assert_allclose(noisy.force, 6.0)
    with pytest.raises(ValueError, match="2 is not a slope"):
        noisy.curvature  # noqa: B018


def test_where_there_is_no_second_derivative_there_is_no_curvature():
    """JAX cannot differentiate a callback."""

    @jax.custom_jvp
    def square(x):
        return x**2

    @square.defjvp
    def _(primals, tangents):
        slope = jax.pure_callback(lambda x: 2 * x, primals[0], primals[0], vmap_method="broadcast_all")
        return square(primals[0]), slope * tangents[0]

    target = Target(lambda theta, x: -square(jnp.sum(theta) - x), lambda theta: -0.5 * jnp.sum(theta**2))
    assert estimate(target, jnp.zeros(2), jnp.ones(3), population=3).curvature is None


def test_rows_as_many_as_there_are_that_were_drawn_by_weight_are_a_sample():
    """Their force has noise, though a batch of all rows, each once, has none."""
    log_likelihood, params, batch = logistic()
    target, theta = Target(log_likelihood, log_prior), jnp.asarray(params, jnp.float32)
    batch = jax.tree.map(lambda a: jnp.asarray(a, jnp.float32), batch)
    weighted = estimate(target, theta, batch, population=n, size=3, weights=jnp.ones(n))
    everything = estimate(target, theta, batch, population=n, size=3)
    assert (weighted.sampling.share, everything.sampling.share) == (3 / n, 0)


def test_a_custom_vjp_is_found_inside_a_loop():
    """In the body of a scan, where a printed program would show it, too."""

    @jax.custom_vjp
    def square(x):
        return x**2

    square.defvjp(lambda x: (x**2, x), lambda x, g: (2 * x * g,))

    def log_likelihood(theta, x):
        return jax.lax.scan(lambda total, t: (total - square(t - x), None), jnp.zeros(()), theta)[0]

    noisy = estimate(
        Target(log_likelihood, lambda theta: -0.5 * jnp.sum(theta**2)), jnp.zeros(2), jnp.ones(3), population=3
    )
    with pytest.raises(TypeError, match=r"log_likelihood has a jax\.custom_vjp"):
        noisy.covariance.matvec(jnp.ones(2))
