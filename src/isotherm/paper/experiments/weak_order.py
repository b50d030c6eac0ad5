"""A test of the paper's claim of weak second order: bias of ⟨θ²⟩ against the step size.

A linear-Gaussian model whose gradient noise is known: one example has log-likelihood −½|x − θ|², so the force is
(N/n) Σ_batch (x_i − θ), its covariance S = (N²/n) Cov(x) does not depend on θ, and the posterior is N(x̄, I/N) under a
flat prior. x ~ N(0, diag(σ²)) with variances from ¼ to 4, so that no scalar thermostat can balance the noise.
mCCAdL runs twice: with S estimated from each batch, as always, and with S known.

A is the frequency of the well and N/n = 20: at A = 1 and N/n = 200, SGNHT's bias is 17 to 24 times the variance at
every step from 2.5e-4 to 2e-3, so that no order can be read off. With the default thermal mass, μ = D, SGNHT's friction
still drifts after 40,000 steps; with μ = 0.02 it follows at once. The slope is fitted to biases below ½ because
mCCAdL's curve bends above.
"""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import product
from pathlib import Path

import jax.numpy as jnp
import numpy as np
from jax.tree_util import register_dataclass

from isotherm import samplers
from isotherm.lib.types import Json, RandomKey, Scalar, Vector
from isotherm.paper.experiments import plots
from isotherm.paper.experiments.cell import draw_tree, first_bad_step
from isotherm.paper.experiments.experiment import Options
from isotherm.paper.experiments.jobs import Job, JobResult
from isotherm.paper.experiments.report import Section
from isotherm.paper.experiments.tasks import LABELS
from isotherm.posterior import Posterior
from isotherm.report.html import Entry, Table
from isotherm.samplers.base import State
from isotherm.samplers.mccadl import MCCAdL
from isotherm.samplers.settings import attributes
from isotherm.targets.noisy import Covariance, Noisy

N, BATCH, D = 2_000, 100, 10
STEPS, QUICK_STEPS = 40_000, 4_000
CHAINS = 16
SETTINGS = {"batch_size": BATCH, "burn_in": 0.2, "chains": CHAINS, "seed": 0}
FREQUENCY = math.sqrt(N)  # of the posterior's harmonic well
FRICTION = round(FREQUENCY, 3)
THERMAL_MASS = 0.02  # so small that ξ is stationary after burn-in
STEP_SIZES = tuple(round(x / FREQUENCY, 8) for x in (0.0125, 0.025, 0.05, 0.1, 0.141, 0.2, 0.283, 0.4))
VARIANTS = ("sgnht", "ccadl", "mccadl-known", "mccadl", "eccadl")
NAMES = LABELS | {"mccadl-known": "mCCAdL, S known", "mccadl": "mCCAdL, S from the batch"}


@cache
def data() -> np.ndarray:
    """Draw x (N, D), with variances from ¼ to 4."""
    spread = np.geomspace(0.5, 2, D)
    return (np.random.default_rng(0).standard_normal((N, D)) * spread).astype(np.float32)


def log_likelihood(theta: Vector, x: Vector) -> Scalar:
    return -0.5 * jnp.sum((x - theta) ** 2)


def log_prior(theta: Vector) -> Scalar:
    return 0.0 * jnp.sum(theta)


@cache
def known_covariance() -> np.ndarray:
    """Return S = (N²/n) Cov(x), of batches with replacement."""
    return N**2 / BATCH * np.cov(data().astype(np.float64).T, bias=True)


def with_known_covariance(noisy: Noisy) -> Noisy:
    values, vectors = np.linalg.eigh(known_covariance())
    root = jnp.asarray(vectors * np.sqrt(values), noisy.force.dtype)
    # A pair of rows ±r has mean zero, which is what Covariance takes out.
    rows = jnp.concatenate([root.T, -root.T]) / math.sqrt(2)
    known = Covariance(1.0, lambda v: rows @ v, lambda u: rows.T @ u, lambda: rows)
    return replace(noisy, _covariance=lambda: known)


@register_dataclass
@dataclass(frozen=True)
class KnownMCCAdL(MCCAdL):
    """mCCAdL with the covariance of the noisy force known rather than estimated."""

    def init(self, key: RandomKey, position: Vector, noisy: Noisy) -> State:
        return super().init(key, position, with_known_covariance(noisy))

    def step(self, key: RandomKey, state: State, noisy: Noisy) -> State:
        return super().step(key, state, with_known_covariance(noisy))


POSTERIOR = Posterior(log_likelihood, log_prior)


def sampler(variant: str, step_size: float) -> samplers.Sampler:
    """Build the sampler of a variant, with Lanczos at full rank, so that C is exact."""
    more = {"rank": D} if variant.startswith("mccadl") else {}
    built = getattr(samplers, variant.removesuffix("-known"))(step_size, FRICTION, thermal_mass=THERMAL_MASS, **more)
    return KnownMCCAdL(**vars(built)) if variant.endswith("-known") else built


def bias(variant: str, step_size: float, steps: int) -> Json:
    """Measure (⟨|θ − x̄|²⟩ − D/N)/(D/N) with its standard error over chains."""
    began = time.perf_counter()
    centre = data().mean(axis=0, dtype=np.float64)
    settings = {**SETTINGS, "steps": steps, "thin": steps // 10}
    tree = draw_tree(POSTERIOR, sampler(variant, step_size), data(), centre.astype(np.float32), settings)
    first_bad = first_bad_step(tree)
    mean, variance = (np.asarray(tree[f"posterior_{moment}"]["theta"], np.float64) for moment in ("mean", "variance"))
    relative = N * (variance + (mean - centre) ** 2).mean(axis=1) - 1
    return {
        "metrics": {
            "relative_bias": float(relative.mean()) if first_bad is None else None,
            "standard_error": float(relative.std(ddof=1) / math.sqrt(CHAINS)) if first_bad is None else None,
        },
        "first_bad_step": first_bad,
        "seconds": time.perf_counter() - began,
        "seconds_per_step": tree.attrs["sampling_time"] / tree.attrs["steps_done"],
    }


def slope(step_sizes: Sequence[float], biases: Sequence[float], errors: Sequence[float]) -> tuple[float, float]:
    """Fit the slope of log|bias| on log h, and its error, by least squares: biases beyond 3 errors and below ½."""
    points = [(h, abs(b), e) for h, b, e in zip(step_sizes, biases, errors, strict=True) if 3 * e < abs(b) < 0.5]
    if len(points) < 2:
        return math.nan, math.nan
    h, b, e = (np.array(column) for column in zip(*points, strict=True))
    (order, _), covariance = np.polyfit(np.log(h), np.log(b), 1, w=b / e, cov="unscaled")
    return float(order), float(np.sqrt(covariance[0, 0]))


class WeakOrder:
    """The experiment, with the methods of `experiment.Experiment`."""

    name, title, workers = "weak-order", "Weak order: bias of ⟨θ²⟩ against the step size", 1
    quick_lengths = (f"weak order: {QUICK_STEPS:,} of {STEPS:,} steps",)

    def jobs(self, options: Options) -> list[Job]:
        steps = QUICK_STEPS if options.quick else STEPS
        shared = {"kind": "cell", "experiment": self.name, "dataset": "gaussian-mean", "friction": FRICTION}
        jobs = []
        for variant, h in product(VARIANTS, STEP_SIZES):
            settings = {**attributes(sampler(variant, h)), **shared, "sampler": variant, "step_size": h, "rows": N}
            settings |= {"parameters": D, **SETTINGS, "steps": steps}
            jobs.append(Job(f"{self.name}/{variant}-h{h:g}", settings, partial(bias, variant, h, steps)))
        return jobs

    def summarise(self, done: Sequence[JobResult], figures: Path) -> tuple[list[Json], Section]:
        cells = [{**one.job.settings, **one.result} for one in done]
        lines, rows, diverged = [], [], []
        for variant in VARIANTS:
            mine = [cell for cell in cells if cell["sampler"] == variant]
            finite = [cell for cell in mine if cell["first_bad_step"] is None]
            if bad := [cell["step_size"] for cell in mine if cell not in finite]:
                diverged.append(f"{NAMES[variant]} diverged from h = {min(bad):.2g} on")
            h = [cell["step_size"] for cell in finite]
            biases, errors = ([cell["metrics"][m] for cell in finite] for m in ("relative_bias", "standard_error"))
            lines.append(plots.Curve(NAMES[variant], h, [abs(b) for b in biases], variant, 1.0, errors))
            order, uncertain = slope(h, biases, errors)
            fitted = "–" if math.isnan(order) else f"{order:.2f} ± {uncertain:.2f}"
            rows.append([Entry(NAMES[variant]), *map(_entry, mine), Entry(fitted)])
        panel = plots.Panel("", lines, note="\n".join(diverged))
        drawn = plots.draw([[panel]], "step size", "|relative bias of ⟨θ²⟩|", xscale="log", yscale="log")
        caption = f"{self.title}. The band around a line: ± one standard error over {CHAINS} chains."
        picture = plots.save_picture(drawn, figures, self.name, caption)
        columns = ["", *(f"h = {h:g}" for h in STEP_SIZES), "slope"]
        caption = "Relative bias ± standard error over chains. Slope of log|bias| on log h for 3 errors < |bias| < 0.5."
        table = Table(self.title, columns, rows, caption)
        return cells, Section(self.title, (__doc__ or "").split("\n\n", 1)[1], [table], [picture])


def _entry(cell: Json) -> Entry:
    if cell["first_bad_step"] is not None:
        return Entry(f"NaN, step {cell['first_bad_step']}", shade="diverged")
    return Entry(f"{cell['metrics']['relative_bias']:+.4f} ± {cell['metrics']['standard_error']:.4f}")


EXPERIMENT = WeakOrder()
