"""Simulation-based calibration: are posteriors as wide as they say, and where they say?

    python benchmarks/calibration.py [--sets 500] [--only fit,eccadl,sghmc] [--models logistic,poisson]
        [--cache benchmarks/.cache] [--figure docs/images/calibration.png] [--kept]

Parameters are drawn from the prior, data from the parameters, and draws from the posterior given the data. If they are
draws from the posterior, the rank of the true parameter among DRAWS of them is uniform (Talts et al. 2018,
arXiv:1804.06788): too narrow a posterior makes a U of the histogram, too wide a one a hill, a shifted one a slope. Each
parameter's ranks are tested for uniformity twice, by chi-square over BINS bins and by Kolmogorov and Smirnov; the least
p-value is multiplied by the number of tests (Bonferroni), and should be above LEVEL.

Ranks are kept in `--cache` as they come: the same command goes on where it was stopped, and with `--kept` it shows what
there is. Chi-square needs some hundred sets. Markdown on standard output.
"""

import argparse
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax.nn import log_sigmoid
from scipy.stats import binom, chisquare, kstest

import isotherm
from anchored_problems import gaussian_prior
from anchored_reference import CACHE

FIGURE = Path(__file__).parents[1] / "docs" / "images" / "calibration.png"
N, D = 4_000, 6  # rows and parameters of every data set: programs are compiled once
DRAWS, BINS, LEVEL = 99, 20, 0.01
PLAIN = {"batch_size": 200, "passes": 100, "thin": 5}  # of eccadl and SGHMC: 2,000 steps a chain, a fifth of it burn-in
STEP_SIZE, FRICTION = 2e-3, 10.0  # of SGHMC
KEEP_EVERY = 20  # sets


class Model(NamedTuple):
    posterior: isotherm.Posterior
    scale: float  # of the prior
    respond: Callable[[np.random.Generator, np.ndarray], np.ndarray]  # y given θ·x


def logistic_likelihood(theta: Any, example: Any) -> Any:
    return log_sigmoid(example["y"] * (example["x"] @ theta))


def poisson_likelihood(theta: Any, example: Any) -> Any:
    eta = example["x"] @ theta
    return example["y"] * eta - jnp.exp(eta)


MODELS = {
    "logistic": Model(
        isotherm.Posterior(logistic_likelihood, gaussian_prior(1.0)),
        1.0,
        lambda rng, eta: np.where(rng.random(N) < 1 / (1 + np.exp(-eta)), 1, -1),
    ),
    "poisson": Model(
        isotherm.Posterior(poisson_likelihood, gaussian_prior(0.09)), 0.3, lambda rng, eta: rng.poisson(np.exp(eta))
    ),
}


def fit(model: Model, data: Any, init: Any, seed: int) -> Any:
    return isotherm.fit(model.posterior, data, init, seed=seed, progress=False)


def eccadl(model: Model, data: Any, init: Any, seed: int) -> Any:
    return isotherm.sample(model.posterior, isotherm.eccadl(), data, init, seed=seed, progress=False, **PLAIN)


def sghmc(model: Model, data: Any, init: Any, seed: int) -> Any:
    sampler = isotherm.sghmc(STEP_SIZE, friction=FRICTION)
    return isotherm.sample(model.posterior, sampler, data, init, seed=seed, progress=False, **PLAIN)


METHODS = {"fit": fit, "eccadl": eccadl, "sghmc": sghmc}


def simulated(model: Model, seed: int) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Parameters from the prior, and data from them; the first column is an intercept."""
    rng = np.random.default_rng(seed)
    theta, x = model.scale * rng.standard_normal(D), rng.standard_normal((N, D))
    x[:, 0] = 1
    y = model.respond(rng, x @ theta)
    return theta, {"x": x.astype(np.float32), "y": y.astype(np.float32)}


def rank(tree: Any, theta: np.ndarray) -> np.ndarray:
    """Of the true parameters among draws that are far from each other, from 0 to DRAWS."""
    draws = tree["posterior"]["theta"].values.reshape(-1, D)
    far_apart = np.linspace(0, len(draws) - 1, DRAWS).round().astype(int)
    return (draws[far_apart] < theta).sum(axis=0)


def ranks(name: str, method: str, sets: int, cache: Path, kept: bool) -> tuple[np.ndarray, float]:
    """By (set, parameter), and the seconds that a set took."""
    path = cache / f"calibration-{name}-{method}.npz"
    found, seconds = (list(part) for part in np.load(path).values()) if path.exists() else ([], [])
    model = MODELS[name]
    for seed in range(len(found), 0 if kept else sets):
        theta, data = simulated(model, seed)
        began = time.perf_counter()
        found.append(rank(METHODS[method](model, data, np.zeros(D, np.float32), seed), theta))
        seconds.append(time.perf_counter() - began)
        if len(found) % KEEP_EVERY == 0 or len(found) == sets:
            cache.mkdir(parents=True, exist_ok=True)
            np.savez(path, ranks=np.array(found), seconds=np.array(seconds))
    return np.array(found)[:sets], float(np.median(seconds[:sets]))


def p_value(found: np.ndarray) -> float:
    """That these ranks are uniform, the least of all tests times their number."""
    rng = np.random.default_rng(0)
    values = []
    for column in found.T:
        counts = np.bincount(column * BINS // (DRAWS + 1), minlength=BINS)
        smooth = (column + rng.random(len(column))) / (DRAWS + 1)  # uniform on [0, 1] if the ranks are
        values += [chisquare(counts).pvalue, kstest(smooth, "uniform").pvalue]
    return min(1.0, len(values) * float(min(values)))


def width(found: np.ndarray) -> float:
    """The standard deviation of the ranks over that of uniform ones: above 1 where posteriors are too narrow."""
    off = found - DRAWS / 2
    return float(np.sqrt(np.mean(off**2) / (((DRAWS + 1) ** 2 - 1) / 12)))


def draw(cells: dict[tuple[str, str], np.ndarray], path: Path) -> None:
    """Histograms over all parameters; 99 % of the bins should be in the grey band."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    rows, columns = (list(dict.fromkeys(key[i] for key in cells)) for i in (0, 1))
    figure, axes = plt.subplots(len(rows), len(columns), figsize=(9, 2.6 * len(rows)), sharey="row", squeeze=False)
    for (name, method), found in cells.items():
        panel = axes[rows.index(name), columns.index(method)]
        low, high = binom.interval(0.99, found.size, 1 / BINS)
        panel.axhspan(low, high, color="0.85")
        panel.hist(found.ravel(), BINS, range=(0, DRAWS + 1), color="C0" if method != "sghmc" else "C3")
        panel.set_title(f"{method}, {name}, {len(found)} sets")
        panel.set_xlabel("rank of the true parameter")
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=90)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sets", type=int, default=500)
    parser.add_argument("--only", default=",".join(METHODS), help="of fit, eccadl, sghmc")
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--cache", type=Path, default=CACHE)
    parser.add_argument("--figure", type=Path, default=FIGURE)
    parser.add_argument("--kept", action="store_true", help="run nothing, and show what is in the cache")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", RuntimeWarning)
    cells = {}
    print("| model | method | sets | p-value, corrected | uniform | width of the ranks | seconds a set |")
    print("|---|---|---|---|---|---|---|")
    for name in arguments.models.split(","):
        for method in arguments.only.split(","):
            found, seconds = ranks(name, method, arguments.sets, arguments.cache, arguments.kept)
            cells[name, method] = found
            p = p_value(found)
            words = f"{p:.2g} | {'yes' if p > LEVEL else 'no'} | {width(found):.3f} | {seconds:.2f}"
            print(f"| {name} | {method} | {len(found)} | {words} |", flush=True)
    draw(cells, arguments.figure)


if __name__ == "__main__":
    main()
