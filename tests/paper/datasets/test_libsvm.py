from pathlib import Path

import numpy as np
import pytest

from isotherm.paper.datasets import DatasetError, libsvm


def decode(text):
    return libsvm.decode(Path("folder/rows"), text.encode(), features=50, classes=3)


def test_features_left_out_are_zero_and_labels_start_at_zero():
    rows = decode("1 1:0.5 50:-1 \n3 2:0.25\n")
    expected = np.zeros((2, 50))
    expected[0, 0], expected[0, 49], expected[1, 1] = 0.5, -1, 0.25
    np.testing.assert_array_equal(rows["x"], expected)
    np.testing.assert_array_equal(rows["y"], [0, 2])
    assert (rows["x"].dtype, rows["y"].dtype) == (np.float32, np.int32)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("1 51:0.5\n", "folder/rows is not LIBSVM text with 50 features"),
        ("4 1:0.5\n", r"folder/rows must have the labels 1 to 3, got \[4.0\]"),
        ("1 1:nan\n", "folder/rows holds values that are not finite"),
        ("<html>no such page</html>\n", "folder/rows is not LIBSVM text"),
        ("", "folder/rows holds no rows"),
    ],
)
def test_text_that_is_wrong_is_refused(text, words):
    with pytest.raises(DatasetError, match=words):
        decode(text)
