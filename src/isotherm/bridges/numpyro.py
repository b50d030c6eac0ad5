"""`isotherm.from_numpyro`: a NumPyro model and its data as a posterior.

With z the unconstrained values of the latent sites and T their transforms, what is sampled is

    log π(z | data) = Σ_i log p(row i | T(z)) + log π(T(z)) + log |det T′(z)| + constant.

bridges/numpyro_rows.py finds the two parts, and refuses models that have no such parts.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass

import jax
import numpy as np

from isotherm.bridges.numpyro_rows import Latent, ModelFunction, split_by_rows
from isotherm.diagnostics.verdict import UNCONSTRAINED, as_sampled
from isotherm.lib.optional import extra
from isotherm.lib.types import Batch, Params, RandomKey, Results
from isotherm.posterior import PosteriorWithDefaults
from isotherm.targets.checks import as_arrays, check_data

START_RADIUS = 0.1  # chains start at unconstrained values between −0.1 and 0.1
BLOCK_DRAWS = 256  # turned into constrained values together


def from_numpyro(model: ModelFunction, data: Batch, /, **fixed: object) -> "NumPyroModel":
    """Make a posterior of a NumPyro model and its data, for `isotherm.fit`, `sample`, `resume`, `check` and `report`.

    >>> import isotherm, numpy as np, numpyro, numpyro.distributions as dist
    >>> def model(x, y):
    ...     slope = numpyro.sample("slope", dist.Normal(0, 1))
    ...     sigma = numpyro.sample("sigma", dist.HalfNormal(1))
    ...     with numpyro.plate("rows", len(y)):
    ...         numpyro.sample("y", dist.Normal(slope * x, sigma), obs=y)
    >>> x = np.linspace(-1, 1, 100)
    >>> isotherm.from_numpyro(model, {"x": x, "y": 2 * x})
    <NumPyro model: slope, sigma; 100 rows>

    Then `isotherm.fit(posterior)` needs neither data nor a start. The draws it returns have the model's names and are
    in the space that its priors are on.

    Args:
        model: a function with NumPyro's `sample` statements.
        data: those of its arguments that have one row an example, by name; or a table of pandas, polars or Arrow,
            whose columns they are. The model must work with any number of rows: plates have the size `len(y)`.
        fixed: its other arguments, which are the same for all rows, such as the number of groups.

    Returns:
        A posterior with its data, which goes wherever a `Posterior` goes.

    Raises:
        ValueError: the model cannot be split by rows, in a sentence that says why.
    """
    with extra("numpyro", "from_numpyro"):
        import numpyro  # noqa: F401
    if not callable(model):
        raise TypeError(f"model must be a function with numpyro.sample statements, got {model!r}")
    data = as_arrays("data", data)
    if not isinstance(data, dict) or not all(isinstance(name, str) for name in data):
        raise TypeError(f"data must have the model's arguments by name, such as {{'x': x, 'y': y}}, got {type(data)}")
    check_data(data)
    try:
        inspect.signature(model).bind(**data, **fixed)
    except TypeError as error:
        raise TypeError(f"data and further arguments do not fit the model: {error}") from error
    return NumPyroModel(*split_by_rows(model, data, fixed), data)


@dataclass(frozen=True, eq=False, repr=False)
class NumPyroModel(PosteriorWithDefaults):
    """What `isotherm.from_numpyro` returns: a `Posterior` with data, a start and names. Its parameters are a dict of
    unconstrained values; `data` are the arrays of the model's arguments."""

    latents: tuple[Latent, ...]
    values: Callable[[Params], dict[str, jax.Array]]  # parameters → values of latent and deterministic sites
    data: Batch

    def defaults(self) -> tuple[Batch | None, Params | None]:
        return self.data, self.start

    def start(self, key: RandomKey) -> Params:
        """Parameters near 0, a little different for each key."""
        keys = jax.random.split(key, len(self.latents))
        drawn = zip(self.latents, keys, strict=True)
        return {
            latent.label: jax.random.uniform(k, latent.shape, minval=-START_RADIUS, maxval=START_RADIUS)
            for latent, k in drawn
        }

    def results(self, tree: Results) -> Results:
        """Return the results with `posterior` in the space that the model's priors are on, with its sites' names.

        The deterministic sites that do not depend on the data are there too. What was sampled is in
        `unconstrained_posterior`.
        """
        from arviz_base import from_dict

        sampled = as_sampled(tree)["posterior"].to_dataset()
        labels = [latent.label for latent in self.latents]
        if missing := [label for label in labels if label not in sampled]:
            raise ValueError(f"these are no results of this model: {', '.join(missing)} is missing")
        if UNCONSTRAINED in tree.children:
            return tree
        chains, draws = sampled.sizes["chain"], sampled.sizes["draw"]
        flat = {label: sampled[label].values.reshape(-1, *sampled[label].shape[2:]) for label in labels}
        values = jax.jit(lambda params: jax.lax.map(self.values, params, batch_size=BLOCK_DRAWS))(flat)
        by_chain = {name: np.asarray(each).reshape(chains, draws, *each.shape[1:]) for name, each in values.items()}
        coordinates = {name: sampled[name].values for name in ("chain", "draw")}
        seen: Results = tree.copy()
        seen["posterior"] = from_dict({"posterior": by_chain}, coords=coordinates, check_conventions=False)["posterior"]
        seen["posterior"].attrs.update(tree["posterior"].attrs)
        seen[UNCONSTRAINED] = tree["posterior"].copy()
        return seen

    def __repr__(self) -> str:
        rows = len(jax.tree.leaves(self.data)[0])
        return f"<NumPyro model: {', '.join(latent.name for latent in self.latents)}; {rows:,} rows>"
