"""`isotherm.eccadl()` as it is on posteriors that nobody chose, against what is known of them.

    python benchmarks/unfriendly.py [ROW ...] [--seeds 0,1,2] [--passes 300] [--json FILE] [--markdown]

A ROW is a name or the beginning of some (`rows` is all that begin so; none given is all); `--list` names them. Each
prints a line a seed:

- var: the variance ratio tr(HC)/tr(HC*) with its Monte Carlo error;
- mean: √((m − m*)ᵀH(m − m*)/d), the error of the mean in posterior standard deviations;
- sd: the least and greatest ratio of a coordinate's standard deviation to the true one, and whose they are;
- R-hat (the largest), ESS (the least), the kinetic temperature times β, the mean of ξ beside A, the last step size;
- the texts of the warnings of the run.

C* and m* are exact for linear regression, else from NUTS; H is the precision. All runs drop a third as burn-in and make
at least 20 steps for each pass asked for, however large the batch. PYTHONPATH chooses the isotherm that is run.
"""

import argparse
import json
import time
import warnings
from pathlib import Path
from typing import Any

import arviz_stats
import numpy as np

import isotherm
from unfriendly_rows import ROWS, Problem, Row
from unfriendly_truth import Truth, kept

DRAWS = 4000  # of each chain, or somewhat more
LEAST = 20  # steps a pass
BATCHES = 20  # of consecutive draws of a chain, for Monte Carlo errors
SHORT = 90  # letters of a warning that are shown


def measure(row: Row, problem: Problem, truth: Truth, passes: float, seed: int) -> dict[str, Any]:
    """One run of a row, as numbers by name."""
    population = len(next(iter(problem.data.values())))
    steps = round(passes * max(population / row.batch_size, LEAST))
    record = {"row": row.name, "seed": seed, "passes": passes, "steps": steps, "A": row.friction}
    began = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            tree = isotherm.sample(
                isotherm.Posterior(problem.model.log_likelihood, problem.model.log_prior),
                isotherm.eccadl(**row.settings),
                problem.data,
                problem.init,
                batch_size=row.batch_size,
                steps=steps,
                burn_in=1 / 3,
                thin=max(1, steps * 2 // (3 * DRAWS)),
                chains=row.chains,
                seed=seed,
                replace=row.replace,
                progress=False,
            )
        except (ValueError, ArithmeticError) as error:
            return record | {"warnings": [f"refused: {error}"]}
    record["seconds"] = time.perf_counter() - began
    told = [str(w.message) for w in caught if issubclass(w.category, (RuntimeWarning, UserWarning))]
    record["warnings"] = list(dict.fromkeys(told))
    return record | statistics(row, tree) | distances(row, tree, truth)


def statistics(row: Row, tree: Any) -> dict[str, Any]:
    """What a run says of itself."""
    stats = tree.sample_stats
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        rhat, ess = (
            np.concatenate([np.ravel(values) for values in find(tree).values()])
            for find in (arviz_stats.rhat, arviz_stats.ess)
        )
    found = {
        "diverged": int((stats.first_bad_step >= 0).sum()),
        "rhat": float(np.max(rhat)),
        "ess": float(np.min(ess)),
        "kinetic": float(stats.kinetic_temperature.mean()) / row.temperature,
        "xi": float(stats.friction.mean()),
    }
    return found | ({"h": float(stats.step_size[:, -1].mean())} if "step_size" in stats else {})


def distances(row: Row, tree: Any, truth: Truth) -> dict[str, Any]:
    """How far the draws of all chains together are from the truth at the row's temperature; NaN if a chain diverged."""
    arrays = [values.values for values in tree.posterior.data_vars.values()]
    draws = np.concatenate([a.reshape(*a.shape[:2], -1) for a in arrays], axis=2).astype(np.float64)
    names = [
        name + "".join(f"[{i}]" for i in index)
        for name, values in tree.posterior.data_vars.items()
        for index in np.ndindex(values.shape[2:])
    ]
    mean = draws.mean(axis=(0, 1))
    away = draws - mean
    squares = np.einsum("cti,cti->ct", away @ truth.precision, away)  # a draw's distance from the mean of draws
    scale = row.temperature * np.sum(truth.precision * truth.covariance)
    error = mean - truth.mean
    sd = away.std(axis=(0, 1)) / np.sqrt(row.temperature * np.diag(truth.covariance))
    lengths = draws.shape[1] // BATCHES * BATCHES
    batches = squares[:, :lengths].reshape(len(draws) * BATCHES, -1).mean(axis=1) / scale
    return {
        "variance_ratio": float(squares.mean() / scale),
        "variance_error": float(batches.std(ddof=1) / np.sqrt(len(batches))),
        "mean_error": float(np.sqrt(error @ truth.precision @ error / (len(error) * row.temperature))),
        "sd_least": float(sd.min()),
        "sd_greatest": float(sd.max()),
        "sd_least_of": names[int(sd.argmin())],
        "sd_greatest_of": names[int(sd.argmax())],
    }


def reference(row: Row, problem: Problem, folder: Path) -> Truth:
    truth = kept(folder, problem.model, problem.data, problem.truth)
    print(f"{row.name:20} reference: R-hat {truth.rhat:.3f}, each s.d. ± {100 * truth.error:.2g} %", flush=True)
    return truth


def line(r: dict[str, Any]) -> str:
    begin = f"{r['row']:20} seed {r['seed']}"
    said = "".join(f" | {text[:SHORT]}" for text in r["warnings"])
    if "variance_ratio" not in r:
        return begin + said
    return (
        f"{begin}  var {r['variance_ratio']:.4g} ± {r['variance_error']:.2g}  mean {r['mean_error']:.3g}"
        f"  sd {r['sd_least']:.3g} ({r['sd_least_of']}) to {r['sd_greatest']:.3g} ({r['sd_greatest_of']})"
        f"  R-hat {r['rhat']:.3f}  ESS {r['ess']:.0f}  kT {r['kinetic']:.3g}  ξ {r['xi']:.3g} (A {r['A']:g})"
        f"  h {r.get('h', float('nan')):.3g}  steps {r['steps']}  {r['seconds']:.0f} s{said}"
    )


COLUMNS = {
    "mean error": "mean_error",
    "s.d., least": "sd_least",
    "s.d., greatest": "sd_greatest",
    "R-hat": "rhat",
    "kinetic temperature": "kinetic",
    "ξ": "xi",
    "A": "A",
    "step size": "h",
    "steps": "steps",
    "seconds": "seconds",
}


def markdown(records: list[dict[str, Any]], before: list[dict[str, Any]]) -> str:
    """A line a row: means over the seeds; the variance ratio with its least and greatest."""
    titles = ["row", *(["variance ratio before"] if before else []), "variance ratio", *COLUMNS, "warnings"]
    lines = ["| " + " | ".join(titles) + " |", "|---" * len(titles) + "|"]
    for name in dict.fromkeys(r["row"] for r in records):
        some = [r for r in records if r["row"] == name]
        cells = [name, *([ratio([r for r in before if r["row"] == name])] if before else []), ratio(some)]
        for key in COLUMNS.values():
            values = [r[key] for r in some if key in r]
            cells.append(short(np.mean(values)) if values else "")
        said = dict.fromkeys(text[:SHORT] for r in some for text in r["warnings"])
        lines.append("| " + " | ".join([*cells, "; ".join(said)]) + " |")
    return "\n".join(lines)


def short(value: float) -> str:
    """Three digits, or all of a whole number."""
    return f"{value:,.0f}" if 100 <= abs(value) < 1e6 else f"{value:.3g}"


def ratio(records: list[dict[str, Any]]) -> str:
    values = [r["variance_ratio"] for r in records if "variance_ratio" in r]
    if len(values) < 2:
        return "".join(f"{value:.3f}" for value in values)
    return f"{np.mean(values):.3f} ({min(values):.3f}–{max(values):.3f})"


def chosen(words: list[str]) -> list[Row]:
    """The rows of the names or beginnings; an exact name is that row only."""
    names = []
    for word in words or [""]:
        found = [word] if word in ROWS else [name for name in ROWS if name.startswith(word)]
        if not found:
            raise SystemExit(f"no row begins with {word!r}; --list names them")
        names += found
    return [ROWS[name] for name in dict.fromkeys(names)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="*", metavar="ROW")
    parser.add_argument("--seeds", default="0", help="of the sampler, with commas")
    parser.add_argument("--passes", type=float, default=300.0)
    parser.add_argument("--json", type=Path, help="a file for all the numbers")
    parser.add_argument("--list", action="store_true", help="name the rows and stop")
    parser.add_argument("--markdown", action="store_true", help="print a table in the end")
    parser.add_argument("--cache", type=Path, default=Path(__file__).parent / ".cache", help="a folder for references")
    parser.add_argument("--before", type=Path, help="the --json of another version, for a column of the table")
    args = parser.parse_args()
    rows = chosen(args.rows)
    if args.list:
        print(*(row.name for row in rows), sep="\n")
        return
    records: list[dict[str, Any]] = []
    for row in rows:
        problem = row.make()
        truth = problem.truth() if problem.exact else reference(row, problem, args.cache)
        for seed in (int(word) for word in args.seeds.split(",")):
            records.append(measure(row, problem, truth, args.passes, seed))
            print(line(records[-1]), flush=True)
            if args.json:
                args.json.write_text(json.dumps(records, indent=1, ensure_ascii=False))
    if args.markdown:
        print(markdown(records, json.loads(args.before.read_text()) if args.before else []))


if __name__ == "__main__":
    main()
