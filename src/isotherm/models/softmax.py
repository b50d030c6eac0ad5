"""Softmax (multinomial logistic) regression: log p(y|x) = a_y − logsumexp(a), a = Wx + b."""

from dataclasses import dataclass

from jaxtyping import Array, Float

from isotherm.models.model import Categorical
from isotherm.types import Params


@dataclass(frozen=True)
class Softmax(Categorical):
    """Parameters `W` (classes, features) and `b` (classes,); labels are 0 … classes − 1."""

    features: int
    classes: int
    prior_variance: float = 10.0

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        return {"W": (self.classes, self.features), "b": (self.classes,)}

    def _logits(self, params: Params, x: Float[Array, "features"]) -> Float[Array, "classes"]:
        return params["W"] @ x + params["b"]
