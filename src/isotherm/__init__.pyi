from .driver import sample
from .posterior import Posterior
from .samplers import ccadl, mccadl, msgld, sghmc, sgld, sgnht
from .version import __version__ as __version__

__all__ = [
    "Posterior",
    "__version__",
    "ccadl",
    "mccadl",
    "msgld",
    "sample",
    "sghmc",
    "sgld",
    "sgnht",
]
