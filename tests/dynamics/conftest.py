"""An estimate that is known, so that what follows from it can be tested without a model."""

from typing import NamedTuple

import jax.numpy as jnp
import pytest

from isotherm.dynamics.covariance import Directions


class Known(NamedTuple):
    """S = diag(noise) and K = diag(curvature); beside them, what a low-rank estimate says of what it leaves out."""

    noise: jnp.ndarray
    curvature: jnp.ndarray
    rest: float = 0.0
    spread: float = 0.0
    ratio: float = 0.0  # K over S in a right model
    knows_all: bool = True

    strongest = property(lambda self: self.curvature.max())
    stiffness = property(lambda self: self.curvature.max())
    ceiling = property(lambda self: jnp.maximum(self.curvature.max(), self.ratio * self.noise.max()))

    def directions(self):
        return (Directions(self.noise, self.curvature, self.noise.size),)

    def rotated(self, rows):
        return (rows,)

    def middle(self):
        return jnp.sort(self.noise)[self.noise.size // 2]

    def unseen(self):
        return jnp.asarray(self.rest), jnp.asarray(self.spread)

    def measures_distances(self):
        return jnp.array(self.knows_all)


@pytest.fixture
def known():
    return lambda noise, curvature, **rest: Known(jnp.asarray(noise, float), jnp.asarray(curvature, float), **rest)
