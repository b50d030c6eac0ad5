"""A module of Equinox as a posterior over its parameters (docs/guide/networks.md)."""

from collections.abc import Callable

from isotherm.bridges.network import Module, ModulePosterior, make_posterior
from isotherm.lib.optional import extra
from isotherm.lib.types import Example, Scalar


def network(
    module: Module,
    log_likelihood: Callable[[Module, Example], Scalar],
    *,
    prior_scale: float = 1.0,
    log_prior: Callable[[Module], Scalar] | None = None,
) -> ModulePosterior:
    """Make a module of Equinox a posterior over its floating arrays, for `isotherm.fit`, `sample`, `check` and so on.

    >>> import equinox as eqx, isotherm, jax
    >>> mlp = eqx.nn.MLP(2, "scalar", width_size=8, depth=1, key=jax.random.key(0))
    >>> network(mlp, lambda mlp, row: -0.5 * (row["y"] - mlp(row["x"])) ** 2)
    <network: 33 parameters in 4 arrays>

    Args:
        module: where chains start: as it was made, or trained with optax, which is a warm start.
        log_likelihood: of a module and ONE example. The module is in inference mode, so that dropout does nothing and
            normalisation uses what it has stored.
        prior_scale: the standard deviation of the prior N(0, prior_scale²) of each parameter.
        log_prior: of a module, instead of that prior.

    Returns:
        A posterior with `params`, `module(params)` and `modules(tree)`.
    """
    with extra("equinox", "isotherm.bridges.equinox"):
        import equinox as eqx

    params, static = eqx.partition(eqx.nn.inference_mode(module), eqx.is_inexact_array)
    return make_posterior(params, lambda params: eqx.combine(params, static), log_likelihood, prior_scale, log_prior)
