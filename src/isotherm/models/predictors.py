"""Models that make a predictor of x and leave the rest to a family (families.py): a linear one, and a network.

With m(θ, x) the predictor, log p(y|x, θ) = family.log_density(m(θ, x), y). Rows may have `codes` of levels beside x:
each level is then one more input, which is 1 in the rows that have it, and no matrix of zeros and ones is made.
"""

import itertools
import math
from dataclasses import dataclass

import jax
import jax.numpy as jnp

from isotherm.lib import arguments
from isotherm.lib.types import Array, Example, Number, Params, Scalar
from isotherm.models.families import Family, Predictor
from isotherm.models.model import Model, like, linear, log_normal, method

ACTIVATIONS = {"tanh": jnp.tanh, "relu": jax.nn.relu, "silu": jax.nn.silu}


@dataclass(frozen=True)
class GeneralisedLinear(Model):
    """m(θ, x) = Wx + b, or w·x + b where the predictor is one number.

    Parameters `coef`, W by (…, features), ~ N(0, prior_variance); `effects` by (levels, …), added for the levels of a
    row, with the same prior; `intercept`, b, ~ N(0, intercept_variance), which is left out if that is 0; and those of
    the family. What all classes of `families.Categorical` have in common, which changes no probability, is N(0, 1) if
    that is narrower.
    """

    features: int
    family: Family
    prior_variance: float = 10.0
    intercept_variance: float = 100.0
    levels: int = 0

    def __post_init__(self) -> None:
        arguments.integer("features", self.features, 0 if self.levels else 1)
        arguments.positive("prior_variance", self.prior_variance)
        arguments.non_negative("intercept_variance", self.intercept_variance)

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        shape = self.family.shape
        coef = {"coef": (*shape, self.features)} if self.features else {}
        intercept = {"intercept": shape} if self.intercept_variance else {}
        effects = {"effects": (self.levels, *shape)} if self.levels else {}
        return coef | intercept | effects | self.family.shapes

    @method
    def log_prior(self, params: Params) -> Number:
        """Return the log prior of W, of b, and of the family's own parameters."""
        value = self.family.log_prior(params)
        if "coef" in params:
            value = self._of(params["coef"], self.prior_variance) + value
        if "effects" in params:
            value = value + self._of(params["effects"].T, self.prior_variance)
        return value + self._of(params["intercept"], self.intercept_variance) if "intercept" in params else value

    def _of(self, values: Array, variance: float) -> Scalar:
        return log_normal(values, variance) + self.family.unseen(values, variance)

    def _predictor(self, params: Params, example: Example) -> Predictor:
        value = linear(params, "coef", example)
        return value + params["intercept"] if "intercept" in params else value


@dataclass(frozen=True)
class Network(Model):
    """m(θ, x) of hidden layers h ↦ φ(Wh/√n + b), n the length of h, and a linear last one, times `output_scale`.

    Parameters `W1`, `b1`, `W2`, … by layer, and `effects` of levels on the first, all ~ N(0, prior_variance): sums over
    a layer are of one size however wide it is; and those of the family.
    """

    features: int
    hidden: tuple[int, ...]
    family: Family
    activation: str = "tanh"
    prior_variance: float = 1.0
    output_scale: float = 1.0
    levels: int = 0

    def __post_init__(self) -> None:
        arguments.integer("features", self.features, 0 if self.levels else 1)
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
        shapes |= {"effects": (self.levels, *widths[1])}
        return {name: shape for name, shape in shapes.items() if 0 not in shape} | self.family.shapes

    @method
    def log_prior(self, params: Params) -> Scalar:
        """Return the log prior of weights and biases, and of the family's own parameters."""
        layers = {name: value for name, value in params.items() if name not in self.family.shapes}
        return log_normal(layers, self.prior_variance) + self.family.log_prior(params)

    def _predictor(self, params: Params, example: Example) -> Predictor:
        inputs = self.features + (example["codes"].size if self.levels else 0)
        x = linear(params, "W1", example) / math.sqrt(inputs) + params["b1"]
        for layer in range(2, len(self.hidden) + 2):
            x = ACTIVATIONS[self.activation](x)
            x = params[f"W{layer}"] @ x / math.sqrt(x.size) + params[f"b{layer}"]
        return self.output_scale * x


@dataclass(frozen=True)
class Weighted:
    """A model whose examples have a "weight": how often each counts."""

    model: Model

    @method
    def log_likelihood(self, params: Params, example: Example) -> Scalar:
        """Return the model's, times the weight."""
        return like(params, example["weight"]) * self.model.log_likelihood(params, example)
