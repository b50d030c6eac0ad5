"""What an anchored run knows is written once, read as it was, and nothing else is taken for it."""

import shutil
from dataclasses import replace

import jax
import numpy as np
import pytest

import isotherm
from isotherm.data.batches import make_table
from isotherm.run.assemble import RunSettings, assemble
from isotherm.store import anchor, checkpoint
from isotherm.targets.parameters import flattening
from isotherm.targets.target import Anchored, Target, as_target

SETTINGS = {"batch_size": None, "replace": True, "chains": 2, "seed": 0, "name": None}


@pytest.fixture(scope="module")
def anchored(posterior, data, init):
    return isotherm.anchor(posterior, data, init, progress=False)


@pytest.fixture
def written(tmp_path, anchored, data):
    """The file of an anchored run, and its SHA-256."""
    sha256 = anchor.write(
        tmp_path, assemble(anchored, isotherm.eccadl(), data, None, RunSettings(**SETTINGS)).evaluation
    )
    return tmp_path, sha256


def read(written, posterior, init, parameters=3):
    return anchor.read(*written, replace(as_target(posterior), unravel=flattening(init)[1]), parameters)


def assert_same_arrays(a, b):
    for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        assert np.asarray(x).tobytes() == np.asarray(y).tobytes()


def test_read_as_it_was_written(written, anchored, posterior, init):
    """Of the user's plain posterior, the anchored one is made again, bit for bit."""
    found, table = read(written, posterior, init)
    assert isinstance(found, Anchored)
    assert found.order == anchored.order
    for name in ("coordinates", "gradient", "hessian", "rows"):
        assert_same_arrays(getattr(found, name), getattr(anchored, name))
    np.testing.assert_array_equal(list(map(float, found.findings)), list(map(float, anchored.findings)))
    assert_same_arrays(table, anchored.rows)
    assert found.chosen_batch_size == anchored.chosen_batch_size
    params = found.unravel(found.coordinates.origin)
    assert jax.tree.structure(params) == jax.tree.structure(init)


def test_an_anchored_posterior_is_made_plain_first(written, anchored, init):
    """What it knew is not used: what is stored is."""
    found, _ = read(written, anchored, init)
    assert (found.log_likelihood, found.log_prior) == (anchored.log_likelihood, anchored.log_prior)
    plain, table = anchor.read(written[0], "", anchored, 3)
    assert type(plain) is Target
    assert table is None


def test_probabilities_alone(tmp_path, posterior, data, init):
    p = np.arange(1.0, 41)
    run = assemble(
        posterior, isotherm.eccadl(), data, init, RunSettings(**(SETTINGS | {"batch_size": 8}), probabilities=p)
    )
    sha256 = anchor.write(tmp_path, run.evaluation)
    found, table = read((tmp_path, sha256), posterior, init)
    assert type(found) is Target
    assert_same_arrays(table, make_table(p))


def test_nothing_is_written_where_nothing_is_known(tmp_path, posterior, data, init):
    run = assemble(posterior, isotherm.eccadl(), data, init, RunSettings(**(SETTINGS | {"batch_size": 8})))
    assert anchor.write(tmp_path, run.evaluation) == ""
    assert list(tmp_path.iterdir()) == []


def test_damaged_or_missing(written, posterior, init):
    path = written[0] / "constants"
    content = bytearray(path.read_bytes())
    for place in (len(content) // 2, len(content) - 1, 300):
        path.write_bytes(content[:place] + bytes([content[place] ^ 4]) + content[place + 1 :])
        with pytest.raises(
            isotherm.StoreError, match="constants is damaged or not a checkpoint: its checksum is wrong"
        ):
            read(written, posterior, init)
    path.write_bytes(content[:100])
    with pytest.raises(isotherm.StoreError, match="constants is damaged or not a checkpoint: it is cut short"):
        read(written, posterior, init)
    path.unlink()
    with pytest.raises(isotherm.StoreError, match="constants is missing"):
        read(written, posterior, init)


def test_those_of_another_run(written, posterior, data, init, tmp_path_factory):
    """Whole, but not the ones that the run was begun with."""
    other = isotherm.anchor(posterior, data, init, seed=9, progress=False)
    folder = tmp_path_factory.mktemp("other")
    anchor.write(folder, assemble(other, isotherm.eccadl(), data, None, RunSettings(**SETTINGS)).evaluation)
    shutil.copy(folder / "constants", written[0] / "constants")
    with pytest.raises(isotherm.StoreError, match="it is not the file that the run was begun with"):
        read(written, posterior, init)


def without(name):
    return lambda header, arrays: arrays.pop(name)


def put(name, make):
    return lambda header, arrays: arrays.update({name: make(arrays.get(name))})


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (without("rows.aliases"), "its arrays do not have the shapes"),
        (without("gradient"), "its arrays do not have the shapes"),
        (put("gradient", lambda g: np.append(g, g[:1])), "its arrays do not have the shapes"),
        (put("coordinates.factor", lambda L: L[:2]), "its arrays do not have the shapes"),
        (put("rows.weights", lambda w: w[1:]), "its arrays do not have the shapes"),
        (put("rows.aliases", lambda a: a.astype(np.int64)), "its arrays do not have the shapes"),
        (put("more", lambda _: np.zeros(2)), "its arrays do not have the shapes"),
        (put("rows.aliases", lambda a: np.full_like(a, 40)), "it names rows that are not there"),
        (put("rows.aliases", lambda a: np.full_like(a, -1)), "it names rows that are not there"),
        (lambda header, arrays: header["findings"].pop("noise"), "what was found on the way to the anchor is missing"),
        (lambda header, arrays: header["findings"].update(noise="0"), "what was found .* is missing"),
        (lambda header, arrays: header.update(findings=[1.0]), "what was found .* is missing"),
    ],
    ids=[
        *("no aliases", "no gradient", "gradient", "factor", "weights", "dtype", "more", "beyond", "before"),
        *("no noise", "noise", "findings"),
    ],
)
def test_a_file_of_another_form_is_refused(written, posterior, init, change, said):
    """However it came there: with a right checksum."""
    folder, sha256 = written
    header, arrays = checkpoint.read(folder / "constants", sha256)
    arrays = {name: np.array(array) for name, array in arrays.items()}
    change(header, arrays)
    again = checkpoint.write(folder / "constants", header, arrays)
    with pytest.raises(isotherm.StoreError, match=said):
        read((folder, again), posterior, init)


def test_for_other_parameters(written, posterior, init):
    with pytest.raises(isotherm.StoreError, match="its arrays do not have the shapes that they must have"):
        read(written, posterior, init, parameters=4)
