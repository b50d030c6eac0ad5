"""What a user writes: a log-likelihood of one example and a log-prior."""

from collections.abc import Callable
from dataclasses import dataclass

from isotherm.lib import arguments
from isotherm.lib.types import Batch, Example, Params, Results, Scalar


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
        >>> example = {"x": jnp.array([1.0, 2.0, 3.0]), "y": jnp.array(2.0)}
        >>> posterior.log_likelihood(jnp.zeros(3), example)
        Array(-2., dtype=float32)
    """

    log_likelihood: Callable[[Params, Example], Scalar]
    log_prior: Callable[[Params], Scalar]

    def __post_init__(self) -> None:
        arguments.function("log_likelihood", self.log_likelihood, "(params, example) -> scalar")
        arguments.function("log_prior", self.log_prior, "(params) -> scalar")


class PosteriorWithDefaults(Posterior):
    """A posterior that brings data or a start of its own, or names and scales for its results (bridges/)."""

    def defaults(self) -> tuple[Batch | None, Params | None]:
        """Return its data and where chains start, in place of those that a user leaves out."""
        return None, None

    def results(self, tree: Results) -> Results:
        """Return the results of a run as its user is to see them."""
        return tree
