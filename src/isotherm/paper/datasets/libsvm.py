"""LIBSVM text, `label index:value index:value ...`, as the letter and acoustic data sets come in it."""

import io
from pathlib import Path

import numpy as np

from isotherm.lib.optional import extra
from isotherm.paper.datasets import lookup, verify
from isotherm.paper.datasets.cache import cached
from isotherm.paper.datasets.lookup import DataDir
from isotherm.paper.datasets.source import Arrays, DatasetError, Source, Split


def load(
    source: Source, data_dir: DataDir | None, features: int, classes: int, rows: tuple[int, int] | None = None
) -> Split:
    """Load a data set of two files, the training rows and the test rows; `rows` says how many each must have."""

    def make(located: dict[str, Path]) -> Split:
        contents = verify.read(source, located)
        return Split(*(decode(located[name], text, features, classes) for name, text in contents.items()))

    split = cached(source, data_dir, "rows", make)
    for file, part, expected in zip(source.files, split, rows or (None, None), strict=True):
        if expected not in {None, len(part["y"])}:
            path = lookup.find(source, file, data_dir)
            raise DatasetError(
                f"{path} must have {expected:,} rows, got {len(part['y']):,}: it is truncated or another file. "
                f"It is left as it is: move it away and fetch {file.name} again from {source.urls(file)[0]}"
            )
    return split


def decode(path: Path, text: bytes, features: int, classes: int) -> Arrays:
    """Decode x float32 (N, features) and y int32, labels 1 … classes becoming 0 … classes − 1."""
    with extra("paper", f"reading {path.name}"):
        from sklearn.datasets import load_svmlight_file

    try:
        x, y = load_svmlight_file(io.BytesIO(text), n_features=features, zero_based=False)
    except (ValueError, IndexError) as fault:
        raise DatasetError(f"{path} is not LIBSVM text with {features} features: {fault}") from None
    if not len(y):
        raise DatasetError(f"{path} holds no rows")
    labels = np.unique(y)
    if not np.isin(labels, np.arange(1, classes + 1)).all():
        raise DatasetError(f"{path} must have the labels 1 to {classes}, got {labels[:30].tolist()}")
    if not np.isfinite(x.data).all():
        raise DatasetError(f"{path} holds values that are not finite")
    return {"x": x.toarray().astype(np.float32), "y": y.astype(np.int32) - 1}
