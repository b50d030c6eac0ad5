"""Small work as one kernel: no thread is handed anything, and an operation costs no more than its arithmetic.

On a CPU, XLA runs a program as a list of kernels and shares them among its threads. Where one takes a few microseconds,
handing it over costs more than it brings. A call with the attributes below is compiled into a single function instead;
by itself XLA does that for very small loops only. Not everything can be put there, so what is not known to be possible
is left as it was. A version of XLA that knows nothing of the attributes ignores them.
"""

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental.xla_metadata import set_xla_metadata
from jax.extend.core import ClosedJaxpr, Jaxpr, jaxpr_as_fun

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


def as_one(function: Callable[[Any], Any], state: Any) -> Any:
    """function(state), a state of the same kind, as one kernel if XLA can make one of it."""
    leaves, tree = jax.tree.flatten(state)
    closed = jax.make_jaxpr(function)(state)
    arrays = [*closed.consts, *leaves]
    possible = (
        jax.default_backend() == "cpu" and all(map(jnp.size, arrays)) and all(map(fits, operations(closed.jaxpr)))
    )
    if not possible:
        return jax.tree.unflatten(tree, jaxpr_as_fun(closed)(*leaves))

    @jax.jit
    def inner(given: list, leaves: list) -> list:
        return all_used(given, jaxpr_as_fun(ClosedJaxpr(closed.jaxpr, given))(*leaves))

    first, *others = inner(closed.consts, leaves)
    return jax.tree.unflatten(tree, [set_xla_metadata(first, **ATTRIBUTES), *others])  # marks the call it comes from


def all_used(given: list, state: list) -> list:
    """The state, as if it depended on all that is given: XLA aborts where a kernel has an argument without a use."""
    arrays = [jax.random.key_data(x) if jax.dtypes.issubdtype(x.dtype, jax.dtypes.prng_key) else x for x in given]
    seen = sum((jnp.ravel(array)[0] != 0).astype(jnp.int32) for array in arrays)
    first = jnp.where(seen > len(arrays), jnp.zeros_like(state[0]), state[0])  # never so, but XLA does not know
    return [first, *state[1:]]


def operations(jaxpr: Any) -> Iterator[Any]:
    """All equations, those inside of others too."""
    for equation in jaxpr.eqns:
        yield equation
        for value in jax.tree.leaves(equation.params):
            if isinstance(value, ClosedJaxpr | Jaxpr):
                yield from operations(value.jaxpr if isinstance(value, ClosedJaxpr) else value)


def fits(equation: Any) -> bool:
    """Whether it is known to be possible; of products, those with one vector."""
    if equation.primitive.name != "dot_general":
        return equation.primitive.name in KNOWN
    contracted, (batched, _) = equation.params["dimension_numbers"]
    vector = any(len(axes) == side.aval.ndim for side, axes in zip(equation.invars, contracted, strict=True))
    return vector and not batched
