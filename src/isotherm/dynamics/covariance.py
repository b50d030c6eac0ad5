"""The covariance S of the force and the curvature K of −log π, remembered over batches.

An estimate is an average Ŝ ← Ŝ + κ(S − Ŝ) over batches, with κ = 1/t for all of them alike or a memory of the last w
or so (`windowed`). It gives coordinates in which Ŝ is diagonal, and what the curvature is along each of
them. `Estimate` says what it can do; it comes in three sizes:

    Dense      Ŝ and K̂ themselves and the eigen-decomposition of Ŝ; d² memory
    LowRank    its k leading eigenvectors, and the mean of the remaining eigenvalues; kd memory (low_rank.py)
    Diagonal   its diagonal
"""

import math
from typing import NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp

from isotherm.lib.types import Array, Bool, Float, Matrix, Number, RandomKey, Scalar, Vector
from isotherm.targets.noisy import Covariance, Curvature

# Dense. From few rows, the eigenvalues of S would be spread by (1 ± √(d/n))², and the friction too small
DENSE_ROWS = 5  # for each parameter
STIFFNESS_ROUNDS = 3  # of the power method, for the curvature that noise does not outweigh
SEEN_NOISE = 1e-5  # an eigenvalue over the largest, at least, that float32 knows
STALE_NOISE = 0.5  # of the noise that is remembered, at least, that a batch must have; if not, it is forgotten
STALE_ERRORS = 4.0  # standard errors by which it must be less
MOST_LEFT_OUT = 0.5  # of the noise along the eigenvectors of an average over few rows

POWER_STEPS = 32  # of the power method
SCALE_RATIO = 1e4  # of the largest to the least curvature of a column, above which float32's seven digits need a mass
MASS_RATIO = 1e-12  # of the least to the largest mass: its inverse root is within the range of float32

Condition = Bool[Array, ""]
Coordinates = tuple[Float[Array, "..."], ...]  # an array for each of an estimate's Directions


def windowed(count: Scalar, window: Number) -> Scalar:
    """κ = max(2/(t+1), 1/w): while there are few, later batches count more, since the first were far from the mode."""
    return jnp.maximum(2 / (count + 1), 1 / window)


def positive(value: Array) -> Array:
    """Return `value`, or so much more than 0 that a number of ordinary size can be divided by it."""
    return jnp.maximum(value, jnp.finfo(value.dtype).tiny * 1e6)


def inverse_root_mass(expected: Vector, measured: Vector | None) -> Vector:
    """Return w = M^(−1/2): 1, or, where the columns' scales differ too much for float32, M the diagonal of K: the
    `measured` one, or that `expected` in a right model where it is larger, or K is not finite or cannot be had."""
    M = expected
    if measured is not None:
        M = jnp.where(jnp.isfinite(measured), jnp.maximum(M, measured), M)
    M = jnp.maximum(M, MASS_RATIO * M.max())
    return jnp.where(M.max() > SCALE_RATIO * M.min(), jax.lax.rsqrt(positive(M)), 1)


def blend(old: Array, new: Array, weight: Scalar) -> Array:
    return old + weight * (new - old)


class Local(NamedTuple):
    """What one batch says of S and K in mass-whitened variables. Where K cannot be had, it is taken to be `ratio`·S.
    `noise_weight` of S counts against K in `stiffness`; `parameters_a_row` is 0 where S is that of all the data."""

    covariance: Covariance
    curvature: Curvature | None
    ratio: float
    noise_weight: Number
    parameters_a_row: float = 0.0

    def dense_curvature(self, S: Matrix) -> Matrix:
        K = self.ratio * S if self.curvature is None else self.curvature.dense(S[0])
        return jnp.where(jnp.isfinite(K).all(), K, self.ratio * S)

    def curved(self, v: Vector, image: Vector) -> Vector:
        """K v; `image` is S v."""
        if self.curvature is not None and self.curvature.identity:
            return v
        bent = self.ratio * image if self.curvature is None else self.curvature.matvec(v)
        return jnp.where(jnp.isfinite(bent).all(), bent, self.ratio * image)


class Directions(NamedTuple):
    """Coordinates of one kind: S and K along each, how many they are, and whether they count +1 or −1 in a sum over all
    directions (LowRank subtracts its span from the whole space)."""

    noise: Float[Array, "..."]
    curvature: Float[Array, "..."]
    number: int
    sign: int = 1

    def total(self, values: Float[Array, "..."]) -> Scalar:
        """Return the sum of `values`, one a direction or one for all."""
        return self.sign * (self.number * values if values.ndim == 0 else jnp.sum(values))


class Needs(NamedTuple):
    """What estimates of one kind need: `rows`, the examples from which S and K are measured (0: those of a batch);
    `interval`, the steps between renewals at first; `parts`, the renewals it takes to renew all; `ramp_steps`, in which
    the trust in K doubles; and `scales`, whether they show that columns have very different scales."""

    rows: int
    interval: int
    parts: int
    ramp_steps: int
    scales: bool


def norm(v: Vector) -> Scalar:
    """Return ‖v‖, also where its square overflows."""
    plain, largest = jnp.linalg.norm(v), jnp.max(jnp.abs(v))
    return jnp.where(jnp.isfinite(plain), plain, largest * jnp.linalg.norm(v / largest))


def strongest_direction(matrix: Matrix, scale: Vector) -> tuple[Scalar, Vector]:
    """Return the largest eigenvalue of D^(−1/2) M D^(−1/2), D the diagonal `scale`, and D^(−1/2) times its eigenvector,
    by the power method: an eigen-decomposition would cost a hundred times as much for accuracy that is not needed."""
    root = jax.lax.rsqrt(scale)
    start = jnp.cos(1 + jnp.arange(scale.size, dtype=scale.dtype) ** 2)  # in no direction in particular

    def turn(_: Array, v: Vector) -> Vector:
        image = root * (matrix @ (root * v))
        return image / jnp.maximum(norm(image), jnp.finfo(scale.dtype).tiny)

    v = jax.lax.fori_loop(0, POWER_STEPS, turn, start / jnp.linalg.norm(start))
    return norm(root * (matrix @ (root * v))), root * v


class Outside(NamedTuple):
    """The strongest curvature outside a span, by steps of the power method."""

    vector: Vector
    strongest: Scalar

    @classmethod
    def random(cls, position: Vector, key: RandomKey) -> "Outside":
        v = jax.random.normal(key, position.shape, position.dtype)
        return cls(v / jnp.linalg.norm(v), jnp.zeros((), position.dtype))

    def renewed(self, due: Condition, image: Vector) -> "Outside":
        """`image` is K times the vector, without its part in the span."""
        size = norm(image)
        turns = due & (size > 0)
        # The norm of Kv is nearer to the largest eigenvalue than v·Kv, and never beyond it.
        strongest = jnp.where(size > self.strongest, size, (self.strongest + size) / 2)
        vector = jnp.where(turns, image / jnp.where(size > 0, size, 1), self.vector)
        return Outside(vector, jnp.where(due, strongest, self.strongest))


@runtime_checkable
class Estimate(Protocol):
    """Ŝ and K̂, as a pytree of arrays that is part of a sampler's state."""

    @property
    def strongest(self) -> Scalar:
        """K's largest eigenvalue, or somewhat more."""

    @property
    def stiffness(self) -> Scalar:
        """The largest eigenvalue of K − noise_weight·S, or somewhat more: the curvature beyond the noise."""

    @property
    def ceiling(self) -> Scalar:
        """The largest eigenvalue of K, or of what K would be in a right model, ratio·S."""

    @classmethod
    def first(cls, local: Local, position: Vector, rank: int, key: RandomKey) -> "Estimate":
        """Return what is known before the first renewal; `rank` is how many directions a low-rank estimate keeps."""

    @classmethod
    def needs(cls, d: int, rank: int) -> Needs:
        """Return what it needs for d parameters."""

    def forget(self, when: Condition) -> "Estimate":
        """Return it with no more than one batch in its averages, where they are renewed as a whole."""

    def renewed(
        self, due: Condition, curvature_due: Condition, local: Local, window: Number, key: RandomKey
    ) -> "Estimate":
        """Return it with another batch in the average; unchanged unless `due`, a condition that is the same for all
        chains. Where K is costly it is renewed only if `curvature_due` too."""

    def directions(self) -> tuple[Directions, ...]:
        """Return the coordinates in which Ŝ is diagonal."""

    def rotated(self, rows: Float[Array, "m d"]) -> Coordinates:
        """Return vectors, a row each, in those coordinates."""

    def restored(self, coordinates: Coordinates) -> Float[Array, "m d"]:
        """Return the vectors again."""

    def measures_distances(self) -> Condition:
        """Return whether its curvatures are those of all directions, so that distances can be measured by them."""

    def middle(self) -> Scalar:
        """Return an eigenvalue of Ŝ from the middle of the spectrum, which the step size is chosen by."""

    def unseen(self) -> tuple[Scalar, Scalar]:
        """Return the mean of the eigenvalues that are not kept and their coefficient of variation; 0 if all are."""


class Dense(NamedTuple):
    """S and K as matrices.

    Along its own eigenvectors an average over m rows says too little of S: of S = I it says 1 − d/m, as a harmonic
    mean, by the law of Marchenko and Pastur; and where few rows have most of the gradient, only they count as m. So
    before a batch enters the average, its S is compared with the eigenvalues there are (`left_out`). If it is far less,
    what is remembered is of the way to the mode, and the average begins anew."""

    renewals: Scalar
    average: Matrix
    values: Vector
    vectors: Matrix
    curvature: Matrix
    curvatures: Vector
    strongest: Scalar
    stiffness: Scalar
    ceiling: Scalar
    concentration: Scalar  # the sum of the squares of the weights with which batches are in the average
    left_out: Scalar  # d/m for one batch, as found
    least_left_out: Scalar  # if all rows of a batch count the same

    @classmethod
    def first(cls, local: Local, position: Vector, rank: int, key: RandomKey) -> "Dense":
        """S = 0 and K = I, until the renewal before the first step, which counts alone."""
        zero, one, none = jnp.zeros((), position.dtype), jnp.ones((), position.dtype), jnp.zeros_like(position)
        identity = jnp.eye(position.size, dtype=position.dtype)
        return cls(zero, jnp.zeros_like(identity), none, identity, identity, none + 1, one, one, one, one, zero, zero)

    @classmethod
    def _of(cls, count: Scalar, S: Matrix, K: Matrix, local: Local, *known: Scalar) -> "Dense":
        values, vectors = jnp.linalg.eigh(S)
        values, rotated = jnp.maximum(values, 0), vectors.T @ (K @ vectors)
        curvatures = jnp.maximum(jnp.diagonal(rotated), 0)
        strongest = strongest_direction(K, jnp.ones_like(values))[0]
        least, weights = 1e-6 * strongest + jnp.finfo(values.dtype).tiny, local.noise_weight * values

        def closer(_: Array, stiffness: Scalar) -> Scalar:
            """(K − noise_weight·S)v = λv is Kv = (λ + noise_weight·S)v, whose eigenvalue is 1."""
            _, v = strongest_direction(rotated, jnp.maximum(stiffness, least) + weights)
            quotient: Scalar = (v @ (rotated @ v) - v @ (weights * v)) / (v @ v)
            return quotient

        stiffness = jax.lax.fori_loop(0, STIFFNESS_ROUNDS, closer, strongest)
        ceiling = jnp.maximum(strongest, local.ratio * values[-1])
        return cls(count, S, values, vectors, K, curvatures, strongest, stiffness, ceiling, *known)

    @classmethod
    def needs(cls, d: int, rank: int) -> Needs:
        return Needs(rows=DENSE_ROWS * d, interval=max(50, d), parts=1, ramp_steps=25, scales=True)

    def forget(self, when: Condition) -> "Dense":
        return self._replace(renewals=jnp.where(when, jnp.minimum(self.renewals, 1), self.renewals))

    def renewed(
        self, due: Condition, curvature_due: Condition, local: Local, window: Number, key: RandomKey
    ) -> "Dense":
        def renew() -> Dense:
            S, K = local.covariance.dense(), self.curvature
            ratio = self._ratio(S)
            chance = STALE_ERRORS * math.sqrt(2 * local.parameters_a_row) / self.values.size  # of Gaussian rows
            stale = ratio < STALE_NOISE - chance
            count = jnp.where(stale, 1, self.renewals + 1)
            weight, half = windowed(count, window), jnp.where(self.renewals > 0, 0.5, 1).astype(S.dtype)
            K = jax.lax.cond(curvature_due, lambda: blend(K, local.dense_curvature(S), half), lambda: K)
            concentration = (1 - weight) ** 2 * self.concentration + weight**2
            # Less noise than remembered, by more than chance, is a way that is not over; it says nothing of the rows.
            found = jnp.maximum(1 - 1 / jnp.maximum(ratio, STALE_NOISE), -chance) / self.concentration
            left_out = blend(self.left_out, jnp.where(stale, 0, found), weight)
            known = concentration, left_out, jnp.full_like(weight, local.parameters_a_row)
            return self._of(count, blend(self.average, S, weight), K, local, *known)

        after: Dense = jax.lax.cond(due, renew, lambda: self)
        return after

    def _ratio(self, S: Matrix) -> Scalar:
        """S, from rows that are not in the average, over the average, in the mean over all directions; 0 at first."""
        known = (self.values > SEEN_NOISE * self.values[-1]).astype(S.dtype)
        along = jnp.sum(self.vectors * (S @ self.vectors), axis=0)
        return jnp.sum(known * along / jnp.where(known > 0, self.values, 1)) / jnp.maximum(known.sum(), 1)

    def directions(self) -> tuple[Directions, ...]:
        left_out = jnp.minimum(self.concentration * jnp.maximum(self.left_out, self.least_left_out), MOST_LEFT_OUT)
        return (Directions(self.values / (1 - left_out), self.curvatures, self.values.size),)

    # Products with one vector at a time: for two at once XLA would copy the transposed matrix at every step.
    def rotated(self, rows: Float[Array, "m d"]) -> Coordinates:
        return (jnp.stack([row @ self.vectors for row in rows]),)

    def restored(self, coordinates: Coordinates) -> Float[Array, "m d"]:
        return jnp.stack([self.vectors @ row for row in coordinates[0]])

    def measures_distances(self) -> Condition:
        return jnp.array(True)

    def middle(self) -> Scalar:
        return self.values[self.values.size // 2]

    def unseen(self) -> tuple[Scalar, Scalar]:
        return jnp.zeros_like(self.renewals), jnp.zeros_like(self.renewals)


class Diagonal(NamedTuple):
    """The diagonals of S and K; of K by products with random signs z, since z ∘ Kz has K's diagonal as its mean."""

    renewals: Scalar
    values: Vector
    median: Scalar
    curvatures: Vector
    outside: Outside
    ceiling: Scalar

    @classmethod
    def first(cls, local: Local, position: Vector, rank: int, key: RandomKey) -> "Diagonal":
        values = local.covariance.diagonal()
        zero, outside = jnp.zeros((), values.dtype), Outside.random(position, key)
        nothing = cls(zero, values, jnp.median(values), jnp.zeros_like(values), outside, zero)
        return nothing._renewed(local, zero + 1, key)

    @classmethod
    def needs(cls, d: int, rank: int) -> Needs:
        return Needs(rows=0, interval=5, parts=1, ramp_steps=100, scales=False)

    def forget(self, when: Condition) -> "Diagonal":
        return self._replace(renewals=jnp.where(when, jnp.minimum(self.renewals, 1), self.renewals))

    def _renewed(self, local: Local, weight: Scalar, key: RandomKey) -> "Diagonal":
        values = blend(self.values, local.covariance.diagonal(), weight)
        signs = jax.random.rademacher(key, self.values.shape, self.values.dtype)
        curvatures = blend(self.curvatures, signs * local.curved(signs, local.covariance.matvec(signs)), weight)
        strong = self.outside.vector
        outside = self.outside.renewed(jnp.array(True), local.curved(strong, local.covariance.matvec(strong)))
        if local.curvature is not None and local.curvature.identity:
            outside = Outside(strong, jnp.asarray(local.curvature.largest, values.dtype))
        ceiling = jnp.maximum(outside.strongest, local.ratio * jnp.max(values))
        return Diagonal(self.renewals + 1, values, jnp.median(values), curvatures, outside, ceiling)

    def renewed(
        self, due: Condition, curvature_due: Condition, local: Local, window: Number, key: RandomKey
    ) -> "Diagonal":
        weight = windowed(self.renewals + 1, window)
        after: Diagonal = jax.lax.cond(due, lambda: self._renewed(local, weight, key), lambda: self)
        return after

    def directions(self) -> tuple[Directions, ...]:
        return (Directions(self.values, jnp.maximum(self.curvatures, 0), self.values.size),)

    def rotated(self, rows: Float[Array, "m d"]) -> Coordinates:
        return (rows,)

    def restored(self, coordinates: Coordinates) -> Float[Array, "m d"]:
        return coordinates[0]

    @property
    def strongest(self) -> Scalar:
        return self.outside.strongest

    @property
    def stiffness(self) -> Scalar:
        """All of K: the diagonal does not know the friction in K's strongest direction."""
        return self.outside.strongest

    def measures_distances(self) -> Condition:
        return jnp.array(True)

    def middle(self) -> Scalar:
        return self.median

    def unseen(self) -> tuple[Scalar, Scalar]:
        return jnp.zeros_like(self.renewals), jnp.zeros_like(self.renewals)
