from . import bridges, datasets, diagnostics, models, samplers
from .anchoring import anchor
from .bridges.numpyro import from_numpyro
from .checking import Verdict, check
from .columns import DataError
from .estimators import (
    BayesianLinearRegression,
    BayesianLogisticRegression,
    BayesianMLPClassifier,
    BayesianMLPRegressor,
    BayesianPoissonRegression,
    DiscriminativeRBMClassifier,
)
from .fitting import fit
from .posterior import Posterior
from .predicting import predict
from .processes import ProcessLost
from .reporting import report
from .run.doubts import VerdictWarning
from .samplers import Sampler, ccadl, eccadl, mccadl, msgld, sghmc, sgld, sgnht
from .sampling import resume, sample
from .stepping import largest_step
from .store import StoreError
from .version import __version__ as __version__

__all__ = [
    "BayesianLinearRegression",
    "BayesianLogisticRegression",
    "BayesianMLPClassifier",
    "BayesianMLPRegressor",
    "BayesianPoissonRegression",
    "DataError",
    "DiscriminativeRBMClassifier",
    "Posterior",
    "ProcessLost",
    "Sampler",
    "StoreError",
    "Verdict",
    "VerdictWarning",
    "__version__",
    "anchor",
    "bridges",
    "ccadl",
    "check",
    "datasets",
    "diagnostics",
    "eccadl",
    "fit",
    "from_numpyro",
    "largest_step",
    "mccadl",
    "models",
    "msgld",
    "predict",
    "report",
    "resume",
    "sample",
    "samplers",
    "sghmc",
    "sgld",
    "sgnht",
]
