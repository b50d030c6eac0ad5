"""What a target says at one position on one batch: the noisy force, its covariance and the curvature, as operators."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp

from isotherm.data.sharded import Part
from isotherm.lib.types import Array, Bool, Float, Matrix, Number, RandomKey, Scalar, Vector

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
