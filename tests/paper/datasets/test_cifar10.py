import lzma

import numpy as np
import pytest

from isotherm.paper.datasets import DatasetError, cifar10, lookup, verify


@pytest.fixture
def tiny(tmp_path, monkeypatch, with_contents):
    """30 rows a file in CIFAR-10's binary format; the folder and the rows."""
    rng = np.random.default_rng(0)
    rows = [rng.integers(0, 256, size=(30, 3073)).astype(np.uint8) for _ in range(6)]
    for batch in rows:
        batch[:, 0] = np.arange(30) % 10
    contents = [batch.tobytes() for batch in rows]
    monkeypatch.setattr(cifar10, "SOURCE", with_contents(cifar10.SOURCE, contents))
    (tmp_path / "cifar10").mkdir()
    for file, content in zip(cifar10.SOURCE.files, contents, strict=True):
        (tmp_path / "cifar10" / f"{file.name}.xz").write_bytes(lzma.compress(content))
    return tmp_path, np.concatenate(rows[:-1]), rows[-1]


def test_images_and_labels(tiny):
    folder, *expected = tiny
    for part, rows in zip(cifar10.load(folder), expected, strict=True):
        np.testing.assert_array_equal(part["x"], rows[:, 1:])
        np.testing.assert_array_equal(part["y"], rows[:, 0])
        assert part["x"].dtype == np.uint8
        assert part["y"].dtype == np.int32


def test_pair_keeps_the_mean(tiny):
    """Axes of the centred training pair, coordinates of the uncentred pixels."""
    folder, train, test = tiny
    split = cifar10.pair("deer", "horse", components=4, data_dir=folder)
    kept = [rows[np.isin(rows[:, 0], (4, 7))] for rows in (train, test)]
    pixels = [rows[:, 1:] / 255 for rows in kept]
    _, _, axes = np.linalg.svd(pixels[0] - pixels[0].mean(axis=0), full_matrices=False)
    for part, x, rows in zip(split, pixels, kept, strict=True):
        np.testing.assert_allclose(np.abs(part["x"]), np.abs(x @ axes[:4].T), rtol=1e-4, atol=1e-4)
        np.testing.assert_array_equal(part["y"], np.where(rows[:, 0] == 4, 1, -1))
        assert part["x"].dtype == part["y"].dtype == np.float32


def test_refuses_bad_arguments():
    with pytest.raises(ValueError, match=r"second .*got 'zebra'"):
        cifar10.pair("cat", "zebra")
    with pytest.raises(ValueError, match="must be two classes, got 'cat' twice"):
        cifar10.pair("cat", "cat")


def test_rows_that_do_not_fit_are_refused(tmp_path, monkeypatch, with_contents):
    monkeypatch.setattr(cifar10, "SOURCE", with_contents(cifar10.SOURCE, [b"x" * 100] * 6))
    for file in cifar10.SOURCE.files:
        (tmp_path / file.name).write_bytes(b"x" * 100)
    with pytest.raises(
        DatasetError, match=r"data_batch_1\.bin is not in CIFAR-10's binary format: 100 bytes, rows of 3073"
    ):
        cifar10.load(tmp_path)


def test_real_test_batch(real_data):
    located = {"test_batch.bin": lookup.find(cifar10.SOURCE, cifar10.SOURCE.files[-1], real_data)}
    rows = np.frombuffer(verify.read(cifar10.SOURCE, located)["test_batch.bin"], np.uint8).reshape(-1, 3073)
    np.testing.assert_array_equal(np.bincount(rows[:, 0]), [1000] * 10)
    assert cifar10.CLASSES[rows[0, 0]] == "cat"


@pytest.mark.long
def test_real_pair_is_on_the_papers_scale(real_data):
    """Half a minute: 184 MB of xz and the 3072×3072 eigenproblem."""
    images = cifar10.load(real_data).train["x"].reshape(-1, 3, 1024)
    np.testing.assert_allclose(images.mean(axis=(0, 2)) / 255, [0.4914, 0.4822, 0.4465], atol=1e-4)
    train, test = cifar10.pair("airplane", "automobile", data_dir=real_data)
    assert train["x"].shape == (10_000, 400)
    assert test["x"].shape == (2_000, 400)
    # at the mode of the posterior 2/√λ_max(Hessian) is 2.0e-3; the paper's largest step is 1.5e-3
    x, y, theta = train["x"].astype(np.float64), train["y"], np.zeros(400)
    for _ in range(12):
        s = 1 / (1 + np.exp(y * (x @ theta)))
        hessian = (x * (s * (1 - s))[:, None]).T @ x + np.eye(400) / 10
        theta += np.linalg.solve(hessian, x.T @ (s * y) - theta / 10)
    assert 2 / np.sqrt(np.linalg.eigvalsh(hessian)[-1]) == pytest.approx(2.0e-3, rel=0.01)
