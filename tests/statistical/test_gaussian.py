"""With exact gradients every sampler recovers a correlated Gaussian: mean, covariance, and the law of the friction.

Each figure is an average over independent chains, so its standard error is the chains' spread over the root of their
number; figures must lie within five standard errors plus the discretisation's own bias, stated with each sampler.
"""

import jax.numpy as jnp
import numpy as np
import pytest

import isotherm

pytestmark = pytest.mark.slow

d, N, CHAINS = 3, 10, 40
RNG = np.random.default_rng(1)
PRECISION = np.array([[2.0, 0.8, 0.0], [0.8, 1.5, -0.5], [0.0, -0.5, 1.0]])  # eigenvalues 0.6 to 2.6
MEAN = np.array([1.0, -2.0, 0.5])

# N examples that share the log-density of N(MEAN, PRECISION⁻¹); θ is split over a pytree.
SHIFTS = RNG.standard_normal((N, d))
SHIFTS -= SHIFTS.mean(0)
DATA = (MEAN + SHIFTS).astype(np.float32)


def log_likelihood(params, x):
    r = x - jnp.concatenate([params["first"], params["rest"].reshape(-1)])
    return -0.5 / N * (r @ jnp.asarray(PRECISION, r.dtype) @ r)


POSTERIOR = isotherm.Posterior(log_likelihood, lambda params: 0.0 * jnp.sum(params["first"]))
INIT = {"first": np.zeros(1, np.float32), "rest": np.zeros((2, 1), np.float32)}
MASS = np.array([0.5, 2.0, 1.0])

# Relative bias of ⟨θθᵀ⟩: order h for the explicit samplers (hλ^(1/2) ≲ 0.05), order h² for the splittings;
# Euler–Maruyama widens by 1/(1 − ηλ/2), at most 2.6 %.
SAMPLERS = {
    "eccadl": (lambda **k: isotherm.eccadl(0.1, 1.0, **k), 0.01),
    "mccadl": (lambda **k: isotherm.mccadl(0.1, 1.0, **k), 0.01),
    "sgnht": (lambda **k: isotherm.sgnht(0.03, 1.0, **k), 0.04),
    "sgnht-symmetric": (lambda **k: isotherm.sgnht(0.1, 1.0, scheme="BADODAB", **k), 0.01),
    "ccadl": (lambda **k: isotherm.ccadl(0.03, 1.0, **k), 0.04),
    "sghmc": (lambda **k: isotherm.sghmc(0.03, 1.0, **k), 0.04),
    "sgld": (lambda **k: isotherm.sgld(0.02, **k), 0.04),
    "msgld": (lambda **k: isotherm.msgld(0.02, **k), 0.04),
}


def run(sampler, steps=6000):
    tree = isotherm.sample(
        POSTERIOR, sampler, DATA, INIT, batch_size=N, replace=False, steps=steps, chains=CHAINS, thin=10, burn_in=0.2,
        seed=3, progress=False,
    )  # fmt: skip
    first, rest = tree.posterior["first"].values, tree.posterior["rest"].values[..., 0]
    return tree, np.concatenate([first, rest], axis=-1).astype(np.float64)


def within(by_chain, truth, bias):
    """The chains' average against the truth, entry by entry."""
    error = by_chain.std(0, ddof=1) / np.sqrt(len(by_chain))
    assert (np.abs(by_chain.mean(0) - truth) <= 5 * error + bias).all(), (by_chain.mean(0), truth, error)
    assert (error < 0.08).all()  # or the test would not see much


@pytest.mark.parametrize("settings", [{}, {"temperature": 0.5, "mass": MASS}], ids=["plain", "cool-and-heavy"])
@pytest.mark.parametrize("name", SAMPLERS)
def test_mean_and_covariance(name, settings):
    build, bias = SAMPLERS[name]
    _, draws = run(build(**settings))
    covariance = settings.get("temperature", 1.0) * np.linalg.inv(PRECISION)
    within(draws.mean(1), MEAN, 0.01)
    centred = draws - MEAN
    second = np.einsum("cti,ctj->cij", centred, centred) / draws.shape[1]
    within(second, covariance, bias * np.abs(covariance).max())


@pytest.mark.parametrize("name", ["eccadl", "mccadl", "sgnht-symmetric"])
def test_friction_has_mean_A_and_variance_one_over_beta_mu(name):
    T, mu = 0.5, 2.0
    tree, _ = run(SAMPLERS[name][0](temperature=T, thermal_mass=mu), steps=12_000)
    xi = tree.sample_stats.friction.values.astype(np.float64)
    within(xi.mean(1), 1.0, 0.01)
    within(((xi - 1.0) ** 2).mean(1), T / mu, 0.01)
    within(tree.sample_stats.kinetic_temperature.values.mean(1), T, 0.01)
