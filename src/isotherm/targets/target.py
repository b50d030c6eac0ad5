"""What a sampler evaluates: a log density as a function of a flat vector, plain or anchored.

An anchored posterior is seen from a point near its mode, the anchor θ̂, so that batches have little left to estimate.
With T_i the Taylor polynomial of ℓ_i = log π(x_i | θ) at θ̂ to first or second order in δ = θ − θ̂,

    Σ ℓ_i(θ) + log π(θ) = Σ (ℓ_i − T_i)(θ) + [log π(θ) + G·δ + ½ δᵀHδ] + constant,    G = Σ∇ℓ_i(θ̂),  H = Σ∇²ℓ_i(θ̂),

is the same posterior. The bracket is exact; batches estimate the first sum, which is small near θ̂. Positions are z with
θ = θ̂ + Lz and LLᵀ about the posterior's covariance, so that the curvature is about 1 in every direction. Rows are drawn
by their leverage, so that a row that matters much is drawn often and counts little. `isotherm.anchor` finds all of it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import register_dataclass, register_static

from isotherm.data.batches import AliasTable
from isotherm.lib.types import Array, Example, Int, Matrix, Number, Params, Scalar, Vector
from isotherm.posterior import Posterior

Unravel = Callable[[Vector], Params]  # from flat parameters to the user's
NOT_A_STEP = 2**31  # the random stream of starting points: no step has this number


@register_static
@dataclass(frozen=True)
class Target(Posterior):
    """A model as a function of a flat vector, the position.

    Here that is the parameters themselves, the log-likelihood is estimated from batches, and the log-prior is exact; an
    `Anchored` posterior has other coordinates and knows more of the sum exactly. `unravel` makes the user's parameters
    of flat ones.
    """

    unravel: Unravel = lambda flat: flat

    curvature_is_identity = False  # in the coordinates of positions, or nearly
    rows_are_checked = False  # the log-likelihood of every row has been evaluated before

    @property
    def plain(self) -> "Target":
        """The model alone, without what is known of it besides."""
        return Target(self.log_likelihood, self.log_prior, self.unravel)

    @property
    def takes_all_rows(self) -> bool:
        """Whether every step takes all rows."""
        return False

    @property
    def stiffness(self) -> Number:
        """The largest curvature, where it is nearly the identity."""
        return 1.0

    @property
    def kept(self) -> Int[Array, " k"] | None:
        """The entries of flat parameters whose draws are recorded; all, if None."""
        return None

    def keeping(self, levels: int | str | None) -> "Target":
        """Return the target of which the draws of so many levels of each effect are recorded; all, if None."""
        return self

    @property
    def row_probabilities(self) -> AliasTable | None:
        """The probabilities with which rows are to be drawn, if not equal ones."""
        return None

    @property
    def chosen_batch_size(self) -> int | None:
        """The batch size that suits it, if that is known."""
        return None

    def noise_diagonal(self, size: int) -> Vector | None:
        """Return the diagonal of S of batches of `size` rows, if it was measured before."""
        return None

    def typical_params(self, seed: int, chains: int) -> list[Params]:
        """Return parameters that are about as far from the mode as draws are, one for each chain, if that is known."""
        raise TypeError("init must be given: the parameters to start from, such as zeros of their shapes")

    def flat_parameters(self, position: Vector) -> Vector:
        """Return the parameters as one flat vector."""
        return position

    def position(self, flat: np.ndarray) -> np.ndarray:
        """Return the position of these parameters, on the host."""
        return flat

    def params(self, position: Vector) -> Params:
        """Return the user's parameters at a position."""
        return self.unravel(self.flat_parameters(position))

    def estimated(self, position: Vector, example: Example) -> Scalar:
        """Return one example's share of what batches estimate."""
        return self.log_likelihood(self.params(position), example)

    def exact(self, position: Vector) -> Scalar:
        """Return the part of the log density that is evaluated exactly, up to a constant."""
        return self.log_prior(self.params(position))


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
        """Return the z of flat parameters (…, d), computed on the host in float64."""
        shifts = np.asarray(flat, np.float64) - np.asarray(self.origin, np.float64)
        columns = shifts.reshape(-1, len(self.origin)).T
        return np.linalg.solve(np.asarray(self.factor, np.float64), columns).T.reshape(shifts.shape)

    def flat_on_host(self, z: np.ndarray) -> np.ndarray:
        """Return the flat parameters of positions (…, d), computed on the host in float64."""
        return np.asarray(self.origin, np.float64) + z @ np.asarray(self.factor, np.float64).T


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


@partial(
    register_dataclass,
    data_fields=("coordinates", "gradient", "hessian", "rows", "findings"),
    meta_fields=("log_likelihood", "log_prior", "effects", "unravel"),
)
@dataclass(frozen=True, repr=False, kw_only=True)
class Anchored(Target):
    """What `isotherm.anchor` returns; it goes wherever a `Posterior` goes."""

    coordinates: Coordinates
    gradient: Vector  # G in the coordinates z: LᵀG
    hessian: Matrix | None  # LᵀHL; without it, the Taylor polynomials are of first order
    rows: AliasTable
    findings: Findings = UNKNOWN

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
        z = np.random.default_rng([seed, NOT_A_STEP]).standard_normal((chains, len(self.gradient)))
        drawn = self.coordinates.flat_on_host(z)
        return [self.unravel(jnp.asarray(flat, self.gradient.dtype)) for flat in drawn]

    def flat_parameters(self, position: Vector) -> Vector:
        return self.coordinates.flat(position)

    def position(self, flat: np.ndarray) -> np.ndarray:
        return self.coordinates.position(flat).astype(self.gradient.dtype)

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
        rest: Scalar = log_likelihood(origin + delta) - (value + first + second / 2)
        return rest

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


def as_target(posterior: Posterior) -> Target:
    """Return what a sampler evaluates of what a user passes as `posterior`."""
    if not isinstance(posterior, Posterior):
        raise TypeError(f"posterior must be an isotherm.Posterior, got {type(posterior).__name__}")
    return posterior if isinstance(posterior, Target) else Target(posterior.log_likelihood, posterior.log_prior)
