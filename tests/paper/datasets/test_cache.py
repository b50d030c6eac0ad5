import numpy as np
import pytest

from isotherm.paper.datasets.cache import cached
from isotherm.paper.datasets.source import File, Source, Split

SOURCE = Source("toy", "", "", "", "", (File("stored"),))


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "stored"
    path.write_bytes(b"stored bytes")
    return path


class Maker:
    """Makes the same arrays each time and counts."""

    def __init__(self):
        self.calls = 0
        rng = np.random.default_rng(0)
        self.x, self.y = rng.normal(size=(7, 3)).astype(np.float32), np.arange(7, dtype=np.int32)

    def __call__(self, located):
        self.calls += 1
        return Split({"x": self.x, "y": self.y}, {"x": self.x[:2], "y": self.y[:2]})


def same(a, b):
    for part in ("train", "test"):
        for key in ("x", "y"):
            left, right = getattr(a, part)[key], getattr(b, part)[key]
            np.testing.assert_array_equal(left, right)
            assert left.dtype == right.dtype
    return True


def test_made_once(path, cache):
    make = Maker()
    first = cached(SOURCE, path.parent, "label", make)
    second = cached(SOURCE, path.parent, "label", make)
    assert make.calls == 1
    assert same(first, second)
    assert [entry.suffix for entry in (cache / "arrays").iterdir()] == [".npz"]


def test_other_bytes_or_another_label_are_another_entry(path):
    make = Maker()
    cached(SOURCE, path.parent, "label", make)
    cached(SOURCE, path.parent, "other label", make)
    path.write_bytes(b"other bytes")
    cached(SOURCE, path.parent, "label", make)
    assert make.calls == 3


@pytest.mark.parametrize("damage", ["truncated", "bit", "empty", "pickle", "keys"])
def test_a_damaged_entry_is_made_again(path, cache, damage):
    make = Maker()
    first = cached(SOURCE, path.parent, "label", make)
    (entry,) = (cache / "arrays").iterdir()
    content = bytearray(entry.read_bytes())
    if damage == "truncated":
        entry.write_bytes(content[: len(content) // 2])
    elif damage == "bit":
        content[content.index(make.x.tobytes()) + 5] ^= 1
        entry.write_bytes(content)
    elif damage == "empty":
        entry.write_bytes(b"")
    elif damage == "pickle":
        with entry.open("wb") as stream:
            np.save(stream, np.array([{}], object), allow_pickle=True)
    else:
        np.savez(entry, train_x=make.x)
    assert same(cached(SOURCE, path.parent, "label", make), first)
    assert make.calls == 2
    cached(SOURCE, path.parent, "label", make)
    assert make.calls == 2


def test_a_cache_that_cannot_be_written_is_done_without(path, cache):
    cache.write_text("a file where the folder should be")
    make = Maker()
    assert same(cached(SOURCE, path.parent, "label", make), make({}))


def test_a_write_that_fails_leaves_nothing(path, cache, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez", full)
    make = Maker()
    assert same(cached(SOURCE, path.parent, "label", make), make({}))
    assert list((cache / "arrays").iterdir()) == []
