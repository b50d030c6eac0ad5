"""letter: 16 measurements of printed capital letters, the Statlog cut in LIBSVM's text (Frey & Slate 1991).

`letter.scale.tr` (10,500 rows) and `letter.scale.t` (5,000 rows), features 0 … 15 scaled to [−1, 1] by 2v/15 − 1.
LIBSVM's own files have blanks at line ends; the checksums are of the text without them. They were computed from rows
that agree, apart from order, with UCI's letter-recognition.data and stand in Statlog's order: `.tr` is the first 10,500
of its 15,000 training rows. LIBSVM's own `.tr` was not at hand to compare.
"""

from isotherm.paper.datasets import libsvm
from isotherm.paper.datasets.lookup import DataDir
from isotherm.paper.datasets.source import SOURCES, Split

FEATURES, CLASSES = 16, 26

SOURCE = SOURCES["letter"]


def load(data_dir: DataDir | None = None) -> Split:
    """Load x float32 (N, 16) in [−1, 1], y int32: 0 for A … 25 for Z."""
    return libsvm.load(SOURCE, data_dir, FEATURES, CLASSES)
