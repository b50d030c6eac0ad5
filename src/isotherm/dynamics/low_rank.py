"""S and K in the span of S's leading eigenvectors, and their means outside it."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from isotherm.dynamics.covariance import Condition, Coordinates, Directions, Local, Needs, Outside, blend, windowed
from isotherm.lib.types import Array, Float, Matrix, Number, RandomKey, Scalar, Vector

ALIKE = 0.5  # how much of a curvature counts where the noise friction is the same in all directions
KNOWN_CURVATURE = 1e-3  # K's mean outside the span over its largest eigenvalue, from which distances are known by it
ORDINARY = 1e15  # noise up to this has a square in float32, with room for a sum
BLOCK = 2  # how many directions are renewed at a time


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
        k, blocks = cls._rank(d, rank), cls.needs(d, rank).parts
        zero, values, square = jnp.zeros((), dtype), jnp.zeros((k,), dtype), jnp.zeros((k, k), dtype)
        random_key, renewal_key = jax.random.split(key)
        outside = Outside.random(position, jax.random.fold_in(random_key, k))
        inside = jnp.zeros((k, d), dtype), square, values, jnp.eye(k, dtype=dtype), zero, zero
        nothing = cls(zero, *inside, square, square, values, zero, zero, zero, outside, zero + local.ratio)

        def fill(i: Array, estimate: LowRank) -> LowRank:
            random = jax.random.normal(jax.random.fold_in(random_key, i), (d,), dtype)
            row = estimate._orthonormal(random, estimate.basis @ random)
            return estimate._replace(basis=estimate.basis.at[i].set(row))

        def renew(i: Array, estimate: LowRank) -> LowRank:
            key = jax.random.fold_in(renewal_key, i)
            return estimate._renewed(jnp.array(True), local, zero + 1, zero + 1, key)

        random_basis = jax.lax.fori_loop(0, k, fill, nothing)
        renewed: LowRank = jax.lax.fori_loop(0, 2 * blocks, renew, random_basis)
        return renewed._replace(renewals=jnp.full_like(zero, blocks))

    @staticmethod
    def _rank(d: int, rank: int) -> int:
        k = min(rank, d - 1)
        return k - k % min(BLOCK, k)

    @classmethod
    def needs(cls, d: int, rank: int) -> Needs:
        parts = max(1, cls._rank(d, rank) // BLOCK)
        return Needs(rows=0, interval=5, parts=parts, ramp_steps=50, scales=False)

    def forget(self, when: Condition) -> "LowRank":
        """Return itself: its parts are renewed in turn, and `renewals` says which."""
        return self

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
            inner_stiffness=jnp.linalg.eigvalsh(_symmetric(after.bent - local.noise_weight * after.beside))[-1],
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
        unit = jnp.maximum(jnp.max(jnp.abs(inside)) / ORDINARY, 1)  # 1, unless squares of S would overflow
        here, least = jnp.maximum(column[i], 0), self.values[0]
        scale = jnp.where(jnp.isfinite(here * least), jnp.sqrt(here * least), jnp.sqrt(here) * jnp.sqrt(least))
        turned = scale / unit * q + weight / unit * image
        turns = due & (turned @ turned > 0)
        overlap = jnp.where(others & turns, weight / unit * inside, 0)
        new = self._orthonormal(jnp.where(turns, turned, q), overlap, others)
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
        unit: Vector = row / jnp.linalg.norm(row)
        return unit

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

    def measures_distances(self) -> Condition:
        """Return whether the mean curvature outside the span is that of most directions, not of a few."""
        return self.rest_curvature > KNOWN_CURVATURE * self.strongest

    def middle(self) -> Scalar:
        return self.rest

    def unseen(self) -> tuple[Scalar, Scalar]:
        return self.rest, jnp.sqrt(jnp.maximum(self.rest_square - 1, 0))


def _symmetric(matrix: Matrix) -> Matrix:
    return (matrix + matrix.T) / 2
