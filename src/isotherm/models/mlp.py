"""A two-layer network as a classifier: a = W₂ tanh(W₁x + b₁) + b₂, log p(y|x) = a_y − logsumexp(a)."""

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
class MLP:
    """Parameters `W1` (hidden, features), `b1` (hidden,), `W2` (classes, hidden), `b2` (classes,).

    Labels are 0 … classes − 1.
    """

    features: int
    hidden: int
    classes: int
    prior_variance: float = 10.0

    def __post_init__(self) -> None:
        arguments.integer("features", self.features, 1)
        arguments.integer("hidden", self.hidden, 1)
        arguments.integer("classes", self.classes, 2)
        arguments.positive("prior_variance", self.prior_variance)

    @method
    def init(self, key: RandomKey, scale: float = 0.1, dtype: jnp.dtype | None = None) -> dict[str, Array]:
        """All entries ~ N(0, scale²)."""
        f, h, k = self.features, self.hidden, self.classes
        return gaussian.draw(key, {"W1": (h, f), "b1": (h,), "W2": (k, h), "b2": (k,)}, scale, dtype)

    @method
    def log_likelihood(self, params: Params, example: Example) -> Scalar:
        """a_y − logsumexp(a), a = W₂ tanh(W₁x + b₁) + b₂."""
        x = jnp.asarray(example["x"], params["W1"].dtype)
        a = params["W2"] @ jnp.tanh(params["W1"] @ x + params["b1"]) + params["b2"]
        return a[example["y"]] - jax.nn.logsumexp(a)

    @method
    def log_prior(self, params: Params) -> Scalar:
        """log N(θ; 0, prior_variance · I)."""
        return gaussian.log_prior(params, self.prior_variance)

    @method
    def predict(self, params: Params, x: ArrayLike) -> Float[Array, "m classes"]:
        """Log-probabilities of each row's classes."""
        x = jnp.asarray(x, params["W1"].dtype)
        hidden = jnp.tanh(x @ params["W1"].T + params["b1"][None, :])
        return jax.nn.log_softmax(hidden @ params["W2"].T + params["b2"][None, :])

    @method
    def class_index(self, y: ArrayLike) -> Int[Array, "..."]:
        """The column of `predict` for a label: the label itself."""
        return jnp.asarray(y, jnp.int32)
