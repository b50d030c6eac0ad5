from . import datasets, diagnostics, models, samplers
from .anchoring import anchor
from .checking import Verdict, check
from .fitting import fit
from .posterior import Posterior
from .processes import ProcessLost
from .reporting import report
from .run.doubts import VerdictWarning
from .samplers import Sampler, ccadl, eccadl, mccadl, msgld, sghmc, sgld, sgnht
from .sampling import resume, sample
from .stepping import largest_step
from .store import StoreError
from .version import __version__ as __version__

__all__ = [
    "Posterior",
    "ProcessLost",
    "Sampler",
    "StoreError",
    "Verdict",
    "VerdictWarning",
    "__version__",
    "anchor",
    "ccadl",
    "check",
    "datasets",
    "diagnostics",
    "eccadl",
    "fit",
    "largest_step",
    "mccadl",
    "models",
    "msgld",
    "report",
    "resume",
    "sample",
    "samplers",
    "sghmc",
    "sgld",
    "sgnht",
]
