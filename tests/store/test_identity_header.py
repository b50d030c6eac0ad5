"""A header is written as JSON and read with suspicion: what it must hold is there and of the right type."""

import copy
import dataclasses
import json
import re

import numpy as np
import pytest

import isotherm
from isotherm.data.batches import Batches
from isotherm.run.assemble import RunSettings, assemble
from isotherm.run.plan import Goal, Plan
from isotherm.run.resume import goal_of
from isotherm.run.sample import new_header
from isotherm.store.identity import SHAPE, Header

HEADER = Header(
    sampler={"name": "sgld", "settings": {"step_size": 0.01, "temperature": 1.0, "mass": None}},
    batches=Batches(40, 8, replace=False),
    plan=Plan(400, 100, 3)._asdict(),
    chains=2,
    seed=5,
    name="mine",
    layout={"leaves": [{"name": "['w']", "shape": [2], "dtype": "float32"}], "nest": {"dict": ["w"], "of": ["leaf"]}},
    data=[{"name": "data", "shape": [40, 2], "dtype": "float32", "sha256": "0" * 64}],
    model={"log_likelihood": [[-1.5, -2.0], [-3.0, float("nan")]], "log_prior": [-0.5, float("-inf")]},
    numerics={"jax_enable_x64": "False"},
    versions={"isotherm": "0.2.0"},
    chunk=16,
    constants="",
    notes={},
    goal={},
    serial=3,
    step=250,
    seconds=1.5,
    draws=50,
    digests={"posterior/w/c/0/0/0": "1" * 64},
)


def as_read(written):
    return Header.from_json(json.loads(json.dumps(written.to_json())))


def test_read_as_it_was_written():
    again = as_read(HEADER)
    assert repr(again) == repr(HEADER)  # NaN is not equal to itself
    assert again.plan == HEADER.plan
    assert type(again.batches) is Batches
    assert as_read(dataclasses.replace(HEADER, name=None)).name is None


def entries(shape, *path):
    """The path to every entry that a header must have, 0 standing for each of a list, and what it must be."""
    if path:
        yield path, shape
    for key in shape if isinstance(shape, dict) else [0] if isinstance(shape, list) else []:
        yield from entries(shape[key], *path, key)


def in_words(path):
    return "header" + "".join("[]" if key == 0 else f".{key}" for key in path)


WRONG = {int: [None, -1, 1.0, True], float: [None, 1], bool: [None, 1], str: [None, 1], dict: [None, 1]}
ENTRIES = [(path, shape) for path, shape in entries(SHAPE) if not isinstance(shape, tuple)]


@pytest.mark.parametrize(("path", "shape"), ENTRIES, ids=[in_words(path) for path, _ in ENTRIES])
def test_an_entry_of_another_type_is_refused_by_name(path, shape):
    for wrong in WRONG[shape if isinstance(shape, type) else dict]:  # 1 is no list either
        content = copy.deepcopy(HEADER.to_json())
        inside = content
        for key in path[:-1]:
            inside = inside[key]
        inside[path[-1]] = wrong
        with pytest.raises(ValueError, match=f"^{re.escape(in_words(path))} is (not an object|not a list|{wrong}$)"):
            Header.from_json(content)


def test_a_missing_entry_is_refused():
    for name in SHAPE:
        content = {key: value for key, value in HEADER.to_json().items() if key != name}
        with pytest.raises(ValueError, match=f"^header is not an object with {', '.join(SHAPE)}$"):
            Header.from_json(content)


@pytest.mark.parametrize(("part", "entry"), [(None, "chunk"), ("plan", "thin"), ("batches", "size")])
def test_a_size_of_zero_is_refused(part, entry):
    content = HEADER.to_json()
    (content if part is None else content[part])[entry] = 0
    with pytest.raises(ValueError, match="a size in it is zero"):
        Header.from_json(content)


GOAL = {"ess": 400.0, "most_steps": 1000, "seconds": None}


def test_a_goal_is_read_as_it_was_written():
    with_goal = dataclasses.replace(HEADER, goal=GOAL, constants="2" * 64, notes={"fit_method": "plain eccadl"})
    again = as_read(with_goal)
    assert repr(again) == repr(with_goal)
    assert goal_of(HEADER) is None
    assert goal_of(again) == Goal(400.0, 1000, None)


def test_a_goal_whose_time_was_up_has_as_much_again():
    """After 1.5 seconds."""
    until = [goal_of(dataclasses.replace(HEADER, goal=GOAL | {"seconds": seconds})).seconds for seconds in (1.0, 2.0)]
    assert until == [2.5, 2.0]


@pytest.mark.parametrize(
    "wrong",
    [
        {"goal": GOAL | {"ess": "400"}},
        {"goal": GOAL | {"most_steps": None}},
        {"goal": GOAL | {"seconds": "1"}},
        {"goal": {"ess": 400.0}},
        {"goal": []},
        {"notes": "none"},
        {"constants": 1},
        {"name": 1},
    ],
    ids=str,
)
def test_a_goal_or_a_name_of_another_form_is_refused(wrong):
    (name,) = wrong
    with pytest.raises(ValueError, match=rf"header\.{name}(\.\w+)? is "):
        Header.from_json(HEADER.to_json() | wrong)


def test_a_new_header_says_what_the_run_is(posterior, data, init, monkeypatch):
    sampler = isotherm.sgld(step_size=0.01, mass=np.array([1.0, 2.0, 3.0], np.float32))
    run = assemble(
        posterior, sampler, data, init, RunSettings(batch_size=8, replace=True, chains=2, seed=5, name="mine")
    )
    made = new_header(run, Plan(**HEADER.plan))
    assert "mass" not in made.sampler["settings"]
    assert (made.sampler["name"], made.batches, made.plan) == ("sgld", Batches(40, 8), HEADER.plan)
    assert (made.chains, made.seed, made.name, made.serial, made.step) == (2, 5, "mine", -1, 0)
    assert made.chunk == 16  # `small_chunks` of conftest.py
    monkeypatch.setattr("isotherm.run.sample.CHUNK_BYTES", 100)  # 2 chains of 3 parameters are 24 bytes a draw
    assert new_header(run, Plan(**HEADER.plan)).chunk == 4
    first = dataclasses.replace(made, serial=0)  # the first that is written
    assert repr(as_read(first)) == repr(first)
