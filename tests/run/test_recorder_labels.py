"""Results have names, dimensions and attributes."""

import jax.numpy as jnp
import numpy as np

import isotherm
from isotherm.run.plan import Plan
from isotherm.run.recorder import Labels


def test_labels(sample):
    tree = sample()
    assert tree.posterior.slope.dims == ("chain", "draw", "slope_dim_0")
    assert tree.posterior.slope.shape == (3, 34, 3)  # (300 − 60) // 7
    assert tree.posterior.offset.shape == (3, 34)
    assert tree.posterior.slope.dtype == np.float32
    assert {"kinetic_temperature", "friction", "expm_error", "diverging"} <= set(tree.sample_stats.data_vars)
    assert tree.sample_stats.friction.dims == ("chain", "draw")
    assert not tree.sample_stats.diverging.any()
    assert (tree.sample_stats.first_bad_step == -1).all()
    assert tree.posterior_mean.slope.dims == ("chain", "slope_dim_0")
    said = {"sampler": "mccadl", "sampler_step_size": 0.02, "sampler_friction": 1.0, "batch_size": 20, "steps": 300,
            "burn_in": 60, "thin": 7, "chains": 3, "seed": 0, "population": 200, "interrupted": 0,
            "inference_library": "isotherm", "inference_library_version": isotherm.__version__}  # fmt: skip
    assert said.items() <= tree.attrs.items()


def test_a_bare_array_is_called_theta(data):
    posterior = isotherm.Posterior(lambda t, x: -0.5 * jnp.sum((x - t) ** 2), lambda t: -0.5 * jnp.sum(t**2))
    tree = isotherm.sample(
        posterior, isotherm.sgld(1e-3), data["x"], np.zeros(3, np.float32), batch_size=20, steps=50, progress=False
    )
    assert tree.posterior.theta.shape == (4, 4, 3)


def test_flat_positions_become_the_parameters(make):
    """In the order in which JAX flattens them: by name, `offset` before `slope`."""
    labels = Labels(make(), Plan(300, 60, 7))
    positions = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    named = labels.variables(positions)
    assert list(named) == ["offset", "slope"]
    np.testing.assert_array_equal(named["offset"], positions[..., 0])
    np.testing.assert_array_equal(named["slope"], positions[..., 1:])


def test_draws_are_numbered_and_those_from_a_bad_step_on_are_marked(make):
    """Draws 5, 6 and 7 end with steps 102, 109 and 116."""
    labels = Labels(make(), Plan(300, 60, 7))
    draws = {"position": np.zeros((3, 3, 4), np.float32), "friction": np.arange(9, dtype=np.float32).reshape(3, 3)}
    tree = labels.draws(draws, 5, np.array([-1, 109, 110], np.int32))
    np.testing.assert_array_equal(tree.posterior.draw, [5, 6, 7])
    np.testing.assert_array_equal(tree.sample_stats.friction, draws["friction"].T)
    np.testing.assert_array_equal(tree.sample_stats.diverging, [[False] * 3, [False, True, True], [False, False, True]])


def test_a_name_is_an_attribute_if_there_is_one(make):
    assert Labels(make(name="mine"), Plan(300, 60, 7)).attributes["name"] == "mine"
    assert "name" not in Labels(make(), Plan(300, 60, 7)).attributes


def test_notes_are_attributes_and_a_plan_may_change(make):
    labels = Labels(make(notes={"fit_method": "anchored eccadl"}), Plan(300, 60, 7))
    assert labels.attributes["fit_method"] == "anchored eccadl"
    labels.replan(Plan(500, 60, 7))
    assert (labels.plan.steps, labels.attributes["steps"]) == (500, 500)


def test_names_are_in_the_order_of_flat_positions(make):
    assert Labels(make(), Plan(300, 60, 7)).names == ["offset", "slope"]
