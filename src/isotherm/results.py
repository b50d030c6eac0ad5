"""What a run returns: an `xarray.DataTree` in ArviZ's schema, labelled, with attributes saying how it was made."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from isotherm.types import Params, Vector
from isotherm.version import __version__


def tree(
    recorded: list[dict[str, np.ndarray]],
    plan: Any,
    moments: Any,
    first_bad_step: np.ndarray,
    unravel: Callable[[Vector], Params],
    attributes: dict[str, Any],
) -> Any:
    """`posterior`, `sample_stats`, `posterior_mean`, `posterior_variance`."""
    import xarray
    from arviz_base import from_dict

    whole = {name: np.concatenate([part[name] for part in recorded]) for name in recorded[0]}
    diverged = first_bad_step >= 0
    if diverged.all():
        whole = {name: _filled(values, plan.draws) for name, values in whole.items()}
    by_chain = {name: values.swapaxes(0, 1) for name, values in whole.items()}
    positions = by_chain.pop("position")
    ends = plan.burn_in + plan.thin * np.arange(1, positions.shape[1] + 1)
    by_chain["diverging"] = diverged[:, None] & (ends >= first_bad_step[:, None])

    found = from_dict({"posterior": variables(positions, unravel), "sample_stats": by_chain})
    found["sample_stats"]["first_bad_step"] = xarray.DataArray(first_bad_step, dims="chain")
    mean = np.asarray(moments.reference, np.float64) + np.asarray(moments.mean, np.float64)
    for name, values in (("mean", mean), ("variance", np.asarray(moments.variance, np.float64))):
        kept = np.where(diverged[:, None], np.nan, values).astype(positions.dtype)
        labels = found["posterior"].dataset
        arrays = {
            variable: ([dim for dim in labels[variable].dims if dim != "draw"], array)
            for variable, array in variables(kept, unravel).items()
        }
        found[f"posterior_{name}"] = xarray.DataTree(xarray.Dataset(arrays, labels.drop_dims("draw").coords))
    found.attrs.update({"inference_library": "isotherm", "inference_library_version": __version__, **attributes})
    for group in ("posterior", "sample_stats"):
        found[group].attrs.update(inference_library="isotherm", inference_library_version=__version__)
    return found


def variables(positions: np.ndarray, unravel: Callable[[Vector], Params]) -> dict[str, np.ndarray]:
    """Flat positions (…, d) as the named arrays of the parameters: "theta" for a bare array, paths for a tree."""
    lead = positions.shape[:-1]
    flat = jax.ShapeDtypeStruct(positions.shape[-1:], positions.dtype)
    out, offset = {}, 0
    for path, leaf in jax.tree_util.tree_leaves_with_path(jax.eval_shape(unravel, flat)):
        name = jax.tree_util.keystr(path, simple=True, separator=".") or "theta"
        out[name] = positions[..., offset : offset + leaf.size].reshape(*lead, *leaf.shape).astype(leaf.dtype)
        offset += leaf.size
    return out


def settings(prefix: str, dataclass: Any) -> dict[str, Any]:
    """A sampler's settings as attributes that any file format can hold."""
    plain = {}
    for field in dataclasses.fields(dataclass):
        value = getattr(dataclass, field.name)
        if isinstance(value, np.ndarray | jax.Array):
            value = np.asarray(value).tolist()
        elif isinstance(value, jax.tree_util.Partial):
            value = getattr(value.func, "__qualname__", repr(value.func))
        plain[f"{prefix}_{field.name}"] = "default" if value is None else value
    return plain


def _filled(values: np.ndarray, draws: int) -> np.ndarray:
    """NaN for the draws that were not made because no chain was left."""
    missing = np.full((draws - len(values), *values.shape[1:]), np.nan, values.dtype)
    return np.concatenate([values, missing])
