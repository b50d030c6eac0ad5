"""From a user's arguments to a run: flattened, one start a chain, the data on the device."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import isotherm
from isotherm.data.batches import Batches
from isotherm.targets import parameters


def test_starts_can_be_drawn(sample, init, flat):
    tree = sample(isotherm.sgld(1e-12), init=lambda key: jax.tree.map(
        lambda leaf: leaf + jax.random.normal(key, leaf.shape), init), burn_in=0.0, thin=1, steps=1)  # fmt: skip
    starts = flat(tree)[:, 0]
    assert np.abs(starts[0] - starts[1]).max() > 0.1


def test_all_chains_start_from_the_same_parameters(make, data):
    run = make(init={"offset": np.float32(4), "slope": np.arange(3, dtype=np.float32)}, seed=7, name="mine")
    np.testing.assert_array_equal(run.starts, [[4, 0, 1, 2]] * 3)
    assert (run.chains, run.seed, run.name, run.batches) == (3, 7, "mine", Batches(200, 20))
    params = run.evaluation.target.unravel(jnp.asarray(run.starts[0]))
    np.testing.assert_array_equal(params["offset"], 4)
    np.testing.assert_array_equal(params["slope"], [0, 1, 2])
    for name, column in run.data.items():
        assert isinstance(column, jax.Array)
        np.testing.assert_array_equal(column, data[name])


def test_starts_depend_on_the_seed_and_the_chain(make, init):
    def drawn(key):
        return jax.tree.map(lambda leaf: jax.random.normal(key, leaf.shape), init)

    first, again, other = (make(init=drawn, seed=seed).starts for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert len(np.unique(np.concatenate([first, other])[:, 0])) == 6


def test_an_init_that_fails_is_told():
    with pytest.raises(
        ValueError, match=r"^init\(key\) must return parameters to start from, it raised KeyError\('w'\)$"
    ):
        parameters.starting_points(lambda key: {}["w"], 2, 0)


def test_parameters_of_two_precisions_are_flattened_to_the_longer_one():
    with jax.numpy_dtype_promotion("standard"):  # as users have it
        dtype, unravel = parameters.flattening({"half": np.ones(2, np.float16), "single": np.float32(3)})
        back = unravel(jnp.arange(3.0))
    assert dtype == np.float32
    assert back["half"].dtype == np.float16
    np.testing.assert_array_equal(back["half"], [0, 1])
    np.testing.assert_array_equal(back["single"], 2)


@pytest.mark.parametrize("replace", ["no", 1, None, np.ones(2, bool)], ids=str)
def test_replace_is_yes_or_no(make, replace):
    with pytest.raises(TypeError, match="replace must be True or False, got"):
        make(replace=replace)
