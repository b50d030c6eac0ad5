import numpy as np
import pytest

from isotherm.diagnostics import stein_bias

RNG = np.random.default_rng(0)
CHAINS, DRAWS, D = 16, 32, 50


def found(shift=0.0, width=1.0, noise=0.0, draws=DRAWS):
    """Of draws of N(shift, width²), where N(0, 1) is right."""
    z = shift + width * RNG.standard_normal((CHAINS, draws, D))
    return stein_bias(z, -z + noise * RNG.standard_normal(z.shape))


@pytest.mark.parametrize("noise", [0.0, 0.7])
def test_right_draws(noise):
    bias = found(noise=noise)
    assert abs(bias.square) < 4 * bias.square_error
    assert bias.trace == pytest.approx(1, abs=4 * bias.trace_error)
    assert bias.memory == pytest.approx(1 / DRAWS, rel=0.2)  # 50 variances of 16 means, each to 36 %


def test_a_shift_and_a_width():
    bias = found(shift=0.2, width=1.1)
    assert bias.distance == pytest.approx(0.2, abs=0.02)  # D² to 2·0.2·√(1.2/(512·50)) + ...
    assert bias.trace == pytest.approx(1.21, abs=4 * bias.trace_error)


def test_chance_alone_adds_nothing_on_average():
    """Few draws, so that the mean is off by chance as far as a bias would be; the estimate is right all the same."""
    many = [found(draws=1) for _ in range(200)]
    squares = np.array([bias.square for bias in many])
    assert abs(squares.mean()) < 4 * squares.std() / np.sqrt(200)
    traces = np.array([bias.trace for bias in many])
    assert abs(traces.mean() - 1) < 4 * traces.std() / np.sqrt(200)
    assert np.mean([bias.trace_error for bias in many]) == pytest.approx(traces.std(), rel=0.2)  # 200 tell it to 5 %


def test_chains_that_do_not_move_are_told():
    z = np.repeat(RNG.standard_normal((CHAINS, 1, D)), DRAWS, axis=1)
    assert stein_bias(z, -z).memory > 0.9


def test_shapes_are_refused():
    with pytest.raises(ValueError, match="3 chains or more"):
        stein_bias(np.zeros((2, 3, 4)), np.zeros((2, 3, 4)))
