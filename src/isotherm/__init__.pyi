from . import bridges, diagnostics, models, samplers
from .bridges.numpyro import from_numpyro
from .data.on_disk.column import DataError
from .data.processes import ProcessLost
from .diagnostics.check import Verdict, check
from .diagnostics.verdict import VerdictWarning
from .estimators.linear import BayesianLinearRegression, BayesianLogisticRegression, BayesianPoissonRegression
from .estimators.networks import BayesianMLPClassifier, BayesianMLPRegressor, DiscriminativeRBMClassifier
from .lib.files import StoreError
from .lib.version import __version__ as __version__
from .paper import datasets
from .posterior import Effect, Posterior
from .predict import predict
from .report.report import report
from .run.fit import fit
from .run.largest_step import largest_step
from .run.resume import resume
from .run.sample import sample
from .samplers import Sampler, ccadl, eccadl, mccadl, msgld, sghmc, sgld, sgnht
from .targets.anchor import anchor

__all__ = [
    "BayesianLinearRegression",
    "BayesianLogisticRegression",
    "BayesianMLPClassifier",
    "BayesianMLPRegressor",
    "BayesianPoissonRegression",
    "DataError",
    "DiscriminativeRBMClassifier",
    "Effect",
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
