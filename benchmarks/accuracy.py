"""How accurate eCCAdL is over step sizes, beside the truth and others: the tables of docs/measured/accuracy.md.

    python benchmarks/accuracy.py TABLE [--seeds 0,1,2] [--data DIR] [--out benchmarks/results/eccadl]
    python benchmarks/accuracy.py letter|network [--steps 3000] [--resume] [--minutes 7]

Each prints a row a run and writes them to a CSV. `linear` has the exact posterior, `mnist` and `cifar10` NUTS; `letter`
and `network` give every sampler both the steps and the processor time of eCCAdL; with `--resume` they go on where the
CSV ends.
"""

import argparse
import csv
import itertools
import time
import warnings
from pathlib import Path

import jax
import numpy as np

import isotherm
from isotherm.models import DRBM, MLP, Linear, Logistic
from isotherm.paper.datasets import cifar10, letter, linear_regression, mnist
from isotherm.paper.experiments import largest_step, metrics, nuts
from isotherm.paper.experiments.moments import mean_error, variance_ratio
from isotherm.paper.experiments.tasks import Materials


def run(materials, sampler, n, steps, thin, seed):
    """Draws as a pytree (draws, ...), statistics by name, and seconds a step without compilation."""
    arguments = {"batch_size": n, "chains": 1, "progress": False, "seed": seed}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a diverged run is a row of NaN
        isotherm.sample(materials.posterior, sampler, materials.data, materials.init, steps=2, thin=1, **arguments)
        began = time.perf_counter()
        tree = isotherm.sample(
            materials.posterior, sampler, materials.data, materials.init, steps=steps, thin=thin, **arguments
        )
    return *read(tree), (time.perf_counter() - began) / steps


def read(tree):
    """Draws as a pytree (draws, ...), and statistics by name."""
    draws = {name: values.values[0] for name, values in tree.posterior.data_vars.items()}
    names = ("kinetic_temperature", "friction")
    statistics = {f"mean_{name}": float(tree.sample_stats[name][0].mean()) for name in names}
    if "step_size" in tree.sample_stats:
        statistics["last_step_size"] = float(tree.sample_stats.step_size[0, -1])
    statistics["first_bad_step"] = int(tree.sample_stats.first_bad_step[0])
    return draws.get("theta", draws), statistics


def logistic(split):
    model = Logistic(split.train["x"].shape[1], prior_variance=1.0)
    return Materials(model, split.train, np.zeros(model.features, np.float32), split.test)


def distances(draws, mean, covariance, hessian):
    draws = draws.astype(np.float64)
    return {
        "variance_ratio": variance_ratio(hessian, np.cov(draws.T), covariance),
        "mean_error": mean_error(hessian, draws.mean(0), mean),
    }


def linear(args):
    """Done for h and A as asked: variance ratio and mean error against the exact posterior, 400 passes from θ = 0."""
    data = linear_regression.make().data
    exact = linear_regression.posterior(data)
    materials = Materials(Linear(100, prior_variance=10.0), data, np.zeros(100, np.float32))
    for friction in (1.0, 10.0):
        for h in (5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 3e-2, "auto"):
            for seed in args.seeds:
                draws, statistics, seconds = run(materials, isotherm.eccadl(h, friction), 500, 8000, 1, seed)
                found = distances(draws, exact.mean, exact.covariance, np.linalg.inv(exact.covariance))
                row = {"sampler": "eccadl", "step_size": h, "friction": friction, "seed": seed}
                yield row | found | statistics | {"seconds": seconds}


def against_nuts(materials, steps, sizes, args, others=()):
    """A row for NUTS's own halves against each other, then a row a step size."""
    reference_draws = nuts.draw(materials, args.draws, 0).astype(np.float64)
    mean, covariance = reference_draws.mean(0), np.cov(reference_draws.T)
    x = materials.data["x"].astype(np.float64)
    p = 1 / (1 + np.exp(-x @ mean))
    hessian = (x.T * (p * (1 - p))) @ x + np.eye(len(mean))
    half = len(reference_draws) // 2
    own = distances(reference_draws[:half], reference_draws[half:].mean(0), np.cov(reference_draws[half:].T), hessian)
    yield {
        "sampler": "nuts, half against half",
        **own,
        **metrics.predictive(reference_draws.astype(np.float32), materials),
    }
    samplers = [("eccadl", h, isotherm.eccadl(h)) for h in sizes] + [("mccadl", h, isotherm.mccadl(h)) for h in others]
    for (name, h, sampler), seed in itertools.product(samplers, args.seeds):
        draws, statistics, seconds = run(materials, sampler, 500, steps, 5, seed)
        usable = statistics["first_bad_step"] < 0
        row = {"sampler": name, "step_size": h, "friction": 1.0, "seed": seed, **statistics, "seconds": seconds}
        yield row | (
            distances(draws, mean, covariance, hessian) | metrics.predictive(draws, materials) if usable else {}
        )


def mnist79(args):
    materials = logistic(mnist.pair(7, 9, data_dir=args.data))
    sizes = (5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 3e-2, "auto")
    return against_nuts(materials, 7328, sizes, args, (5e-4, 1.2e-3))


def cifar(args):
    materials = logistic(cifar10.pair("airplane", "automobile", data_dir=args.data))
    return against_nuts(materials, 6000, (1e-3, 2e-3, 5e-3, 1e-2, "auto"), args, (1e-3, 1.5e-3))


def letter_steps(args):
    """The largest usable step on letter, as the experiments define it, of runs of 100 passes at A = 10."""
    materials = letter_drbm(args)
    for name in ("eccadl", "mccadl"):

        def loss(h, name=name):
            draws, statistics, _ = run(materials, getattr(isotherm, name)(h, 10.0), 1000, 1050, 5, 0)
            usable = statistics["first_bad_step"] < 0
            return metrics.of_mean(draws, materials, 0)[0] if usable else float("nan")

        found = largest_step.search(loss, 5e-3, largest_step.LIMIT)
        for h, value, usable in found.trials:
            yield {
                "sampler": name,
                "step_size": h,
                "friction": 10.0,
                "posterior_mean_log_loss": value,
                "usable": usable,
            }
        yield {
            "sampler": name,
            "step_size": found.step_size,
            "friction": 10.0,
            "largest": True,
            "at_limit": found.at_limit,
        }


def letter_drbm(args):
    split = letter.load(data_dir=args.data)
    model = DRBM(16, 100, 26, prior_variance=10.0)
    return Materials(model, split.train, model.init(jax.random.key(0)), split.test)


def drbm(args):
    kept = [("eccadl", "auto", "auto"), ("eccadl", 2e-2, 1.0)]
    tuned = dict.fromkeys(("sgnht", "sghmc", "mccadl"), ((2e-2, 1e-2), (3.0,)))
    return in_equal_time(letter_drbm(args), kept, tuned, 1000, 200, args)


def mnist_network(args):
    """784–256–10, 203,530 parameters, all of MNIST."""
    split = mnist.load(data_dir=args.data)
    train = {"x": (split.train["x"] / 255).astype(np.float32), "y": split.train["y"]}
    test = {"x": (split.test["x"] / 255).astype(np.float32), "y": split.test["y"]}
    model = MLP(784, 256, 10, prior_variance=0.1)
    return Materials(model, train, model.init(jax.random.key(0), scale=0.05), test)


def network(args):
    kept = [("eccadl", "auto", "auto"), ("eccadl", 2e-4, 1.0)]
    tuned = dict.fromkeys(("sgnht", "sghmc"), ((2e-4, 1e-4), (10.0,)))
    return in_equal_time(mnist_network(args), kept, tuned, 256, 50, args)


def in_equal_time(materials, kept, tuned, n, draws, args):
    """The settings in `kept` with every seed. Those of `tuned` with the first seed: the step sizes at A = 1, the other
    frictions at the best of them, and the best of all with every seed; the best has the least predictive log loss in
    equal time. Rows that args.known has are not run again.

    One run a setting and seed, of as much processor time as eCCAdL takes for args.steps: its first args.steps are a row
    (`equal` is "steps"), the whole is another ("time"), both averaged over 4/5 of so many `draws`. Costs are measured
    around the first run, eCCAdL's at its own step size: that run's whole, since its first steps are dearest, and short
    runs of the others, in turn before and after it.
    """
    rows = list(args.known)
    others = {name: getattr(isotherm, name)(sizes[0], 1.0) for name, (sizes, _) in tuned.items()}
    cost = {name: float(rows[0][f"cost_{name}"]) for name in ("eccadl", *others)} if rows else {}

    def known(setting, seed):
        return any(known_as(row[name] for name in SETTING) == known_as((*setting, seed)) for row in rows)

    def best(name):
        found = [row for row in rows if row["sampler"] == name and row["equal"] == "time"]
        row = min(found, key=lambda row: float(row.get("predictive_log_loss") or "inf"))
        return name, float(row["step_size"]), float(row["friction"])

    def wanted():
        yield from ((setting, seed) for seed in args.seeds for setting in kept)
        for name, (sizes, frictions) in tuned.items():
            yield from (((name, h, 1.0), args.seeds[0]) for h in sizes)
            h = best(name)[1]
            yield from (((name, h, A), args.seeds[0]) for A in frictions)
            yield from itertools.product([best(name)], args.seeds)

    for setting, seed in wanted():
        if known(setting, seed):
            continue
        if time.perf_counter() - args.began > 60 * args.minutes:
            return
        name, h, A = setting
        before = {} if cost else step_costs(materials, others, n)
        steps = args.steps if name == "eccadl" else round(args.steps * cost["eccadl"] / cost[name])
        sampler, thin = getattr(isotherm, name)(h, A), args.steps // draws
        tree, *times = timed(materials, sampler, n, max(steps, args.steps), thin, seed)
        if not cost:
            after = step_costs(materials, others, n)
            cost = {other: float(np.median(before[other] + after[other])) for other in others} | {"eccadl": times[1]}
        for equal, length in (("steps", args.steps), ("time", steps)):
            sampled, statistics = read(tree.isel(draw=slice(length // thin // 5, length // thin)))  # a fifth is burn-in
            usable = statistics["first_bad_step"] < 0
            row = dict(zip(SETTING, (*setting, seed), strict=True)) | {"equal": equal, "steps": length}
            row |= metrics.predictive(sampled, materials, 4 * draws // 5) if usable else {}
            row |= statistics | dict(zip(("seconds", "processor"), times, strict=True))
            rows.append(row | {f"cost_{other}": value for other, value in cost.items()})
            yield rows[-1]


def known_as(setting):
    return tuple(map(str, setting))


def timed(materials, sampler, n, steps, thin, seed):
    """The results of a run from its first step, and seconds a step, elapsed and of processor, without compilation."""
    arguments = {"batch_size": n, "chains": 1, "progress": False, "seed": seed, "burn_in": 0.0}
    start = materials.posterior, sampler, materials.data, materials.init
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        isotherm.sample(*start, steps=2, thin=1, **arguments)
        began, used = time.perf_counter(), time.process_time()
        tree = isotherm.sample(*start, steps=steps, thin=thin, **arguments)
    return tree, (time.perf_counter() - began) / steps, (time.process_time() - used) / steps


def step_costs(materials, samplers, n, steps=150, turns=2):
    """Seconds of processor a step without the start by name, a list of one a turn, the samplers in turn."""
    costs = {name: [] for name in samplers}
    for _ in range(turns):
        for name, sampler in samplers.items():
            start, whole = (length * timed(materials, sampler, n, length, length, 0)[2] for length in (2, steps))
            costs[name].append((whole - start) / (steps - 2))
    return costs


SETTING = ("sampler", "step_size", "friction", "seed")
TABLES = {
    "linear": linear,
    "mnist": mnist79,
    "cifar10": cifar,
    "letter": drbm,
    "letter-steps": letter_steps,
    "network": network,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", choices=TABLES)
    parser.add_argument("--seeds", type=lambda text: [int(seed) for seed in text.split(",")], default=[0, 1, 2])
    parser.add_argument("--data", default=None, help="folder of the data sets")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/eccadl"))
    parser.add_argument("--draws", type=int, default=4000, help="NUTS draws")
    parser.add_argument("--steps", type=int, default=3000, help="eCCAdL's steps on letter and network")
    parser.add_argument("--resume", action="store_true", help="go on with the letter or network CSV that there is")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="for letter, network: then begin no run")
    args = parser.parse_args()
    args.began = time.perf_counter()
    args.out.mkdir(parents=True, exist_ok=True)
    rows, path = [], args.out / f"{args.table}.csv"
    if args.resume and path.exists():
        with path.open(newline="") as file:
            rows = list(csv.DictReader(file))
    args.known = list(rows)
    for row in TABLES[args.table](args):
        rows.append(row)
        said = {k: f"{v:.4g}" if isinstance(v, float) else v for k, v in row.items() if v != ""}
        print(", ".join(f"{k} {v}" for k, v in said.items()), flush=True)
        names = list(dict.fromkeys(name for one in rows for name in one))
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, names, lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    main()
