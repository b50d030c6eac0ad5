"""What a sampler evaluates: a log density as a function of a flat vector, and its derivatives from batches.

With f(θ) = (log π(x_i | θ))_i over a batch of n out of N examples and J its Jacobian,

    F̃ = (N/n) Jᵀ1 + ∇ log π(θ),        S = c Jᵀ(I − 11ᵀ/n) J,

where c = N²/(n(n−1)) for batches drawn with replacement and N(N−n)/(n(n−1)) without. `jax.linearize` gives J· and
its transpose Jᵀ·, so neither the n×d matrix of per-example gradients nor the d×d covariance is formed. Where rows are
drawn with unequal probabilities p_i, row i counts 1/(Np_i) times in f; the same formulas then hold.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Jaxpr, subjaxprs
from jax.extend.core.primitives import custom_lin_p
from jax.tree_util import register_static

from isotherm.data.alias_table import AliasTable
from isotherm.data.sharded import BatchShard
from isotherm.lib.types import Array, Batch, Example, Float, Params, Results, Scalar, Vector
from isotherm.posterior import Posterior, PosteriorWithDefaults
from isotherm.targets.noisy import Covariance, Curvature, Noisy, Sampling, SharedCovariance

Unravel = Callable[[Vector], Params]  # from flat parameters to the user's
NO_DERIVATIVE = re.compile(  # what JAX says of a function that it cannot differentiate in the way that was asked for
    "forward-mode autodiff|Reverse-mode differentiation does not work|backwards mode automatic differentiation|"
    "cannot be differentiated|not support (JVP|reverse-mode autodiff)|JVP rule .* not implemented"
)


@register_static
@dataclass(frozen=True)
class Target(Posterior):
    """A model as a function of a flat vector, the position.

    Here that is the parameters themselves, the log-likelihood is estimated from batches, and the log-prior is exact; an
    anchored posterior (targets/anchored.py) has other coordinates and knows more of the sum exactly. `unravel` makes
    the user's parameters of flat ones.

    Examples:
        >>> import jax.numpy as jnp
        >>> target = Target(
        ...     lambda theta, example: -0.5 * (example["y"] - example["x"] @ theta) ** 2,
        ...     lambda theta: -0.5 * jnp.sum(theta**2),
        ... )
        >>> batch = {"x": jnp.eye(3), "y": jnp.ones(3)}
        >>> target.noisy(jnp.zeros(3), batch, population=6).force
        Array([2., 2., 2.], dtype=float32)
    """

    unravel: Unravel = lambda flat: flat

    curvature_is_identity = False  # in the coordinates of positions, or nearly
    rows_are_checked = False  # the log-likelihood of every row has been evaluated before

    @property
    def plain(self) -> "Target":
        """The model alone, without what is known of it besides."""
        return Target(self.log_likelihood, self.log_prior, self.unravel)

    @property
    def row_probabilities(self) -> AliasTable | None:
        """The probabilities with which rows are to be drawn, if not equal ones."""
        return None

    @property
    def chosen_batch_size(self) -> int | None:
        """The batch size that suits it, if that is known."""
        return None

    def typical_params(self, seed: int, chains: int) -> list[Params]:
        """Return parameters that are about as far from the mode as draws are, one for each chain, if that is known."""
        raise TypeError("init must be given: the parameters to start from, such as zeros of their shapes")

    def flat_parameters(self, position: Vector) -> Vector:
        """Return the parameters as one flat vector."""
        return position

    def position(self, flat: np.ndarray) -> np.ndarray:
        """Return the position of these parameters, on the host."""
        return flat

    def params(self, position: Vector) -> Params:
        """Return the user's parameters at a position."""
        return self.unravel(self.flat_parameters(position))

    def estimated(self, position: Vector, example: Example) -> Scalar:
        """Return one example's share of what batches estimate."""
        return self.log_likelihood(self.params(position), example)

    def exact(self, position: Vector) -> Scalar:
        """Return the part of the log density that is evaluated exactly, up to a constant."""
        return self.log_prior(self.params(position))

    def noisy(
        self,
        position: Vector,
        batch: Batch,
        *,
        population: int,
        replace: bool = True,
        size: int | None = None,
        weights: Float[Array, " n"] | None = None,
        shard: BatchShard | None = None,
    ) -> Noisy:
        """Return the estimates at `position` from `batch`, drawn from `population` examples. S is the covariance of
        batches of `size` examples, if not of as many as these; `weights` and `shard` are those of `BatchDensity`."""
        rows = jax.tree.leaves(batch)[0].shape[0] if shard is None else shard.rows
        is_everything = size is not None and weights is None and rows == population
        sampling = Sampling(population, rows, rows if size is None else size, replace, is_everything)
        return BatchDensity(self, batch, weights, sampling, shard).noisy(position)


@dataclass(frozen=True)
class BatchDensity:
    """A target on one batch. `weights` are how often each row counts, 1/(Np_i), if they were not drawn with equal
    probabilities; `shard` says which rows of the batch these are, if others are on other devices."""

    target: Target
    batch: Batch
    weights: Float[Array, " n"] | None
    sampling: Sampling
    shard: BatchShard | None

    def one(self, position: Vector, example: Example, weight: Scalar | None) -> Scalar:
        value = self.target.estimated(position, example)
        return value if weight is None else weight.astype(value.dtype) * value

    def each(self, position: Vector) -> Float[Array, " n"]:
        """Return f."""
        values = jax.vmap(self.one, in_axes=(None, 0, 0))(position, self.batch, self.weights)
        return values if self.shard is None else jnp.where(self.shard.counted, values, 0)

    def gradients(self, position: Vector) -> Float[Array, "n d"]:
        """Return J."""
        return jax.vmap(jax.grad(self.one), in_axes=(None, 0, 0))(position, self.batch, self.weights)

    def energy(self, position: Vector) -> Scalar:
        """Return −log π(θ | data) up to a constant, or a device's share of it."""
        devices = 1 if self.shard is None else jax.lax.axis_size(self.shard.axis)
        scale = self.sampling.population / self.sampling.rows
        return -scale * jnp.sum(self.each(position)) - self.target.exact(position) / devices

    def total(self, here: Vector) -> Vector:
        return here if self.shard is None else self.shard.total(here)

    def noisy(self, position: Vector) -> Noisy:
        """Return the force, by one linearisation, and how to compute its covariance and the curvature."""
        values, tangents = jax.linearize(self.each, position)
        transpose = jax.linear_transpose(tangents, position)
        slope = self.total(transpose(jnp.ones_like(values))[0])
        rows, is_identity = self.sampling.rows, self.target.curvature_is_identity

        def covariance() -> Covariance:
            products = partial(forward, tangents), lambda u: transpose(u)[0]
            here = Covariance(self.sampling.scale, *products, partial(self.gradients, position), rows**-0.5)
            return here if self.shard is None else SharedCovariance(**vars(here), shard=self.shard, mean=slope / rows)

        def curvature() -> Curvature | None:
            if is_identity:
                return Curvature(lambda v: v, identity=True)
            product = self.hessian_product(position)
            return None if product is None else Curvature(lambda v: self.total(product(v)))

        force = (self.sampling.population / rows) * slope + jax.grad(self.target.exact)(position)
        ratio = 0.0 if is_identity else self.sampling.curvature_ratio
        return Noisy(force, covariance, curvature, self.sampling, ratio, is_identity)

    def hessian_product(self, position: Vector) -> Callable[[Vector], Vector] | None:
        """Return the product with K of the rows here, if JAX can differentiate the model twice: forward over reverse,
        or reverse over reverse, which is for a `jax.custom_vjp`. What the model's own code raises is raised."""
        slope = jax.grad(self.energy)

        def forward_over_reverse(v: Vector) -> Vector:
            return jax.jvp(slope, (position,), (v,))[1]

        def reverse_over_reverse(v: Vector) -> Vector:
            return jax.grad(lambda position: slope(position) @ v)(position)

        for product in (forward_over_reverse, reverse_over_reverse):
            try:
                jax.eval_shape(jax.vmap(product), position[None])  # batched, as it will be used
            except Exception as error:
                if not has_no_derivative(error):
                    raise
            else:
                return product
        return None


def forward(tangents: Callable[[Vector], Float[Array, " n"]], v: Vector) -> Float[Array, " n"]:
    """Return J v; refuse a model whose derivatives go backward only."""
    if has_custom_vjp(jax.make_jaxpr(tangents)(v).jaxpr):
        raise TypeError(
            "log_likelihood has a jax.custom_vjp, through which derivatives go backward only, and this sampler "
            'needs them forward too; use jax.custom_jvp, or isotherm.eccadl(covariance="dense")'
        )
    return tangents(v)


def has_custom_vjp(jaxpr: Jaxpr) -> bool:
    """Return whether a linear program has what JAX makes of a `jax.custom_vjp`, and then cannot compile."""
    here = any(equation.primitive is custom_lin_p for equation in jaxpr.eqns)
    return here or any(map(has_custom_vjp, subjaxprs(jaxpr)))


def has_no_derivative(error: Exception) -> bool:
    """Return whether JAX raised this because a function has no such derivative; else it is the function's own error."""
    return isinstance(error, NotImplementedError) or NO_DERIVATIVE.search(str(error)) is not None


def as_target(posterior: Posterior) -> Target:
    """Return what a sampler evaluates of what a user passes as `posterior`."""
    if not isinstance(posterior, Posterior):
        raise TypeError(f"posterior must be an isotherm.Posterior, got {type(posterior).__name__}")
    return posterior if isinstance(posterior, Target) else Target(posterior.log_likelihood, posterior.log_prior)


def with_defaults(
    posterior: Posterior, data: Batch | None, init: Params | None = None
) -> tuple[Target, Batch, Params | None]:
    """Return the target, its data and where to start: those given or, in place of None, the model's own."""
    target = as_target(posterior)
    if isinstance(posterior, PosteriorWithDefaults):
        own_data, own_init = posterior.defaults()
        data, init = own_data if data is None else data, own_init if init is None else init
    return target, data, init


def results_for_user(posterior: Posterior, tree: Results) -> Results:
    """Return the results of a run under the model's own names and on its own scales, if it has some."""
    return posterior.results(tree) if isinstance(posterior, PosteriorWithDefaults) else tree
