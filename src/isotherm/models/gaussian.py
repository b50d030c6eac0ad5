"""What the models share: the Gaussian prior N(0, σ² I) and a Gaussian start."""

import math

import jax
import jax.numpy as jnp
from jaxtyping import Array

from isotherm import arguments
from isotherm.types import Params, RandomKey, Scalar


def log_prior(params: Params, variance: float) -> Scalar:
    """log N(θ; 0, σ² I) = −|θ|²/(2σ²) − (d/2) log(2πσ²), over all leaves of the tree."""
    leaves = jax.tree.leaves(params)
    d = sum(leaf.size for leaf in leaves)
    square = sum(jnp.vdot(leaf, leaf) for leaf in leaves)
    return -square / (2 * variance) - 0.5 * d * math.log(2 * math.pi * variance)


def draw(key: RandomKey, shapes: dict[str, tuple[int, ...]], scale: float, dtype: jnp.dtype | None) -> dict[str, Array]:
    """Independent N(0, scale²) entries, one array a name."""
    arguments.non_negative("scale", scale)
    keys = jax.random.split(key, len(shapes))
    return {
        name: scale * jax.random.normal(k, shape, dtype) for k, (name, shape) in zip(keys, shapes.items(), strict=True)
    }
