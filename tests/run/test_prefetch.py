"""What is read ahead for a step is what data in memory would have given it."""

import os
import time
from contextlib import closing
from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.tree_util import register_dataclass

import isotherm
from isotherm.data.batches import ExtraBatch
from isotherm.data.on_disk import open_data
from isotherm.data.on_disk.column import Column, DataError
from isotherm.run import prefetch
from isotherm.run.chains import chain_groups
from isotherm.run.loop import phase_key
from isotherm.run.prefetch import Feed
from isotherm.samplers.base import extra_batches
from isotherm.samplers.sgld import SGLD
from isotherm.targets.evaluation import FORCE


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(open_data, "KEPT_BYTES", 0)
    monkeypatch.setattr(open_data, "available", lambda: 0)
    monkeypatch.setattr(prefetch, "BLOCK_BYTES", 3 * 20 * 16 * 10)  # ten steps: 3 chains, 20 rows of 16 bytes


@pytest.fixture
def stored(data, tmp_path):
    for name, column in data.items():
        np.save(tmp_path / f"{name}.npy", column)
    return {name: np.load(tmp_path / f"{name}.npy", mmap_mode="r") for name in data}


def expected_rows(run, chain, steps):
    """The rows of each of these steps."""
    chain_key = chain_groups(run, 1)[0].keys()[chain]

    def rows(step):
        return run.batches.rows(jax.random.split(jax.random.fold_in(chain_key, step))[0])

    return np.asarray(jax.jit(jax.vmap(rows))(np.asarray(steps)))


def renewal_rows(run, chain, step):
    """The rows of each batch of the renewal before a step."""
    key = phase_key(chain_groups(run, 1)[0].keys()[chain], "renewal", jnp.asarray(step))
    return run.evaluation.row_numbers(key, extra_batches(run.sampler, "renewal", run.starts.shape[1], 20))


@pytest.mark.parametrize("groups", [3, pytest.param(1, marks=pytest.mark.slow)])
def test_each_step_of_each_chain_has_its_rows(make, stored, data, groups):
    run = make(isotherm.sgnht(0.01), data=stored)
    expected = [expected_rows(run, chain, range(35)) for chain in range(3)]
    with closing(Feed(run, chain_groups(run, groups))) as feed:
        ends = []
        for step in range(35):
            ahead = feed.at(step, limit=35)
            ends.append(ahead.last)
            for chain in range(3):
                block = ahead.blocks[chain if groups == 3 else 0]
                place = (0 if groups == 3 else chain), step - ahead.first
                rows = expected[chain][step]
                for name in data:
                    np.testing.assert_array_equal(block.batches["step"][FORCE].columns[name][place], data[name][rows])
    assert sorted(set(ends)) == [10, 20, 30, 35]


def test_from_any_step_and_further_than_was_planned(make, stored, data):
    """After a resume, and where a goal makes the plan longer."""
    run = make(isotherm.sgnht(0.01), data=stored)
    with closing(Feed(run, chain_groups(run, 3))) as feed:
        for step, limit, first, last in ((7, 12, 7, 12), (12, 40, 12, 22), (30, 40, 30, 40)):
            ahead = feed.at(step, limit)
            assert (ahead.first, ahead.last) == (first, last)
            (rows,) = expected_rows(run, 1, [first])
            np.testing.assert_array_equal(ahead.blocks[1].batches["step"][FORCE].columns["y"][0, 0], data["y"][rows])


@pytest.mark.slow
def test_a_block_ends_before_a_renewal_that_it_has_no_room_for(make, stored):
    run = make(isotherm.eccadl(0.01, every=2), data=stored)
    with closing(Feed(run, chain_groups(run, 3))) as feed:
        room, step = feed.programs.renewals, 0
        while step < 40:
            ahead = feed.at(step, 40)
            renewals = ahead.blocks[0].renewals
            due = [s for s in range(ahead.first, ahead.last) if s % 2 == 0 or s & (s - 1) == 0]
            assert [s for s in renewals if s >= 0] == due
            assert len(due) <= room
            assert step < ahead.last <= 40
            step = ahead.last


@register_dataclass
@dataclass(frozen=True)
class Hungry(SGLD):
    """A sampler with an extra batch in its first steps."""

    def extra_batches(self, phase, parameters, batch_size):
        return {"early": ExtraBatch(parameters + 3, until=4)} if phase == "step" else {}

    def step(self, key, state, noisy):
        force = jax.lax.cond(state.step < 4, lambda: noisy.on("early", state.position + 1).force, lambda: noisy.force)
        return super().step(key, state, replace(noisy, force=force))


def test_an_extra_batch_is_read_as_long_as_it_is_used(
    make, stored, data, posterior, init, monkeypatch, assert_same_run
):
    count, pick = [], Column.pick
    monkeypatch.setattr(Column, "pick", lambda self, rows, *to: (count.append(len(rows)), pick(self, rows, *to)))
    sampler = Hungry(**vars(isotherm.sgld(1e-3)))
    run = make(sampler, data=stored)
    with closing(Feed(run, chain_groups(run, 3))) as feed:
        steps = feed.programs.steps
        ahead = feed.at(0, steps)
        assert count == [3 * (4 * (20 + 7) + (steps - 4) * 20)] * 2
        key = phase_key(chain_groups(run, 1)[0].keys()[2], "step", jnp.int32(3))
        rows = run.evaluation.row_numbers(key, {"early": ExtraBatch(7)})["early"]
        np.testing.assert_array_equal(ahead.blocks[2].batches["step"]["early"].columns["y"][0, 3], data["y"][rows])
    settings = {"batch_size": 20, "steps": 30, "chains": 2, "burn_in": 0, "thin": 1, "progress": False}
    trees = [isotherm.sample(posterior, sampler, each, init, **settings) for each in (data, stored)]
    assert_same_run(*trees)


@pytest.mark.slow
def test_a_renewal_as_large_as_a_block(make, stored, data, monkeypatch):
    """There is one room for it. What is in it does not change before the steps that need it are made."""
    monkeypatch.setattr(prefetch, "BLOCK_BYTES", 3 * 20 * 16 * 4)  # four steps, less than a renewal's rows
    run = make(isotherm.eccadl(0.01, every=3), data=stored)
    with closing(Feed(run, chain_groups(run, 3))) as feed:
        assert feed.programs.renewals == 1
        assert feed.rooms[0]["renewal"] is feed.rooms[1]["renewal"]
        step, found = 0, 0
        while step < 60:
            ahead = feed.at(step, 60)
            if feed.next is not None:
                feed.next[1].result()  # the next is there, and has not changed this one
            (renewal,) = ahead.blocks[1].renewals
            if renewal >= 0:
                expected = renewal_rows(run, 1, renewal)
                for name, batch in ahead.blocks[1].batches["renewal"].items():
                    np.testing.assert_array_equal(batch.columns["y"][0, 0], data["y"][expected[name]])
                found += 1
            step = ahead.last
    assert found >= 20


@pytest.mark.slow
def test_batches_of_successive_steps_are_independent(make, data, stored, monkeypatch):
    """The variance of the mean of 20 successive batches is a twentieth of that of one, within five standard errors of
    the ratio of two variances; batches that make up an epoch would have almost none. The same for one chain's batches
    and for those of all chains at one step."""
    monkeypatch.setattr(prefetch, "BLOCK_BYTES", 2**20)
    run, steps, window = make(isotherm.sgnht(0.01), data=stored), 4000, 20
    means = []
    with closing(Feed(run, chain_groups(run, 3))) as feed:
        while len(means) < steps:
            ahead = feed.at(len(means), steps)
            y = np.stack([np.asarray(block.batches["step"][FORCE].columns["y"])[0] for block in ahead.blocks], axis=1)
            means += list(y[: ahead.last - ahead.first].mean(axis=2))
    means = np.array(means) - data["y"].mean()

    def ratio(means):
        return window * means.reshape(-1, window, means.shape[1]).mean(axis=1).var() / means.var()

    error = 5 * np.sqrt(2 * window / means.size)
    assert abs(ratio(means) - 1) < error
    assert abs(means.var() / (data["y"].var() / 20) - 1) < 5 * np.sqrt(2 / means.size)
    assert abs(3 * means.mean(axis=1).var() / means.var() - 1) < 5 * np.sqrt(2 * 3 / means.size)
    rng = np.random.default_rng(0)
    epochs = np.concatenate([rng.permutation(data["y"]).reshape(10, 20).mean(axis=1) for _ in range(400)])[:, None]
    assert ratio(epochs - data["y"].mean()) < 1 - error  # this test would see it


def test_a_fault_is_told_and_can_be_mended(make, stored, data, tmp_path):
    run = make(isotherm.sgnht(0.01), data=stored)
    whole = (tmp_path / "x.npy").read_bytes()
    with closing(Feed(run, chain_groups(run, 3))) as feed:
        feed.at(0, 100)
        feed.forget()
        os.truncate(tmp_path / "x.npy", 200)
        with pytest.raises(DataError, match=r"x\.npy has 200 bytes"):
            feed.at(10, 100)
        with open(tmp_path / "x.npy", "r+b") as file:  # the same file, mended
            file.write(whole)
        np.testing.assert_array_equal(
            feed.at(10, 100).blocks[2].batches["step"][FORCE].columns["x"][0, 0],
            data["x"][expected_rows(run, 2, [10])[0]],
        )


def test_room_begins_with_cache_lines(make, stored):
    run = make(isotherm.sgnht(0.01), data=stored)
    with closing(Feed(run, chain_groups(run, 3))) as feed:
        offsets = [offset for group in feed.rooms[0]["step"].offsets for offset in group.values()]
        assert all(offset % prefetch.ALIGNED_ROWS == 0 for offset in offsets)
        assert feed.rooms[0]["step"].arrays[0].ctypes.data % 64 == 0


def test_rows_that_another_process_copies(make, stored, data, tmp_path, monkeypatch):
    """The same rows before it is there, with it, and after it was killed; then a file that becomes shorter is told."""
    monkeypatch.setattr(prefetch, "READER_SECONDS", 0.0)
    run, step, later = make(isotherm.sgnht(0.01), data=stored), 0, 0
    with closing(Feed(run, chain_groups(run, 3))) as feed:
        deadline = time.monotonic() + 60
        while later < 6 and time.monotonic() < deadline:
            ahead = feed.at(step, 10**6)
            for name in data:
                found = ahead.blocks[2].batches["step"][FORCE].columns[name][0, 0]
                np.testing.assert_array_equal(found, data[name][expected_rows(run, 2, [step])[0]])
            later += feed.reader.is_ready
            if later == 3:
                feed.forget()
                feed.reader.process.kill()
            step = ahead.last
        assert later == 6
        feed.forget()
        os.truncate(tmp_path / "x.npy", 200)
        with pytest.raises(DataError, match=r"x\.npy has 200 bytes"):
            feed.at(step, 10**6)
