"""Every file of a stored run flipped, cut and removed: refused by name, or mended, never silently different."""

import importlib.util
import shutil
import warnings
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import isotherm
from isotherm.run import recorder

pytestmark = pytest.mark.slow

PROGRAM = Path(__file__).with_name("program.py")
STEPS = 3000


@pytest.fixture(scope="module", autouse=True)
def no_power_cuts():
    """Flushing to the disk takes most of the time and does not matter here."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("os.fsync", lambda handle: None)
        yield


@pytest.fixture(scope="module")
def program():
    spec = importlib.util.spec_from_file_location("program", PROGRAM)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def whole(program, tmp_path_factory):
    return program.start(tmp_path_factory.mktemp("whole") / "run.zarr", STEPS).load()


@pytest.fixture(scope="module")
def stopped(program, tmp_path_factory):
    """A run stopped half-way, with two checkpoints, whole chunks of draws and some draws after them."""
    store = tmp_path_factory.mktemp("stopped") / "run.zarr"
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("isotherm.run.sample.CHUNK_DRAWS", 4)
        patched.setattr("isotherm.run.execute.CHUNK_SECONDS", 1e-9)
        patched.setattr(recorder, "CHECKPOINT_SECONDS", 0.3)
        patched.setattr("isotherm.run.execute.interruptible", stop_after(900))
        program.start(store, STEPS)
    assert len(list((store / "posterior" / "theta" / "c" / "0").iterdir())) > 2
    return store


def stop_after(looks):
    """A stop that is set after so many looks at it."""

    class Stop:
        left = looks

        def is_set(self):
            self.left -= 1
            return self.left < 0

        def obey(self):
            pass

    @contextmanager
    def interruptible(*_, **__):
        yield Stop()

    return interruptible


def outcome(program, store, whole):
    """What resuming does: "refused" naming a file, "said" something and ended the same, or "same"."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        warnings.simplefilter("ignore", isotherm.VerdictWarning)  # these runs are short
        try:
            tree = isotherm.resume(store, program.POSTERIOR, program.DATA, progress=False)
        except isotherm.StoreError as error:
            return "refused" if str(store) in str(error) else "refused without a name"
    for group in whole.children:
        for name, expected in whole[group].to_dataset().variables.items():
            assert tree[group][name].values.tobytes() == expected.values.tobytes(), f"{group}/{name}"
    if told:
        assert str(store) in str(told[0].message)
        assert "going on from checkpoint-" in str(told[0].message)
    return "said" if told else "same"


def damaged(stopped, folder, path, change):
    """A copy of the run with one file changed."""
    store = folder / "run.zarr"
    shutil.rmtree(store, ignore_errors=True)
    shutil.copytree(stopped, store)
    change(store / path)
    return store


def flip(position, bit):
    def change(path):
        content = bytearray(path.read_bytes())
        content[position] ^= 1 << bit
        path.write_bytes(content)

    return change


def allowed(path):
    """What may come of damage to a file: never silence about what cannot be made again."""
    if path.name.startswith("checkpoint-"):
        return {"said"}
    if path.name == "zarr.json" or path.name == "lock":
        return {"same"}
    return {"same", "said", "refused"}


@pytest.mark.parametrize("flips", [20, pytest.param(600, marks=pytest.mark.long)])
def test_flipped_bytes(program, stopped, whole, tmp_path, flips):
    """A third of the positions in the checkpoints, the rest over all other files."""
    rng = np.random.default_rng(2)
    everything = sorted(path.relative_to(stopped) for path in stopped.rglob("*") if path.is_file())
    checkpoints = [path for path in everything if path.name.startswith("checkpoint-")]
    counts = {"refused": 0, "said": 0, "same": 0}
    for k in range(flips):
        path = rng.choice(checkpoints if k % 3 == 0 else everything)
        position, bit = rng.integers((stopped / path).stat().st_size), rng.integers(8)
        store = damaged(stopped, tmp_path, path, flip(position, int(bit)))
        found = outcome(program, store, whole)
        assert found in allowed(path), f"byte {position} of {path}"
        counts[found] += 1
    assert min(counts.values()) > 0
    print(counts)


def test_cut_and_missing_files(program, stopped, whole, tmp_path):
    everything = sorted(path.relative_to(stopped) for path in stopped.rglob("*") if path.is_file())
    chosen = [path for path in everything if path.parts[0] in (".isotherm", "posterior", "zarr.json")]

    def cut(path):
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])

    def empty(path):
        path.write_bytes(b"")

    for path in chosen[:: 1 + len(chosen) // 8] + [path for path in chosen if "checkpoint" in path.name]:
        for change in (cut, empty, Path.unlink):
            store = damaged(stopped, tmp_path, path, change)
            assert outcome(program, store, whole) in allowed(path), f"{change.__name__} {path}"


def test_draws_that_are_gone_are_refused_by_name(program, stopped, tmp_path):
    path = Path("posterior", "theta", "c", "0", "0", "0")
    store = damaged(stopped, tmp_path, path, Path.unlink)
    with pytest.raises(isotherm.StoreError, match=rf"cannot be resumed: {store / path} is missing"):
        isotherm.resume(store, program.POSTERIOR, program.DATA)
    store = damaged(stopped, tmp_path, path, flip(10, 3))
    with pytest.raises(isotherm.StoreError, match=rf"{store / path} is damaged"):
        isotherm.resume(store, program.POSTERIOR, program.DATA)


def test_both_checkpoints_damaged(program, stopped, tmp_path):
    store = damaged(stopped, tmp_path, Path(".isotherm", "checkpoint-0"), flip(200, 0))
    flip(300, 0)(store / ".isotherm" / "checkpoint-1")
    with pytest.raises(isotherm.StoreError, match=r"checkpoint-0 is damaged .*checkpoint-1 is damaged"):
        isotherm.resume(store, program.POSTERIOR, program.DATA)


def test_a_reader_sees_a_flipped_draw(stopped, tmp_path):
    """Not only `resume`: each chunk ends in a CRC32C that Zarr checks."""
    import xarray

    path = Path("posterior", "theta", "c", "0", "1", "0")
    store = damaged(stopped, tmp_path, path, flip(40, 5))
    with pytest.raises(ValueError, match="checksum"):
        xarray.open_datatree(store, engine="zarr")["posterior"]["theta"].values  # noqa: B018
