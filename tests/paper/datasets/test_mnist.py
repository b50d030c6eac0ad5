import gzip
import hashlib

import numpy as np
import pytest

from isotherm.paper.datasets import DatasetError, lookup, mnist, verify


@pytest.fixture
def tiny(tmp_path, monkeypatch, with_contents, idx):
    """40 + 20 random images in MNIST's format; the folder, the images and the digits."""
    rng = np.random.default_rng(0)
    images = [rng.integers(0, 256, size=(n, 28, 28)) for n in (40, 20)]
    labels = [np.arange(n) % 10 for n in (40, 20)]
    contents = [idx(images[0]), idx(labels[0]), idx(images[1]), idx(labels[1])]
    monkeypatch.setattr(mnist, "SOURCE", with_contents(mnist.SOURCE, contents))
    for file, content in zip(mnist.SOURCE.files, contents, strict=True):
        (tmp_path / f"{file.name}.gz").write_bytes(gzip.compress(content))
    return tmp_path, images, labels


def test_images_and_labels(tiny):
    folder, images, labels = tiny
    for part, x, y in zip(mnist.load(folder), images, labels, strict=True):
        np.testing.assert_array_equal(part["x"], x.reshape(len(x), 784))
        np.testing.assert_array_equal(part["y"], y)
        assert part["x"].dtype == np.uint8
        assert part["y"].dtype == np.int32


def test_second_load_decodes_nothing(tiny, monkeypatch):
    folder, _, _ = tiny
    first = mnist.load(folder)
    monkeypatch.setattr(verify, "read", None)
    np.testing.assert_array_equal(mnist.load(folder).train["x"], first.train["x"])


def test_a_file_damaged_after_the_first_load_is_refused(tiny):
    folder, _, _ = tiny
    mnist.load(folder)
    path = folder / "train-labels-idx1-ubyte.gz"
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(
        DatasetError, match=r"train-labels-idx1-ubyte\.gz is not train-labels-idx1-ubyte: it is truncated"
    ):
        mnist.load(folder)


def test_pair_by_hand(tiny):
    folder, images, labels = tiny
    split = mnist.pair(3, 5, projection=6, seed=2, data_dir=folder)
    matrix = np.random.default_rng(2).standard_normal((784, 6))
    for part, x, y in zip(split, images, labels, strict=True):
        keep = (y == 3) | (y == 5)
        np.testing.assert_allclose(part["x"], x[keep].reshape(-1, 784) / 255 @ matrix, rtol=1e-6, atol=1e-5)
        np.testing.assert_array_equal(part["y"], np.where(y[keep] == 3, 1, -1))
        assert part["x"].dtype == part["y"].dtype == np.float32
    pixels = mnist.pair(3, 5, projection=None, data_dir=folder).train["x"]
    assert pixels.shape == (8, 784)
    assert pixels.min() >= 0
    assert pixels.max() <= 1


def test_principal_components_are_standardised_by_the_training_set(tiny):
    folder, images, _ = tiny
    train, test = mnist.principal_components(5, data_dir=folder)
    np.testing.assert_allclose(train["x"].mean(axis=0), 0, atol=1e-6)
    np.testing.assert_allclose(np.cov(train["x"].T), np.eye(5), atol=1e-5)
    # the test rows by hand: centred with the training mean, on the training axes, up to the axes' signs
    pixels = [x.reshape(-1, 784) / 255 for x in images]
    mean = pixels[0].mean(axis=0)
    _, s, axes = np.linalg.svd(pixels[0] - mean, full_matrices=False)
    expected = (pixels[1] - mean) @ axes[:5].T / s[:5] * np.sqrt(39)
    np.testing.assert_allclose(np.abs(test["x"]), np.abs(expected), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((7, 12), "second must be a digit from 0 to 9, got 12"),
        ((7, 7), "must be two digits, got 7 twice"),
        ((7, 9, 0), "projection .*got 0"),
    ],
)
def test_refuses_bad_arguments(arguments, words):
    with pytest.raises(ValueError, match=words):
        mnist.pair(*arguments)


def test_real_files_are_the_published_ones(real_data):
    """The MD5s of the uncompressed files, as several other projects list them, secml for one."""
    published = {
        "train-images-idx3-ubyte": "6bbc9ace898e44ae57da46a324031adb",
        "train-labels-idx1-ubyte": "a25bea736e30d166cdddb491f175f624",
        "t10k-images-idx3-ubyte": "2646ac647ad5339dbf082846283269ea",
        "t10k-labels-idx1-ubyte": "27ae3e4e09519cfbb04c329615203637",
    }
    contents = verify.read(mnist.SOURCE, lookup.locate(mnist.SOURCE, real_data))
    md5 = {name: hashlib.md5(read, usedforsecurity=False).hexdigest() for name, read in contents.items()}
    assert md5 == published


def test_real_pair_is_on_the_papers_scale(real_data):
    train, test = mnist.pair(7, 9, data_dir=real_data)
    assert train["x"].shape == (12_214, 100)
    assert test["x"].shape == (2_037, 100)
    assert (train["y"] > 0).sum() == 6_265
    # at the mode of the posterior 2/√λ_max(Hessian) is 1.34e-3; the paper's largest step is 1.2e-3
    x, y, theta = train["x"].astype(np.float64), train["y"], np.zeros(100)
    for _ in range(12):
        s = 1 / (1 + np.exp(y * (x @ theta)))
        hessian = (x * (s * (1 - s))[:, None]).T @ x + np.eye(100) / 10
        theta += np.linalg.solve(hessian, x.T @ (s * y) - theta / 10)
    assert 2 / np.sqrt(np.linalg.eigvalsh(hessian)[-1]) == pytest.approx(1.34e-3, rel=0.01)
    assert np.logaddexp(0, -test["y"] * (test["x"] @ theta)).mean() == pytest.approx(0.1484, abs=5e-4)


def test_real_images_have_the_known_moments(real_data):
    train, _ = mnist.load(real_data)
    assert train["x"].mean() / 255 == pytest.approx(0.1307, abs=5e-5)
    assert train["x"].std() / 255 == pytest.approx(0.3081, abs=5e-5)
    np.testing.assert_array_equal(train["y"][:10], [5, 0, 4, 1, 9, 2, 1, 3, 1, 4])
