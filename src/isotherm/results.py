"""What a run returns: an `xarray.DataTree` in ArviZ's schema, labelled, with attributes saying how it was made."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from isotherm.problem import variable_names
from isotherm.types import Params, Vector
from isotherm.version import __version__


class Memory:
    """Keeps a run's draws until it ends; `label` turns them into labelled results."""

    def __init__(self, label: Callable[..., Any], none: dict[str, np.ndarray]) -> None:
        import arviz_base  # noqa: F401  # needed in the end, and now there is time: the loop is being compiled

        self.label, self.parts = label, [none]

    def add(self, draws: dict[str, np.ndarray], lanes: Any, step: int, seconds: float) -> None:
        self.parts.append(draws)

    @property
    def count(self) -> int:
        return sum(len(part["position"]) for part in self.parts)

    def look(self, lanes: Any, step: int, seconds: float) -> None:
        """Nothing to do between chunks."""

    def finish(self, lanes: Any, step: int, seconds: float) -> Any:
        whole = {name: np.concatenate([part[name] for part in self.parts]) for name in self.parts[0]}
        return self.label(whole, 0, lanes.joined(state=False), step, seconds)


def tree(
    draws: dict[str, np.ndarray],
    first: int,
    plan: Any,
    moments: Any,
    first_bad_step: np.ndarray,
    unravel: Callable[[Vector], Params],
    attributes: dict[str, Any],
) -> Any:
    """`posterior`, `sample_stats`, `posterior_mean`, `posterior_variance`; `first` is the first draw's number."""
    import xarray
    from arviz_base import from_dict

    diverged = first_bad_step >= 0
    by_chain = {name: values.swapaxes(0, 1) for name, values in draws.items()}
    positions = by_chain.pop("position")
    numbers = first + np.arange(positions.shape[1])
    ends = plan.burn_in + plan.thin * (numbers + 1)
    by_chain["diverging"] = diverged[:, None] & (ends >= first_bad_step[:, None])

    groups = {"posterior": variables(positions, unravel), "sample_stats": by_chain}
    found = from_dict(groups, coords={"draw": numbers}, check_conventions=False)
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
    """Flat positions (…, d) as the named arrays of the parameters."""
    lead = positions.shape[:-1]
    flat = jax.ShapeDtypeStruct(positions.shape[-1:], positions.dtype)
    out, offset = {}, 0
    params = jax.eval_shape(unravel, flat)
    for name, leaf in zip(variable_names(params), jax.tree.leaves(params), strict=True):
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
