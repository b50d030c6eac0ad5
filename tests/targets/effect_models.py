"""Small models with effects of every kind, and their densities written out."""

import jax.numpy as jnp
import numpy as np
from scipy import stats

from isotherm import Effect, Posterior

ROWS = 240


def rows(seed=0):
    rng = np.random.default_rng(seed)
    first, second = rng.integers(0, 12, (2, ROWS))
    return {
        "x": rng.standard_normal(ROWS),
        "y": rng.integers(0, 2, ROWS).astype(float),
        "school": np.array([f"s{i:02d}" for i in rng.integers(0, 15, ROWS)]),
        "day": rng.integers(3, 9, ROWS),
        "home": first,
        "away": (second + (second == first)) % 13,
    }


def bernoulli(y, eta):
    return y * eta - jnp.logaddexp(0.0, eta)


def log_prior(p):
    return -0.5 * (p["a"] ** 2 + p["b"] ** 2)


INIT = {"a": np.float64(0.1), "b": np.float64(-0.2)}
MODELS = {
    "scalar": Posterior(
        lambda p, r: bernoulli(r["y"], p["a"] + p["b"] * r["x"] + p["school"]),
        log_prior,
        effects={"school": Effect("school")},
    ),
    "crossed": Posterior(
        lambda p, r: bernoulli(r["y"], p["a"] + p["b"] * r["x"] + p["school"] + p["day"]),
        log_prior,
        effects={"school": Effect("school", scale_prior=0.5), "day": Effect("day")},
    ),
    "nested": Posterior(
        lambda p, r: bernoulli(r["y"], p["a"] + p["b"] * r["x"] + p["school"] + p["visit"]),
        log_prior,
        effects={"school": Effect("school"), "visit": Effect("school:day")},
    ),
    "slopes": Posterior(
        lambda p, r: bernoulli(r["y"], p["a"] + p["b"] * r["x"] + p["school"] @ jnp.stack([1.0, r["x"]]) + p["day"]),
        log_prior,
        effects={"school": Effect("school", size=2), "day": Effect("day")},
    ),
    "correlated": Posterior(
        lambda p, r: bernoulli(r["y"], p["a"] + p["b"] * r["x"] + p["school"] @ jnp.stack([1.0, r["x"]])),
        log_prior,
        effects={"school": Effect("school", size=2, correlated=True)},
    ),
    "two_of_one_column": Posterior(
        lambda p, r: bernoulli(r["y"], p["a"] + p["b"] * r["x"] + p["level"] + p["slope"] * r["x"]),
        log_prior,
        effects={"level": Effect("school"), "slope": Effect("school", scale_prior=0.3)},
    ),
    "twice": Posterior(
        lambda p, r: bernoulli(r["y"], p["a"] + p["b"] * r["x"] + p["team"][0] - p["team"][1]),
        log_prior,
        effects={"team": Effect(("home", "away"))},
    ),
    "student": Posterior(
        lambda p, r: bernoulli(r["y"], p["a"] + p["b"] * r["x"] + p["school"] + p["day"]),
        log_prior,
        effects={"school": Effect("school", df=4.0), "day": Effect("day", scale=0.7)},
    ),
    "in_the_scale": Posterior(
        lambda p, r: -0.5 * ((r["x"] - p["a"] - p["school"]) / jnp.exp(p["b"] + p["day"])) ** 2 - p["b"] - p["day"],
        log_prior,
        effects={"school": Effect("school"), "day": Effect("day", scale_prior=0.2)},
    ),
    "own_prior": Posterior(
        lambda p, r: bernoulli(r["y"], p["a"] + p["b"] * r["x"] + p["school"] + p["day"]),
        lambda p: log_prior(p) - p["sd_school"],
        effects={
            "school": Effect("school", scale_prior=None),
            "day": Effect("day", scale_prior=lambda sd: -2.0 * jnp.log1p(sd)),
        },
    ),
}


def normal(x, sd):
    return stats.norm.logpdf(x, scale=sd).sum()
