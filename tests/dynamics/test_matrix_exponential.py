"""exp(−tS)v against SciPy, and what must hold at any rank, any S, any v."""

from fractions import Fraction
from functools import partial
from math import factorial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg
import scipy.sparse.linalg
from hypothesis import given, settings
from hypothesis import strategies as st

from isotherm.dynamics.matrix_exponential import ACTIONS, THETA, Krylov, decay, krylov_within
from isotherm.targets.noisy import Covariance


class Explicit(Covariance):
    """A matrix as a covariance."""

    def __init__(self, matrix):
        object.__setattr__(self, "matrix", matrix)

    def matvec(self, v):
        return self.matrix @ v

    def trace(self):
        return jnp.trace(self.matrix)

    def dense(self):
        return self.matrix


def semidefinite(d, rank, norm, seed):
    """A random S of this rank whose eigenvalues are spread evenly over (0, norm]."""
    rng = np.random.default_rng(seed)
    q = np.linalg.qr(rng.standard_normal((d, d)))[0][:, :rank]
    return (q * (norm * np.arange(1, rank + 1) / rank)) @ q.T


def relative(found, expected):
    return np.linalg.norm(np.asarray(found) - expected) / np.linalg.norm(expected)


taylor = jax.jit(lambda S, v: ACTIONS["taylor"](Explicit(S), 1.0, v, 0))


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("norm", [1e-3, 1e-1, 1.0, 10.0, 100.0, 1000.0])
def test_taylor_agrees_with_scipy(norm):
    S = semidefinite(30, 20, norm, 1)
    v = np.random.default_rng(2).standard_normal(30)
    found, error = taylor(S, v)
    assert relative(found, scipy.linalg.expm(-S) @ v) <= 1e-12
    assert relative(found, scipy.sparse.linalg.expm_multiply(-S, v)) <= 1e-12
    assert np.isfinite(error)


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("method", ["taylor", "dense", "lanczos"])
def test_time_scales_the_matrix(method):
    S = semidefinite(8, 8, 2.0, 3)
    v = np.random.default_rng(4).standard_normal(8)
    found, _ = jax.jit(lambda S, v: ACTIONS[method](Explicit(S), 3.0, v, 8))(S, v)
    assert relative(found, scipy.linalg.expm(-3.0 * S) @ v) <= 1e-12


def test_taylor_in_float32():
    """Rounding of ‖tS‖·2⁻²⁴ a product: 1e-5 leaves room for a norm of 30."""
    S = semidefinite(20, 20, 30.0, 5).astype(np.float32)
    v = np.random.default_rng(6).standard_normal(20).astype(np.float32)
    found, _ = taylor(S, v)
    assert found.dtype == jnp.float32
    assert relative(found, scipy.linalg.expm(-S.astype(float)) @ v) <= 1e-5


def test_taylor_gives_up_rather_than_hang():
    found, error = taylor(jnp.diag(jnp.array([1e8, 0.0, 1.0])), jnp.ones(3))
    assert np.isnan(found).all()
    assert np.isnan(error)


@pytest.mark.parametrize("dtype", [jnp.float16, jnp.bfloat16])
def test_16_bits_are_for_lanczos_alone(dtype):
    S, v, t = jnp.eye(3, dtype=dtype), jnp.ones(3, dtype), jnp.ones((), dtype)
    assert relative(lanczos(S, v, t, 2)[0], np.exp(-1) * np.ones(3)) < 0.01  # 3 digits
    for method in ("taylor", "dense"):
        with pytest.raises(TypeError, match=f"expm must be 'lanczos' where init has 16 bits, got '{method}' and dtype"):
            ACTIONS[method](Explicit(S), t, v, 2)


@pytest.mark.parametrize("bits", [32, 64])
def test_theta_table_from_its_definition(bits):
    """θ_m = max{θ : Σ_{k>m} |c_k| θ^(k−1) ≤ u}, Σ c_k x^k = log(e^(−x) T_m(x)) (Al-Mohy & Higham 2011, §3)."""
    unit = 2.0 ** {32: -24, 64: -53}[bits]
    for m, theta in zip(*THETA[bits], strict=True):
        c = backward_error_series(m, 100)
        size = [sum(c[k] * x ** (k - 1) for k in range(m + 1, len(c))) for x in (theta, theta * 1.003)]
        assert size[0] <= unit < size[1]


def backward_error_series(m, terms):
    taylor = [Fraction(1, factorial(k)) if k <= m else Fraction(0) for k in range(m + terms + 1)]
    ratio = []  # T′/T
    for k in range(m + terms):
        ratio.append((k + 1) * taylor[k + 1] - sum(r * taylor[k - i] for i, r in enumerate(ratio)))
    return [0.0] + [abs(float(r / (k + 1) - (k == 0))) for k, r in enumerate(ratio)]


# Few shapes, since each compiles; the spectrum, the rank and the vector are what varies.
vectors = st.sampled_from([1, 4, 12]).flatmap(
    lambda d: st.tuples(st.just(d), st.integers(1, d), st.sampled_from([1, 3, 14]), st.integers(0, 2**31))
)
lanczos = jax.jit(lambda S, v, t, rank: ACTIONS["lanczos"](Explicit(S), t, v, rank), static_argnums=3)


@given(vectors, st.floats(-8, 8), st.floats(-3, 3))
@settings(max_examples=300, deadline=None, derandomize=True)
def test_lanczos_never_grows_a_vector(sizes, log_norm, log_length):
    """A contraction to rounding: k orthonormal vectors, each to a few ε, in float32."""
    d, rank, krylov_rank, seed = sizes
    S = semidefinite(d, rank, 10.0**log_norm, seed).astype(np.float32)
    v = (10.0**log_length * np.random.default_rng(seed).standard_normal(d)).astype(np.float32)
    found, error = lanczos(S, v, 1.0, krylov_rank)
    assert np.linalg.norm(found) <= np.linalg.norm(v) * (1 + 20 * np.finfo(np.float32).eps * krylov_rank)
    assert np.isfinite(error)


@pytest.mark.parametrize("rank", [1, 2, 5])
@pytest.mark.parametrize("S", [np.zeros((4, 4)), np.ones((4, 4)), 1e8 * np.ones((4, 4)), 1e8 * np.eye(4)], ids=str)
@pytest.mark.parametrize("v", [np.zeros(4), np.ones(4), np.array([1.0, -1.0, 0.0, 0.0])], ids=str)
def test_lanczos_is_finite_where_it_breaks_down(S, v, rank):
    found, error = lanczos(S.astype(np.float32), v.astype(np.float32), 1.0, rank)
    assert np.isfinite(found).all()
    assert np.isfinite(error)
    np.testing.assert_allclose(found, scipy.linalg.expm(-S) @ v, atol=1e-6)


@pytest.mark.usefixtures("float64")
def test_lanczos_knows_its_error():
    """The estimate is the first term of the error: right in order of magnitude while the error is above rounding."""
    S = semidefinite(40, 40, 8.0, 8)
    v = np.random.default_rng(9).standard_normal(40)
    truth = scipy.linalg.expm(-S) @ v
    errors = []
    for rank in (2, 4, 6, 8):
        found, estimate = lanczos(S, v, 1.0, rank)
        errors.append(np.linalg.norm(found - truth) / np.linalg.norm(v))
        assert errors[-1] / 5 < estimate < 5 * errors[-1]
    assert errors == sorted(errors, reverse=True)


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("norm", [1e-3, 0.1, 3.0, 30.0])
@pytest.mark.parametrize("tolerance", [1e-1, 1e-3, 1e-6])
@pytest.mark.parametrize("spectrum", ["even", "steep"])
def test_a_space_chosen_by_tolerance_keeps_it(norm, tolerance, spectrum):
    """The error is within the tolerance times the change that the docstring names, for eigenvalues that are spread
    evenly and for such as fall off like those of gradients. Not a theorem: one coefficient is guessed."""
    S = semidefinite(40, 40, norm, 12)
    if spectrum == "steep":
        S = (S @ S @ S) / norm**2
    v = np.random.default_rng(13).standard_normal(40)
    found, products = enough(S, v, tolerance)
    truth = scipy.linalg.expm(-S) @ v
    change = min(1.0, np.linalg.norm(S @ v) / np.linalg.norm(v)) * np.linalg.norm(v)
    assert np.linalg.norm(found - truth) <= tolerance * change + 1e-12
    assert 2 <= products < 29
    if norm <= 3 and products > 4:  # nor does it ask for many products too many, but where the norm is large
        fewer = of_products(S, v, int(products) - 3)
        assert np.linalg.norm(fewer - truth) > tolerance * change


# S is an argument of what is compiled, so that one program serves every S.
@partial(jax.jit, static_argnums=2)
def enough(S, v, tolerance):
    return acted(*krylov_within(lambda x: S @ x, jnp.ones(()), v, tolerance, 30))


@jax.jit
def of_products(S, v, products):
    """exp(−S)v in the space of so many products, none of them guessed."""
    norm, space = Krylov.seed(v, 30)
    space = space._replace(size=jnp.zeros((), jnp.int32))
    space = jax.lax.fori_loop(0, products, lambda _, space: space.grown(lambda x: S @ x), space)
    return acted(norm, space)[0]


def acted(norm, space):
    """exp(−S)v in a space, and the number of products that a closed one took."""
    return norm * (decay(space.alphas, space.betas)[0] @ space.basis), space.size - 1


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("spectrum", ["even", "steep"])
def test_closing_a_space_is_nearly_worth_a_product(spectrum, seed):
    """Six products and a guess, against six and seven: at least half of the digits that the seventh gains."""
    S = semidefinite(60, 60, 10.0, seed)
    if spectrum == "steep":
        S = (S @ S @ S) / 100
    v = np.random.default_rng(seed).standard_normal(60)
    truth = scipy.linalg.expm(-S) @ v

    def digits(space):
        return -np.log10(np.linalg.norm(acted(jnp.linalg.norm(v), space)[0] - truth))

    space = Krylov.seed(jnp.asarray(v), 7)[1]
    for _ in range(6):
        space = space.grown(lambda x: S @ x)
    six, closed, seven = map(digits, (space, space.closed(), space.grown(lambda x: S @ x)))
    assert seven > six
    assert closed > (six + seven) / 2


def test_few_parameters_make_a_space_that_is_all_there_is():
    """With no more parameters than room, nothing is guessed: the default is exact to rounding."""
    S = semidefinite(6, 6, 50.0, 16).astype(np.float32)
    v = np.random.default_rng(17).standard_normal(6).astype(np.float32)
    found, _ = jax.jit(lambda S, v: ACTIONS["lanczos"](Explicit(S), 1.0, v, None))(S, v)
    np.testing.assert_allclose(found, scipy.linalg.expm(-S.astype(float)) @ v, atol=1e-5)
