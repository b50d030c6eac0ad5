"""The way to the mode: badly scaled, from far away, off a saddle; and other modes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import isotherm
from isotherm.targets.newton import (
    CannotAnchor,
    LogPosterior,
    find_mode,
    find_other_mode,
    inverse_root,
    moved,
    spectrum,
    turned,
)
from isotherm.targets.target import Coordinates

RNG = np.random.default_rng(2)


def test_the_mode_of_a_badly_scaled_regression(badly_scaled, sums, laplace):
    """Within the tolerance of the mode of undamped Newton steps in float64, in its standard deviations; and the
    coordinates make the curvature 1 there, but for how much it changes over the last step, before which it was
    measured: that gained more than half of what was expected, and is some tenths long, here 7 %."""
    rows, at = sums(*badly_scaled)
    found = find_mode(LogPosterior(rows), at, 1e-2)
    mode, covariance = laplace(*badly_scaled)
    shift = np.asarray(found.at.origin, np.float64) - mode
    assert np.sqrt(shift @ np.linalg.solve(covariance, shift) / 4) < 2e-2
    assert found.distance <= 1e-2
    factor = np.asarray(found.at.factor, np.float64)
    np.testing.assert_allclose(factor.T @ np.linalg.solve(covariance, factor), np.eye(4), atol=0.15)
    np.testing.assert_allclose(found.here.curvature, np.eye(4), atol=1e-6)
    assert found.at.origin.dtype == np.float32


@pytest.mark.parametrize("start", [1e-3, 0.0])
def test_a_saddle_is_left(sums, start):
    """Of Σ (x² − 1)²: flat gradient at 0 but for what `start` makes of it, curvature negative; the modes are at ±1."""
    posterior = isotherm.Posterior(
        lambda t, row: -row * jnp.sum((t**2 - 1) ** 2), lambda t: jnp.zeros((), t.dtype) * jnp.sum(t)
    )
    rows, at = sums(posterior, np.ones(100, np.float32), np.array([start, -start], np.float32))
    assert (LogPosterior(rows).second_order(at, LogPosterior(rows).first_order(at)).curvature.diagonal() < 0).all()
    found = find_mode(LogPosterior(rows), at, 1e-2)
    np.testing.assert_allclose(abs(found.at.origin), 1, atol=1e-3)  # 1e-2 standard deviations are 4e-4
    assert (found.at.origin * [start, -start] >= 0).all()  # each on its own side


def test_a_ridge_is_followed_to_where_it_bends_down(sums):
    """A hierarchy that is not centred: on the way to its mode the slope is small, by the standard deviations of 42
    directions, where the density still bends up along one."""
    group = np.arange(20_000) % 40
    data = {"y": (RNG.standard_normal(40)[group] + RNG.standard_normal(20_000)).astype(np.float32), "group": group}

    def log_likelihood(params, row):
        effect = params["mu"] + jnp.exp(params["log_tau"]) * params["eta"][row["group"]]
        return -0.5 * (row["y"] - effect) ** 2

    def log_prior(params):
        return -0.5 * sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(params))

    init = {"eta": np.zeros(40, np.float32), "log_tau": np.float32(0), "mu": np.float32(0)}
    rows, at = sums(isotherm.Posterior(log_likelihood, log_prior), data, init)
    found = find_mode(LogPosterior(rows), at, 0.3)
    assert found.distance <= 0.3
    assert np.linalg.eigvalsh(found.here.curvature)[0] > 0


def student_t(params, example):
    residual = (example["y"] - example["x"] @ params["w"]) * jnp.exp(-params["log_s"])
    return -1.5 * jnp.log1p(residual**2 / 2) - params["log_s"]


def test_student_t_from_a_bad_start(sums, laplace):
    """Undamped Newton steps run away from there."""
    x = RNG.standard_normal((500, 2)).astype(np.float32)
    data = {"x": x, "y": (x @ [2.0, -1.0] + RNG.standard_t(2, 500)).astype(np.float32)}
    posterior = isotherm.Posterior(student_t, lambda p: -0.005 * (jnp.sum(p["w"] ** 2) + p["log_s"] ** 2))
    bad = {"w": np.float32([-8.0, 9.0]), "log_s": np.float32(-1.0)}
    near = {"w": np.float32([2.0, -1.0]), "log_s": np.float32(0.0)}
    mode, covariance = laplace(posterior, data, near)
    assert not np.linalg.norm(laplace(posterior, data, bad)[0] - mode) < 1
    rows, at = sums(posterior, data, bad)
    found = find_mode(LogPosterior(rows), at, 1e-2)
    shift = np.asarray(found.at.origin, np.float64) - mode
    assert np.sqrt(shift @ np.linalg.solve(covariance, shift) / 3) < 2e-2


def test_no_step_goes_down(sums, badly_scaled):
    """Wherever it begins: the value at the end of each further step is higher."""
    posterior, data, _ = badly_scaled
    rows, at = sums(posterior, data, {"w": np.float32([300.0, -5.0, 0.2]), "b": np.float32(4.0)})
    values = [find_mode(LogPosterior(rows), at, 1e-2, most).here.value for most in (1, 2, 4, 8)]
    values.insert(0, LogPosterior(rows).first_order(at).value)
    assert (np.diff(values) >= 0).all()
    assert values[-1] > values[0] + 100


@pytest.mark.parametrize(
    ("prior", "said"),
    [
        (lambda t: jnp.sum(jnp.sqrt(t - 1)), "the log posterior or its gradient is not finite"),
        (lambda t: jnp.sum(jnp.abs(t) ** 1.5), "the second derivatives of the log posterior are not finite"),
    ],
    ids=["gradient", "hessian"],
)
def test_what_is_not_finite_is_said(sums, prior, said):
    posterior = isotherm.Posterior(lambda t, row: -0.5 * jnp.sum((t - row) ** 2), prior)
    rows, at = sums(posterior, np.ones((5, 2), np.float32), np.zeros(2, np.float32))
    with pytest.raises(CannotAnchor, match=said):
        find_mode(LogPosterior(rows), at, 0.1)


def test_spectrum():
    """WᵀKW = diag(λ) with |λ| = 1, whatever the signs, and scales of up to 1e3; a flat direction has λ = 0."""
    turn = np.linalg.qr(RNG.standard_normal((4, 4)))[0]
    scale = np.logspace(-1, 1, 4)
    K = scale[:, None] * (turn * [2.0, 1.0, -0.5, -3.0]) @ turn.T * scale
    W, values = spectrum(K)
    np.testing.assert_allclose(W.T @ K @ W, np.diag(values), atol=1e-9)
    np.testing.assert_allclose(np.sort(values), [-1, -1, 1, 1], atol=1e-12)
    W, values = spectrum(np.diag([4.0, 0.0]))
    np.testing.assert_allclose(np.sort(values), [0, 1], atol=1e-12)
    assert np.isfinite(W).all()


def test_the_inverse_root_makes_a_matrix_one():
    A = RNG.standard_normal((4, 4))
    K = A @ A.T + np.eye(4)
    W = inverse_root(K)
    np.testing.assert_allclose(W.T @ K @ W, np.eye(4), atol=1e-12 * np.linalg.cond(K))


def test_coordinates_move_and_turn():
    at = Coordinates(np.float32([1, 2]), np.float32([[2, 0], [1, 1]]))
    there = moved(at, np.array([1.0, -1.0]))
    np.testing.assert_array_equal(there.origin, np.float32([3, 2]))
    W = np.array([[0.0, 1.0], [2.0, 0.0]])
    z = np.array([0.5, 0.25])
    with jax.numpy_dtype_promotion("standard"):
        np.testing.assert_allclose(turned(at, W).flat(z), at.flat(W @ z))
    assert turned(at, W).factor.dtype == np.float32


# Other modes: a second one is seen where there is one, and none where there is none.

OTHER_RNG = np.random.default_rng(4)
MIXED = np.concatenate([OTHER_RNG.normal(-2, 1, 150), OTHER_RNG.normal(2, 1, 150)]).astype(np.float32)


def mixture(means, x):
    """Of N(m₀, 1) and N(m₁, 1), half each: the labels can be exchanged."""
    return jnp.logaddexp(-0.5 * (x - means[0]) ** 2, -0.5 * (x - means[1]) ** 2)


MIXTURE = isotherm.Posterior(mixture, lambda means: -0.5 * jnp.sum(means**2) / 25)


def other_mode(sums, posterior, data, init, some_rows=slice(None)):
    rows, at = sums(posterior, data, init)
    mode = find_mode(LogPosterior(rows), at, 1e-2)
    few = data[some_rows] if isinstance(data, np.ndarray) else {name: col[some_rows] for name, col in data.items()}
    some, _ = sums(posterior, few, init)
    return mode, find_other_mode(some, rows, mode.at, np.random.default_rng(0))


def test_the_other_mode_of_a_mixture(sums):
    """It is the one that is known with its labels exchanged, to half a standard deviation of 0.08 or so."""
    mode, found = other_mode(sums, MIXTURE, MIXED, np.float32([-1.0, 1.0]))
    np.testing.assert_allclose(found, mode.at.origin[::-1], atol=0.04)


def test_it_is_found_on_some_rows_too(sums):
    """Of which the mode is off by √5 standard deviations of all rows, twice that at most."""
    mode, found = other_mode(sums, MIXTURE, MIXED, np.float32([-1.0, 1.0]), slice(None, None, 5))
    np.testing.assert_allclose(found, mode.at.origin[::-1], atol=0.4)


def test_a_logistic_regression_has_one_mode(sums, badly_scaled):
    _, found = other_mode(sums, *badly_scaled)
    assert found is None


def test_a_mode_that_is_far_lower_does_not_count(sums):
    """A second mode exp(−60) times as high: 300 · 0.2."""
    posterior = isotherm.Posterior(
        lambda t, x: jnp.logaddexp(-0.5 * jnp.sum((t - 1) ** 2), -0.2 - 0.5 * jnp.sum((t + 1) ** 2)) * 20 * x,
        lambda t: -1e-6 * jnp.sum(t**2),
    )
    ones = np.ones(300, np.float32)
    assert other_mode(sums, posterior, ones, np.float32([0.5]))[1] is None
