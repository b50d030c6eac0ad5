"""Draws stream to disk: the resident size of a run does not grow with their number."""

import subprocess
import sys

import pytest

PROGRAM = """
import sys, threading, time
import jax.numpy as jnp
import numpy as np
import isotherm
from isotherm.run import recorder

store, draws = sys.argv[1], int(sys.argv[2])

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096 / 1e6

seen = []
write_chunk = recorder.StoreRecorder.write_chunk

def watched(self, *arguments):
    write_chunk(self, *arguments)
    seen.append(resident())

recorder.StoreRecorder.write_chunk = watched
posterior = isotherm.Posterior(lambda theta, x: -jnp.sum((theta - x) ** 2), lambda theta: -jnp.sum(theta**2))
data = np.random.default_rng(0).standard_normal((50, 100), np.float32)
tree = isotherm.sample(
    posterior, isotherm.sgld(step_size=1e-3), data, jnp.zeros(100), batch_size=1,
    steps=draws, burn_in=0.0, thin=1, chains=1, store=store, progress=False,
)
assert tree["posterior"]["theta"].shape == (1, draws, 100)
assert np.isfinite(tree["posterior"]["theta"][0, -10:].values).all()
seen.append(resident())
print(seen[0], max(seen), len(seen), tree.attrs["sampling_time"])
"""


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_resident_memory_is_flat(tmp_path):
    """Kept in memory, these draws would take 400 MB."""
    draws = 1_000_000
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "run.zarr"), str(draws)]
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    first, most, chunks, seconds = map(float, out.split())
    print(f"{draws} draws: {first:.0f} MB after the first chunk, at most {most:.0f} MB, {seconds:.1f} s")
    assert chunks > draws / 10_000
    assert most - first < 200
