"""A large run that the paper does not have: discriminative RBM on all ten MNIST digits, 60,000 rows."""

from pathlib import Path

from isotherm.datasets import mnist
from isotherm.experiments.experiment import Experiment
from isotherm.experiments.tasks import METHODS, Materials, Task
from isotherm.models import DRBM

COMPONENTS, HIDDEN = 50, 100


def load(data_dir: Path | None = None) -> Materials:
    train, test = mnist.principal_components(COMPONENTS, data_dir)
    model = DRBM(COMPONENTS, HIDDEN, 10, prior_variance=10.0)
    return Materials(model, train, model.init, test)


EXPERIMENT = Experiment(
    name="mnist10",
    title="Beyond the paper: discriminative RBM on ten MNIST digits",
    tasks=(
        Task(
            dataset="mnist-10",
            title="MNIST, ten digits, 6110 parameters",
            load=load,
            step_sizes=(5e-3,),
            batch_size=1000,
            passes=60,
            quick_passes=2,
            frictions=(10.0,),
            methods=tuple(name for name in METHODS if name != "ccadl"),
            seeds=1,
            thin=10,
            workers=1,
            notes="whitened principal components, prior variance 10, start N(0, 0.01 I)",
        ),
    ),
    curve="error",
)
