"""Whether the draws of this checkout are, bit for bit, those of another: every sampler, `fit` and the demo's table.

.venv/bin/python benchmarks/same_draws.py PATH-OF-THE-OTHER-CHECKOUT [part of a case's name]

Each checkout runs in a process of its own, with its own `src`, on the Python that runs this; public names only.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parents[1]
CHILD = """
import hashlib, json, os, sys, tempfile, warnings
import jax, jax.numpy as jnp, numpy as np
import isotherm
warnings.simplefilter("ignore")
rng = np.random.default_rng(1)
x = rng.normal(size=(3000, 6)).astype(np.float32)
y = (rng.random(3000) < 1 / (1 + np.exp(-x @ np.linspace(-1, 1, 6)))).astype(np.float32)
data, start = {"x": x, "y": y}, jnp.zeros(6)
model = isotherm.Posterior(
    lambda w, row: -jnp.logaddexp(0.0, jnp.where(row["y"] > 0, -1.0, 1.0) * (row["x"] @ w)),
    lambda w: -0.5 * jnp.sum(w**2),
)
few = {name: column[:400] for name, column in data.items()}
groups = {**few, "g": np.arange(400, dtype=np.int32) % 10}
hierarchy = isotherm.Posterior(
    lambda p, row: -0.5 * (row["x"][0] - p["m"] - jnp.exp(p["s"]) * p["z"][row["g"]]) ** 2,
    lambda p: -0.5 * (p["m"] ** 2 + p["s"] ** 2 + jnp.sum(p["z"] ** 2)),
)
zeros = {"m": jnp.zeros(()), "s": jnp.zeros(()), "z": jnp.zeros(10)}
def sampled(sampler, **settings):
    settings = {"batch_size": 100, "steps": 1200, "chains": 2, "seed": 3, "progress": False} | settings
    return isotherm.sample(model, sampler, data, start, **settings)
cases = {
    "sgld": lambda: sampled(isotherm.sgld(1e-4)),
    "msgld": lambda: sampled(isotherm.msgld(1e-4)),
    "sghmc": lambda: sampled(isotherm.sghmc(1e-2)),
    "sgnht": lambda: sampled(isotherm.sgnht(1e-2)),
    "sgnht, BADODAB": lambda: sampled(isotherm.sgnht(1e-2, scheme="BADODAB")),
    "ccadl": lambda: sampled(isotherm.ccadl(1e-2)),
    "ccadl, diagonal": lambda: sampled(isotherm.ccadl(1e-2, covariance="diagonal")),
    "mccadl": lambda: sampled(isotherm.mccadl(1e-2)),
    "mccadl, taylor": lambda: sampled(isotherm.mccadl(1e-2, expm="taylor")),
    "mccadl, own batch (its key changes by design)": lambda: sampled(isotherm.mccadl(1e-2, covariance_batch="own")),
    "mccadl, auto": lambda: sampled(isotherm.mccadl("auto")),
    "eccadl": lambda: sampled(isotherm.eccadl()),
    "eccadl, h = 0.02": lambda: sampled(isotherm.eccadl(0.02)),
    "eccadl, low rank": lambda: sampled(isotherm.eccadl(0.02, covariance="low_rank", rank=3)),
    "eccadl, diagonal": lambda: sampled(isotherm.eccadl(0.02, covariance="diagonal")),
    "eccadl, a schedule": lambda: sampled(isotherm.eccadl(lambda step: 0.02 / (1 + 0.001 * step))),
    "eccadl, all rows": lambda: isotherm.sample(
        model, isotherm.eccadl(), few, start, batch_size=400, replace=False, steps=800, chains=2, progress=False),
    "eccadl, unequal probabilities": lambda: sampled(isotherm.eccadl(), probabilities=1 + np.arange(3000) % 3),
    "eccadl, far start": lambda: isotherm.sample(
        model, isotherm.eccadl(), data, start + 40, batch_size=100, steps=1200, chains=1, progress=False),
    "fit, anchored": lambda: isotherm.fit(model, data, start, ess=200, seed=2, progress=False),
    "fit, all rows": lambda: isotherm.fit(hierarchy, groups, zeros, ess=100, steps=4000, seed=2, progress=False),
    "fit, plain": lambda: isotherm.fit(model, data, start, anchored=False, steps=2000, seed=2, progress=False),
    "fit, stored": lambda: isotherm.fit(model, data, start, ess=200, progress=False, store=folder + "/run.zarr"),
    "demo": None,
}
folder = tempfile.mkdtemp()
chosen = sys.argv[1]
for name, run in cases.items():
    if chosen in name:
        if run is None:
            try:
                from isotherm.cli.app import app
            except ImportError:
                from isotherm.cli import app
            from typer.testing import CliRunner
            os.chdir(folder)
            lines = [line for line in CliRunner().invoke(app, ["demo"]).stdout.splitlines() if "figure" not in line]
            table = hashlib.sha256("\\n".join(lines).encode()).hexdigest()[:16]
            print(json.dumps([name, {"table": table}]), flush=True)
            continue
        tree, parts = run(), {}
        for group in ("posterior", "sample_stats", "posterior_mean", "posterior_variance"):
            for variable, values in sorted(tree[group].data_vars.items()):
                contents = np.ascontiguousarray(values.values).tobytes()
                parts[f"{group}/{variable}"] = hashlib.sha256(contents).hexdigest()[:16]
        print(json.dumps([name, parts]), flush=True)
"""


def digests(checkout: Path, chosen: str) -> dict[str, dict[str, str]]:
    """A digest of each variable, by case."""
    environment = os.environ | {"PYTHONPATH": str(checkout / "src")}
    child = subprocess.run([sys.executable, "-c", CHILD, chosen], env=environment, stdout=subprocess.PIPE, check=True)
    return dict(json.loads(line) for line in child.stdout.splitlines())


def main(other: Path, chosen: str) -> None:
    here, there = digests(HERE, chosen), digests(other, chosen)
    # A statistic that only one of them records is not compared.
    differ = [n for n in here if any(here[n][v] != there[n][v] for v in here[n].keys() & there[n].keys())]
    for name in here:
        print(f"{'differs' if name in differ else 'same   '}  {name}")
    sys.exit(f"{len(differ)} of {len(here)} cases differ" if differ else 0)


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), sys.argv[2] if len(sys.argv) > 2 else "")
