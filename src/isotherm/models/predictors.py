"""Models that make a predictor of x and leave the rest to a family (families.py): a linear one, and a network.

With m(θ, x) the predictor, log p(y|x, θ) = family.log_density(m(θ, x), y).
"""

import functools
import itertools
import math
from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from isotherm.lib import arguments
from isotherm.lib.types import Array, Example, Float, Int, Params, Scalar
from isotherm.models.families import Family, Predictor
from isotherm.models.model import PREDICT_BLOCK, Model, like, log_normal, method

ACTIVATIONS = {"tanh": jnp.tanh, "relu": jax.nn.relu, "silu": jax.nn.silu}


class WithFamily(Model):
    """Likelihood and predictions, from a predictor and a family."""

    family: Family

    def _predictor(self, params: Params, x: Float[Array, "features"]) -> Predictor:
        """m(θ, x) for one input."""
        raise NotImplementedError

    @method
    def predictor(self, params: Params, x: ArrayLike) -> Predictor:
        """m(θ, x) for one input."""
        return self._predictor(params, like(params, x))

    @method
    def log_likelihood(self, params: Params, example: Example) -> Scalar:
        """log p(y|x) of the family at m(θ, x)."""
        return self.family.log_density(self._predictor(params, like(params, example["x"])), example["y"], params)

    @method
    def predict(self, params: Params, x: ArrayLike) -> Float[Array, "m ..."]:
        """Log-probabilities (m, classes), or the mean (m,), `PREDICT_BLOCK` rows at a time."""
        one = functools.partial(self._predictor, params)
        return self.family.prediction(jax.lax.map(one, like(params, x), batch_size=PREDICT_BLOCK))

    @method
    def class_index(self, y: ArrayLike) -> Int[Array, "..."]:
        """The column of `predict` for a label: the label itself."""
        return jnp.asarray(y, jnp.int32)


@dataclass(frozen=True)
class GeneralisedLinear(WithFamily):
    """m(θ, x) = Wx + b, or w·x + b where the predictor is one number.

    Parameters `coef`, W by (…, features), ~ N(0, prior_variance); `intercept`, b, ~ N(0, intercept_variance), which is
    left out if that is 0; and those of the family. What all classes of `families.Categorical` have in common, which
    changes no probability, is N(0, 1) if that is narrower.
    """

    features: int
    family: Family
    prior_variance: float = 10.0
    intercept_variance: float = 100.0

    def __post_init__(self) -> None:
        arguments.integer("features", self.features, 1)
        arguments.positive("prior_variance", self.prior_variance)
        arguments.non_negative("intercept_variance", self.intercept_variance)

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        shape = self.family.shape
        intercept = {"intercept": shape} if self.intercept_variance else {}
        return {"coef": (*shape, self.features)} | intercept | self.family.shapes

    @method
    def log_prior(self, params: Params) -> Scalar:
        """Of W, of b, and of the family's own parameters."""
        value = self._of(params["coef"], self.prior_variance) + self.family.log_prior(params)
        return value + self._of(params["intercept"], self.intercept_variance) if "intercept" in params else value

    def _of(self, values: Array, variance: float) -> Scalar:
        return log_normal(values, variance) + self.family.unseen(values, variance)

    def _predictor(self, params: Params, x: Float[Array, "features"]) -> Predictor:
        value = params["coef"] @ x
        return value + params["intercept"] if "intercept" in params else value


@dataclass(frozen=True)
class Network(WithFamily):
    """m(θ, x) of hidden layers h ↦ φ(Wh/√n + b), n the length of h, and a linear last one, times `output_scale`.

    Parameters `W1`, `b1`, `W2`, … by layer, all ~ N(0, prior_variance): sums over a layer are of one size however wide
    it is; and those of the family.
    """

    features: int
    hidden: tuple[int, ...]
    family: Family
    activation: str = "tanh"
    prior_variance: float = 1.0
    output_scale: float = 1.0

    def __post_init__(self) -> None:
        arguments.integer("features", self.features, 1)
        for width in self.hidden:
            arguments.integer("hidden", width, 1)
        arguments.choice("activation", self.activation, ACTIVATIONS)
        arguments.positive("prior_variance", self.prior_variance)
        arguments.positive("output_scale", self.output_scale)

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        shapes: dict[str, tuple[int, ...]] = {}
        widths = [(self.features,), *((width,) for width in self.hidden), self.family.shape]
        for layer, (before, after) in enumerate(itertools.pairwise(widths), start=1):
            shapes |= {f"W{layer}": after + before, f"b{layer}": after}
        return shapes | self.family.shapes

    @method
    def log_prior(self, params: Params) -> Scalar:
        """Of weights and biases, and of the family's own parameters."""
        layers = {name: value for name, value in params.items() if name not in self.family.shapes}
        return log_normal(layers, self.prior_variance) + self.family.log_prior(params)

    def _predictor(self, params: Params, x: Float[Array, "features"]) -> Predictor:
        last = len(self.hidden) + 1
        for layer in range(1, last + 1):
            x = params[f"W{layer}"] @ x / math.sqrt(x.size) + params[f"b{layer}"]
            x = x if layer == last else ACTIVATIONS[self.activation](x)
        return self.output_scale * x


@dataclass(frozen=True)
class Weighted:
    """A model whose examples have a "weight", how often each counts."""

    model: Model

    @method
    def log_likelihood(self, params: Params, example: Example) -> Scalar:
        """The model's, times the weight."""
        return like(params, example["weight"]) * self.model.log_likelihood(params, example)
