"""Each sampler's θ sequence equals a literal NumPy transcription of its algorithm, fed the same random numbers.

Tolerance: 1e-9 relative over 200 steps in double precision; the arithmetic is the same but for its order, and an error
of 1e-16 a step would have to grow by 1e7 to reach it.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.linalg import expm
from scipy.special import expit

import isotherm
from isotherm.dynamics.pace import balanced, kinetic_energy
from isotherm.targets.noisy import estimate
from isotherm.targets.target import as_target

N, n, d, STEPS = 60, 12, 5, 200
rng = np.random.default_rng(7)
X = rng.standard_normal((N, d))
Y = np.sign(rng.standard_normal(N))
THETA0 = 0.3 * rng.standard_normal(d)
ROWS = rng.integers(0, N, (STEPS + 1, n))
OWN_ROWS = np.random.default_rng(9).integers(0, N, n)
MASS = np.exp(rng.standard_normal(d) / 2)


def log_likelihood(theta, example):
    return jax.nn.log_sigmoid(example["y"] * (example["x"] @ theta))


def log_prior(theta):
    return -0.5 * jnp.sum(theta**2)


POSTERIOR = isotherm.Posterior(log_likelihood, log_prior)


def ours(sampler):
    """θ after each step, and the momentum and random numbers it began with. A batch of its own is OWN_ROWS."""
    data = {"x": jnp.asarray(X), "y": jnp.asarray(Y)}

    def noisy(theta, rows):
        found = estimate(as_target(POSTERIOR), theta, jax.tree.map(lambda a: a[rows], data), population=N)
        return dataclasses.replace(found, _on=lambda name, theta: noisy(theta, OWN_ROWS))

    keys = jax.random.split(jax.random.key(3), STEPS + 1)
    theta = jnp.asarray(THETA0)
    state = sampler.init(keys[0], theta, noisy(theta, ROWS[0]))

    def step(state, inputs):
        key, rows = inputs
        state = sampler.step(key, state, noisy(state.position, rows))
        return state, state.position

    _, positions = jax.lax.scan(step, state, (keys[1:], jnp.asarray(ROWS[:-1])))
    return np.asarray(positions), state, keys[1:]


def normals(keys, rows):
    return np.stack([np.asarray(jax.random.normal(key, (rows, d), jnp.float64)) for key in keys])


def gradients(theta, rows):
    """∇ log π(x_i | θ) for the rows of a batch."""
    x, y = X[rows], Y[rows]
    return (y * expit(-y * (x @ theta)))[:, None] * x


def force(theta, rows):
    return N / n * gradients(theta, rows).sum(0) - theta


def covariance(theta, rows):
    return N**2 / n * np.cov(gradients(theta, rows).T, ddof=1)


def assert_same(found, expected, within=1e-9):
    scale = np.abs(expected).max()
    assert np.isfinite(scale)
    assert np.ptp(expected, axis=0).min() > 1e-3  # it moved
    assert np.abs(found - expected).max() <= within * scale


GENERAL = {"temperature": 0.7, "thermal_mass": 3.0, "mass": MASS}
UNIT = pytest.param({}, marks=pytest.mark.slow)  # where all that GENERAL scales is 1
DENSE, TAYLOR, LANCZOS = {"expm": "dense"}, {"expm": "taylor"}, {"expm": "lanczos", "rank": d}
PAIRS = [
    ("force", DENSE),
    ("force", LANCZOS),
    ("own", TAYLOR),
    *(pytest.param(*pair, marks=pytest.mark.slow) for pair in [("force", TAYLOR), ("own", DENSE), ("own", LANCZOS)]),
]


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("settings", [UNIT, GENERAL], ids=["unit", "general"])
@pytest.mark.parametrize(("batch", "how"), PAIRS, ids=str)
def test_mccadl_is_algorithm_1(settings, how, batch):
    h, A = 0.15, 2.0
    found, state, keys = ours(isotherm.mccadl(h, A, covariance_batch=batch, **settings, **how))
    beta, mu = 1 / settings.get("temperature", 1.0), settings.get("thermal_mass", d)
    m = settings.get("mass", np.ones(d))
    R = normals(keys, 2)

    theta, xi = THETA0, A
    # The algorithm's p₀ is a half kick behind ours, which starts where the force is evaluated.
    p = np.sqrt(m) * np.asarray(state.momentum) + h / 2 * force(theta, ROWS[0])
    expected = []
    for t in range(STEPS):
        sigma = covariance(theta, ROWS[t])
        p = p + h / 2 * force(theta, ROWS[t])
        theta = theta + h / 2 * p / m
        p = np.exp(-xi * h / 2) * p + np.sqrt(A / beta * (1 - np.exp(-xi * h)) / xi) * np.sqrt(m) * R[t, 0]
        xi = xi + h / 2 / mu * (p @ (p / m) - d / beta)
        sigma = sigma if batch == "force" else covariance(theta, OWN_ROWS)
        p = expm(-h * h / 2 * beta * sigma @ np.diag(1 / m)) @ p
        xi = xi + h / 2 / mu * (p @ (p / m) - d / beta)
        p = np.exp(-xi * h / 2) * p + np.sqrt(A / beta * (1 - np.exp(-xi * h)) / xi) * np.sqrt(m) * R[t, 1]
        theta = theta + h / 2 * p / m
        p = p + h / 2 * force(theta, ROWS[t + 1])
        expected.append(theta)
    assert_same(found, np.stack(expected))


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("settings", [UNIT, GENERAL], ids=["unit", "general"])
@pytest.mark.parametrize("average", ["none", "dense", "diagonal"])
def test_sgnht_and_ccadl(settings, average):
    """CCAdL is SGNHT with −(h²/2)β Ŝ M⁻¹p in the kick."""
    h, A = 0.05, 2.0
    none = average == "none"
    sampler = isotherm.sgnht(h, A, **settings) if none else isotherm.ccadl(h, A, covariance=average, **settings)
    found, state, keys = ours(sampler)
    beta, mu = 1 / settings.get("temperature", 1.0), settings.get("thermal_mass", d)
    m = settings.get("mass", np.ones(d))
    R = normals(keys, 1)[:, 0]

    theta, xi, p = THETA0, A, np.sqrt(m) * np.asarray(state.momentum)
    S = np.zeros((d, d))
    expected = []
    for t in range(STEPS):
        V = covariance(theta, ROWS[t])
        S = (1 - 1 / (t + 1)) * S + (np.diag(np.diag(V)) if average == "diagonal" else V) / (t + 1)
        damping = 0 if none else h**2 / 2 * beta * S @ (p / m)
        p = p + h * force(theta, ROWS[t]) - h * xi * p - damping + np.sqrt(2 * h * A / beta) * np.sqrt(m) * R[t]
        theta = theta + h * p / m
        xi = xi + h / mu * (p @ (p / m) - d / beta)
        expected.append(theta)
    assert_same(found, np.stack(expected))


@pytest.mark.usefixtures("float64")
def test_sgnht_in_the_symmetric_splitting():
    h, A, T, mu = 0.1, 2.0, 0.7, 3.0
    found, state, keys = ours(isotherm.sgnht(h, A, scheme="BADODAB", **GENERAL))
    R = normals(keys, 1)[:, 0]
    theta, xi = THETA0, A
    p = np.sqrt(MASS) * np.asarray(state.momentum) + h / 2 * force(theta, ROWS[0])
    expected = []
    for t in range(STEPS):
        p = p + h / 2 * force(theta, ROWS[t])
        theta = theta + h / 2 * p / MASS
        xi = xi + h / 2 / mu * (p @ (p / MASS) - d * T)
        p = np.exp(-xi * h) * p + np.sqrt(A * T * (1 - np.exp(-2 * xi * h)) / xi) * np.sqrt(MASS) * R[t]
        xi = xi + h / 2 / mu * (p @ (p / MASS) - d * T)
        theta = theta + h / 2 * p / MASS
        p = p + h / 2 * force(theta, ROWS[t + 1])
        expected.append(theta)
    assert_same(found, np.stack(expected))


def hessian(theta, rows):
    x, y = X[rows], Y[rows]
    weights = expit(y * (x @ theta)) * expit(-y * (x @ theta))
    return N / n * (weights[:, None] * x).T @ x + np.eye(d)


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize(
    ("settings", "h", "start"),
    [
        (GENERAL, 1.0, THETA0),
        ({}, 1.0, 30 + THETA0),
        pytest.param({}, 0.15, THETA0, marks=pytest.mark.slow),
        pytest.param(GENERAL, 0.15, 30 + THETA0, marks=pytest.mark.slow),
    ],
    ids=["general", "far", "unit", "far, general"],
)
def test_eccadl(settings, h, start):
    """BEOEB with a full kick where the force is evaluated; Ŝ and K̂ from batches of their own. At first h is bounded;
    from far away the friction is smaller, ξ stays, and S is averaged over 4 renewals, until the chain is home."""
    A, window, every = 2.0, 6.0, 7
    sampler = isotherm.eccadl(h, A, window=window, every=every, **settings)
    data = {"x": jnp.asarray(X), "y": jnp.asarray(Y)}
    renewal_rows = np.random.default_rng(8).integers(0, N, (STEPS, n))
    keys = jax.random.split(jax.random.key(3), STEPS + 1)

    def noisy(theta, rows):
        return estimate(as_target(POSTERIOR), theta, jax.tree.map(lambda a: a[rows], data), population=N)

    @jax.jit
    def one(key, state, rows, own_rows):
        state = sampler.renew(key, state, noisy(state.position, own_rows), state.step)
        return sampler.step(key, state, noisy(state.position, rows))

    theta = jnp.asarray(start)
    begun = state = sampler.init(keys[0], theta, noisy(theta, ROWS[0]))
    found = []
    for t in range(STEPS):
        state = one(keys[t + 1], state, ROWS[t], renewal_rows[t])
        found.append(np.asarray(state.position))

    T, given = settings.get("temperature", 1.0), settings.get("thermal_mass")
    w = 1 / np.sqrt(settings.get("mass", np.ones(d)))
    R = normals(keys[1:], 1)[:, 0]
    theta, p, xi = start, np.asarray(begun.momentum), A

    def here(rows):
        return w[:, None] * covariance(theta, rows) * w, w[:, None] * hessian(theta, rows) * w

    def strongest():
        """By 32 steps of the power method."""
        v = np.cos(1 + np.arange(d) ** 2.0)
        for _ in range(32):
            v = K @ v / np.linalg.norm(K @ v)
        return np.linalg.norm(K @ v)

    def distance(rows, t):
        """The mean squares of F, less its noise, and of p, in their own standard deviations at home; 1 unless that is
        too much. At first K may be that of a right model."""
        at_home = T * np.maximum(np.diag(V.T @ K @ V), 1e-6 * strongest())
        squares, energy = (V.T @ (w * force(theta, rows))) ** 2, np.mean(p**2) / T - 1
        mean = energy + np.mean((squares - values) / at_home)
        chance = 4 * np.sqrt(2 / d * np.mean((1 + values / at_home) ** 2))
        careful = energy + np.mean(squares / np.maximum(at_home, T * n / N * values))
        return np.clip(min(mean / 4, 2 ** (t / 25) * careful), 1, N) if mean > max(1 + chance, 10) else 1.0

    S, K, renewals, far = np.zeros((d, d)), np.eye(d), 0, 1.0  # the first renewal counts alone
    concentration, left_out, ratio, expected = 1.0, 0.0, 0.0, []
    for t in range(STEPS):
        if t & (t - 1) == 0 or t % max(every, 2 ** int(np.log2(t)) // 16) == 0:
            new_S, new_K = here(renewal_rows[t])
            if t > 0:
                ratio = np.mean(np.diag(V.T @ new_S @ V) / np.linalg.eigvalsh(S))
            chance = 4 * np.sqrt(2 * d / n) / d
            stale = ratio < 0.5 - chance
            renewals = 1 if stale else min(renewals, 1) + 1 if far > 1 else renewals + 1
            kappa = max(2 / (renewals + 1), 1 / (min(4, window) if far > 1 else window))
            found_now = 0 if stale else max(1 - 1 / max(ratio, 0.5), -chance) / concentration
            left_out = (1 - kappa) * left_out + kappa * found_now
            concentration = (1 - kappa) ** 2 * concentration + kappa**2
            S = (1 - kappa) * S + kappa * new_S
            K = new_K if t == 0 else (K + new_K) / 2
            values, V = np.linalg.eigh(S)
            values = values / (1 - min(max(left_out, d / n) * concentration, 0.5))
            far = distance(renewal_rows[t], t) if far > 1 or t == 0 else far
            size = min(h, 2 ** (t / 25) * np.sqrt(0.25 / max(strongest(), n / N * np.linalg.eigvalsh(S)[-1])))
            loss, curvatures = 1 - np.exp(-size * A), np.diag(V.T @ K @ V)
            x, kappas = jnp.asarray(size**2 / (2 * T * far) * values), jnp.asarray(size**2 * curvatures)
            y = np.asarray(balanced(x, kappas, loss))
            y = np.maximum(y, size * np.sqrt(np.maximum(curvatures, n / N * values))) if far > 1 else y
        assert t > 0 or start is THETA0 or far > 1
        xi = A if t & (t - 1) == 0 else xi
        p = V.T @ (p + size * w * force(theta, ROWS[t]))
        moved = (1 - np.exp(-y / 2)) / y * p
        energy = np.sum(p**2 * (1 - np.exp(-y)) / y) / 2
        p = np.exp(-y / 2) * p
        p = np.exp(-xi * size) * p + np.sqrt(A * T * (1 - np.exp(-2 * xi * size)) / xi) * (V.T @ R[t])
        moved = moved + (1 - np.exp(-y / 2)) / y * p
        energy = energy + np.sum(p**2 * (1 - np.exp(-y)) / y) / 2
        theta, p = theta + w * (V @ (size * moved)), V @ (np.exp(-y / 2) * p)
        if far == 1:
            mu = max(d, 250 * size**2 * T) if given is None else given
            xi = xi + size / mu * (energy - T * np.sum(kinetic_energy(jnp.asarray(y), loss)))
        expected.append(theta)
    assert far == 1
    assert_same(np.stack(found), np.stack(expected), 1e-9 if start is THETA0 else 1e-7)  # 100 times as far to go


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("estimate", [0.0, 1.5])
@pytest.mark.parametrize(
    ("T", "m"), [pytest.param(1.0, np.ones(d), marks=pytest.mark.slow), (0.7, MASS)], ids=["unit", "general"]
)
def test_sghmc(estimate, T, m):
    h, A = 0.1, 2.0
    found, state, keys = ours(isotherm.sghmc(h, A, temperature=T, mass=m, noise_estimate=estimate))
    R = normals(keys, 1)[:, 0]
    theta, p = THETA0, np.sqrt(m) * np.asarray(state.momentum)
    expected = []
    for t in range(STEPS):
        p = p + h * force(theta, ROWS[t]) - h * A * p + np.sqrt(2 * h * (A - estimate) * T) * np.sqrt(m) * R[t]
        theta = theta + h * p / m
        expected.append(theta)
    assert_same(found, np.stack(expected))


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("modified", [False, True])
@pytest.mark.parametrize(
    ("T", "m"), [pytest.param(1.0, np.ones(d), marks=pytest.mark.slow), (0.7, MASS)], ids=["unit", "general"]
)
def test_sgld_and_msgld(modified, T, m):
    """Also a step size that decreases with the step index."""

    def schedule(step):
        return 0.01 * (1.0 + jnp.asarray(step, float)) ** -0.3

    build = isotherm.msgld if modified else isotherm.sgld
    found, _, keys = ours(build(schedule, temperature=T, mass=m))
    R = normals(keys, 1)[:, 0]
    theta = THETA0
    expected = []
    for t in range(STEPS):
        eta = float(schedule(t))
        W = np.diag(1 / np.sqrt(m))
        C = np.eye(d) - eta / T / 4 * W @ covariance(theta, ROWS[t]) @ W if modified else np.eye(d)
        theta = theta + eta * force(theta, ROWS[t]) / m + np.sqrt(2 * eta * T) * W @ C @ R[t]
        expected.append(theta)
    assert_same(found, np.stack(expected))
