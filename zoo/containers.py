"""What users keep their data in: arrays, tables, images, and everything that is almost an array."""

import importlib.util

import jax
import jax.numpy as jnp
import numpy as np
from registry import (
    COVARIANCE_SAMPLERS,
    Case,
    classes,
    gaussian,
    integers,
    model,
    normal_prior,
    normals,
    regression,
    runs_only_with,
)

from isotherm import Posterior


def linear(theta, row):
    return gaussian(row["x"] @ theta, row["y"])


def case_of(data, log_likelihood=linear, size=4, **settings):
    return Case(Posterior(log_likelihood, normal_prior), data, jnp.zeros(size), **settings)


def pair(theta, row):
    return gaussian(row[0] @ theta, row[1])


class Column:
    """An object that NumPy can turn into an array, as tensors and series of other libraries are."""

    def __init__(self, values):
        self.values = values

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self.values, dtype)


@model
def data_bare_array():
    return case_of(normals(200, 5), lambda theta, row: gaussian(row[1:] @ theta, row[0]))


@model
def data_bare_vector():
    return case_of(normals(200), lambda theta, y: gaussian(theta[0], y), 1)


@model
def data_tuple():
    columns = regression()
    return case_of((columns["x"], columns["y"]), pair)


@model
def data_list():
    columns = regression()
    return case_of([columns["x"], columns["y"]], pair)


@model
def data_nested_dict():
    columns = regression()
    data = {"inputs": {"x": columns["x"]}, "targets": [columns["y"]]}
    return case_of(data, lambda theta, row: gaussian(row["inputs"]["x"] @ theta, row["targets"][0]))


@model
def data_jax_arrays():
    return case_of({name: jnp.asarray(column) for name, column in regression().items()})


@model
def data_with_array_method():
    return case_of({name: Column(column) for name, column in regression().items()})


@model
def data_bare_object_with_array_method():
    return case_of(Column(normals(200)), lambda theta, y: gaussian(theta[0], y), 1)


@model
def data_python_lists():
    columns = regression(50)
    return case_of({"x": columns["x"].tolist(), "y": columns["y"].tolist()}, expected="refused")


@model
def data_one_python_list():
    return case_of(normals(50).tolist(), lambda theta, y: gaussian(theta[0], y), 1, expected="refused")


@model
def data_list_of_tuples():
    rows = [(float(x), float(y)) for x, y in normals(50, 2)]
    return case_of(rows, lambda theta, row: gaussian(row[0] * theta[0], row[1]), 1, expected="refused")


@model
def data_structured_array():
    rows = np.zeros(50, [("x", np.float32), ("y", np.float32)])
    return case_of(rows, lambda theta, row: gaussian(row["x"] * theta[0], row["y"]), 1, expected="refused")


@model
def data_masked_array():
    y = np.ma.masked_array(normals(50), mask=np.arange(50) < 5)
    return case_of(y, lambda theta, y: gaussian(theta[0], y), 1, expected="refused")


@model
def data_memory_map_read_only():
    y = normals(200)
    y.flags.writeable = False
    return case_of(y, lambda theta, y: gaussian(theta[0], y), 1)


@model
def data_strided_view():
    return case_of(normals(400, 10)[::2, ::2], lambda theta, row: gaussian(row[1:] @ theta, row[0]))


@model
def data_big_endian():
    y = normals(200).astype(">f4")
    return case_of(y, lambda theta, y: gaussian(theta[0], y), 1)


@model
def data_broadcast_view():
    columns = regression()
    return case_of({"x": columns["x"], "y": np.broadcast_to(np.float32(1), (200,))})


@model
def data_bool_column():
    data = classes()
    data["y"] = data["y"].astype(bool)

    def log_likelihood(theta, row):
        return jax.nn.log_sigmoid(jnp.where(row["y"], 1, -1) * (row["x"] @ theta))

    return case_of(data, log_likelihood)


@model
def data_bool_column_multiplied():
    data = classes()
    data["y"] = data["y"].astype(bool)
    return case_of(data, lambda theta, row: row["y"] * (row["x"] @ theta) - jax.nn.softplus(row["x"] @ theta))


@model
def data_uint8_images():
    data = {"image": integers(256, 100, 28, 28).astype(np.uint8), "label": integers(2, 100)}

    def log_likelihood(theta, row):
        logit = row["image"].reshape(-1) / 255.0 @ theta
        return row["label"] * logit - jax.nn.softplus(logit)

    return case_of(data, log_likelihood, 784)


@model
def data_int32_everything():
    return case_of(integers(5, 200, 4).astype(np.int32), lambda theta, row: -jnp.sum((row - theta) ** 2) / 2)


@model
def data_uint16_and_uint32():
    data = {"a": integers(9, 100).astype(np.uint16), "b": integers(9, 100).astype(np.uint32)}
    return case_of(data, lambda theta, row: gaussian(theta[0] * row["a"] + theta[1], row["b"]), 2)


@model
def data_float16():
    return case_of({name: column.astype(np.float16) for name, column in regression().items()})


@model
def data_bfloat16():
    return case_of({k: jnp.asarray(v, jnp.bfloat16) for k, v in regression().items()})


@model
def data_float64_with_large_offset():
    y = 1e8 + np.random.default_rng(0).standard_normal(200)
    return case_of(y, lambda theta, y: gaussian(theta[0], y - 1e8), 1, expected=runs_only_with(x64=True))


@model
def data_int64_beyond_32_bits():
    y = 2**40 + integers(9, 200)
    return case_of(y, lambda theta, y: gaussian(theta[0], (y % 7) * 1.0), 1, expected=runs_only_with(x64=True))


@model
def data_uint64_hashes():
    y = np.random.default_rng(0).integers(0, 2**63, 200, dtype=np.uint64)
    return case_of(y, lambda theta, y: gaussian(theta[0], (y % 7) * 1.0), 1, expected=runs_only_with(x64=True))


@model
def data_complex_column():
    y = normals(100) + 1j * normals(100, seed=1)
    return case_of(y, lambda theta, y: -(jnp.abs(y - theta[0]) ** 2), 1, expected="refused")


@model
def data_unused_columns():
    return case_of(regression() | {"unused": normals(200, 50), "id": np.arange(200)})


@model
def data_no_column_used():
    return case_of(normals(100), lambda theta, row: -0.5 * jnp.sum(theta**2))


@model
def data_columns_of_width_zero():
    return case_of(regression() | {"none": np.zeros((200, 0))})


@model
def data_wide_rows():
    return case_of(normals(30, 2000), lambda theta, x: gaussian(jnp.tanh(x).reshape(4, 500).mean(1) @ theta, x[0]))


@model
def data_of_two_rows():
    return case_of(regression(2), batch_size=2)


@model
def data_of_one_row():
    return case_of(regression(1), batch_size=1, refused_by=COVARIANCE_SAMPLERS)


@model
def data_all_rows_equal():
    return case_of({"x": np.ones((100, 4), np.float32), "y": np.ones(100, np.float32)})


def frame(**columns):
    if importlib.util.find_spec("pandas") is None:
        return None
    import pandas

    return pandas.DataFrame(columns)


@model
def data_frame():
    table = frame(x=normals(100), y=normals(100, seed=1))
    if table is None:
        return None
    return case_of(table, lambda theta, row: gaussian(theta[0] * row["x"], row["y"]), 1)


@model
def data_frame_with_text():
    table = frame(x=normals(100), city=["a", "b"] * 50)
    if table is None:
        return None
    return case_of(table, lambda theta, row: gaussian(theta[0], row["x"]), 1, expected="refused")


@model
def data_frame_values():
    table = frame(x=normals(100), y=normals(100, seed=1))
    return None if table is None else case_of(table.values, lambda theta, row: gaussian(theta[0] * row[0], row[1]), 1)


@model
def data_dict_of_series():
    table = frame(x=normals(100), y=normals(100, seed=1))
    if table is None:
        return None
    data = {"x": table["x"], "y": table["y"]}
    return case_of(data, lambda theta, row: gaussian(theta[0] * row["x"], row["y"]), 1)


@model
def data_categorical_series():
    table = frame(kind=["a", "b"] * 50)
    if table is None:
        return None
    data = {"kind": table["kind"].astype("category")}
    return case_of(data, lambda theta, row: gaussian(theta[row["kind"]], 1.0), 2, expected="refused")


@model
def data_xarray():
    import xarray

    return case_of({"y": xarray.DataArray(normals(100))}, lambda theta, row: gaussian(theta[0], row["y"]), 1)
