"""What a user writes: a log-likelihood of one example, a log-prior, and parameters that belong to a column's levels."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from isotherm.lib import arguments
from isotherm.lib.types import Batch, Example, Params, Results, Scalar

UNCONSTRAINED = "unconstrained_posterior"  # ArviZ's name of the group with what was sampled, if `posterior` differs
ScalePrior = float | Callable[[Scalar], Scalar] | None
Effects = tuple[tuple[str, "Effect"], ...]  # by name: a dict that can be hashed


@dataclass(frozen=True)
class Effect:
    """A parameter that has a value for each level of a column, such as each batter, drawn from a population.

    The values are N(0, τ²), with τ learned; vectors with `size`, each component with a τ of its own.

    Args:
        by: the column whose entries are the levels, of numbers or strings; "school:class" are the pairs that occur of
            two columns. A tuple of columns is an effect that each row has for each of them, such as two players of a
            game: `params[name][0]` and `params[name][1]`.
        size: how many components a level has; a number unless given.
        correlated: whether the components are correlated, with a matrix that has the prior LKJ(1).
        scale_prior: the standard deviation of τ's half-normal prior, or a function that returns the log density of τ,
            or None where `log_prior` has it, which sees τ as "sd_" and the effect's name.
        scale: τ, if it is not learned.
        df: the degrees of freedom of Student's t, if the levels are not normal.

    Examples:
        >>> Effect("school")
        Effect(by='school', size=None, correlated=False, scale_prior=1.0, scale=None, df=None)
    """

    by: str | tuple[str, ...]
    size: int | None = None
    correlated: bool = False
    scale_prior: ScalePrior = 1.0
    scale: float | None = None
    df: float | None = None

    def __post_init__(self) -> None:
        columns = (self.by,) if isinstance(self.by, str) else self.by
        if not isinstance(columns, tuple) or not columns or not all(isinstance(column, str) for column in columns):
            raise TypeError(f"by must be the name of a column or a tuple of names, got {self.by!r}")
        if self.size is not None:
            arguments.integer("size", self.size, 1)
        if self.correlated and (self.size or 1) < 2:
            raise ValueError(f"correlated=True needs a size of at least 2, got size={self.size}")
        if self.correlated and (self.scale is not None or self.df is not None):
            raise ValueError("correlated=True goes with a learned scale and normal levels; leave out scale and df")
        if self.scale_prior is not None and not callable(self.scale_prior):
            arguments.positive("scale_prior", self.scale_prior)
        for name, value in (("scale", self.scale), ("df", self.df)):
            if value is not None:
                arguments.positive(name, value)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of `by`."""
        return (self.by,) if isinstance(self.by, str) else self.by


@dataclass(frozen=True)
class Posterior:
    """A Bayesian model: `log_likelihood(params, example)` of ONE example and `log_prior(params)`, both scalars.

    `params` is any pytree of floating arrays; `example` is one row of the data. With `effects`, a dict of `Effect`s by
    name, `params` is a dict, in which `log_likelihood` finds the row's own levels under these names; `log_prior` is of
    everything but the effects, and so is `init`.

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
    effects: Mapping[str, Effect] | Effects = field(default=(), kw_only=True)

    def __post_init__(self) -> None:
        arguments.function("log_likelihood", self.log_likelihood, "(params, example) -> scalar")
        arguments.function("log_prior", self.log_prior, "(params) -> scalar")
        object.__setattr__(self, "effects", checked_effects(self.effects))


def checked_effects(effects: Mapping[str, Effect] | Effects) -> Effects:
    """Return the effects as pairs of a name and an `Effect`."""
    pairs = tuple(effects.items()) if isinstance(effects, Mapping) else effects
    if not isinstance(pairs, tuple):
        raise TypeError(f"effects must be a dict of isotherm.Effect by name, got {effects!r}")
    for name, effect in pairs:
        if not isinstance(name, str) or not name.isidentifier() or not isinstance(effect, Effect):
            raise TypeError(f"effects must be a dict of isotherm.Effect by name, got {name!r}: {effect!r}")
    return pairs


class PosteriorWithDefaults(Posterior):
    """A posterior that brings data or a start of its own, or names and scales for its results (bridges/)."""

    def defaults(self) -> tuple[Batch | None, Params | None]:
        """Return its data and where chains start, in place of those that a user leaves out."""
        return None, None

    def results(self, tree: Results) -> Results:
        """Return the results of a run as its user is to see them."""
        return tree
