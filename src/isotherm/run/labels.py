"""What a run returns: an `xarray.DataTree` in ArviZ's schema, labelled, with attributes saying how it was made."""

from functools import cached_property

import jax
import numpy as np

from isotherm.diagnostics.convergence import watched
from isotherm.lib.types import Draws, Json, Results
from isotherm.lib.version import __version__
from isotherm.run.assemble import Run
from isotherm.run.chains import Snapshot
from isotherm.run.plan import Plan
from isotherm.samplers.settings import attributes
from isotherm.targets.parameters import variable_names

LIBRARY = {"inference_library": "isotherm", "inference_library_version": __version__}


class Labels:
    """Names, coordinates and attributes for the arrays of a run."""

    def __init__(self, run: Run, plan: Plan) -> None:
        flat = jax.ShapeDtypeStruct(run.starts.shape[1:], run.starts.dtype)
        params = jax.eval_shape(run.evaluation.target.unravel, flat)
        self.names, self.leaves = variable_names(params), jax.tree.leaves(params)
        self.attributes: Json = {
            **attributes(run.sampler),
            "batch_size": run.batches.size,
            "population": run.batches.population,
            "replace": int(run.batches.replace),
            "chains": run.chains,
            "seed": run.seed,
            **({} if run.name is None else {"name": run.name}),
            **run.notes,
        }
        self.replan(plan)

    def replan(self, plan: Plan) -> None:
        self.plan = plan
        self.attributes |= plan._asdict()

    def draws(self, draws: Draws, first: int, first_bad_step: np.ndarray) -> Results:
        """Return `posterior` and `sample_stats` by chain and draw; `first` is the first draw's number."""
        from arviz_base import from_dict

        by_chain = {name: values.swapaxes(0, 1) for name, values in draws.items()}
        positions = by_chain.pop("position")
        numbers = first + np.arange(positions.shape[1])
        ends = self.plan.burn_in + self.plan.thin * (numbers + 1)
        by_chain["diverging"] = (first_bad_step >= 0)[:, None] & (ends >= first_bad_step[:, None])
        groups = {"posterior": self.variables(positions), "sample_stats": by_chain}
        tree: Results = from_dict(groups, coords={"draw": numbers}, check_conventions=False)
        for group in tree.children.values():
            group.attrs.update(LIBRARY)
        return tree

    def tree(self, draws: Draws, first: int, snapshot: Snapshot) -> Results:
        """Return all groups: the draws, and `posterior_mean` and `posterior_variance` over every step after burn-in."""
        import xarray

        first_bad_step = np.asarray(snapshot.carry.first_bad_step)
        tree = self.draws(draws, first, first_bad_step)
        tree["sample_stats"]["first_bad_step"] = xarray.DataArray(first_bad_step, dims="chain")
        labels = tree["posterior"].dataset
        for name, values in self._moments(snapshot).items():
            named = self.variables(values).items()
            arrays = {key: ([dim for dim in labels[key].dims if dim != "draw"], array) for key, array in named}
            tree[name] = xarray.DataTree(xarray.Dataset(arrays, labels.drop_dims("draw").coords))
        unfinished = snapshot.step < self.plan.steps and (first_bad_step < 0).any()
        progress = {"steps_done": snapshot.step, "interrupted": int(unfinished), "sampling_time": snapshot.seconds}
        tree.attrs.update(LIBRARY | self.attributes | progress)
        return tree

    def _moments(self, snapshot: Snapshot) -> dict[str, np.ndarray]:
        """Return mean and variance; NaN for chains that diverged, and for all before the first step after burn-in."""
        moments = snapshot.carry.moments
        mean = np.asarray(moments.reference, np.float64) + np.asarray(moments.mean, np.float64)
        there = (np.asarray(snapshot.carry.first_bad_step) < 0) & (snapshot.step > self.plan.burn_in)
        arrays = {"posterior_mean": mean, "posterior_variance": np.asarray(moments.variance, np.float64)}
        dtype = np.asarray(moments.mean).dtype
        return {name: np.where(there[:, None], values, np.nan).astype(dtype) for name, values in arrays.items()}

    @cached_property
    def watched(self) -> np.ndarray:
        """The entries of a flat position that a goal watches."""
        return watched([leaf.size for leaf in self.leaves])

    def variables(self, positions: np.ndarray) -> dict[str, np.ndarray]:
        """Return flat positions (…, d) as the named arrays of the parameters."""
        parts = np.split(positions, np.cumsum([leaf.size for leaf in self.leaves])[:-1], axis=-1)
        named, lead = zip(self.names, self.leaves, parts, strict=True), positions.shape[:-1]
        return {name: part.reshape(*lead, *leaf.shape).astype(leaf.dtype) for name, leaf, part in named}
