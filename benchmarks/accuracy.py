"""How accurate eCCAdL is over step sizes, beside the truth and the other samplers: the tables of docs/eccadl.md.

    python benchmarks/accuracy.py TABLE [--seeds 0,1,2] [--data DIR] [--out docs/results/eccadl]

Each prints a row a run and writes them to a CSV. `linear` has the exact posterior, `mnist` and `cifar10` NUTS; `letter`
gives every sampler the time that eCCAdL takes, by step costs measured first, in turn; `network` gives it both the steps
and the time.
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
from isotherm import diagnostics
from isotherm.datasets import cifar10, letter, linear_regression, mnist
from isotherm.experiments import largest_step, metrics, nuts
from isotherm.experiments.tasks import Materials
from isotherm.models import DRBM, MLP, Linear, Logistic


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
    seconds = (time.perf_counter() - began) / steps
    draws = {name: values.values[0] for name, values in tree.posterior.data_vars.items()}
    names = ("kinetic_temperature", "friction")
    statistics = {f"mean_{name}": float(tree.sample_stats[name][0].mean()) for name in names}
    if "step_size" in tree.sample_stats:
        statistics["last_step_size"] = float(tree.sample_stats.step_size[0, -1])
    statistics["first_bad_step"] = int(tree.sample_stats.first_bad_step[0])
    return draws.get("theta", draws), statistics, seconds


def logistic(split):
    model = Logistic(split.train["x"].shape[1], prior_variance=1.0)
    return Materials(model, split.train, np.zeros(model.features, np.float32), split.test)


def distances(draws, mean, covariance, hessian):
    draws = draws.astype(np.float64)
    return {
        "variance_ratio": diagnostics.variance_ratio(hessian, np.cov(draws.T), covariance),
        "mean_error": diagnostics.mean_error(hessian, draws.mean(0), mean),
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
    """Equal time for all: eCCAdL's 3,000 steps at its default, the others as many as fit into that."""
    materials = letter_drbm(args)
    candidates = {"eccadl": lambda h, A: isotherm.eccadl(h, A)} | {
        name: getattr(isotherm, name) for name in ("mccadl", "sgnht", "sghmc")
    }
    cost = step_costs(materials, {name: build(2e-2, 1.0) for name, build in candidates.items()}, 1000, 60)
    rows = [("eccadl", h, A, {}) for h in (2e-2, 2.5e-2, 3e-2, "auto") for A in (1.0,)]
    rows += [("eccadl", 2e-2, 1.0, {"covariance": "diagonal"}), ("eccadl", 1e-1, 1.0, {})]
    rows += [
        (name, h, A, {}) for name in ("mccadl", "sgnht", "sghmc") for A in (1.0, 10.0) for h in (2e-2, 2.5e-2, 3e-2)
    ]
    for (name, h, A, options), seed in itertools.product(rows, args.seeds):
        steps = round(args.steps * cost["eccadl"] / cost[name])
        sampler = isotherm.eccadl(h, A, **options) if options else candidates[name](h, A)
        draws, statistics, seconds = run(materials, sampler, 1000, steps, max(1, steps // 200), seed)
        row = {
            "sampler": name,
            "step_size": h,
            "friction": A,
            "seed": seed,
            "steps": steps,
            "relative_cost": cost[name] / cost["sgnht"],
        }
        found = metrics.predictive(draws, materials) if statistics["first_bad_step"] < 0 else {}
        yield row | {"covariance": options.get("covariance", "")} | found | statistics | {"seconds": seconds}


def network(args):
    """784–256–10, 203,530 parameters, all of MNIST; five step sizes each: as many steps for each, then as much time,
    where the others are tuned over two frictions too."""
    split = mnist.load(data_dir=args.data)
    train = {"x": (split.train["x"] / 255).astype(np.float32), "y": split.train["y"]}
    test = {"x": (split.test["x"] / 255).astype(np.float32), "y": split.test["y"]}
    model = MLP(784, 256, 10, prior_variance=0.1)
    materials = Materials(model, train, model.init(jax.random.key(0), scale=0.05), test)
    names = ("eccadl", "sgnht", "sghmc")
    cost = step_costs(materials, {name: getattr(isotherm, name)(1e-4, 1.0) for name in names}, 256, args.steps // 8)
    rows = [("eccadl", "auto", 1.0, isotherm.eccadl(), "steps")]
    rows += [(name, h, 1.0, getattr(isotherm, name)(h, 1.0), "steps") for name in names for h in NETWORK_STEPS]
    rows += [
        (name, h, A, getattr(isotherm, name)(h, A), "time")
        for name in names[1:]
        for A in (1.0, 10.0)
        for h in NETWORK_STEPS
    ]
    for (name, h, A, sampler, equal), seed in itertools.product(rows, args.seeds):
        steps = round(args.steps * cost["eccadl"] / cost[name]) if equal == "time" else args.steps
        draws, statistics, seconds = run(materials, sampler, 256, steps, max(1, steps // 50), seed)
        found = metrics.predictive(draws, materials) if statistics["first_bad_step"] < 0 else {}
        row = {"sampler": name, "step_size": h, "friction": A, "seed": seed, "equal": equal, "steps": steps}
        yield row | found | statistics | {"seconds": seconds}


def step_costs(materials, samplers, n, steps):
    """Seconds a step by name, the median of three turns; the first steps are dearest for eCCAdL."""
    turns = [
        {name: run(materials, sampler, n, steps, 10, 0)[2] for name, sampler in samplers.items()} for _ in range(3)
    ]
    return {name: float(np.median([turn[name] for turn in turns])) for name in samplers}


NETWORK_STEPS = (5e-5, 1e-4, 2e-4, 4e-4, 8e-4)
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
    parser.add_argument("--out", type=Path, default=Path("docs/results/eccadl"))
    parser.add_argument("--draws", type=int, default=4000, help="NUTS draws")
    parser.add_argument("--steps", type=int, default=3000, help="eCCAdL's steps on letter and network")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    rows = []
    for row in TABLES[args.table](args):
        rows.append(row)
        said = {k: f"{v:.4g}" if isinstance(v, float) else v for k, v in row.items() if v != ""}
        print(", ".join(f"{k} {v}" for k, v in said.items()), flush=True)
        names = list(dict.fromkeys(name for one in rows for name in one))
        with (args.out / f"{args.table}.csv").open("w", newline="") as file:
            writer = csv.DictWriter(file, names, lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    main()
