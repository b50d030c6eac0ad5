"""Linear, logistic, Poisson and softmax regression, and softmax regression on hidden units, the two-layer network.

The parameters of `Linear`, `Logistic` and `Poisson` are one vector θ of length `features`. There is no intercept; for
one, add a column of ones to x, or use a `GeneralisedLinear`.
"""

import math
from dataclasses import dataclass

import jax.numpy as jnp
from jax.typing import ArrayLike

from isotherm.lib.types import Array, Example, Float, Int, Params, Scalar, Vector
from isotherm.models import families
from isotherm.models.model import Categorical, Model, like, method, softplus


@dataclass(frozen=True)
class Linear(Model):
    """Gaussian noise: y = θ·x + ε, ε ~ N(0, σ²)."""

    features: int
    noise_variance: float = 1.0
    prior_variance: float = 10.0

    @method
    def log_likelihood(self, params: Vector, example: Example) -> Scalar:
        """log N(y; θ·x, σ²) = −(y − θ·x)²/(2σ²) − ½ log(2πσ²), σ² = noise_variance."""
        residual = like(params, example["y"]) - jnp.dot(like(params, example["x"]), params)
        return -(residual**2) / (2 * self.noise_variance) - 0.5 * math.log(2 * math.pi * self.noise_variance)

    @method
    def predict(self, params: Vector, x: ArrayLike) -> Float[Array, "m"]:
        """The mean θ·x of each row of x."""
        return like(params, x) @ params


@dataclass(frozen=True)
class Logistic(Model):
    """Labels y = ±1: p(y|x, θ) = 1/(1 + exp(−y θ·x))."""

    features: int
    prior_variance: float = 10.0

    @method
    def log_likelihood(self, params: Vector, example: Example) -> Scalar:
        """log σ(y θ·x) = −softplus(−y θ·x), y = ±1."""
        return -softplus(-like(params, example["y"]) * jnp.dot(like(params, example["x"]), params))

    @method
    def predict(self, params: Vector, x: ArrayLike) -> Float[Array, "m 2"]:
        """Log-probabilities of y = −1 (first column) and y = +1 (second column)."""
        z = like(params, x) @ params
        return -softplus(jnp.stack([z, -z], axis=1))

    @method
    def class_index(self, y: ArrayLike) -> Int[Array, "..."]:
        """The column of `predict` for a label: 0 for −1, 1 for +1."""
        return (jnp.asarray(y) > 0).astype(jnp.int32)


@dataclass(frozen=True)
class Poisson(Model):
    """Counts y = 0, 1, 2, … ~ Poisson(λ), λ = exp(θ·x)."""

    features: int
    prior_variance: float = 10.0

    @method
    def log_likelihood(self, params: Vector, example: Example) -> Scalar:
        """log Poisson(y; λ) = y log λ − λ − log y!"""
        return families.Poisson().log_density(jnp.dot(like(params, example["x"]), params), example["y"])

    @method
    def predict(self, params: Vector, x: ArrayLike) -> Float[Array, "m"]:
        """The rate λ of each row of x."""
        return families.Poisson().mean(like(params, x) @ params)


@dataclass(frozen=True)
class Softmax(Categorical):
    """Multinomial logistic regression, log p(y|x) = a_y − logsumexp(a), a = Wx + b.

    Parameters `W` (classes, features) and `b` (classes,); labels are 0 … classes − 1.
    """

    features: int
    classes: int
    prior_variance: float = 10.0

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        return {"W": (self.classes, self.features), "b": (self.classes,)}

    def _logits(self, params: Params, x: Float[Array, "features"]) -> Float[Array, "classes"]:
        return params["W"] @ x + params["b"]


@dataclass(frozen=True)
class MLP(Categorical):
    """Two-layer network: log p(y|x) = a_y − logsumexp(a), a = W₂ tanh(W₁x + b₁) + b₂.

    Parameters `W1` (hidden, features), `b1` (hidden,), `W2` (classes, hidden), `b2` (classes,); labels are
    0 … classes − 1.
    """

    features: int
    hidden: int
    classes: int
    prior_variance: float = 10.0

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        f, h, k = self.features, self.hidden, self.classes
        return {"W1": (h, f), "b1": (h,), "W2": (k, h), "b2": (k,)}

    def _logits(self, params: Params, x: Float[Array, "features"]) -> Float[Array, "classes"]:
        return params["W2"] @ jnp.tanh(params["W1"] @ x + params["b1"]) + params["b2"]
