"""What a batch says of a log density at one position, as samplers see it: force, covariance and curvature.

With f(θ) = (log π(x_i | θ))_i over a batch of n out of N examples and J its Jacobian,

    F̃ = (N/n) Jᵀ1 + ∇ log π(θ),        S = c Jᵀ(I − 11ᵀ/n) J,

where c = N²/(n(n−1)) for batches drawn with replacement and N(N−n)/(n(n−1)) without. `jax.linearize` gives J· and
its transpose Jᵀ·, so neither the n×d matrix of per-example gradients nor the d×d covariance is formed. Where rows are
drawn with unequal probabilities p_i, row i counts 1/(Np_i) times in f; the same formulas then hold.
"""

import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import jax
import jax.numpy as jnp

from isotherm.data.sharded import BatchShard
from isotherm.lib.types import Array, Batch, Bool, Example, Float, Matrix, Number, Scalar, Vector
from isotherm.targets.target import Target

HESSIAN_COLUMNS = 64  # computed together
DENSE_PARAMETERS = 1024  # for which d×d matrices are decomposed: beyond, that takes longer than many steps


@dataclass(frozen=True)
class Covariance:
    """The covariance S of the noisy force, as a lazy linear operator.

    `sampling_error` is the relative error of S: 1/√n if it was estimated from n examples. Where rows of the batch are
    on other devices, `shard` says which are here, and `mean` is the mean gradient over the whole batch, which every
    device knows of the force; each product is then summed over devices, and that is all that they exchange.
    """

    scale: float
    tangents: Callable[[Vector], Float[Array, " n"]]
    cotangents: Callable[[Float[Array, " n"]], Vector]
    gradients: Callable[[], Float[Array, "n d"]]
    sampling_error: float = 0.0
    shard: BatchShard | None = None
    mean: Vector | None = None
    known_diagonal: Vector | None = None

    def matvec(self, v: Vector) -> Vector:
        """Return S v: one product with J and one with Jᵀ."""
        u = self.tangents(v)
        if self.shard is None or self.mean is None:
            return self.scale * self.cotangents(u - u.mean())
        return self._total(self.scale * self.cotangents(jnp.where(self.shard.counted, u - self.mean @ v, 0)))

    def halves(self, v: Vector) -> tuple[Vector, Vector]:
        """Return two independent estimates of S v, from even and odd rows; their product is unbiased."""
        u = self.tangents(v)
        chosen = [self._every_second(u.size, first) for first in (0, 1)]
        counts = [jnp.maximum(self._total(jnp.sum(rows, dtype=u.dtype)), 2) for rows in chosen]

        def half(rows: Bool[Array, " n"], count: Scalar) -> Vector:
            mean = self._total(jnp.sum(jnp.where(rows, u, 0))) / count
            scale = self.scale * (sum(counts) - 1) / (count - 1)
            return self._total(scale * self.cotangents(jnp.where(rows, u - mean, 0)))

        return half(chosen[0], counts[0]), half(chosen[1], counts[1])

    def dense(self) -> Matrix:
        """Return S itself, one product of centred per-example gradients."""
        g = self._centred()
        return self._total(self.scale * (g.T @ g))

    def diagonal(self) -> Vector:
        if self.known_diagonal is not None:
            return self.known_diagonal
        return self._total(self.scale * jnp.sum(self._centred() ** 2, axis=0))

    def trace(self) -> Scalar:
        return self._total(self.scale * jnp.sum(self._centred() ** 2))

    def whitened(self, w: Vector | Number) -> "Covariance":
        """Return diag(w) S diag(w): with w = M^(−1/2), the covariance of the mass-whitened force."""
        if isinstance(w, float) and w == 1.0:
            return self
        return replace(
            self,
            tangents=lambda v: self.tangents(w * v),
            cotangents=lambda u: w * self.cotangents(u),
            gradients=lambda: self.gradients() * jnp.reshape(w, (1, -1)),
            mean=None if self.mean is None else w * self.mean,
        )

    def _centred(self) -> Float[Array, "n d"]:
        g = self.gradients()
        if self.shard is None or self.mean is None:
            return g - g.mean(axis=0, keepdims=True)
        return jnp.where(self.shard.counted[:, None], g - self.mean[None, :], 0)

    def _every_second(self, n: int, first: int) -> Bool[Array, " n"]:
        """Return which of n rows have the numbers `first`, `first` + 2, …"""
        shard = self.shard
        return jnp.arange(n) % 2 == first if shard is None else shard.counted & (shard.places % 2 == first)

    def _total(self, here: Array) -> Array:
        """Return the sum over all rows of a batch, given that over the rows here."""
        return here if self.shard is None else self.shard.total(here)


@dataclass(frozen=True)
class Curvature:
    """A minibatch estimate of the Hessian K of −log π(θ | data), as a lazy linear operator; `identity`: it is known to
    be I, since the coordinates were chosen so, but for a few directions in which it is up to `largest`."""

    matvec: Callable[[Vector], Vector]
    identity: bool = False
    largest: Number = 1.0

    def dense(self, like: Vector) -> Matrix:
        """Return K itself, computed some columns at a time to save memory; `like` is any vector."""
        if self.identity:
            return jnp.eye(like.size, dtype=like.dtype)
        columns: Matrix = jax.lax.map(self.matvec, jnp.eye(like.size, dtype=like.dtype), batch_size=HESSIAN_COLUMNS)
        return (columns + columns.T) / 2

    def whitened(self, w: Vector | Number) -> "Curvature":
        """Return diag(w) K diag(w): with w = M^(−1/2), the curvature in mass-whitened variables."""
        if isinstance(w, float) and w == 1.0:
            return self
        return Curvature(lambda v: w * self.matvec(w * v))


@dataclass(frozen=True)
class Sampling:
    """How the rows of a batch were drawn: `rows` out of `population` examples. S is meant for batches of `size`
    examples; `rows` may be more. `is_everything`: they are all examples, each once, though S is not 0."""

    population: int
    rows: int
    size: int
    replace: bool = True
    is_everything: bool = False

    @property
    def share(self) -> float:
        """The covariance of the force on these rows, relative to S."""
        return 0.0 if self.is_everything else self.size / self.rows

    @property
    def curvature_ratio(self) -> float:
        """K relative to S when the model is right: K = N·Cov(g) by the information equality, S = (N²/n)·Cov(g)."""
        return self.size / (self.population if self.replace else max(self.population - self.size, 1))

    @property
    def scale(self) -> float:
        """S relative to Jᵀ(I − 11ᵀ/n) J of these rows."""
        if self.rows < 2:
            raise ValueError(f"batch_size must be at least 2 to estimate a covariance, got {self.rows}")
        others = self.population if self.replace else max(self.population - self.size, 0)
        degrees = self.rows if self.replace and self.is_everything else self.rows - 1
        return self.population * others / (self.size * degrees)


@dataclass(frozen=True)
class Noisy:
    """Stochastic estimates at one position: force, its covariance, and the curvature, which is None for a model that
    cannot be differentiated twice. Covariance and curvature are computed only if they are asked for.

    `curvature_ratio` is K relative to S when the model is right, or 0 where S is not of all of the log-likelihood."""

    force: Vector
    _covariance: Callable[[], Covariance]
    _curvature: Callable[[], Curvature | None]
    sampling: Sampling
    curvature_ratio: float
    curvature_is_identity: bool
    _on: Callable[[str, Vector], "Noisy"] | None = None

    @property
    def covariance(self) -> Covariance:
        return self._covariance()

    @property
    def curvature(self) -> Curvature | None:
        return self._curvature()

    @property
    def on(self) -> Callable[[str, Vector], "Noisy"]:
        """Return the function `on(name, position)` of estimates at any position on an extra batch that the sampler has
        declared; S is still meant for batches as large as this one. Without data to draw from, they are these."""
        return self._on or (lambda name, position: self)


def estimate(
    target: Target,
    position: Vector,
    batch: Batch,
    *,
    population: int,
    replace: bool = True,
    size: int | None = None,
    weights: Float[Array, " n"] | None = None,
    shard: BatchShard | None = None,
) -> Noisy:
    """Return the estimates at `position` from `batch`, drawn from `population` examples. S is the covariance of batches
    of `size` examples, if not of as many as these; `weights` and `shard` are those of `BatchDensity`.

    >>> target = Target(
    ...     lambda theta, example: -0.5 * (example["y"] - example["x"] @ theta) ** 2,
    ...     lambda theta: -0.5 * jnp.sum(theta**2),
    ... )
    >>> estimate(target, jnp.zeros(3), {"x": jnp.eye(3), "y": jnp.ones(3)}, population=6).force
    Array([2., 2., 2.], dtype=float32)
    """
    rows = jax.tree.leaves(batch)[0].shape[0] if shard is None else shard.rows
    is_everything = size is not None and weights is None and rows == population
    sampling = Sampling(population, rows, rows if size is None else size, replace, is_everything)
    return BatchDensity(target, batch, weights, sampling, shard).noisy(position)


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
        jacobian: Float[Array, "n d"] = jax.vmap(jax.grad(self.one), (None, 0, 0))(position, self.batch, self.weights)
        return jacobian

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
            products = partial(forward, tangents), lambda u: transpose(u)[0], partial(self.gradients, position)
            mean = None if self.shard is None else slope / rows
            known = self.target.noise_diagonal(self.sampling.size)
            return Covariance(self.sampling.scale, *products, rows**-0.5, self.shard, mean, known)

        def curvature() -> Curvature | None:
            if is_identity:
                return Curvature(lambda v: v, identity=True, largest=self.target.stiffness)
            product = self.hessian_product(position)
            return None if product is None else Curvature(lambda v: self.total(product(v)))

        force = (self.sampling.population / rows) * slope + jax.grad(self.target.exact)(position)
        ratio = 0.0 if is_identity else self.sampling.curvature_ratio
        return Noisy(force, covariance, curvature, self.sampling, ratio, is_identity)

    def hessian_product(self, position: Vector) -> Callable[[Vector], Vector] | None:
        """Return the product with K of the rows here, if JAX can differentiate the model twice: forward over reverse,
        or reverse over reverse, which is for a `jax.custom_vjp`."""

        def products(slope: Callable[[Vector], Vector]) -> list[Callable[[Vector], Vector]]:
            return [
                lambda v: jax.jvp(slope, (position,), (v,))[1],
                lambda v: jax.grad(lambda position: slope(position) @ v)(position),
            ]

        slope = jax.grad(self.energy)
        for product, of_program in zip(products(slope), products(jax.jit(slope)), strict=True):
            if refusal(jax.vmap(of_program), position[None]) is None:  # batched, as it will be used
                return product
        return None


def forward(tangents: Callable[[Vector], Float[Array, " n"]], v: Vector) -> Float[Array, " n"]:
    """Return J v; refuse a model whose derivatives go backward only, which JAX would only find out when it compiles."""
    try:
        jax.eval_shape(jax.vmap(tangents), v[None])
    except Exception as error:
        raise TypeError(
            "log_likelihood has a jax.custom_vjp, through which derivatives go backward only, and this sampler "
            'needs them forward too; use jax.custom_jvp, or isotherm.eccadl(covariance="dense")'
        ) from error
    return tangents(v)


def refusal(derivative: Callable[..., Vector], *arguments: object) -> Exception | None:
    """Return JAX's error if it cannot take a derivative; raise what the model's own code raises.

    The two look alike. But `derivative` is that of a function under `jax.jit`, which JAX traces first and then
    differentiates by itself: of the model's code only derivatives that the model defines can run meanwhile.
    """
    try:
        jax.eval_shape(derivative, *arguments)
    except Exception as error:
        modules = [frame.f_globals.get("__name__", "") for frame, _ in traceback.walk_tb(error.__traceback__)]
        packages = [module.partition(".")[0] for module in modules]
        inside = packages[len(packages) - packages[::-1].index("isotherm") :]
        if not {"jax", *sys.stdlib_module_names}.issuperset(inside):
            raise
        return error
    return None
