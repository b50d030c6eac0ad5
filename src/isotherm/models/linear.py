"""Linear regression with Gaussian noise: y = θ·x + ε, ε ~ N(0, σ²)."""

import math
from dataclasses import dataclass

import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from isotherm import arguments
from isotherm.models import gaussian
from isotherm.models.method import method
from isotherm.types import Example, RandomKey, Scalar, Vector


@dataclass(frozen=True)
class Linear:
    """θ is one vector of length `features`; no intercept: add a column of ones to x if you want one."""

    features: int
    noise_variance: float = 1.0
    prior_variance: float = 10.0

    def __post_init__(self) -> None:
        arguments.integer("features", self.features, 1)
        arguments.positive("noise_variance", self.noise_variance)
        arguments.positive("prior_variance", self.prior_variance)

    @method
    def init(self, key: RandomKey, scale: float = 0.1, dtype: jnp.dtype | None = None) -> Vector:
        """θ ~ N(0, scale² I)."""
        return gaussian.draw(key, {"theta": (self.features,)}, scale, dtype)["theta"]

    @method
    def log_likelihood(self, params: Vector, example: Example) -> Scalar:
        """log N(y; θ·x, σ²) = −(y − θ·x)²/(2σ²) − ½ log(2πσ²)."""
        x, y = (jnp.asarray(example[name], params.dtype) for name in ("x", "y"))
        residual = y - jnp.dot(x, params)
        return -(residual**2) / (2 * self.noise_variance) - 0.5 * math.log(2 * math.pi * self.noise_variance)

    @method
    def log_prior(self, params: Vector) -> Scalar:
        """log N(θ; 0, prior_variance · I)."""
        return gaussian.log_prior(params, self.prior_variance)

    @method
    def predict(self, params: Vector, x: ArrayLike) -> Float[Array, "m"]:
        """The mean θ·x of each row of x."""
        return jnp.asarray(x, params.dtype) @ params
