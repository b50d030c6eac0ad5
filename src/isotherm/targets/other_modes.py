"""Whether a posterior has another mode than the one that was found, as far as a few starts on a few rows tell."""

import numpy as np

from isotherm.targets.anchored import Coordinates
from isotherm.targets.newton import Target, moved
from isotherm.targets.sums import RowSums

STARTS = 6
MOST_STEPS = 200  # of L-BFGS from each
APART = 5.0  # standard deviations between two modes, root mean square over directions
COMPARABLE = 20.0  # by how much less the log posterior may be in another mode that counts


def another_mode(some: RowSums, everything: RowSums, at: Coordinates, rng: np.random.Generator) -> np.ndarray | None:
    """Flat parameters near another mode, found on `some` rows and confirmed on all; None if none is found.

    `at` is whitened, with its origin at the mode that is known.
    """
    import scipy.optimize

    few, d = Target(some), len(at.origin)
    share = some.rows / everything.rows  # of all rows: the posterior of some is wider by its inverse root

    def minus(z: np.ndarray) -> tuple[float, np.ndarray]:
        slope = few.slope(moved(at, z / np.sqrt(share)))
        return -slope.value, -slope.gradient / np.sqrt(share)

    def summit(z: np.ndarray) -> tuple[float, np.ndarray]:
        found = scipy.optimize.minimize(minus, z, jac=True, method="L-BFGS-B", options={"maxiter": MOST_STEPS})
        return -float(found.fun), found.x

    top, here = summit(np.zeros(d))
    origin = np.asarray(at.origin, np.float64)
    for start in rng.standard_normal((STARTS, d)) * max(1.0, float(np.sqrt(np.mean(origin**2)))):
        value, there = summit(np.sqrt(share) * at.position(start.astype(at.origin.dtype)).astype(np.float64))
        apart = float(np.sqrt(np.mean((there - here) ** 2)))
        if np.isfinite(value) and value > top - COMPARABLE and apart > APART:
            other, known = (Target(everything).slope(moved(at, z)).value for z in (there / np.sqrt(share), np.zeros(d)))
            if other > known - COMPARABLE - 2 * d / share:  # the mode of some rows is that much below that of all
                return np.asarray(moved(at, there / np.sqrt(share)).origin)
    return None
