"""Nothing is overwritten, nothing that is not a run is taken for one, and the last good checkpoint is found."""

import pytest

import isotherm
from isotherm.store.folder import Folder, run_name
from isotherm.store.lock import Lock


def test_a_run_is_never_overwritten(tmp_path, run):
    run(tmp_path / "run.zarr", steps=20)
    with pytest.raises(ValueError, match="holds a run already; go on with isotherm"):
        run(tmp_path / "run.zarr")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("")
    with pytest.raises(ValueError, match="exists and is not a run of isotherm"):
        run(tmp_path / "mine")
    with pytest.raises(ValueError, match="exists and is not a run of isotherm"):
        run(tmp_path / "mine" / "thesis.tex")
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["thesis.tex"]


def test_there_must_be_a_run_to_resume(tmp_path, run, resume):
    with pytest.raises(FileNotFoundError, match="there is no run of isotherm at"):
        resume(tmp_path / "none.zarr")
    assert not (tmp_path / "none.zarr").exists()
    with pytest.raises(TypeError, match="store must be the path of a folder, got 3"):
        resume(3)
    with pytest.raises(TypeError, match="store must be the path of a folder, got ''"):
        run("")


def test_a_run_that_stopped_before_its_first_checkpoint_starts_again(tmp_path, run, resume, uninterrupted, assert_same):
    lock = Lock(tmp_path / "run.zarr" / ".isotherm" / "lock")
    lock.release()
    with pytest.raises(isotherm.StoreError, match="holds no checkpoint"):
        resume(tmp_path / "run.zarr")
    assert_same(run(tmp_path / "run.zarr"), uninterrupted)


@pytest.mark.parametrize(
    ("store", "error", "words"),
    [
        ("s3://bucket/run.zarr", ValueError, "store must be a folder on this machine, .* got 's3://bucket/run.zarr'"),
        ("no/such/folder/run.zarr", ValueError, "cannot be made: there is no folder '.*no/such/folder'"),
        ("x" * 300, isotherm.StoreError, "cannot be made: File name too long"),
    ],
    ids=["url", "parent", "long"],
)
def test_a_store_that_cannot_be_made_is_refused_before_any_work(tmp_path, monkeypatch, run, store, error, words):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(error, match=words):
        run(store)
    assert not list(tmp_path.iterdir())


def test_a_name_is_read_without_hashing_the_store(tmp_path, monkeypatch, run):
    run(tmp_path / "run.zarr", steps=20, name="mine")
    monkeypatch.setattr("hashlib.sha256", None)
    assert run_name(tmp_path / "run.zarr") == "mine"
    with pytest.raises(FileNotFoundError, match="there is no run of isotherm at"):
        run_name(tmp_path)


def test_the_newest_checkpoint_that_is_whole(tmp_path, run):
    """The older one, with a warning, once the newest is damaged; none, once both are."""
    run(tmp_path / "run.zarr")
    folder = Folder(tmp_path / "run.zarr", new=False)
    newest = folder.latest()
    assert (newest.store, newest.header.step, newest.header.draws) == (tmp_path / "run.zarr", 400, 100)
    assert newest.arrays["carry.state.position"].shape == (2, 3)
    newest.path.write_bytes(newest.path.read_bytes()[:-1])
    with pytest.warns(RuntimeWarning, match=f"{newest.path} is damaged .*; going on from checkpoint-[01], at step"):
        older = folder.latest()
    assert older.header.serial == newest.header.serial - 1
    older.path.write_bytes(b"")
    with pytest.raises(isotherm.StoreError, match=r"cannot be resumed: .*checkpoint-0 .*checkpoint-1 .* from a copy"):
        folder.latest()
    folder.close()
