"""Ten NumPyro models through `isotherm.from_numpyro` and `isotherm.fit`, each against NumPyro's NUTS.

    python benchmarks/numpyro_models.py [MODEL ...] [--seed 0] [--seconds 120] [--nuts-draws 1000] [--markdown]

For each entry of each site: the difference of the means of the two sets of draws, over its Monte Carlo error, and the
same for the standard deviations. Each line has the largest of either, and how many of all exceed 3: one in 370 does by
chance. Errors are those of ArviZ, which are for draws without bias; `isotherm.check` says what it thinks of that.
"""

import argparse
import time
import warnings
from typing import Any

import arviz_stats
import jax
import numpy as np
from numpyro.infer import MCMC, NUTS

import isotherm
from isotherm.targets.parameters import entry
from numpyro_zoo import Case, cases

CHAINS = 4
COLUMNS = ("model", "rows", "parameters", "fit", "batch", "mean", "sd", "beyond 3", "seconds", "NUTS", "verdict")


def nuts(case: Case, seed: int, draws: int) -> tuple[dict[str, np.ndarray], float]:
    """Draws by site (chain, draw, …) and seconds."""
    began = time.perf_counter()
    kernel = NUTS(case.model, target_accept_prob=0.9)
    run = MCMC(
        kernel, num_warmup=draws, num_samples=draws, num_chains=CHAINS, chain_method="vectorized", progress_bar=False
    )
    run.run(jax.random.key(seed), **case.data, **case.fixed)
    return jax.device_get(run.get_samples(group_by_chain=True)), time.perf_counter() - began


def differences(ours: dict[str, np.ndarray], theirs: dict[str, np.ndarray]) -> dict[str, dict[str, float]]:
    """Of means and of standard deviations, in Monte Carlo errors, for all entries of all sites that vary, by name."""
    found: dict[str, dict[str, float]] = {"mean": {}, "sd": {}}
    for name, draws in ours.items():
        pair = [each.reshape(*each.shape[:2], -1).astype(np.float64) for each in (draws, theirs[name])]
        for i in range(pair[0].shape[2]):
            a, b = (each[..., i] for each in pair)
            if np.ptp(b) == 0:
                continue
            for kind, of in (("mean", np.mean), ("sd", np.std)):
                errors = [float(arviz_stats.mcse(each, method=kind)) for each in (a, b)]
                found[kind][entry(name, draws.shape[2:], i)] = float((of(a) - of(b)) / np.hypot(*errors))
    return found


def largest(errors: np.ndarray) -> str:
    """In one number; none where a chain diverged, so that there is no mean."""
    return f"{abs(errors).max():.1f}" if np.isfinite(errors).all() else "–"


def measure(name: str, case: Case, options: Any) -> list[str]:
    """A line of the table."""
    rows = len(next(iter(case.data.values())))
    try:
        model = isotherm.from_numpyro(case.model, case.data, **case.fixed)
    except ValueError as error:
        return [name, f"{rows:,}", "", "refused", "", "", "", "", "", "", str(error)]
    began = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        tree = isotherm.fit(model, seed=options.seed, seconds=options.seconds, progress=False)
    seconds = time.perf_counter() - began
    verdict = isotherm.check(tree, model, progress=False)
    for warning in caught:
        print(f"  {name}: {warning.message}", flush=True)
    theirs, nuts_seconds = nuts(case, options.seed, options.nuts_draws)
    ours = {str(site): array.values for site, array in tree.posterior.data_vars.items()}
    found = differences(ours, theirs)
    for kind, values in found.items():
        for where in (where for where, value in values.items() if abs(value) > 3):
            print(f"  {name}: the {kind} of {where} differs by {values[where]:+.1f} errors", flush=True)
    mean, sd = (np.array(list(values.values())) for values in found.values())
    beyond = int((abs(np.concatenate([mean, sd])) > 3).sum())
    size = tree.attrs["batch_size"]
    return [
        name,
        f"{rows:,}",
        f"{sum(int(np.prod(latent.shape)) for latent in model.latents)}",
        "anchored" if tree.attrs["fit_method"].startswith("anchored") else "plain",
        f"{size:,} ({size / rows:.1%})",
        largest(mean),
        largest(sd),
        f"{beyond} of {len(mean) + len(sd)}" if np.isfinite(mean).all() else "–",
        f"{seconds:.0f}",
        f"{nuts_seconds:.0f}",
        verdict.summary,
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", metavar="MODEL", help="by name; all if none is given")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=120, help="for sampling, at most")
    parser.add_argument("--nuts-draws", type=int, default=1000, help="of each of four chains, after as many of warm-up")
    parser.add_argument("--markdown", action="store_true", help="print a table in Markdown")
    options = parser.parse_args()
    found = cases()
    if unknown := set(options.models) - set(found):
        parser.error(f"no model {', '.join(unknown)}; there are {', '.join(found)}")
    lines = []
    for name in options.models or found:
        lines.append(measure(name, found[name], options))
        print(" | ".join(lines[-1]), flush=True)
    if options.markdown:
        print("\n| " + " | ".join(COLUMNS) + " |\n|" + "---|" * len(COLUMNS))
        print("\n".join("| " + " | ".join(line) + " |" for line in lines))


if __name__ == "__main__":
    main()
