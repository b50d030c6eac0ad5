"""A module of Flax NNX as a posterior over its parameters (docs/guide/networks.md)."""

from collections.abc import Callable

import jax

from isotherm.bridges.network import Module, ModulePosterior, make_posterior
from isotherm.lib.optional import extra
from isotherm.lib.types import Example, Params, Scalar


def network(
    module: Module,
    log_likelihood: Callable[[Module, Example], Scalar],
    *,
    prior_scale: float = 1.0,
    log_prior: Callable[[Module], Scalar] | None = None,
) -> ModulePosterior:
    """Make a module of Flax NNX a posterior over its `nnx.Param`s, for `isotherm.fit`, `sample`, `check` and so on.

    >>> import isotherm
    >>> from flax import nnx
    >>> linear = nnx.Linear(2, 1, rngs=nnx.Rngs(0))
    >>> network(linear, lambda linear, row: -0.5 * (row["y"] - linear(row["x"])[0]) ** 2)
    <network: 3 parameters in 2 arrays>

    The arguments and the posterior are those of `isotherm.bridges.equinox.network`. The module that `log_likelihood`
    and `log_prior` get is in evaluation mode.
    """
    with extra("flax", "isotherm.bridges.flax"):
        from flax import nnx
    if not isinstance(module, nnx.Module):
        raise TypeError(f"module must be an nnx.Module of Flax, got {type(module).__name__}")

    graph, state, *rest = nnx.split(module, nnx.Param, ...)
    structure = jax.tree.structure(state)

    def with_params(params: Params) -> Module:
        merged = nnx.merge(graph, jax.tree.unflatten(structure, jax.tree.leaves(params)), *rest)
        merged.eval()
        return merged

    return make_posterior(nnx.to_pure_dict(state), with_params, log_likelihood, prior_scale, log_prior)
