"""The table of marks: what a step of isotherm costs beside its limit, its peers and itself, in one run.

make bench                                    # all of it
.venv-bench/bin/python benchmarks/run.py steps action   # some sections
"""

import importlib.metadata
import json
import os
import platform
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import isotherm
from contestants import bare, compiled, isotherms
from cost import cost
from isotherm.dynamics import matrix_exponential
from isotherm.run.execute import one_lapack_thread
from isotherm.targets.noisy import estimate
from isotherm.targets.target import as_target
from peers import blackjax_loop, blackjax_scan, posteriors_loop
from problems import Case, drbm_letter, linear, logistic_mnist, logistic_wide, network
from settling import settling as study
from table import Row, at_least, at_most, microseconds
from timing import ratio, turns

OUT = Path("out") / "bench"
VERSIONS = ("isotherm", "jax", "jaxlib", "numpy", "scipy", "blackjax", "posteriors", "torch")


def steps_mnist(repeats: int) -> list[Row]:
    """(a): the limit, mCCAdL at three step sizes, eCCAdL; runs of 300 passes from the start, renewals and all."""
    case, steps = logistic_mnist(), 7328
    runs: dict[str, Callable[[], Any]] = {
        "bare limit": bare(case, steps),
        "sgnht": isotherms(case, isotherm.sgnht(1.2e-4), steps),
        **{f"mccadl, h = {h:g}": isotherms(case, isotherm.mccadl(h), steps) for h in (1.2e-4, 5e-4, 1.2e-3)},
        "eccadl": isotherms(case, isotherm.eccadl(), steps),
    }
    taken = {name: seconds / steps for name, seconds in turns(runs, repeats).items()}
    ours = taken["sgnht"]
    rows = [at_most("our sgnht / bare limit, (a)", 1.3, ratio(ours, taken["bare limit"]))]
    for name in taken:
        if "ccadl" in name:
            mark = 1.6 if name == "eccadl" else 2.0
            rows.append(at_most(f"our {name} / our sgnht, (a)", mark, ratio(taken[name], ours)))
    return rows + [microseconds(f"a step of {name}, (a)", seconds, 1) for name, seconds in taken.items()]


def peers_mnist(repeats: int) -> list[Row]:
    """(a): BlackJAX and posteriors."""
    case, steps, few = logistic_mnist(), 2000, 20
    jaxed = ("sgld", "sghmc", "sgnht")
    runs: dict[str, Callable[[], Any]] = {
        "isotherm sgnht": isotherms(case, isotherm.sgnht(1.2e-4), steps),
        **{f"BlackJAX {name}, scan": blackjax_scan(case, name, steps, 1e-5) for name in jaxed},
        **{f"BlackJAX {name}, loop": blackjax_loop(case, name, few, 1e-5) for name in jaxed},
        **{f"posteriors {name}": posteriors_loop(case, name, few, 1e-6) for name in (*jaxed, "baoa")},
    }
    counts = {name: few if "loop" in name or "posteriors" in name else steps for name in runs}
    taken = {name: seconds / counts[name] for name, seconds in turns(runs, repeats).items()}
    ours = taken["isotherm sgnht"]
    return [
        at_most("our sgnht / BlackJAX sgnht in a scan, (a)", 1.0, ratio(ours, taken["BlackJAX sgnht, scan"])),
        at_least("BlackJAX's documented loop / our sgnht, (a)", 6, ratio(taken["BlackJAX sgnht, loop"], ours)),
        at_least("posteriors sgnht / our sgnht, (a)", 15, ratio(taken["posteriors sgnht"], ours)),
        *(microseconds(f"a step of {name}, (a)", seconds, 1) for name, seconds in taken.items()),
    ]


def steps_elsewhere(repeats: int) -> list[Row]:
    """(b), (c), (d): what the correction costs."""
    rows = []
    for case, steps, mark, sizes in (
        (logistic_wide(), 500, 2.0, (1e-4, 3e-4, 1e-3)),
        (drbm_letter(), 4, 2.5, (5e-3,)),
        (network(), 2, 4.0, (1e-4,)),
    ):
        runs = {"sgnht": isotherms(case, isotherm.sgnht(case.step_size), steps)}
        runs |= {f"mccadl, h = {h:g}": isotherms(case, isotherm.mccadl(h), steps) for h in sizes}
        taken = turns(runs, repeats)
        for name in list(taken)[1:]:
            rows.append(at_most(f"our {name} / our sgnht, {case.name}", mark, ratio(taken[name], taken["sgnht"])))
        rows += [microseconds(f"a step of {name}, {case.name}", seconds, steps) for name, seconds in taken.items()]
    return rows


def steps_network(repeats: int) -> list[Row]:
    """eCCAdL's low-rank covariance in a network of 203,530 parameters, the first 200 steps."""
    case, steps = network(256), 200
    runs = {
        "sgnht": isotherms(case, isotherm.sgnht(1e-4), steps),
        "eccadl": isotherms(case, isotherm.eccadl(1e-4), steps),
    }
    taken = turns(runs, repeats)
    rows = [
        at_most(f"our eccadl, rank 32 / our sgnht, network of {case.d:,}", 3, ratio(taken["eccadl"], taken["sgnht"]))
    ]
    return rows + [microseconds(f"a step of {name}, network of {case.d:,}", s, steps) for name, s in taken.items()]


def action(repeats: int) -> list[Row]:
    """What C adds to a step of mCCAdL, (a) at h = 1.2e-3: a step with it less one of sgnht; and exp(−tS)v elsewhere.

    Lanczos with the least rank whose error is below 1e-3.
    """
    import scipy.linalg
    import scipy.sparse.linalg

    case, steps = logistic_mnist(), {"lanczos": 2000, "taylor": 100, "dense": 100}
    batch = jax.tree.map(lambda column: jnp.asarray(column[: case.batch_size]), case.data)
    theta, t = _typical(case), jnp.float32(case.step_size**2 / 2)
    covariance = estimate(as_target(case.posterior), theta, batch, population=case.population).covariance
    S = -float(t) * np.asarray(covariance.dense(), np.float64)
    vectors = np.asarray(jax.random.normal(jax.random.key(1), (20, case.d)))

    def error(method: str, rank: int) -> float:
        """The largest of twenty, relative to ‖v‖."""
        found = jax.jit(jax.vmap(lambda v: matrix_exponential.ACTIONS[method](covariance, t, v, rank)[0]))(vectors)
        exact = vectors @ scipy.linalg.expm(S)
        return float(np.max(np.linalg.norm(found - exact, axis=1) / np.linalg.norm(vectors, axis=1)))

    double = vectors[0].astype(np.float64)
    rank = next(k for k in range(1, 30) if error("lanczos", k) < 1e-3)
    settings = {method: {"expm": method, "rank": rank} for method in steps}
    runs = {
        method: isotherms(case, isotherm.mccadl(case.step_size, **settings[method]), steps[method]) for method in steps
    }
    runs |= {
        "sgnht": isotherms(case, isotherm.sgnht(1.2e-4), steps["lanczos"]),
        "scipy expm_multiply": lambda: scipy.sparse.linalg.expm_multiply(S, double),
        "scipy expm": lambda: scipy.linalg.expm(S) @ double,
        "numpy eigh": lambda: np.linalg.eigh(S),
    }
    taken = turns(runs, repeats)
    without = taken.pop("sgnht") / steps["lanczos"]
    taken = {name: s / steps[name] - without if name in steps else s for name, s in taken.items()}
    return [
        at_least("Taylor C / Lanczos C, (a), h = 1.2e-3", 10, ratio(taken["taylor"], taken["lanczos"])),
        at_least("dense C / Lanczos C, (a), h = 1.2e-3", 15, ratio(taken["dense"], taken["lanczos"])),
        *(
            Row(f"error of {method}, the largest of 20, rank {rank}", "", f"{error(method, rank):.1e}")
            for method in steps
        ),
        *(microseconds(f"C by {name}{', S given' if ' ' in name else ''}", s, 1) for name, s in taken.items()),
    ]


def _typical(case: Case) -> jax.Array:
    """A position from the bulk of the posterior."""
    sampler, settings = isotherm.mccadl(5e-4), {"steps": 1500, "chains": 1, "progress": False}
    tree = isotherm.sample(case.posterior, sampler, case.data, case.init, batch_size=case.batch_size, **settings)
    return jnp.asarray(tree.posterior.theta.values[0, -1])


def settling(seeds: int) -> list[Row]:
    """(a): seconds until the log loss of the posterior mean is within 1 % of NUTS's, and stays there."""
    truth, found = study(seeds)
    ours = found.pop("our eccadl")
    order = sorted(found, key=lambda name: found[name].median)

    def quotient(who: str) -> float:
        return found[next(name for name in order if name.startswith(who))].median / ours.median

    theirs, own = quotient("BlackJAX"), quotient("our")
    what = "time to NUTS's accuracy: {} SGNHT or SGHMC, the best of 48 / our eccadl, (a)"
    rows = [Row(what.format("BlackJAX's"), "≥ 5", f"{theirs:.3g}", theirs >= 5, theirs)]
    rows.append(Row(what.format("our own"), "", f"{own:.3g}", None, own))
    rows.append(Row("log loss of NUTS's posterior mean, (a)", "", f"{truth:.5f}", None, truth))
    for name, settled in [("our eccadl", ours), *((name, found[name]) for name in order)]:
        times = ", ".join(f"{x:.3f}" if np.isfinite(x) else "never" for x in settled.seconds)
        rows.append(Row(f"{name}, seconds, each seed", "", f"median {settled.median:.3g}: {times}"))
    return rows


def costs(repeats: int) -> list[Row]:
    return cost(repeats, OUT / "cost.png")


def population(repeats: int) -> list[Row]:
    """(e): N from 1e4 to 1e7, data in memory."""
    cases, steps = [linear(10**k) for k in (4, 5, 6, 7)], 2000
    runs = {f"{c.population:.0e}": isotherms(c, isotherm.sgnht(c.step_size), steps) for c in cases}
    taken = turns(runs, repeats)
    found = ratio(taken["1e+07"], taken["1e+04"])
    rows = [at_most("a step at N = 1e7 / at N = 1e4, (e)", 3, found)]
    return rows + [microseconds(f"a step of sgnht, (e), N = {N}", seconds, steps) for N, seconds in taken.items()]


def chains(repeats: int) -> list[Row]:
    case, rows = logistic_mnist(), []
    for name, sampler in (("sgnht", isotherm.sgnht(1.2e-4)), ("mccadl", isotherm.mccadl(5e-4))):
        one, many = isotherms(case, sampler, 6400), isotherms(case, sampler, 400, chains=64)
        taken = turns({"one": one, "many": many}, repeats)
        found = ratio(taken["many"] / (400 * 64), taken["one"] / 6400)
        rows.append(at_most(f"64 chains / (64 × one), {name}, (a)", 0.6, found))
    return rows


def memory(_: int) -> list[Row]:
    """What XLA sets aside at (d) beside the data, in copies of the parameters; and its count of operations."""
    case, rows = network(), []
    for name, sampler in (
        ("sgnht", isotherm.sgnht(1e-5)),
        ("mccadl, rank 8", isotherm.mccadl(1e-5, rank=8)),
        ("mccadl", isotherm.mccadl(1e-5)),
        ("eccadl, rank 32", isotherm.eccadl(1e-5)),
    ):
        program = compiled(case, sampler)
        use = program.memory_analysis()
        record = 2 * 4 * case.d
        copies = (use.temp_size_in_bytes + use.output_size_in_bytes - record) / (4 * case.d)
        limit = 32 + 15 if "eccadl" in name else 8 + 12
        activations = 4 * case.batch_size * case.model.hidden / case.d  # tanh, its slope, a tangent, a cotangent
        met = copies <= limit + activations if name != "sgnht" else None
        mark = f"≤ {limit} + {activations:.1f} of activations" if name != "sgnht" else ""
        rows.append(Row(f"memory of {name}, (d), in copies of θ", mark, f"{copies:.1f}", met, copies))
        rows.append(Row(f"operations a step of {name}, (d)", "", f"{program.cost_analysis()['flops']:.3g}"))
    return rows


def start(repeats: int) -> list[Row]:
    """Import, first answer of the command line, first result."""
    here = Path(sys.executable).parent

    def command(*words: str) -> Callable[[], Any]:
        return lambda: subprocess.run(words, check=True, capture_output=True)

    runs = {
        "isotherm": command(sys.executable, "-c", "import isotherm; isotherm.mccadl, isotherm.sample"),
        "name": command(sys.executable, "-c", "import isotherm"),
        "jax": command(sys.executable, "-c", "import jax"),
        "help": command(str(here / "isotherm"), "--help"),
    }
    taken = turns(runs, max(3, repeats // 3))
    case = logistic_mnist()

    def sample(h: float) -> float:
        began = time.perf_counter()
        isotherm.sample(
            case.posterior,
            isotherm.mccadl(h),
            case.data,
            case.init,
            batch_size=500,
            steps=100,
            chains=1,
            progress=False,
        )
        return time.perf_counter() - began

    compiled: list[str] = []
    jax.monitoring.register_event_duration_secs_listener(lambda event, *_, **__: compiled.append(event))
    first = sample(1e-4)
    compiled.clear()
    second = sample(2e-4)
    more = sum(event.endswith("backend_compile_duration") for event in compiled)
    jax.monitoring.clear_event_listeners()
    help_seconds = float(np.median(taken["help"][:, 0]))
    return [
        at_most("`import isotherm`, its names used / `import jax`", 1.3, ratio(taken["isotherm"], taken["jax"])),
        Row(
            "`import isotherm` alone, which loads nothing yet / `import jax`",
            "",
            str(ratio(taken["name"], taken["jax"])),
        ),
        Row("`isotherm --help`", "< 0.5 s", f"{help_seconds:.2f} s", help_seconds < 0.5, help_seconds),
        Row("first result of `sample`, (a)", "< 3 s", f"{first:.2f} s", first < 3, first),
        Row("second call: seconds, programs compiled", "0 programs", f"{second:.2f} s, {more}", more == 0, more),
    ]


SECTIONS: dict[str, tuple[Callable[[int], list[Row]], int]] = {
    "start": (start, 9),  # first, while nothing is compiled yet
    "steps": (steps_mnist, 15),
    "peers": (peers_mnist, 15),
    "elsewhere": (steps_elsewhere, 7),
    "action": (action, 15),
    "population": (population, 15),
    "chains": (chains, 9),
    "memory": (memory, 1),
    "network": (steps_network, 7),
    "settling": (settling, 9),
    "cost": (costs, 5),
}


def machine() -> str:
    known = Path("/proc/cpuinfo")
    lines = known.read_text().splitlines() if known.exists() else []
    model = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.processor())
    load = ", ".join(f"{x:.1f}" for x in os.getloadavg())
    return f"{platform.system()} {platform.machine()}, {model}, {os.cpu_count()} cores, load average {load}"


def main() -> None:
    warnings.simplefilter("ignore")
    OUT.mkdir(parents=True, exist_ok=True)
    chosen = sys.argv[1:] or list(SECTIONS)
    for name in chosen:
        section, repeats = SECTIONS[name]
        with one_lapack_thread():  # as in every run
            rows = section(repeats)
        print(f"\n### {name}\n\n{machine()}; {repeats} turns, median (quartiles)\n")
        print("| what | mark | found | met |\n|---|---|---|---|")
        print("\n".join(row.line() for row in rows), flush=True)
        said = {"machine": machine(), "repeats": repeats, "versions": _versions(), "rows": [r._asdict() for r in rows]}
        (OUT / f"{name}.json").write_text(json.dumps(said, indent=1, ensure_ascii=False) + "\n")


def _versions() -> dict[str, str]:
    found = {}
    for name in VERSIONS:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found


if __name__ == "__main__":
    main()
