"""Bayesian sampling of large data sets with stochastic-gradient thermostats.

The public names are listed in `__init__.pyi` and loaded when first used, so that the command line answers at once.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
