"""The covariance S of the force and the curvature K of −log π, remembered over batches.

An estimate is an average Ŝ ← Ŝ + κ(S − Ŝ) over batches, with κ = 1/t for all of them alike (`running`) or a memory of
the last w or so (`windowed`). It gives coordinates in which Ŝ is diagonal, and what the curvature is along each of
them. `Estimate` says what it can do; it comes in three sizes:

    Dense      Ŝ and K̂ themselves and the eigen-decomposition of Ŝ; d² memory
    LowRank    its k leading eigenvectors, and the mean of the remaining eigenvalues in all other directions; kd memory
    Diagonal   its diagonal
"""

import math
from typing import NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp

from isotherm.posterior import Covariance, Curvature
from isotherm.types import Array, Bool, Float, Matrix, Number, RandomKey, Scalar, Vector

Condition = Bool[Array, ""]
Coordinates = tuple[Float[Array, "..."], ...]  # an array for each of an estimate's Directions

POWER = 32  # steps of the power method
ROUNDS = 3  # of it, for the curvature that noise does not outweigh
SEEN = 1e-5  # an eigenvalue over the largest, at least, that float32 knows
STALE = 0.5  # of the noise that is remembered, at least, that a batch must have; if not, it is forgotten
FAR = 4.0  # standard errors by which it must be less
MOST_LEFT_OUT = 0.5  # of the noise along the eigenvectors of an average over few rows
ALIKE = 0.5  # how much of a curvature counts where the noise friction is the same in all directions
BLOCK = 2  # how many of its directions a low-rank estimate renews at a time


def running(count: Scalar) -> Scalar:
    """κ = 1/t, t the number of this batch: every batch counts the same."""
    return 1 / count


def windowed(count: Scalar, window: Number) -> Scalar:
    """κ = max(2/(t+1), 1/w): while there are few, later batches count more, since the first were far from the mode."""
    return jnp.maximum(2 / (count + 1), 1 / window)


def blend(old: Array, new: Array, weight: Scalar) -> Array:
    return old + weight * (new - old)


class Local(NamedTuple):
    """What one batch says of S and K in mass-whitened variables. Where K cannot be had, or is not finite, it is taken
    to be `ratio` times S. `share` is how much of S counts against K in `stiffness`; `parameters_a_row` is 0 where S was
    computed from all the data."""

    covariance: Covariance
    curvature: Curvature | None
    ratio: float
    share: Number
    parameters_a_row: float = 0.0

    def dense_curvature(self, S: Matrix) -> Matrix:
        K = self.ratio * S if self.curvature is None else self.curvature.dense(S[0])
        return jnp.where(jnp.isfinite(K).all(), K, self.ratio * S)

    def curved(self, v: Vector, image: Vector) -> Vector:
        """K v; `image` is S v."""
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
        """The sum of `values`, one a direction or one for all."""
        return self.sign * (self.number * values if values.ndim == 0 else jnp.sum(values))


@runtime_checkable
class Estimate(Protocol):
    """Ŝ and K̂, as a pytree of arrays that is part of a sampler's state."""

    @property
    def renewals(self) -> Scalar:
        """How many there were."""
        ...

    @property
    def strongest(self) -> Scalar:
        """K's largest eigenvalue, or somewhat more."""
        ...

    @property
    def stiffness(self) -> Scalar:
        """The largest eigenvalue of K − share·S, or somewhat more: the curvature that noise does not outweigh."""
        ...

    @classmethod
    def first(cls, local: Local, position: Vector, rank: int, key: RandomKey) -> "Estimate":
        """What there is before the first renewal; `rank` is how many directions a low-rank estimate keeps."""
        ...

    @classmethod
    def parts(cls, d: int, rank: int) -> int:
        """How many renewals it takes to renew all of it."""
        ...

    def renewed(
        self, due: Condition, curvature_due: Condition, local: Local, window: Number, key: RandomKey
    ) -> "Estimate":
        """With another batch in the average; unchanged unless `due`, a condition that is the same for all chains.
        Where K is costly it is renewed only if `curvature_due` too."""
        ...

    def directions(self) -> tuple[Directions, ...]:
        """The coordinates in which Ŝ is diagonal."""
        ...

    @property
    def ceiling(self) -> Scalar:
        """The largest eigenvalue of K, or of what K would be in a right model, ratio·S."""
        ...

    def rotated(self, rows: Float[Array, "m d"]) -> Coordinates:
        """Vectors, a row each, in those coordinates."""
        ...

    def restored(self, coordinates: Coordinates) -> Float[Array, "m d"]:
        """The vectors again."""
        ...

    def middle(self) -> Scalar:
        """An eigenvalue of Ŝ from the middle of the spectrum: what "auto" takes the step size from."""
        ...

    def unseen(self) -> tuple[Scalar, Scalar]:
        """The mean of the eigenvalues that are not kept, and their standard deviation over it; 0 if all are kept."""
        ...


class Dense(NamedTuple):
    """Along its own eigenvectors an average over m rows says too little of S: of S = I it says 1 − d/m, as a harmonic
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
        least, weights = 1e-6 * strongest + jnp.finfo(values.dtype).tiny, local.share * values

        def closer(_: Array, stiffness: Scalar) -> Scalar:
            """(K − share·S)v = λv is Kv = (λ + share·S)v, whose eigenvalue is 1."""
            _, v = strongest_direction(rotated, jnp.maximum(stiffness, least) + weights)
            return (v @ (rotated @ v) - v @ (weights * v)) / (v @ v)

        stiffness = jax.lax.fori_loop(0, ROUNDS, closer, strongest)
        ceiling = jnp.maximum(strongest, local.ratio * values[-1])
        return cls(count, S, values, vectors, K, curvatures, strongest, stiffness, ceiling, *known)

    @classmethod
    def parts(cls, d: int, rank: int) -> int:
        return 1

    def renewed(
        self, due: Condition, curvature_due: Condition, local: Local, window: Number, key: RandomKey
    ) -> "Dense":
        def renew() -> Dense:
            S, K = local.covariance.dense(), self.curvature
            ratio = self._ratio(S)
            chance = FAR * math.sqrt(2 * local.parameters_a_row) / self.values.size  # of Gaussian rows
            stale = ratio < STALE - chance
            count = jnp.where(stale, 1, self.renewals + 1)
            weight, half = windowed(count, window), jnp.where(self.renewals > 0, 0.5, 1).astype(S.dtype)
            K = jax.lax.cond(curvature_due, lambda: blend(K, local.dense_curvature(S), half), lambda: K)
            concentration = (1 - weight) ** 2 * self.concentration + weight**2
            # Less noise than remembered, by more than chance, is a way that is not over; it says nothing of the rows.
            found = jnp.where(stale, 0, jnp.maximum(1 - 1 / jnp.maximum(ratio, STALE), -chance) / self.concentration)
            left_out = blend(self.left_out, found, weight), jnp.full_like(weight, local.parameters_a_row)
            return self._of(count, blend(self.average, S, weight), K, local, concentration, *left_out)

        return jax.lax.cond(due, renew, lambda: self)

    def _ratio(self, S: Matrix) -> Scalar:
        """S, from rows that are not in the average, over the average, in the mean over all directions; 0 at first."""
        known = (self.values > SEEN * self.values[-1]).astype(S.dtype)
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

    def middle(self) -> Scalar:
        return self.values[self.values.size // 2]

    def unseen(self) -> tuple[Scalar, Scalar]:
        return jnp.zeros_like(self.renewals), jnp.zeros_like(self.renewals)


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
        size = jnp.linalg.norm(image)
        turns = due & (size > 0)
        # The norm of Kv is nearer to the largest eigenvalue than v·Kv, and never beyond it.
        strongest = jnp.where(size > self.strongest, size, (self.strongest + size) / 2)
        vector = jnp.where(turns, image / jnp.where(size > 0, size, 1), self.vector)
        return Outside(vector, jnp.where(due, strongest, self.strongest))


class Diagonal(NamedTuple):
    """K̂ along a coordinate comes from products with random signs z: z ∘ Kz has K's diagonal as its mean."""

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
    def parts(cls, d: int, rank: int) -> int:
        return 1

    def _renewed(self, local: Local, weight: Scalar, key: RandomKey) -> "Diagonal":
        values = blend(self.values, local.covariance.diagonal(), weight)
        signs = jax.random.rademacher(key, self.values.shape, self.values.dtype)
        curvatures = blend(self.curvatures, signs * local.curved(signs, local.covariance.matvec(signs)), weight)
        strong = self.outside.vector
        outside = self.outside.renewed(jnp.array(True), local.curved(strong, local.covariance.matvec(strong)))
        ceiling = jnp.maximum(outside.strongest, local.ratio * jnp.max(values))
        return Diagonal(self.renewals + 1, values, jnp.median(values), curvatures, outside, ceiling)

    def renewed(
        self, due: Condition, curvature_due: Condition, local: Local, window: Number, key: RandomKey
    ) -> "Diagonal":
        weight = windowed(self.renewals + 1, window)
        return jax.lax.cond(due, lambda: self._renewed(local, weight, key), lambda: self)

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

    def middle(self) -> Scalar:
        return self.median

    def unseen(self) -> tuple[Scalar, Scalar]:
        return jnp.zeros_like(self.renewals), jnp.zeros_like(self.renewals)


class LowRank(NamedTuple):
    """Ŝ = QᵀTQ + ρ(I − QᵀQ), the rows of Q orthonormal. They are renewed in turn, a block at a time: a product with
    this batch's S gives a column of T and where outside the span its row should turn to. K is known in the same way,
    QKQᵀ, but products with it are dear: of each block one row gets one, the other the next time. `beside` is QSQᵀ from
    the same batches: what K and S have in common, errors too, is not in their difference, and what S has changed by
    since then tells what K has, if the model is right.

    A renewal also looks outside the span, in turn along a random direction, for the means ρ, of S, `rest_square`, of
    (S/ρ)², and `rest_curvature`, of K there, and along K's strongest direction.

    One row follows another, each in place, so that little memory is needed beside Q; and a row is computed whether or
    not it is due and then chosen, since a branch would copy all of Q."""

    renewals: Scalar
    basis: Float[Array, "k d"]
    projected: Float[Array, "k k"]
    values: Float[Array, " k"]
    vectors: Float[Array, "k k"]
    rest: Scalar
    rest_square: Scalar
    bent: Float[Array, "k k"]
    beside: Float[Array, "k k"]
    curvatures: Float[Array, " k"]
    rest_curvature: Scalar
    inner_stiffness: Scalar
    inner_strongest: Scalar
    outside: Outside
    ratio: Scalar

    @classmethod
    def first(cls, local: Local, position: Vector, rank: int, key: RandomKey) -> "LowRank":
        """Random directions, and two rounds of renewals with this one batch."""
        d, dtype = position.size, position.dtype
        if d < 2:
            raise ValueError('covariance="low_rank" needs at least 2 parameters, got 1; use "dense"')
        k, blocks = cls._rank(d, rank), cls.parts(d, rank)
        zero, none, square = jnp.zeros((), dtype), jnp.zeros((k,), dtype), jnp.zeros((k, k), dtype)
        basis, vectors = jnp.zeros((k, d), dtype), jnp.eye(k, dtype=dtype)
        random_key, renewal_key = jax.random.split(key)
        outside = Outside.random(position, jax.random.fold_in(random_key, k))
        nothing = cls(
            renewals=zero,
            basis=basis,
            projected=square,
            values=none,
            vectors=vectors,
            rest=zero,
            rest_square=zero,
            bent=square,
            beside=square,
            curvatures=none,
            rest_curvature=zero,
            inner_stiffness=zero,
            inner_strongest=zero,
            outside=outside,
            ratio=zero + local.ratio,
        )

        def fill(i: Array, estimate: LowRank) -> LowRank:
            random = jax.random.normal(jax.random.fold_in(random_key, i), (d,), dtype)
            row = estimate._orthonormal(random, estimate.basis @ random)
            return estimate._replace(basis=estimate.basis.at[i].set(row))

        def renew(i: Array, estimate: LowRank) -> LowRank:
            key = jax.random.fold_in(renewal_key, i)
            return estimate._renewed(jnp.array(True), local, zero + 1, zero + 1, key)

        random_basis = jax.lax.fori_loop(0, k, fill, nothing)
        return jax.lax.fori_loop(0, 2 * blocks, renew, random_basis)._replace(renewals=jnp.full_like(zero, blocks))

    @staticmethod
    def _rank(d: int, rank: int) -> int:
        k = min(rank, d - 1)
        return k - k % min(BLOCK, k)

    @classmethod
    def parts(cls, d: int, rank: int) -> int:
        return max(1, cls._rank(d, rank) // BLOCK)

    def renewed(
        self, due: Condition, curvature_due: Condition, local: Local, window: Number, key: RandomKey
    ) -> "LowRank":
        looks = jnp.floor(self.renewals / 2) + 1  # along a random direction
        return self._renewed(due, local, windowed(self._visits + 1, window), windowed(looks, window), key)

    def _renewed(self, due: Condition, local: Local, weight: Scalar, rest_weight: Scalar, key: RandomKey) -> "LowRank":
        begin = self._size * (self.renewals.astype(jnp.int32) % self._blocks)
        turn = self._visits.astype(jnp.int32)

        def row(i: Array, estimate: LowRank) -> LowRank:
            return estimate._turned(due, begin + (i + turn) % self._size, local, weight, i == 0)

        after = jax.lax.fori_loop(0, self._size, row, self)
        values, vectors = jnp.linalg.eigh(_symmetric(after.projected))
        now = _symmetric(after.bent + local.ratio * (after.projected - after.beside))
        curvatures = jnp.maximum(jnp.sum(vectors * (now @ vectors), axis=0), 0)
        random = jax.random.normal(key, self.basis.shape[1:], self.basis.dtype)
        probe = after._orthonormal(random, after.basis @ random)
        at_random = self.renewals % 2 == 1
        v = jnp.where(at_random, probe, self.outside.vector)
        halves = local.covariance.halves(v)
        image = (halves[0] + halves[1]) / 2
        curved = local.curved(v, image)
        inside = after.basis @ jnp.stack([*halves, curved], axis=1)
        rest_weight = jnp.where(at_random, rest_weight, 0)
        rest = blend(self.rest, v @ image, rest_weight)
        unit = 1 / jnp.maximum(rest, jnp.finfo(rest.dtype).tiny)  # in which no square overflows
        square = (unit * halves[0]) @ (unit * halves[1]) - (unit * inside[:, 0]) @ (unit * inside[:, 1])
        new = after._replace(
            renewals=self.renewals + 1,
            values=jnp.maximum(values, 0),
            vectors=vectors,
            rest=rest,
            rest_square=jnp.where(at_random, blend(self.rest_square, square, rest_weight), self.rest_square),
            curvatures=curvatures,
            rest_curvature=blend(self.rest_curvature, v @ curved, rest_weight),
            inner_stiffness=jnp.linalg.eigvalsh(_symmetric(after.bent - local.share * after.beside))[-1],
            inner_strongest=jnp.linalg.eigvalsh(now)[-1],
            outside=self.outside.renewed(due & ~at_random, curved - inside[:, 2] @ after.basis),
        )
        small = jax.tree.map(lambda new, old: jnp.where(due, new, old), [*new[:1], *new[2:]], [*self[:1], *self[2:]])
        return LowRank(small[0], after.basis, *small[1:])

    def _turned(self, due: Condition, i: Array, local: Local, weight: Scalar, curvature_due: Condition) -> "LowRank":
        """Row i by one step of subspace iteration, weighted as this batch is: q ← sq + κSq, orthonormal to other rows.

        s is the geometric mean of q·Sq and the least eigenvalue. With q·Sq alone, a row that holds a strong direction
        takes long to turn to a weak one; with the least eigenvalue alone, the batch's noise turns strong directions.
        """
        q = self.basis[i]
        image = local.covariance.matvec(q)
        curved = jax.lax.cond(curvature_due, lambda: local.curved(q, image), lambda: jnp.zeros_like(q))
        # One product, or XLA would keep a copy of the old basis for the second.
        inside, curving = (self.basis @ jnp.stack([image, curved], axis=1)).T
        column = jnp.where(due, blend(self.projected[i], inside, weight), self.projected[i])
        curvature_weight = jnp.where(due & curvature_due, weight, 0)
        bent = blend(self.bent[i], curving, curvature_weight)
        beside = blend(self.beside[i], inside, curvature_weight)
        others = jnp.arange(self.values.size, dtype=i.dtype) != i
        turned = jnp.sqrt(jnp.maximum(column[i] * self.values[0], 0)) * q + weight * image
        turns = due & (turned @ turned > 0)
        new = self._orthonormal(jnp.where(turns, turned, q), jnp.where(others & turns, weight * inside, 0), others)
        return self._replace(
            basis=self.basis.at[i].set(jnp.where(due, new, q)),
            projected=self.projected.at[i].set(column).at[:, i].set(column),
            bent=self.bent.at[i].set(bent).at[:, i].set(bent),
            beside=self.beside.at[i].set(beside).at[:, i].set(beside),
        )

    def _orthonormal(self, row: Vector, overlap: Array, others: Array | bool = True) -> Vector:
        """`row` without its `overlap` with those rows of the basis; once more for rounding's sake."""
        row = row - overlap @ self.basis
        row = row / jnp.linalg.norm(row)
        row = row - jnp.where(others, self.basis @ row, 0) @ self.basis
        return row / jnp.linalg.norm(row)

    @property
    def _size(self) -> int:
        return min(BLOCK, self.values.size)

    @property
    def _blocks(self) -> int:
        return self.values.size // self._size

    @property
    def _visits(self) -> Scalar:
        """How often each block was renewed, at least."""
        return jnp.floor(self.renewals / self._blocks)

    def directions(self) -> tuple[Directions, ...]:
        """Those inside the span, and the whole space less the span, as if all of it were outside."""
        k, d = self.basis.shape
        outside = self.rest, jnp.maximum(self.rest_curvature, 0)
        return Directions(self.values, self.curvatures, k), Directions(*outside, k, -1), Directions(*outside, d)

    def rotated(self, rows: Float[Array, "m d"]) -> Coordinates:
        # One row at a time: a product with two at once copies the basis on its way and takes three times as long.
        inside = jnp.stack([self.basis @ row for row in rows]) @ self.vectors
        return inside, inside, rows

    def restored(self, coordinates: Coordinates) -> Float[Array, "m d"]:
        inside, shadow, whole = coordinates
        return whole + ((inside - shadow) @ self.vectors.T) @ self.basis

    @property
    def strongest(self) -> Scalar:
        """At most twice too large: a direction may have a part inside the span and a part outside."""
        return jnp.maximum(self.inner_strongest, 0) + self.outside.strongest

    @property
    def ceiling(self) -> Scalar:
        return jnp.maximum(self.strongest, self.ratio * self.values[-1])

    @property
    def stiffness(self) -> Scalar:
        """Outside the span no friction is counted on in K's strongest direction. But it is the same in all directions
        there, so that it does not matter whether S and K have the same eigenvectors, and more of K is allowed."""
        return jnp.maximum(self.inner_stiffness, 0) + ALIKE * self.outside.strongest

    def middle(self) -> Scalar:
        return self.rest

    def unseen(self) -> tuple[Scalar, Scalar]:
        return self.rest, jnp.sqrt(jnp.maximum(self.rest_square - 1, 0))


def strongest_direction(matrix: Matrix, scale: Vector) -> tuple[Scalar, Vector]:
    """The largest eigenvalue of D^(−1/2) M D^(−1/2), D the diagonal `scale`, and D^(−1/2) times its eigenvector, by the
    power method. An eigen-decomposition would cost a hundred times as much, and a tenth more or less is no matter."""
    root = jax.lax.rsqrt(scale)
    start = jnp.cos(1 + jnp.arange(scale.size, dtype=scale.dtype) ** 2)  # in no direction in particular

    def turn(_: Array, v: Vector) -> Vector:
        image = root * (matrix @ (root * v))
        return image / jnp.maximum(jnp.linalg.norm(image), jnp.finfo(scale.dtype).tiny)

    v = jax.lax.fori_loop(0, POWER, turn, start / jnp.linalg.norm(start))
    return jnp.linalg.norm(root * (matrix @ (root * v))), root * v


def _symmetric(matrix: Matrix) -> Matrix:
    return (matrix + matrix.T) / 2
