"""A run on disk: the same draws as in memory, open to readers as it goes, resumed bit for bit."""

import json
import os
import signal
import subprocess
import sys
import threading
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray

import isotherm
from isotherm.run import problem
from isotherm.samplers import settings
from isotherm.store import checkpoint, header, identity, recorder
from isotherm.store.folder import run_name
from isotherm.store.lock import Lock
from isotherm.store.writer import Writer

RNG = np.random.default_rng(0)
DATA = {"x": RNG.standard_normal((40, 2), np.float32), "y": RNG.standard_normal(40, np.float32)}
INIT = {"w": np.zeros(2, np.float32), "b": np.zeros((), np.float32)}
SETTINGS = {"batch_size": 8, "steps": 400, "burn_in": 0.25, "thin": 3, "chains": 2, "seed": 5, "progress": False}


def log_likelihood(params, example):
    return -0.5 * (example["y"] - example["x"] @ params["w"] - params["b"]) ** 2


def log_prior(params):
    return -0.5 * (jnp.sum(params["w"] ** 2) + params["b"] ** 2)


POSTERIOR = isotherm.Posterior(log_likelihood, log_prior)
SAMPLER = isotherm.sgnht(step_size=0.01, friction=2.0)


def run(store=None, sampler=SAMPLER, init=INIT, **changed):
    return isotherm.sample(POSTERIOR, sampler, DATA, init, store=store, **(SETTINGS | changed))


def assert_same(tree, other):
    """The same arrays, byte for byte, under the same names."""
    assert set(tree.children) == set(other.children)
    for group in other.children:
        found, expected = tree[group].to_dataset(), other[group].to_dataset()
        assert set(found.variables) == set(expected.variables)
        for name, variable in expected.variables.items():
            assert found[name].dims == variable.dims, name
            assert found[name].dtype == variable.dtype, name
            assert found[name].values.tobytes() == variable.values.tobytes(), name


class StopAfter:
    """Sets the stop of a run after so many chunks, as a signal would."""

    def __init__(self, chunks, signum=signal.SIGINT):
        self.left, self.signum = chunks, signum

    def __call__(self, *_):
        self.left -= 1
        if self.left == 0:
            signal.raise_signal(self.signum)


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    """Chunks and checkpoints come often enough to matter in a short run."""
    monkeypatch.setattr(header, "CHUNK_DRAWS", 16)
    monkeypatch.setattr(recorder, "CHECKPOINT_SECONDS", 0.0)
    monkeypatch.setattr(recorder, "CHECKPOINT_SHARE", 1e9)
    monkeypatch.setattr(os, "fsync", lambda handle: None)  # no power cuts here


@pytest.fixture(scope="module")
def uninterrupted():
    return run()


@pytest.fixture
def interrupt(monkeypatch):
    """A function that makes the next run stop after so many chunks of at most 32 steps."""

    def at(chunks, signum=signal.SIGINT):
        monkeypatch.setattr("isotherm.run.execute.CHUNK_SECONDS", 1e-9)
        monkeypatch.setattr("isotherm.run.execute.Bar.update", StopAfter(chunks, signum))

    return at


def test_stored_equals_in_memory(tmp_path, uninterrupted):
    tree = run(tmp_path / "run.zarr")
    assert_same(tree, uninterrupted)
    assert tree.attrs["steps_done"] == 400
    assert tree.attrs["interrupted"] == 0
    assert {k: v for k, v in tree.attrs.items() if k != "sampling_time"} == {
        k: v for k, v in uninterrupted.attrs.items() if k != "sampling_time"
    }


def test_what_is_returned_is_read_when_looked_at(tmp_path):
    tree = run(tmp_path / "run.zarr")
    assert not tree["posterior"]["w"].variable._in_memory
    assert tree["posterior"]["w"].values.shape == (2, 100, 2)


def test_opens_with_xarray_in_any_way(tmp_path, uninterrupted):
    run(tmp_path / "run.zarr")
    assert_same(xarray.open_datatree(tmp_path / "run.zarr", engine="zarr"), uninterrupted)
    for group in ("posterior", "sample_stats"):
        found = xarray.open_dataset(tmp_path / "run.zarr", engine="zarr", group=group, consolidated=False)
        assert set(found.variables) == set(uninterrupted[group].to_dataset().variables)


def test_opens_while_running(tmp_path, monkeypatch):
    seen = []

    def look(self, step, *_):
        if step % 10 == 0:
            tree = xarray.open_datatree(tmp_path / "run.zarr", engine="zarr")
            seen.append((tree.attrs["steps_done"], tree["posterior"].to_dataset().load().sizes["draw"]))

    monkeypatch.setattr("isotherm.run.execute.CHUNK_SECONDS", 1e-9)
    monkeypatch.setattr("isotherm.run.execute.Bar.update", look)
    run(tmp_path / "run.zarr", steps=40, burn_in=0.25)
    assert all(draws == max(0, step - 10) // 3 for step, draws in seen)
    assert any(draws > 0 for _, draws in seen)


def test_there_are_no_moments_before_the_first_draw(tmp_path, interrupt):
    interrupt(3)
    tree = run(tmp_path / "run.zarr")
    assert tree.attrs["steps_done"] < 100
    assert tree["posterior"].sizes["draw"] == 0
    assert np.isnan(tree["posterior_mean"]["w"].values).all()


@pytest.mark.parametrize("chunks", [1, 40])
def test_resumed_equals_uninterrupted(tmp_path, uninterrupted, interrupt, monkeypatch, chunks):
    interrupt(chunks)
    part = run(tmp_path / "run.zarr")
    assert part.attrs["interrupted"] == 1
    assert part.attrs["steps_done"] < 400
    draws = part["posterior"].sizes["draw"]
    assert part["posterior"]["w"].values.tobytes() == uninterrupted["posterior"]["w"].values[:, :draws].tobytes()
    monkeypatch.undo()
    assert_same(isotherm.resume(tmp_path / "run.zarr", POSTERIOR, DATA, progress=False), uninterrupted)


SAMPLERS = [
    *(getattr(isotherm.samplers, name)(step_size=0.01) for name in isotherm.samplers.__all__ if name.islower()),
    isotherm.sgld(step_size=1e-3, mass=np.array([1.0, 2.0, 3.0], np.float32)),
    isotherm.sghmc(step_size=0.01, friction=0.0, temperature=0.1, mass=2.0),
    isotherm.mccadl(step_size=0.01, thermal_mass=3, scheme="BAOCDCOAB", expm="taylor", rank=3),
]


@pytest.mark.parametrize("sampler", SAMPLERS, ids=lambda sampler: type(sampler).__name__)
def test_every_sampler_is_rebuilt_from_its_settings(sampler):
    stored, arrays = settings.encode(sampler, steps=100)
    again = settings.decode(json.loads(json.dumps(stored)), arrays)
    assert type(again) is type(sampler)
    jax.tree.map(np.testing.assert_array_equal, again, sampler)
    assert jax.tree.structure(again) == jax.tree.structure(sampler)
    assert not list(settings.differences(stored, arrays, again, 100))


@pytest.mark.parametrize(
    "sampler",
    [sampler for sampler in SAMPLERS if type(sampler).__name__ in ("CCAdL", "ECCAdL")],
    ids=lambda sampler: type(sampler).__name__,
)
def test_a_state_with_more_in_it_is_resumed(tmp_path, interrupt, monkeypatch, sampler):
    interrupt(10)
    run(tmp_path / "run.zarr", sampler, steps=60)
    monkeypatch.undo()
    resumed = isotherm.resume(tmp_path / "run.zarr", POSTERIOR, DATA, progress=False)
    assert_same(resumed, run(sampler=sampler, steps=60))


def test_extended_equals_longer(tmp_path):
    run(tmp_path / "run.zarr", steps=200, burn_in=0.0)
    extended = isotherm.resume(tmp_path / "run.zarr", POSTERIOR, DATA, steps=200, progress=False)
    assert_same(extended, run(burn_in=0.0))
    assert extended.attrs["steps"] == 400


def test_resuming_a_finished_run_changes_nothing(tmp_path, uninterrupted):
    run(tmp_path / "run.zarr")
    again = isotherm.resume(tmp_path / "run.zarr", POSTERIOR, DATA, progress=False)
    assert_same(again, uninterrupted)
    assert again.attrs["interrupted"] == 0


def test_a_schedule_is_asked_for_again(tmp_path, interrupt, monkeypatch):
    def schedule(step):
        return 0.01 / (1 + step / 100)

    interrupt(20)
    run(tmp_path / "run.zarr", isotherm.sgld(step_size=schedule))
    monkeypatch.undo()
    with pytest.raises(ValueError, match="step_size is a function, which is not stored; pass sampler= again"):
        isotherm.resume(tmp_path / "run.zarr", POSTERIOR, DATA)
    other = isotherm.sgld(step_size=lambda step: 0.01 / (1 + step / 50))
    with pytest.raises(ValueError, match=r"another sampler: step_size\(1\) is 0\.0098.*, was 0\.0099"):
        isotherm.resume(tmp_path / "run.zarr", POSTERIOR, DATA, sampler=other)
    same = isotherm.sgld(step_size=schedule)
    resumed = isotherm.resume(tmp_path / "run.zarr", POSTERIOR, DATA, sampler=same, progress=False)
    assert_same(resumed, run(sampler=same))


class Named(NamedTuple):
    w: np.ndarray
    b: np.ndarray


def test_parameters_of_another_kind_are_asked_for_again(tmp_path):
    posterior = isotherm.Posterior(
        lambda p, e: log_likelihood(p._asdict(), e), lambda p: log_prior({"w": p.w, "b": p.b})
    )
    isotherm.sample(posterior, SAMPLER, DATA, Named(**INIT), store=tmp_path / "run.zarr", **SETTINGS)
    with pytest.raises(ValueError, match="not a nest of dicts, lists and tuples; pass init= again"):
        isotherm.resume(tmp_path / "run.zarr", posterior, DATA)
    tree = isotherm.resume(tmp_path / "run.zarr", posterior, DATA, init=Named(**INIT), steps=50, progress=False)
    assert tree.attrs["steps_done"] == 450
    wrong = Named(np.zeros(3, np.float32), INIT["b"])
    other = isotherm.Posterior(lambda p, e: p.b, lambda p: p.b)
    with pytest.raises(ValueError, match=r"different parameters: init\.w is .*\(3,\), was .*\(2,\)"):
        isotherm.resume(tmp_path / "run.zarr", other, DATA, init=wrong)


@pytest.mark.parametrize(
    ("posterior", "data", "said"),
    [
        (POSTERIOR, DATA | {"y": DATA["y"] + 1}, r"different data: data\['y'\] has other contents"),
        (
            POSTERIOR,
            {k: v[:-1] for k, v in DATA.items()},
            r"different data: data\['x'\] has shape \(39, 2\), was \(40, 2\)",
        ),
        (POSTERIOR, DATA | {"y": DATA["y"].astype(np.float16)}, r"data\['y'\] has dtype float16, was float32"),
        (POSTERIOR, DATA | {"z": DATA["y"]}, r"data\['z'\] is new"),
        (
            isotherm.Posterior(log_likelihood, lambda p: 2 * log_prior(p)),
            DATA,
            "another posterior: log_prior is .* at a test point, was",
        ),
        (isotherm.Posterior(lambda p, e: p["v"], log_prior), DATA, "log_likelihood does not fit"),
    ],
    ids=["contents", "length", "dtype", "extra", "prior", "shape"],
)
def test_what_differs_is_refused_by_name(tmp_path, posterior, data, said):
    run(tmp_path / "run.zarr", steps=20)
    with jax.numpy_dtype_promotion("standard"), pytest.raises(ValueError, match=said):
        isotherm.resume(tmp_path / "run.zarr", posterior, data)


def test_another_sampler_or_precision_is_refused(tmp_path):
    run(tmp_path / "run.zarr", steps=20)
    with pytest.raises(ValueError, match="another sampler: sampler is sgld, was sgnht"):
        isotherm.resume(tmp_path / "run.zarr", POSTERIOR, DATA, sampler=isotherm.sgld(step_size=0.01))
    with pytest.raises(ValueError, match=r"another sampler: friction is 3\.0, was 2\.0"):
        isotherm.resume(tmp_path / "run.zarr", POSTERIOR, DATA, sampler=isotherm.sgnht(0.01, 3.0))
    with jax.enable_x64(True), pytest.raises(ValueError, match="jax_enable_x64 is True, was False"):
        isotherm.resume(tmp_path / "run.zarr", POSTERIOR, DATA)


def test_another_version_is_told(tmp_path, monkeypatch):
    run(tmp_path / "run.zarr", steps=20)
    now = identity.versions()
    monkeypatch.setattr(identity, "versions", lambda: now | {"jax": "99.0"})
    with pytest.warns(RuntimeWarning, match=r"made with jax .* → 99\.0; draws from here on"):
        isotherm.resume(tmp_path / "run.zarr", POSTERIOR, DATA, progress=False)


def test_a_run_is_never_overwritten(tmp_path):
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


def test_there_must_be_a_run_to_resume(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no run of isotherm at"):
        isotherm.resume(tmp_path / "none.zarr", POSTERIOR, DATA)
    assert not (tmp_path / "none.zarr").exists()
    with pytest.raises(TypeError, match="store must be the path of a folder, got 3"):
        isotherm.resume(3, POSTERIOR, DATA)
    with pytest.raises(TypeError, match="store must be the path of a folder, got ''"):
        run("")


def test_a_run_that_stopped_before_its_first_checkpoint_starts_again(tmp_path, uninterrupted):
    lock = Lock(tmp_path / "run.zarr" / ".isotherm" / "lock")
    lock.release()
    with pytest.raises(isotherm.StoreError, match="holds no checkpoint"):
        isotherm.resume(tmp_path / "run.zarr", POSTERIOR, DATA)
    assert_same(run(tmp_path / "run.zarr"), uninterrupted)


def test_a_second_writer_is_refused_with_the_first_ones_pid(tmp_path):
    run(tmp_path / "run.zarr", steps=20)
    lock = Lock(tmp_path / "run.zarr" / ".isotherm" / "lock")
    with pytest.raises(isotherm.StoreError, match=f"in use by process {os.getpid()} on host "):
        isotherm.resume(tmp_path / "run.zarr", POSTERIOR, DATA)
    lock.release()
    isotherm.resume(tmp_path / "run.zarr", POSTERIOR, DATA, progress=False)


def test_a_lock_left_by_a_killed_process_does_not_block(tmp_path):
    run(tmp_path / "run.zarr", steps=20)
    path = tmp_path / "run.zarr" / ".isotherm" / "lock"
    program = """if True:
        import fcntl, sys, time
        file = open(sys.argv[1], "w")
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write('{"pid": 77, "host": "elsewhere", "since": "noon"}')
        file.flush()
        print("locked", flush=True)
        time.sleep(60)
    """
    holder = subprocess.Popen([sys.executable, "-c", program, path], stdout=subprocess.PIPE)
    holder.stdout.readline()
    with pytest.raises(isotherm.StoreError, match="in use by process 77 on host elsewhere since noon; wait for it"):
        isotherm.resume(tmp_path / "run.zarr", POSTERIOR, DATA)
    holder.kill()
    holder.communicate()
    isotherm.resume(tmp_path / "run.zarr", POSTERIOR, DATA, progress=False)


def test_sigterm_ends_in_good_order(tmp_path, uninterrupted, interrupt, monkeypatch):
    interrupt(30, signal.SIGTERM)
    with pytest.raises(SystemExit) as ended:
        run(tmp_path / "run.zarr")
    assert ended.value.code == 143
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    monkeypatch.undo()
    assert_same(isotherm.resume(tmp_path / "run.zarr", POSTERIOR, DATA, progress=False), uninterrupted)


def test_a_users_own_handler_of_sigterm_is_called(tmp_path, interrupt):
    called = []
    before = signal.signal(signal.SIGTERM, lambda *_: called.append(1))
    interrupt(30, signal.SIGTERM)
    try:
        tree = run(tmp_path / "run.zarr")
    finally:
        signal.signal(signal.SIGTERM, before)
    assert called == [1]
    assert tree.attrs["interrupted"] == 1


def test_signals_are_left_alone_in_other_threads(tmp_path, uninterrupted):
    found = []
    thread = threading.Thread(target=lambda: found.append(run(tmp_path / "run.zarr")))
    thread.start()
    thread.join()
    assert_same(found[0], uninterrupted)


@pytest.mark.parametrize("chains", [1, 2])
def test_divergence_is_stored_as_it_is_returned(tmp_path, chains):
    hot = isotherm.sgld(step_size=10.0)
    with pytest.warns(RuntimeWarning, match="diverged"):
        expected = run(sampler=hot, chains=chains)
    with pytest.warns(RuntimeWarning, match="diverged"):
        stored = run(tmp_path / "run.zarr", hot, chains=chains)
    assert_same(stored, expected)
    with pytest.warns(RuntimeWarning, match="diverged"):
        extended = isotherm.resume(tmp_path / "run.zarr", POSTERIOR, DATA, steps=200, progress=False)
    assert extended["posterior"].sizes["draw"] == 166
    assert np.isnan(extended["posterior"]["w"].values[:, -1]).all()


def test_a_full_disk_is_one_clear_message_and_resumable(tmp_path, uninterrupted, monkeypatch):
    written = []

    def full(handle):
        written.append(handle)
        if len(written) > 40:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(isotherm.StoreError, match=r"no space left for writing .*; the run is safe up to step \d+"):
        run(tmp_path / "run.zarr")
    monkeypatch.undo()
    assert not list((tmp_path / "run.zarr").rglob("*.partial"))
    xarray.open_datatree(tmp_path / "run.zarr", engine="zarr").load()
    assert_same(isotherm.resume(tmp_path / "run.zarr", POSTERIOR, DATA, progress=False), uninterrupted)


@pytest.mark.parametrize("name", ["__reserved", "zarr.json", "x" * 300, "line\nbreak"])
def test_names_that_no_folder_can_have_are_refused(tmp_path, name):
    posterior = isotherm.Posterior(lambda p, e: p[name] * e["y"], lambda p: -(p[name] ** 2))
    with pytest.raises(ValueError, match="cannot be the name of a stored array; rename it"):
        isotherm.sample(posterior, SAMPLER, DATA, {name: np.float32(0)}, store=tmp_path / "run.zarr", **SETTINGS)
    assert {path.name for path in tmp_path.iterdir()} <= {"run.zarr"}


def test_a_nest_is_rebuilt():
    params = {"a": [jnp.zeros(2), (jnp.zeros((3, 1)),)], "b": {}, "c": jnp.zeros(())}
    posterior = isotherm.Posterior(lambda p, e: p["c"] * e["y"], lambda p: -(p["c"] ** 2))
    settings = {"batch_size": 8, "replace": True, "chains": 1, "seed": 0, "name": None}
    stored = json.loads(json.dumps(identity.layout(problem.make_run(posterior, SAMPLER, DATA, params, **settings))))
    built = identity.zeros(stored)
    assert jax.tree.structure(built) == jax.tree.structure(params)
    assert identity.size(stored) == 6
    assert identity.nest(Named(1, 2)) is None


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
    assert content.items() <= checkpoint.read_header(tmp_path / "c").items()
    for name, array in arrays.items():
        assert stored[name].dtype == array.dtype
        np.testing.assert_array_equal(stored[name], array)
    with pytest.raises(TypeError, match="odd has dtype object"):
        checkpoint.write(tmp_path / "c", {}, {"odd": np.array([None])})


def test_a_writer_tells_its_first_failure():
    writer, done = Writer(), []
    writer.put(lambda: done.append(1))

    def fail():
        raise ValueError("first")

    writer.jobs.put(fail)
    writer.jobs.put(lambda: done.append(2))
    writer.close()
    with pytest.raises(ValueError, match="first"):
        writer.check()
    assert done == [1]


@pytest.mark.parametrize(
    ("store", "error", "words"),
    [
        ("s3://bucket/run.zarr", ValueError, "store must be a folder on this machine, .* got 's3://bucket/run.zarr'"),
        ("no/such/folder/run.zarr", ValueError, "cannot be made: there is no folder '.*no/such/folder'"),
        ("x" * 300, isotherm.StoreError, "cannot be made: File name too long"),
    ],
    ids=["url", "parent", "long"],
)
def test_a_store_that_cannot_be_made_is_refused_before_any_work(tmp_path, monkeypatch, store, error, words):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(error, match=words):
        run(store)
    assert not list(tmp_path.iterdir())


def changed_models():
    """What was once taken for the same: the likelihood of some rows, of all a little; a prior, wider or bounded."""

    def some_rows(params, example):
        return jnp.where(example["y"] > 0, 5.0, 1.0) * log_likelihood(params, example)

    def penalty(params):
        return log_prior(params) - jnp.where(params["b"] > 1, 1.0, 0.0)

    return {
        "some rows": (some_rows, log_prior),
        "likelihood times 1.001": (lambda p, e: 1.001 * log_likelihood(p, e), log_prior),
        "prior variance 1.01": (log_likelihood, lambda p: log_prior(p) / 1.01),
        "penalty beyond 1": (log_likelihood, penalty),
    }


@pytest.mark.parametrize("change", changed_models())
def test_a_model_that_differs_anywhere_is_refused(tmp_path, change):
    run(tmp_path / "run.zarr", steps=20)
    with pytest.raises(ValueError, match=r"was made with another posterior: log_.* at a test point, was"):
        isotherm.resume(tmp_path / "run.zarr", isotherm.Posterior(*changed_models()[change]), DATA)


def test_a_run_of_the_first_version_is_refused_in_a_sentence(tmp_path):
    run(tmp_path / "run.zarr", steps=20)
    for slot in (tmp_path / "run.zarr" / ".isotherm").glob("checkpoint-?"):
        slot.write_bytes(slot.read_bytes().replace(b"isotherm-checkpoint 2", b"isotherm-checkpoint 1", 1))
    with pytest.raises(isotherm.StoreError, match=r"written by isotherm 0\.1\.0, .* cannot go on with such runs"):
        isotherm.resume(tmp_path / "run.zarr", POSTERIOR, DATA)


def test_a_name_is_read_without_hashing_the_store(tmp_path, monkeypatch):
    run(tmp_path / "run.zarr", steps=20, name="mine")
    monkeypatch.setattr("hashlib.sha256", None)
    assert run_name(tmp_path / "run.zarr") == "mine"
    with pytest.raises(FileNotFoundError, match="there is no run of isotherm at"):
        run_name(tmp_path)
