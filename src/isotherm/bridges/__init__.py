"""Ways in from other libraries, one small file each: `blackjax`, `equinox`, `flax`, `numpyro`.

None of those libraries is needed by isotherm itself; each is imported when its bridge is used.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(__name__, ["blackjax", "equinox", "flax", "numpyro"])
