"""Series: recursions by scan and fori_loop, hidden states, filters and differential equations."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp
from registry import Case, gaussian, integers, model, normal_prior, normals, runs_only_with

from isotherm import Posterior


def series(rows=60, length=12, seed=0):
    return np.cumsum(normals(rows, length, seed=seed), axis=1) / 4


@model
def autoregression_on_lags():
    y = series(1, 300)[0]
    data = {"lags": np.stack([y[2:-1], y[1:-2], y[:-3]], axis=1), "y": y[3:]}
    return Case(Posterior(lambda phi, row: gaussian(row["lags"] @ phi, row["y"]), normal_prior), data, jnp.zeros(3))


@model
def autoregression_of_series():
    def log_likelihood(p, y):
        r = y[1:] - jnp.tanh(p["phi"]) * y[:-1] - p["mean"]
        return jnp.sum(-0.5 * r**2)

    return Case(Posterior(log_likelihood, normal_prior), series(), {"phi": jnp.zeros(()), "mean": jnp.zeros(())})


@model
def moving_average_by_scan():
    def log_likelihood(theta, y):
        def step(error, value):
            error = value - theta[0] - jnp.tanh(theta[1]) * error
            return error, -0.5 * error**2

        return jnp.sum(jax.lax.scan(step, jnp.zeros((), theta.dtype), y)[1])

    return Case(Posterior(log_likelihood, normal_prior), series(), jnp.zeros(2))


@model
def garch_by_scan():
    def log_likelihood(p, y):
        a, b, c = jax.nn.softmax(p)

        def step(variance, value):
            variance = 0.1 + a * value**2 + b * variance + 0 * c
            return variance, -0.5 * value**2 / variance - 0.5 * jnp.log(variance)

        return jnp.sum(jax.lax.scan(step, jnp.ones((), p.dtype), y)[1])

    return Case(Posterior(log_likelihood, normal_prior), series(), jnp.zeros(3))


@model
def hidden_markov_forward():
    def log_likelihood(p, y):
        move = jax.nn.log_softmax(p["move"], axis=1)

        def step(alpha, value):
            alpha = logsumexp(alpha[:, None] + move, axis=0) - 0.5 * (value - p["means"]) ** 2
            return alpha, None

        return logsumexp(jax.lax.scan(step, jnp.zeros(3, p["means"].dtype), y)[0])

    init = {"move": jnp.eye(3), "means": jnp.array([-1.0, 0.0, 1.0])}
    return Case(Posterior(log_likelihood, normal_prior), series(), init)


@model
def hidden_markov_integer_symbols():
    def log_likelihood(p, symbols):
        move, emit = jax.nn.log_softmax(p["move"]), jax.nn.log_softmax(p["emit"])

        def step(t, alpha):
            return logsumexp(alpha[:, None] + move, axis=0) + emit[:, symbols[t]]

        return logsumexp(jax.lax.fori_loop(1, 10, step, emit[:, symbols[0]]))

    init = {"move": jnp.eye(3), "emit": jnp.asarray(normals(3, 5) / 3)}
    # With x64 `move` is float64 and `emit`, where the loop starts, float32.
    expected = runs_only_with(x64=False)
    return Case(Posterior(log_likelihood, normal_prior), integers(5, 60, 10), init, expected=expected)


@model
def kalman_filter_local_level():
    def log_likelihood(p, y):
        q, r = jnp.exp(p[0]), jnp.exp(p[1])

        def step(carry, value):
            mean, variance = carry
            variance = variance + q
            total = variance + r
            gain = variance / total
            value = value - mean
            return (mean + gain * value, (1 - gain) * variance), -0.5 * (value**2 / total + jnp.log(total))

        start = (jnp.zeros((), p.dtype), jnp.ones((), p.dtype))
        return jnp.sum(jax.lax.scan(step, start, y)[1])

    return Case(Posterior(log_likelihood, normal_prior), series(), jnp.zeros(2))


@model
def kalman_filter_with_matrices():
    H = jnp.array([[1.0, 0.0]])

    def log_likelihood(p, y):
        F = jnp.array([[1.0, 1.0], [0.0, 1.0]]) * jax.nn.sigmoid(p["damp"])
        Q, R = jnp.exp(p["log_q"]) * jnp.eye(2), jnp.exp(p["log_r"]) * jnp.eye(1)

        def step(carry, value):
            m, P = carry
            m, P = F @ m, F @ P @ F.T + Q
            S = H @ P @ H.T + R
            K = jnp.linalg.solve(S, H @ P).T
            r = value[None] - H @ m
            return (m + K @ r, P - K @ S @ K.T), -0.5 * (r @ jnp.linalg.solve(S, r) + jnp.linalg.slogdet(S)[1])

        return jnp.sum(jax.lax.scan(step, (jnp.zeros(2), jnp.eye(2)), y)[1])

    init = {"damp": jnp.asarray(2.0), "log_q": jnp.zeros(()), "log_r": jnp.zeros(())}
    return Case(Posterior(log_likelihood, normal_prior), series(40, 8), init)


@model
def ode_by_euler_scan():
    def log_likelihood(p, row):
        rate = jnp.exp(p)

        def step(x, _):
            return x + 0.1 * rate * x * (1 - x), x

        return -0.5 * jnp.sum((jax.lax.scan(step, row["start"], None, length=10)[1] - row["y"]) ** 2)

    data = {"start": np.full(50, 0.2, np.float32), "y": series(50, 10)}
    # With x64 the parameters are float64, and the scan cannot start from a number of float32.
    return Case(Posterior(log_likelihood, normal_prior), data, jnp.zeros(()), expected=runs_only_with(x64=False))


@model
def ode_by_runge_kutta_fori_loop():
    def log_likelihood(p, row):
        a, b = jnp.exp(p["prey"]), jnp.exp(p["hunter"])

        def slope(z):
            return jnp.stack([a * z[0] - z[0] * z[1], z[0] * z[1] - b * z[1]])

        def step(_, z):
            k1 = slope(z)
            k2 = slope(z + 0.05 * k1)
            return z + 0.1 * k2

        return -0.5 * jnp.sum((jax.lax.fori_loop(0, 15, step, row["start"]) - row["end"]) ** 2)

    data = {"start": 1 + 0.1 * normals(50, 2), "end": 1 + 0.1 * normals(50, 2, seed=1)}
    init = {"prey": jnp.zeros(()), "hunter": jnp.zeros(())}
    # With x64 the parameters are float64, and the loop cannot start from a row of float32.
    return Case(Posterior(log_likelihood, normal_prior), data, init, expected=runs_only_with(x64=False))


@model
def epidemic_of_counts():
    def log_likelihood(p, row):
        beta, gamma = jax.nn.sigmoid(p)

        def step(state, cases):
            s, i = state
            new = beta * s * i
            return (s - new, i + new - gamma * i), cases * jnp.log(100 * new) - 100 * new

        return jnp.sum(jax.lax.scan(step, (0.99, 0.01), row)[1])

    return Case(Posterior(log_likelihood, normal_prior), integers(5, 30, 8), jnp.zeros(2))


@model
def series_with_channels():
    def log_likelihood(p, y):
        smooth = jnp.cumsum(y, axis=0) / (1 + jnp.arange(y.shape[0]))[:, None]
        return -0.5 * jnp.sum((y @ p["W"] - smooth) ** 2)

    return Case(Posterior(log_likelihood, normal_prior), normals(60, 10, 3), {"W": jnp.eye(3)})


@model
def series_padded_with_lengths():
    data = {"y": normals(80, 12), "length": 1 + integers(12, 80)}

    def log_likelihood(p, row):
        inside = jnp.arange(12) < row["length"]
        return jnp.sum(jnp.where(inside, -0.5 * (row["y"] - p) ** 2, 0.0))

    return Case(Posterior(log_likelihood, normal_prior), data, jnp.zeros(()))


@model
def associative_scan_recursion():
    def log_likelihood(p, y):
        decay = jax.nn.sigmoid(p[0])

        def combine(left, right):
            return left[0] * right[0], right[0] * left[1] + right[1]

        _, level = jax.lax.associative_scan(combine, (jnp.full(y.shape, decay), y))
        return -0.5 * jnp.sum((level - p[1]) ** 2)

    # With x64 the parameters are float64, and an associative scan mixes nothing with a series of float32.
    return Case(Posterior(log_likelihood, normal_prior), series(), jnp.zeros(2), expected=runs_only_with(x64=False))


@model
def changepoint_marginalised():
    def log_likelihood(p, y):
        before, after = jnp.cumsum(-0.5 * (y - p[0]) ** 2), -0.5 * (y - p[1]) ** 2
        return logsumexp(before + jnp.cumsum(after[::-1])[::-1] - after)

    return Case(Posterior(log_likelihood, normal_prior), series(), jnp.zeros(2))


@model
def hawkes_process_intervals():
    def log_likelihood(p, gaps):
        base, jump, decay = jnp.exp(p)

        def step(excess, gap):
            rate = base + excess
            return (excess + jump) * jnp.exp(-decay * gap), jnp.log(rate) - rate * gap

        return jnp.sum(jax.lax.scan(step, jnp.zeros((), p.dtype), gaps)[1])

    return Case(Posterior(log_likelihood, normal_prior), np.abs(normals(50, 8)) + 0.1, jnp.zeros(3))
