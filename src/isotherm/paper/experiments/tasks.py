"""A task: one data set, its model, and the settings with which every method runs on it."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from isotherm import samplers
from isotherm.lib.types import Batch, Params
from isotherm.models.model import Model
from isotherm.paper.datasets.linear_regression import ExactPosterior
from isotherm.posterior import Posterior

LABELS = {
    "sghmc": "SGHMC",
    "sgnht": "SGNHT",
    "ccadl": "CCAdL",
    "mccadl": "mCCAdL",
    "mccadl-own": "mCCAdL, own batch",
    "eccadl": "eCCAdL",
}
BOTH_BATCHES = tuple(LABELS)  # the paper's order, ours last
METHODS = tuple(method for method in LABELS if method != "mccadl-own")


@dataclass(frozen=True, eq=False)
class Materials:
    """A task's arrays and model, loaded: `exact` where the posterior is known, `test` where there is a test set."""

    model: Model
    data: Batch
    init: Params
    test: Batch | None = None
    exact: ExactPosterior | None = None

    @property
    def posterior(self) -> Posterior:
        return Posterior(self.model.log_likelihood, self.model.log_prior)


@dataclass(frozen=True)
class PaperTask:
    """One data set and what is run on it.

    Attributes:
        load: reads the data, from the folder given with `--data` if there is one.
        passes: length of a run, in passes over the data; `quick_passes` with `--quick`.
        seeds: runs of each cell; they differ in nothing but the seed.
        burn_in: fraction of the draws that is dropped.
        workers: cells that run at the same time.
        reference_draws: draws of NUTS, 0 for no reference.
        small_step: the step size from which the largest usable one is searched; None for no search.
    """

    dataset: str
    title: str
    load: Callable[[Path | None], Materials]
    step_sizes: tuple[float, ...]
    quick_passes: float
    passes: float = 200
    batch_size: int = 500
    frictions: tuple[float, ...] = (1.0, 10.0)
    methods: tuple[str, ...] = METHODS
    seeds: int = 3
    burn_in: float = 0.2
    thin: int = 1
    workers: int = 2
    reference_draws: int = 0
    small_step: float | None = None
    notes: str = ""

    def sampler(self, method: str, step_size: float, friction: float) -> samplers.Sampler:
        """Build the sampler that a method names; after a dash, the batch that mCCAdL's covariance comes from."""
        name, _, batch = method.partition("-")
        more = {"covariance_batch": batch} if batch else {}
        return getattr(samplers, name)(step_size, friction, **more)
