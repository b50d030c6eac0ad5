"""An anchored posterior is the posterior, seen from elsewhere: the identity, noise over all batches, coordinates."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from jax.scipy.special import gammaln

import isotherm
from isotherm.data.batches import make_table
from isotherm.targets.noisy import estimate
from isotherm.targets.target import UNKNOWN, Anchored, Coordinates, Findings

RNG = np.random.default_rng(0)
N = 60
X = RNG.standard_normal((N, 3))
THETA = np.array([0.5, -1.0, 0.3])


def linear():
    return lambda w, e: -0.5 * (e["y"] - e["x"] @ w) ** 2, THETA, {"x": X, "y": X @ THETA + RNG.standard_normal(N)}


def logistic():
    return lambda w, e: jax.nn.log_sigmoid(e["y"] * (e["x"] @ w)), THETA, {"x": X, "y": np.sign(RNG.standard_normal(N))}


def poisson():
    return lambda w, e: e["y"] * (e["x"] @ w) - jnp.exp(e["x"] @ w), THETA, {"x": X, "y": RNG.poisson(2.0, N) * 1.0}


def negative_binomial():
    """Mean exp(x·w), dispersion exp(log_r)."""

    def log_likelihood(params, e):
        r, eta, y = jnp.exp(params["log_r"]), e["x"] @ params["w"], e["y"]
        there = gammaln(y + r) - gammaln(r) - gammaln(y + 1)
        return there + r * params["log_r"] + y * eta - (r + y) * jnp.logaddexp(params["log_r"], eta)

    return log_likelihood, {"w": THETA, "log_r": np.array(0.4)}, {"x": X, "y": RNG.poisson(2.0, N) * 1.0}


def student_t():
    def log_likelihood(params, e):
        residual = (e["y"] - e["x"] @ params["w"]) * jnp.exp(-params["log_s"])
        return -2.5 * jnp.log1p(residual**2 / 4) - params["log_s"]

    return log_likelihood, {"w": THETA, "log_s": np.array(-0.2)}, {"x": X, "y": X @ THETA + RNG.standard_t(4, N)}


def softmax():
    data = {"x": X, "y": RNG.integers(0, 4, N)}
    return lambda W, e: jax.nn.log_softmax(W @ e["x"])[e["y"]], RNG.standard_normal((4, 3)), data


def hierarchical():
    """Group effects with a scale of their own; the parameters are a nest of dicts and tuples."""

    def log_likelihood(params, e):
        effect = params["groups"][0][e["group"]] * jnp.exp(params["groups"][1])
        return -0.5 * (e["y"] - e["x"] @ params["w"] - effect) ** 2

    data = {"x": X, "y": RNG.standard_normal(N), "group": RNG.integers(0, 5, N)}
    return log_likelihood, {"w": THETA, "groups": (RNG.standard_normal(5), np.array(-0.5))}, data


def network():
    def log_likelihood(params, e):
        W, b = params["in"]
        return jax.nn.log_softmax(params["out"] @ jnp.tanh(W @ e["x"] + b))[e["y"]]

    params = {"in": (RNG.standard_normal((4, 3)), RNG.standard_normal(4)), "out": RNG.standard_normal((3, 4))}
    return log_likelihood, params, {"x": X, "y": RNG.integers(0, 3, N)}


MODELS = [linear, logistic, poisson, negative_binomial, student_t, softmax, hierarchical, network]
QUICK = [(linear, 1), (negative_binomial, 1), (logistic, 2), (hierarchical, 2), (network, 2)]
REST = [pair for pair in itertools.product(MODELS, [1, 2]) if pair not in QUICK]
PAIRS = [*QUICK, *(pytest.param(*pair, marks=pytest.mark.slow) for pair in REST)]


def log_prior(params):
    """Not a Gaussian, so that a quadratic would not do for it."""
    return -sum(jnp.sum(jnp.log(jnp.cosh(leaf))) for leaf in jax.tree.leaves(params))


def by_hand(log_likelihood, params, data, order, p=None, prior=log_prior):
    """Anchored at `params`, wherever they are, with G and H by JAX over all rows and an arbitrary invertible factor."""
    origin, unravel = ravel_pytree(jax.tree.map(jnp.asarray, params))
    d = origin.size

    def total(flat):
        return jnp.sum(jax.vmap(log_likelihood, in_axes=(None, 0))(unravel(flat), data))

    factor = jnp.asarray(0.3 * np.eye(d) + 0.1 * np.random.default_rng(1).standard_normal((d, d)))
    hessian = None if order == 1 else factor.T @ jax.hessian(total)(origin) @ factor
    return Anchored(
        log_likelihood,
        prior,
        unravel,
        coordinates=Coordinates(origin, factor),
        gradient=factor.T @ jax.grad(total)(origin),
        hessian=hessian,
        rows=make_table(np.ones(len(jax.tree.leaves(data)[0])) if p is None else p, np.float64),
        findings=UNKNOWN,
    )


def assert_same_density(anchored, data):
    """At random z, standard deviations and far more away: both log densities differ by a constant; 1e-10 of the sum of
    the terms' sizes is 1e5 roundings of float64."""

    @jax.jit
    def both(z):
        params = anchored.unravel(anchored.flat_parameters(z))
        parts = jax.vmap(lambda e: anchored.estimated(z, e))(data)
        plain = jax.vmap(anchored.log_likelihood, in_axes=(None, 0))(params, data)
        known = anchored.exact(z)
        total = jnp.sum(plain) + anchored.log_prior(params)
        return jnp.sum(parts) + known, total, jnp.sum(jnp.abs(parts)) + jnp.abs(known) + jnp.abs(total)

    d = len(anchored.gradient)
    z = np.random.default_rng(2).standard_normal((6, d)) * np.array([0.0, 1e-3, 0.3, 1, 1, 3])[:, None]
    found, plain, size = (np.array(values) for values in zip(*map(both, jnp.asarray(z)), strict=True))
    assert (abs((found - plain) - (found - plain)[0]) <= 1e-10 * (size + size[0])).all()
    assert np.ptp(plain) > 1e-3  # so there was something to compare


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize(("model", "order"), PAIRS)
def test_the_density_is_the_same_up_to_a_constant(model, order):
    """Whatever the anchor: no mode is needed for it, and no particular factor."""
    log_likelihood, params, data = model()
    anchored = by_hand(log_likelihood, params, data, order)
    assert anchored.order == order
    assert_same_density(anchored, jax.tree.map(jnp.asarray, data))


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize(
    "model", [poisson, *(pytest.param(model, marks=pytest.mark.slow) for model in (student_t, hierarchical))]
)
def test_the_density_of_what_anchor_returns(model):
    log_likelihood, params, data = model()
    found = isotherm.anchor(isotherm.Posterior(log_likelihood, log_prior), data, params, progress=False)
    assert found.gradient.dtype == np.float64
    assert_same_density(found, jax.tree.map(jnp.asarray, data))


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("p", [np.ones(4), np.array([0.1, 0.5, 0.3, 0.1])], ids=["equal", "unequal"])
def test_force_and_covariance_over_all_batches(order, p):
    """All 16 ordered batches of 2 out of 4 rows, each with its probability: the mean force is the gradient of the log
    posterior, and the mean of S is the covariance of the force. 1e-10 is 1e6 roundings."""
    log_likelihood, params, data = poisson()
    data = jax.tree.map(lambda column: jnp.asarray(column[:4]), data)
    p = p / p.sum()
    anchored = by_hand(log_likelihood, params, data, order, p)
    np.testing.assert_allclose(anchored.rows.weights, 1 / (4 * p), rtol=1e-12)
    z = jnp.asarray(np.random.default_rng(3).standard_normal(3))

    @jax.jit
    def noisy(rows):
        batch = jax.tree.map(lambda column: column[rows], data)
        weights = anchored.rows.weights[rows]
        found = estimate(anchored, z, batch, population=4, weights=weights)
        return found.force, found.covariance.dense()

    batches = np.array(list(itertools.product(range(4), repeat=2)))
    chances = p[batches].prod(axis=1)
    forces, covariances = (np.array(each) for each in zip(*map(noisy, batches), strict=True))

    def log_posterior(z):
        params = anchored.unravel(anchored.flat_parameters(z))
        return jnp.sum(jax.vmap(log_likelihood, in_axes=(None, 0))(params, data)) + log_prior(params)

    mean = chances @ forces
    exact = jax.grad(log_posterior)(z)
    np.testing.assert_allclose(mean, exact, rtol=1e-10, atol=1e-10 * np.abs(exact).max())
    covariance = np.einsum("b,bi,bj->ij", chances, forces - mean, forces - mean)
    assert np.abs(covariance).max() > 1e-3  # there is noise
    expected = np.einsum("b,bij->ij", chances, covariances)
    np.testing.assert_allclose(expected, covariance, rtol=1e-10, atol=1e-10 * np.abs(covariance).max())


@pytest.mark.usefixtures("float64")
def test_the_second_order_leaves_less_noise_than_the_first():
    """Near the anchor: the remainders are of order δ³ and δ², so a tenth of δ leaves a hundredth of their ratio's
    square."""
    log_likelihood, params, data = logistic()
    first, second = (by_hand(log_likelihood, params, data, order) for order in (1, 2))
    data = jax.tree.map(jnp.asarray, data)

    def spread(anchored, scale):
        z = scale * jnp.ones(3)
        return float(estimate(anchored, z, data, population=N).covariance.trace())

    ratios = [spread(second, scale) / spread(first, scale) for scale in (1e-2, 1e-3)]
    np.testing.assert_allclose(ratios[1] / ratios[0], 1e-2, rtol=0.1)


def test_position_inverts_flat_parameters():
    """In float32, at a condition number of 1e4: rounding of the flat parameters is divided by the factor's smallest
    value, 1e-2, so z comes back to 1e-7 · 3 / 1e-2 or so."""
    rng = np.random.default_rng(4)
    turn = np.linalg.qr(rng.standard_normal((5, 5)))[0]
    factor = (turn * np.logspace(-2, 2, 5)).astype(np.float32)
    at = Coordinates(jnp.asarray(rng.standard_normal(5), jnp.float32), jnp.asarray(factor))
    z = rng.standard_normal(5).astype(np.float32)
    found = at.position(np.asarray(at.flat(jnp.asarray(z))))
    assert found.dtype == np.float64
    exact = np.asarray(at.origin, np.float64) + factor.astype(np.float64) @ z
    np.testing.assert_allclose(at.position(exact), z, rtol=1e-6)
    np.testing.assert_allclose(found, z, atol=2e-2)
    np.testing.assert_allclose(at.shift(jnp.asarray(z)), exact - np.asarray(at.origin, np.float64), rtol=1e-4)


def log_sigmoid(w, e):
    return jax.nn.log_sigmoid(e["y"] * (e["x"] @ w))


def force_at_a_billion_rows(dtype, order):
    """Of a logistic regression at z of size 1 where 500 rows stand for 1e9 and a standard deviation is 3.3e-5 of |θ|;
    at the mode, so that G = 0."""
    rng, sd = np.random.default_rng(6), np.float64(np.float32(3.3e-5))
    x, theta = np.float64(np.float32(rng.standard_normal((500, 3)))), np.float64(np.float32([0.9, -1.1, 1.0]))
    data = {"x": x, "y": np.sign(x @ theta + rng.logistic(size=500))}
    s = 1 / (1 + np.exp(-x @ theta))
    H = -(1e9 / 500) * sd**2 * (x.T * (s * (1 - s))) @ x
    with jax.enable_x64(dtype == np.float64):
        at = Coordinates(jnp.asarray(theta, dtype), jnp.asarray(sd * np.eye(3), dtype))
        zero, hessian = jnp.zeros(3, dtype), None if order == 1 else jnp.asarray(H, dtype)
        known = {"gradient": zero, "hessian": hessian, "rows": make_table(np.ones(500)), "findings": UNKNOWN}
        anchored = Anchored(log_sigmoid, lambda w: -0.5 * jnp.sum(w**2), coordinates=at, **known)
        batch = jax.tree.map(lambda column: jnp.asarray(column, dtype), data)
        z = jnp.asarray([1.0, -0.5, 0.75], dtype)
        return np.asarray(estimate(anchored, z, batch, population=10**9).force, np.float64), H @ np.float64(z)


@pytest.mark.parametrize("order", [1, 2])
def test_float32_keeps_the_digits_at_a_billion_rows(order):
    """θ̂ + δ is rounded by at most 6e-8 of θ, so 2e-3 of δ, and the curvature makes as much of the force of it; the
    gradients' own rounding is averaged over the rows. So half a percent of the force."""
    single, gaussian = force_at_a_billion_rows(np.float32, order)
    double, _ = force_at_a_billion_rows(np.float64, order)
    assert np.linalg.norm(double - gaussian) < 1e-3 * np.linalg.norm(gaussian)  # the prior's own force
    assert np.linalg.norm(single - double) < 5e-3 * np.linalg.norm(double)


def test_typical_draws_are_the_gaussians():
    """The mean and covariance of 4,000 draws of N(θ̂, LLᵀ), in z: each entry within five standard errors."""
    log_likelihood, params, data = poisson()
    with jax.enable_x64(True):
        anchored = by_hand(log_likelihood, params, data, 1)
        drawn = np.array(anchored.typical_params(3, 4000))
    z = np.array([anchored.position(flat) for flat in drawn[:4000]])
    assert (abs(z.mean(axis=0)) < 5 / np.sqrt(4000)).all()
    assert (abs(np.cov(z.T) - np.eye(3)) < 5 * np.sqrt(2 / 4000)).all()
    with jax.enable_x64(True):
        np.testing.assert_array_equal(drawn[:2], anchored.typical_params(3, 2))
        assert (drawn[0] != anchored.typical_params(4, 1)[0]).all()


def test_repr_says_what_was_found():
    log_likelihood, params, data = poisson()
    with jax.enable_x64(True):
        anchored = by_hand(log_likelihood, params, data, 2)
    found = Findings(4.25, 0.123, 1500, 0.05, 12.0, 0.1, 2)
    said = repr(Anchored(**{**vars(anchored), "findings": found}))
    assert said == (
        "<anchored posterior: 3 parameters, 60 rows; order 2, batch_size 1,500, noise over curvature 0.05 (plain 12); "
        "0.12 standard deviations from the mode after 4.2 passes over the data; another mode was seen>"
    )
    assert "another mode" not in repr(anchored)
