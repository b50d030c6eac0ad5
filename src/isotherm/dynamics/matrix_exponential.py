"""exp(−tS)v without forming exp(−tS), three ways behind one signature.

    lanczos   a Krylov space of few dimensions; a contraction at any number of them, so too few cost accuracy, never
              stability; comes with an a-posteriori error estimate
    taylor    Al-Mohy & Higham (2011): shift by the trace, scale, truncate the Taylor series (the paper's choice)
    dense     S formed and diagonalised; for small d and for tests

Each takes (covariance, t, v, rank) and returns exp(−tS)v and the estimated error relative to ‖v‖.

On a Krylov space S is a small tridiagonal T ≥ 0, whose exponential is computed in operations that XLA compiles into the
loop; LAPACK's eigenvectors, which would do as well, are a call out of it. Talbot's contour turns the exponential into a
sum of resolvents (Trefethen, Weideman & Schmelzer 2006),

    e^(−x) ≈ Σ c_j/(x + z_j),        φ(x) = (1 − e^(−x))/x ≈ Σ (c_j/z_j)/(x + z_j),

for all x ≥ 0 at once, each pole adding a factor 3.9 of accuracy, and the resolvent is a continued fraction.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from isotherm.lib.types import Array, Complex, Float, Int, Number, Scalar, Vector
from isotherm.targets.noisy import Covariance

Matvec = Callable[[Vector], Vector]
Bound = tuple[Scalar, Scalar, Scalar]  # Π tβ_j/k!, det(I + tT/m) and the determinant before it

FRACTION = 0.1  # the error allowed, over the effect of S's own sampling error, where it decides the size of a space,
MOST = 8  # and the largest size
STAGES = 1000  # of Taylor's series, at most; beyond it (‖tS‖ of about 1e4) the answer is NaN rather than a hang
RITZ = 16  # products with S for the Ritz values that bound ‖S‖: fewer are cheaper, but then stages are more than needed
POLES = {32: 14, 64: 26}  # by bits, as many as the precision is worth: rounding grows by 1.2 with each


def decay(diagonal: Float[Array, " k"], beside: Float[Array, " k"]) -> tuple[Float[Array, " k"], Float[Array, " k"]]:
    """Return exp(−T)e₁, no longer than e₁, and φ(T)e₁; T has this diagonal, and beside[i] left of its entry i > 0."""
    bits = max(32, jnp.finfo(diagonal.dtype).bits)
    z, c = (jnp.asarray(values, f"complex{2 * bits}") for values in contour(POLES[bits]))
    rows = _first_column(diagonal.astype(z.dtype), beside.astype(z.dtype), z)
    # Sums rather than products of matrices, which for complex numbers are calls out of the compiled loop.
    end, average = (jnp.sum((rows * weight[None]).real, axis=1).astype(diagonal.dtype) for weight in (c, c / z))
    # Where T is small the change is what has to be right: exp(−T)e₁ = e₁ − Tφ(T)e₁.
    below, above = jnp.append(beside[1:] * average[1:], 0), jnp.append(0, beside[1:] * average[:-1])
    change = diagonal * average + below.astype(end.dtype) + above.astype(end.dtype)
    end = jnp.where(diagonal.sum() < 1, np.eye(1, end.size, dtype=end.dtype)[0] - change, end)
    return end / jnp.maximum(1, jnp.sqrt(end @ end)), average


def _first_column(
    diagonal: Complex[Array, " k"], beside: Complex[Array, " k"], z: Complex[Array, " j"]
) -> Complex[Array, "k j"]:
    """Return (T + z_j)⁻¹e₁ for each pole: the fraction from its end, then the column from its top. Nothing is divided
    by zero: the imaginary part of each stage of the fraction is at least that of z."""
    stages = [diagonal[-1] + z]
    for i in reversed(range(diagonal.size - 1)):
        stages.append(diagonal[i] + z - beside[i + 1] ** 2 / stages[-1])
    column = [1 / stages.pop()]
    for i in range(1, diagonal.size):
        column.append(-beside[i] * column[-1] / stages.pop())
    return jnp.stack(column)


def contour(poles: int) -> tuple[np.ndarray, np.ndarray]:
    """Return z_j and c_j of the upper half of the contour; the real part of the sum over it is that over the whole."""
    angle = (2 * np.arange(poles // 2) + 1) * np.pi / poles
    turn = 0.6407 * angle
    z = poles * (0.5017 * angle / np.tan(turn) - 0.6122 + 0.2645j * angle)
    slope = 0.5017 / np.tan(turn) - 0.5017 * turn / np.sin(turn) ** 2 + 0.2645j
    return z, -2j * np.exp(z) * slope


class Krylov(NamedTuple):
    """An orthonormal basis of span(v, Sv, S²v, …) and the tridiagonal T that S is on it, while it grows.

    `size` is the number of products so far. The vector for the next product is already in the basis, where there is
    room, and `residual` is the β before it. Where the space has fewer dimensions than room, the rest is zero."""

    basis: Float[Array, "k d"]
    alphas: Float[Array, " k"]
    betas: Float[Array, " k"]
    residual: Scalar
    scale: Scalar
    size: Int[Array, ""] | int

    @staticmethod
    def seed(v: Vector, room: int) -> tuple[Scalar, "Krylov"]:
        """Return ‖v‖ and the space without products whose first vector is v/‖v‖."""
        norm, zeros, zero = jnp.sqrt(v @ v), jnp.zeros((min(room, v.size),), v.dtype), jnp.zeros((), v.dtype)
        first = v / jnp.where(norm > 0, norm, 1)
        basis = jnp.pad(first[None], ((0, zeros.size - 1), (0, 0)))
        return norm, Krylov(basis, zeros, zeros, zero, zero, 0)

    def grown(self, matvec: Matvec) -> "Krylov":
        """Return the space after one step of Lanczos, one product with S. One pass of Gram–Schmidt removes what
        rounding leaves of earlier vectors in the new one, however short that is."""
        j, basis = self.size, self.basis
        q, before = (jax.lax.dynamic_index_in_dim(basis, jnp.maximum(i, 0), 0, keepdims=False) for i in (j, j - 1))
        w = matvec(q) - self.residual * before
        alpha = q @ w
        w = w - alpha * q
        w = w - (basis @ w) @ basis
        square = w @ w
        scale = jnp.maximum(self.scale, self.residual**2 + alpha**2 + square)  # ‖Sq‖², the largest so far
        alive = square > (10 * jnp.finfo(w.dtype).eps) ** 2 * scale
        beta = jnp.where(alive, jnp.sqrt(square), 0)
        following = jnp.where(alive, w / jnp.where(alive, beta, 1), 0)
        if not isinstance(j, int) or j + 1 < len(basis):
            basis = _put(basis, following, j + 1, 0)
        return Krylov(basis, _put(self.alphas, alpha, j, 0), _put(self.betas, self.residual, j, 0), beta, scale, j + 1)

    def closed(self) -> "Krylov":
        """Return the space with its last vector, without the product that would give its α and the β after it.

        They are guessed, α as 2β and the β after it as β, to which the coefficients of a spectrum that fills an
        interval from 0 tend (Saad 1992 has 0): the space is nearly as good as one with a further product."""
        j, beta = self.size, self.residual
        return self._replace(alphas=_put(self.alphas, 2 * beta, j, 0), betas=_put(self.betas, beta, j, 0), size=j + 1)

    def decayed(self, t: Number) -> tuple[Vector, Scalar]:
        """exp(−tS) of the first vector, and Saad's estimate of the error, its first term: β_k t |e_kᵀ φ(tT) e_1|."""
        end, average = decay(t * self.alphas, t * self.betas)
        return end @ self.basis, self.residual * t * jnp.abs(average[self.size - 1])


_put = jax.lax.dynamic_update_index_in_dim


def krylov(matvec: Matvec, v: Vector, rank: int) -> tuple[Scalar, Krylov]:
    """‖v‖ and the space of `rank` dimensions, by Lanczos with full re-orthogonalisation."""
    norm, space = Krylov.seed(v, rank)
    last = len(space.alphas) - 1
    space = space._replace(size=jnp.zeros((), jnp.int32))
    space = jax.lax.fori_loop(0, last, lambda _, space: space.grown(matvec), space)
    return norm, space._replace(size=last).grown(matvec)


def krylov_within(matvec: Matvec, t: Number, v: Vector, tolerance: float, most: int) -> tuple[Scalar, Krylov]:
    """Return ‖v‖ and the smallest closed space, of two products or more and of at most `most` < d dimensions, in which
    exp(−tS)v is right to `tolerance` of its change, as far as can be told with a guessed β.

    One product alone has hardly met the largest eigenvalues. The change is taken as min(1, t‖Sv‖/‖v‖) ‖v‖. What
    exp(−tS)v lacks in a space of k dimensions is at most Π tβ_j / (k! det(I + tT/m)) of ‖v‖, for any m > k: the error
    is at most β_k t |e_kᵀ φ(tT) e_1| (Saad's estimate, a bound where S ≥ 0). That entry is Π tβ_j times the divided
    difference of φ at T's eigenvalues x_i, which is the mean of e^(−Σλx) over a simplex, over k!; the λ are exponential
    variables divided by their sum, and Jensen's inequality gives at most Π 1/(1 + x_i/m).
    """

    def tightened(space: Krylov, bound: Bound) -> Bound:
        """Return the bound once the space has grown; its determinant by the three-term recurrence."""
        (product, determinant, before), last, m = bound, space.size - 1, most + 1
        alpha, beta = space.alphas[last], space.betas[last]
        following = (1 + t * alpha / m) * determinant - (t * beta / m) ** 2 * before
        return product * t * space.residual / jnp.asarray(space.size, product.dtype), following, determinant

    def grown(before: tuple[Krylov, Bound]) -> tuple[Krylov, Bound]:
        space = before[0].grown(matvec)
        return space, tightened(space, before[1])

    def is_short(now: tuple[Krylov, Bound]) -> Any:
        space = now[0]
        change = t * jnp.sqrt(space.alphas[0] ** 2 + space.betas[1] ** 2)
        product, determinant, _ = tightened(space.closed(), now[1])
        return (space.size < most - 1) & (product > tolerance * jnp.minimum(1, change) * determinant)

    norm, space = Krylov.seed(v, most)
    one = jnp.ones((), v.dtype)
    space, bound = grown(grown((space, (one, one, jnp.zeros_like(one)))))
    space = space._replace(size=jnp.asarray(space.size, jnp.int32))
    return norm, jax.lax.while_loop(is_short, grown, (space, bound))[0].closed()


def lanczos(covariance: Covariance, t: Number, v: Vector, rank: int | None) -> tuple[Vector, Scalar]:
    """Our own rather than matfree's, because matfree 0.6.3 returns NaN in float32 where v = 0, where S = 0 and where S
    has rank 1 and ‖tS‖ = 1e8, and takes 1.14 times as long at rank 6, 1.12 times at rank 8 (benchmarks/lanczos.py)."""
    if rank is not None or v.size <= MOST:
        norm, space = krylov(covariance.matvec, v, MOST if rank is None else rank)
    else:
        norm, space = krylov_within(covariance.matvec, t, v, FRACTION * covariance.sampling_error, MOST)
    u, error = space.decayed(t)
    return norm * u, error


def _check_bits(expm: str, v: Vector) -> None:
    """Refuse 16 bits, for which LAPACK finds no eigenvalues."""
    if jnp.finfo(v.dtype).bits < 32:
        raise TypeError(
            f"expm must be 'lanczos' where init has 16 bits, got {expm!r} and dtype {v.dtype}; or make it float32"
        )


def dense(covariance: Covariance, t: Number, v: Vector, rank: int | None) -> tuple[Vector, Scalar]:
    _check_bits("dense", v)
    values, vectors = jnp.linalg.eigh(covariance.dense())
    return vectors @ (jnp.exp(-t * jnp.maximum(values, 0)) * (vectors.T @ v)), jnp.zeros((), v.dtype)


def taylor(covariance: Covariance, t: Number, v: Vector, rank: int | None) -> tuple[Vector, Scalar]:
    _check_bits("taylor", v)
    shift = covariance.trace() / v.size
    # For symmetric matrices every α_p of Al-Mohy & Higham is the 2-norm. In practice the extreme Ritz values, moved
    # out by the residual, bound the spectrum (Zhou & Li 2011).
    space = krylov(covariance.matvec, v, RITZ)[1]
    beside = space.betas[1:]
    ritz = jnp.linalg.eigvalsh(jnp.diag(space.alphas) + jnp.diag(beside, 1) + jnp.diag(beside, -1))
    top, bottom = ritz[-1] + space.residual, jnp.maximum(ritz[0] - space.residual, 0)
    norm = jnp.abs(t) * jnp.maximum(top - shift, shift - bottom)
    degrees, thetas = (jnp.asarray(column, v.dtype) for column in THETA[jnp.finfo(v.dtype).bits])
    stages = jnp.maximum(jnp.ceil(norm / thetas), 1)
    best = jnp.argmin(degrees * stages)
    m, s = degrees[best].astype(int), stages[best]
    fits = s <= STAGES
    s = jnp.where(fits, s, 0)
    eps = jnp.finfo(v.dtype).eps / 2

    def size(x: Vector) -> Scalar:
        return jnp.max(jnp.abs(x))

    def term(carry: tuple[Array, Array, Array, Array, Array]) -> tuple[Array, Array, Array, Array, Array]:
        j, b, total, last, _ = carry
        b = -(t / (s * (j + 1).astype(v.dtype))) * (covariance.matvec(b) - shift * b)
        total = total + b
        return j + 1, b, total, size(b), last + size(b) <= eps * size(total)

    def stage(_: Array, x: Vector) -> Vector:
        start = (jnp.zeros((), int), x, x, size(x), jnp.zeros((), bool))
        done = jax.lax.while_loop(lambda carry: (carry[0] < m) & ~carry[-1], term, start)
        return jnp.exp(-t * shift / s) * done[2]

    result = jax.lax.fori_loop(0, s.astype(int), stage, v)
    return jnp.where(fits, result, jnp.nan), jnp.where(fits, norm * eps, jnp.nan).astype(v.dtype)


# θ_m: the largest ‖A‖ for which a Taylor polynomial of degree m has backward error below the unit roundoff
# (Al-Mohy & Higham 2011, Table 3.1; the tests recompute it from its definition). Rows: degree m, θ_m.
_DEGREES = (5, 10, 15, 20, 25, 30, 35, 40, 45, 50, 55)
THETA = {
    32: (_DEGREES, (0.1308, 0.9951, 2.217, 3.550, 4.926, 6.321, 7.723, 9.130, 10.53, 11.94, 13.35)),
    64: (_DEGREES, (0.002400, 0.1441, 0.6410, 1.438, 2.428, 3.539, 4.728, 5.968, 7.245, 8.546, 9.867)),
}

Action = Callable[[Covariance, Number, Vector, int | None], tuple[Vector, Scalar]]
ACTIONS: dict[str, Action] = {"lanczos": lanczos, "taylor": taylor, "dense": dense}
