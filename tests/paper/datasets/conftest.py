"""Data set tests: a cache of their own, no network but this machine, and tiny files in the real formats."""

import dataclasses
import hashlib
import struct

import numpy as np
import pytest

from isotherm.paper.datasets import lookup


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """An empty user's cache, no $ISOTHERM_DATA, no network."""
    folder = tmp_path / "cache"
    monkeypatch.setattr(lookup, "user_cache", lambda: folder)
    monkeypatch.delenv(lookup.VARIABLE, raising=False)
    fetch = lookup._fetch

    def local_only(url, path):
        if not url.startswith("http://127.0.0.1:"):
            raise ConnectionError
        fetch(url, path)

    monkeypatch.setattr(lookup, "_fetch", local_only)
    return folder


@pytest.fixture
def with_contents():
    """A source whose files are to have these contents, in the order of its files."""

    def build(source, contents):
        sized = [
            dataclasses.replace(file, sha256=hashlib.sha256(content).hexdigest(), size=len(content))
            for file, content in zip(source.files, contents, strict=True)
        ]
        return dataclasses.replace(source, files=tuple(sized))

    return build


@pytest.fixture
def idx():
    """Bytes in MNIST's format."""

    def encode(array):
        array = np.asarray(array, np.uint8)
        return bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}i", *array.shape) + array.tobytes()

    return encode


@pytest.fixture
def libsvm_text():
    """Lines of `label index:value`, zeros left out, a blank at each end of line as svm-scale writes it."""

    def encode(x, y):
        rows = (
            f"{label} " + "".join(f"{j + 1}:{value:g} " for j, value in enumerate(row) if value)
            for row, label in zip(x, y, strict=True)
        )
        return "".join(row + "\n" for row in rows).encode()

    return encode
