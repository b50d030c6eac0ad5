from . import datasets, diagnostics, models, samplers
from .anchoring import anchor
from .fitting import fit
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
    "anchor",
    "ccadl",
    "datasets",
    "diagnostics",
    "eccadl",
    "fit",
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
