"""Each letter's flow against its differential equation; words become moves, or are refused in words."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

from isotherm.dynamics import flows


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("xi", [2.0, 1e-3, 1e-12, 0.0, -1e-12, -0.5])
def test_ornstein_uhlenbeck_mean_and_variance(xi):
    """Against the moments' own equations: mean' = −ξ mean, var' = −2ξ var + 2A/β."""
    A, T, t = 3.0, 0.7, 0.4
    p, R = jnp.array([1.0, -2.0]), jnp.array([1.0, 1.0])
    mean = flows.ornstein_uhlenbeck(p, 0 * R, xi, A, T, t)
    np.testing.assert_allclose(mean, np.exp(-xi * t) * p, rtol=1e-14)
    variance = (flows.ornstein_uhlenbeck(0 * p, R, xi, A, T, t)) ** 2
    s = np.linspace(0, t, 200_001)
    by_quadrature = 2 * A * T * np.trapezoid(np.exp(-2 * xi * s), s)
    np.testing.assert_allclose(variance, by_quadrature, rtol=1e-9)


@pytest.mark.parametrize("xi", [1e-30, -1e-30, 0.0, 1e-6, -1e-6, 40.0])
def test_ornstein_uhlenbeck_in_float32_near_no_friction(xi):
    found = flows.ornstein_uhlenbeck(jnp.zeros(1), jnp.ones(1), jnp.float32(xi), 1.0, 1.0, jnp.float32(0.5))
    expected = np.sqrt(1.0 if abs(xi) < 1e-3 else -np.expm1(-2 * xi * 0.5) / xi)
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_the_other_letters():
    p, theta = jnp.array([1.0, 2.0]), jnp.array([0.5, -0.5])
    np.testing.assert_allclose(flows.drift(theta, p, 2.0, 0.1), [0.7, -0.1], rtol=1e-6)
    np.testing.assert_allclose(flows.kick(p, theta, 2.0), [2.0, 1.0], rtol=1e-6)
    np.testing.assert_allclose(flows.thermostat(jnp.float32(1.0), p, 0.5, 4.0, 0.1), 1 + 0.1 / 4 * (5 - 1), rtol=1e-6)


@pytest.mark.parametrize("x", [0.0, 1e-38, 1e-8, 1.0, 50.0, -1.0])
def test_decay_average(x):
    expected = 1.0 if x == 0 else -np.expm1(-np.float64(x)) / x
    np.testing.assert_allclose(flows.decay_average(jnp.float32(x)), expected, rtol=3e-7)
    assert np.isfinite(jax.grad(flows.decay_average)(jnp.float32(x)))


@pytest.mark.usefixtures("float64")
def test_joint_flow_solves_its_equations():
    """Against a numerical solution of dθ = M⁻¹p, dp = −(h/2)βSM⁻¹p, dξ = (p·M⁻¹p − d/β)/μ, for random S, M, β, μ."""
    rng = np.random.default_rng(0)
    for _ in range(5):
        d, h, T, mu, t = 4, rng.uniform(0.1, 2), rng.uniform(0.5, 2), rng.uniform(1, 9), rng.uniform(0.1, 2)
        G = rng.standard_normal((d, d))
        S, m = G @ G.T, np.exp(rng.standard_normal(d))
        theta, p, xi = rng.standard_normal(d), rng.standard_normal(d), 0.3

        def equations(_, y, S=S, m=m, h=h, T=T, mu=mu, d=d):
            v = y[d:-1] / m
            return np.concatenate([v, -h / 2 / T * S @ v, [(y[d:-1] @ v - d * T) / mu]])

        solved = solve_ivp(equations, (0, t), [*theta, *p, xi], method="DOP853", rtol=1e-13, atol=1e-13).y[:, -1]
        found = joint_step(theta, p, xi, S, m, h, T, mu, t)
        np.testing.assert_allclose(np.concatenate([*found[:2], found[2:]]), solved, rtol=1e-10, atol=1e-10)
        half = joint_step(*joint_step(theta, p, xi, S, m, h, T, mu, t / 2), S, m, h, T, mu, t / 2)
        for one, two in zip(found, half, strict=True):
            np.testing.assert_allclose(one, two, rtol=1e-12, atol=1e-12)


def joint_step(theta, p, xi, S, m, h, T, mu, t):
    """E as the sampler makes it: whitened by the mass, in the eigenbasis of the whitened S."""
    w = jnp.asarray(m) ** -0.5
    values, vectors = jnp.linalg.eigh(w[:, None] * S * w[None])
    white = w * p
    path = flows.joint(vectors.T @ white, t * h / (2 * T) * values)
    position = flows.drift(jnp.asarray(theta), vectors @ path.moved, w, t)
    return position, vectors @ path.momentum / w, xi + t / mu * (path.energy - len(p) * T)


@pytest.mark.parametrize(
    ("word", "letters", "expected"),
    [
        ("BAODCDOAB", "ABCDO", "B1 A.5 O.5 D.5 C1 D.5 O.5 A.5"),
        ("BADODAB", "ABDO", "B1 A.5 D.5 O1 D.5 A.5"),
        ("BACODOCAB", "ABCDO", "B1 A.5 C.5 O.5 D1 O.5 C.5 A.5"),
        ("ADOBODA", "ABDO", "B1 O.5 D.5 A1 D.5 O.5"),
        ("AOBDBOA", "ABDO", "B.5 D1 B.5 O.5 A1 O.5"),
        ("OABD", "ABDO", "B1 D1 O1 A1"),
    ],
)
def test_moves(word, letters, expected):
    wanted = tuple((move[0], float(move[1:])) for move in expected.split())
    assert flows.moves(word, letters) == wanted


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("BAXODAB", "scheme 'BAXODAB' has the unknown letter 'X'; this sampler knows ABDO"),
        ("BAOAB", "scheme 'BAOAB' lacks the letter 'D'; this sampler needs each of ABDO"),
        ("ABADOB", "scheme 'ABADOB' needs two force evaluations a step: the position moves between its B's"),
        ("", "scheme '' lacks the letter 'A'"),
    ],
)
def test_what_cannot_be_a_step_is_refused(word, message):
    with pytest.raises(ValueError, match=message):
        flows.moves(word, "ABDO")


def test_not_a_word():
    with pytest.raises(TypeError, match="scheme must be a word such as 'BAODCDOAB', got 3"):
        flows.moves(3, "ABDO")


def test_run_gives_each_letter_its_share():
    moves = flows.moves("BADODAB", "ABDO")
    letters = {letter: (lambda s, t, letter=letter: [*s, (letter, t)]) for letter in "ABDO"}
    assert flows.run(moves, letters, [], 2.0) == [(letter, 2.0 * share) for letter, share in moves]
