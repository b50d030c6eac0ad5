"""acoustic: vehicles told apart by sound, SensIT Vehicle (acoustic) in LIBSVM's text (Duarte & Hu 2004).

LIBSVM's `acoustic_scale` files: 50 features in [−1, 1], three classes. Their checksums are not known, because the full
files were not at hand when this was written. The format, the labels and the published numbers of rows are checked
instead.
"""

from isotherm.paper.datasets import libsvm
from isotherm.paper.datasets.lookup import DataDir
from isotherm.paper.datasets.source import SOURCES, Split

ROWS = (78_823, 19_705)
FEATURES, CLASSES = 50, 3

SOURCE = SOURCES["acoustic"]


def load(data_dir: DataDir | None = None, complete: bool = True) -> Split:
    """Load x float32 (N, 50), y int32 0 … 2. `complete=False` accepts any number of rows: excerpts of the files."""
    return libsvm.load(SOURCE, data_dir, FEATURES, CLASSES, ROWS if complete else None)
