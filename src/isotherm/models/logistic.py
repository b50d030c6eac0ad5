"""Logistic regression for y = ±1: p(y|x, θ) = 1/(1 + exp(−y θ·x))."""

from dataclasses import dataclass

import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Int

from isotherm.models.activation import softplus
from isotherm.models.method import method
from isotherm.models.model import OneVector, like
from isotherm.types import Example, Scalar, Vector


@dataclass(frozen=True)
class Logistic(OneVector):
    """Parameters: one vector θ of length `features`. There is no intercept; for one, add a column of ones to x."""

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
