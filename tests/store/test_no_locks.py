"""Where there are no file locks, as on Windows, everything works but storing, which is refused in a sentence."""

import subprocess
import sys

import pytest

PROGRAM = """
import sys
sys.modules["fcntl"] = None
import jax.numpy as jnp, numpy as np, isotherm
posterior = isotherm.Posterior(lambda t, x: -0.5 * jnp.sum((x - t) ** 2), lambda t: -0.5 * jnp.sum(t**2))
settings = dict(batch_size=5, steps=30, chains=1, progress=False)
call = posterior, isotherm.sgld(0.01), np.ones((50, 2), np.float32), np.zeros(2, np.float32)
print(isotherm.sample(*call, **settings).posterior.sizes["draw"])
try:
    isotherm.sample(*call, **settings, store=sys.argv[1])
except isotherm.StoreError as error:
    print(error)
"""


@pytest.mark.slow
def test_sampling_needs_no_fcntl(tmp_path):
    arguments = [sys.executable, "-W", "ignore", "-c", PROGRAM, tmp_path / "run.zarr"]
    done = subprocess.run(arguments, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    draws, refusal = done.stdout.splitlines()
    assert int(draws) == 2
    assert refusal.startswith("a store needs the file locks of Unix")
