"""What a prefetch of a batch's rows, before they are gathered, saves: rows of d float32 out of N.

.venv/bin/python benchmarks/gather.py
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from isotherm.data import batches, threefry
from isotherm.run.loop import ONE_THREAD
from timing import ratio, turns

SIZES = (
    *((10**5, 20), (10**6, 20), (10**7, 20)),
    *((6 * 10**6, 4), (3 * 10**6, 8), (3 * 10**6, 16), (3 * 10**6, 48), (10**6, 100), (10**6, 200), (10**6, 400)),
)
STEPS, ROWS, REPEATS = 2000, 500, 9


def steps(x: Any, look: Callable[[Any, Any], Any]) -> Callable[[], Any]:
    """Steps of a random batch and two products with it, on one thread."""

    def run(theta: Any, x: Any, key: Any) -> Any:
        def body(step: Any, theta: Any) -> Any:
            rows = jax.random.randint(jax.random.fold_in(key, step), (ROWS,), 0, x.shape[0])
            batch = x[look(rows, x)]
            return theta + 1e-6 * (jnp.tanh(batch @ theta) @ batch)

        return jax.lax.fori_loop(0, STEPS, body, theta)

    fast = jax.jit(run, compiler_options=ONE_THREAD)
    return lambda: fast(jnp.zeros(x.shape[1]), x, threefry.key(1))


def main() -> None:
    print("| N | d | MB | without prefetch / with it | done by default |\n|---|---|---|---|---|")
    for N, d in SIZES:
        x = jnp.asarray(np.random.default_rng(0).standard_normal((N, d), np.float32))
        ways = {"with": batches.prefetch, "without": lambda rows, _: rows}
        taken = turns({name: steps(x, look) for name, look in ways.items()}, REPEATS)
        found = ratio(taken["without"], taken["with"])
        print(
            f"| {N:,} | {d} | {x.nbytes / 1e6:.0f} | {found} | {'yes' if batches.waits_for_memory(x) else 'no'} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
