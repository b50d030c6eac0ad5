"""Logistic regression for y = ±1: p(y|x, θ) = 1/(1 + exp(−y θ·x))."""

from dataclasses import dataclass

import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Int

from isotherm import arguments
from isotherm.models import gaussian
from isotherm.models.activation import softplus
from isotherm.models.method import method
from isotherm.types import Example, RandomKey, Scalar, Vector


@dataclass(frozen=True)
class Logistic:
    """θ is one vector of length `features`; no intercept: add a column of ones to x if you want one."""

    features: int
    prior_variance: float = 10.0

    def __post_init__(self) -> None:
        arguments.integer("features", self.features, 1)
        arguments.positive("prior_variance", self.prior_variance)

    @method
    def init(self, key: RandomKey, scale: float = 0.1, dtype: jnp.dtype | None = None) -> Vector:
        """θ ~ N(0, scale² I)."""
        return gaussian.draw(key, {"theta": (self.features,)}, scale, dtype)["theta"]

    @method
    def log_likelihood(self, params: Vector, example: Example) -> Scalar:
        """log σ(y θ·x) = −softplus(−y θ·x), y = ±1."""
        x, y = (jnp.asarray(example[name], params.dtype) for name in ("x", "y"))
        return -softplus(-y * jnp.dot(x, params))

    @method
    def log_prior(self, params: Vector) -> Scalar:
        """log N(θ; 0, prior_variance · I)."""
        return gaussian.log_prior(params, self.prior_variance)

    @method
    def predict(self, params: Vector, x: ArrayLike) -> Float[Array, "m 2"]:
        """Log-probabilities of y = −1 (first column) and y = +1 (second column)."""
        z = jnp.asarray(x, params.dtype) @ params
        return -softplus(jnp.stack([z, -z], axis=1))

    @method
    def class_index(self, y: ArrayLike) -> Int[Array, "..."]:
        """The column of `predict` for a label: 0 for −1, 1 for +1."""
        return (jnp.asarray(y) > 0).astype(jnp.int32)
