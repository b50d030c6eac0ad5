"""What becomes one kernel, that it computes the same, and that everything else is left as it was."""

import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import isotherm
from isotherm import kernel, lanes, threefry

pytestmark = pytest.mark.skipif(jax.default_backend() != "cpu", reason="kernels are made one on a CPU only")

KEY = threefry.key(1)
X = jnp.asarray(np.random.default_rng(0).uniform(0.1, 0.9, (30, 7)), jnp.float32)


def looped(step):
    return lambda x: jax.lax.fori_loop(0, 3, lambda _, x: step(x), x)


def is_one(step, x):
    compiled = jax.jit(lambda x: kernel.as_one(looped(step), x)).lower(x).compile()
    return "call(" in compiled.as_text() and 'inlineable="false"' in compiled.as_text(), compiled


UNARY = [
    "abs",
    "cbrt",
    "ceil",
    "cos",
    "digamma",
    "erf",
    "erf_inv",
    "erfc",
    "exp",
    "exp2",
    "expm1",
    "floor",
    "lgamma",
    "log",
    "log1p",
    "logistic",
    "neg",
    "round",
    "rsqrt",
    "sign",
    "sin",
    "sqrt",
    "square",
    "tan",
    "tanh",
]
BINARY = ["add", "div", "eq", "ge", "gt", "le", "lt", "max", "min", "mul", "ne", "nextafter", "pow", "rem", "sub"]


def elementwise(x):
    total = x
    for name in UNARY:
        total = total + getattr(jax.lax, name)(x)
    for name in BINARY:
        total = total + getattr(jax.lax, name)(x, x[::-1]).astype(x.dtype)
    bits = jax.lax.bitcast_convert_type(x, jnp.uint32)
    bits = (bits << 1) ^ (bits >> 2) | ~bits & jnp.uint32(7)
    bits = bits + jax.lax.shift_right_arithmetic(bits.astype(jnp.int32), 3).astype(jnp.uint32)
    z = jax.lax.conj(jax.lax.complex(x, 1 - x)) ** 2
    total = total + (bits % jnp.uint32(5)).astype(x.dtype) + z.real * z.imag + jnp.where(jnp.isfinite(x), x, 0) ** 3
    return 0.5 + 0.01 * jnp.tanh(jax.lax.clamp(-3.0, jax.lax.stop_gradient(total), 3.0))


def moving(x):
    y = jnp.concatenate([x[::-1], jnp.pad(x, 2)[3:5], x[jnp.array([0, 3, 3])], jnp.arange(2.0)])
    y = jnp.stack([y, y[::-1]])[None].squeeze(0).T.reshape(-1)
    y = jax.lax.dynamic_update_slice(y, jax.lax.dynamic_slice(y, (1,), (2,)), (4,))
    left, right = jnp.split(y[:14], 2)
    return (left + right) / 2


def reducing(x):
    both = (x > 0).all() | (x > 1).any()
    return (
        x / x.sum() + x.max() * x.min() * x.prod() + jnp.where(both, x.argmax() + x.argmin(), 0).astype(x.dtype)
    ) % 1.0


def holding(x):
    x = jax.lax.cond(x[0] > 0.3, lambda x: x * 0.9, lambda x: x + 0.1, x)
    x = jax.lax.scan(lambda c, row: (0.5 * (c + row * c.mean()), None), x, X[:5])[0]
    x = jax.lax.while_loop(lambda x: x.sum() < 3, lambda x: x + 0.3, x)
    return jax.nn.relu(jax.jit(jax.nn.softplus)(x)) - 0.2


def with_products(x):
    return (jnp.tanh(X @ x) @ X) / 30


def with_random_numbers(x):
    key = jax.random.fold_in(KEY, (100 * x[0]).astype(jnp.int32))
    here, there = jax.random.split(key)
    return 0.5 * x + 0.1 * jax.random.normal(here, x.shape) + 0.1 * jax.random.uniform(there, x.shape)


@pytest.mark.parametrize("step", [elementwise, moving, reducing, holding, with_products, with_random_numbers])
def test_what_is_known_becomes_one_and_stays_what_it_is(step):
    """To 20 roundings: the two are compiled differently."""
    made, compiled = is_one(step, X[0])
    assert made
    np.testing.assert_allclose(compiled(X[0]), jax.jit(looped(step))(X[0]), rtol=20 * 6e-8, atol=1e-6)


@pytest.mark.parametrize(
    "step",
    [
        jnp.sort,
        lambda x: x.at[jnp.array([1, 2])].add(0.1),
        lambda x: jnp.linalg.eigh(jnp.outer(x, x))[0],
        lambda x: (X.T @ X @ jnp.outer(x, x)).sum(axis=0) / 1000,
        lambda x: jax.pure_callback(lambda x: np.asarray(x), jax.ShapeDtypeStruct(x.shape, x.dtype), x),
    ],
    ids=["sort", "scatter", "eigh", "matrices", "callback"],
)
def test_what_is_not_known_is_left_as_it_was(step):
    made, compiled = is_one(step, X[0])
    assert not made
    np.testing.assert_allclose(compiled(X[0]), jax.jit(looped(step))(X[0]), rtol=1e-6)


def sampled(log_likelihood):
    posterior = isotherm.Posterior(log_likelihood, lambda theta: -0.5 * theta @ theta)
    tree = isotherm.sample(
        posterior,
        isotherm.mccadl(0.01),
        {"x": X},
        jnp.zeros(7),
        batch_size=10,
        steps=40,
        thin=1,
        chains=2,
        progress=False,
    )
    return tree.posterior.theta.values


def plain(theta, example):
    return -0.5 * (example["x"] @ theta - 1) ** 2


def test_a_run_is_the_same_with_and_without(monkeypatch):
    """40 steps, each of which may round otherwise."""
    one = sampled(plain)
    monkeypatch.setattr(lanes, "SMALL", 0)
    np.testing.assert_allclose(sampled(plain), one, rtol=1e-4, atol=1e-5)


def test_a_model_of_which_no_kernel_can_be_made_after_all_still_runs(monkeypatch):
    """As if sorting were thought to be possible: XLA refuses, and the run goes on without."""

    def sorting(theta, example):
        return -0.5 * (jnp.sort(example["x"]) @ theta - 1) ** 2

    expected = sampled(sorting)
    monkeypatch.setattr(kernel, "KNOWN", kernel.KNOWN | {"sort"})
    jax.clear_caches()
    np.testing.assert_allclose(sampled(sorting), expected, rtol=1e-6)


ODD = """
import jax, jax.numpy as jnp, numpy as np
import isotherm

rng = np.random.default_rng(0)
x = rng.standard_normal((20, 3)).astype(np.float32)
columns = {
    "x": x, "same": x, "unused": x, "bool": x[:, 0] > 0, "byte": np.arange(20, dtype=np.uint8),
    "half": x.astype(np.float16), "none": np.zeros((20, 0), np.float32), "wide": np.zeros((20, 2, 3, 4), np.float32),
}
constant = np.arange(3.0, dtype=np.float32)
models = {
    "plain": lambda p, e: -((p - e["x"]) ** 2).sum(),
    "constant": lambda p, e: -((p - e["x"] * constant) ** 2).sum(),
    "only a constant": lambda p, e: -((p - constant) ** 2).sum(),
    "nothing of the data": lambda p, e: -p @ p,
    "nothing at all": lambda p, e: jnp.zeros(()),
    "simplified away": lambda p, e: -p @ p + jnp.where(False, e["x"].sum(), 0.0) + (e["byte"] * 0).astype(jnp.float32),
    "the same twice": lambda p, e: -((p - e["x"]) ** 2 + (p - e["same"]) ** 2).sum(),
    "kinds": lambda p, e: -(p * jnp.where(e["bool"], e["half"].astype(p.dtype), e["byte"].astype(p.dtype))).sum(),
    "shapes": lambda p, e: -((p[:, None] + e["wide"].sum(axis=0)) ** 2).sum(),
    "linear": lambda p, e: p.sum() * e["x"][0],
    "infinite": lambda p, e: jnp.inf * p.sum(),
}
for name, log_likelihood in models.items():
    for data in (columns, {key: columns[key] for key in columns if key != "none"}):
        for sampler in (isotherm.sgld(1e-3), isotherm.sgnht(1e-3), isotherm.mccadl(1e-3), isotherm.eccadl(1e-3)):
            isotherm.sample(
                isotherm.Posterior(log_likelihood, lambda p: -0.5 * p @ p), sampler, data, np.zeros(3, np.float32),
                batch_size=5, steps=20, chains=2, progress=False,
            )
print("all done")
"""


@pytest.mark.long
def test_no_odd_model_makes_xla_abort():
    """In a process of its own, since that is what an abort would end: arguments without a use, constants, and so on."""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", ODD], capture_output=True, text=True, check=False)
    assert done.stdout.endswith("all done\n"), done.stderr[-2000:]


def test_an_argument_without_a_use_is_no_harm():
    """The shortest of those: a column that the model does not look at."""
    data = {"x": X, "unused": X}
    posterior = isotherm.Posterior(plain, lambda theta: -0.5 * theta @ theta)
    settings = {"batch_size": 10, "steps": 10, "thin": 1, "chains": 1, "progress": False}
    with_it = isotherm.sample(posterior, isotherm.sgnht(0.01), data, jnp.zeros(7), **settings)
    without = isotherm.sample(posterior, isotherm.sgnht(0.01), {"x": X}, jnp.zeros(7), **settings)
    np.testing.assert_array_equal(with_it.posterior.theta.values, without.posterior.theta.values)
