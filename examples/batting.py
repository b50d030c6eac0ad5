"""How good is a batter after 45 at-bats? A hierarchical model that believes the average more than any one of them.

    python examples/batting.py [--picture FILE]

The first 45 at-bats of 18 batters in the season of 1970, and how each did in the rest of it (B. Efron and C. Morris,
Data analysis using Stein's estimator and its generalizations, J. of the American Statistical Association 70, 1975).
Each batter has an ability, on the scale of the log odds; abilities are normal around a mean, with a spread that is
sampled too. The posterior moves each batter towards the mean, by as much as the 45 at-bats of all of them say.
"""

import argparse
import warnings
from typing import Any

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import isotherm

AT_BATS = 45
BATTERS = {  # hits in the first 45 at-bats, batting average in the rest of the season
    "Clemente": (18, 0.346),
    "F. Robinson": (17, 0.298),
    "F. Howard": (16, 0.276),
    "Johnstone": (15, 0.222),
    "Berry": (14, 0.273),
    "Spencer": (14, 0.270),
    "Kessinger": (13, 0.263),
    "L. Alvarado": (12, 0.210),
    "Santo": (11, 0.269),
    "Swoboda": (11, 0.230),
    "Unser": (10, 0.264),
    "Williams": (10, 0.256),
    "Scott": (10, 0.303),
    "Petrocelli": (10, 0.264),
    "E. Rodriguez": (10, 0.226),
    "Campaneris": (9, 0.286),
    "Munson": (8, 0.316),
    "Alvis": (7, 0.200),
}


def ability(params: Any) -> jax.Array:
    """Of each batter, as log odds: a mean, and deviations in units of a spread whose logarithm is sampled."""
    return params["mean"] + jnp.exp(params["log_spread"]) * params["deviation"]


def log_likelihood(params: Any, at_bat: Any) -> jax.Array:
    """Of one at-bat, a hit (1) or not (0)."""
    return jax.nn.log_sigmoid((2 * at_bat["hit"] - 1) * ability(params)[at_bat["batter"]])


def log_prior(params: Any) -> jax.Array:
    """N(−1, 1²) for the mean, a half-normal of scale 0.5 for the spread, whose logarithm has the Jacobian exp, and a
    standard normal for each deviation."""
    spread = jnp.exp(params["log_spread"])
    of_spread = -0.5 * (spread / 0.5) ** 2 + params["log_spread"]
    return -0.5 * (params["mean"] + 1) ** 2 + of_spread - 0.5 * jnp.sum(params["deviation"] ** 2)


def at_bats() -> dict[str, np.ndarray]:
    """A row for each of 810 at-bats."""
    hits = np.array([hits for hits, _ in BATTERS.values()])
    return {
        "batter": np.repeat(np.arange(len(hits), dtype=np.int32), AT_BATS),
        "hit": (np.arange(AT_BATS) < hits[:, None]).astype(np.float32).ravel(),
    }


def draw(first: np.ndarray, rest: np.ndarray, averages: np.ndarray, path: str) -> None:
    """By batter: the average of 45 at-bats, the posterior with its 95 % interval, and the rest of the season."""
    figure, axes = plt.subplots(figsize=(7, 6), dpi=150, layout="constrained")
    low, high = np.quantile(averages, [0.025, 0.975], axis=0)
    y = np.arange(len(first))[::-1]
    axes.hlines(y, low, high, color="tab:blue", linewidth=3, alpha=0.35)
    axes.plot(averages.mean(axis=0), y, "o", color="tab:blue", label="posterior mean, 95 % interval")
    axes.plot(first, y, "|", color="0.3", markersize=11, markeredgewidth=2, label="first 45 at-bats")
    axes.plot(rest, y, "x", color="tab:red", label="rest of the season")
    axes.set_yticks(y, list(BATTERS))
    axes.set_xlabel("batting average")
    axes.set_title("The posterior is nearer to the rest of the season", loc="left")
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(frameon=False, loc="outside lower center", ncols=3)
    figure.savefig(path)
    plt.close(figure)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--picture", metavar="FILE", default="batting.png", help="where the picture goes")
    options = parser.parse_args(arguments)

    init = {"mean": jnp.array(-1.0), "log_spread": jnp.array(-1.0), "deviation": jnp.zeros(len(BATTERS))}
    posterior = isotherm.Posterior(log_likelihood, log_prior)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        tree = isotherm.fit(posterior, at_bats(), init)
    for warning in caught:
        print(f"fit says: {warning.message}")
    print(isotherm.check(tree, posterior, at_bats()).summary)

    params = {name: array.values.reshape(-1, *array.shape[2:]) for name, array in tree.posterior.data_vars.items()}
    averages = np.asarray(jax.nn.sigmoid(jax.vmap(ability)(params)))
    first, rest = np.array([hits for hits, _ in BATTERS.values()]) / AT_BATS, np.array([r for _, r in BATTERS.values()])
    print(f"\n{'batter':14} 45 at-bats   posterior, 95 % interval   rest of the season")
    for i, name in enumerate(BATTERS):
        low, high = np.quantile(averages[:, i], [0.025, 0.975])
        interval = f"{low:.3f} to {high:.3f}"
        print(f"{name:14} {first[i]:10.3f}   {averages[:, i].mean():9.3f}, {interval:13}   {rest[i]:18.3f}")
    errors = [np.sqrt(np.mean((guess - rest) ** 2)) for guess in (first, averages.mean(axis=0))]
    print(f"\nroot mean square error of the rest: {errors[0]:.3f} by 45 at-bats, {errors[1]:.3f} by the posterior")
    draw(first, rest, averages, options.picture)
    print(f"the picture is in {options.picture}")


if __name__ == "__main__":
    main()
