"""Our Lanczos action exp(−tS)v beside matfree's, on problem (a): speed at equal rank, and what breakdown does to each.

.venv/bin/python benchmarks/lanczos.py
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from matfree import decomp, funm

from isotherm.dynamics import matrix_exponential
from isotherm.dynamics.matrix_exponential import decay
from isotherm.targets.noisy import estimate
from isotherm.targets.target import as_target
from problems import Case, logistic_mnist
from timing import ratio, turns

APPLICATIONS = 300  # within one compiled loop, so that calling it costs nothing
REPEATS = 21


def ours(matvec: Any, t: Any, v: Any, rank: int) -> Any:
    norm, space = matrix_exponential.krylov(matvec, v, rank)
    return norm * (decay(t * space.alphas, t * space.betas)[0] @ space.basis)


def matfrees(matvec: Any, t: Any, v: Any, rank: int) -> Any:
    action = funm.funm_lanczos_sym(funm.dense_funm_sym_eigh(lambda s: jnp.exp(-t * s)), decomp.tridiag_sym(rank))
    return action(matvec, v)


ACTIONS: dict[str, Callable[..., Any]] = {"ours": ours, "matfree": matfrees}


def repeated(case: Case, action: Callable[..., Any], rank: int) -> Callable[[], Any]:
    """Many applications, each to a vector that depends on the one before."""
    batch = jax.tree.map(lambda column: jnp.asarray(column[: case.batch_size]), case.data)

    @jax.jit
    def run(theta: Any, v: Any, batch: Any, t: Any) -> Any:
        covariance = estimate(as_target(case.posterior), theta, batch, population=case.population).covariance

        def body(_: Any, u: Any) -> Any:
            return v + 0.1 * action(covariance.matvec, t, u, rank)

        return jax.lax.fori_loop(0, APPLICATIONS, body, v)

    theta = jnp.zeros(case.d)
    v = jax.random.normal(jax.random.key(1), (case.d,))
    t = jnp.float32(case.step_size**2 / 2)
    return lambda: run(theta, v, batch, t)


def breakdown(action: Callable[..., Any]) -> dict[str, str]:
    """‖result‖/‖v‖ in float32 where a Krylov space ends early; it must be finite, and at most 1."""
    d, rank = 50, 8
    v = jax.random.normal(jax.random.key(2), (d,))
    direction = jnp.ones(d) / jnp.sqrt(d)
    rotation = jnp.linalg.qr(jax.random.normal(jax.random.key(3), (d, d)))[0]
    spread = (rotation * jnp.linspace(0, 1e8, d)) @ rotation.T
    cases = {
        "v = 0": (jnp.zeros((d, d)), jnp.zeros(d)),
        "S = 0": (jnp.zeros((d, d)), v),
        "S of rank 1": (jnp.outer(direction, direction), v),
        "S of rank 1, ‖tS‖ = 1e8": (1e8 * jnp.outer(direction, direction), v),
        "S of full rank, ‖tS‖ = 1e8": (spread, v),
    }
    said = {}
    for name, (S, x) in cases.items():
        found = action(lambda u, S=S: S @ u, jnp.float32(1), x, rank)
        finite = bool(jnp.isfinite(found).all())
        growth = float(np.linalg.norm(found) / max(float(np.linalg.norm(x)), 1e-30))
        said[name] = f"{growth:.4g}" if finite else "not finite"
    return said


def main() -> None:
    case = logistic_mnist()
    print(f"{case.name}, n = {case.batch_size}, d = {case.d}; matfree / ours, {REPEATS} turns, median (quartiles)\n")
    print("| rank | µs, ours | µs, matfree | matfree / ours |\n|---|---|---|---|")
    for rank in (4, 6, 8, 16):
        seconds = turns({name: repeated(case, action, rank) for name, action in ACTIONS.items()}, REPEATS)
        each = {name: 1e6 * np.median(times[:, 0]) / APPLICATIONS for name, times in seconds.items()}
        quotient = ratio(seconds["matfree"], seconds["ours"])
        print(f"| {rank} | {each['ours']:.0f} | {each['matfree']:.0f} | {quotient} |", flush=True)
    ours_said, matfree_said = breakdown(ours), breakdown(matfrees)
    print("\n| ‖exp(−tS)v‖/‖v‖ in float32, rank 8 | ours | matfree |\n|---|---|---|")
    for name in ours_said:
        print(f"| {name} | {ours_said[name]} | {matfree_said[name]} |")


if __name__ == "__main__":
    main()
