"""What a module of Flax or Equinox becomes: a posterior over its parameters; and how draws become modules again."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from isotherm.lib import arguments
from isotherm.lib.types import Batch, Example, Params, Results, Scalar
from isotherm.posterior import PosteriorWithDefaults
from isotherm.targets.parameters import variable_names

Module: TypeAlias = Any  # of Flax or Equinox


@dataclass(frozen=True, eq=False, repr=False)
class ModulePosterior(PosteriorWithDefaults):
    """What `network` of bridges/flax.py and bridges/equinox.py returns; it goes wherever a `Posterior` goes. Chains
    start at `params`, the module's parameters by name; `module(params)` is the module with the given parameters."""

    params: dict[str, jax.Array]
    module: Callable[[Params], Module]

    def defaults(self) -> tuple[Batch | None, Params | None]:
        return None, self.params

    def modules(self, tree: Results, number: int = 100) -> list[Module]:
        """Return modules with the parameters of `number` draws, evenly spread over the chains and over the run."""
        number = arguments.integer("number", number, 1)
        arrays = {str(name): array.values for name, array in tree["posterior"].to_dataset().data_vars.items()}
        chains, draws = next(iter(arrays.values())).shape[:2]
        chosen = np.unique(np.linspace(0, chains * draws - 1, number).round().astype(int))
        places = [np.unravel_index(place, (chains, draws)) for place in chosen]
        return [self.module({name: jnp.asarray(array[place]) for name, array in arrays.items()}) for place in places]

    def __repr__(self) -> str:
        size = sum(leaf.size for leaf in self.params.values())
        return f"<network: {size:,} parameters in {len(self.params)} arrays>"


def make_posterior(
    params: Params,
    module: Callable[[Params], Module],
    log_likelihood: Callable[[Module, Example], Scalar],
    prior_scale: float,
    log_prior: Callable[[Module], Scalar] | None,
) -> ModulePosterior:
    """Make a posterior of parameters as the module's library keeps them; `module` makes a module of them."""
    arguments.function("log_likelihood", log_likelihood, "(module, example) -> scalar")
    scale = arguments.positive("prior_scale", prior_scale)
    names, structure = variable_names(params), jax.tree.structure(params)
    if not names:
        raise ValueError("the module has no parameters, so there is nothing to sample")

    def by_name(params: Params) -> dict[str, jax.Array]:
        return dict(zip(variable_names(params), jax.tree.leaves(params), strict=True))

    def module_of(params: Params) -> Module:
        given = by_name(params)
        return module(jax.tree.unflatten(structure, [given[name] for name in names]))

    def likelihood(params: Params, example: Example) -> Scalar:
        return log_likelihood(module_of(params), example)

    def prior(params: Params) -> Scalar:
        if log_prior is not None:
            return log_prior(module_of(params))
        return -0.5 * sum((jnp.sum((leaf / scale) ** 2) for leaf in jax.tree.leaves(params)), jnp.zeros(()))

    return ModulePosterior(likelihood, prior, by_name(params), module_of)
