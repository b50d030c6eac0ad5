"""Figure 4 (bottom) and the acoustic rows of Tables 2 and 3: discriminative RBM, 50 features, 20 hidden, 3 classes."""

from pathlib import Path

from isotherm.datasets import acoustic
from isotherm.experiments.experiment import Experiment
from isotherm.experiments.tasks import Materials, Task
from isotherm.models import DRBM

HIDDEN = 20


def load(data_dir: Path | None = None) -> Materials:
    train, test = acoustic.load(data_dir)
    model = DRBM(acoustic.FEATURES, HIDDEN, acoustic.CLASSES, prior_variance=10.0)
    return Materials(model, train, model.init, test)


EXPERIMENT = Experiment(
    name="acoustic",
    title="Figure 4 and Table 3: discriminative RBM on SensIT Vehicle (acoustic)",
    tasks=(
        Task(
            dataset="acoustic",
            title="acoustic, 20 hidden units, 1083 parameters",
            load=load,
            step_sizes=(1.5e-3, 2.5e-3, 3.5e-3),
            batch_size=1000,
            passes=100,
            quick_passes=2,
            seeds=1,
            thin=10,
            workers=1,
            notes="LIBSVM's acoustic_scale files, prior variance 10, start N(0, 0.01 I)",
        ),
    ),
    curve="error",
)
