"""CIFAR-10: colour photographs of ten kinds of things, 50,000 + 10,000 of 32×32 pixels (Krizhevsky 2009).

The binary version is read. The version for Python is pickled, and a pickle can run any code when it is read.
"""

from pathlib import Path

import numpy as np

from isotherm.lib import arguments
from isotherm.lib.optional import extra
from isotherm.paper.datasets import verify
from isotherm.paper.datasets.cache import cached
from isotherm.paper.datasets.lookup import DataDir
from isotherm.paper.datasets.source import SOURCES, Arrays, DatasetError, Split, two_classes

CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
ROW = 1 + 3072  # a label byte, then the planes red, green, blue, each row by row

SOURCE = SOURCES["cifar10"]


def load(data_dir: DataDir | None = None) -> Split:
    """Load all images, x uint8 (N, 3072) in planes red, green, blue, and their classes, y int32 as in `CLASSES`."""
    return cached(SOURCE, data_dir, "images", _decode)


def pair(first: str, second: str, components: int = 400, data_dir: DataDir | None = None) -> Split:
    """Load two classes: x float32 (N, components), y = +1 for `first` and −1 for `second`, float32.

    Pixels/255, on the leading principal axes of the training pair. The mean is subtracted to find the axes but not
    from the coordinates: x = pixels/255 · axes. With centred coordinates the largest stable step size is four times
    the paper's.
    """
    for name, value in (("first", first), ("second", second)):
        arguments.choice(name, value, CLASSES)
    if first == second:
        raise ValueError(f"first and second must be two classes, got {first!r} twice")
    arguments.integer("components", components, 1)

    def project(_: object) -> Split:
        with extra("paper", "principal components"):
            from sklearn.decomposition import PCA

        labels = CLASSES.index(first), CLASSES.index(second)
        train, test = (two_classes(data, *labels) for data in load(data_dir))
        rows, features = train["x"].shape
        solver = "covariance_eigh" if rows > features else "full"  # the covariance of few rows is mostly null space
        axes = PCA(components, svd_solver=solver).fit(train["x"]).components_.T
        return Split(*(side | {"x": (side["x"] @ axes).astype(np.float32)} for side in (train, test)))

    return cached(SOURCE, data_dir, f"pair {first} {second} {components}", project)


def _decode(located: dict[str, Path]) -> Split:
    """Read rows of a label byte and 3,072 pixel bytes; the last file is the test set."""
    rows = []
    for name, batch in verify.read(SOURCE, located).items():
        if len(batch) % ROW:
            raise DatasetError(f"{name} is not in CIFAR-10's binary format: {len(batch)} bytes, rows of {ROW}")
        rows.append(np.frombuffer(batch, np.uint8).reshape(-1, ROW))
    parts = np.concatenate(rows[:-1]), rows[-1]
    sides: list[Arrays] = [{"x": np.ascontiguousarray(p[:, 1:]), "y": p[:, 0].astype(np.int32)} for p in parts]
    return Split(*sides)
