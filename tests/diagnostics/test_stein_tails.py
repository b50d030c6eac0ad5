"""Draws with forces that are known: how heavy their tails are is known too."""

import numpy as np
import pytest
from scipy.integrate import quad

from isotherm.diagnostics.stein import REACH, TAILS_UNIT, stein_tails

SHAPE = (4, 2000, 5)


def gaussian(seed=0, shape=SHAPE):
    return np.random.default_rng(seed).standard_normal(shape)


def student(freedom, seed=0, shape=SHAPE):
    """Of variance 1."""
    return np.random.default_rng(seed).standard_t(freedom, shape) / np.sqrt(freedom / (freedom - 2))


def test_right_draws_are_off_by_their_errors_alone():
    z = gaussian()
    found = stein_tails(z, -z)
    # −(f' + fF) has the variance 15.4 for a Gaussian, by quadrature, so the error is √(15.4/8000)/0.67 = 0.066.
    np.testing.assert_allclose(found.excess, 0, atol=0.3)
    np.testing.assert_allclose(found.excess_error, 0.066, rtol=0.5)  # 32 blocks: 13 %, four of those
    assert found.mean == pytest.approx(0, abs=0.12)
    assert found.mean_error == pytest.approx(0.066 / np.sqrt(5), rel=0.5)


def test_it_counts_in_units_of_the_kurtosis():
    """Draws with density φ(1 + ε(z⁴ − 6z² + 3)/24) have the variance 1 and the kurtosis 3 + ε. Of a force −z, what is
    found of them is ε, by quadrature."""

    def integrand(z):
        inside = abs(z) <= REACH
        held = np.clip(z, -REACH, REACH)
        stein = -((3 * z**2 - 3) * inside - (held**3 - 3 * held) * z)
        return stein * (z**4 - 6 * z**2 + 3) / 24 * np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)

    assert 2 * quad(integrand, 0, 12, points=[REACH])[0] / TAILS_UNIT == pytest.approx(1, abs=1e-4)


@pytest.mark.parametrize(("freedom", "least"), [(5, 1.0), (8, 0.5)])
def test_heavy_tails_with_the_right_variance_are_seen(freedom, least):
    """Kurtosis 9 and 4.5. Means of z⁴ would have no error worth the name; these have: |f| does not grow."""
    z = student(freedom)
    found = stein_tails(z, -z)
    assert ((found.excess > least) & (found.excess < 2)).all()
    assert (found.excess > 5 * found.excess_error).all()
    assert found.mean > 10 * found.mean_error


def test_light_tails_are_seen():
    z = np.random.default_rng(0).uniform(-np.sqrt(3), np.sqrt(3), SHAPE)  # kurtosis 1.8
    found = stein_tails(z, -z)
    assert (found.excess < -1).all()
    assert found.mean < -10 * found.mean_error


def test_draws_of_a_posterior_with_heavy_tails_are_right():
    """Stein's identity holds whatever the posterior's shape: Student's t, with the force of its own density."""
    t = np.random.default_rng(0).standard_t(5, SHAPE)
    found = stein_tails(t, -6 * t / (5 + t**2))
    assert (abs(found.excess) < 4 * found.excess_error).all()
    assert abs(found.mean) < 4 * found.mean_error


def test_a_variance_or_a_mean_that_is_a_little_off_is_not_a_matter_of_tails():
    """They are orthogonal: the first order of either does not show."""
    z = gaussian()
    for wrong in (np.sqrt(1.1) * z, z + 0.2):
        assert stein_tails(wrong, -wrong).mean == pytest.approx(stein_tails(z, -z).mean, abs=0.05)


def test_one_direction():
    """One coordinate with heavy tails; at 45 degrees the excess is a quarter of its own."""
    z = gaussian()
    z[..., 0] = student(5)[..., 0]
    turned = np.array([[np.sqrt(0.5), np.sqrt(0.5), 0, 0, 0]])
    found = stein_tails(z, -z, np.concatenate([np.eye(5)[:2], turned]))
    assert found.excess[0] > 1
    assert abs(found.excess[1]) < 0.3
    assert abs(found.excess[1]) < found.excess[2] < found.excess[0]
    assert found.mean == pytest.approx(found.excess.mean())


def test_shapes_are_refused_in_words():
    with pytest.raises(ValueError, match=r"the axes chain, draw and coordinate, got shapes \(3, 2\) and \(3, 2\)"):
        stein_tails(np.ones((3, 2)), np.ones((3, 2)))
