import numpy as np
import pytest

from isotherm.diagnostics import step_halving

RNG = np.random.default_rng(0)
CHAINS, DRAWS, D = 4, 4000, 5


def normal():
    return RNG.standard_normal((CHAINS, DRAWS, D))


def test_equal_runs_differ_by_chance_alone():
    found = step_halving(normal(), normal())
    assert (abs(found.shift) < 4 * found.shift_error).all()
    assert (abs(found.variance) < 4 * found.variance_error).all()
    assert abs(found.trace) < 4 * found.trace_error
    assert found.distance < 2 * found.distance_error + 0.01


def test_errors_are_those_of_independent_draws():
    found = step_halving(normal(), normal())
    # Variances 1 and 2 of what is averaged, two runs; 32 blocks tell an error to 1/√62 = 13 %.
    np.testing.assert_allclose(found.shift_error, np.sqrt(2 / (CHAINS * DRAWS)), rtol=0.4)
    np.testing.assert_allclose(found.variance_error, np.sqrt(4 / (CHAINS * DRAWS)), rtol=0.4)
    np.testing.assert_allclose(found.trace_error, np.sqrt(4 / (CHAINS * DRAWS * D)), rtol=0.4)


def test_a_shift_and_a_hotter_coordinate_are_found():
    shift, scale = np.array([0.3, 0, 0, -0.4, 0]), np.sqrt([1.0, 1.5, 1.0, 1.0, 1.0])
    found = step_halving(shift + scale * normal(), normal())
    np.testing.assert_allclose(found.shift, shift, atol=4 * 0.0125)  # √(2.5/16,000)
    assert found.variance[1] == pytest.approx(0.5, abs=4 * found.variance_error[1])
    assert found.distance == pytest.approx(np.sqrt(0.25 / 5), abs=4 * found.distance_error)
    assert found.trace == pytest.approx(0.1, abs=4 * found.trace_error)


def test_shapes_are_refused():
    with pytest.raises(ValueError, match=r"fine must have the axes chain, draw.* \(2, 9, 3\) and \(2, 9"):
        step_halving(np.zeros((2, 9, 3)), np.zeros((2, 9, 4)))
