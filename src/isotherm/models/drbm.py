"""Discriminative restricted Boltzmann machine (Larochelle & Bengio 2008).

Hidden units h ∈ {0, 1}^H are summed out exactly:

    p(y|x) ∝ Σ_h exp(d_y + Σ_j h_j (c_j + U_jy + W_j·x)) = exp(a_y),
    a_y(x) = d_y + Σ_j softplus(c_j + U_jy + W_j·x),   log p(y|x) = a_y − logsumexp(a).

Samplers linearise this once a step and then apply the linearisation and its transpose many times. The differential is,
with σ_jk = sigmoid(c_j + U_jk + W_j·x), r_k = 1[k = y] − p(k|x), R_jk = r_k σ_jk and q_j = Σ_k R_jk,

    d log p = r·dd + q·(dc + dW x) + Σ_jk R_jk dU_jk.

Over a batch of n only R has size (n, hidden, classes), and it meets dU alone: a product with the linearisation or its
transpose is one matrix-vector product with R, plus terms of size (n, hidden). Left to itself, automatic differentiation
broadcasts dc + dW x against U first and passes several times over arrays of R's size.
"""

import functools
from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax.custom_derivatives import SymbolicZero

from isotherm.lib.types import Array, Example, Float, Int, Params, Scalar
from isotherm.models.families import Predictor, softplus
from isotherm.models.model import ClassModel, like, linear, method


@dataclass(frozen=True)
class DRBM(ClassModel):
    """Parameters `W` (hidden, features), `U` (hidden, classes), `c` (hidden,), `d` (classes,) and, if rows have levels,
    their `effects` (levels, hidden), which are added to c.

    Labels are 0 … classes − 1.
    """

    features: int
    hidden: int
    classes: int
    prior_variance: float = 10.0
    levels: int = 0

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        f, h, k = self.features, self.hidden, self.classes
        shapes = {"W": (h, f), "U": (h, k), "c": (h,), "d": (k,), "effects": (self.levels, h)}
        return {name: shape for name, shape in shapes.items() if 0 not in shape}

    def _predictor(self, params: Params, example: Example) -> Predictor:
        params, x = self._of_row(params, example)
        return _activations(params, _inputs(params, x))

    @method
    def log_likelihood(self, params: Params, example: Example) -> Scalar:
        """Return log p(y|x) = a_y − logsumexp(a), with the differential of the module's docstring."""
        return _log_probability(*self._of_row(params, example), example["y"])

    def _of_row(self, params: Params, example: Example) -> tuple[Params, Float[Array, "features"]]:
        """Return x, and the parameters with the effects of the row's levels in c."""
        if not self.levels:
            return params, like(params, example["x"])
        c = params["c"] + linear(params, "", example)
        machine = {"W": jnp.zeros((self.hidden, 0), c.dtype)} | params | {"c": c}
        return {name: machine[name] for name in "WUcd"}, like(params, example.get("x", ()))


def _inputs(params: Params, x: Float[Array, "features"]) -> Float[Array, "hidden classes"]:
    """Return c_j + U_jk + W_j·x."""
    return (params["c"] + params["W"] @ x)[:, None] + params["U"]


def _activations(params: Params, inputs: Float[Array, "hidden classes"]) -> Float[Array, "classes"]:
    """Return a_k = d_k + Σ_j softplus(input_jk)."""
    return params["d"] + softplus(inputs).sum(axis=0)


@jax.custom_jvp
def _log_probability(params: Params, x: Float[Array, "features"], y: Int[Array, ""]) -> Scalar:
    a = _activations(params, _inputs(params, x))
    return a[y] - jax.nn.logsumexp(a)


def _log_probability_jvp(
    primals: tuple[Params, Array, Array], tangents: tuple[Params, Array | SymbolicZero, object]
) -> tuple[Scalar, Scalar]:
    params, x, y = primals
    given = *(tangents[0][name] for name in "WUcd"), tangents[1]
    dw, du, dc, dd, dx = (None if isinstance(t, SymbolicZero) else t for t in given)
    inputs, d = _inputs(params, x), params["d"]
    log_p = jax.nn.log_softmax(_activations(params, inputs))
    r = jax.nn.one_hot(y, d.shape[0], dtype=d.dtype) - jnp.exp(log_p)
    sigma = jax.nn.sigmoid(inputs)
    q = sigma @ r
    terms = [
        None if dd is None else r @ dd,
        None if dc is None else q @ dc,
        None if dw is None else q @ (dw @ x),
        None if dx is None else q @ (params["W"] @ dx),
        None if du is None else jnp.tensordot(sigma * r[None, :], du, 2),
    ]
    return log_p[y], functools.reduce(jnp.add, (term for term in terms if term is not None))


_log_probability.defjvp(_log_probability_jvp, symbolic_zeros=True)
