"""Array types, named once: what a shape is called here is what it is called everywhere."""

from typing import Any, TypeAlias

from jaxtyping import Array, Bool, Float, Int, Key, Num, PyTree

Scalar: TypeAlias = Float[Array, ""]
Vector: TypeAlias = Float[Array, "d"]
Matrix: TypeAlias = Float[Array, "d d"]
RandomKey: TypeAlias = Key[Array, ""]
Params: TypeAlias = PyTree[Float[Array, "..."]]
Example: TypeAlias = PyTree[Num[Array, "..."]]
Batch: TypeAlias = PyTree[Num[Array, "n ..."]]
AnyTree: TypeAlias = Any

__all__ = [
    "AnyTree", "Array", "Batch", "Bool", "Example", "Float", "Int", "Matrix", "Num", "Params", "RandomKey", "Scalar", "Vector",
]
