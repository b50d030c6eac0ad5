"""digits: 1,797 handwritten digits of 8×8 pixels that come with scikit-learn; no file, no network."""

import numpy as np

from isotherm.lib import arguments
from isotherm.lib.optional import extra
from isotherm.paper.datasets.source import Source, Split

SOURCE = Source(
    name="digits",
    title="handwritten digits 0 to 9, 1,797 images of 8×8 pixels, inside scikit-learn",
    homepage="https://archive.ics.uci.edu/dataset/80/optical+recognition+of+handwritten+digits",
    licence="CC BY 4.0",
    citation="Alpaydin & Kaynak, Optical recognition of handwritten digits, 1998",
)


def load(test: int = 360, seed: int = 0) -> Split:
    """x float32 (N, 64), grey levels 0 … 16 scaled to [0, 1]; y int32 0 … 9.

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
