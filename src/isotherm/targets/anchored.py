"""A posterior seen from a point near its mode, the anchor θ̂, so that batches have little left to estimate.

With T_i the Taylor polynomial of ℓ_i = log π(x_i | θ) at θ̂ to first or second order in δ = θ − θ̂,

    Σ ℓ_i(θ) + log π(θ) = Σ (ℓ_i − T_i)(θ) + [log π(θ) + G·δ + ½ δᵀHδ] + constant,    G = Σ∇ℓ_i(θ̂),  H = Σ∇²ℓ_i(θ̂),

is the same posterior. The bracket is exact; batches estimate the first sum, which is small near θ̂. Positions are z with
θ = θ̂ + Lz and LLᵀ about the posterior's covariance, so that the curvature is about 1 in every direction. Rows are drawn
by their leverage, so that a row that matters much is drawn often and counts little. `isotherm.anchor` finds all of it.
"""

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import register_dataclass

from isotherm.data.alias_table import AliasTable
from isotherm.lib.types import Example, Matrix, Number, Params, Scalar, Vector
from isotherm.targets.target import Target

ARRAYS = ("coordinates", "gradient", "hessian", "rows", "findings")
FUNCTIONS = ("log_likelihood", "log_prior", "unravel")
START = 2**31  # the random stream of starting points: no step has this number


class Coordinates(NamedTuple):
    """θ = origin + factor · z."""

    origin: Vector | np.ndarray
    factor: Matrix | np.ndarray

    def flat(self, z: Vector) -> Vector:
        return jnp.asarray(self.origin) + self.shift(z)

    def shift(self, z: Vector) -> Vector:
        """Return θ − θ̂."""
        return jnp.asarray(self.factor) @ z

    def position(self, flat: np.ndarray) -> np.ndarray:
        """Return the z of flat parameters, computed on the host in float64."""
        shift = np.asarray(flat, np.float64) - np.asarray(self.origin, np.float64)
        return np.linalg.solve(np.asarray(self.factor, np.float64), shift).astype(self.origin.dtype)


class Findings(NamedTuple):
    """What was found on the way to an anchor."""

    passes: Number  # over the data, that the search took
    distance: Number  # of the anchor from the mode, in standard deviations, root mean square over directions
    batch_size: Number  # chosen; the noises below are at this size
    noise: Number  # relative to the curvature, h²S/2 at h = 1, in the noisiest direction
    plain_noise: Number  # the same without Taylor terms and leverage
    bend: Number  # how far the force at typical draws is from a Gaussian's, relative to its size
    modes: Number  # 2 if another mode was seen, else 1


UNKNOWN = Findings(0, 0, 1, 0, 0, 0, 1)


class CannotAnchor(ValueError):
    """Why a posterior cannot be anchored, in a sentence. `is_fault`: no other sampler can sample it either."""

    def __init__(self, reason: str, is_fault: bool = False) -> None:
        super().__init__(reason)
        self.is_fault = is_fault


@partial(register_dataclass, data_fields=ARRAYS, meta_fields=FUNCTIONS)
@dataclass(frozen=True, repr=False, kw_only=True)
class Anchored(Target):
    """What `isotherm.anchor` returns; it goes wherever a `Posterior` goes. `log_likelihood` and `log_prior` are the
    model's."""

    coordinates: Coordinates
    gradient: Vector  # G in the coordinates z: LᵀG
    hessian: Matrix | None  # LᵀHL; without it, the Taylor polynomials are of first order
    rows: AliasTable
    findings: Findings

    curvature_is_identity = True
    rows_are_checked = True

    @property
    def order(self) -> int:
        return 1 if self.hessian is None else 2

    @property
    def row_probabilities(self) -> AliasTable:
        return self.rows

    @property
    def chosen_batch_size(self) -> int:
        return int(self.findings.batch_size)

    @property
    def mode(self) -> Params:
        """The anchor θ̂, which is near the mode."""
        return self.unravel(jnp.asarray(self.coordinates.origin))

    def typical_params(self, seed: int, chains: int) -> list[Params]:
        """Return draws from the Gaussian that approximates the posterior."""
        z = np.random.default_rng([seed, START]).standard_normal((chains, len(self.gradient)))
        origin, factor = (np.asarray(part, np.float64) for part in self.coordinates)
        return [self.unravel(jnp.asarray(flat, self.gradient.dtype)) for flat in origin + z @ factor.T]

    def flat_parameters(self, position: Vector) -> Vector:
        return self.coordinates.flat(position)

    def position(self, flat: np.ndarray) -> np.ndarray:
        return self.coordinates.position(flat)

    def estimated(self, position: Vector, example: Example) -> Scalar:
        """Return ℓ_i − T_i."""
        origin, delta = jnp.asarray(self.coordinates.origin), self.coordinates.shift(position)

        def log_likelihood(flat: Vector) -> Scalar:
            return self.log_likelihood(self.unravel(flat), example)

        def slope(flat: Vector) -> tuple[Scalar, Scalar]:
            return jax.jvp(log_likelihood, (flat,), (delta,))

        if self.hessian is None:
            value, first = slope(origin)
            return log_likelihood(origin + delta) - (value + first)
        (value, first), (_, second) = jax.jvp(slope, (origin,), (delta,))
        return log_likelihood(origin + delta) - (value + first + second / 2)

    def exact(self, position: Vector) -> Scalar:
        """Return log π(θ) + G·δ + ½ δᵀHδ; the Taylor terms in z, where float32 is enough for columns of any scale."""
        known = self.gradient @ position
        if self.hessian is not None:
            known += position @ (self.hessian @ position) / 2
        return self.log_prior(self.params(position)) + known

    def __repr__(self) -> str:
        found = self.findings
        modes = "; another mode was seen" if found.modes > 1 else ""
        return (
            f"<anchored posterior: {len(self.gradient):,} parameters, {len(self.rows.weights):,} rows; "
            f"order {self.order}, batch_size {found.batch_size:,}, noise over curvature {float(found.noise):.2g} "
            f"(plain {float(found.plain_noise):.2g}); {float(found.distance):.2g} standard deviations from the mode "
            f"after {float(found.passes):.1f} passes over the data{modes}>"
        )
