"""Arrow's columns as ours, and Parquet files. pyarrow is imported when a file needs it."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from isotherm.lib.optional import extra
from isotherm.tables.columns import Column, Levels, Numbers, Times, make_levels, numbers_in_text, quoted


def pyarrow() -> ModuleType:
    with extra("tables", "reading CSV and Parquet files"):
        import pyarrow
    return pyarrow


def read_parquet(path: Path) -> Any:
    """An Arrow table."""
    pa = pyarrow()
    from pyarrow import parquet

    try:
        return parquet.ParquetFile(path).read()
    except (pa.ArrowException, ValueError) as fault:
        raise ValueError(f"{path} is not a Parquet file that can be read: {one_line(fault)}") from None


def columns(
    table: Any, source: str, kinds: Mapping[str, str], na: Iterable[str], is_used: Callable[[str], bool]
) -> dict[str, Column]:
    """Every column that is used; `kinds` says what some must be."""
    return {
        name: column(name, table.column(name), source, kinds.get(name), na)
        for name in table.column_names
        if is_used(name)
    }


def column(name: str, values: Any, source: str, kind: str | None, na: Iterable[str]) -> Column:
    pa = pyarrow()
    types = pa.types
    if types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    if types.is_null(values.type) and kind is None:
        return Numbers(np.full(len(values), np.nan))
    wanted = {"number": pa.float64(), "text": pa.string(), "truth": pa.bool_(), "time": pa.timestamp("us")}
    if kind is not None and values.type != wanted[kind]:
        try:
            values = _of_text(values) if kind == "truth" and is_text(values.type) else values.cast(wanted[kind])
        except pa.ArrowException as fault:
            raise ValueError(
                f"{source}: the column {quoted(name)} must hold {WORDS[kind]}, as in the table of the run, and holds "
                f"{values.type}: {one_line(fault)}"
            ) from None
    if types.is_boolean(values.type):
        return _levels(values.cast(pa.string()), na, truth=True)
    if types.is_integer(values.type) or types.is_floating(values.type) or types.is_decimal(values.type):
        return Numbers(_floats(values), types.is_integer(values.type))
    if types.is_timestamp(values.type) or types.is_date(values.type):
        return Times(_floats(values.cast(pa.timestamp("us"), safe=False).cast(pa.int64())) / 1e6)
    if types.is_time(values.type) or types.is_duration(values.type):
        return _seconds(values)
    if is_text(values.type):
        levels = _levels(values, na)
        return levels if kind == "text" else numbers_in_text(name, levels, source)
    if types.is_binary(values.type) or types.is_large_binary(values.type):
        raise ValueError(f"{source}: the column {quoted(name)} is not text in UTF-8; convert the file to UTF-8")
    raise ValueError(
        f"{source}: the column {quoted(name)} holds {values.type}, which is neither numbers nor text nor dates; leave "
        "it out with --ignore"
    )


WORDS = {"number": "numbers", "text": "text", "truth": "true or false", "time": "dates"}


def is_text(kind: Any) -> bool:
    types = pyarrow().types
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def _of_text(values: Any) -> Any:
    from pyarrow import compute

    return compute.utf8_lower(values).cast(pyarrow().bool_())


def _floats(values: Any) -> np.ndarray:
    found = values.cast(pyarrow().float64(), safe=False).to_numpy(zero_copy_only=False)
    return np.array(found, np.float64)


def _seconds(values: Any) -> Numbers:
    """Times of day and durations, in seconds."""
    pa = pyarrow()
    fine = pa.time64("us") if pa.types.is_time(values.type) else pa.duration("us")
    return Numbers(_floats(values.cast(fine, safe=False).cast(pa.int64())) / 1e6)


def _levels(values: Any, na: Iterable[str], truth: bool = False) -> Levels:
    encoded = values.combine_chunks().dictionary_encode()
    if hasattr(encoded, "combine_chunks"):  # a chunked array still: there are several chunks' worth
        encoded = encoded.combine_chunks()
    indices = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    return make_levels(indices, encoded.dictionary.to_pylist(), na, truth)


def one_line(fault: BaseException) -> str:
    words = " ".join(str(fault).split())
    return words if len(words) <= 200 else f"{words[:199]}…"
