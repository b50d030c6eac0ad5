"""Figure 2 and the MNIST rows of Table 1: Bayesian logistic regression, digits 7 and 9.

Pixels/255 times a 784×100 matrix of standard normal entries, no centring, no intercept; prior N(0, I).
The small step of the largest-step search is the paper's smallest: from θ = 0 CCAdL already diverges at 2e-4 (A = 10).
"""

from pathlib import Path

import numpy as np

from isotherm.datasets import mnist
from isotherm.experiments.experiment import Experiment
from isotherm.experiments.tasks import Materials, Task
from isotherm.models import Logistic


def load(data_dir: Path | None = None) -> Materials:
    train, test = mnist.pair(7, 9, projection=100, seed=0, data_dir=data_dir)
    return Materials(Logistic(100, prior_variance=1.0), train, np.zeros(100, np.float32), test)


EXPERIMENT = Experiment(
    name="mnist",
    title="Figure 2 and Table 1: logistic regression on MNIST 7/9",
    tasks=(
        Task(
            dataset="mnist-7-9",
            title="MNIST, digits 7 and 9",
            load=load,
            step_sizes=(1.2e-4, 5e-4, 1.2e-3),
            batch_size=500,
            passes=200,
            quick_passes=60,
            reference_draws=2000,
            small_step=1.2e-4,
            notes="random projection to 100 features (standard normal, seed 0), prior variance 1, start θ = 0",
        ),
    ),
    curve="log_likelihood",
)
