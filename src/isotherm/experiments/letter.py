"""Figure 4 (top) and the letter rows of Tables 2 and 3: discriminative RBM, 16 features, 100 hidden units, 26 classes.

The prior's variance and the number of passes are not in the paper: N(0, 10 I) here, start N(0, 0.01 I); variances of 1
and 100 beside it.
"""

from functools import partial
from pathlib import Path
from typing import Any

from isotherm.datasets import letter
from isotherm.experiments.experiment import Experiment
from isotherm.experiments.tasks import METHODS, Materials, Task
from isotherm.models import DRBM

HIDDEN = 100


def load(prior_variance: float, data_dir: Path | None = None) -> Materials:
    train, test = letter.load(data_dir)
    model = DRBM(letter.FEATURES, HIDDEN, letter.CLASSES, prior_variance)
    return Materials(model, train, model.init, test)


def task(prior_variance: float, **settings: Any) -> Task:
    return Task(
        load=partial(load, prior_variance),
        batch_size=1000,
        passes=760,
        quick_passes=4,
        seeds=1,
        thin=10,
        workers=1,
        notes=f"prior variance {prior_variance:g}, start N(0, 0.01 I)",
        **settings,
    )


def other_prior(prior_variance: float) -> Task:
    """One cell a method, to see how results move with the prior."""
    return task(
        prior_variance,
        dataset=f"letter-prior-{prior_variance:g}",
        title=f"letter, prior variance {prior_variance:g}",
        step_sizes=(2e-2,),
        frictions=(10.0,),
        methods=tuple(method for method in METHODS if method in ("sgnht", "mccadl", "eccadl")),
    )


EXPERIMENT = Experiment(
    name="letter",
    title="Figure 4 and Table 3: discriminative RBM on letter",
    tasks=(
        task(
            10.0,
            dataset="letter",
            title="letter, 100 hidden units, 4326 parameters",
            step_sizes=(2e-2, 2.5e-2, 3e-2),
        ),
        other_prior(1.0),
        other_prior(100.0),
    ),
    curve="error",
)
