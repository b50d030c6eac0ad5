"""How hot the positions of a chain are, whatever its momenta say."""

import numpy as np
from numpy.typing import ArrayLike


def configurational_temperature(positions: ArrayLike, forces: ArrayLike) -> float:
    """−mean (θ − θ̄)·F/d, which is 1/β where positions θ are drawn from exp(−βU(θ)) and F = −∇U(θ).

    It is the virial form of the configurational temperature (Rugh 1997; Butler et al. 1998 have the mean of |F|² over
    that of −∇·F). Draws and forces are by (…, d), in any units. Forces may be noisy, unlike in the form with |F|², if
    they are right on average and their noise is not that of the step that led to the draw.

    Examples:
        A Gaussian of variance 2 where it should be 1:

        >>> z = np.sqrt(2) * np.random.default_rng(0).standard_normal((10_000, 3))
        >>> round(configurational_temperature(z, -z), 1)
        2.0
    """
    theta, F = (np.asarray(array, np.float64) for array in (positions, forces))
    if theta.ndim < 2 or theta.shape != F.shape or not theta.size:
        raise ValueError(
            f"positions and forces must have one shape, (…, d), with a draw or more, got {theta.shape} and {F.shape}"
        )
    theta, F = theta.reshape(-1, theta.shape[-1]), F.reshape(-1, F.shape[-1])
    return float(-np.mean((theta - theta.mean(axis=0)) * F))
