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
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import isotherm
from contestants import bare, compiled, isotherms
from isotherm import driver, expm, plots
from isotherm.experiments import reference
from isotherm.experiments.settings import Materials
from peers import blackjax_loop, blackjax_scan, posteriors_loop
from problems import Case, drbm_letter, linear, logistic, logistic_mnist, logistic_wide, network
from timing import Ratio, ratio, turns

OUT = Path("out") / "bench"
VERSIONS = ("isotherm", "jax", "jaxlib", "numpy", "scipy", "blackjax", "posteriors", "torch")


class Row(NamedTuple):
    what: str
    mark: str
    found: str
    met: bool | None = None
    value: float | None = None

    def line(self) -> str:
        met = {True: "yes", False: "no", None: ""}[self.met]
        return f"| {self.what} | {self.mark} | {self.found} | {met} |"


def at_most(what: str, mark: float, found: Ratio) -> Row:
    return Row(what, f"≤ {mark:g}", str(found), found.median <= mark, found.median)


def at_least(what: str, mark: float, found: Ratio) -> Row:
    return Row(what, f"≥ {mark:g}", str(found), found.median >= mark, found.median)


def microseconds(what: str, taken: np.ndarray, steps: int) -> Row:
    turn, processor = 1e6 * taken.T / steps
    low, median, high = np.quantile(turn, [0.25, 0.5, 0.75])
    said = f"{median:.3g} µs ({low:.3g}–{high:.3g}), processor {np.median(processor):.3g} µs"
    return Row(what, "", said, None, float(median))


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
    case, steps, few = logistic_mnist(), 200, 20
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
    for case, steps, mark in ((logistic_wide(), 50, 2.0), (drbm_letter(), 4, 2.5), (network(), 2, 4.0)):
        runs = {
            "sgnht": isotherms(case, isotherm.sgnht(case.step_size), steps),
            "mccadl": isotherms(case, isotherm.mccadl(case.step_size), steps),
        }
        taken = turns(runs, repeats)
        what = f"our mccadl, h = {case.step_size:g} / our sgnht, {case.name}"
        rows.append(at_most(what, mark, ratio(taken["mccadl"], taken["sgnht"])))
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
    """exp(−tS)v alone, (a) at h = 1.2e-3: Lanczos at the least rank whose error is below 1e-3."""
    import scipy.linalg
    import scipy.sparse.linalg

    case, times = logistic_mnist(), 20
    batch = jax.tree.map(lambda column: jnp.asarray(column[: case.batch_size]), case.data)
    theta, t = _typical(case), jnp.float32(case.step_size**2 / 2)
    v = jax.random.normal(jax.random.key(1), (case.d,))
    covariance = case.posterior.noisy(theta, batch, population=case.population).covariance
    S = np.asarray(covariance.dense(), np.float64)
    exact = scipy.linalg.expm(-float(t) * S) @ np.asarray(v, np.float64)

    def error(found: Any) -> float:
        return float(np.linalg.norm(np.asarray(found, np.float64) - exact) / np.linalg.norm(v))

    rank = next(k for k in range(1, 30) if error(expm.lanczos(covariance, t, v, k)[0]) < 1e-3)

    def many(method: str) -> Callable[[], Any]:
        @jax.jit
        def run(theta: Any, v: Any, batch: Any) -> Any:
            def again(_: Any, u: Any) -> Any:
                """At a position that moves a little, or XLA would form a dense S once for all."""
                S = case.posterior.noisy(theta + 1e-6 * u, batch, population=case.population).covariance
                return v + 0.1 * expm.ACTIONS[method](S, t, u, rank)[0]

            return jax.lax.fori_loop(0, times, again, v)

        return lambda: run(theta, v, batch)

    double, operator = np.asarray(v, np.float64), -float(t) * S
    runs = {method: many(method) for method in ("lanczos", "taylor", "dense")} | {
        "scipy expm_multiply": lambda: scipy.sparse.linalg.expm_multiply(operator, double),
        "scipy expm": lambda: scipy.linalg.expm(operator) @ double,
        "numpy eigh": lambda: np.linalg.eigh(operator),
    }
    taken = {name: s / (times if name in expm.ACTIONS else 1) for name, s in turns(runs, repeats).items()}
    errors = {m: error(expm.ACTIONS[m](covariance, t, v, rank)[0]) for m in ("lanczos", "taylor", "dense")}
    rows = [
        at_least("Taylor C / Lanczos C, (a), h = 1.2e-3", 10, ratio(taken["taylor"], taken["lanczos"])),
        at_least("dense C / Lanczos C, (a)", 15, ratio(taken["dense"], taken["lanczos"])),
    ]
    rows += [Row(f"error of {m}, rank {rank}", "", f"{e:.1e}", None, e) for m, e in errors.items()]
    return rows + [
        microseconds(f"C by {name}, S given" if " " in name else f"C by {name}", s, 1) for name, s in taken.items()
    ]


def _typical(case: Case) -> jax.Array:
    """A position from the bulk of the posterior."""
    sampler, settings = isotherm.mccadl(5e-4), {"steps": 1500, "chains": 1, "progress": False}
    tree = isotherm.sample(case.posterior, sampler, case.data, case.init, batch_size=case.batch_size, **settings)
    return jnp.asarray(tree.posterior.theta.values[0, -1])


def accuracy(repeats: int) -> list[Row]:
    """(a): seconds until the log loss of the posterior mean is within 1 % of NUTS's, and stays there.

    SGNHT and SGHMC at every step size and friction of a grid, each with the best of them; ours, whose step is the
    cheapest of all peers'. A run's clock is its number of steps times the seconds a step takes, measured in turn.
    """
    case, passes, steps = logistic_mnist(), 600, 2000
    draws = reference.nuts(Materials(case.model, case.data, case.init, case.test), 2000, 0)
    truth = _mean_loss(case, draws.mean(axis=0)[None])[0]
    grid = [(h, A) for h in (3e-5, 6e-5, 1.2e-4, 2.4e-4, 5e-4, 1e-3) for A in (1.0, 10.0, 100.0)]
    samplers = {
        f"{name}, h = {h:g}, A = {A:g}": getattr(isotherm, name)(h, A) for name in ("sgnht", "sghmc") for h, A in grid
    }
    costs = turns(
        {
            name: isotherms(case, s, steps)
            for name, s in (
                ("sgnht", isotherm.sgnht(1e-4)),
                ("sghmc", isotherm.sghmc(1e-4)),
                ("eccadl", isotherm.eccadl()),
            )
        },
        9,
    )
    cost = {name: float(np.median(seconds[:, 0])) / steps for name, seconds in costs.items()}
    found: dict[str, list[float]] = {}
    for name, sampler in {"eccadl": isotherm.eccadl(), **samplers}.items():
        settled = [_settled(case, sampler, truth, passes, seed) for seed in range(repeats)]
        found[name] = [cost[name.split(",")[0]] * steps for steps in settled]
    ours = np.asarray(found.pop("eccadl"))
    best = min(found, key=lambda name: float(np.median(found[name])))
    theirs = np.asarray(found[best])
    never = passes * case.population / case.batch_size * min(cost["sgnht"], cost["sghmc"])
    quotient = float(np.median(theirs) / np.median(ours))
    said = (
        f"{quotient:.3g}"
        if np.isfinite(quotient)
        else f"over {never / np.median(ours):.3g}: none within {passes} passes"
    )
    rows = [Row("time to NUTS's accuracy: best SGNHT or SGHMC / our eccadl, (a)", "≥ 5", said, quotient >= 5, quotient)]
    rows.append(Row("log loss of NUTS's posterior mean, (a)", "", f"{truth:.5f}", None, float(truth)))
    rows.append(Row("our eccadl, seconds, each seed", "", ", ".join(f"{x:.2f}" for x in ours)))
    for name in sorted(found, key=lambda name: float(np.median(found[name])))[:6]:
        rows.append(
            Row(
                f"{name}, seconds, each seed",
                "",
                ", ".join(f"{x:.2f}" if np.isfinite(x) else "never" for x in found[name]),
            )
        )
    return rows


def _settled(case: Case, sampler: Any, truth: float, passes: int, seed: int) -> float:
    """The first step from which on the posterior mean so far, a fifth dropped, is as good as the truth to 1 %."""
    settings = {"batch_size": case.batch_size, "passes": passes, "burn_in": 0.0, "chains": 1, "progress": False}
    tree = isotherm.sample(case.posterior, sampler, case.data, case.init, thin=10, seed=seed, **settings)
    draws = tree.posterior.theta.values[0].astype(np.float64)
    if tree.sample_stats.first_bad_step.values[0] >= 0:
        return np.inf
    ends = np.unique(np.geomspace(2, len(draws), 300).astype(int))
    sums = np.concatenate([np.zeros((1, draws.shape[1])), np.cumsum(draws, axis=0)])
    means = np.stack([(sums[end] - sums[end // 5]) / (end - end // 5) for end in ends])
    outside = np.flatnonzero(np.abs(_mean_loss(case, means) / truth - 1) > 0.01)
    last = -1 if not outside.size else outside[-1]
    return 10.0 * ends[last + 1] if last + 1 < len(ends) else np.inf


def _mean_loss(case: Case, thetas: np.ndarray) -> np.ndarray:
    """Test log loss of each row."""
    return np.mean(np.logaddexp(0, -case.test["y"] * (thetas @ case.test["x"].T.astype(np.float64))), axis=1)


def cost(repeats: int) -> list[Row]:
    """How a step's time grows with n, d, chains and rank, logistic regression; and a figure of it, with N's."""
    kinds: dict[str, Any] = {
        "sgnht": isotherm.sgnht(1e-5),
        "mccadl": isotherm.mccadl(1e-5, rank=4),
        "eccadl": isotherm.eccadl(),
    }
    sweeps: dict[str, list[tuple[int, dict[str, Any]]]] = {
        "n": [(n, {"n": n}) for n in (125, 250, 500, 1000, 2000)],
        "d": [(d, {"d": d}) for d in (25, 50, 100, 200, 400)],
        "N": [(N, {"N": N}) for N in (10**4, 10**5, 10**6)],
        "chains": [(c, {"chains": c}) for c in (1, 4, 16, 64)],
    }
    rows, panels = [], []
    for sweep, points in sweeps.items():
        lines: dict[str, list[float]] = {name: [] for name in kinds}
        for value, changed in points:
            case = logistic(**{"n": 500, "d": 100, "N": 10**4} | {k: v for k, v in changed.items() if k != "chains"})
            chains, steps = changed.get("chains", 1), max(20, 1000 // changed.get("chains", 1))
            taken = turns({name: isotherms(case, s, steps, chains=chains) for name, s in kinds.items()}, repeats)
            for name, seconds in taken.items():
                lines[name].append(1e6 * float(np.median(seconds[:, 0])) / steps)
                rows.append(microseconds(f"a step of {name}, {sweep} = {value}", seconds, steps))
        drawn = [plots.Line(name, [p[0] for p in points], y, name) for name, y in lines.items()]
        panels.append(plots.Panel(f"against {sweep}", drawn))
    case = logistic(500, 100, 10**4)
    ranks = (1, 2, 4, 6, 8, 12)
    taken = turns({str(k): isotherms(case, isotherm.mccadl(1e-5, rank=k), 1000) for k in ranks}, repeats)
    times = [1e6 * float(np.median(taken[str(k)][:, 0])) / 1000 for k in ranks]
    rows += [microseconds(f"a step of mccadl, rank = {k}", taken[str(k)], 1000) for k in ranks]
    panels.append(plots.Panel("against mccadl's rank", [plots.Line("mccadl", ranks, times, "mccadl")]))
    figure = plots.draw([panels], "n, d, N, chains or rank", "µs a step", "log", "log")
    for axes in figure.axes:
        axes.xaxis.set_minor_formatter("")
    plots.save(figure, OUT / "cost.png")
    return rows


def population(repeats: int) -> list[Row]:
    """(e): N from 1e4 to 1e7, data in memory."""
    cases, steps = [linear(10**k) for k in (4, 5, 6, 7)], 200
    runs = {f"{c.population:.0e}": isotherms(c, isotherm.sgnht(c.step_size), steps) for c in cases}
    taken = turns(runs, repeats)
    found = ratio(taken["1e+07"], taken["1e+04"])
    rows = [at_most("a step at N = 1e7 / at N = 1e4, (e)", 3, found)]
    return rows + [microseconds(f"a step of sgnht, (e), N = {N}", seconds, steps) for N, seconds in taken.items()]


def chains(repeats: int) -> list[Row]:
    case, rows = logistic_mnist(), []
    for name, sampler in (("sgnht", isotherm.sgnht(1.2e-4)), ("mccadl", isotherm.mccadl(5e-4))):
        one, many = isotherms(case, sampler, 320), isotherms(case, sampler, 20, chains=64)
        taken = turns({"one": one, "many": many}, repeats)
        found = ratio(taken["many"] / (20 * 64), taken["one"] / 320)
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

    first = sample(1e-4)
    programs = driver.advance._cache_size()
    second, more = sample(2e-4), driver.advance._cache_size() - programs
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
    "accuracy": (accuracy, 3),
    "cost": (cost, 5),
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
        with driver.one_lapack_thread():  # as in every run
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
