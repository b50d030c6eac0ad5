import gzip

import numpy as np
import pytest

from isotherm.paper.datasets import DatasetError, letter


def test_tiny_files(tmp_path, monkeypatch, with_contents, libsvm_text):
    rng = np.random.default_rng(0)
    codes = [rng.integers(0, 16, size=(n, 16)) for n in (30, 10)]
    labels = [rng.integers(1, 27, size=n) for n in (30, 10)]
    texts = [libsvm_text(2 * x / 15 - 1, y) for x, y in zip(codes, labels, strict=True)]
    bare = [b"".join(line.rstrip() + b"\n" for line in text.splitlines()) for text in texts]
    monkeypatch.setattr(letter, "SOURCE", with_contents(letter.SOURCE, bare))
    (tmp_path / "letter.scale.tr").write_bytes(texts[0])  # blanks at line ends, as LIBSVM's own files have
    (tmp_path / "letter.scale.t.gz").write_bytes(gzip.compress(bare[1]))
    for part, x, y in zip(letter.load(tmp_path), codes, labels, strict=True):
        np.testing.assert_allclose(part["x"], 2 * x / 15 - 1, atol=1e-6)
        np.testing.assert_array_equal(part["y"], y - 1)
        assert part["x"].dtype == np.float32
        assert part["y"].dtype == np.int32


def test_wrong_text_is_refused(tmp_path):
    for name in ("letter.scale.tr", "letter.scale.t"):
        (tmp_path / name).write_text("1 1:0.5\n")
    with pytest.raises(
        DatasetError, match=r"letter\.scale\.tr is not letter\.scale\.tr: it is truncated or another file"
    ):
        letter.load(tmp_path)


def test_real_rows_are_ucis(real_data):
    """Back to whole numbers, every row is a row of UCI's letter-recognition.data."""
    split = letter.load(real_data)
    assert [part["x"].shape for part in split] == [(10_500, 16), (5_000, 16)]
    assert np.unique(split.train["y"]).tolist() == list(range(26))
    with gzip.open(real_data / "letter" / "letter-recognition.data.gz", "rt") as lines:
        known = {line.strip() for line in lines}
    for part in split:
        codes = (part["x"] + 1) * 7.5
        np.testing.assert_allclose(codes, codes.round(), atol=1e-4)
        rows = zip(part["y"], codes.round().astype(int), strict=True)
        assert all(",".join([chr(65 + y), *map(str, x)]) in known for y, x in rows)
