"""What a case of the zoo is, the list of all of them, and the made-up data they share."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import isotherm

COVARIANCE_SAMPLERS = ("msgld", "ccadl", "mccadl", "eccadl")  # those that need two examples in a batch


class Case(NamedTuple):
    """A model with what `isotherm.sample` is called with.

    `expected` is "runs" or "refused" (a ValueError or TypeError of isotherm's that names an argument). The samplers in
    `refused_by` refuse a case that otherwise runs.
    """

    posterior: isotherm.Posterior
    data: Any
    init: Any
    batch_size: int = 20
    expected: str = "runs"
    replace: bool = True
    step_size: Any = None
    mass: Any = None
    refused_by: tuple[str, ...] = ()


MODELS: dict[str, Callable[[], Case]] = {}


def model(make: Callable[[], Case]) -> Callable[[], Case]:
    """Put a function that makes a case on the list, under its own name."""
    name = make.__name__
    if name in MODELS:
        raise ValueError(f"two models are named {name}")
    MODELS[name] = make
    return make


def runs_only_with(*, x64: bool) -> str:
    """What is expected of a case that is refused in the other precision."""
    return "runs" if jax.config.jax_enable_x64 == x64 else "refused"


def normal_prior(params: Any) -> Any:
    return -0.5 * sum(jnp.sum(jnp.square(leaf)) for leaf in jax.tree.leaves(params))


def gaussian(mean: Any, y: Any) -> Any:
    return -0.5 * (y - mean) ** 2


def normals(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def uniforms(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(0.05, 0.95, shape).astype(np.float32)


def integers(high: int, *shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, high, shape)


def regression(rows: int = 200, columns: int = 4) -> dict[str, np.ndarray]:
    x = normals(rows, columns)
    return {"x": x, "y": x @ np.linspace(-1, 1, columns, dtype=np.float32) + normals(rows, seed=1)}


def classes(rows: int = 200, columns: int = 4, number: int = 2) -> dict[str, np.ndarray]:
    return {"x": normals(rows, columns), "y": integers(number, rows, seed=1)}


def counts(rows: int = 200, columns: int = 4) -> dict[str, np.ndarray]:
    return {"x": 0.3 * normals(rows, columns), "y": np.random.default_rng(1).poisson(2.0, rows)}
