import numpy as np
import pytest
from sklearn.datasets import load_digits

from isotherm.paper.datasets import digits


def test_every_image_is_on_one_side():
    train, test = digits.load()
    assert train["x"].shape == (1_437, 64)
    assert test["x"].shape == (360, 64)
    assert train["x"].dtype == np.float32
    assert train["y"].dtype == np.int32
    together = np.column_stack([np.concatenate([train["x"], test["x"]]) * 16, np.concatenate([train["y"], test["y"]])])
    bunch = load_digits()
    expected = np.column_stack([bunch.data, bunch.target])
    np.testing.assert_array_equal(together[np.lexsort(together.T)], expected[np.lexsort(expected.T)])
    assert np.bincount(test["y"], minlength=10).min() > 20


def test_seed_decides_the_cut():
    np.testing.assert_array_equal(digits.load(seed=1).test["x"], digits.load(seed=1).test["x"])
    assert (digits.load(seed=1).test["y"] != digits.load(seed=2).test["y"]).any()
    with pytest.raises(ValueError, match="test must be less than 1797, all there are, got 1797"):
        digits.load(test=1797)
