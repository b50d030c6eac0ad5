"""Linear, logistic, Poisson and softmax regression, and softmax regression on hidden units, the two-layer network.

The parameters of `Linear`, `Logistic` and `Poisson` are one vector θ of length `features`. There is no intercept; for
one, add a column of ones to x, or use a `GeneralisedLinear`.
"""

from dataclasses import dataclass

import jax.numpy as jnp
from jax.typing import ArrayLike

from isotherm.lib.types import Array, Example, Int, Params, Scalar, Vector
from isotherm.models.families import Bernoulli, Family, KnownNoise, Poisson, Predictor, softplus
from isotherm.models.model import ClassModel, Model, like, method


class Plain(Model):
    """The predictor θ·x."""

    def _predictor(self, params: Vector, example: Example) -> Predictor:
        return jnp.dot(like(params, example["x"]), params)


@dataclass(frozen=True)
class Linear(Plain):
    """Gaussian noise: y = θ·x + ε, ε ~ N(0, σ²)."""

    features: int
    noise_variance: float = 1.0
    prior_variance: float = 10.0

    @property
    def family(self) -> Family:
        return KnownNoise(self.noise_variance)


@dataclass(frozen=True)
class Logistic(Plain):
    """Labels y = ±1: p(y|x, θ) = 1/(1 + exp(−y θ·x)). `predict` has −1 in the first column and +1 in the second."""

    features: int
    prior_variance: float = 10.0
    family = Bernoulli()

    @method
    def log_likelihood(self, params: Vector, example: Example) -> Scalar:
        """Return log σ(y θ·x) = −softplus(−y θ·x), y = ±1."""
        return -softplus(-like(params, example["y"]) * self._predictor(params, example))

    @method
    def class_index(self, y: ArrayLike) -> Int[Array, "..."]:
        """Return the column of `predict` for a label: 0 for −1, 1 for +1."""
        return (jnp.asarray(y) > 0).astype(jnp.int32)


@dataclass(frozen=True)
class PoissonRegression(Plain):
    """Counts y = 0, 1, 2, … ~ Poisson(λ), λ = exp(θ·x)."""

    features: int
    prior_variance: float = 10.0
    family = Poisson()


@dataclass(frozen=True)
class Softmax(ClassModel):
    """Multinomial logistic regression, log p(y|x) = a_y − logsumexp(a), a = Wx + b.

    Parameters `W` (classes, features) and `b` (classes,); labels are 0 … classes − 1.
    """

    features: int
    classes: int
    prior_variance: float = 10.0

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        return {"W": (self.classes, self.features), "b": (self.classes,)}

    def _predictor(self, params: Params, example: Example) -> Predictor:
        return params["W"] @ like(params, example["x"]) + params["b"]


@dataclass(frozen=True)
class MLP(ClassModel):
    """Two-layer network: log p(y|x) = a_y − logsumexp(a), a = W₂ tanh(W₁x + b₁) + b₂.

    Parameters `W1` (hidden, features), `b1` (hidden,), `W2` (classes, hidden), `b2` (classes,); labels 0 … classes − 1.
    """

    features: int
    hidden: int
    classes: int
    prior_variance: float = 10.0

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        f, h, k = self.features, self.hidden, self.classes
        return {"W1": (h, f), "b1": (h,), "W2": (k, h), "b2": (k,)}

    def _predictor(self, params: Params, example: Example) -> Predictor:
        x = like(params, example["x"])
        return params["W2"] @ jnp.tanh(params["W1"] @ x + params["b1"]) + params["b2"]
