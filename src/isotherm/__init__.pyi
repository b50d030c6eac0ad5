from . import datasets, diagnostics, models, samplers
from .posterior import Posterior
from .samplers import Sampler, ccadl, eccadl, mccadl, msgld, sghmc, sgld, sgnht
from .sampling import resume, sample
from .store import StoreError
from .version import __version__ as __version__

__all__ = [
    "Posterior",
    "Sampler",
    "StoreError",
    "__version__",
    "ccadl",
    "datasets",
    "diagnostics",
    "eccadl",
    "mccadl",
    "models",
    "msgld",
    "resume",
    "sample",
    "samplers",
    "sghmc",
    "sgld",
    "sgnht",
]
