"""Running moments equal those computed window by window."""

import numpy as np

from isotherm.experiments import running_moments

DRAWS = np.random.default_rng(0).normal(3.0, 1.0, (500, 4)).astype(np.float32)


def test_windows_drop_the_first_fifth_and_end_at_the_end():
    windows = running_moments.windows(500, 0.2, points=10)
    assert windows[-1] == (100, 500)
    assert [window.last for window in windows] == list(range(50, 501, 50))


def test_few_draws_give_few_windows():
    assert running_moments.windows(3, 0.2) == [(0, 2), (0, 3)]
    assert running_moments.windows(1, 0.2) == [(0, 1)]


def test_means():
    windows = running_moments.windows(500, 0.2)
    for window, mean in zip(windows, running_moments.means(DRAWS, windows), strict=True):
        np.testing.assert_allclose(mean, DRAWS[slice(*window)].mean(axis=0, dtype=np.float64), rtol=1e-12)


def test_gaussians():
    windows = running_moments.windows(500, 0.2)
    for window, gaussian in zip(windows, running_moments.gaussians(DRAWS, windows, np.full(4, 2.9)), strict=True):
        part = DRAWS[slice(*window)].astype(np.float64)
        np.testing.assert_allclose(gaussian.mean, part.mean(axis=0), rtol=1e-12)
        np.testing.assert_allclose(gaussian.covariance, np.cov(part.T, bias=True), atol=1e-12)
