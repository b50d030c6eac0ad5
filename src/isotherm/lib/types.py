"""Array types, named once: what a shape is called here is what it is called everywhere."""

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from jaxtyping import Array, Bool, Complex, Float, Int, Int32, Key, UInt32

if TYPE_CHECKING:
    import xarray

__all__ = ["Array", "Bool", "Complex", "Float", "Int", "Int32", "Key", "UInt32"]  # of jaxtyping, and all that follows

Scalar: TypeAlias = Float[Array, ""]
Number: TypeAlias = Float[Array, ""] | float | int
Vector: TypeAlias = Float[Array, " d"]
Matrix: TypeAlias = Float[Array, "d d"]
RandomKey: TypeAlias = Key[Array, ""]

# A setting of a sampler that is a leaf of its pytree: a float, inside the compiled loop a tracer in its place.
Setting: TypeAlias = Any

# Pytrees: the structure is the user's, so these say what is meant rather than what is checked.
Params: TypeAlias = Any  # floating arrays
Example: TypeAlias = Any  # one row of every data array
Batch: TypeAlias = Any  # n rows of every data array

# What passes from the compiled loop to a recorder, what it makes of them, and what JSON holds.
Draws: TypeAlias = dict[str, np.ndarray]  # "position" and the statistics, by (draw, chain, …)
Results: TypeAlias = "xarray.DataTree"  # imported when it is needed: by then the loop is being compiled
Json: TypeAlias = dict[str, Any]
