"""letter: 16 measurements of printed capital letters, the Statlog cut in LIBSVM's text (Frey & Slate 1991).

`letter.scale.tr` (10,500 rows) and `letter.scale.t` (5,000 rows), features 0 … 15 scaled to [−1, 1] by 2v/15 − 1.
LIBSVM's own files have blanks at line ends; the checksums are of the text without them. They were computed from rows
that agree, apart from order, with UCI's letter-recognition.data and stand in Statlog's order: `.tr` is the first 10,500
of its 15,000 training rows. LIBSVM's own `.tr` was not at hand to compare.
"""

from isotherm.paper.datasets import libsvm
from isotherm.paper.datasets.lookup import DataDir
from isotherm.paper.datasets.source import File, Source, Split

FEATURES, CLASSES = 16, 26

SOURCE = Source(
    name="letter",
    title="capital letters by 16 measurements, 10,500 + 5,000 rows, 26 classes",
    homepage="https://archive.ics.uci.edu/dataset/59/letter+recognition",
    licence="CC BY 4.0",
    citation="Frey & Slate, Letter recognition using Holland-style adaptive classifiers, 1991",
    files=tuple(
        File(name, (libsvm.MULTICLASS + name,), sha256, size)
        for name, size, sha256 in (
            ("letter.scale.tr", 1_830_673, "3f267909259275ddc91363ada2697b9f401f140a6b6d8cf7c233aa4267c844bc"),
            ("letter.scale.t", 872_223, "17b9ab4ced41dba5e171a125c008e5ff51787d6e2d6ea50397c4ae01955c1179"),
        )
    ),
    text=True,
)


def load(data_dir: DataDir | None = None) -> Split:
    """x float32 (N, 16) in [−1, 1], y int32: 0 for A … 25 for Z."""
    return libsvm.load(SOURCE, data_dir, FEATURES, CLASSES)
