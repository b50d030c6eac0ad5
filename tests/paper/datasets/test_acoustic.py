import bz2
import gzip

import numpy as np
import pytest

from isotherm.paper.datasets import DatasetError, acoustic


@pytest.fixture
def excerpt(tmp_path, libsvm_text):
    """20 + 10 rows in the form of LIBSVM's files."""
    rng = np.random.default_rng(0)
    rows = [(rng.uniform(-1, 1, size=(n, 50)).round(4), np.arange(n) % 3 + 1) for n in (20, 10)]
    (tmp_path / "acoustic").mkdir()
    (tmp_path / "acoustic" / "acoustic_scale.bz2").write_bytes(bz2.compress(libsvm_text(*rows[0])))
    (tmp_path / "acoustic" / "acoustic_scale.t").write_bytes(libsvm_text(*rows[1]))
    return tmp_path, rows


def test_excerpt(excerpt):
    folder, rows = excerpt
    for part, (x, y) in zip(acoustic.load(folder, complete=False), rows, strict=True):
        np.testing.assert_allclose(part["x"], x, atol=1e-6)
        np.testing.assert_array_equal(part["y"], y - 1)
        assert part["x"].dtype == np.float32
        assert part["y"].dtype == np.int32


def test_too_few_rows_are_refused(excerpt):
    with pytest.raises(
        DatasetError, match=r"acoustic_scale\.bz2 must have 78,823 rows, got 20: it is truncated or another"
    ):
        acoustic.load(excerpt[0])


def test_a_cut_off_wrapper_is_refused(excerpt):
    path = excerpt[0] / "acoustic" / "acoustic_scale.bz2"
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(DatasetError, match=r"acoustic_scale\.bz2 is not acoustic_scale: it is truncated"):
        acoustic.load(excerpt[0], complete=False)


def test_missing_files_say_where_to_get_them(tmp_path):
    with pytest.raises(DatasetError, match=r"multiclass/vehicle/acoustic_scale\.bz2 .* into .*acoustic, or"):
        acoustic.load(tmp_path)


def test_real_rows(real_data, tmp_path):
    with gzip.open(real_data / "acoustic" / "acoustic.sample300.gz", "rb") as stream:
        lines = stream.readlines()
    (tmp_path / "acoustic_scale.bz2").write_bytes(bz2.compress(b"".join(lines[::2])))
    (tmp_path / "acoustic_scale.t.bz2").write_bytes(bz2.compress(b"".join(lines[1::2])))
    train, test = acoustic.load(tmp_path, complete=False)
    assert np.bincount(train["y"]).tolist() == np.bincount(test["y"]).tolist() == [50, 50, 50]
    first = [float(pair.split(b":")[1]) for pair in lines[0].split()[1:]]
    np.testing.assert_allclose(train["x"][0], first, rtol=1e-6)
