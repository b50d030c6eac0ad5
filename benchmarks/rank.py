"""What the rank of mCCAdL's Lanczos space does to the posterior: MNIST 7/9, three step sizes, three seeds.

.venv/bin/python benchmarks/rank.py
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np

import isotherm
from isotherm.diagnostics import log_losses
from problems import Case, logistic_mnist

STEP_SIZES = (1.2e-4, 5e-4, 1.2e-3)
SEEDS = (0, 1, 2)
PASSES = 200
SETTINGS: dict[str, dict[str, Any]] = {
    "dense": {"expm": "dense"},
    "default": {},
    **{f"rank {rank}": {"rank": rank} for rank in (12, 8, 6, 5, 4, 3, 2, 1)},
}


def loss(case: Case, sampler: Any, seed: int) -> float:
    """Posterior expected log loss on the test set."""
    tree = isotherm.sample(
        case.posterior, sampler, case.data, case.init, batch_size=case.batch_size, passes=PASSES, chains=1, thin=5,
        seed=seed, progress=False,
    )  # fmt: skip
    predicted = jax.vmap(lambda theta: case.model.predict(theta, case.test["x"]))(tree.posterior.theta.values[0])
    return float(log_losses(predicted, np.asarray(case.model.class_index(case.test["y"]))).mean())


def main() -> None:
    case = logistic_mnist()
    chosen = sys.argv[1:] or list(SETTINGS)
    found = []
    print(f"{case.name}, A = 1, {PASSES} passes; expected log loss, mean (each seed over {chosen[0]})\n")
    print(f"| | {' | '.join(f'h = {h:g}' for h in STEP_SIZES)} |\n|---|" + "---|" * len(STEP_SIZES))
    exact = {}
    for name in chosen:
        cells = []
        for h in STEP_SIZES:
            began = time.perf_counter()
            losses = [loss(case, isotherm.mccadl(h, 1.0, **SETTINGS[name]), seed) for seed in SEEDS]
            exact.setdefault(h, losses)
            relative = [a / b - 1 for a, b in zip(losses, exact[h], strict=True)]
            found.append({"setting": name, "step_size": h, "losses": losses, "seconds": time.perf_counter() - began})
            cells.append(f"{np.mean(losses):.4f} ({', '.join(f'{100 * r:+.2f} %' for r in relative)})")
        print(f"| {name} | {' | '.join(cells)} |", flush=True)
    folder = Path("out")
    folder.mkdir(exist_ok=True)
    (folder / "rank.json").write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
