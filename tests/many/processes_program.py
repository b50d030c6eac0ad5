"""One of several processes that share the rows of a small logistic regression; started by test_processes.py.

    python processes_program.py sample|endless|resume|refuse|full|numpyro FOLDER PROCESS PROCESSES PORT [KILLED_AFTER]

`sample` makes STEPS steps, `endless` a great many, `resume` goes on with them, `refuse` has data in its last process
that are no good, the disk of the first is full in the midst of `full`, and `numpyro` makes STEPS steps with the same
posterior as a model of NumPyro. With KILLED_AFTER, the process ends itself by SIGKILL in the first chunk of steps that
begins there or later.
"""

import os
import signal
import sys
import warnings

import jax
import jax.numpy as jnp
import numpy as np

import isotherm
from isotherm.run import recorder
from isotherm.run.on_devices import SpreadChains

PARAMETERS, ROWS, STEPS = 4, 1003, 300
action, folder, process, processes, port, *killed_after = sys.argv[1:]
process, processes = int(process), int(processes)
jax.config.update("jax_enable_x64", True)
if processes > 1:
    jax.distributed.initialize(f"127.0.0.1:{port}", processes, process)
warnings.simplefilter("ignore", isotherm.VerdictWarning)

rng = np.random.default_rng(0)
x = rng.standard_normal((ROWS, PARAMETERS))
data = {"x": x, "y": np.where(rng.random(ROWS) < 1 / (1 + np.exp(-x.sum(axis=1))), 1.0, -1.0)}
cuts = np.linspace(0, ROWS, processes + 1).astype(int) + np.array([0, *[7] * (processes - 1), 0])  # not equal parts
data = {name: column[cuts[process] : cuts[process + 1]] for name, column in data.items()}
posterior = isotherm.Posterior(
    lambda theta, row: -jax.nn.softplus(-row["y"] * (row["x"] @ theta)), lambda theta: -0.5 * jnp.sum(theta**2)
)
if action == "refuse" and process == processes - 1:
    data["x"][5, 2] = np.nan

recorder.CHECKPOINT_SECONDS = 0.0  # at every look, or nothing would be in the store when a process is killed
recorder.CHECKPOINT_SHARE = 1.0
if killed_after:
    advance = SpreadChains.advance

    def advance_or_die(chains, plan, first, last):
        if first >= int(killed_after[0]):
            os.kill(os.getpid(), signal.SIGKILL)
        return advance(chains, plan, first, last)

    SpreadChains.advance = advance_or_die

if action == "full" and process == 0:
    checkpoint = recorder.StoreRecorder.checkpoint

    def checkpoint_or_fail(recorder, snapshot):
        if snapshot.step >= 100:
            raise isotherm.StoreError(28, "there is no space left")
        checkpoint(recorder, snapshot)

    recorder.StoreRecorder.checkpoint = checkpoint_or_fail

store = f"{folder}/run.zarr"
if action == "numpyro":
    import numpyro
    import numpyro.distributions as dist

    def model(x, y):
        theta = numpyro.sample("theta", dist.Normal(0, 1).expand([PARAMETERS]).to_event(1))
        with numpyro.plate("rows", len(y)):
            numpyro.sample("y", dist.Bernoulli(logits=x @ theta), obs=y)

    posterior = isotherm.from_numpyro(model, data | {"y": (1 + data["y"]) / 2})
    data, init = None, None
else:
    init = jnp.zeros(PARAMETERS)
if action == "resume":
    isotherm.resume(store, posterior, data, progress=False)
else:
    sampler = isotherm.mccadl(step_size=1e-3, friction=10.0)
    settings = {"batch_size": 60, "steps": 10**8 if action == "endless" else STEPS, "chains": 2, "progress": False}
    isotherm.sample(posterior, sampler, data, init, store=store, **settings)
