"""How a target is distributed, given a predictor: what a linear model, a network or any other function of x gives.

A family is a frozen dataclass: two built with the same arguments are equal, so models that hold them compare by value.

- `shape`: the shape of one predictor, () or (classes,);
- `shapes`: the shapes of the family's own parameters by name, which are entries of the model's parameters;
- `log_density(predictor, y, params)`: log p(y | predictor) of ONE target;
- `log_prior(params)`: of its own parameters;
- `unseen(values, variance)`: what to add to the log prior N(0, variance) of parameters by class, for directions that no
  target depends on;
- `mean(predictor)`: E[y], or the probabilities of the classes;
- `variance(predictor, params)`: Var[y], of each class's indicator for classes;
- `prediction(predictors)`: of m predictors, what a model's `predict` gives: log-probabilities (m, classes), or E[y].

All are finite and twice differentiable wherever the predictor is finite; numbers have the predictor's dtype.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from isotherm.lib import arguments
from isotherm.lib.types import Array, Float, Scalar

Predictor = Float[Array, "..."]
Own = Mapping[str, Array]  # the model's parameters, in which a family finds its own

LARGEST_LOG_RATE = 30.0  # beyond it, a rate of 1e13, exp continues as a parabola: a step too far is no infinity


class Family:
    """A predictor that is a number, no parameters of its own; the module's docstring says what each method returns."""

    shapes: ClassVar[dict[str, tuple[int, ...]]] = {}

    @property
    def shape(self) -> tuple[int, ...]:
        return ()

    def log_density(self, predictor: Predictor, y: ArrayLike, params: Own) -> Scalar:
        raise NotImplementedError

    def log_prior(self, params: Own) -> Scalar | float:
        return 0.0

    def unseen(self, values: Array, variance: float) -> Scalar | float:
        return 0.0

    def mean(self, predictor: Predictor) -> Predictor:
        return predictor

    def variance(self, predictor: Predictor, params: Own) -> Predictor:
        raise NotImplementedError

    def prediction(self, predictors: Predictor) -> Predictor:
        return self.mean(predictors)


@dataclass(frozen=True)
class Gaussian(Family):
    """y ~ N(predictor, σ²) with σ = exp(params["log_sigma"]) unknown.

    The prior is σ² ~ scaled inverse χ²(1, guess²): one more example, whose residual is `guess`. Next to targets of
    standard deviation 1 it is weak, and it keeps σ from zero where the predictor can follow the targets exactly.
    """

    guess: float = 0.1
    shapes: ClassVar = {"log_sigma": ()}

    def __post_init__(self) -> None:
        arguments.positive("guess", self.guess)

    def log_density(self, predictor: Predictor, y: ArrayLike, params: Own) -> Scalar:
        log_sigma = params["log_sigma"]
        z = (jnp.asarray(y, predictor.dtype) - predictor) * bounded_exp(-log_sigma)
        return -0.5 * z * z - log_sigma - 0.5 * math.log(2 * math.pi)

    def log_prior(self, params: Own) -> Scalar:
        """Return the log prior of log σ: −log σ − guess²/(2σ²) + log guess + ½ log(2/π)."""
        ratio = self.guess * bounded_exp(-params["log_sigma"])
        return -params["log_sigma"] - 0.5 * ratio * ratio + math.log(self.guess) + 0.5 * math.log(2 / math.pi)

    def variance(self, predictor: Predictor, params: Own) -> Predictor:
        return jnp.broadcast_to(bounded_exp(2 * params["log_sigma"]), predictor.shape)


@dataclass(frozen=True)
class KnownNoise(Family):
    """y ~ N(predictor, noise_variance)."""

    noise_variance: float

    def log_density(self, predictor: Predictor, y: ArrayLike, params: Own) -> Scalar:
        residual = jnp.asarray(y, predictor.dtype) - predictor
        return -(residual**2) / (2 * self.noise_variance) - 0.5 * math.log(2 * math.pi * self.noise_variance)

    def variance(self, predictor: Predictor, params: Own) -> Predictor:
        return jnp.full_like(predictor, self.noise_variance)


@dataclass(frozen=True)
class Bernoulli(Family):
    """y = 0 or 1: p(y = 1) = 1/(1 + exp(−predictor))."""

    def log_density(self, predictor: Predictor, y: ArrayLike, params: Own) -> Scalar:
        """Return log σ(±predictor) = −softplus(∓predictor)."""
        return -softplus((1 - 2 * jnp.asarray(y, predictor.dtype)) * predictor)

    def mean(self, predictor: Predictor) -> Predictor:
        return jax.nn.sigmoid(predictor)

    def variance(self, predictor: Predictor, params: Own) -> Predictor:
        return jax.nn.sigmoid(predictor) * jax.nn.sigmoid(-predictor)

    def prediction(self, predictors: Predictor) -> Predictor:
        return -softplus(jnp.stack([predictors, -predictors], axis=-1))


@dataclass(frozen=True)
class Categorical(Family):
    """y = 0 … classes − 1: log p(y) = a_y − logsumexp(a), with a the predictor."""

    classes: int

    def __post_init__(self) -> None:
        arguments.integer("classes", self.classes, 2)

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.classes,)

    def log_density(self, predictor: Predictor, y: ArrayLike, params: Own) -> Scalar:
        return predictor[jnp.asarray(y, jnp.int32)] - jax.nn.logsumexp(predictor)

    def unseen(self, values: Array, variance: float) -> Scalar | float:
        """Narrow the prior of c = Σ values/√classes, of values by (class, …), from N(0, variance) to N(0, 1).

        What all classes have in common changes no probability, and under a wide prior chains only wander there.
        """
        if variance <= 1:
            return 0.0
        c = jnp.sum(values, axis=0) / math.sqrt(self.classes)
        return -0.5 * (1 - 1 / variance) * jnp.sum(c * c) + 0.5 * c.size * math.log(variance)

    def mean(self, predictor: Predictor) -> Predictor:
        return jax.nn.softmax(predictor)

    def variance(self, predictor: Predictor, params: Own) -> Predictor:
        p = jax.nn.softmax(predictor)
        return p * (1 - p)

    def prediction(self, predictors: Predictor) -> Predictor:
        return jax.nn.log_softmax(predictors)


@dataclass(frozen=True)
class Poisson(Family):
    """Counts y = 0, 1, 2, … ~ Poisson(exp(predictor)). For other y, y! is Γ(y + 1)."""

    def log_density(self, predictor: Predictor, y: ArrayLike, params: Own) -> Scalar:
        """Return y log λ − λ − log y!."""
        y = jnp.asarray(y, predictor.dtype)
        return y * predictor - bounded_exp(predictor) - jax.lax.lgamma(y + 1)

    def mean(self, predictor: Predictor) -> Predictor:
        return bounded_exp(predictor)

    def variance(self, predictor: Predictor, params: Own) -> Predictor:
        return bounded_exp(predictor)


def bounded_exp(x: Predictor) -> Predictor:
    """Return eˣ up to x = LARGEST_LOG_RATE, from there its second Taylor polynomial, so that nothing overflows."""
    over = jnp.maximum(x - LARGEST_LOG_RATE, 0)
    return jnp.exp(jnp.minimum(x, LARGEST_LOG_RATE)) * (1 + over + 0.5 * over * over)


@jax.custom_jvp
def softplus(x: Predictor) -> Predictor:
    """Return log(1 + eˣ), without overflow. Its derivative is σ(x): that of `jax.nn.softplus` keeps more arrays."""
    return jnp.maximum(x, 0) + jnp.log1p(jnp.exp(-jnp.abs(x)))


softplus.defjvps(lambda dx, _, x: jax.nn.sigmoid(x) * dx)
