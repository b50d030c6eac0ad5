"""Checks of a posterior, its data and where the chains start, before any work is lost."""

import math
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Protocol, TypeGuard

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from isotherm.data.batches import AliasTable
from isotherm.data.on_disk.column import Column
from isotherm.data.on_disk.open_data import host, on_disk, open_columns, shapes, stream
from isotherm.lib.optional import extra
from isotherm.lib.types import Array, Batch, Float, Params, Scalar, Vector
from isotherm.targets.evaluation import Evaluation
from isotherm.targets.noisy import estimate
from isotherm.targets.target import Target

# The data
ROW_NUMBERS = 2**31 - 1  # rows of all processes together
ROUNDING = 1e-4  # of a column's range: rounding by more than this changes what the column says
BLOCK_ROWS, BLOCK_BYTES = 2**16, 2**24  # checked together, so that a check needs little memory beside the data

# The log-likelihood
DENSITY_ROWS = 256  # evaluated together, unless the batch is larger
CHECKED_AGAIN = 2**14  # rows of data on disk whose log-likelihood is checked where that of all rows has been evaluated


class DataFrame(Protocol):
    """What the libraries' tables have in common; Arrow's have `column_names` in place of `columns`."""

    columns: Iterable[Hashable]

    def __getitem__(self, name: Hashable, /) -> ArrayLike: ...


def as_arrays(root: str, tree: Batch) -> Batch:
    """Return `tree` with every leaf as an array: what has `__array__`, a table or a number becomes NumPy's. A tree that
    is a table (pandas, polars, Arrow) becomes a dict of its columns; a table inside a tree becomes a matrix."""
    if is_table(tree):
        tree = table_columns(root, tree)
    try:
        paths, structure = jax.tree_util.tree_flatten_with_path(tree)
    except ValueError as error:  # the only one that JAX raises here
        raise TypeError(f"{root} has a dict whose keys cannot be sorted; use strings") from error
    return jax.tree.unflatten(structure, [_as_array(root + jax.tree_util.keystr(path), leaf) for path, leaf in paths])


def is_table(tree: object) -> TypeGuard[DataFrame]:
    """Return whether it is a table of pandas, polars, Arrow or whatever else speaks Arrow."""
    if hasattr(tree, "__array__"):
        return hasattr(tree, "columns") or hasattr(tree, "column_names")  # which a single column has not
    return hasattr(tree, "__arrow_c_stream__")


def table_columns(root: str, table: DataFrame) -> dict[Hashable, np.ndarray]:
    """Return the columns of a table by their names, if they hold numbers."""
    names = getattr(table, "column_names", None)
    if names is None and not hasattr(table, "columns"):
        with extra("tables", f"{root} is a {type(table).__name__}, and reading it"):
            import pyarrow
        arrow = pyarrow.table(table)
        table, names = arrow, arrow.column_names
    names = list(table.columns if names is None else names)
    if twice := next((name for i, name in enumerate(names) if name in names[:i]), None):
        raise ValueError(f"{root} has two columns named {twice!r}; rename one")
    return {name: _column(root, name, table[name]) for name in names}


def _column(root: str, name: Hashable, column: ArrayLike) -> np.ndarray:
    array = np.asarray(column)
    if array.dtype.kind in "biuf":
        return array
    has = getattr(column, "dtype", getattr(column, "type", array.dtype))  # as its own library calls it
    raise TypeError(f"{root}: column {name!r} must hold numbers, got dtype {has}; encode it as numbers first")


def _as_array(name: str, leaf: object) -> Array | np.ndarray | np.generic | Column | complex:
    if isinstance(leaf, Column):
        return leaf
    if isinstance(leaf, np.ma.MaskedArray):
        raise TypeError(f"{name} must be a plain array, got a masked one; fill what is masked, or leave such rows out")
    if isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        raise TypeError(f"{name} must be an array of numbers, got a random key; keep keys apart")
    if isinstance(leaf, np.ndarray | np.generic):
        return _for_jax(name, leaf)
    if isinstance(leaf, jax.Array | bool | int | float | complex):
        return leaf
    if is_table(leaf):
        return _for_jax(name, np.stack(list(table_columns(name, leaf).values()), axis=1))
    try:
        array = np.asarray(leaf)
    except Exception as error:
        raise TypeError(f"{name} must be an array, got {type(leaf).__name__}, of which NumPy says: {error}") from error
    if array.dtype == object:
        got = f"a {type(leaf).__name__}" + ("; encode it as numbers first" if hasattr(leaf, "dtype") else "")
        if callable(leaf):
            function = getattr(leaf, "__name__", type(leaf).__name__)
            got = f"the function {function}; keep functions apart (equinox.partition does that for a module)"
        raise TypeError(f"{name} must be an array of numbers, got {got}")
    return _for_jax(name, array)


def _for_jax(name: str, array: np.ndarray | np.generic) -> np.ndarray | np.generic:
    """Return `array` in this machine's byte order, the only one that JAX knows; refuse numbers that are too long."""
    if array.dtype.kind == "f" and array.dtype.itemsize > 8:
        raise TypeError(f"{name} must have at most 64 bits, got dtype {array.dtype}; convert it: .astype(np.float64)")
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def checked_data(data: Batch) -> Batch:
    """Return `data` with every leaf as an array, or as a `Column` where it is on disk and large; refuse bad ones."""
    arrays = as_arrays("data", open_columns(data))
    check_data(arrays)
    return arrays


def check_row_count(rows: int) -> None:
    """Refuse more rows than can be numbered."""
    if rows > ROW_NUMBERS:
        raise ValueError(f"data must have at most {ROW_NUMBERS:,} rows, which 32 bits can number, got {rows:,}")


def check_data(data: Batch) -> None:
    """Refuse arrays that differ in their number of rows, are not finite or lose digits on the device."""
    arrays = list(named("data", data))
    rows = row_count(data, arrays)
    if not rows:
        raise ValueError("data must hold at least one row, got none")
    check_row_count(rows)
    for name, array in arrays:
        if isinstance(array, Column) and "checked" in array.known:
            continue
        check_finite(name, array, "row")
        check_kept(name, array)
        if isinstance(array, Column):
            array.known["checked"] = name


def row_count(data: Batch, arrays: Sequence[tuple[str, np.ndarray | Column]]) -> int:
    """Return the number of rows of arrays with these names; refuse those that differ in it, or hold no numbers."""
    if not arrays:
        raise ValueError(f"data holds no array, got {data!r}")
    lengths = {}
    for name, array in arrays:
        if array.dtype.kind not in "biuf" and array.dtype != jnp.bfloat16:
            raise TypeError(f"{name} must hold numbers, got dtype {array.dtype}; encode it as numbers first")
        if not array.shape:
            in_a_list = name.endswith("]") and not name.endswith("']")
            hint = "make the list an array: np.asarray(…)" if in_a_list else "keep it in log_likelihood"
            raise ValueError(f"{name} must have one row an example, got the scalar {array}; {hint}")
        lengths[name] = array.shape[0]
    if len(set(lengths.values())) > 1:
        each = ", ".join(f"{name} has {length}" for name, length in lengths.items())
        raise ValueError(f"data arrays must have the same number of rows, but {each}")
    return lengths[name]


def chosen_batch_size(target: Target, batch_size: int | None) -> int:
    """Return the one that is given, or the target's own choice."""
    size = target.chosen_batch_size if batch_size is None else batch_size
    if size is None:
        raise TypeError("batch_size must be given, unless the posterior comes from isotherm.anchor; try batch_size=500")
    return size


def check_table(table: AliasTable, population: int, replace: bool) -> None:
    """Refuse row probabilities of other rows, or with batches without replacement."""
    if len(table.weights) != population:
        raise ValueError(
            f"there are probabilities for {len(table.weights)} rows, and data has {population}; give one for each row, "
            "or anchor the posterior again with these data"
        )
    if not replace:
        raise ValueError("replace must be True where rows have unequal probabilities; leave it out")


def check_kept(name: str, array: np.ndarray | Column) -> None:
    """Refuse numbers that JAX, in 32 bits, would turn into others."""
    if (dtype := jax.dtypes.canonicalize_dtype(array.dtype)) == array.dtype or not array.size:
        return
    or_64_bits = 'or let JAX have 64 bits: jax.config.update("jax_enable_x64", True)'
    width = math.prod(array.shape[1:])
    low, high, worst = np.full(width, np.inf), np.full(width, -np.inf), np.zeros(width)
    for _, rows in stream(array, _block_rows(array)):
        block = rows.reshape(len(rows), width)
        with np.errstate(over="ignore"):
            rounded = block.astype(dtype)
        lost, remedy = (
            (rounded != block, "recode it") if array.dtype.kind in "iu" else (~np.isfinite(rounded), "rescale it")
        )
        if lost.any():
            worst_value = max(block[lost], key=abs)
            raise ValueError(f"{name} has {worst_value}, which {dtype} cannot hold; {remedy}, {or_64_bits}")
        low, high = np.minimum(low, block.min(axis=0)), np.maximum(high, block.max(axis=0))
        worst = np.maximum(worst, np.abs(block - rounded).max(axis=0))
    bad = np.flatnonzero((worst > ROUNDING * (high - low)) & (high > low))
    if bad.size:
        where = f", column {bad[0]}," if array.ndim > 1 else ""
        raise ValueError(
            f"{name}{where} is rounded by up to {worst[bad[0]]:.3g} in {dtype}, and varies by little more; subtract "
            f"its mean first, {or_64_bits}"
        )


def check_finite(name: str, array: np.ndarray | Column, word: str) -> None:
    if array.dtype.kind in "biu":
        return
    for begin, rows in stream(np.atleast_1d(array) if isinstance(array, np.ndarray) else array, _block_rows(array)):
        finite = np.isfinite(rows)
        if finite.all():
            continue
        place = np.unravel_index(int(np.argmin(finite)), finite.shape)
        where = f" in {word} {begin + place[0]}" if array.ndim else ""
        where += f", column {', '.join(map(str, place[1:]))}" if array.ndim > 1 else ""
        raise ValueError(f"{name} must be finite, got {rows[place]}{where}; drop or fill such entries first")


def _block_rows(array: np.ndarray | Column) -> int:
    row = array.nbytes // len(array) if array.ndim and len(array) else 1
    return max(1, min(BLOCK_ROWS, BLOCK_BYTES // max(1, row)))


def check_model(target: Target, params: Params, data: Batch) -> None:
    """Refuse functions that cannot be hashed or, traced on shapes alone, do not return scalars."""
    example = jax.tree.map(lambda c: jax.ShapeDtypeStruct(jnp.shape(c)[1:], jnp.result_type(c)), shapes(data))
    shaped = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(jnp.shape(leaf), jnp.result_type(leaf)), params)
    for name, inputs, each in (("log_likelihood", (shaped, example), " for one example"), ("log_prior", (shaped,), "")):
        function = getattr(target, name)
        try:
            hash(function)
        except TypeError as error:
            raise TypeError(
                f"{name} must be hashable, so that what was compiled for it is found again, and it is not: {error}; "
                "give a function, or give its class a __hash__"
            ) from error
        try:
            value = jax.eval_shape(function, *inputs)
        except Exception as error:
            described = " and one example has ".join(map(_shapes, inputs))
            raise ValueError(f"{name} does not fit: init has {described}; it raised {reason(error)}") from error
        leaves = jax.tree.leaves(value)
        if len(leaves) != 1 or getattr(leaves[0], "shape", None) != ():
            hint = "sum over what is left" if leaves else "is there a return missing?"
            raise ValueError(f"{name} must return a scalar{each}, got {_shapes(value)}; {hint}")
        if not jnp.issubdtype(leaves[0].dtype, jnp.floating):
            dtype = leaves[0].dtype
            hint = "take its real part" if jnp.issubdtype(dtype, jnp.complexfloating) else "write 0.0 rather than 0"
            raise TypeError(f"{name} must return a floating number, got dtype {dtype}; {hint}")


def check_derivatives(evaluation: Evaluation, position: np.ndarray, data: Batch) -> None:
    """Refuse a model that JAX cannot linearise over a batch (a callback, a loop of unknown length), in our words."""

    def force(position: Vector, data: Batch) -> Vector:
        batch = jax.tree.map(lambda column: column[:2], data)
        return estimate(evaluation.target, position, batch, population=2).force

    try:
        jax.eval_shape(force, position, shapes(data))
    except Exception as error:
        if "float0" in str(error):
            raise TypeError(
                "log_likelihood uses an integer column of the data in a function that JAX differentiates by it; make "
                'it floating there: example["y"].astype(float)'
            ) from error
        raise ValueError(
            "log_likelihood or log_prior cannot be differentiated over a batch; write it with jax.numpy alone, without "
            f"callbacks and loops of unknown length: it raised {reason(error)}"
        ) from error


def check_starts(evaluation: Evaluation, starts: Float[np.ndarray, "chains d"], data: Batch) -> None:
    """Refuse starts at which the log-prior is not finite, or, at the first, the log-likelihood of a row."""
    where = "init" if (starts == starts[0]).all() else "init(key) of chain {}"
    priors, row, bad, value = _densities(evaluation, starts, data)
    for chain, prior in enumerate(priors):
        if not np.isfinite(prior):
            raise ValueError(
                f"log_prior must be finite where the chains start, got {prior} at {where.format(chain)}; start inside "
                "the region that the prior allows"
            )
    if bad:
        others = f" and {bad - 1} other rows" if bad > 1 else ""
        raise ValueError(
            f"log_likelihood must be finite where the chains start, got {value} at {where.format(0)} for row {row}"
            f"{others} of the data; start elsewhere, or look at what the model does with such rows"
        )


def _densities(
    evaluation: Evaluation, starts: Float[np.ndarray, "chains d"], data: Batch
) -> tuple[np.ndarray, int, int, float]:
    """Return the log-priors; then the first row whose log-likelihood is not finite, how many are, and its value. Of
    data on disk only some are read where all have been evaluated before."""
    rows = len(jax.tree.leaves(data)[0])
    numbers: np.ndarray | range = range(rows)
    if on_disk(data) and evaluation.target.rows_are_checked:
        numbers = np.linspace(0, rows - 1, CHECKED_AGAIN).astype(np.int64)
        data = jax.tree.map(lambda column: host(column)[numbers], data)
    row, bad, value = 0, 0, 0.0
    for first, block in stream(data) if on_disk(data) else [(0, data)]:
        priors, place, count, found = map(np.asarray, _densities_at_start(evaluation, starts, block))
        if count and not bad:
            row, value = int(numbers[first + int(place)]), float(found)
        bad += int(count)
    return priors, row, bad, value


@jax.jit
def _densities_at_start(evaluation: Evaluation, starts: Float[Array, "chains d"], data: Batch) -> tuple[Array, ...]:
    """Return the same of data on the device."""
    params, rows = evaluation.target.params(starts[0]), jax.tree.leaves(data)[0].shape[0]
    size = min(rows, max(evaluation.batches.size, DENSITY_ROWS))
    log_likelihoods = jax.vmap(evaluation.target.log_likelihood, in_axes=(None, 0))

    def look(number: Scalar) -> tuple[Scalar, Scalar, Scalar]:  # `jax.lax.map` over the rows would copy all of the data
        first = jnp.minimum(number * size, rows - size)  # the last block ends with the last row: it repeats some
        batch = jax.tree.map(lambda column: jax.lax.dynamic_slice_in_dim(column, first, size), data)
        values, numbers = log_likelihoods(params, batch), first + jnp.arange(size, dtype=jnp.int32)
        wrong = ~jnp.isfinite(values) & (numbers >= number * size)
        place = jnp.argmax(wrong)
        return numbers[place], wrong.sum(dtype=jnp.int32), values[place]

    row, bad, value = jax.lax.map(look, jnp.arange(-(-rows // size), dtype=jnp.int32))
    first_block = jnp.argmax(bad > 0)
    priors = jax.lax.map(lambda start: evaluation.target.log_prior(evaluation.target.params(start)), starts)
    return priors, row[first_block], bad.sum(), value[first_block]


def named(root: str, tree: Batch) -> Iterator[tuple[str, np.ndarray | Column]]:
    """Yield the arrays of a tree as NumPy sees them, or on disk, each with the words a user writes to reach it."""
    for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
        yield root + jax.tree_util.keystr(path), host(leaf)


def reason(error: Exception) -> str:
    """Return the error's type and first line, and the next line where the first ends with a colon."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    words = lines[:2] if lines and lines[0].endswith(":") else lines[:1]
    return f"{type(error).__name__}: {' '.join(words)}" if words else type(error).__name__


def _shapes(tree: Batch) -> str:
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    shapes = [f"{jax.tree_util.keystr(path) or 'an array'} of shape {jnp.shape(leaf)}" for path, leaf in leaves]
    return ", ".join(shapes) or "nothing"
