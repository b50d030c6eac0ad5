"""Small work as one kernel: no thread is handed anything, and an operation costs no more than its arithmetic.

On a CPU, XLA runs a program as a list of kernels and shares them among its threads. Where one takes a few microseconds,
handing it over costs more than it brings. A call with the attributes below is compiled into a single function instead;
by itself XLA does that for very small loops only. Not everything can be put there, so what is not known to be possible
is left as it was. A version of XLA that knows nothing of the attributes ignores them.
"""

from collections.abc import Callable, Iterator
from typing import Any

import jax
from jax.experimental.xla_metadata import set_xla_metadata
from jax.extend.core import jaxprs_in_params

ATTRIBUTES = {"xla_cpu_small_call": "true", "inlineable": "false"}

ELEMENTWISE = """
    abs add add_any and cbrt ceil clamp complex conj convert_element_type cos digamma div eq erf erf_inv erfc exp exp2
    expm1 floor ge gt imag integer_pow is_finite le lgamma log log1p logistic lt max min mul ne neg nextafter not or pow
    real rem round rsqrt select_n shift_left shift_right_arithmetic shift_right_logical sign sin sqrt square
    stop_gradient sub tan tanh xor
"""
MOVING = """
    bitcast_convert_type broadcast_in_dim concatenate copy copy_p dynamic_slice dynamic_update_slice expand_dims gather
    iota pad reshape rev slice split squeeze stack transpose
"""
REDUCING = "argmax argmin reduce_and reduce_max reduce_min reduce_or reduce_prod reduce_sum"
RANDOM = "random_bits random_fold_in random_split random_unwrap random_wrap"
OUTER = "closed_call cond custom_jvp_call custom_vjp_call jit pjit scan while"  # hold others
KNOWN = frozenset(" ".join([ELEMENTWISE, MOVING, REDUCING, RANDOM, OUTER]).split())


def as_one(function: Callable[[Any], Any], argument: Any) -> Any:
    """function(argument), as one kernel if XLA can make one of it."""
    inner = jax.jit(function)
    if jax.default_backend() != "cpu" or not all(map(fits, operations(inner.trace(argument).jaxpr))):
        return function(argument)
    leaves, tree = jax.tree.flatten(inner(argument))
    # On any one result, since it is the call that gets the attributes; not on one that is an argument handed through.
    computed = next(i for i, leaf in enumerate(leaves) if not any(leaf is other for other in jax.tree.leaves(argument)))
    leaves[computed] = set_xla_metadata(leaves[computed], **ATTRIBUTES)
    return jax.tree.unflatten(tree, leaves)


def operations(jaxpr: Any) -> Iterator[Any]:
    """All equations, those inside of others too."""
    for equation in jaxpr.eqns:
        yield equation
        for inside in jaxprs_in_params(equation.params):
            yield from operations(inside)


def fits(equation: Any) -> bool:
    """Whether it is known to be possible; of products, those with one vector."""
    if equation.primitive.name != "dot_general":
        return equation.primitive.name in KNOWN
    contracted, (batched, _) = equation.params["dimension_numbers"]
    vector = any(len(axes) == side.aval.ndim for side, axes in zip(equation.invars, contracted, strict=True))
    return vector and not batched
