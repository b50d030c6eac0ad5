"""A two-layer network as a classifier: a = W₂ tanh(W₁x + b₁) + b₂, log p(y|x) = a_y − logsumexp(a)."""

from dataclasses import dataclass

import jax.numpy as jnp
from jaxtyping import Array, Float

from isotherm.models.model import Categorical
from isotherm.types import Params


@dataclass(frozen=True)
class MLP(Categorical):
    """Parameters `W1` (hidden, features), `b1` (hidden,), `W2` (classes, hidden), `b2` (classes,).

    Labels are 0 … classes − 1.
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
