"""Discriminative restricted Boltzmann machine (Larochelle & Bengio 2008).

Hidden units h ∈ {0, 1}^H are summed out exactly:

    p(y|x) ∝ Σ_h exp(d_y + Σ_j h_j (c_j + U_jy + W_j·x)) = exp(a_y),
    a_y(x) = d_y + Σ_j softplus(c_j + U_jy + W_j·x),   log p(y|x) = a_y − logsumexp(a).

Samplers linearise this once a step and then apply the linearisation and its transpose many times. With
σ_jk = sigmoid(c_j + U_jk + W_j·x), r_k = 1[k = y] − p(k|x), R_jk = r_k σ_jk and q_j = Σ_k R_jk, the
differential is

    d log p = r·dd + q·(dc + dW x) + Σ_jk R_jk dU_jk.

Over a batch of n only R has size (n, hidden, classes), and it meets dU alone: a product with the
linearisation or its transpose is one matrix-vector product with R, plus terms of size (n, hidden). Left to
itself, automatic differentiation broadcasts dc + dW x against U first and passes several times over arrays of
R's size.
"""

import functools
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax.custom_derivatives import SymbolicZero
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Int

from isotherm import arguments
from isotherm.models import gaussian
from isotherm.models.activation import softplus
from isotherm.models.method import method
from isotherm.types import Example, Params, RandomKey, Scalar

PREDICT_BLOCK = 256  # rows predicted at once: bounds the (rows, hidden, classes) array


@dataclass(frozen=True)
class DRBM:
    """Parameters `W` (hidden, features), `U` (hidden, classes), `c` (hidden,), `d` (classes,).

    Labels are 0 … classes − 1.
    """

    features: int
    hidden: int
    classes: int
    prior_variance: float = 10.0

    def __post_init__(self) -> None:
        arguments.integer("features", self.features, 1)
        arguments.integer("hidden", self.hidden, 1)
        arguments.integer("classes", self.classes, 2)
        arguments.positive("prior_variance", self.prior_variance)

    @method
    def init(self, key: RandomKey, scale: float = 0.1, dtype: jnp.dtype | None = None) -> dict[str, Array]:
        """All entries ~ N(0, scale²)."""
        f, h, k = self.features, self.hidden, self.classes
        return gaussian.draw(key, {"W": (h, f), "U": (h, k), "c": (h,), "d": (k,)}, scale, dtype)

    @method
    def log_likelihood(self, params: Params, example: Example) -> Scalar:
        """log p(y|x) = a_y − logsumexp(a)."""
        x = jnp.asarray(example["x"], params["W"].dtype)
        return _log_probability(params["W"], params["U"], params["c"], params["d"], x, example["y"])

    @method
    def log_prior(self, params: Params) -> Scalar:
        """log N(θ; 0, prior_variance · I)."""
        return gaussian.log_prior(params, self.prior_variance)

    @method
    def predict(self, params: Params, x: ArrayLike) -> Float[Array, "m classes"]:
        """Log-probabilities of each row's classes."""
        x = jnp.asarray(x, params["W"].dtype)
        z = x @ params["W"].T + params["c"][None, :]
        a = jax.lax.map(lambda row: _sum_softplus(row, params["U"]) + params["d"], z, batch_size=PREDICT_BLOCK)
        return jax.nn.log_softmax(a)

    @method
    def class_index(self, y: ArrayLike) -> Int[Array, "..."]:
        """The column of `predict` for a label: the label itself."""
        return jnp.asarray(y, jnp.int32)


def _spread(z: Float[Array, "hidden"], u: Float[Array, "hidden classes"]) -> Float[Array, "hidden classes"]:
    """z_j + U_jk, for z = c + Wx."""
    return jnp.broadcast_to(z[:, None], u.shape) + u


def _sum_softplus(z: Float[Array, "hidden"], u: Float[Array, "hidden classes"]) -> Float[Array, "classes"]:
    """Σ_j softplus(z_j + U_jk)."""
    return softplus(_spread(z, u)).sum(axis=0)


@jax.custom_jvp
def _log_probability(
    w: Float[Array, "hidden features"],
    u: Float[Array, "hidden classes"],
    c: Float[Array, "hidden"],
    d: Float[Array, "classes"],
    x: Float[Array, "features"],
    y: Int[Array, ""],
) -> Scalar:
    """log p(y|x) of one example, with the differential of the module's docstring."""
    a = d + _sum_softplus(c + w @ x, u)
    return a[y] - jax.nn.logsumexp(a)


def _log_probability_jvp(primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> tuple[Scalar, Scalar]:
    w, u, c, d, x, y = primals
    dw, du, dc, dd, dx = (None if isinstance(t, SymbolicZero) else t for t in tangents[:5])
    z = c + w @ x
    log_p = jax.nn.log_softmax(d + _sum_softplus(z, u))
    r = jax.nn.one_hot(y, d.shape[0], dtype=d.dtype) - jnp.exp(log_p)
    sigma = jax.nn.sigmoid(_spread(z, u))
    q = sigma @ r
    terms = [
        None if dd is None else r @ dd,
        None if dc is None else q @ dc,
        None if dw is None else q @ (dw @ x),
        None if dx is None else q @ (w @ dx),
        None if du is None else jnp.tensordot(sigma * jnp.broadcast_to(r[None, :], u.shape), du, 2),
    ]
    return log_p[y], functools.reduce(jnp.add, (term for term in terms if term is not None))


_log_probability.defjvp(_log_probability_jvp, symbolic_zeros=True)
