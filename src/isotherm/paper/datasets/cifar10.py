"""CIFAR-10: colour photographs of ten kinds of things, 50,000 + 10,000 of 32×32 pixels (Krizhevsky 2009).

The binary version is read. The version for Python is pickled, and a pickle can run any code when it is read.
"""

import numpy as np

from isotherm.lib import arguments
from isotherm.lib.optional import extra
from isotherm.paper.datasets import lookup, verify
from isotherm.paper.datasets.cache import cached
from isotherm.paper.datasets.images import two_classes
from isotherm.paper.datasets.lookup import DataDir
from isotherm.paper.datasets.source import Archive, Arrays, DatasetError, File, Source, Split

CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
ROW = 1 + 3072  # a label byte, then the planes red, green, blue, each row by row
SIZE = 10_000 * ROW

SOURCE = Source(
    name="cifar10",
    title="photographs of ten classes, 50,000 + 10,000 images of 32×32 colour pixels",
    homepage="https://www.cs.toronto.edu/~kriz/cifar.html",
    licence="no formal licence; the author asks to be cited",
    citation="Krizhevsky, Learning multiple layers of features from tiny images, 2009",
    files=tuple(
        File(name, sha256=sha256, size=SIZE)
        for name, sha256 in (
            ("data_batch_1.bin", "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5"),
            ("data_batch_2.bin", "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed"),
            ("data_batch_3.bin", "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67"),
            ("data_batch_4.bin", "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48"),
            ("data_batch_5.bin", "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add"),
            ("test_batch.bin", "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b"),
        )
    ),
    archive=Archive(
        "cifar-10-binary.tar.gz",
        ("https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",),
        "cifar-10-batches-bin",
    ),
)


def load(data_dir: DataDir | None = None) -> Split:
    """All images, x uint8 (N, 3072) in planes red, green, blue, and their classes, y int32 as in `CLASSES`."""
    located = lookup.locate(SOURCE, data_dir)
    return cached(SOURCE, located.values(), "images", lambda: _decode(verify.read(SOURCE, located)))


def pair(first: str, second: str, components: int = 400, data_dir: DataDir | None = None) -> Split:
    """Two classes: x float32 (N, components), y = +1 for `first` and −1 for `second`, float32.

    Pixels/255, on the leading principal axes of the training pair. The mean is subtracted to find the axes but not
    from the coordinates: x = pixels/255 · axes. With centred coordinates the largest stable step size is four times
    the paper's.
    """
    for name, value in (("first", first), ("second", second)):
        arguments.choice(name, value, CLASSES)
    if first == second:
        raise ValueError(f"first and second must be two classes, got {first!r} twice")
    arguments.integer("components", components, 1)

    def project() -> Split:
        with extra("paper", "principal components"):
            from sklearn.decomposition import PCA

        labels = CLASSES.index(first), CLASSES.index(second)
        train, test = (two_classes(data, *labels) for data in load(data_dir))
        rows, features = train["x"].shape
        solver = "covariance_eigh" if rows > features else "full"  # the covariance of few rows is mostly null space
        axes = PCA(components, svd_solver=solver).fit(train["x"]).components_.T
        return Split(*(side | {"x": (side["x"] @ axes).astype(np.float32)} for side in (train, test)))

    located = lookup.locate(SOURCE, data_dir)
    return cached(SOURCE, located.values(), f"pair {first} {second} {components}", project)


def _decode(contents: dict[str, bytes]) -> Split:
    """Rows of a label byte and 3,072 pixel bytes; the last file is the test set."""
    rows = []
    for file in SOURCE.files:
        batch = contents[file.name]
        if len(batch) % ROW:
            raise DatasetError(f"{file.name} is not in CIFAR-10's binary format: {len(batch)} bytes, rows of {ROW}")
        rows.append(np.frombuffer(batch, np.uint8).reshape(-1, ROW))
    parts = np.concatenate(rows[:-1]), rows[-1]
    sides: list[Arrays] = [{"x": np.ascontiguousarray(p[:, 1:]), "y": p[:, 0].astype(np.int32)} for p in parts]
    return Split(*sides)
