"""What an estimate of S and K is and what it is made from: batches, how they are weighted and before which steps they
are due, and the power method."""

from typing import NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp

from isotherm.lib.types import Array, Bool, Float, Int, Matrix, Number, RandomKey, Scalar, Vector
from isotherm.targets.noisy import Covariance, Curvature

# Renewals
DOUBLING_RENEWALS = 16  # of the whole estimate while the number of steps doubles
CURVATURE_STEPS = 512  # in which K is renewed as often as S; after that only at powers of two, since it costs more
LONGEST_INTERVAL = 2**30  # steps: twice it is still a 32-bit step number

POWER_STEPS = 32  # of the power method

Condition = Bool[Array, ""]
Coordinates = tuple[Float[Array, "..."], ...]  # an array for each of an estimate's Directions


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


class Calendar(NamedTuple):
    """Before which steps an average takes up another batch: 0, 1, 2, 4, 8, … and all multiples of an interval, which is
    `interval` at first, and later grows with the number of steps, since what has settled need not be measured as often.
    Each renews one of the `parts` of the estimate."""

    interval: int
    parts: int = 1

    def is_due(self, step: Int[Array, ""]) -> Bool[Array, ""]:
        return is_power_of_two(step) | (step % self._interval_at(step) == 0)

    def is_curvature_due(self, step: Int[Array, ""]) -> Bool[Array, ""]:
        """Return whether a renewal before this step is one of the curvature too."""
        return is_power_of_two(step) | (step < CURVATURE_STEPS)

    def steps_to_next(self, step: Int[Array, ""]) -> Int[Array, ""]:
        """Return how many steps, at least 1, lie between this one and the next that is due."""
        interval = self._interval_at(step)
        return jnp.minimum(interval - step % interval, jnp.left_shift(1, _bit_length(step)) - step)

    def _interval_at(self, step: Int[Array, ""]) -> Int[Array, ""]:
        power = jnp.left_shift(1, _bit_length(step | 1) - 1)  # the largest power of two that is at most `step`
        return jnp.maximum(self.interval, power // (DOUBLING_RENEWALS * self.parts))


def is_power_of_two(step: Int[Array, ""]) -> Bool[Array, ""]:
    """Return whether it is one, or 0."""
    return step & (step - 1) == 0


def _bit_length(step: Int[Array, ""]) -> Int[Array, ""]:
    """Return int.bit_length of a step's number, a 32-bit integer whether or not JAX has 64 bits."""
    return 32 - jax.lax.clz(step.astype(jnp.int32))


def norm(v: Vector) -> Scalar:
    """Return ‖v‖, also where its square overflows."""
    plain, largest = jnp.linalg.norm(v), jnp.max(jnp.abs(v))
    return jnp.where(jnp.isfinite(plain), plain, largest * jnp.linalg.norm(v / largest))


def strongest_direction(matrix: Matrix, scale: Vector) -> tuple[Scalar, Vector]:
    """Return the largest eigenvalue of D^(−1/2) M D^(−1/2), D the diagonal `scale`, and D^(−1/2) times its eigenvector.

    By the power method: an eigen-decomposition would cost a hundred times as much, and a tenth more or less is no
    matter."""
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
    def renewals(self) -> Scalar:
        """How many there were."""

    @property
    def strongest(self) -> Scalar:
        """K's largest eigenvalue, or somewhat more."""

    @property
    def stiffness(self) -> Scalar:
        """The largest eigenvalue of K − share·S, or somewhat more: the curvature that noise does not outweigh."""

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
        """With another batch in the average; unchanged unless `due`, a condition that is the same for all chains.
        Where K is costly it is renewed only if `curvature_due` too."""

    def directions(self) -> tuple[Directions, ...]:
        """Return the coordinates in which Ŝ is diagonal."""

    @property
    def ceiling(self) -> Scalar:
        """The largest eigenvalue of K, or of what K would be in a right model, ratio·S."""

    def rotated(self, rows: Float[Array, "m d"]) -> Coordinates:
        """Vectors, a row each, in those coordinates."""

    def restored(self, coordinates: Coordinates) -> Float[Array, "m d"]:
        """Return the vectors again."""

    def measures_distances(self) -> Condition:
        """Return whether its curvatures are those of all directions, so that distances can be measured by them."""

    def middle(self) -> Scalar:
        """Return an eigenvalue of Ŝ from the middle of the spectrum, which the step size is chosen by."""

    def unseen(self) -> tuple[Scalar, Scalar]:
        """Return the mean of the eigenvalues that are not kept and their coefficient of variation; 0 if all are."""
