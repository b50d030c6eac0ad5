import numpy as np
import pytest

from isotherm.diagnostics import configurational_temperature

RNG = np.random.default_rng(0)


def test_of_a_gaussian_in_any_units():
    scales, T = np.array([0.1, 1.0, 30.0]), 1.7
    theta = 5 + np.sqrt(T) * scales * RNG.standard_normal((4, 5000, 3))
    # 60,000 squares of normal numbers, each with a variance of 2: ± 0.006 T.
    assert configurational_temperature(theta, -(theta - 5) / scales**2) == pytest.approx(T, abs=4 * 0.006 * T)


def test_noise_of_the_forces_does_not_count():
    theta = RNG.standard_normal((20_000, 3))
    noisy = -theta + 3 * RNG.standard_normal(theta.shape)
    # The products have a variance of 2 + 9: ± √(11/60,000) = 0.014.
    assert configurational_temperature(theta, noisy) == pytest.approx(1.0, abs=0.056)


def test_a_quartic_well():
    """exp(−θ⁴): its virial is 1 exactly, though it is no Gaussian."""
    grid = np.linspace(-3, 3, 20_001)
    theta = RNG.choice(grid, 50_000, p=np.exp(-(grid**4)) / np.exp(-(grid**4)).sum())[:, None]
    # θF = −4θ⁴ has mean −1 and variance 4 (θ⁴ is Gamma(1/4)): ± 0.009.
    assert configurational_temperature(theta, -4 * theta**3) == pytest.approx(1.0, abs=0.036)


def test_shapes_are_refused():
    with pytest.raises(ValueError, match=r"one shape, .* got \(3, 2\) and \(2, 3\)"):
        configurational_temperature(np.zeros((3, 2)), np.zeros((2, 3)))
