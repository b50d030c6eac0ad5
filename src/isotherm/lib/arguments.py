"""Argument checks: each names the argument, the value it got and what would be right."""

import math
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, TypeVar

import jax
import numpy as np
from jax.flatten_util import ravel_pytree

T = TypeVar("T")
Argument: TypeAlias = Any  # what a user gave, of whatever type


def number(name: str, value: Argument) -> float:
    """Return `value` as a finite float."""
    try:
        result = None if isinstance(value, bool | str) or np.ndim(value) != 0 else float(value)
    except OverflowError:  # an integer beyond all floats
        result = math.inf
    except (TypeError, ValueError):
        result = None
    if result is None:
        raise TypeError(f"{name} must be a number, got {value!r}")
    if not math.isfinite(result):
        raise ValueError(f"{name} must be finite, got {value!r}")
    return result


def positive(name: str, value: Argument) -> float:
    if (result := number(name, value)) <= 0:
        raise ValueError(f"{name} must be positive, got {value!r}")
    return result


def non_negative(name: str, value: Argument) -> float:
    if (result := number(name, value)) < 0:
        raise ValueError(f"{name} must not be negative, got {value!r}; zero is allowed")
    return result


def integer(name: str, value: Argument, least: int, most: int | None = None) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise TypeError(f"{name} must be an integer, got {value!r}")
    if value < least:
        raise ValueError(f"{name} must be at least {least}, got {value}")
    if most is not None and value > most:
        raise ValueError(f"{name} must be at most {most}, got {value}")
    return int(value)


def choice(name: str, value: Argument, allowed: tuple[str, ...] | Mapping[str, object]) -> str:
    if not isinstance(value, str) or value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, allowed))}, got {value!r}")
    return str(value)


def unless_auto(name: str, value: Argument, check: Callable[..., T], *bounds: object) -> T | None:
    """Return `check(name, value, *bounds)`, or None where the value is "auto" or None: the sampler then chooses."""
    is_auto = value is None or (isinstance(value, str) and value == "auto")
    return None if is_auto else check(name, value, *bounds)


def step_size(name: str, value: Argument) -> "float | jax.tree_util.Partial":
    """Return a positive number, or a schedule: a function of the step's number, wrapped so that JAX sees no array."""
    if isinstance(value, jax.tree_util.Partial):
        return value
    if callable(value):
        try:
            first = value(0)
        except Exception as error:
            raise TypeError(f"{name}(0) must be the first step size, it raised {error!r}") from error
        if np.ndim(first) != 0:
            raise TypeError(f"{name}(step) must return a number, got shape {np.shape(first)} at step 0")
        positive(f"{name}(0)", np.asarray(first).item())
        try:
            shape = jax.eval_shape(value, jax.ShapeDtypeStruct((), np.int32)).shape
        except Exception as error:
            raise TypeError(
                f"{name}(step) must be compiled, and step is then not a number yet; write it with jax.numpy, "
                f"jnp.where instead of if: it raised {type(error).__name__}"
            ) from error
        if shape != ():
            raise TypeError(f"{name}(step) must return a number, got shape {shape}")
        return jax.tree_util.Partial(value)
    return positive(name, value)


def mass(value: Argument) -> float | np.ndarray:
    """Return a positive diagonal mass: a number, a vector of length d, or a pytree shaped like the parameters."""
    try:
        is_number = jax.tree_util.all_leaves([value]) and np.ndim(value) == 0
        flat = None if is_number else np.asarray(ravel_pytree(jax.tree.map(np.asarray, value))[0])
    except (TypeError, ValueError):
        raise TypeError(f"mass must be a positive number, a vector or a pytree of them, got {value!r}") from None
    if flat is None:
        return positive("mass", value)
    bad = ~(np.isfinite(flat) & (flat > 0))
    if bad.any():
        first = int(np.argmax(bad))
        raise ValueError(f"mass must be positive and finite, got {flat[first]} at entry {first}")
    return flat


def function(name: str, value: object, signature: str) -> None:
    if not callable(value):
        raise TypeError(f"{name} must be a function {signature}, got {value!r}")
