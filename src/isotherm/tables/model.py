"""A posterior over the columns of a table: numbers with slopes, levels with effects, and what family the target is of.

    predictor = intercept + slopes · numbers + Σ_c effects[code_c]

A level is an index into one vector of effects; no matrix of rows by levels is formed. `mlp` puts a layer of tanh units
between, and `drbm` the hidden units of a discriminative Boltzmann machine, which are fed the same way.

Priors: slopes and effects N(0, prior_scale²), for standardised numbers; intercepts N(base, 2.5²), where `base` is the
predictor of the average row. Weights of networks are N(0, 4 prior_scale²/fan-in). What all classes have in common,
which changes no probability, is N(0, 1) if that is narrower.
"""

import math
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np

from isotherm.lib.types import Array, Example, Float, Params, Scalar
from isotherm.models import families
from isotherm.models.families import Family
from isotherm.models.model import method, softplus
from isotherm.posterior import Posterior
from isotherm.tables.recipe import Recipe

INTERCEPT_SCALE = 2.5
Output = Float[Array, "..."]


@dataclass(frozen=True)
class TableModel:
    """Two built with the same arguments are equal, and so are their methods.

    `numbers`, `columns` and `levels` are how many numbers, columns of levels, and levels in all a row has; `hidden`
    units are those of a network (`machine` False) or a Boltzmann machine (True).
    """

    family: Family
    numbers: int
    columns: int
    levels: int
    base: tuple[float, ...]
    prior_scale: float = 1.0
    hidden: int = 0
    machine: bool = False

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        out = (self.hidden,) if self.hidden else self.family.shape
        shapes: dict[str, tuple[int, ...]] = {"intercept": out}
        if self.numbers:
            shapes["slopes"] = (*out, self.numbers)
        if self.levels:
            shapes["effects"] = (self.levels, *out)
        if self.hidden:
            shapes |= {"out": (*self.family.shape, self.hidden), "bias": self.family.shape}
        return shapes | self.family.shapes

    @property
    def scales(self) -> dict[str, float]:
        """Standard deviations of the priors."""
        if not self.hidden:
            return {"intercept": INTERCEPT_SCALE, "slopes": self.prior_scale, "effects": self.prior_scale}
        inner = 2 * self.prior_scale / math.sqrt(max(self.numbers + self.columns, 1))
        outer = 2 * self.prior_scale / math.sqrt(self.hidden)
        return {"intercept": 1.0, "slopes": inner, "effects": inner, "out": outer, "bias": INTERCEPT_SCALE}

    def init(self, seed: int = 0) -> Params:
        """The average row's predictor; a network's weights are draws from the prior."""
        rng, centre = np.random.default_rng(seed), "bias" if self.hidden else "intercept"
        params = {name: np.zeros(shape, np.float32) for name, shape in self.shapes.items()}
        if self.hidden:
            for name in params.keys() & {"intercept", "slopes", "effects", "out"}:
                params[name] = (self.scales[name] * rng.standard_normal(self.shapes[name])).astype(np.float32)
        params[centre] = np.asarray(self.base, np.float32).reshape(self.family.shape)
        return params

    @method
    def predictor(self, params: Params, example: Example) -> Output:
        """The predictor of one row."""
        inner = params["intercept"]
        if self.numbers:
            inner = inner + params["slopes"] @ example["numbers"].astype(inner.dtype)
        if self.levels:
            codes = example["codes"]
            there = (codes >= 0).astype(inner.dtype).reshape((-1,) + (1,) * inner.ndim)
            inner = inner + jnp.sum(there * params["effects"][jnp.maximum(codes, 0)], axis=0)
        if not self.hidden:
            return inner
        if self.machine:  # log Σ_h exp(…) of the hidden units, for each class
            return params["bias"] + jnp.sum(softplus(inner[None, :] + params["out"]), axis=1)
        return params["bias"] + params["out"] @ jnp.tanh(inner)

    @method
    def log_likelihood(self, params: Params, example: Example) -> Scalar:
        return self.family.log_density(self.predictor(params, example), example["y"], params)

    @method
    def log_prior(self, params: Params) -> Scalar:
        centre = "bias" if self.hidden else "intercept"
        base = jnp.asarray(self.base, params[centre].dtype).reshape(self.family.shape)
        total = jnp.asarray(self.family.log_prior(params), base.dtype)
        for name, scale in self.scales.items():
            if name in params:
                values = params[name] - base if name == centre else params[name]
                total = total - 0.5 * jnp.sum(values * values) / scale**2
                if name == centre or not self.hidden:
                    by_class = values.T if name == "effects" else values
                    total = total + self.family.unseen(by_class, scale**2)
        return total

    @method
    def mean(self, params: Params, example: Example) -> Output:
        """E[y] of one row, or the probabilities of its classes."""
        return self.family.mean(self.predictor(params, example))

    def posterior(self) -> Posterior:
        return Posterior(self.log_likelihood, self.log_prior)


def of(recipe: Recipe) -> TableModel:
    target = recipe.target
    family: Any = families.Categorical(len(target.classes)) if target.family == "categorical" else {
        "gaussian": families.Gaussian, "bernoulli": families.Bernoulli, "poisson": families.Poisson
    }[target.family]()  # fmt: skip
    hidden = recipe.hidden if recipe.model in ("drbm", "mlp") else 0
    return TableModel(
        family,
        len(recipe.inputs),
        len(recipe.levels),
        recipe.offsets[-1],
        target.base,
        recipe.prior_scale,
        hidden,
        recipe.model == "drbm",
    )
