from .driver import resume, sample
from .posterior import Posterior
from .samplers import ccadl, eccadl, mccadl, msgld, sghmc, sgld, sgnht
from .store import StoreError
from .version import __version__ as __version__

__all__ = [
    "Posterior",
    "StoreError",
    "__version__",
    "ccadl",
    "eccadl",
    "mccadl",
    "msgld",
    "resume",
    "sample",
    "sghmc",
    "sgld",
    "sgnht",
]
