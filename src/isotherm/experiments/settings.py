"""What an experiment is made of, as data: methods, tasks, and one cell for each number in a table."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from isotherm import samplers
from isotherm.datasets.files import Folder
from isotherm.posterior import Posterior
from isotherm.types import Batch, Params

LABELS = {"sghmc": "SGHMC", "sgnht": "SGNHT", "ccadl": "CCAdL", "mccadl": "mCCAdL", "eccadl": "eCCAdL"}
METHODS = tuple(name for name in LABELS if hasattr(samplers, name))  # the paper's order, ours last


class Gaussian(NamedTuple):
    """A mean (d,) and a covariance (d, d), float64: an exact or a measured posterior."""

    mean: np.ndarray
    covariance: np.ndarray


@dataclass(frozen=True, eq=False)
class Materials:
    """A task's arrays and model, loaded: `exact` where the posterior is known, `test` where there is a test set."""

    model: Any
    data: Batch
    init: Params
    test: Batch | None = None
    exact: Gaussian | None = None

    @property
    def posterior(self) -> Posterior:
        return Posterior(self.model.log_likelihood, self.model.log_prior)


@dataclass(frozen=True)
class Task:
    """One data set and what is run on it. `options` are further arguments of a method, by its name."""

    dataset: str
    title: str
    load: Callable[[Folder | None], Materials]
    step_sizes: tuple[float, ...]
    batch_size: int
    passes: float
    quick_passes: float
    frictions: tuple[float, ...] = (1.0, 10.0)
    methods: tuple[str, ...] = METHODS
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    seeds: int = 3
    burn_in: float = 0.2
    thin: int = 1
    workers: int = 2
    reference_draws: int = 0
    small_step: float | None = None
    notes: str = ""

    def sampler(self, method: str, step_size: float, friction: float) -> Any:
        return getattr(samplers, method)(step_size, friction, **self.options.get(method, {}))


@dataclass(frozen=True)
class Cell:
    """One run: a method at a step size, a friction and a seed."""

    method: str
    step_size: float
    friction: float
    seed: int


def grid(task: Task, seeds: int | None = None) -> list[Cell]:
    """Every cell of a task; the first seed of all comes first, so that a stopped command has a whole table early."""
    return [
        Cell(method, step_size, friction, seed)
        for seed in range(task.seeds if seeds is None else seeds)
        for step_size in task.step_sizes
        for friction in task.frictions
        for method in task.methods
    ]
