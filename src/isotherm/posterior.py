"""From a log-likelihood and a log-prior to the noisy force and its covariance, by one linearisation.

With f(θ) = (log π(x_i | θ))_i over a batch of n out of N examples and J its Jacobian,

    F̃ = (N/n) Jᵀ1 + ∇ log π(θ),        S = c Jᵀ(I − 11ᵀ/n) J,

where c = N²/(n(n−1)) for batches drawn with replacement and N(N−n)/(n(n−1)) without. `jax.linearize` gives J· and
its transpose Jᵀ·, so neither the n×d matrix of per-example gradients nor the d×d covariance is formed. Where rows are
drawn with unequal probabilities p_i, row i counts 1/(Np_i) times in f; the same formulas then hold.
"""

import contextlib
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import register_static

from isotherm.data.alias_table import AliasTable
from isotherm.data.sharded import Part
from isotherm.lib import arguments
from isotherm.lib.types import (
    Array,
    Batch,
    Bool,
    Example,
    Float,
    Matrix,
    Number,
    Params,
    RandomKey,
    Results,
    Scalar,
    Vector,
)

Unravel = Callable[[Vector], Params]

COLUMNS = 64  # of the Hessian that are computed together


@dataclass(frozen=True)
class Covariance:
    """The covariance S of the noisy force, as an operator; what is not asked for is not computed.

    `sampling_error` is how far off, relatively, S is known to be: 1/√n if it was estimated from n examples.
    """

    scale: float
    tangents: Callable[[Vector], Float[Array, " n"]]
    cotangents: Callable[[Float[Array, " n"]], Vector]
    gradients: Callable[[], Float[Array, "n d"]]
    sampling_error: float = 0.0

    def matvec(self, v: Vector) -> Vector:
        """S v: one product with J and one with Jᵀ."""
        u = self.tangents(v)
        return self.scale * self.cotangents(u - u.mean())

    def halves(self, v: Vector) -> tuple[Vector, Vector]:
        """S v as each half of the rows tells it; their errors are independent, so their product has none on average."""
        u = self.tangents(v)
        chosen = [self._every_second(u.size, first) for first in (0, 1)]
        counts = [jnp.maximum(self._total(jnp.sum(rows, dtype=u.dtype)), 2) for rows in chosen]

        def half(rows: Bool[Array, " n"], count: Scalar) -> Vector:
            mean = self._total(jnp.sum(jnp.where(rows, u, 0))) / count
            scale = self.scale * (sum(counts) - 1) / (count - 1)
            return self._total(scale * self.cotangents(jnp.where(rows, u - mean, 0)))

        return half(chosen[0], counts[0]), half(chosen[1], counts[1])

    def dense(self) -> Matrix:
        """S itself, one product of centred per-example gradients."""
        g = self._centred()
        return self.scale * (g.T @ g)

    def diagonal(self) -> Vector:
        return self.scale * jnp.sum(self._centred() ** 2, axis=0)

    def trace(self) -> Scalar:
        return self.scale * jnp.sum(self._centred() ** 2)

    def whitened(self, w: Vector | Number) -> "Covariance":
        """diag(w) S diag(w): with w = M^(−1/2), the covariance of the mass-whitened force."""
        if isinstance(w, float) and w == 1.0:
            return self
        return replace(
            self,
            tangents=lambda v: self.tangents(w * v),
            cotangents=lambda u: w * self.cotangents(u),
            gradients=lambda: self.gradients() * jnp.reshape(w, (1, -1)),
        )

    def _centred(self) -> Float[Array, "n d"]:
        g = self.gradients()
        return g - g.mean(axis=0, keepdims=True)

    def _every_second(self, n: int, first: int) -> Bool[Array, " n"]:
        """Which of n rows they are."""
        return jnp.arange(n) % 2 == first

    def _total(self, here: Array) -> Array:
        """The sum with what rows elsewhere have, if there are any."""
        return here


@dataclass(frozen=True, kw_only=True)
class SharedCovariance(Covariance):
    """S where the rows of a batch are spread over devices: each product is summed over them, and that is all that they
    tell each other. `mean` is the mean gradient over the whole batch, which every device knows of the force."""

    part: Part
    mean: Vector

    def matvec(self, v: Vector) -> Vector:
        u = jnp.where(self.part.counted, self.tangents(v) - self.mean @ v, 0)
        return self.part.total(self.scale * self.cotangents(u))

    def dense(self) -> Matrix:
        return self.part.total(super().dense())

    def diagonal(self) -> Vector:
        return self.part.total(super().diagonal())

    def trace(self) -> Scalar:
        return self.part.total(super().trace())

    def whitened(self, w: Vector | Number) -> "Covariance":
        if isinstance(w, float) and w == 1.0:
            return self
        return replace(super().whitened(w), mean=w * self.mean)  # type: ignore[call-arg]

    def _centred(self) -> Float[Array, "n d"]:
        return jnp.where(self.part.counted[:, None], self.gradients() - self.mean[None, :], 0)

    def _every_second(self, n: int, first: int) -> Bool[Array, " n"]:
        return self.part.counted & (self.part.places % 2 == first)

    def _total(self, here: Array) -> Array:
        return self.part.total(here)


@dataclass(frozen=True)
class Curvature:
    """The Hessian K of −log π(θ | data) as a batch tells it, as an operator; what is not asked for is not computed.
    `identity`: it is not measured but known to be I, since the coordinates were chosen so."""

    matvec: Callable[[Vector], Vector]
    identity: bool = False

    def dense(self, like: Vector) -> Matrix:
        """K itself, some columns at a time, so that little memory is needed beside it; `like` is any vector."""
        if self.identity:
            return jnp.eye(like.size, dtype=like.dtype)
        columns = jax.lax.map(self.matvec, jnp.eye(like.size, dtype=like.dtype), batch_size=COLUMNS)
        return (columns + columns.T) / 2

    def whitened(self, w: Vector | Number) -> "Curvature":
        """diag(w) K diag(w): with w = M^(−1/2), the curvature in mass-whitened variables."""
        if isinstance(w, float) and w == 1.0:
            return self
        return Curvature(lambda v: w * self.matvec(w * v))


@dataclass(frozen=True)
class Noisy:
    """What a posterior says at one position on one batch.

    `curvature_ratio` is what the Hessian K of −log π is to S when the model is right: by the information equality
    K = N·Cov(g), so K = S n/N with replacement, S n/(N − n) without. `curvature` is K measured, or None for a model
    that cannot be differentiated twice.

    S is meant for batches of `size` examples out of `population`. On a larger one, the covariance of `force` is `share`
    times S. `is_whitened`: K is known to be I, or nearly.
    """

    force: Vector
    _covariance: Callable[[], Covariance]
    curvature_ratio: float = 0.0
    _curvature: Callable[[], Curvature | None] = lambda: None
    _fresh: Callable[[RandomKey, Vector, int], "Noisy"] | None = None
    share: float = 1.0
    population: int = 1
    size: int = 1
    is_whitened: bool = False

    @property
    def covariance(self) -> Covariance:
        return self._covariance()

    @property
    def curvature(self) -> Curvature | None:
        return self._curvature()

    def fresh(self, key: RandomKey, position: Vector, rows: int = 0) -> "Noisy":
        """The posterior at any position on another batch, of at least so many rows. What it says of S is still meant
        for batches as large as this one. Where there are no data to draw from, this batch again."""
        return self if self._fresh is None else self._fresh(key, position, rows)


def _summed(part: Part, product: Callable[[Vector], Vector], v: Vector) -> Vector:
    return part.total(product(v))


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
        >>> batch = {"x": jnp.eye(3), "y": jnp.ones(3)}
        >>> posterior.noisy(jnp.zeros(3), batch, population=6).force
        Array([2., 2., 2.], dtype=float32)
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

    # What samplers see is a function of a flat vector, the position. Here that is the parameters themselves, the
    # log-likelihood is estimated from batches, and the log-prior is exact; an anchored posterior
    # (targets/anchored.py) has other coordinates and knows more of the sum exactly.

    @property
    def plain(self) -> "Posterior":
        """The model alone, without what is known of it besides."""
        return Posterior(self.log_likelihood, self.log_prior)

    def opened(self, data: Batch | None, init: Params | None) -> tuple["Posterior", Batch, Params | None]:
        """The model that is sampled, its data and where to start: those given or, in place of None, the model's own,
        if it has some (bridges/numpyro.py)."""
        return self, data, init

    def results(self, tree: Results) -> Results:
        """The results of a run as its user is to see them."""
        return tree

    is_whitened = False  # whether the curvature is about 1 in every direction of the positions

    @property
    def table(self) -> AliasTable | None:
        """The probabilities with which rows are to be drawn, if not equal ones."""
        return None

    @property
    def chosen_batch_size(self) -> int | None:
        """The batch size that suits it, if that is known."""
        return None

    def typical_params(self, seed: int, chains: int) -> list[Params]:
        """Parameters that are about as far from the mode as draws are, one for each chain, if that is known."""
        raise TypeError("init must be given: the parameters to start from, such as zeros of their shapes")

    def flat_parameters(self, position: Vector) -> Vector:
        """The parameters as one flat vector."""
        return position

    def position(self, flat: np.ndarray) -> np.ndarray:
        """The position of these parameters, on the host."""
        return flat

    def estimated(self, position: Vector, unravel: Unravel, example: Example) -> Scalar:
        """One example's share of what batches estimate; `unravel` makes parameters of a flat vector."""
        return self.log_likelihood(unravel(self.flat_parameters(position)), example)

    def exact(self, position: Vector, unravel: Unravel) -> Scalar:
        """The rest of the log density, up to a constant."""
        return self.log_prior(unravel(self.flat_parameters(position)))

    def noisy(
        self,
        position: Vector,
        batch: Batch,
        *,
        population: int,
        replace: bool = True,
        unravel: Unravel = lambda position: position,
        size: int | None = None,
        weights: Float[Array, " n"] | None = None,
        part: Part | None = None,
    ) -> Noisy:
        """The force at the flat vector `position` on `batch`, out of `population` examples, its covariance and the
        curvature. `size` is the number of examples of the batches whose forces S is the covariance of, if not this;
        `weights` are how often each example counts, 1/(Np_i), if they were not drawn with equal probabilities; `part`
        says which of a batch these rows are, if they are not all of it."""

        def one(position: Vector, example: Example, weight: Scalar | None) -> Scalar:
            value = self.estimated(position, unravel, example)
            return value if weight is None else weight.astype(value.dtype) * value

        def each(position: Vector) -> Float[Array, " n"]:
            values = jax.vmap(one, in_axes=(None, 0, 0))(position, batch, weights)
            return values if part is None else jnp.where(part.counted, values, 0)

        values, tangents = jax.linearize(each, position)
        transpose = jax.linear_transpose(tangents, position)
        rows = values.shape[0] if part is None else part.rows
        n = rows if size is None else size
        whole = size is not None and rows == population  # all examples, not a sample of them

        def exact(position: Vector) -> Scalar:
            return self.exact(position, unravel)

        slope = transpose(jnp.ones_like(values))[0]
        if part is not None:
            slope = part.total(slope)
        force = (population / rows) * slope + jax.grad(exact)(position)

        def forward(v: Vector) -> Float[Array, " n"]:
            # What JAX makes of one, and then cannot compile; a `custom_linear_solve` it can.
            if re.search(r"\bcustom_lin\b", str(jax.make_jaxpr(tangents)(v))):
                raise TypeError(
                    "log_likelihood has a jax.custom_vjp, through which derivatives go backward only, and this sampler "
                    'needs them forward too; use jax.custom_jvp, or isotherm.eccadl(covariance="dense")'
                )
            return tangents(v)

        def covariance() -> Covariance:
            if rows < 2:
                raise ValueError(f"batch_size must be at least 2 to estimate a covariance, got {rows}")
            spread = population * population if replace else population * max(population - n, 0)
            here = Covariance(
                spread / (n * (rows if replace and whole else rows - 1)),
                forward,
                lambda u: transpose(u)[0],
                lambda: jax.vmap(jax.grad(one), in_axes=(None, 0, 0))(position, batch, weights),
                rows**-0.5,
            )
            return here if part is None else SharedCovariance(**vars(here), part=part, mean=slope / rows)

        def curvature() -> Curvature | None:
            if self.is_whitened:
                return Curvature(lambda v: v, identity=True)

            def energy(position: Vector) -> Scalar:
                devices = 1 if part is None else jax.lax.axis_size(part.axis)  # of which each has its share of the rest
                return -(population / rows) * jnp.sum(each(position)) - exact(position) / devices

            def forward_over_reverse(v: Vector) -> Vector:
                return jax.jvp(jax.grad(energy), (position,), (v,))[1]

            def reverse_over_reverse(v: Vector) -> Vector:  # for a jax.custom_vjp, which has no forward derivative
                return jax.grad(lambda position: jax.grad(energy)(position) @ v)(position)

            for product in (forward_over_reverse, reverse_over_reverse):
                with contextlib.suppress(Exception):  # whatever a model's own derivative rules raise
                    jax.eval_shape(jax.vmap(product), position[None])  # batched, as they will be used
                    return Curvature(product if part is None else partial(_summed, part, product))
            return None

        ratio = n / population if replace else n / max(population - n, 1)
        if self.is_whitened:
            ratio = 0.0  # the information equality is about all of the log-likelihood, not what is left of it
        return Noisy(
            force,
            covariance,
            ratio,
            curvature,
            share=0.0 if whole else n / rows,
            population=population,
            size=n,
            is_whitened=self.is_whitened,
        )


def opened(posterior: object, data: Batch | None, init: Params | None = None) -> tuple[Posterior, Batch, Params | None]:
    """What `Posterior.opened` says, if that is what was given."""
    if not isinstance(posterior, Posterior):
        raise TypeError(f"posterior must be an isotherm.Posterior, got {type(posterior).__name__}")
    return posterior.opened(data, init)
