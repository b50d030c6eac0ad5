"""A checkpoint is as it was written, or refused in a sentence that says why."""

import hashlib

import jax.numpy as jnp
import numpy as np
import pytest

import isotherm
from isotherm.store import checkpoint


def test_a_checkpoint_holds_any_state(tmp_path):
    arrays = {
        "empty": np.zeros((0, 3)),
        "scalar": np.array(1.5),
        "brain": np.arange(3).astype(jnp.bfloat16),
        "strided": np.arange(12.0).reshape(3, 4)[:, ::2],
    }
    checkpoint.write(tmp_path / "c", {"a": [1, "ξ"]}, arrays)
    content, stored = checkpoint.read(tmp_path / "c")
    assert content == {"a": [1, "ξ"]}
    for name, array in arrays.items():
        assert stored[name].dtype == array.dtype
        np.testing.assert_array_equal(stored[name], array)
    with pytest.raises(TypeError, match="odd has dtype object"):
        checkpoint.write(tmp_path / "c", {}, {"odd": np.array([None])})


def test_a_run_of_the_first_version_is_refused_in_a_sentence(tmp_path, run, resume):
    run(tmp_path / "run.zarr", steps=20)
    for slot in (tmp_path / "run.zarr" / ".isotherm").glob("checkpoint-?"):
        slot.write_bytes(slot.read_bytes().replace(b"isotherm-checkpoint 2", b"isotherm-checkpoint 1", 1))
    with pytest.raises(isotherm.StoreError, match=r"written by isotherm 0\.1\.0, .* cannot go on with such runs"):
        resume(tmp_path / "run.zarr")


def test_flipped_bytes_and_cuts_are_seen(tmp_path):
    """Every cut, and every byte but the blank before the header's length, which nothing depends on."""
    checkpoint.write(tmp_path / "c", {"a": 1}, {"x": np.arange(3.0)})
    whole = (tmp_path / "c").read_bytes()
    blank = whole.index(b" ", len(checkpoint.MAGIC) + 1)
    for at in range(len(whole)):
        (tmp_path / "c").write_bytes(whole[:at])
        with pytest.raises(isotherm.StoreError, match=r"it is cut short|its checksum is wrong"):
            checkpoint.read(tmp_path / "c")
        (tmp_path / "c").write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        if at != blank:
            with pytest.raises(isotherm.StoreError, match=r"is damaged or not a checkpoint|by isotherm 0\.1\.0"):
                checkpoint.read(tmp_path / "c")


def with_checksum(text, payload=b""):
    """A file that is whole, whatever is in it."""
    digest = hashlib.sha256(text + payload).hexdigest()
    return f"{checkpoint.MAGIC} {digest} {len(text):012d}\n".encode() + text + payload


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "it is cut short"),
        (b"PK" + bytes(200), "it does not begin as a checkpoint of this version does"),
        (with_checksum(b"{"), "its header is not JSON"),
        (with_checksum(b"[]"), "its header is not an object"),
        (with_checksum(b"{}"), "it describes an array as None"),
        (with_checksum(b'{"arrays": [{"name": "x"}]}'), r"it describes an array as \{'name': 'x'\}"),
        (
            with_checksum(b'{"arrays": [{"name": "x", "dtype": "int8", "shape": [3]}]}', b"ab"),
            r"it is too short for x of shape \(3,\)",
        ),
        (
            with_checksum(b'{"arrays": [{"name": "x", "dtype": "int8", "shape": [3]}]}', b"abcde"),
            "it is 2 bytes longer than its arrays",
        ),
    ],
    ids=["empty", "other", "not json", "no object", "no arrays", "half an array", "short", "long"],
)
def test_what_is_wrong_with_a_file_is_said(tmp_path, content, why):
    (tmp_path / "c").write_bytes(content)
    with pytest.raises(isotherm.StoreError, match=rf"^{tmp_path}/c is damaged or not a checkpoint: {why}"):
        checkpoint.read(tmp_path / "c")
