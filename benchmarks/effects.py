"""Models with effects: `isotherm.fit` against NUTS on the same density, not centred, and what each takes.

    .venv/bin/python benchmarks/effects.py [MODEL ...]

For each model: means in Monte Carlo standard errors (root mean square, 1 if both are right), standard deviations over
NUTS's (median, and the 0.5 % and 99.5 % points), quantiles of the scales, and seconds.
"""

import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from scipy import stats

import isotherm
from isotherm import Effect, Posterior
from isotherm.diagnostics.convergence import convergence
from isotherm.targets.effects import groups_of
from isotherm.targets.parameters import named_entries
from isotherm.targets.user import with_defaults

RNG = np.random.default_rng(0)


def bernoulli(y, eta):
    return y * eta - jnp.logaddexp(0.0, eta)


def normal(rest, log_sd):
    return -log_sd - 0.5 * (rest / jnp.exp(log_sd)) ** 2


def weak(p):
    return -0.5 * sum(jnp.sum((value / 3) ** 2) for name, value in p.items() if not name.startswith("sd_"))


def gaussian_crossed():
    n, J, K = 20_000, 3_000, 1_000
    s, t, x = RNG.integers(0, J, n), RNG.integers(0, K, n), RNG.standard_normal(n)
    y = 1 + 0.5 * x + RNG.normal(0, 0.5, J)[s] + RNG.normal(0, 0.3, K)[t] + RNG.standard_normal(n)
    return (
        Posterior(
            lambda p, r: normal(r["y"] - p["a"] - p["b"] * r["x"] - p["s"] - p["t"], p["ls"]),
            weak,
            effects={"s": Effect("s"), "t": Effect("t")},
        ),
        {"y": y, "x": x, "s": s, "t": t},
        {"a": 0.0, "b": 0.0, "ls": 0.0},
    )


def logistic_crossed():
    J, K = 400, 100
    s = np.repeat(np.arange(J), 1 + RNG.poisson(4, J))
    n = len(s)
    t, x = RNG.integers(0, K, n), RNG.standard_normal(n)
    eta = 0.2 + 0.7 * x + RNG.normal(0, 0.8, J)[s] + RNG.normal(0, 0.5, K)[t]
    y = (RNG.random(n) < 1 / (1 + np.exp(-eta))).astype(float)
    return (
        Posterior(
            lambda p, r: bernoulli(r["y"], p["a"] + p["b"] * r["x"] + p["s"] + p["t"]),
            weak,
            effects={"s": Effect("s"), "t": Effect("t")},
        ),
        {"y": y, "x": x, "s": s, "t": t},
        {"a": 0.0, "b": 0.0},
    )


def nested():
    n = 6_000
    a, b, c = RNG.integers(0, 12, n), RNG.integers(0, 8, n), RNG.integers(0, 6, n)
    u, v, w = RNG.normal(0, 0.6, 12), RNG.normal(0, 0.4, (12, 8)), RNG.normal(0, 0.3, (12, 8, 6))
    y = (RNG.random(n) < 1 / (1 + np.exp(-(-0.3 + u[a] + v[a, b] + w[a, b, c])))).astype(float)
    return (
        Posterior(
            lambda p, r: bernoulli(r["y"], p["m"] + p["region"] + p["school"] + p["room"]),
            weak,
            effects={"region": Effect("a"), "school": Effect("a:b"), "room": Effect("a:b:c")},
        ),
        {"y": y, "a": a, "b": b, "c": c},
        {"m": 0.0},
    )


def slopes():
    n, J = 4_000, 150
    g, x = RNG.integers(0, J, n), RNG.standard_normal(n)
    u = RNG.multivariate_normal([0, 0], [[0.36, -0.12], [-0.12, 0.16]], J)
    y = 0.5 + 0.3 * x + u[g, 0] + u[g, 1] * x + 0.8 * RNG.standard_normal(n)
    return (
        Posterior(
            lambda p, r: normal(r["y"] - p["a"] - p["b"] * r["x"] - p["g"][0] - p["g"][1] * r["x"], p["ls"]),
            weak,
            effects={"g": Effect("g", size=2, correlated=True)},
        ),
        {"y": y, "x": x, "g": g},
        {"a": 0.0, "b": 0.0, "ls": 0.0},
    )


def poisson():
    n, J = 3_000, 200
    g, x, exposure = RNG.integers(0, J, n), RNG.standard_normal(n), RNG.uniform(0.5, 3, n)
    y = RNG.poisson(exposure * np.exp(0.2 + 0.3 * x + RNG.normal(0, 0.4, J)[g])).astype(float)

    def log_likelihood(p, r):
        eta = jnp.log(r["exposure"]) + p["a"] + p["b"] * r["x"] + p["g"]
        return r["y"] * eta - jnp.exp(eta)

    return (
        Posterior(log_likelihood, weak, effects={"g": Effect("g")}),
        {"y": y, "x": x, "g": g, "exposure": exposure},
        {"a": 0.0, "b": 0.0},
    )


def ordinal():
    n, J = 3_000, 120
    g, x = RNG.integers(0, J, n), RNG.standard_normal(n)
    latent = 0.8 * x + RNG.normal(0, 0.7, J)[g] + RNG.logistic(size=n)
    y = np.digitize(latent, [-1, 0.5, 2])

    def log_likelihood(p, r):
        cuts = p["first"] + jnp.concatenate([jnp.zeros(1), jnp.cumsum(jnp.exp(p["log_gaps"]))])
        eta = p["b"] * r["x"] + p["g"]
        below = jax.nn.sigmoid(jnp.concatenate([cuts - eta, jnp.full(1, jnp.inf)]))
        above = jnp.concatenate([jnp.zeros(1), below[:-1]])
        return jnp.log((below - above)[r["y"]] + 1e-12)

    return (
        Posterior(log_likelihood, weak, effects={"g": Effect("g")}),
        {"y": y, "x": x, "g": g},
        {"first": 0.0, "log_gaps": np.zeros(2), "b": 0.0},
    )


def bradley_terry():
    n, J = 2_000, 60
    i, j = RNG.integers(0, J, n), RNG.integers(0, J - 1, n)
    j += j >= i
    strength = RNG.normal(0, 1, J)
    y = (RNG.random(n) < 1 / (1 + np.exp(-(0.3 + strength[i] - strength[j])))).astype(float)
    return (
        Posterior(
            lambda p, r: bernoulli(r["y"], p["home"] + p["team"][0] - p["team"][1]),
            weak,
            effects={"team": Effect(("i", "j"))},
        ),
        {"y": y, "i": i, "j": j},
        {"home": 0.0},
    )


def negative_binomial():
    n, J = 3_000, 150
    g, x, shape = RNG.integers(0, J, n), RNG.standard_normal(n), 2.0
    mean = np.exp(1 + 0.4 * x + RNG.normal(0, 0.5, J)[g])
    y = RNG.negative_binomial(shape, shape / (shape + mean)).astype(float)

    def log_likelihood(p, r):
        eta, k = p["a"] + p["b"] * r["x"] + p["g"], jnp.exp(p["log_shape"])
        gamma = jax.scipy.special.gammaln
        known = gamma(r["y"] + k) - gamma(k)
        return (
            known
            + k * (p["log_shape"] - jnp.logaddexp(p["log_shape"], eta))
            + r["y"] * (eta - jnp.logaddexp(p["log_shape"], eta))
        )

    return (
        Posterior(log_likelihood, weak, effects={"g": Effect("g")}),
        {"y": y, "x": x, "g": g},
        {"a": 0.0, "b": 0.0, "log_shape": 0.0},
    )


def eight_schools():
    y, sd = np.array([28.0, 8, -3, 7, -1, 1, 18, 12]), np.array([15.0, 10, 16, 11, 9, 11, 10, 18])
    return (
        Posterior(
            lambda p, r: -0.5 * ((r["y"] - p["mu"] - p["school"]) / r["sd"]) ** 2,
            lambda p: -0.5 * (p["mu"] / 10) ** 2,
            effects={"school": Effect("school", scale_prior=10.0)},
        ),
        {"y": y, "sd": sd, "school": np.arange(8)},
        {"mu": 0.0},
    )


def groups(n):
    g, x = RNG.integers(0, 50, n), RNG.standard_normal(n)
    y = 1 + 0.5 * x + RNG.normal(0, 0.3, 50)[g] + RNG.standard_normal(n)
    return (
        Posterior(
            lambda p, r: normal(r["y"] - p["a"] - p["b"] * r["x"] - p["g"], p["ls"]),
            weak,
            effects={"g": Effect("g")},
        ),
        {"y": y, "x": x, "g": g},
        {"a": 0.0, "b": 0.0, "ls": 0.0},
    )


MODELS = {
    "eight schools": eight_schools,
    "50 groups, 600 rows": lambda: groups(600),
    "50 groups, 2,000 rows": lambda: groups(2_000),
    "Bradley–Terry": bradley_terry,
    "random slopes": slopes,
    "Poisson with an offset": poisson,
    "negative binomial": negative_binomial,
    "ordinal": ordinal,
    "logistic, crossed": logistic_crossed,
    "nested three deep": nested,
    "Gaussian, crossed": gaussian_crossed,
}


def nuts(posterior, data, init, draws=1_500, chains=4):
    """Return draws of the user's parameters by (chain, draw, entry), with levels over their scales sampled."""
    from numpyro.infer import MCMC, NUTS

    target, columns, start = with_defaults(posterior, data, init)
    columns = jax.tree.map(jnp.asarray, columns)
    found = groups_of(target)

    def centred(params):
        levels, size = {}, 0.0
        for group in found:
            root = group.root(params)
            v = jnp.reshape(params[group.name], (group.count, group.size))
            levels[group.name] = jnp.reshape(v @ root.T, (group.count, *group.shape))
            size += group.count * jnp.sum(jnp.log(jnp.diagonal(root)))
        return params | levels, size

    def potential(params):
        inner, size = centred(params)
        each = jax.vmap(target.log_likelihood, (None, 0))(inner, columns)
        return -(target.log_prior(inner) + jnp.sum(each) + size)

    start = jax.tree.map(lambda leaf: jnp.asarray(leaf, float), start)
    mcmc = MCMC(
        NUTS(potential_fn=potential, target_accept_prob=0.9),
        num_warmup=1_000,
        num_samples=draws,
        num_chains=chains,
        chain_method="vectorized",
        progress_bar=False,
    )
    rng = np.random.default_rng(1)
    starts = jax.tree.map(lambda leaf: leaf[None] + 0.1 * rng.standard_normal((chains, *leaf.shape)), start)
    mcmc.run(jax.random.key(0), init_params=starts)
    samples = mcmc.get_samples(group_by_chain=True)
    inner = jax.vmap(jax.vmap(lambda p: ravel_pytree(centred(p)[0])[0]))(samples)
    return np.asarray(inner)


def draws_of(tree, init):
    sampled = tree["unconstrained_posterior"].to_dataset()
    parts = [sampled[name].values for name in sorted(init)]
    return np.concatenate([part.reshape(*part.shape[:2], -1) for part in parts], axis=2)


def compare(name):
    posterior, data, init = MODELS[name]()
    data = {key: value.astype(np.float32) if value.dtype == np.float64 else value for key, value in data.items()}
    init = {key: np.float32(value) for key, value in init.items()}
    _, _, start = with_defaults(posterior, data, init)
    began = time.perf_counter()
    tree = isotherm.fit(posterior, data, init, ess=2_000, progress=False)
    ours_seconds = time.perf_counter() - began
    ours = draws_of(tree, start)
    began = time.perf_counter()
    theirs = nuts(posterior, data, init)
    nuts_seconds = time.perf_counter() - began
    a, b = convergence(ours), convergence(theirs)
    sd = theirs.std(axis=(0, 1))
    z = (ours.mean(axis=(0, 1)) - theirs.mean(axis=(0, 1))) / (sd * np.sqrt(1 / a.least_ess + 1 / b.least_ess))
    ratios = ours.std(axis=(0, 1)) / sd
    spread = np.quantile(ratios, [0.005, 0.5, 0.995])
    scales = [i for i, entry in enumerate(named_entries(start)[0]) if entry.startswith(("log_sd_", "corr_"))]
    worst = max((quantile_error(ours[..., i], theirs[..., i]) for i in scales), default=0)
    steps, kept = tree.attrs["steps"], ours.shape[0] * ours.shape[1]
    words = [
        f"{name:24s} d {ours.shape[2]:5d}  {tree.attrs['fit_method']:16s}",
        f"means {np.sqrt(np.mean(z**2)):5.2f} (worst {np.abs(z).max():4.1f})",
        f"sd {spread[1]:.3f} [{spread[0]:.3f}, {spread[2]:.3f}]",
        f"quantiles of scales off by {worst:.2f} sd",
        f"ess/draw {a.least_ess.min() / kept:.2f} (median {np.median(a.least_ess) / kept:.2f})",
        f"steps {steps:,}",
        f"{ours_seconds:.0f} s; NUTS {nuts_seconds:.0f} s, ess {b.least_ess.min():.0f}, R-hat {b.r_hat.max():.3f}",
        tree.attrs.get("warnings", ""),
    ]
    print("  ".join(words), flush=True)


def quantile_error(ours, theirs):
    """Return how far five quantiles are off at most, in standard deviations of a normal one."""
    levels = np.array([0.05, 0.25, 0.5, 0.75, 0.95])
    shares = [np.mean(theirs < q) for q in np.quantile(ours, levels)]
    return np.abs(stats.norm.ppf(np.clip(shares, 1e-4, 1 - 1e-4)) - stats.norm.ppf(levels)).max()


if __name__ == "__main__":
    for chosen in sys.argv[1:] or MODELS:
        compare(chosen)
