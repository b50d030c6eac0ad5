"""Figure 1: Bayesian linear regression, 2-Wasserstein distance to the exact posterior against passes.

N = 10,000, d = 100, n = 500 with replacement, prior variance 10, unit noise. The paper does not say how the true θ is
drawn or where the chains start: θ ~ N(0, 0.01 I) and a start at 0 give its pattern.
"""

from pathlib import Path

import numpy as np

from isotherm.datasets import linear_regression
from isotherm.experiments.experiment import Experiment
from isotherm.experiments.tasks import Gaussian, Materials, Task
from isotherm.models import Linear

PRIOR_VARIANCE = 10.0


def load(data_dir: Path | None = None) -> Materials:
    """The synthetic data of seed 0 and their exact posterior; `data_dir` is not needed."""
    data = linear_regression.make(N=10_000, d=100, seed=0, scale=0.1).data
    exact = linear_regression.posterior(data, PRIOR_VARIANCE)
    model = Linear(features=100, prior_variance=PRIOR_VARIANCE)
    return Materials(model, data, np.zeros(100, np.float32), exact=Gaussian(*exact))


TASK = Task(
    dataset="linear_regression",
    title="linear regression, N = 10,000, d = 100",
    load=load,
    step_sizes=(5e-4, 1e-3, 5e-3),
    batch_size=500,
    passes=1000,
    quick_passes=200,
    notes="true θ ~ N(0, 0.01 I), start θ = 0, prior variance 10, batches with replacement",
)

EXPERIMENT = Experiment(
    name="linear-regression",
    title="Figure 1: 2-Wasserstein distance to the exact posterior",
    tasks=(TASK,),
    curve="w2",
)
