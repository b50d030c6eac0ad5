"""Files made to do harm: nothing in them is executed, followed or believed about sizes."""

import hashlib
import json
import os
import pickle
import tracemalloc
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

import isotherm
from isotherm.store import checkpoint
from isotherm.store.checkpoint import locked

DATA = np.ones((10, 1), np.float32)
POSTERIOR = isotherm.Posterior(
    lambda theta, example: -jnp.sum((theta - example) ** 2), lambda theta: -jnp.sum(theta**2)
)


class Bomb:
    def __reduce__(self):
        return (os.mkdir, (str(self.target),))

    def __init__(self, target):
        self.target = target


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    store = tmp_path_factory.mktemp("original") / "run.zarr"
    settings = {"batch_size": 2, "steps": 12, "thin": 1, "chains": 1, "progress": False}
    isotherm.sample(POSTERIOR, isotherm.sgld(step_size=0.01), DATA, jnp.zeros(1), store=store, **settings)
    return checkpoint.read(max((store / ".isotherm").glob("checkpoint-?"), key=lambda path: path.stat().st_mtime))


@pytest.fixture
def store(tmp_path):
    (tmp_path / "run.zarr" / ".isotherm").mkdir(parents=True)
    return tmp_path / "run.zarr"


def forged(store, text, payload=b""):
    """A checkpoint with a right checksum over whatever it holds."""
    digest = hashlib.sha256(text + payload).hexdigest()
    first = f"{checkpoint.MAGIC} {digest} {len(text):012d}\n".encode()
    (store / ".isotherm" / "checkpoint-0").write_bytes(first + text + payload)


def refused(store, match, kind=isotherm.StoreError):
    """Refused in words, without much memory."""
    tracemalloc.start()
    with pytest.raises(kind, match=match):
        isotherm.resume(store, POSTERIOR, DATA, progress=False)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 50e6


def test_a_pickle_for_a_checkpoint(store, tmp_path):
    (store / ".isotherm" / "checkpoint-0").write_bytes(pickle.dumps(Bomb(tmp_path / "owned")) + bytes(200))
    refused(store, "checkpoint-0 is damaged")
    forged(store, pickle.dumps(Bomb(tmp_path / "owned")))
    refused(store, "checkpoint-0 is damaged")
    assert not (tmp_path / "owned").exists()


def test_an_npz_of_objects_for_a_checkpoint(store, tmp_path):
    with open(store / ".isotherm" / "checkpoint-0", "wb") as file:
        np.savez(file, state=np.array([Bomb(tmp_path / "owned")], object))
    refused(store, "checkpoint-0 is damaged")
    assert not (tmp_path / "owned").exists()


@pytest.mark.parametrize("dtype", ["object", "O", "|O", "V8", "datetime64[s]", "float32, O", "os.system"])
def test_arrays_of_other_kinds(store, dtype):
    forged(store, json.dumps({"arrays": [{"name": "a", "dtype": dtype, "shape": [1]}]}).encode(), bytes(8))
    refused(store, "checkpoint-0 is damaged")


@pytest.mark.parametrize("shape", [[10**15], [2**62, 4], [-1], [1.0], ["1"], [True], [0] * 99, [10**400]])
def test_absurd_sizes(store, shape):
    forged(store, json.dumps({"arrays": [{"name": "a", "dtype": "float64", "shape": shape}]}).encode(), bytes(8))
    refused(store, "checkpoint-0 is damaged")


@pytest.mark.parametrize(
    "text",
    [b"[" * 100_000, b"[]", b"7", b'{"arrays": 3}', b'{"arrays": [3]}', b'{"a": ' + b"9" * 10_000 + b"}", b"\xff"],
)
def test_headers_that_are_none(store, text):
    forged(store, text)
    refused(store, "checkpoint-0 is damaged")


def test_a_header_longer_than_its_file(store):
    first = f"{checkpoint.MAGIC} {'0' * 64} {10**11:012d}\n".encode()
    (store / ".isotherm" / "checkpoint-0").write_bytes(first + b"{}")
    refused(store, "checkpoint-0 is damaged")


def forged_header(original, **entries):
    return json.loads(json.dumps(original[0])) | {"serial": 0} | entries


@pytest.mark.parametrize(
    ("entries", "match"),
    [
        ({"digests": {"../../../etc/passwd": "0"}}, "it names the file '../../../etc/passwd'"),
        ({"digests": {"/etc/passwd": "0"}}, "it names the file '/etc/passwd'"),
        ({"digests": {"posterior/..": "0"}}, "it names the file"),
        (
            {"layout": {"leaves": [{"name": "", "shape": [10**12], "dtype": "float32"}], "nest": "leaf"}},
            "the positions",
        ),
        ({"layout": {"leaves": [{"name": "", "shape": [1], "dtype": "object"}], "nest": "leaf"}}, "an unknown dtype"),
        ({"chains": 10**12}, "the positions in it do not have the shape"),
        ({"chunk": 0}, "zero"),
        ({"step": -1}, "header.step is -1"),
        ({"step": "0; import os"}, "header.step is 0; import os"),
        ({"plan": {"steps": 1}}, "header.plan"),
        ({"batches": {"population": 10, "size": True, "replace": True}}, "header.batches.size is True"),
        ({"data": [3]}, r"header.data\[\]"),
        ({"draws": 3}, "does not fit this version's state: tail"),
    ],
    ids=lambda value: str(value)[:40] if isinstance(value, str) else next(iter(value)),
)
def test_headers_that_lie(store, original, entries, match):
    checkpoint.write(store / ".isotherm" / "checkpoint-0", forged_header(original, **entries), original[1])
    refused(store, match)


@pytest.mark.parametrize(
    ("sampler", "match"),
    [
        ({"name": "__import__", "settings": {}}, "its sampler, __import__, is not one of isotherm's"),
        ({"name": "Sampler", "settings": {}}, "its sampler, Sampler, is not one of isotherm's"),
        ({"name": "base", "settings": {}}, "its sampler, base, is not one of isotherm's"),
        ({"name": "sgld", "settings": {"step_size": "os.system('id')"}}, "step_size must be a number"),
        ({"name": "sgld", "settings": {"step_size": {"function": []}}}, "step_size is a function, which is not stored"),
        ({"name": "sgld", "settings": {}}, "cannot be resumed as it is"),
    ],
    ids=lambda value: value["name"] if isinstance(value, dict) else None,
)
def test_samplers_that_are_none(store, original, sampler, match):
    checkpoint.write(store / ".isotherm" / "checkpoint-0", forged_header(original, sampler=sampler), original[1])
    refused(store, match, ValueError)


def test_a_nest_too_deep(store, original):
    nest = "leaf"
    for _ in range(150):
        nest = {"list": 1, "of": [nest]}
    checkpoint.write(
        store / ".isotherm" / "checkpoint-0",
        forged_header(original, layout=original[0]["layout"] | {"nest": nest}),
        original[1],
    )
    refused(store, "run.zarr|log_likelihood does not fit", ValueError)


def test_links_and_pipes_are_not_followed(store, original, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    checkpoint.write(elsewhere, *original)
    (store / ".isotherm" / "checkpoint-0").symlink_to(elsewhere)
    refused(store, "checkpoint-0 cannot be read")
    (store / ".isotherm" / "checkpoint-0").unlink()
    os.mkfifo(store / ".isotherm" / "checkpoint-0")
    refused(store, "checkpoint-0 is not a plain file")


def test_a_lock_that_is_a_link(store, tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (store / ".isotherm" / "lock").symlink_to(victim)
    with pytest.raises(isotherm.StoreError, match="lock cannot be opened"), locked(store, new=True):
        pass
    assert victim.read_text() == "precious"


def test_metadata_of_others_is_not_read(store, original, tmp_path):
    """Zarr's files are written from the checkpoint, never read by `resume`: objects and absurd shapes there vanish."""
    checkpoint.write(store / ".isotherm" / "checkpoint-0", forged_header(original), original[1])
    evil = {"zarr_format": 3, "node_type": "array", "shape": [10**15], "data_type": "object"}
    for path in ("zarr.json", "posterior/zarr.json", "posterior/theta/zarr.json"):
        (store / path).parent.mkdir(parents=True, exist_ok=True)
        (store / path).write_text(json.dumps(evil))
    (store / "posterior" / ".zarray").write_text(json.dumps({"filters": [{"id": "pickle"}], "dtype": "|O"}))
    tree = isotherm.resume(store, POSTERIOR, DATA, progress=False)
    assert tree["posterior"]["theta"].values.shape == (1, 10, 1)
    assert Path(store / "posterior" / "theta" / "zarr.json").read_text() != json.dumps(evil)
