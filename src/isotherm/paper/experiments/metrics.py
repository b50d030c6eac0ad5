"""What is measured of a run's draws: the distance to an exact posterior, or test losses and errors of a classifier; and
what `isotherm.check` says of them.

A point of a curve is what the whole run would have given, had it ended there: of the first k draws, a fifth is dropped
as burn-in. So the last point is the result, and one run gives every point.
"""

from functools import partial
from typing import TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from isotherm import diagnostics
from isotherm.diagnostics.check import check
from isotherm.lib.types import Array, Json, Params, Results
from isotherm.models.model import Model
from isotherm.paper.experiments.laplace import laplace
from isotherm.paper.experiments.moments import gaussian_w2, mean_error, variance_ratio
from isotherm.paper.experiments.tasks import Materials
from isotherm.targets.noisy import DENSE_PARAMETERS

GAUSSIAN = ("w2", "variance_ratio", "mean_error")
CLASSIFIER = (
    "expected_log_loss",
    "posterior_mean_log_loss",
    "posterior_mean_error",
    "predictive_log_loss",
    "predictive_error",
    "calibration_error",
)
CHECKED = ("checked_variance", "checked_mean_error")  # variance_ratio and mean_error, without a reference
BLOCK = 50  # draws predicted at once: memory for their probabilities stays small
LOSS_DRAWS = 400  # draws that losses are averaged over, evenly spaced: their spread is far below that of the seeds
MOMENT_PARAMETERS = 2000  # parameters up to which a cell keeps its mean, for distances to a reference

# Metrics at the end; curves, with the number of draws at each point; moments for distances to a reference.
Measured: TypeAlias = tuple[dict[str, float], dict[str, list[float]], Json]


def measure(draws: Params, materials: Materials, burn_in: float, usable: bool) -> Measured:
    """Measure a run's draws; metrics are NaN and curves empty where they are not `usable`."""
    if usable:
        return (of_classifier if materials.exact is None else of_gaussian)(draws, materials, burn_in)
    names, curves = (CLASSIFIER, ("log_likelihood", "error")) if materials.exact is None else (GAUSSIAN, ("w2",))
    return dict.fromkeys(names, float("nan")), {name: [] for name in ("draws", *curves)}, {}


def windows(draws: int, burn_in: float, points: int = 40) -> list[tuple[int, int]]:
    """Return the first and last draw of each point: some `points`, ending at draws/points, 2 draws/points, …, draws."""
    ends = np.unique(np.linspace(draws / points, draws, points).round().astype(int))
    within = [(int(burn_in * end), int(end)) for end in ends if end - int(burn_in * end) > 1]
    return within or [(0, draws)]


def of_gaussian(draws: np.ndarray, materials: Materials, burn_in: float) -> Measured:
    """Measure W2 at the end and along the way; variance over true variance; error of the mean in posterior s.d."""
    exact = materials.exact
    assert exact is not None
    within = windows(len(draws), burn_in)
    parts = (draws[first:last].astype(np.float64) for first, last in within)
    moments = [(part.mean(axis=0), np.cov(part, rowvar=False, bias=True)) for part in parts]
    distances = [gaussian_w2(*now, *exact) for now in moments]
    precision, (mean, covariance) = np.linalg.inv(exact.covariance), moments[-1]
    ratio = variance_ratio(precision, covariance, exact.covariance)
    values = distances[-1], ratio, mean_error(precision, mean, exact.mean)
    return dict(zip(GAUSSIAN, values, strict=True)), {"draws": [last for _, last in within], "w2": distances}, {}


def of_classifier(draws: Params, materials: Materials, burn_in: float, most: int = LOSS_DRAWS) -> Measured:
    """Measure the paper's metrics and the predictive ones; the posterior mean's along the way; the draws' moments."""
    within = windows(len(jax.tree.leaves(draws)[0]), burn_in)
    along = [of_mean(draws, materials, first, last) for first, last in within]
    kept = jax.tree.map(lambda array: array[within[-1][0] :], draws)
    at_mean = dict(zip(("posterior_mean_log_loss", "posterior_mean_error"), along[-1], strict=True))
    metrics = at_mean | predictive(kept, materials, most)
    curves = {
        "draws": [float(last) for _, last in within],
        "log_likelihood": [-loss for loss, _ in along],
        "error": [error for _, error in along],
    }
    return {name: metrics[name] for name in CLASSIFIER}, curves, moments(kept, materials)


def of_mean(draws: Params, materials: Materials, first: int, last: int | None = None) -> tuple[float, float]:
    """Return test log loss and error of the mean over draws `first` up to `last`."""
    x, labels = _test_set(materials)
    mean = jax.tree.map(lambda a: a[first:last].mean(axis=0, dtype=np.float64, keepdims=True).astype(a.dtype), draws)
    log_p = np.minimum(_predict(materials.model, mean, x)[0], 0)
    return diagnostics.log_loss(log_p, labels), diagnostics.error(log_p, labels)


def predictive(draws: Params, materials: Materials, most: int = LOSS_DRAWS) -> dict[str, float]:
    """Return losses averaged over at most `most` draws, evenly spaced, and of probabilities averaged over them."""
    x, labels = _test_set(materials)
    count = len(jax.tree.leaves(draws)[0])
    chosen = np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(int))
    losses, weighted = [], []
    for first in range(0, len(chosen), BLOCK):
        block = jax.tree.map(lambda array, f=first: jnp.asarray(array[chosen[f : f + BLOCK]]), draws)
        log_p = np.minimum(_predict(materials.model, block, x), 0)
        losses.append(diagnostics.log_losses(log_p, labels))
        weighted.append(diagnostics.average(log_p) + np.log(len(log_p) / len(chosen)))
    log_p = np.minimum(np.logaddexp.reduce(weighted, axis=0), 0)
    return {
        "expected_log_loss": float(np.concatenate(losses).mean()),
        "predictive_log_loss": diagnostics.log_loss(log_p, labels),
        "predictive_error": diagnostics.error(log_p, labels),
        "calibration_error": diagnostics.expected_calibration_error(np.exp(log_p), labels),
    }


def moments(draws: Params, materials: Materials) -> Json:
    """Return Lᵀ(mean − mode) and tr(H C), H = LLᵀ the Hessian at the mode, where θ is one vector of moderate size: the
    distance to a reference, which may come later, is made of them."""
    if not isinstance(draws, np.ndarray) or draws.shape[1] > MOMENT_PARAMETERS:
        return {}
    around = laplace(materials)
    whitened = (draws.astype(np.float64) - around.mode) @ np.linalg.cholesky(around.precision)
    return {"whitened_mean": whitened.mean(axis=0).tolist(), "whitened_variance": float(whitened.var(axis=0).sum())}


def verdict(tree: Results, materials: Materials, burn_in: float, seed: int) -> Json:
    """Return what `isotherm.check` says of a run: whether nothing is bad, which lines are, what it cost, and how far
    variance and mean were found to be off. Empty where that would take matrices that are too large."""
    entries = sum(np.prod(array.shape[2:], dtype=int) for array in tree["posterior"].data_vars.values())
    if entries > DENSE_PARAMETERS:
        return {}
    kept = tree.isel(draw=slice(int(burn_in * tree["posterior"].sizes["draw"]), None))
    found = check(kept, materials.posterior, materials.data, init=materials.init, seed=seed, progress=False)
    off = (found.moments.found.trace, found.moments.found.distance) if found.moments is not None else ()
    return {
        "good": bool(found),
        "bad": [line.name for line in found.table if not line.good],
        "lines": [str(line) for line in found.table],
        "passes": found.passes,
        **dict(zip(CHECKED, off, strict=bool(off))),
    }


def _test_set(materials: Materials) -> tuple[Array, np.ndarray]:
    assert materials.test is not None
    return jnp.asarray(materials.test["x"]), np.asarray(materials.model.class_index(materials.test["y"]))


@partial(jax.jit, static_argnames="model")
def _predict(model: Model, draws: Params, x: Array) -> Array:
    return jax.lax.map(lambda params: model.predict(params, x), draws)
