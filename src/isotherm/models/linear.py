"""Linear regression with Gaussian noise: y = θ·x + ε, ε ~ N(0, σ²)."""

import math
from dataclasses import dataclass

import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from isotherm.models.method import method
from isotherm.models.model import OneVector, like
from isotherm.types import Example, Scalar, Vector


@dataclass(frozen=True)
class Linear(OneVector):
    """Parameters: one vector θ of length `features`. There is no intercept; for one, add a column of ones to x."""

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
