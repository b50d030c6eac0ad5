"""digits: 1,797 handwritten digits of 8×8 pixels that come with scikit-learn; no file, no network."""

import numpy as np

from isotherm.lib import arguments
from isotherm.lib.optional import extra
from isotherm.paper.datasets.source import SOURCES, Split

SOURCE = SOURCES["digits"]


def load(test: int = 360, seed: int = 0) -> Split:
    """Load x float32 (N, 64), grey levels 0 … 16 scaled to [0, 1]; y int32 0 … 9.

    The test set is `test` rows drawn by `seed`, by default a fifth of all; the others are the training set.
    """
    with extra("paper", "the data set digits"):
        from sklearn.datasets import load_digits

    bunch = load_digits()
    rows = len(bunch.target)
    if arguments.integer("test", test, 1) >= rows:
        raise ValueError(f"test must be less than {rows}, all there are, got {test}")
    order = np.random.default_rng(seed).permutation(rows)
    x, y = (bunch.data[order] / 16).astype(np.float32), bunch.target[order].astype(np.int32)
    return Split({"x": x[test:], "y": y[test:]}, {"x": x[:test], "y": y[:test]})
