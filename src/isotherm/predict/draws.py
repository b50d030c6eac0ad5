"""The draws of a run, block after block."""

import math

import jax
import numpy as np

from isotherm.data.batches import filled
from isotherm.lib.types import Params, Results
from isotherm.lib.warn import warn
from isotherm.run.labels import good_chains
from isotherm.targets import parameters

PREDICTION_DRAWS = 1000  # of estimators and tables, at most: the error of their mean is 3 % of the posterior's width
KEPT = 2**26  # bytes of draws that are kept between blocks of rows; more are read again


class Draws:
    """The draws of a run, read as they are needed: those of chains that did not diverge, in blocks."""

    def __init__(self, tree: Results, init: Params | None, most: int | None) -> None:
        posterior = tree["posterior"].to_dataset()
        good = _good_chains(tree)
        every = 1 if most is None else max(1, math.ceil(len(good) * posterior.sizes["draw"] / most))
        self.dataset = posterior.isel(chain=good, draw=slice(None, None, every))
        arrays = {str(name): array for name, array in self.dataset.data_vars.items()}
        shaped = {name: np.zeros(array.shape[2:], array.dtype) for name, array in arrays.items()}
        self.params = parameters.nested_params(shaped) if init is None else init
        self.names = parameters.variable_names(self.params)
        if sorted(self.names) != sorted(arrays):
            raise ValueError(
                f"the draws have {', '.join(arrays)}, and init has {', '.join(self.names)}; give init= as in the run"
            )
        self.chains, self.each = self.dataset.sizes["chain"], self.dataset.sizes["draw"]
        if not self.each:
            raise ValueError("tree has no draws; let the run go on first")
        self.size = sum(array.nbytes for array in arrays.values())
        self._kept: dict[tuple[int, int], Params] = {}

    @property
    def count(self) -> int:
        return self.chains * self.each

    def block(self, chain: int, first: int, size: int) -> Params:
        """The parameters of so many draws; the last is repeated where there are fewer."""
        found = self._kept.get((chain, first))
        if found is not None:
            return found
        leaves = []
        for name in self.names:
            values = self.dataset[name].isel(chain=chain, draw=slice(first, first + size)).values
            leaves.append(filled(values, size))
        params = jax.tree.unflatten(jax.tree.structure(self.params), leaves)
        if self.size <= KEPT:
            params = self._kept[chain, first] = jax.device_put(params)
        return params


def _good_chains(tree: Results) -> np.ndarray:
    bad = ~good_chains(tree)
    if bad.all():
        raise ValueError("all chains of tree diverged, so there is nothing to predict with")
    if bad.any():
        which = ", ".join(map(str, np.flatnonzero(bad)))
        warn(f"{bad.sum()} of {len(bad)} chains diverged and are left out of the predictions: {which}")
    return np.flatnonzero(~bad)
