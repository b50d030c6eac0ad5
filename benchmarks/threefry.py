"""Random numbers of a step from isotherm's keys beside the same numbers from JAX's: time within a compiled loop.

.venv/bin/python benchmarks/threefry.py
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from isotherm.data import threefry
from timing import ratio, turns

DRAWS: dict[str, Callable[[Any], Any]] = {
    "500 random words": lambda key: jax.random.bits(key, (500,)).astype(jnp.float32),
    "500 rows of 12,214": lambda key: jax.random.randint(key, (500,), 0, 12_214).astype(jnp.float32),
    "2 × 100 normals": lambda key: jax.random.normal(key, (200,)),
    "1,000,000 normals": lambda key: jax.random.normal(key, (1_000_000,)),
}


def repeated(key: Any, draw: Callable[[Any], Any], times: int) -> Callable[[], Any]:
    @jax.jit
    def run(key: Any) -> Any:
        start = jnp.zeros(jax.eval_shape(draw, key).shape)
        return jax.lax.fori_loop(0, times, lambda i, total: total + draw(jax.random.fold_in(key, i)), start)

    return lambda: run(key)


def main() -> None:
    print("| | µs, isotherm | µs, JAX | JAX / isotherm |\n|---|---|---|---|")
    for name, draw in DRAWS.items():
        times = 4 if "1,000,000" in name else 500
        keys = {"isotherm": threefry.key(0), "JAX": jax.random.key(0)}
        seconds = turns({who: repeated(key, draw, times) for who, key in keys.items()}, 21)
        each = {who: 1e6 * np.median(taken[:, 0]) / times for who, taken in seconds.items()}
        quotient = ratio(seconds["JAX"], seconds["isotherm"])
        print(f"| {name} | {each['isotherm']:.3g} | {each['JAX']:.3g} | {quotient} |", flush=True)


if __name__ == "__main__":
    main()
