"""Ten NumPyro models with data, as one would write them for NUTS. Real data come with scikit-learn; the rest is drawn
from the model."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist


class Case(NamedTuple):
    """A model, its arguments that have rows and those that have none."""

    model: Callable[..., Any]
    data: dict[str, np.ndarray]
    fixed: dict[str, Any] = {}  # noqa: RUF012


def linear(x, y):
    intercept = numpyro.sample("intercept", dist.Normal(0, 1))
    slopes = numpyro.sample("slopes", dist.Normal(0, 1).expand([x.shape[1]]).to_event(1))
    sigma = numpyro.sample("sigma", dist.HalfNormal(1))
    with numpyro.plate("rows", len(y)):
        numpyro.sample("y", dist.Normal(intercept + x @ slopes, sigma), obs=y)


def logistic(x, y):
    with numpyro.plate("columns", x.shape[1]):
        slopes = numpyro.sample("slopes", dist.Normal(0, 1))
    numpyro.sample("y", dist.Bernoulli(logits=x @ slopes), obs=y)  # no plate: the sum over rows is one all the same


def poisson(x, exposure, y):
    slopes = numpyro.sample("slopes", dist.Normal(0, 1).expand([x.shape[1]]).to_event(1))
    with numpyro.plate("rows", len(y)):
        numpyro.sample("y", dist.Poisson(exposure * jnp.exp(x @ slopes)), obs=y)


def hierarchical(x, town, y, county_of_town, counties):
    """Rows in towns in counties."""
    slope = numpyro.sample("slope", dist.Normal(0, 1))
    mean = numpyro.sample("mean", dist.Normal(0, 2))
    between_counties = numpyro.sample("between_counties", dist.HalfNormal(1))
    between_towns = numpyro.sample("between_towns", dist.HalfNormal(1))
    sigma = numpyro.sample("sigma", dist.HalfNormal(1))
    with numpyro.plate("counties", counties):
        county_effect = numpyro.sample("county_effect", dist.Normal(mean, between_counties))
    with numpyro.plate("towns", len(county_of_town)):
        town_effect = numpyro.sample("town_effect", dist.Normal(county_effect[county_of_town], between_towns))
    with numpyro.plate("rows", len(y)):
        numpyro.sample("y", dist.Normal(town_effect[town] + slope * x, sigma), obs=y)


def eight_schools_as_usual(sigma, y):
    mu = numpyro.sample("mu", dist.Normal(0, 5))
    tau = numpyro.sample("tau", dist.HalfCauchy(5))
    with numpyro.plate("schools", len(y)):
        theta = numpyro.sample("theta", dist.Normal(mu, tau))
        numpyro.sample("y", dist.Normal(theta, sigma), obs=y)


def eight_schools(school, sigma, y, schools):
    """With a plate for the schools and one for the rows, and not centred, as all write it who sample it."""
    mu = numpyro.sample("mu", dist.Normal(0, 5))
    tau = numpyro.sample("tau", dist.HalfCauchy(5))
    with numpyro.plate("schools", schools):
        z = numpyro.sample("z", dist.Normal(0, 1))
    theta = numpyro.deterministic("theta", mu + tau * z)
    with numpyro.plate("rows", len(y)):
        numpyro.sample("y", dist.Normal(theta[school], sigma), obs=y)


def horseshoe(x, y):
    tau = numpyro.sample("tau", dist.HalfCauchy(1))
    with numpyro.plate("columns", x.shape[1]):
        local = numpyro.sample("local", dist.HalfCauchy(1))
        z = numpyro.sample("z", dist.Normal(0, 1))
    slopes = numpyro.deterministic("slopes", tau * local * z)
    sigma = numpyro.sample("sigma", dist.HalfNormal(1))
    with numpyro.plate("rows", len(y)):
        numpyro.sample("y", dist.Normal(x @ slopes, sigma), obs=y)


def mixture(y):
    weights = numpyro.sample("weights", dist.Dirichlet(jnp.ones(2)))
    ordered = dist.transforms.OrderedTransform()
    means = numpyro.sample("means", dist.TransformedDistribution(dist.Normal(0, 2).expand([2]).to_event(1), ordered))
    scales = numpyro.sample("scales", dist.HalfNormal(1).expand([2]).to_event(1))
    with numpyro.plate("rows", len(y)):
        parts = dist.Normal(means, scales)
        numpyro.sample("y", dist.MixtureSameFamily(dist.Categorical(weights), parts), obs=y)


def softmax(x, y, classes):
    with numpyro.plate("classes", classes, dim=-1), numpyro.plate("columns", x.shape[1], dim=-2):
        slopes = numpyro.sample("slopes", dist.Normal(0, 1))
    with numpyro.plate("rows", len(y)):
        numpyro.sample("y", dist.Categorical(logits=x @ slopes), obs=y)


def negative_binomial(x, y):
    slopes = numpyro.sample("slopes", dist.Normal(0, 1).expand([x.shape[1]]).to_event(1))
    concentration = numpyro.sample("concentration", dist.Gamma(2, 0.5))
    with numpyro.plate("rows", len(y)):
        numpyro.sample("y", dist.NegativeBinomial2(jnp.exp(x @ slopes), concentration), obs=y)


def ordinal(x, y, grades):
    slopes = numpyro.sample("slopes", dist.Normal(0, 1).expand([x.shape[1]]).to_event(1))
    cut = dist.TransformedDistribution(
        dist.Normal(0, 2).expand([grades - 1]).to_event(1), dist.transforms.OrderedTransform()
    )
    cutpoints = numpyro.sample("cutpoints", cut)
    with numpyro.plate("rows", len(y)):
        numpyro.sample("y", dist.OrderedLogistic(x @ slopes, cutpoints), obs=y)


def standardised(x: np.ndarray) -> np.ndarray:
    return ((x - x.mean(axis=0)) / x.std(axis=0)).astype(np.float32)


def design(rng: np.random.Generator, rows: int, columns: int) -> np.ndarray:
    """A column of ones and standard normal ones."""
    return np.concatenate([np.ones((rows, 1)), rng.standard_normal((rows, columns - 1))], axis=1).astype(np.float32)


def cases() -> dict[str, Case]:
    from sklearn.datasets import load_diabetes, load_digits
    from sklearn.decomposition import PCA

    rng = np.random.default_rng(0)
    diabetes, digits = load_diabetes(return_X_y=True), load_digits(return_X_y=True)
    found = {"linear": Case(linear, {"x": standardised(diabetes[0]), "y": standardised(diabetes[1])})}

    x = design(rng, 20_000, 10)
    y = rng.random(len(x)) < 1 / (1 + np.exp(-x @ np.linspace(-1, 1, 10)))
    found["logistic"] = Case(logistic, {"x": x, "y": y.astype(np.int32)})

    x, exposure = design(rng, 20_000, 8), rng.uniform(0.5, 2, 20_000).astype(np.float32)
    y = rng.poisson(exposure * np.exp(x @ np.linspace(-0.5, 0.5, 8))).astype(np.int32)
    found["poisson"] = Case(poisson, {"x": x, "exposure": exposure, "y": y})

    county_of_town, town = np.repeat(np.arange(10), 6), rng.integers(0, 60, 10_000).astype(np.int32)
    effects = (0.5 + 0.7 * rng.standard_normal(10))[county_of_town] + 0.4 * rng.standard_normal(60)
    x = rng.standard_normal(len(town)).astype(np.float32)
    y = (effects[town] - 0.3 * x + 0.8 * rng.standard_normal(len(town))).astype(np.float32)
    fixed = {"county_of_town": county_of_town, "counties": 10}
    found["hierarchical"] = Case(hierarchical, {"x": x, "town": town, "y": y}, fixed)

    y, sigma = (np.float32(v) for v in ([28, 8, -3, 7, -1, 1, 18, 12], [15, 10, 16, 11, 9, 11, 10, 18]))
    found["eight schools, as usual"] = Case(eight_schools_as_usual, {"sigma": sigma, "y": y})
    rows = {"school": np.arange(8, dtype=np.int32), "sigma": sigma, "y": y}
    found["eight schools"] = Case(eight_schools, rows, {"schools": 8})

    x = rng.standard_normal((400, 20)).astype(np.float32)
    y = (x[:, :3] @ np.float32([2, -1, 0.5]) + 0.7 * rng.standard_normal(len(x))).astype(np.float32)
    found["horseshoe"] = Case(horseshoe, {"x": x, "y": y})

    y = np.where(rng.random(5_000) < 0.3, rng.normal(-1, 0.5, 5_000), rng.normal(1.5, 0.8, 5_000)).astype(np.float32)
    found["mixture"] = Case(mixture, {"y": y})

    x = np.concatenate(
        [standardised(PCA(10).fit_transform(digits[0])), np.ones((len(digits[0]), 1), np.float32)], axis=1
    )
    found["softmax"] = Case(softmax, {"x": x, "y": digits[1].astype(np.int32)}, {"classes": 10})

    x = design(rng, 10_000, 5)
    mean = np.exp(x @ np.linspace(-0.5, 0.7, 5))
    y = rng.negative_binomial(2.5, 2.5 / (2.5 + mean)).astype(np.int32)
    found["negative binomial"] = Case(negative_binomial, {"x": x, "y": y})

    x = rng.standard_normal((10_000, 4)).astype(np.float32)
    score = x @ np.float32([1, -0.5, 0.3, 0]) + rng.logistic(size=len(x))
    y = np.searchsorted([-1.5, 0.0, 1.0], score).astype(np.int32)
    found["ordinal"] = Case(ordinal, {"x": x, "y": y}, {"grades": 4})
    return found
