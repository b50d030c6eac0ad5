"""What every sampler must be, whatever it computes. A new sampler is one more line in BUILDERS.

Programs are compiled once for all tests: `step` and `begin_at` are jitted here, and tests keep to arguments of one
structure. Variants of a sampler take and return what the sampler does in `make test`, and all the rest in
`make test-all`.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import isotherm
from isotherm.run.loop import observables
from isotherm.samplers.base import Renewing
from isotherm.targets.noisy import estimate
from isotherm.targets.target import as_target

BUILDERS = {
    "eccadl": isotherm.eccadl,
    "eccadl-low_rank": lambda h, **k: isotherm.eccadl(h, covariance="low_rank", rank=2, **k),
    "eccadl-diagonal": lambda h, **k: isotherm.eccadl(h, covariance="diagonal", **k),
    "mccadl": isotherm.mccadl,
    "mccadl-taylor": lambda h, **k: isotherm.mccadl(h, expm="taylor", **k),
    "mccadl-dense": lambda h, **k: isotherm.mccadl(h, expm="dense", **k),
    "ccadl": isotherm.ccadl,
    "ccadl-diagonal": lambda h, **k: isotherm.ccadl(h, covariance="diagonal", **k),
    "sgnht": isotherm.sgnht,
    "sgnht-symmetric": lambda h, **k: isotherm.sgnht(h, scheme="BADODAB", **k),
    "sghmc": isotherm.sghmc,
    "sgld": isotherm.sgld,
    "msgld": isotherm.msgld,
}
d = 4
POSTERIOR = isotherm.Posterior(
    lambda theta, x: -0.5 * jnp.sum((theta - x) ** 2), lambda theta: -0.5 * jnp.sum(theta**2)
)


def samplers(quick=lambda name: "-" not in name):
    """For parametrisation: all samplers, of which only those whose name is `quick` are tested in `make test`."""
    return [
        pytest.param(build, id=name, marks=() if quick(name) else pytest.mark.slow) for name, build in BUILDERS.items()
    ]


@pytest.fixture(params=samplers(), name="build")
def _build(request):
    return request.param


# What is written once, in base.py: a sampler with a thermostat, one without momentum.
one_of_a_kind = pytest.mark.parametrize("build", samplers(("sgnht", "sgld").__contains__))
# And the one that remembers batches, for what compiles each sampler anew.
three_kinds = pytest.mark.parametrize("build", samplers(("eccadl", "sgnht", "sgld").__contains__))


def evaluate(theta, seed=0):
    rng = np.random.default_rng(seed)
    return estimate(as_target(POSTERIOR), theta, jnp.asarray(rng.standard_normal((8, d)), theta.dtype), population=20)


def eager_step(sampler, key, state):
    """A step as the loop takes it, after a renewal of what the sampler remembers, if it does."""
    if isinstance(sampler, Renewing):
        state = sampler.renew(key, state, evaluate(state.position), state.step)
    return sampler.step(key, state, evaluate(state.position))


step = jax.jit(eager_step)  # compiled once for all tests of a sampler


@jax.jit
def begin_at(sampler, theta):
    return sampler.init(jax.random.key(1), theta, evaluate(theta))


def begin(sampler, dtype=jnp.float32):
    return begin_at(sampler, jnp.linspace(-1, 1, d, dtype=dtype))


def assert_close(left, right, rtol=2e-5):
    for a, b in zip(jax.tree.leaves(left), jax.tree.leaves(right), strict=True):
        np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol)


@pytest.mark.parametrize("dtype", ["float32", pytest.param("float64", marks=pytest.mark.slow)])
def test_structure_shapes_and_dtypes_are_kept(build, dtype):
    with jax.enable_x64(dtype == "float64"):
        sampler = build(0.05)
        state = begin(sampler, dtype)
        after = step(sampler, jax.random.key(2), state)
        assert jax.tree.map(lambda x: (x.shape, x.dtype), after) == jax.tree.map(lambda x: (x.shape, x.dtype), state)
        assert after.position.dtype == dtype
        assert not np.array_equal(after.position, state.position)


@three_kinds
def test_jit_equals_eager_and_same_key_same_result(build):
    sampler = build(0.05)
    state = begin(sampler)
    key = jax.random.key(3)
    compiled = step(sampler, key, state)
    assert_close(compiled, eager_step(sampler, key, state))
    assert_close(compiled, step(sampler, key, state), rtol=0)
    assert not np.allclose(step(sampler, jax.random.key(4), state).position, compiled.position)


@three_kinds
def test_vectorised_chains_equal_looped_ones(build):
    sampler = build(0.05)
    keys = jax.random.split(jax.random.key(5), 3)
    states = jax.jit(jax.vmap(lambda key: sampler.init(key, jnp.ones(d), evaluate(jnp.ones(d)))))(keys)
    together = jax.jit(jax.vmap(lambda key, state: eager_step(sampler, key, state)))(keys, states)
    alone = [step(sampler, key, jax.tree.map(lambda x, i=i: x[i], states)) for i, key in enumerate(keys)]
    assert_close(together, jax.tree.map(lambda *x: jnp.stack(x), *alone))


def test_a_pytree_whose_numbers_are_leaves(build):
    """Changing a number recompiles nothing."""
    state = begin(build(0.05))
    step(build(0.01), jax.random.key(0), state)
    compiled = step._cache_size()
    for h in (0.02, 0.03):
        step(build(h), jax.random.key(0), state)
    assert step._cache_size() == compiled


@one_of_a_kind
def test_a_schedule_is_a_step_size_that_changes(build):
    sizes = jnp.array([0.05, 0.01])
    scheduled, fixed, smaller = build(lambda t: sizes[t]), build(0.05), build(0.01)
    state = begin(fixed)
    keys = jax.random.split(jax.random.key(6))
    first = step(scheduled, keys[0], state)
    assert_close(first, step(fixed, keys[0], state))
    assert_close(step(scheduled, keys[1], first), step(smaller, keys[1], first))


@three_kinds
def test_mass_and_temperature_scale_the_problem(build):
    """With M = mI, step √m·h (m·h without momentum) and friction A/√m the path is the same: θ depends on h²/m alone."""
    m, h, ones = 4.0, 0.05, np.ones(d)
    overdamped = not hasattr(build(h), "friction")
    light = build(h, mass=ones) if overdamped else build(h, friction=2.0, mass=ones)
    heavy = build(h * m, mass=m * ones) if overdamped else build(h * 2.0, friction=1.0, mass=m * ones)
    if not overdamped:  # ξ is a rate too: it scales like A if μ does like m
        light, heavy = (dataclasses.replace(s, thermal_mass=mu) for s, mu in ((light, 1.0), (heavy, m)))
    a, b = begin(light), begin(heavy)
    for key in jax.random.split(jax.random.key(7), 3):
        a, b = step(light, key, a), step(heavy, key, b)
    np.testing.assert_allclose(a.position, b.position, rtol=1e-4, atol=1e-5)


@one_of_a_kind
def test_a_mass_shaped_like_the_parameters_or_flat(build):
    flat = np.array([1.0, 2.0, 3.0, 4.0])
    tree = {"a": flat[:1], "b": flat[1:].reshape(3, 1)}
    key = jax.random.key(8)
    assert_close(
        step(build(0.05, mass=flat), key, begin(build(0.05))), step(build(0.05, mass=tree), key, begin(build(0.05)))
    )
    with pytest.raises(ValueError, match="mass has 3 entries but there are 4 parameters; give a number, a vector"):
        step(build(0.05, mass=np.ones(3)), key, begin(build(0.05)))


def test_statistics_are_floating_scalars_by_name(build):
    states = jax.tree.map(lambda x: x[None], begin(build(0.05)))
    names = set(observables(states))
    assert "position" in names
    if hasattr(build(0.05), "friction"):
        assert {"kinetic_temperature", "friction", "expm_error"} <= names


BAD = {
    "step_size": [0.0, -0.1, np.nan, np.inf],
    "temperature": [0, -1.0, np.inf],
    "mass": [0.0, -1.0, np.array([1.0, 0.0]), np.nan],
    "friction": [-1.0, np.nan],
    "thermal_mass": [0.0, -2, np.inf],
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in BAD.items() for value in values])
def test_bad_numbers_are_refused_by_name(build, name, value):
    if name not in {field.name for field in dataclasses.fields(build(0.1))}:
        pytest.skip(f"has no {name}")
    if name == "thermal_mass" and isinstance(begin(build(0.1)).thermal_mass, tuple):
        pytest.skip("has no thermostat")
    arguments = {"step_size": 0.1} | {name: value}
    with pytest.raises(ValueError, match=rf"^{name} must .*got"):
        build(arguments.pop("step_size"), **arguments)


def test_zero_friction_is_zero_friction(build):
    if not hasattr(build(0.1), "friction"):
        pytest.skip("has no friction")
    assert build(0.1, friction=0).friction == 0
    state = begin(build(0.1, friction=0.0))
    assert state.friction == 0
    assert np.isfinite(step(build(0.1, friction=0.0), jax.random.key(0), state).position).all()


def test_words_that_are_not_numbers(build):
    with pytest.raises(TypeError, match=r"step_size .*got 'fast'"):
        build("fast")
    with pytest.raises(ValueError, match=r"step_size\(0\) .*got -1.0"):
        build(lambda step: -1.0)


def test_words_that_are_not_options():
    with pytest.raises(ValueError, match=r"expm .*got 'pade'"):
        isotherm.mccadl(0.1, expm="pade")
    with pytest.raises(ValueError, match=r"rank .*got 0"):
        isotherm.mccadl(0.1, rank=0)
    with pytest.raises(ValueError, match=r"covariance .*got 'sparse'"):
        isotherm.ccadl(0.1, covariance="sparse")
    with pytest.raises(ValueError, match=r"covariance .*got 'sparse'"):
        isotherm.eccadl(0.1, covariance="sparse")
    with pytest.raises(ValueError, match=r"window .*got 0"):
        isotherm.eccadl(0.1, window=0)
    with pytest.raises(ValueError, match=r"every .*got 0"):
        isotherm.eccadl(0.1, every=0)
    with pytest.raises(ValueError, match=r"noise_estimate must not exceed friction, got 2\.0 and 1\.0"):
        isotherm.sghmc(0.1, 1.0, noise_estimate=2.0)
    with pytest.raises(ValueError, match="unknown letter 'C'"):
        isotherm.sgnht(0.1, scheme="BACODAB")


def test_auto_is_a_step_size_that_is_still_to_be_found(build):
    sampler = build("auto")
    assert sampler.step_size is None
    if sampler.traits().chooses_step_size:
        pytest.skip("finds its own")
    with pytest.raises(ValueError, match='step_size="auto" is looked for by'):
        eager_step(sampler, jax.random.key(0), begin(build(0.1)))
