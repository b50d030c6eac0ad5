import numpy as np

from isotherm.paper.datasets.source import two_classes


def test_keeps_two_labels_in_order():
    data = {"x": np.uint8([[0], [51], [102], [255]]), "y": np.int32([7, 3, 9, 7])}
    kept = two_classes(data, positive=9, negative=7)
    np.testing.assert_allclose(kept["x"], [[0], [0.4], [1]])
    np.testing.assert_array_equal(kept["y"], [-1, 1, -1])
    assert (kept["x"].dtype, kept["y"].dtype) == (np.float64, np.float32)
