"""Softmax (multinomial logistic) regression: log p(y|x) = a_y − logsumexp(a), a = Wx + b."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Int

from isotherm import arguments
from isotherm.models import gaussian
from isotherm.models.method import method
from isotherm.types import Example, Params, RandomKey, Scalar


@dataclass(frozen=True)
class Softmax:
    """Parameters `W` (classes, features) and `b` (classes,); labels are 0 … classes − 1."""

    features: int
    classes: int
    prior_variance: float = 10.0

    def __post_init__(self) -> None:
        arguments.integer("features", self.features, 1)
        arguments.integer("classes", self.classes, 2)
        arguments.positive("prior_variance", self.prior_variance)

    @method
    def init(self, key: RandomKey, scale: float = 0.1, dtype: jnp.dtype | None = None) -> dict[str, Array]:
        """All entries ~ N(0, scale²)."""
        return gaussian.draw(key, {"W": (self.classes, self.features), "b": (self.classes,)}, scale, dtype)

    @method
    def log_likelihood(self, params: Params, example: Example) -> Scalar:
        """a_y − logsumexp(a), a = Wx + b."""
        a = params["W"] @ jnp.asarray(example["x"], params["W"].dtype) + params["b"]
        return a[example["y"]] - jax.nn.logsumexp(a)

    @method
    def log_prior(self, params: Params) -> Scalar:
        """log N(θ; 0, prior_variance · I)."""
        return gaussian.log_prior(params, self.prior_variance)

    @method
    def predict(self, params: Params, x: ArrayLike) -> Float[Array, "m classes"]:
        """Log-probabilities of each row's classes."""
        a = jnp.asarray(x, params["W"].dtype) @ params["W"].T + params["b"][None, :]
        return jax.nn.log_softmax(a)

    @method
    def class_index(self, y: ArrayLike) -> Int[Array, "..."]:
        """The column of `predict` for a label: the label itself."""
        return jnp.asarray(y, jnp.int32)
