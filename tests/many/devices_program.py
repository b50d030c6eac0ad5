"""Run by test_devices.py with eight devices: draws on some of them beside those on one. Prints a line of JSON."""

import functools
import json
import sys
import warnings

import jax
import jax.numpy as jnp
import numpy as np

import isotherm
from isotherm.data import sharded
from isotherm.data.batches import ExtraBatch
from isotherm.data.on_disk import open_data
from isotherm.run.assemble import RunSettings, assemble
from isotherm.run.on_devices import SpreadChains

jax.config.update("jax_num_cpu_devices", 8)
jax.config.update("jax_enable_x64", True)
warnings.simplefilter("ignore", isotherm.VerdictWarning)
ROWS, PARAMETERS = 1003, 4  # not a multiple of any number of devices
rng = np.random.default_rng(0)
x = rng.standard_normal((ROWS, PARAMETERS)) * np.linspace(0.5, 2, ROWS)[:, None]  # leverages grow with the row's number
data = {"x": x, "y": np.where(rng.random(ROWS) < 1 / (1 + np.exp(-x.sum(axis=1))), 1.0, -1.0)}
posterior = isotherm.Posterior(
    lambda theta, row: -jax.nn.softplus(-row["y"] * (row["x"] @ theta)), lambda theta: -0.5 * jnp.sum(theta**2)
)
anchored = isotherm.anchor(posterior, data, jnp.zeros(PARAMETERS), progress=False)
mccadl = isotherm.mccadl(step_size=1e-3, friction=10.0)
CASES = {
    "plain": (posterior, isotherm.mccadl(step_size=1e-3, friction=10.0), {"batch_size": 60}),
    "anchored": (anchored, isotherm.mccadl(step_size=0.1, friction=1.0), {}),
    "without replacement": (posterior, isotherm.sgld(1e-4), {"batch_size": 60, "replace": False}),
    "all rows": (posterior, isotherm.sgld(1e-4), {"batch_size": ROWS, "replace": False}),
    "eccadl": (posterior, isotherm.eccadl(), {"batch_size": 60}),
    "anchored eccadl": (anchored, isotherm.eccadl(), {}),
    "low-rank eccadl": (posterior, isotherm.eccadl(covariance="low_rank", rank=2), {"batch_size": 60}),
}


def draws(case, devices, spread="chains", data=data, **settings):
    model, sampler, more = CASES[case]
    init = None if model is anchored else jnp.zeros(PARAMETERS)
    settings = {"steps": 100, "burn_in": 0.1, "thin": 3, "chains": 3, "progress": False} | more | settings
    tree = isotherm.sample(model, sampler, data, init, devices=devices, spread=spread, **settings)
    numbers = [
        tree["posterior"]["theta"],
        tree["posterior_variance"]["theta"],
        *tree["sample_stats"].data_vars.values(),
    ]
    return np.concatenate([np.ravel(array.values.astype(np.float64)) for array in numbers])


@functools.cache
def draws_of_one(case):
    return draws(case, 1)


def differences(cases):
    """The largest difference from one device, by case."""
    found = {}
    for case, devices, spread in cases:
        one, many = draws_of_one(case), draws(case, devices, spread)
        assert np.ptp(one) > 0.1
        found[f"{case}, {spread} over {devices}"] = float(np.max(abs(one - many)))
    return found


def operators():
    """S and K of a batch spread over devices, beside the same batch on one."""

    def asked(noisy):
        v, S = jnp.arange(1.0, 1 + PARAMETERS), noisy.covariance.whitened(jnp.linspace(1, 2, PARAMETERS))
        products = [S.matvec(v), *S.halves(v), noisy.curvature.matvec(v)]
        return jnp.concatenate([noisy.force, *products, S.dense().ravel(), S.diagonal(), S.trace()[None]])

    def program(key, position, columns, evaluation):
        first, _ = evaluation.noisy(key, position, columns, {"larger": ExtraBatch(200)})
        return jnp.concatenate([asked(first), asked(first.on("larger", position))])

    settings = {"replace": True, "chains": 1, "seed": 0, "name": None, "batch_size": 60}
    run = assemble(posterior, mccadl, data, jnp.zeros(PARAMETERS), RunSettings(devices=8, spread="rows", **settings))
    P = jax.sharding.PartitionSpec
    spread = jax.jit(
        jax.shard_map(
            program, mesh=run.shards.mesh, in_specs=(P(), P(), P("rows"), P()), out_specs=P(), check_vma=False
        )
    )
    key, position = jax.random.key(5), jnp.linspace(-1, 1, PARAMETERS)
    one = jax.jit(program)(key, position, jax.tree.map(jnp.asarray, data), run.evaluation)
    return float(np.max(abs(one / spread(key, position, run.shards, run.evaluation) - 1)))


def little_room():
    """Batches often have more rows on a device than there is room for: the draws are still the same."""
    calls, usual, advanced = [], sharded.OVERFLOW, SpreadChains._advanced
    sharded.OVERFLOW = 0.01
    SpreadChains._advanced = lambda *arguments: (calls.append(arguments[3:]), advanced(*arguments))[1]
    try:
        difference = differences([("plain", 2, "rows")]).popitem()[1]
    finally:
        sharded.OVERFLOW, SpreadChains._advanced = usual, advanced
    assert len(set(calls)) < len(calls), "no step was repeated"
    return difference


def on_disk(folder):
    """The largest difference of draws from data on disk on several devices, which hold them in their memory."""
    open_data.KEPT_BYTES, open_data.available = 0, lambda: 0  # they are not read into memory before
    for name, column in data.items():
        np.save(f"{folder}/{name}.npy", column)
    stored = {name: np.load(f"{folder}/{name}.npy", mmap_mode="r") for name in data}
    cases = (("plain", None, "chains"), ("plain", 4, "rows"), ("plain", 3, "chains"), ("anchored", 2, "rows"))
    return max(float(np.max(abs(draws_of_one(case) - draws(case, *how, data=stored)))) for case, *how in cases)


def resumed(folder):
    """A run that began on four devices by rows goes on on three by chains."""
    straight = draws_of_one("plain")
    store = f"{folder}/run.zarr"
    draws("plain", 4, "rows", steps=40, burn_in=0.25, store=store)  # ten steps, as a tenth of a hundred
    tree = isotherm.resume(store, posterior, data, steps=60, devices=3, progress=False)
    theta = tree["posterior"]["theta"].values.ravel()
    return float(np.max(abs(straight[: theta.size] - theta)))


if __name__ == "__main__":
    if sys.argv[1] == "all":
        cases = [(case, devices, spread) for case in CASES for devices in (2, 4, 8) for spread in ("chains", "rows")]
        print(json.dumps(differences(cases)))
    else:
        plain = [("plain", 2, "chains"), ("plain", 8, "chains"), ("plain", 4, "rows"), ("all rows", 8, "rows")]
        few = differences([*plain, ("anchored", 2, "rows"), ("anchored", 8, "rows")])
        few |= {"operators": operators(), "little room": little_room(), "resumed": resumed(sys.argv[2])}
        few["on disk"] = on_disk(sys.argv[2])
        print(json.dumps(few))
