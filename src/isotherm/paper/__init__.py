"""The paper: its data sets and experiments, `isotherm demo` and `isotherm reproduce`."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(__name__, ["datasets", "experiments"])
