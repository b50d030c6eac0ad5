"""The mass of badly scaled columns."""

import jax.numpy as jnp
import numpy as np

from isotherm.dynamics.covariance import inverse_root_mass, positive


def test_columns_of_like_scales_have_no_mass():
    np.testing.assert_array_equal(inverse_root_mass(jnp.array([1.0, 9e3]), None), 1)


def test_columns_of_very_different_scales_have_the_curvature_as_mass():
    np.testing.assert_allclose(inverse_root_mass(jnp.array([1.0, 4e4, 1e8]), None), [1, 1 / 200, 1e-4], rtol=1e-6)


def test_the_larger_of_what_is_expected_and_measured_counts():
    expected, measured = jnp.array([1.0, 1e6, 4e6]), jnp.array([4.0, 1.0, jnp.nan])
    np.testing.assert_allclose(inverse_root_mass(expected, measured) ** -2, [4, 1e6, 4e6], rtol=1e-6)


def test_no_mass_is_so_small_that_float32_ends():
    w = inverse_root_mass(jnp.array([0.0, 1e-30, 1e30]), None)
    np.testing.assert_allclose(w, [1e-9, 1e-9, 1e-15], rtol=1e-5)


def test_no_curvature_at_all_is_no_mass():
    np.testing.assert_array_equal(inverse_root_mass(jnp.zeros(3), jnp.zeros(3)), 1)


def test_what_is_positive_can_be_divided_by():
    assert np.isfinite(1e3 / positive(jnp.zeros((), jnp.float32)))
    assert float(positive(jnp.float32(2))) == 2
