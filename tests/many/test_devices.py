"""Several devices: the draws are those of one, up to the order of summation. One process with eight devices makes them
all, since how many there are is fixed when JAX starts."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

PROGRAM = Path(__file__).with_name("devices_program.py")
# In float64 sums differ by 1e-15 of their size; chaos, in a hundred steps of these chains, makes it no more than 1e-12.
TOLERANCE = 1e-8


def printed(*arguments):
    done = subprocess.run([sys.executable, PROGRAM, *arguments], capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_draws_on_several_devices_are_those_of_one(tmp_path):
    found = printed("few", tmp_path)
    assert len(found) == 10
    assert {name: difference for name, difference in found.items() if not difference < TOLERANCE} == {}


@pytest.mark.long
def test_draws_are_the_same_whatever_is_sampled_and_however_it_is_spread():
    found = printed("all")
    assert len(found) == 42
    assert {name: difference for name, difference in found.items() if not difference < TOLERANCE} == {}
