"""`isotherm.fit` with no argument but the model, against NUTS on all the data.

    python benchmarks/anchored.py [--only NAME,...] [--seeds 0,1,2] [--markdown] [--json FILE] [--plain PASSES]

The posteriors are those of anchored_problems.py, the references those that anchored_reference.py left in `--cache`; the
full `flights` has the Laplace approximation for one. `--plain` runs `isotherm.eccadl()` for so many passes instead of
`fit`. A line a seed, and one for the first half of NUTS's own draws against the second:

- variance: tr(HC)/tr(HC*), mean: √((m − m*)ᵀH(m − m*)/d), each ± what Monte Carlo error alone makes of it; H is the
  Laplace precision;
- directions: the least and greatest ratio of the variances along the eigenvectors of H; how many are outside the band
  in which Monte Carlo error leaves 99.9 % of them, and how many of d should be; the same for means; and how many
  outside the band that holds all d together with that probability;
- ESS: the least over the parameters, bulk and tail, and the largest R-hat;
- what the results' attributes say was chosen, and the texts of the warnings.

The moments of the reference are averages with little noise: in whitened coordinates z the gradient g of the log-density
is nearly −z, and E[g] = 0 and E[g zᵀ] = −I (Stein), so that E[z] = E[z + g] and E[z zᵀ] = I + E[(z + g) zᵀ].
"""

import argparse
import json
import time
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import arviz_stats
import jax
import numpy as np
from scipy.stats import norm

import isotherm
from anchored_problems import PROBLEMS, Problem
from anchored_reference import CACHE, Reference, effective, load

LEVEL = 0.999
CHOSEN = ("sampler", "sampler_step_size", "batch_size", "steps_done")  # and all that begin with anchor or fit
SHORT = 90  # letters of a warning that are shown


class Moments(NamedTuple):
    """Mean and variance in each direction (d,), and their standard errors."""

    mean: np.ndarray
    variance: np.ndarray
    mean_error: np.ndarray
    variance_error: np.ndarray
    total_error: float  # of the sum of the variances


def moments(z: np.ndarray, control: np.ndarray | float = 0.0) -> Moments:
    """Of draws z (chain, draw, d); `control` is their gradients, or nothing."""
    steady = z + control
    mean = steady.mean(axis=(0, 1))
    squares = (steady - mean) * (z - mean)
    total = squares.sum(axis=2, keepdims=True)
    return Moments(
        mean,
        squares.mean(axis=(0, 1)) + (0.0 if np.ndim(control) == 0 else 1.0),
        standard_error(steady),
        standard_error(squares),
        float(standard_error(total)[0]),
    )


def standard_error(series: np.ndarray) -> np.ndarray:
    """Of the mean of each series of (chain, draw, d)."""
    return series.std(axis=(0, 1)) / np.sqrt(effective(series))


def truth(reference: Reference) -> Moments:
    """The moments of the reference; those of the Laplace approximation if it has no draws."""
    if not reference.draws.size:
        zero = np.zeros(len(reference.mode))
        return Moments(zero, zero + 1, zero, zero, 0.0)
    return moments(reference.whitened(reference.draws), reference.gradients.astype(np.float64))


def compare(run: Moments, true: Moments) -> dict[str, float]:
    """How far a run is from the truth, and from what Monte Carlo error leaves to it."""
    d = len(true.mean)
    ratios = run.variance / true.variance
    off = np.log(ratios) / np.hypot(run.variance_error / run.variance, true.variance_error / true.variance)
    mean_off = (run.mean - true.mean) / np.hypot(run.mean_error, true.mean_error)
    one, all_together = norm.isf((1 - LEVEL) / 2), norm.isf((1 - LEVEL) / (2 * d))
    total, total_true = run.variance.sum(), true.variance.sum()
    return {
        "d": d,
        "variance_ratio": total / total_true,
        "variance_error": total / total_true * np.hypot(run.total_error / total, true.total_error / total_true),
        "mean_error": np.sqrt(np.mean((run.mean - true.mean) ** 2)),
        "mean_by_chance": np.sqrt(np.mean(run.mean_error**2 + true.mean_error**2)),
        "least": ratios.min(),
        "greatest": ratios.max(),
        "outside": int(np.sum(~(np.abs(off) < one))),
        "means_outside": int(np.sum(~(np.abs(mean_off) < one))),
        "far_outside": int(np.sum(~(np.abs(np.concatenate([off, mean_off])) < all_together))),
    }


def halves(reference: Reference) -> dict[str, Any]:
    """The first half of NUTS's draws, as if they were a run, against the second."""
    z, g = reference.whitened(reference.draws), reference.gradients.astype(np.float64)
    half = z.shape[1] // 2
    found = compare(moments(z[:, :half]), moments(z[:, half:], g[:, half:]))
    return found | {"ess": np.min(effective(z[:, :half])), "seconds": reference.seconds.sum(), "warnings": []}


def measure(problem: Problem, reference: Reference, seed: int, plain: float | None) -> dict[str, Any]:
    """One run, as numbers by name."""
    began = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            tree = sampled(problem, seed, plain)
        except (ValueError, ArithmeticError) as error:
            return {"warnings": [f"refused: {error}"]}
    seconds = time.perf_counter() - began
    told = [str(w.message) for w in caught if issubclass(w.category, (RuntimeWarning, UserWarning))]
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        found = compare(moments(reference.whitened(flat(tree, problem.init))), truth(reference)) | statistics(tree)
    attributes = {name: value for name, value in tree.attrs.items() if isinstance(value, (str, int, float))}
    return found | {"seconds": seconds, "warnings": list(dict.fromkeys(told)), "attributes": attributes}


def sampled(problem: Problem, seed: int, plain: float | None) -> Any:
    """What is measured: `fit`, or `eccadl()` as it is."""
    if plain is None:
        return isotherm.fit(problem.posterior, problem.data, problem.init, seed=seed, progress=False)
    return isotherm.sample(
        problem.posterior,
        isotherm.eccadl(),
        problem.data,
        problem.init,
        batch_size=500,
        passes=plain,
        burn_in=1 / 3,
        thin=max(1, round(plain * problem.population / 500 / 6000)),
        chains=4,
        seed=seed,
        progress=False,
    )


def flat(tree: Any, init: Any) -> np.ndarray:
    """The draws (chain, draw, d), in the order of `ravel_pytree(init)`."""
    arrays = {name: values.values for name, values in tree.posterior.data_vars.items()}
    leaves = [arrays[name] for name in sorted(init)] if isinstance(init, dict) else list(arrays.values())
    for leaf, start in zip(leaves, jax.tree.leaves(init), strict=True):
        assert leaf.shape[2:] == np.shape(start)
    return np.concatenate([leaf.reshape(*leaf.shape[:2], -1) for leaf in leaves], axis=2)


def statistics(tree: Any) -> dict[str, float]:
    """The least effective sample size over the parameters, bulk and tail, and the largest R-hat."""

    def over(find: Any, **how: Any) -> np.ndarray:
        return np.concatenate([np.ravel(values) for values in find(tree, **how).values()])

    return {
        "ess": np.min(over(arviz_stats.ess, method="bulk")),
        "tail_ess": np.min(over(arviz_stats.ess, method="tail")),
        "rhat": np.max(over(arviz_stats.rhat)),
        "draws": tree.posterior.sizes["chain"] * tree.posterior.sizes["draw"],
    }


TITLES = (
    "posterior",
    "N",
    "d",
    "run",
    "variance ratio",
    "mean error (by chance)",
    "directions' variances",
    "outside 99.9 %: variances, means (by chance)",
    "outside for all",
    "least ESS, bulk, tail (draws)",
    "R-hat",
    "seconds",
    "chosen",
    "warnings",
)


def cells(r: dict[str, Any]) -> list[str]:
    """A record as the cells of a table."""
    begin = [r["name"], f"{r['N']:,}", str(r["parameters"]), r["run"]]
    said = "; ".join(text[:SHORT] for text in r["warnings"])
    if "variance_ratio" not in r:
        return [*begin, *[""] * (len(TITLES) - 5), said]
    ess = [f"{r[key]:,.0f}" for key in ("ess", "tail_ess") if key in r]
    return [
        *begin,
        f"{r['variance_ratio']:.3f} ± {r['variance_error']:.3f}",
        f"{r['mean_error']:.3f} ({r['mean_by_chance']:.3f})",
        f"{r['least']:.2f}–{r['greatest']:.2f}",
        f"{r['outside']}, {r['means_outside']} ({(1 - LEVEL) * r['d']:.1g})",
        str(r["far_outside"]),
        ", ".join(ess) + (f" ({r['draws']:,})" if "draws" in r else ""),
        f"{r['rhat']:.3f}" if "rhat" in r else "",
        f"{r['seconds']:.0f}",
        "; ".join(f"{name} {short(value)}" for name, value in r.get("attributes", {}).items() if chosen(name)),
        said,
    ]


def chosen(name: str) -> bool:
    return name in CHOSEN or name.startswith(("anchor", "fit"))


def short(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help="names, with commas: " + ", ".join(PROBLEMS))
    parser.add_argument("--seeds", default="0", help="with commas")
    parser.add_argument("--markdown", action="store_true", help="print a table in the end")
    parser.add_argument("--json", type=Path, help="a file for all the numbers")
    parser.add_argument("--plain", type=float, metavar="PASSES", help="eccadl() for so many passes, instead of fit")
    parser.add_argument("--cache", type=Path, default=CACHE, help="the folder of the references")
    args = parser.parse_args()
    records: list[dict[str, Any]] = []

    def add(problem: Problem, run: str, found: dict[str, Any]) -> None:
        about = {"name": problem.name, "N": problem.population, "parameters": problem.d, "run": run}
        records.append(about | found)
        print(" | ".join(f"{title}: {cell}" for title, cell in zip(TITLES, cells(records[-1]), strict=True) if cell))
        if args.json:
            args.json.write_text(json.dumps(records, indent=1, ensure_ascii=False, default=float))

    for name in args.only.split(",") if args.only else PROBLEMS:
        if name not in PROBLEMS:
            raise SystemExit(f"no problem is named {name!r}; there are {', '.join(PROBLEMS)}")
        problem, reference = PROBLEMS[name](), load(name, args.cache)
        if reference.draws.size:
            add(problem, "NUTS, half against half", halves(reference))
        for seed in (int(word) for word in args.seeds.split(",")):
            add(problem, f"seed {seed}", measure(problem, reference, seed, args.plain))
    if args.markdown:
        lines = [TITLES, ["---"] * len(TITLES), *(cells(r) for r in records)]
        print("\n".join("| " + " | ".join(line) + " |" for line in lines))


if __name__ == "__main__":
    main()
