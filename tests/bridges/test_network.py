"""Modules of Flax and Equinox as posteriors: names, starts, modules back; what is random in them stands still."""

import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from arviz_base import from_dict

import isotherm
from isotherm.targets.parameters import nested_params

nnx = pytest.importorskip("flax.nnx")
RNG = np.random.default_rng(0)
X = RNG.standard_normal((300, 2)).astype(np.float32)
Y = (np.sin(2 * X[:, 0]) + 0.1 * RNG.standard_normal(300)).astype(np.float32)
DATA = {"x": X, "y": Y}


@pytest.fixture(autouse=True)
def _as_a_user():
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield


class Stack(nnx.Module):
    """With layers that have parameters and others that have none, so that their numbers have gaps; twelve of them, so
    that 10 sorts before 2 where numbers are words; and two layers that are random while training."""

    def __init__(self, rngs):
        first = [nnx.Linear(2, 3, rngs=rngs), nnx.BatchNorm(3, rngs=rngs), nnx.Dropout(0.5, rngs=rngs)]
        more = [nnx.tanh if i % 2 else nnx.Linear(3, 3, rngs=rngs) for i in range(8)]
        self.layers = nnx.Sequential(*first, *more, nnx.Linear(3, 1, rngs=rngs))

    def __call__(self, x):
        return self.layers(x)[0]


def flax_network(**settings):
    return isotherm.bridges.flax.network(Stack(nnx.Rngs(0)), gaussian, **settings)


def equinox_network(**settings):
    layers = [eqx.nn.Linear(2, 3, key=jax.random.key(0)), eqx.nn.Dropout(0.5), eqx.nn.Lambda(jnp.tanh)]
    more = [eqx.nn.Linear(3, 3, key=jax.random.key(i)) for i in range(8)]
    module = eqx.nn.Sequential([*layers, *more, eqx.nn.Linear(3, "scalar", key=jax.random.key(9))])
    return isotherm.bridges.equinox.network(module, gaussian, **settings)


def gaussian(module, row):
    return -0.5 * ((row["y"] - module(row["x"])) / 0.1) ** 2


@pytest.mark.parametrize("make", [flax_network, equinox_network])
def test_a_module_comes_back_with_other_parameters(make):
    """In whatever nest they come: as `params`, or as `isotherm.check` and others nest the names of the results."""
    network = make()
    row = {"x": X[0], "y": Y[0]}
    moved = {name: leaf + 0.01 * (1 + i) for i, (name, leaf) in enumerate(network.params.items())}
    nested = nested_params({name: np.asarray(leaf) for name, leaf in moved.items()})
    assert nested.keys() == {"layers"}
    log_likelihood = jax.jit(network.log_likelihood)
    output = jax.jit(lambda params: network.module(params)(X[0]))(moved)
    np.testing.assert_allclose(log_likelihood(moved, row), -0.5 * ((Y[0] - output) / 0.1) ** 2, rtol=1e-4)
    np.testing.assert_allclose(log_likelihood(nested, row), log_likelihood(moved, row), rtol=1e-6)
    assert abs(log_likelihood(network.params, row) - log_likelihood(moved, row)) > 1e-3


def test_names():
    assert {"layers.layers.0.kernel", "layers.layers.1.scale", "layers.layers.11.bias"} <= set(flax_network().params)
    assert {"layers.0.weight", "layers.11.bias"} <= set(equinox_network().params)


@pytest.mark.parametrize("make", [flax_network, equinox_network])
def test_priors(make):
    network = make(prior_scale=2.0)
    squares = sum(np.sum(np.square(leaf, dtype=np.float64)) for leaf in network.params.values())
    np.testing.assert_allclose(network.log_prior(network.params), -squares / 8, rtol=1e-5)
    own = make(log_prior=lambda module: -jnp.sum(first_kernel(module) ** 2))
    first = next(leaf for name, leaf in own.params.items() if name.endswith(("0.kernel", "0.weight")))
    np.testing.assert_allclose(own.log_prior(own.params), -jnp.sum(first**2), rtol=1e-5)


def first_kernel(module):
    first = module.layers.layers[0] if isinstance(module, Stack) else module.layers[0]
    return first.kernel[...] if isinstance(module, Stack) else first.weight


def test_chains_start_at_the_module():
    network = isotherm.bridges.flax.network(
        nnx.Linear(2, 1, rngs=nnx.Rngs(0)), lambda m, row: gaussian(lambda x: m(x)[0], row)
    )
    tree = isotherm.sample(network, isotherm.sgld(1e-8), DATA, batch_size=30, steps=2, burn_in=0, thin=1, chains=2)
    assert set(tree.posterior.data_vars) == set(network.params)
    for name, start in network.params.items():  # steps of √(2e-8) = 1.4e-4 leave it there, and a force of some thousand
        np.testing.assert_allclose(tree.posterior[name][0, 0], start, atol=1e-3)


@pytest.mark.parametrize("make", [flax_network, equinox_network])
def test_draws_become_modules(make):
    network, draws = make(), np.arange(12.0, dtype=np.float32).reshape(2, 6)
    arrays = {k: v * draws.reshape(2, 6, *(1,) * v.ndim) / 10 for k, v in network.params.items()}
    tree = from_dict({"posterior": arrays})
    modules = network.modules(tree, 4)
    assert len(modules) == 4
    assert len(network.modules(tree, 1000)) == 12
    last = {name: array[1, 5] for name, array in arrays.items()}
    np.testing.assert_array_equal(jax.tree.leaves(modules[-1])[0], jax.tree.leaves(network.module(last))[0])
    np.testing.assert_array_equal(jax.tree.leaves(modules[0])[0], 0)
    with pytest.raises(ValueError, match="number must be"):
        network.modules(tree, 0)


def test_the_users_module_is_left_alone():
    module = Stack(nnx.Rngs(0))
    network = isotherm.bridges.flax.network(module, gaussian)
    assert not module.layers.layers[2].deterministic
    assert network.module(network.params).layers.layers[2].deterministic


def test_what_is_no_module():
    with pytest.raises(TypeError, match=r"module must be an nnx\.Module of Flax, got dict"):
        isotherm.bridges.flax.network({}, gaussian)
    with pytest.raises(ValueError, match="the module has no parameters"):
        isotherm.bridges.equinox.network(eqx.nn.Lambda(jnp.tanh), gaussian)
    with pytest.raises(ValueError, match="prior_scale must be"):
        equinox_network(prior_scale=-1)


def test_without_the_libraries_they_say_what_to_install(monkeypatch):
    for name in ("flax", "equinox"):
        monkeypatch.setitem(sys.modules, name, None)
        with pytest.raises(ModuleNotFoundError, match=rf"needs {name}: pip install 'isotherm\[{name}\]'"):
            getattr(isotherm.bridges, name).network(None, gaussian)


def test_bridges_are_named():
    with pytest.raises(AttributeError, match="attribute torch"):
        isotherm.bridges.torch  # noqa: B018
