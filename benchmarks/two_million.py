"""The public benchmark of 2,100,042 parameters: a logistic hierarchy of 100,000 groups of 21 effects and 10 rows.

    .venv/bin/python benchmarks/two_million.py [SEED GROUPS] ...

Seed 827 with 100,000 groups unless given. Recovery is judged over several seeds: 828 to 833 with 20,000 groups.
"""

import resource
import sys
import time

import jax.numpy as jnp
import numpy as np

import isotherm
from isotherm import Effect, Posterior
from isotherm.diagnostics.convergence import convergence

K = 20


def simulate(seed, groups):
    """Return the data and the truth, in the order of the published generator."""
    rng = np.random.default_rng(seed)
    n = 10 * groups
    group = rng.integers(0, groups, n)
    X = rng.normal(size=(n, K)).astype(np.float32)
    beta = rng.normal(0, 0.45, K).astype(np.float32)
    sd_intercept, sd_slopes = 0.8, rng.uniform(0.15, 0.35, K).astype(np.float32)
    intercepts = rng.normal(0, sd_intercept, groups).astype(np.float32)
    slopes = rng.normal(0, sd_slopes, (groups, K)).astype(np.float32)
    eta = -1.0 + intercepts[group] + np.sum(X * (beta + slopes[group]), axis=1)
    y = rng.binomial(1, 1 / (1 + np.exp(-eta))).astype(np.float32)
    truth = {"alpha": -1.0, "beta": beta, "sd_intercept": sd_intercept, "sd_slope": sd_slopes}
    return {"y": y, "X": X, "group": group.astype(np.int32)}, truth, (intercepts, slopes)


def log_likelihood(p, row):
    eta = p["alpha"] + p["intercept"] + row["X"] @ (p["beta"] + p["slope"])
    return row["y"] * eta - jnp.logaddexp(0.0, eta)


MODEL = Posterior(
    log_likelihood,
    lambda p: -0.5 * (p["alpha"] / 1.5) ** 2 - 0.5 * jnp.sum(p["beta"] ** 2),
    effects={
        "intercept": Effect("group", scale_prior=1.0),
        "slope": Effect("group", size=K, scale_prior=0.5),
    },
)


def run(seed, groups):
    data, truth, (intercepts, slopes) = simulate(seed, groups)
    began = time.perf_counter()
    tree = isotherm.fit(MODEL, data, {"alpha": 0.0, "beta": np.zeros(K, np.float32)}, progress=False)
    seconds = time.perf_counter() - began
    draws = tree["posterior"]
    parts = [draws[name].values.reshape(*draws[name].shape[:2], -1) for name in truth]
    found = np.concatenate(parts, axis=2)
    true = np.concatenate([np.ravel(value) for value in truth.values()])
    z = (found.mean((0, 1)) - true) / found.std((0, 1))
    of_globals, steps = convergence(found), tree.attrs["steps"]
    levels = np.concatenate([draws["intercept"].values[..., None], draws["slope"].values], axis=3)
    levels = levels[:, :, np.linspace(0, levels.shape[2] - 1, 500).astype(int)]
    of_levels = convergence(levels.reshape(*levels.shape[:2], -1))
    per_step = of_globals.least_ess / (steps - tree.attrs["burn_in"]) / tree.attrs["chains"]
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(
        f"seed {seed}, {groups:,} groups: {seconds:.0f} s, {tree.attrs['sampling_time']:.0f} of them sampling; "
        f"{steps} steps; {tree.attrs['fit_reason']}; {memory:.1f} GB"
    )
    print(
        f"  effective draws of globals: least {of_globals.least_ess.min():.0f}, R-hat {of_globals.r_hat.max():.3f}; "
        f"of levels: least {of_levels.least_ess.min():.0f}, R-hat {of_levels.r_hat.max():.3f}"
    )
    print(
        f"  effective draws a step: alpha, beta {np.median(per_step[:21]):.2f}, sd of intercepts {per_step[21]:.2f}, "
        f"of slopes {np.median(per_step[22:]):.2f} (least {per_step[22:].min():.2f})"
    )
    print(f"  globals: mean square z {np.mean(z**2):.2f}; largest {np.abs(z).max():.1f}")
    kept = draws["intercept_level"].values
    low, high = np.quantile(
        np.concatenate([draws["intercept"].values[..., None], draws["slope"].values], axis=3), [0.05, 0.95], axis=(0, 1)
    )
    there = np.concatenate([intercepts[kept][:, None], slopes[kept]], axis=1)
    print(
        f"  90 % intervals of {there.size:,} effects cover {np.mean((there > low) & (there < high)):.1%}; "
        f"step size {tree['sample_stats']['step_size'].values.mean():.2f}, temperature "
        f"{tree['sample_stats']['kinetic_temperature'].values.mean():.4f}",
        flush=True,
    )


if __name__ == "__main__":
    numbers = [int(word) for word in sys.argv[1:]] or [827, 100_000]
    for seed, groups in zip(numbers[::2], numbers[1::2], strict=True):
        run(seed, groups)
