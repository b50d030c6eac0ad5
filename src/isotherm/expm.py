"""exp(−tS)v without exp(−tS), three ways behind one signature.

    lanczos   a Krylov space of small fixed rank; a contraction at any rank, so too small a rank costs accuracy, never
              stability; comes with an a-posteriori error estimate
    taylor    Al-Mohy & Higham (2011): shift by the trace, scale, truncate the Taylor series (the paper's choice)
    dense     S formed and diagonalised; for small d and for tests

Each takes (covariance, t, v, rank) and returns exp(−tS)v and the estimated error relative to ‖v‖.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from isotherm.flows import decay_average
from isotherm.types import Matrix, Scalar, Vector

Matvec = Callable[[Vector], Vector]
Function = Callable[[Float[Array, " k"]], Float[Array, " k"]]

# The largest number of scaled Taylor stages; beyond it (‖tS‖ of about 1e4) the answer is NaN rather than a hang.
STAGES = 1000


class Operator(Protocol):
    """A symmetric positive semi-definite S, as much of it as is asked for."""

    def matvec(self, v: Vector) -> Vector: ...
    def trace(self) -> Scalar: ...
    def dense(self) -> Matrix: ...


class Krylov(NamedTuple):
    """An orthonormal basis of span(v, Sv, S²v, …) and what S is on it; serves any number of functions of S."""

    norm: Scalar
    basis: Float[Array, "k d"]
    values: Float[Array, " k"]
    vectors: Float[Array, "k k"]
    residual: Scalar

    def coefficients(self, function: Function) -> Float[Array, " k"]:
        """Coordinates of function(S)v/‖v‖ in the basis."""
        return self.vectors @ (function(self.values) * self.vectors[0])

    def apply(self, function: Function) -> Vector:
        """function(S)v."""
        return self.norm * (self.coefficients(function) @ self.basis)

    def form(self, function: Function) -> Scalar:
        """v·function(S)v."""
        return self.norm**2 * self.coefficients(function)[0]


def krylov(matvec: Matvec, v: Vector, rank: int) -> Krylov:
    """Lanczos with full re-orthogonalisation. Where the space is exhausted the remaining basis vectors are zero."""
    rank = min(rank, v.size)
    eps = jnp.finfo(v.dtype).eps
    norm = jnp.linalg.norm(v)
    basis = [v / jnp.where(norm > 0, norm, 1)]
    alphas: list[Scalar] = []
    betas: list[Scalar] = []
    scale = jnp.zeros_like(norm)
    for j in range(rank):
        w = matvec(basis[j])
        alphas.append(basis[j] @ w)
        scale = jnp.maximum(scale, jnp.linalg.norm(w))
        q = jnp.stack(basis)
        for _ in range(2):  # twice is enough
            w = w - (q @ w) @ q
        beta = jnp.linalg.norm(w)
        alive = beta > 10 * eps * scale
        betas.append(jnp.where(alive, beta, 0))
        basis.append(jnp.where(alive, w / jnp.where(alive, beta, 1), 0))
    off = jnp.stack(betas[:-1]) if rank > 1 else jnp.zeros((0,), v.dtype)
    tridiagonal = jnp.diag(jnp.stack(alphas)) + jnp.diag(off, 1) + jnp.diag(off, -1)
    values, vectors = jnp.linalg.eigh(tridiagonal)
    # S has no negative eigenvalue; rounding may make one, and e^(+t·rounding) would grow where t‖S‖ is large.
    return Krylov(norm, jnp.stack(basis[:-1]), jnp.maximum(values, 0), vectors, betas[-1])


def lanczos(covariance: Operator, t: Scalar, v: Vector, rank: int) -> tuple[Vector, Scalar]:
    """Our own rather than matfree's, because matfree 0.6.3 returns NaN in float32 where v = 0, where S = 0 and where S
    has rank 1 and ‖tS‖ = 1e8, and takes 1.14 times as long at rank 8, 1.22 times at rank 4 (benchmarks/lanczos.py)."""
    space = krylov(covariance.matvec, v, rank)
    # Saad's estimate: the first term of the error, β_k t |e_kᵀ φ(tT) e_1|.
    error = space.residual * t * jnp.abs(space.coefficients(lambda s: decay_average(t * s))[-1])
    return space.apply(lambda s: jnp.exp(-t * s)), error


def dense(covariance: Operator, t: Scalar, v: Vector, rank: int) -> tuple[Vector, Scalar]:
    values, vectors = jnp.linalg.eigh(covariance.dense())
    decay = jnp.exp(-t * jnp.maximum(values, 0))
    return vectors @ (decay * (vectors.T @ v)), jnp.zeros((), v.dtype)


def taylor(covariance: Operator, t: Scalar, v: Vector, rank: int) -> tuple[Vector, Scalar]:
    shift = covariance.trace() / v.size
    # For symmetric matrices every α_p of Al-Mohy & Higham is the 2-norm. In practice the extreme Ritz values, moved
    # out by the residual, bound the spectrum (Zhou & Li 2011).
    space = krylov(covariance.matvec, v, 16)
    top, bottom = space.values[-1] + space.residual, jnp.maximum(space.values[0] - space.residual, 0)
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

    def term(carry: tuple) -> tuple:
        j, b, total, last, _ = carry
        b = -(t / (s * (j + 1).astype(v.dtype))) * (covariance.matvec(b) - shift * b)
        total = total + b
        return j + 1, b, total, size(b), last + size(b) <= eps * size(total)

    def stage(_: int, x: Vector) -> Vector:
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

ACTIONS: dict[str, Callable[[Operator, Scalar, Vector, int], tuple[Vector, Scalar]]] = {
    "lanczos": lanczos,
    "taylor": taylor,
    "dense": dense,
}
