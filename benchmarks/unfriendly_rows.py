"""The posteriors of the unfriendly suite: what each row of it samples, how, and what is known to be right."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax.nn import log_sigmoid

from isotherm.models import Linear, Logistic
from problems import logistic_mnist
from unfriendly_truth import Truth, any_shape, gaussian, near_gaussian


class Problem(NamedTuple):
    """A model, its data, where to start, and a function that finds the truth; `exact` if that takes no sampling."""

    model: Any
    data: dict[str, np.ndarray]
    init: Any
    truth: Callable[[], Truth]
    exact: bool = True


@dataclass(frozen=True)
class Row:
    """`settings` are those of the sampler that are not its defaults."""

    name: str
    make: Callable[[], Problem]
    batch_size: int = 500
    settings: dict[str, Any] = field(default_factory=dict)
    replace: bool = True
    chains: int = 4

    @property
    def temperature(self) -> float:
        return self.settings.get("temperature", 1.0)

    @property
    def friction(self) -> float:
        return self.settings.get("friction", 1.0)


def regression(x: np.ndarray, theta: np.ndarray, rng: np.random.Generator, noise: float, prior: float) -> Problem:
    """Linear regression from θ = 0 whose model says that the noise is 1."""
    data = {"x": x, "y": x @ theta + noise * rng.standard_normal(len(x))}
    data = {name: column.astype(np.float32) for name, column in data.items()}
    model = Linear(x.shape[1], prior_variance=prior)
    return Problem(model, data, np.zeros(x.shape[1], np.float32), partial(gaussian, data, prior))


def linear(
    N: int = 10_000, d: int = 100, scale: float = 0.1, noise: float = 1.0, prior: float = 10.0, zeros: int = 0
) -> Problem:
    """x ~ N(0, I), the last `zeros` columns 0; θ ~ N(0, scale² I)."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((N, d))
    x[:, d - zeros :] = 0
    return regression(x, scale * rng.standard_normal(d), rng, noise, prior)


def offset(b: float, N: int = 10_000, d: int = 20) -> Problem:
    """An intercept and 19 columns; the intercept is b."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((N, d))
    x[:, 0] = 1
    return regression(x, np.concatenate([[b], 0.2 * rng.standard_normal(d - 1)]), rng, 1.0, 10.0)


def correlated(d: int) -> Problem:
    """Columns that follow each other as an AR(1) process with 0.95 does."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((20 * d, d))
    for j in range(1, d):
        x[:, j] = 0.95 * x[:, j - 1] + np.sqrt(1 - 0.95**2) * x[:, j]
    return regression(x, 0.1 * rng.standard_normal(d), rng, 1.0, 10.0)


def raw(N: int = 10_000) -> Problem:
    """Columns as they come: an intercept and seven whose scales go from 1e-3 to 1e3, with means of that size."""
    rng = np.random.default_rng(0)
    scales = np.logspace(-3, 3, 7)
    x = np.column_stack([np.ones(N), scales * (rng.standard_normal((N, 7)) + rng.standard_normal(7))])
    return regression(x, np.concatenate([[1.0], 0.3 * rng.standard_normal(7) / scales]), rng, 1.0, 1e6)


def logistic(N: int, d: int, scale: float) -> Problem:
    """x ~ N(0, I), θ ~ N(0, scale² I)."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((N, d)).astype(np.float32)
    chance = 1 / (1 + np.exp(-x @ (scale * rng.standard_normal(d))))
    data = {"x": x, "y": np.where(rng.random(N) < chance, 1, -1).astype(np.float32)}
    model, init = Logistic(d, prior_variance=1.0), np.zeros(d, np.float32)
    return Problem(model, data, init, partial(near_gaussian, model, data, init, 500), False)


def digits() -> Problem:
    """MNIST 7/9 (or like it, where there is no MNIST), whose gradients have heavy tails."""
    case = logistic_mnist()
    return Problem(
        case.model, case.data, case.init, partial(near_gaussian, case.model, case.data, case.init, 500), False
    )


@dataclass(frozen=True)
class Poisson:
    """y ~ Poisson(exp(θ·x)), θ ~ N(0, 10 I)."""

    def log_likelihood(self, theta: Any, example: Any) -> Any:
        eta = example["x"] @ theta
        return example["y"] * eta - jnp.exp(eta)

    def log_prior(self, theta: Any) -> Any:
        return -jnp.sum(theta**2) / 20


def poisson(N: int = 20_000, d: int = 30, scale: float = 0.3) -> Problem:
    """An intercept of 1 and 29 columns x ~ N(0, I) with θ ~ N(0, scale² I)."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((N, d)).astype(np.float32)
    x[:, 0] = 1
    rate = np.exp(x @ np.concatenate([[1.0], scale * rng.standard_normal(d - 1)]))
    data = {"x": x, "y": rng.poisson(rate).astype(np.float32)}
    model, init = Poisson(), np.zeros(d, np.float32)
    return Problem(model, data, init, partial(near_gaussian, model, data, init, 500), False)


@dataclass(frozen=True)
class Groups:
    """y = ±1 with log-odds α_g in group g; α_g ~ N(μ, τ²), μ ~ N(0, 1), log τ ~ N(0, 1).

    `group` holds α_g if it is centred, and (α_g − μ)/τ if not.
    """

    centred: bool

    def log_likelihood(self, params: Any, example: Any) -> Any:
        own = params["group"][example["group"]]
        return log_sigmoid(example["y"] * (own if self.centred else params["mu"] + jnp.exp(params["log_tau"]) * own))

    def log_prior(self, params: Any) -> Any:
        mu, log_tau, group = params["mu"], params["log_tau"], params["group"]
        z = (group - mu) * jnp.exp(-log_tau) if self.centred else group
        scale = group.size * log_tau if self.centred else 0.0
        return -(mu**2 + log_tau**2 + jnp.sum(z**2)) / 2 - scale


def hierarchical(N: int, centred: bool, groups: int = 50) -> Problem:
    """Groups of one size; μ = 0, τ = 1."""
    rng = np.random.default_rng(0)
    effects = rng.standard_normal(groups)
    group = np.arange(N, dtype=np.int32) % groups
    y = np.where(rng.random(N) < 1 / (1 + np.exp(-effects[group])), 1, -1).astype(np.float32)
    model, data = Groups(centred), {"group": group, "y": y}
    zero = np.zeros((), np.float32)
    init = {"group": np.zeros(groups, np.float32), "log_tau": zero, "mu": zero}
    return Problem(model, data, init, partial(any_shape, model, data, init, 5000), False)


def _rows() -> list[Row]:
    rows = [Row("friendly", linear)]
    rows += [Row(f"offset-{b}", partial(offset, float(b))) for b in (3, 5, 10)]
    rows += [Row(f"residual-{s}", partial(linear, d=20, noise=s)) for s in (0.5, 0.2, 0.1)]
    rows += [Row(f"prior-{v}", partial(linear, prior=float(v))) for v in ("1e-5", "1e-6")]
    rows += [Row(f"temperature-{T}", partial(linear, d=20), settings={"temperature": float(T)}) for T in (10, 100)]
    rows += [Row("centred-2000", partial(hierarchical, 2000, True), 200)]
    rows += [Row(f"not-centred-{N}", partial(hierarchical, N, False), N // 10) for N in (2000, 600)]
    rows += [
        Row(f"no-replacement-{r}", partial(linear, N=1000, d=5), round(1000 * r), replace=False) for r in (0.5, 0.9)
    ]
    rows += [Row("ten-rows", partial(linear, N=10, d=3), 5)]
    rows += [Row("zero-columns", partial(linear, zeros=60, prior=1.0))]
    rows += [Row(f"rows-{n}", partial(linear, N=20_000), n) for n in (20, 50, 100, 200)]
    rows += [Row(f"rows-{n}-d20", partial(linear, N=2000, d=20), n) for n in (2, 5, 10, 25)]
    rows += [Row(f"rows-{n}-mnist", digits, n, chains=2) for n in (20, 50, 100, 200)]
    rows += [Row("poisson", poisson)]
    rows += [Row(f"correlated-{d}", partial(correlated, d), chains=2) for d in (512, 513)]
    rows += [Row("logistic-600", partial(logistic, 12_000, 600, 0.1), chains=2)]
    rows += [
        Row(f"friction-{A}", partial(linear, N=2000, d=20), settings={"friction": float(A)}) for A in (30, 100, 300)
    ]
    rows += [Row("mass-1e4", partial(linear, N=2000, d=20), settings={"mass": 1e4})]
    rows += [Row("raw-columns", raw)]
    return rows


ROWS = {row.name: row for row in _rows()}
