"""Figure 3 and the CIFAR-10 rows of Table 1: Bayesian logistic regression on three pairs of classes.

Pixels/255 on the 400 principal axes of the training pair, coordinates not centred, no intercept; prior N(0, I). The
paper does not say where its chains start, and at the smallest step CCAdL's fate depends on it: it is shown from θ = 0
everywhere, and once from the posterior mode.
"""

from functools import partial
from pathlib import Path

import numpy as np

from isotherm.datasets import cifar10
from isotherm.experiments.experiment import Experiment
from isotherm.experiments.laplace import laplace
from isotherm.experiments.tasks import Materials, Task
from isotherm.models import Logistic

PAIRS = (("airplane", "automobile", 3.8e-4), ("deer", "horse", 3.9e-4), ("cat", "dog", 3.5e-4))


def load(first: str, second: str, data_dir: Path | None = None) -> Materials:
    train, test = cifar10.pair(first, second, components=400, data_dir=data_dir)
    return Materials(Logistic(400, prior_variance=1.0), train, np.zeros(400, np.float32), test)


def load_at_mode(first: str, second: str, data_dir: Path | None = None) -> Materials:
    """The same, started at the posterior mode."""
    materials = load(first, second, data_dir)
    mode = laplace(materials).mode.astype(np.float32)
    return Materials(materials.model, materials.data, mode, materials.test)


def pair(first: str, second: str, smallest: float) -> Task:
    return Task(
        dataset=f"cifar10-{first}-{second}",
        title=f"CIFAR-10, {first} and {second}",
        load=partial(load, first, second),
        step_sizes=(smallest, 1e-3, 1.5e-3),
        batch_size=500,
        passes=200,
        quick_passes=20,
        reference_draws=1500,
        small_step=1e-4,
        notes="400 principal axes, coordinates not centred, prior variance 1, start θ = 0",
    )


OTHER_START = Task(
    dataset="cifar10-airplane-automobile-from-mode",
    title="CIFAR-10, airplane and automobile, started at the posterior mode",
    load=partial(load_at_mode, "airplane", "automobile"),
    step_sizes=(3.8e-4,),
    batch_size=500,
    passes=200,
    quick_passes=20,
    methods=("ccadl", "mccadl"),
    seeds=1,
    notes="as above, but started at the mode: CCAdL's limit is higher there",
)

EXPERIMENT = Experiment(
    name="cifar10",
    title="Figure 3 and Table 1: logistic regression on three CIFAR-10 pairs",
    tasks=(*(pair(*names) for names in PAIRS), OTHER_START),
    curve="log_likelihood",
)
