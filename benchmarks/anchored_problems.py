"""The posteriors on which anchoring is measured: a name, a `Posterior`, its data and where to start, θ = 0 in all.

Real data are looked for in $ISOTHERM_DATA, or in `shared/data` beside the checkout; all else is simulated from a seed.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jax.nn import log_sigmoid
from jax.scipy.special import gammaln

from isotherm import Posterior
from isotherm.models import Logistic, Softmax
from isotherm.paper.datasets import cifar10, flights, mnist
from problems import DATA

AIRPORTS = (229, 228)  # of departure and of arrival


class Problem(NamedTuple):
    name: str
    posterior: Posterior
    data: dict[str, np.ndarray]
    init: Any

    @property
    def population(self) -> int:
        return len(next(iter(self.data.values())))

    @property
    def d(self) -> int:
        return ravel_pytree(self.init)[0].size


def gaussian_prior(variance: float) -> Callable[[Any], Any]:
    """log N(θ; 0, variance · I) over all entries of a tree, up to a constant."""
    return lambda params: -sum(jnp.vdot(leaf, leaf) for leaf in jax.tree.leaves(params)) / (2 * variance)


def zeros(**shapes: Any) -> dict[str, np.ndarray]:
    return {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}


def single(columns: dict[str, Any]) -> dict[str, np.ndarray]:
    return {name: np.asarray(column, np.float32) for name, column in columns.items()}


def two_digits() -> Problem:
    """Logistic regression, MNIST 7/9 on 100 random axes: d = 100, N = 12,214."""
    return _logistic("mnist-79", mnist.pair(7, 9, data_dir=DATA).train)


def two_pictures() -> Problem:
    """Logistic regression, airplanes and automobiles of CIFAR-10 on 400 principal axes: N = 10,000, 25 rows a
    parameter."""
    return _logistic("cifar10", cifar10.pair("airplane", "automobile", data_dir=DATA).train)


def _logistic(name: str, data: dict[str, np.ndarray]) -> Problem:
    d = data["x"].shape[1]
    model = Logistic(d, prior_variance=1.0)
    return Problem(name, Posterior(model.log_likelihood, model.log_prior), data, np.zeros(d, np.float32))


def ill_conditioned(N: int = 100_000, d: int = 50) -> Problem:
    """Logistic regression on columns that follow each other as an AR(1) process with 0.9 does, with scales from 1/15 to
    15 in random order: the curvature at the mode has condition number 1e6."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((N, d))
    for j in range(1, d):
        x[:, j] = 0.9 * x[:, j - 1] + np.sqrt(1 - 0.9**2) * x[:, j]
    scales = rng.permutation(np.geomspace(1 / 15, 15, d))
    theta = 0.2 * rng.standard_normal(d)
    y = np.where(rng.random(N) < 1 / (1 + np.exp(-x @ theta)), 1, -1)
    model = Logistic(d, prior_variance=100.0)
    posterior = Posterior(model.log_likelihood, model.log_prior)
    return Problem("ill-conditioned", posterior, single({"x": x * scales, "y": y}), np.zeros(d, np.float32))


def poisson(N: int = 20_000, d: int = 30) -> Problem:
    """y ~ Poisson(exp(θ·x)), an intercept of 1 and 29 effects ~ N(0, 0.3²): rates from 0.01 to 1,000."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((N, d))
    x[:, 0] = 1
    rate = np.exp(x @ np.concatenate([[1.0], 0.3 * rng.standard_normal(d - 1)]))

    def log_likelihood(theta: Any, example: Any) -> Any:
        eta = example["x"] @ theta
        return example["y"] * eta - jnp.exp(eta)

    data = single({"x": x, "y": rng.poisson(rate)})
    return Problem("poisson", Posterior(log_likelihood, gaussian_prior(10.0)), data, np.zeros(d, np.float32))


def student_t(N: int = 20_000, d: int = 20) -> Problem:
    """y = θ·x + σt, t of 4 degrees of freedom, σ unknown; 5 % of the rows are off by N(0, 10²)."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((N, d - 1))
    x[:, 0] = 1
    y = x @ (0.5 * rng.standard_normal(d - 1)) + 0.7 * rng.standard_normal(N)
    y += np.where(rng.random(N) < 0.05, 10 * rng.standard_normal(N), 0)

    def log_likelihood(params: Any, example: Any) -> Any:
        residual = (example["y"] - example["x"] @ params["theta"]) * jnp.exp(-params["log_scale"])
        return -2.5 * jnp.log1p(residual**2 / 4) - params["log_scale"]

    data = single({"x": x, "y": y})
    return Problem("student-t", Posterior(log_likelihood, gaussian_prior(1.0)), data, zeros(theta=d - 1, log_scale=()))


def softmax() -> Problem:
    """All of MNIST on 40 whitened principal components, ten classes, θ ~ N(0, 1): d = 410, N = 60,000."""
    train, _ = mnist.principal_components(40, data_dir=DATA)
    model = Softmax(40, 10, prior_variance=1.0)
    return Problem("softmax", Posterior(model.log_likelihood, model.log_prior), train, zeros(W=(10, 40), b=10))


def late_flights(rows: int | None = None, name: str = "flights") -> Problem:
    """Was a flight late? Logistic regression on what `isotherm.datasets.flights` has, d = 490, θ ~ N(0, 0.5²): all
    3,000,000 rows, or so many of them, drawn without replacement."""
    data = flights.load(DATA).data
    if rows is not None:
        kept = np.sort(np.random.default_rng(0).choice(len(data["late"]), rows, replace=False))
        data = {name: column[kept] for name, column in data.items()}

    def log_likelihood(params: Any, example: Any) -> Any:
        eta = params["intercept"] + params["log_distance"] * example["log_distance"]
        for level in ("hour", "weekday", "origin", "destination"):
            eta = eta + params[level][example[level]]
        return log_sigmoid((2 * example["late"] - 1) * eta)

    init = zeros(intercept=(), log_distance=(), hour=24, weekday=7, origin=AIRPORTS[0], destination=AIRPORTS[1])
    return Problem(name, Posterior(log_likelihood, gaussian_prior(0.25)), data, init)


def hierarchical(N: int = 20_000, groups: int = 50) -> Problem:
    """y = ±1 with log-odds α_g in group g; α_g ~ N(μ, τ²), μ ~ N(0, 1), log τ ~ N(0, 1)."""
    rng = np.random.default_rng(0)
    effects = rng.standard_normal(groups)
    group = np.arange(N, dtype=np.int32) % groups
    y = np.where(rng.random(N) < 1 / (1 + np.exp(-effects[group])), 1, -1)

    def log_likelihood(params: Any, example: Any) -> Any:
        return log_sigmoid(example["y"] * params["group"][example["group"]])

    def log_prior(params: Any) -> Any:
        mu, log_tau, group = params["mu"], params["log_tau"], params["group"]
        z = (group - mu) * jnp.exp(-log_tau)
        return -(mu**2 + log_tau**2 + jnp.vdot(z, z)) / 2 - group.size * log_tau

    data = {"group": group, "y": y.astype(np.float32)}
    return Problem("hierarchical", Posterior(log_likelihood, log_prior), data, zeros(group=groups, log_tau=(), mu=()))


def negative_binomial(N: int = 20_000, d: int = 20) -> Problem:
    """Counts of mean m = exp(θ·x) and variance m + m²/r, r unknown: an intercept of 1, 18 effects ~ N(0, 0.2²), and
    r = 2."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((N, d - 1))
    x[:, 0] = 1
    mean = np.exp(x @ np.concatenate([[1.0], 0.2 * rng.standard_normal(d - 2)]))
    y = rng.poisson(rng.gamma(2.0, mean / 2.0))

    def log_likelihood(params: Any, example: Any) -> Any:
        eta, log_r, y = example["x"] @ params["theta"], params["log_r"], example["y"]
        r = jnp.exp(log_r)
        of_counts = gammaln(y + r) - gammaln(r) + y * eta + r * log_r
        return of_counts - (y + r) * jnp.logaddexp(eta, log_r)

    data = single({"x": x, "y": y})
    return Problem(
        "negative-binomial", Posterior(log_likelihood, gaussian_prior(1.0)), data, zeros(theta=d - 1, log_r=())
    )


PROBLEMS: dict[str, Callable[[], Problem]] = {
    "poisson": poisson,
    "student-t": student_t,
    "hierarchical": hierarchical,
    "negative-binomial": negative_binomial,
    "mnist-79": two_digits,
    "cifar10": two_pictures,
    "ill-conditioned": ill_conditioned,
    "flights-100k": lambda: late_flights(100_000, "flights-100k"),
    "softmax": softmax,
    "flights": late_flights,
}  # from cheap to dear
