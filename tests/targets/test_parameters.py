"""What a user reads is what a user wrote."""

import numpy as np

from isotherm.targets import parameters
from isotherm.targets.parameters import flattening


def test_an_entry_is_called_what_a_user_would_call_it():
    _, unravel = flattening({"b": np.float32(0), "w": np.zeros((2, 3), np.float32)})
    assert parameters.entry_name(unravel, np.array([-9.0, 0, 1, 2, 3, 4, 5]), np.dtype(np.float32)) == "b"
    assert parameters.entry_name(unravel, np.array([0.0, 0, 1, 2, -7, 4, 5]), np.dtype(np.float32)) == "w[1, 0]"


def test_nests_of_names_become_nests_again():
    params = {"layers": [{"w": np.zeros(2)}, {"w": np.ones(3)}], "scale": np.float64(1)}
    arrays = dict(zip(parameters.variable_names(params), (np.zeros(2), np.ones(3), np.float64(1)), strict=True))
    assert list(arrays) == ["layers.0.w", "layers.1.w", "scale"]
    again = parameters.nested_params(arrays)
    assert again.keys() == {"layers", "scale"}
    np.testing.assert_array_equal(again["layers"][1]["w"], np.ones(3))
    assert parameters.variable_names(np.zeros(3)) == ["theta"]
    np.testing.assert_array_equal(parameters.nested_params({"theta": np.ones(2)}), np.ones(2))


def test_every_entry_has_a_name():
    entries, arrays = parameters.named_entries({"b": np.float32(0), "w": np.zeros((2, 2), np.float32)})
    assert (entries, arrays) == (["b", "w[0, 0]", "w[0, 1]", "w[1, 0]", "w[1, 1]"], ["b", "w"])
