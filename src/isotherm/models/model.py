"""What the models share: methods that compare by value, checked fields, the Gaussian prior, a Gaussian start, and the
likelihood that logits give."""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from isotherm.lib import arguments
from isotherm.lib.types import Array, Example, Float, Int, Params, RandomKey, Scalar

LEAST = {"features": 1, "hidden": 1, "classes": 2}  # the fields that count something; all others are variances
PREDICT_BLOCK = 256  # rows predicted at once: a DRBM of 200 hidden units and 100 classes takes 20 MB for them


@dataclass(frozen=True)
class BoundMethod:
    """`model.name`, equal to the same method of any equal model; can be pickled whenever the model can."""

    model: Any
    name: str

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.__wrapped__(*args, **kwargs)

    @property
    def __wrapped__(self) -> Callable[..., Any]:
        """The plain bound function: `inspect.signature` and `help` follow it."""
        return getattr(type(self.model), self.name).function.__get__(self.model)

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

    def __get__(self, model: Any, owner: type | None = None) -> Any:
        return self if model is None else BoundMethod(model, self.function.__name__)


class Model:
    """The prior N(0, prior_variance · I). A model derives from this and is a frozen dataclass."""

    features: int
    prior_variance: float
    log_likelihood: Any

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if name in LEAST:
                arguments.integer(name, value, LEAST[name])
            else:
                arguments.positive(name, value)

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of each parameter; where "theta" is the only one, the parameters are that vector, no dict."""
        return {"theta": (self.features,)}

    @method
    def init(self, key: RandomKey, scale: float = 0.1, dtype: jnp.dtype | None = None) -> Params:
        """All entries ~ N(0, scale²)."""
        arguments.non_negative("scale", scale)
        shapes = self._shapes()
        keys = dict(zip(shapes, jax.random.split(key, len(shapes)), strict=True))
        drawn = {name: scale * jax.random.normal(keys[name], shape, dtype) for name, shape in shapes.items()}
        return drawn.get("theta", drawn)

    @method
    def log_prior(self, params: Params) -> Scalar:
        """log N(θ; 0, σ² I) = −|θ|²/(2σ²) − (d/2) log(2πσ²), over all d entries of the tree; σ² = prior_variance."""
        return log_normal(params, self.prior_variance)


class Categorical(Model):
    """Labels 0 … classes − 1, told apart by logits: log p(y|x) = a_y − logsumexp(a), a = a(θ, x)."""

    def _logits(self, params: Params, x: Float[Array, "features"]) -> Float[Array, "classes"]:
        """a(θ, x) for one input."""
        raise NotImplementedError

    @method
    def log_likelihood(self, params: Params, example: Example) -> Scalar:
        """log p(y|x) = a_y − logsumexp(a)."""
        a = self._logits(params, like(params, example["x"]))
        return a[example["y"]] - jax.nn.logsumexp(a)

    @method
    def predict(self, params: Params, x: ArrayLike) -> Float[Array, "m classes"]:
        """Log-probabilities of each row's classes, computed `PREDICT_BLOCK` rows at a time."""
        one = functools.partial(self._logits, params)
        return jax.nn.log_softmax(jax.lax.map(one, like(params, x), batch_size=PREDICT_BLOCK))

    @method
    def class_index(self, y: ArrayLike) -> Int[Array, "..."]:
        """The column of `predict` for a label: the label itself."""
        return jnp.asarray(y, jnp.int32)


def log_normal(params: Params, variance: float) -> Scalar:
    """log N(θ; 0, variance · I), over all d entries of the tree."""
    leaves = jax.tree.leaves(params)
    d = sum(leaf.size for leaf in leaves)
    square = sum(jnp.vdot(leaf, leaf) for leaf in leaves)
    return -square / (2 * variance) - 0.5 * d * math.log(2 * math.pi * variance)


def like(params: Params, x: ArrayLike) -> Array:
    """x in the dtype of the parameters."""
    return jnp.asarray(x, jax.tree.leaves(params)[0].dtype)


@jax.custom_jvp
def softplus(x: Float[Array, "..."]) -> Float[Array, "..."]:
    """log(1 + eˣ), without overflow; its derivative is the logistic function.

    `jax.nn.softplus` differentiates through `logaddexp`, which keeps more arrays than σ(x) alone.
    """
    return jnp.maximum(x, 0) + jnp.log1p(jnp.exp(-jnp.abs(x)))


softplus.defjvps(lambda dx, _, x: jax.nn.sigmoid(x) * dx)
