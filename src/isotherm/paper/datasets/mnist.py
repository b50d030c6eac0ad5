"""MNIST: handwritten digits, 60,000 + 10,000 images of 28×28 grey pixels (LeCun, Cortes & Burges)."""

import math
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from isotherm.lib import arguments
from isotherm.lib.optional import extra
from isotherm.paper.datasets import verify
from isotherm.paper.datasets.cache import cached
from isotherm.paper.datasets.lookup import DataDir
from isotherm.paper.datasets.source import SOURCES, DatasetError, Split, two_classes

SOURCE = SOURCES["mnist"]


def load(data_dir: DataDir | None = None) -> Split:
    """Load all images, x uint8 (N, 784) row by row, and their digits, y int32 (N,)."""
    return cached(SOURCE, data_dir, "images", _decode)


def pair(
    first: int, second: int, projection: int | None = 100, seed: int = 0, data_dir: DataDir | None = None
) -> Split:
    """Load two digits: x float32 (N, projection), y = +1 for `first` and −1 for `second`, float32.

    Pixels/255 times a 784×projection matrix of standard normal entries, not divided by √projection: no centring, no
    intercept. The paper's step sizes are for this scale. `projection=None` keeps the pixels.
    """
    for name, digit in (("first", first), ("second", second)):
        if digit not in range(10):
            raise ValueError(f"{name} must be a digit from 0 to 9, got {digit!r}")
    if first == second:
        raise ValueError(f"first and second must be two digits, got {first} twice")
    columns = None if projection is None else arguments.integer("projection", projection, 1)
    parts = [two_classes(data, first, second) for data in load(data_dir)]
    if columns is not None:
        matrix = np.random.default_rng(seed).standard_normal((784, columns))
        parts = [part | {"x": part["x"] @ matrix} for part in parts]
    return Split(*(part | {"x": part["x"].astype(np.float32)} for part in parts))


def principal_components(components: int = 50, data_dir: DataDir | None = None) -> Split:
    """Load all ten digits: x float32 (N, components), y int32 0 … 9.

    Pixels/255, centred at the training mean, on the training set's leading principal axes, each coordinate divided by
    its training standard deviation: over the training set every feature has mean 0 and variance 1.
    """
    arguments.integer("components", components, 1)

    def project(_: object) -> Split:
        with extra("paper", "principal components"):
            from sklearn.decomposition import PCA

        train, test = load(data_dir)
        pca = PCA(components, whiten=True, svd_solver="covariance_eigh").fit(train["x"] / 255.0)
        return Split(*(side | {"x": pca.transform(side["x"] / 255.0).astype(np.float32)} for side in (train, test)))

    return cached(SOURCE, data_dir, f"principal components {components}", project)


def _decode(located: dict[str, Path]) -> Split:
    contents = verify.read(SOURCE, located)
    train_x, train_y, test_x, test_y = (_idx(file.name, contents[file.name]) for file in SOURCE.files)
    return Split({"x": train_x, "y": train_y.astype(np.int32)}, {"x": test_x, "y": test_y.astype(np.int32)})


def _idx(name: str, content: bytes) -> NDArray[np.uint8]:
    """Read the idx format: 0, 0, type (8: bytes), number of axes, their lengths as big-endian int32, then the bytes."""
    axes = content[3] if len(content) > 4 else 0
    shape = tuple(int(n) for n in np.frombuffer(content[4 : 4 + 4 * axes], ">i4"))
    if content[:3] != b"\x00\x00\x08" or len(content) != 4 + 4 * axes + math.prod(shape):
        raise DatasetError(f"{name} is not in idx format: header {content[:4]!r}, {len(content)} bytes")
    values = np.frombuffer(content, np.uint8, offset=4 + 4 * axes)
    return values.reshape(shape[0], -1) if axes > 1 else values
