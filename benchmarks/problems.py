"""The problems of the benchmark: a model, its data and where to start."""

import os
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.flatten_util import ravel_pytree

import isotherm
from isotherm.models import DRBM, MLP, Linear, Logistic
from isotherm.paper.datasets import letter, mnist
from isotherm.paper.datasets.source import DatasetError

# Real data sets, if they are at hand: $ISOTHERM_DATA, or `shared/data` beside the checkout.
DATA = Path(os.environ.get("ISOTHERM_DATA", Path(__file__).parents[2] / "shared" / "data"))


class Case(NamedTuple):
    name: str
    model: Any
    data: dict[str, np.ndarray]
    test: dict[str, np.ndarray]
    init: Any
    batch_size: int
    step_size: float

    @property
    def posterior(self) -> isotherm.Posterior:
        return isotherm.Posterior(self.model.log_likelihood, self.model.log_prior)

    @property
    def population(self) -> int:
        return len(next(iter(self.data.values())))

    @property
    def d(self) -> int:
        return ravel_pytree(self.init)[0].size


def logistic_mnist() -> Case:
    """(a) MNIST 7/9 on 100 random axes, or made-up data of that shape and scale where there is no MNIST."""
    try:
        train, test = mnist.pair(7, 9, data_dir=DATA)
        name = "(a) logistic, MNIST 7/9"
    except (DatasetError, OSError):
        train, test = _classes(12_214, 100, 0), _classes(2_037, 100, 1)
        name = "(a) logistic, MNIST-like"
    return Case(name, Logistic(100, prior_variance=1.0), train, test, np.zeros(100, np.float32), 500, 1.2e-3)


def logistic_wide() -> Case:
    """(b) Logistic regression with d = 400."""
    train, test = _classes(10_000, 400, 2), _classes(2_000, 400, 3)
    model = Logistic(400, prior_variance=1.0)
    return Case("(b) logistic, d = 400", model, train, test, np.zeros(400, np.float32), 500, 1e-3)


def logistic(n: int, d: int, N: int) -> Case:
    """Logistic regression of any size, to see what a size costs."""
    return Case("logistic", Logistic(d), _classes(N, d, 9), _classes(100, d, 10), np.zeros(d, np.float32), n, 1e-5)


def drbm_letter() -> Case:
    """(c) A discriminative restricted Boltzmann machine on letter, or on made-up rows of that shape."""
    try:
        train, test = letter.load(data_dir=DATA)
        name = "(c) DRBM, letter"
    except (DatasetError, OSError):
        train, test = _labelled(10_500, 16, 26, 4), _labelled(5_000, 16, 26, 5)
        name = "(c) DRBM, letter-like"
    model = DRBM(16, 100, 26)
    return Case(name, model, train, test, model.init(jax.random.key(0)), 1000, 5e-3)


def network(hidden: int = 1258) -> Case:
    """(d) A two-layer network with a million parameters, or fewer."""
    train, test = _labelled(10_000, 784, 10, 6), _labelled(1_000, 784, 10, 7)
    model = MLP(784, hidden, 10)
    init = model.init(jax.random.key(0), 0.02)
    return Case(f"(d) network, d = {ravel_pytree(init)[0].size:,}", model, train, test, init, 256, 1e-4)


def linear(population: int, d: int = 20) -> Case:
    """(e) Linear regression, to see what N costs."""
    rng = np.random.default_rng(8)
    x = rng.standard_normal((population, d), np.float32)
    y = x @ (0.1 * rng.standard_normal(d, np.float32)) + rng.standard_normal(population, np.float32)
    data = {"x": x, "y": y}
    step = 5.0 / population  # far inside the stable range at every N
    return Case(f"(e) linear, N = {population:.0e}", Linear(d), data, data, np.zeros(d, np.float32), 500, step)


def _classes(rows: int, d: int, seed: int) -> dict[str, np.ndarray]:
    """Two classes of rows with the spectrum of projected MNIST, roughly: one large direction, then a power law."""
    rng = np.random.default_rng(seed)
    spectrum = np.concatenate([[80.0], 40.0 / np.sqrt(np.arange(1, d))])
    x = spectrum * rng.standard_normal((rows, d))
    chance = 1 / (1 + np.exp(-x @ (0.1 * np.random.default_rng(99).standard_normal(d))))
    return {"x": x.astype(np.float32), "y": np.where(rng.random(rows) < chance, 1, -1).astype(np.float32)}


def _labelled(rows: int, features: int, classes: int, seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {"x": rng.uniform(-1, 1, (rows, features)).astype(np.float32), "y": rng.integers(0, classes, rows, np.int32)}
