"""Figure 4 (top) and the letter rows of Tables 2 and 3: discriminative RBM, 16 features, 100 hidden units, 26 classes.

The prior's variance and the number of passes are not in the paper: N(0, 10 I) here, start N(0, 0.01 I).
"""

from functools import partial

from isotherm.datasets import letter
from isotherm.datasets.files import Folder
from isotherm.experiments.experiment import Experiment
from isotherm.experiments.settings import Materials, Task
from isotherm.models import DRBM

HIDDEN = 100


def load(prior_variance: float, data_dir: Folder | None = None) -> Materials:
    train, test = letter.load(data_dir)
    model = DRBM(letter.FEATURES, HIDDEN, letter.CLASSES, prior_variance)
    return Materials(model, train, model.init, test)


EXPERIMENT = Experiment(
    name="letter",
    title="Figure 4 and Table 3: discriminative RBM on letter",
    tasks=(
        Task(
            dataset="letter",
            title="letter, 100 hidden units, 4326 parameters",
            load=partial(load, 10.0),
            step_sizes=(2e-2, 2.5e-2, 3e-2),
            batch_size=1000,
            passes=760,
            quick_passes=4,
            seeds=1,
            thin=10,
            workers=1,
            notes="prior variance 10, start N(0, 0.01 I)",
        ),
    ),
    curve="error",
)
