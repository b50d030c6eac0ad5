"""A run in a process of its own, for tests that break it: `program.py STORE STEPS` starts it or goes on with it, with
data in memory; `program.py STORE STEPS FOLDER` with data from that folder, in blocks of few steps.

It prints "running" once its first checkpoint is written, "done" when it is finished, "interrupted" after Ctrl-C.
"""

import signal
import sys
from pathlib import Path

import jax.numpy as jnp
import numpy as np

import isotherm
from isotherm.data.on_disk import open_data
from isotherm.run import prefetch, recorder, sample

recorder.CHECKPOINT_SECONDS, recorder.CHECKPOINT_SHARE, sample.CHUNK_DRAWS = 0.05, 1.0, 64

RNG = np.random.default_rng(0)
DATA = {"x": RNG.standard_normal((100, 3), np.float32), "y": RNG.standard_normal(100, np.float32)}
POSTERIOR = isotherm.Posterior(
    lambda theta, example: -0.5 * (example["y"] - example["x"] @ theta) ** 2,
    lambda theta: -0.5 * jnp.sum(theta**2),
)


def on_disk(folder):
    open_data.KEPT_BYTES, prefetch.BLOCK_BYTES = 0, 2**16  # nothing is read into memory for being small
    open_data.available = lambda: 0
    for name, column in DATA.items():
        if not (Path(folder) / f"{name}.npy").exists():
            np.save(Path(folder) / f"{name}.npy", column)
    return isotherm.datasets.open_arrays(folder)


def start(store, steps, data=DATA):
    return isotherm.sample(
        POSTERIOR,
        isotherm.ccadl(step_size=0.01, friction=2.0),
        data,
        jnp.zeros(3),
        batch_size=10,
        steps=steps,
        burn_in=0.1,
        thin=50,
        chains=2,
        seed=3,
        store=store,
        progress=False,
    )


def tell_when_running():
    """Say so after the first checkpoint."""
    written = recorder.StoreRecorder.write_checkpoint

    def telling(self, *arguments):
        written(self, *arguments)
        if not told:
            told.append(1)
            print("running", flush=True)

    told = []
    recorder.StoreRecorder.write_checkpoint = telling


def main(store, steps, folder=None):
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # nohup, or a shell, may have had it ignored
    tell_when_running()
    data = DATA if folder is None else on_disk(folder)
    if any((Path(store) / ".isotherm").glob("checkpoint-?")):
        tree = isotherm.resume(store, POSTERIOR, data, progress=False)
    else:
        tree = start(store, steps, data)
    print("interrupted" if tree.attrs["interrupted"] else "done", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), *sys.argv[3:])
