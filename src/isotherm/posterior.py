"""What a user writes: a log-likelihood of one example and a log-prior."""

from collections.abc import Callable
from dataclasses import dataclass

from jax.tree_util import register_static

from isotherm.lib import arguments
from isotherm.lib.types import Batch, Example, Params, Results, Scalar, Vector

Unravel = Callable[[Vector], Params]


@register_static
@dataclass(frozen=True)
class Posterior:
    """A Bayesian model: `log_likelihood(params, example)` of ONE example and `log_prior(params)`, both scalars.

    `params` is any pytree of floating arrays; `example` is one row of the data.

    Examples:
        >>> import jax.numpy as jnp
        >>> posterior = Posterior(
        ...     lambda theta, example: -0.5 * (example["y"] - example["x"] @ theta) ** 2,
        ...     lambda theta: -0.5 * jnp.sum(theta**2),
        ... )
        >>> posterior.log_prior(jnp.ones(2))
        Array(-1., dtype=float32)
    """

    log_likelihood: Callable[[Params, Example], Scalar]
    log_prior: Callable[[Params], Scalar]

    def __init_subclass__(cls, has_arrays: bool = False) -> None:
        """JAX sees a posterior as part of the program, unless a subclass has arrays and says how JAX gets at them."""
        if not has_arrays:
            register_static(cls)

    def __post_init__(self) -> None:
        arguments.function("log_likelihood", self.log_likelihood, "(params, example) -> scalar")
        arguments.function("log_prior", self.log_prior, "(params) -> scalar")

    def opened(self, data: Batch | None, init: Params | None) -> tuple["Posterior", Batch, Params | None]:
        """The model that is sampled, its data and where to start: those given or, in place of None, the model's own,
        if it has some (bridges/numpyro.py)."""
        return self, data, init

    def results(self, tree: Results) -> Results:
        """The results of a run as its user is to see them."""
        return tree
