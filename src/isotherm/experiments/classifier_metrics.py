"""Metrics of a classifier's draws: test losses and errors, of the posterior mean and of the posterior predictive."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from isotherm import diagnostics
from isotherm.experiments import running_moments
from isotherm.experiments.laplace import laplace
from isotherm.experiments.tasks import Materials

METRICS = (
    "expected_log_loss",
    "posterior_mean_log_loss",
    "posterior_mean_error",
    "predictive_log_loss",
    "predictive_error",
    "calibration_error",
)
BLOCK = 50  # draws predicted at once: memory for their probabilities stays small
MOST_DRAWS = 400  # draws that losses are averaged over, evenly spaced: their spread is far below that of the seeds
MOST_MOMENTS = 2000  # parameters up to which a cell keeps its mean, for distances to a reference


def measure(
    draws: Any, materials: Materials, burn_in: float, usable: bool, most: int = MOST_DRAWS
) -> tuple[dict[str, float], dict[str, list[float]], dict[str, Any]]:
    """The paper's metrics and the predictive ones; the posterior mean's along the way; the moments of the draws."""
    if not usable:
        nothing: list[float] = []
        return dict.fromkeys(METRICS, float("nan")), {"draws": nothing, "log_likelihood": [], "error": []}, {}
    model, test = materials.model, materials.test
    assert test is not None
    labels = np.asarray(model.class_index(test["y"]))
    x = jnp.asarray(test["x"])
    windows = running_moments.windows(jax.tree.leaves(draws)[0].shape[0], burn_in)
    along = [_of_mean(model, mean, x, labels) for mean in _means(draws, windows)]
    after_burn_in = jax.tree.map(lambda array: array[windows[-1].first :], draws)
    metrics = dict(zip(METRICS, (0.0, *along[-1]), strict=False)) | predictive(model, after_burn_in, x, labels, most)
    curves = {
        "draws": [float(window.last) for window in windows],
        "log_likelihood": [-loss for loss, _ in along],
        "error": [error for _, error in along],
    }
    return metrics, curves, moments(materials, after_burn_in)


def predictive(model: Any, draws: Any, x: Any, labels: np.ndarray, most: int = MOST_DRAWS) -> dict[str, float]:
    """Losses averaged over at most `most` draws, evenly spaced, and of probabilities averaged over them."""
    count = jax.tree.leaves(draws)[0].shape[0]
    chosen = np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(int))
    losses, averages, sizes = [], [], []
    for first in range(0, len(chosen), BLOCK):
        block = jax.tree.map(lambda array, f=first: jnp.asarray(array[chosen[f : f + BLOCK]]), draws)
        log_p = np.minimum(_predict_many(model, block, x), 0)
        losses.append(diagnostics.log_losses(log_p, labels))
        averages.append(diagnostics.average(log_p))
        sizes.append(len(log_p))
    weighted = [average + np.log(size / len(chosen)) for average, size in zip(averages, sizes, strict=True)]
    log_p = np.minimum(np.logaddexp.reduce(weighted, axis=0), 0)
    return {
        "expected_log_loss": float(np.concatenate(losses).mean()),
        "predictive_log_loss": diagnostics.log_loss(log_p, labels),
        "predictive_error": diagnostics.error(log_p, labels),
        "calibration_error": diagnostics.expected_calibration_error(np.exp(log_p), labels),
    }


def moments(materials: Materials, draws: Any) -> dict[str, Any]:
    """Lᵀ(mean − mode) and tr(H C), with H = LLᵀ the Hessian at the mode: a reference may come later than the cell.

    Only where θ is one vector of moderate size.
    """
    if not isinstance(draws, np.ndarray) or draws.shape[1] > MOST_MOMENTS:
        return {}
    around = laplace(materials)
    whitened = (draws.astype(np.float64) - around.mode) @ np.linalg.cholesky(around.precision)
    return {"whitened_mean": whitened.mean(axis=0).tolist(), "whitened_variance": float(whitened.var(axis=0).sum())}


def _means(draws: Any, windows: list[running_moments.Window]) -> Any:
    leaves, structure = jax.tree.flatten(draws)
    for parts in zip(*(running_moments.means(leaf, windows) for leaf in leaves), strict=True):
        yield jax.tree.unflatten(structure, [p.astype(leaf.dtype) for p, leaf in zip(parts, leaves, strict=True)])


def _of_mean(model: Any, mean: Any, x: Any, labels: np.ndarray) -> tuple[float, float]:
    log_p = np.minimum(predict(model, mean, x), 0)
    return diagnostics.log_loss(log_p, labels), diagnostics.error(log_p, labels)


@partial(jax.jit, static_argnames="model")
def predict(model: Any, params: Any, x: Any) -> Any:
    return model.predict(params, x)


@partial(jax.jit, static_argnames="model")
def _predict_many(model: Any, params: Any, x: Any) -> Any:
    return jax.lax.map(lambda one: model.predict(one, x), params)
