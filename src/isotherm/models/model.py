"""A model is a predictor m(θ, x), a family and a Gaussian prior: what all models share, and two that take any family.

With m(θ, x) the predictor, log p(y|x, θ) = family.log_density(m(θ, x), y). Rows may have `codes` of levels beside x:
each level is then one more input, which is 1 in the rows that have it, and no matrix of zeros and ones is made.
"""

import functools
import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from isotherm.lib import arguments
from isotherm.lib.types import Array, Example, Float, Int, Number, Params, RandomKey, Scalar
from isotherm.models.families import Categorical, Family, Predictor

COUNTS = {"features": 1, "hidden": 1, "classes": 2, "levels": 0}  # fields that count, and the least of each
ACTIVATIONS = {"tanh": jnp.tanh, "relu": jax.nn.relu, "silu": jax.nn.silu}
PREDICT_BLOCK = 256  # rows predicted at once: a DRBM of 200 hidden units and 100 classes takes 20 MB for them


@dataclass(frozen=True)
class BoundMethod:
    """`model.name`, equal to the same method of any equal model; can be pickled whenever the model can."""

    model: object
    name: str

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.__wrapped__(*args, **kwargs)

    @property
    def __wrapped__(self) -> Callable[..., Any]:
        """The plain bound function: `inspect.signature` and `help` follow it."""
        bound: Callable[..., Any] = getattr(type(self.model), self.name).function.__get__(self.model)
        return bound

    @property
    def __name__(self) -> str:
        return self.name


class method:
    """Decorator: a method whose bound form compares by value.

    In Python `a.f == b.f` only where `a is b`, so the methods of two equal models differ, and a compiled function
    keyed on them would be compiled again. This one binds to an object that compares and hashes by (model, name).
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.__doc__ = function.__doc__

    def __get__(self, model: object, owner: type | None = None) -> Any:
        return self if model is None else BoundMethod(model, self.function.__name__)


class Model:
    """A predictor m(θ, x) and a family, with the prior N(0, prior_variance · I). Models are frozen dataclasses.

    An example is a dict with `x`, the numbers of one row, `y`, and, for models that take them, `codes`: which levels of
    its categories the row has, as indices into one vector of all levels; a negative code is no level.
    """

    features: int
    prior_variance: float
    if TYPE_CHECKING:  # a field of some models, and of others a property

        @property
        def family(self) -> Family: ...

    def _predictor(self, params: Params, example: Example) -> Predictor:
        """Return m(θ, x) for one example."""
        raise NotImplementedError

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the shape of each parameter; where "theta" is the only one, the parameters are that vector."""
        return {"theta": (self.features,)}

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if name == "features" and getattr(self, "levels", None):
                arguments.integer(name, value, 0)
            elif name in COUNTS:
                arguments.integer(name, value, COUNTS[name])
            else:
                arguments.positive(name, value)

    @method
    def init(self, key: RandomKey, scale: float = 0.1, dtype: jnp.dtype | None = None) -> Params:
        """Draw all entries from N(0, scale²)."""
        arguments.non_negative("scale", scale)
        shapes = self._shapes()
        keys = dict(zip(shapes, jax.random.split(key, len(shapes)), strict=True))
        drawn = {name: scale * jax.random.normal(keys[name], shape, dtype) for name, shape in shapes.items()}
        return drawn.get("theta", drawn)

    def zeros(self) -> dict[str, np.ndarray]:
        """Return parameters of which every entry is 0, as arrays of float32."""
        return {name: np.zeros(shape, np.float32) for name, shape in self._shapes().items()}

    @method
    def log_prior(self, params: Params) -> Scalar:
        """Return log N(θ; 0, σ² I) = −|θ|²/(2σ²) − (d/2) log(2πσ²), of all d entries; σ² = prior_variance."""
        return log_normal(params, self.prior_variance)

    @method
    def log_likelihood(self, params: Params, example: Example) -> Scalar:
        """Return log p(y|x) of the family at m(θ, x)."""
        return self.family.log_density(self._predictor(params, example), example["y"], params)

    @method
    def predictor(self, params: Params, x: ArrayLike) -> Predictor:
        """Return m(θ, x) for one input."""
        return self._predictor(params, {"x": x})

    @method
    def mean(self, params: Params, example: Example) -> Predictor:
        """Return E[y|x], or the probabilities of the classes."""
        return self.family.mean(self._predictor(params, example))

    @method
    def moments(self, params: Params, example: Example) -> dict[str, Predictor]:
        """Return mean and variance of y given x; of each class's indicator for classes."""
        predictor = self._predictor(params, example)
        return {"mean": self.family.mean(predictor), "variance": self.family.variance(predictor, params)}

    @method
    def predict(self, params: Params, x: ArrayLike) -> Float[Array, "m ..."]:
        """Return log-probabilities (m, classes), or the mean (m,), computed `PREDICT_BLOCK` rows at a time."""
        one = functools.partial(self.predictor, params)
        return self.family.prediction(jax.lax.map(one, like(params, x), batch_size=PREDICT_BLOCK))

    @method
    def class_index(self, y: ArrayLike) -> Int[Array, "..."]:
        """Return the column of `predict` for a label: the label itself."""
        return jnp.asarray(y, jnp.int32)


class ClassModel(Model):
    """A model of classes 0 … classes − 1."""

    classes: int

    @property
    def family(self) -> Family:
        return Categorical(self.classes)


def log_normal(params: Params, variance: float) -> Scalar:
    """Return log N(θ; 0, variance · I), of all d entries of the tree."""
    leaves = jax.tree.leaves(params)
    d = sum(leaf.size for leaf in leaves)
    square = sum(jnp.vdot(leaf, leaf) for leaf in leaves)
    return -square / (2 * variance) - 0.5 * d * math.log(2 * math.pi * variance)


def like(params: Params, x: ArrayLike) -> Array:
    """Return x in the dtype of the parameters."""
    return jnp.asarray(x, jax.tree.leaves(params)[0].dtype)


def linear(params: Params, name: str, example: Example) -> Predictor:
    """Return params[name] · x plus the effects of the row's `codes` (0 of a negative one), each if the model has it."""
    if "effects" not in params:
        return params[name] @ like(params, example["x"])
    effects, codes = params["effects"], example["codes"]
    there = (codes >= 0).astype(effects.dtype).reshape((-1,) + (1,) * (effects.ndim - 1))
    total = jnp.sum(there * effects[jnp.maximum(codes, 0)], axis=0)
    return total + params[name] @ like(params, example["x"]) if name in params else total


@dataclass(frozen=True)
class GeneralisedLinear(Model):
    """m(θ, x) = Wx + b, or w·x + b where the predictor is one number.

    Parameters `coef`, W by (…, features), ~ N(0, prior_variance); `effects` by (levels, …), added for the levels of a
    row, with the same prior; `intercept`, b, ~ N(0, intercept_variance), which is left out if that is 0; and those of
    the family. What all classes have in common, which changes no probability, is N(0, 1) if that is narrower.
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
