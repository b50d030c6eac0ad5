"""Draws on disk are those in memory, open to readers as the run goes, and safe however it ends."""

import os
import queue
import signal
import threading

import numpy as np
import pytest
import xarray

import isotherm
from isotherm.run.recorder import Writer, cut


def test_stored_equals_in_memory(tmp_path, run, uninterrupted, assert_same):
    tree = run(tmp_path / "run.zarr")
    assert_same(tree, uninterrupted)
    assert tree.attrs["steps_done"] == 400
    assert tree.attrs["interrupted"] == 0
    assert {k: v for k, v in tree.attrs.items() if k != "sampling_time"} == {
        k: v for k, v in uninterrupted.attrs.items() if k != "sampling_time"
    }


def test_opens_while_running(tmp_path, run, monkeypatch):
    seen = []

    def look(self, chunk):
        if chunk.step % 10 == 0:
            tree = xarray.open_datatree(tmp_path / "run.zarr", engine="zarr")
            seen.append((tree.attrs["steps_done"], tree["posterior"].to_dataset().load().sizes["draw"]))

    monkeypatch.setattr("isotherm.run.execute.CHUNK_SECONDS", 1e-9)
    monkeypatch.setattr("isotherm.run.execute.DrawsOutsidePrior.see", look)
    run(tmp_path / "run.zarr", steps=40, burn_in=0.25)
    assert all(draws == max(0, step - 10) // 3 for step, draws in seen)
    assert any(draws > 0 for _, draws in seen)


def test_there_are_no_moments_before_the_first_draw(tmp_path, run, interrupt):
    interrupt(3)
    tree = run(tmp_path / "run.zarr")
    assert tree.attrs["steps_done"] < 100
    assert tree["posterior"].sizes["draw"] == 0
    assert np.isnan(tree["posterior_mean"]["w"].values).all()


def test_sigterm_ends_in_good_order(tmp_path, run, resume, uninterrupted, assert_same, interrupt, monkeypatch):
    interrupt(30, signal.SIGTERM)
    with pytest.raises(SystemExit) as ended:
        run(tmp_path / "run.zarr")
    assert ended.value.code == 143
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    monkeypatch.undo()
    assert_same(resume(tmp_path / "run.zarr"), uninterrupted)


def test_a_users_own_handler_of_sigterm_is_called(tmp_path, run, interrupt):
    called = []
    before = signal.signal(signal.SIGTERM, lambda *_: called.append(1))
    interrupt(30, signal.SIGTERM)
    try:
        tree = run(tmp_path / "run.zarr")
    finally:
        signal.signal(signal.SIGTERM, before)
    assert called == [1]
    assert tree.attrs["interrupted"] == 1


def test_signals_are_left_alone_in_other_threads(tmp_path, run, uninterrupted, assert_same):
    found = []
    thread = threading.Thread(target=lambda: found.append(run(tmp_path / "run.zarr")))
    thread.start()
    thread.join()
    assert_same(found[0], uninterrupted)


@pytest.mark.parametrize("chains", [1, 2])
def test_divergence_is_stored_as_it_is_returned(tmp_path, run, resume, assert_same, chains):
    hot = isotherm.sgld(step_size=10.0)
    with pytest.warns(RuntimeWarning, match="diverged"):
        expected = run(sampler=hot, chains=chains)
    with pytest.warns(RuntimeWarning, match="diverged"):
        stored = run(tmp_path / "run.zarr", hot, chains=chains)
    assert_same(stored, expected)
    with pytest.warns(RuntimeWarning, match="diverged"):
        extended = resume(tmp_path / "run.zarr", steps=200)
    assert extended["posterior"].sizes["draw"] == 166
    assert np.isnan(extended["posterior"]["w"].values[:, -1]).all()


def test_a_full_disk_is_one_clear_message_and_resumable(tmp_path, run, resume, uninterrupted, assert_same, monkeypatch):
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
    assert_same(resume(tmp_path / "run.zarr"), uninterrupted)


def test_draws_are_cut():
    draws = {"position": np.arange(10.0).reshape(5, 1, 2), "friction": np.arange(5.0).reshape(5, 1)}
    parts = cut(draws, 2)
    assert [len(part["position"]) for part in parts] == [2, 3]
    for name, values in draws.items():
        np.testing.assert_array_equal(np.concatenate([part[name] for part in parts]), values)


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


def test_jobs_are_done_in_order_and_closing_waits_for_them():
    writer, done = Writer(), []
    for number in range(50):
        writer.put(lambda number=number: done.append(number))
    writer.close()
    assert done == list(range(50))
    assert not writer.thread.is_alive()
    writer.close()
    writer.check()


def test_who_hands_over_one_more_waits():
    writer, begun, go_on = Writer(waiting=1), threading.Event(), threading.Event()

    def slow():
        begun.set()
        go_on.wait()

    writer.put(slow)
    begun.wait()
    writer.put(go_on.wait)  # the one that may wait
    with pytest.raises(queue.Full):
        writer.jobs.put(print, block=False)
    go_on.set()
    writer.close()
