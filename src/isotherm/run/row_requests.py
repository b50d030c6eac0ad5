"""Which rows a step will ask for, found out before it is made: what must be read from disk for it.

The rows of a batch follow from a random key alone, and that from the seed, the chain and the step. So a step is traced
with `Asked` in place of the data, and the program that comes out is computed as far as it follows from those. What
depends on the state of the chain is not known yet: where a branch does, the rows of all branches are read. A sampler
whose row numbers depend on its state is refused.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core

from isotherm.data.alias_table import AliasTable
from isotherm.data.batches import Batches, Requests
from isotherm.lib.types import Array, Batch, Bool, Float, Int, RandomKey

# Primitives that hold a program, and the parameter that it is in.
INLINED = dict.fromkeys(("jit", "pjit", "checkpoint"), "jaxpr")
INLINED |= dict.fromkeys(("closed_call", "custom_jvp_call", "custom_vjp_call"), "call_jaxpr")

asked = core.Primitive("asked_for_rows")  # from row numbers to columns, which it never computes
asked.multiple_results = True
asked.def_abstract_eval(lambda rows, *, number, columns: [jax.core.ShapedArray(*column) for column in columns])


class Wish(NamedTuple):
    """The rows of a batch, and whether they are needed."""

    rows: Int[Array, "*axes n"] | np.ndarray
    needed: Bool[Array, "*axes"] | np.ndarray


class Asked(Requests):
    """Notes the row numbers of each request, and answers with rows of no meaning, of the right shapes."""

    def __init__(self, shapes: Batch) -> None:
        self.shapes, self.count = shapes, 0

    def answer(
        self, key: RandomKey, batches: Batches, table: AliasTable | None
    ) -> tuple[Batch, Float[Array, " n"] | None]:
        rows = batches.taken_rows(key, table)
        leaves, structure = jax.tree.flatten(self.shapes)
        columns = tuple(((batches.size, *leaf.shape[1:]), leaf.dtype) for leaf in leaves)
        batch = jax.tree.unflatten(structure, asked.bind(rows, number=self.count, columns=columns))
        self.count += 1
        return batch, None if table is None else table.weights[rows]


def wishes(function: Callable[..., object], shapes: Batch, known: Sequence[Any], unknown: object) -> tuple[Wish, ...]:
    """What `function(data, unknown, *known)` asks of data with these shapes, in the order in which it asks; traced,
    with `known` as it is and `unknown` as shapes."""
    data = Asked(shapes)
    closed = jax.make_jaxpr(lambda unknown, *known: function(data, unknown, *known))(unknown, *known)
    given = [*([UNKNOWN] * len(jax.tree.leaves(unknown))), *jax.tree.leaves(list(known))]
    found: dict[int, Wish] = {}
    _run(closed.jaxpr, closed.consts, given, jnp.array(True), found)
    if len(found) < data.count:
        raise TypeError("the sampler asks for a batch and does not use it, so the next cannot be told from it")
    return tuple(found[number] for number in range(data.count))


UNKNOWN = object()  # in place of an array that follows from the state, which is never computed


def _run(jaxpr: Any, consts: Sequence[Any], given: Sequence[Any], needed: Array, found: dict[int, Wish]) -> list[Any]:
    """Interpret a program as far as it follows from what is known, noting what it asks for."""
    values: dict[Any, Any] = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*consts, *given], strict=True))

    def value(atom: Any) -> Any:
        return atom.val if isinstance(atom, core.Literal) else values[atom]

    for equation in jaxpr.eqns:
        name, inputs = equation.primitive.name, [value(atom) for atom in equation.invars]
        if equation.primitive is asked:
            outputs = _note(equation, inputs, needed, found)
        elif name == "cond" and any(_asks(branch.jaxpr) for branch in equation.params["branches"]):
            outputs = _branches(equation, inputs, needed, found)
        elif name in INLINED and _asks(inner := equation.params[INLINED[name]]):
            program, constants = (inner.jaxpr, inner.consts) if hasattr(inner, "jaxpr") else (inner, [])
            outputs = _run(program, constants, inputs, needed, found)
        elif _asks_inside(equation):
            raise TypeError(
                f"the sampler asks for batches inside of a {name}, so it cannot be known ahead which rows to read; it "
                "works with data in memory, or ask before it"
            )
        elif any(each is UNKNOWN for each in inputs):
            outputs = [UNKNOWN] * len(equation.outvars)
        else:
            out = equation.primitive.bind(*inputs, **equation.primitive.get_bind_params(equation.params))
            outputs = out if equation.primitive.multiple_results else [out]
        values |= zip(equation.outvars, outputs, strict=True)
    return [value(atom) for atom in jaxpr.outvars]


def _note(equation: Any, inputs: Sequence[Any], needed: Array, found: dict[int, Wish]) -> list[Any]:
    (rows,) = inputs
    if rows is UNKNOWN:
        raise TypeError(
            "the sampler draws batches with keys that depend on its state, so it cannot be known ahead which rows to "
            "read; it works with data in memory"
        )
    found[equation.params["number"]] = Wish(rows, needed)
    return [UNKNOWN] * len(equation.outvars)


def _branches(equation: Any, inputs: Sequence[Any], needed: Array, found: dict[int, Wish]) -> list[Any]:
    """All branches; of those that are known not to be taken, no rows are needed."""
    chosen, *given = inputs
    for index, branch in enumerate(equation.params["branches"]):
        here = needed if chosen is UNKNOWN else needed & (chosen == index)
        _run(branch.jaxpr, branch.consts, given, here, found)
    return [UNKNOWN] * len(equation.outvars)


def _asks(program: Any) -> bool:
    jaxpr = getattr(program, "jaxpr", program)
    return any(equation.primitive is asked or _asks_inside(equation) for equation in jaxpr.eqns)


def _asks_inside(equation: Any) -> bool:
    inside = [leaf for param in equation.params.values() for leaf in (param if isinstance(param, tuple) else (param,))]
    return any(_asks(each) for each in inside if hasattr(getattr(each, "jaxpr", each), "eqns"))
