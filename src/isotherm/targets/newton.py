"""The way to the mode: Newton's method in a trust region, in coordinates that follow the curvature.

Where the curvature is negative, its size is taken (Dauphin et al. 2014), so that a saddle is left rather than
approached. Lengths are in posterior standard deviations, in which the trust region is a ball.
"""

import math
from typing import NamedTuple

import numpy as np

from isotherm.targets.anchored import Coordinates
from isotherm.targets.parameter_names import entry_name
from isotherm.targets.sums import RowSums, prior_gradient, prior_hessian

FLAT = 1e-6  # with unit diagonal, a curvature below this part of the largest is none: float32 has seven digits
ENOUGH = 0.05  # of the gain that was expected: a step with less is not taken
HARDLY = 1.0  # a change of the log posterior up to this counts as none
MOST_STEPS = 60
LEAST_RADIUS = 1e-3  # standard deviations


class Slope(NamedTuple):
    """The log density at the origin of coordinates, its gradient, and the part of it that is the log-likelihood's."""

    value: float
    gradient: np.ndarray
    likelihood_gradient: np.ndarray


class Local(NamedTuple):
    """The log density at the origin of coordinates, its gradient and its curvature −∇²; and the parts of the gradient
    and the Hessian that are the log-likelihood's."""

    value: float
    gradient: np.ndarray
    curvature: np.ndarray
    likelihood_gradient: np.ndarray
    likelihood_hessian: np.ndarray

    def with_slope(self, slope: Slope) -> "Local":
        """At another place, with the curvature kept."""
        return self._replace(value=slope.value, gradient=slope.gradient, likelihood_gradient=slope.likelihood_gradient)

    def turned(self, W: np.ndarray) -> "Local":
        """In coordinates z′ with z = Wz′."""
        gradients = W.T @ self.gradient, W.T @ self.likelihood_gradient
        matrices = W.T @ self.curvature @ W, W.T @ self.likelihood_hessian @ W
        return Local(self.value, gradients[0], matrices[0], gradients[1], matrices[1])


class NoMode(Exception):
    """There is no mode, or it cannot be found: why, in a sentence. `is_fault`: no other sampler could help either."""

    def __init__(self, reason: str, is_fault: bool = False) -> None:
        super().__init__(reason)
        self.is_fault = is_fault


def moved(at: Coordinates, z: np.ndarray) -> Coordinates:
    """Coordinates with the origin at z, in the precision of the parameters."""
    origin = np.asarray(at.origin, np.float64) + np.asarray(at.factor, np.float64) @ z
    return at._replace(origin=origin.astype(at.origin.dtype))


def turned(at: Coordinates, W: np.ndarray) -> Coordinates:
    """Coordinates z′ with z = Wz′."""
    return at._replace(factor=(np.asarray(at.factor, np.float64) @ W).astype(at.origin.dtype))


class Target:
    """A log density: the sum over `rows` and the prior. Its curvature is taken from the rows `some`, if given, which
    stand for all."""

    def __init__(self, rows: RowSums, some: RowSums | None = None) -> None:
        self.rows, self.some = rows, rows if some is None else some

    def slope(self, at: Coordinates) -> Slope:
        value, gradient = self.rows.gradient(at)
        prior, slope = prior_gradient(self.rows.posterior, self.rows.unravel, at)
        return Slope(value + float(prior), gradient + np.asarray(slope, np.float64), gradient)

    def with_hessian(self, at: Coordinates, here: Local) -> Local:
        """`here`, with the likelihood's Hessian computed anew at these coordinates."""
        H = self.some.hessian(at)
        return here._replace(curvature=here.curvature + here.likelihood_hessian - H, likelihood_hessian=H)

    def local(self, at: Coordinates, slope: Slope) -> Local:
        """The slope, with the curvature."""
        H = self.some.hessian(at)
        prior = np.asarray(prior_hessian(self.rows.posterior, self.rows.unravel, at), np.float64)
        here = Local(slope.value, slope.gradient, -H - prior, slope.likelihood_gradient, H)
        if not (math.isfinite(here.value) and np.isfinite(here.gradient).all()):
            raise NoMode("the log posterior or its gradient is not finite on the way to the mode")
        if not np.isfinite(here.curvature).all():
            raise NoMode("the second derivatives of the log posterior are not finite on the way to the mode")
        return here


def spectrum(K: np.ndarray, scaled: bool = True) -> tuple[np.ndarray, np.ndarray]:
    """A matrix W and numbers λ with WᵀKW = diag(λ): |λ| = 1, or less in flat directions, whose curvature is below FLAT
    times the largest, after K was scaled to unit diagonal if `scaled`."""
    diagonal = abs(np.diagonal(K)) if scaled else np.ones(len(K))
    scale = 1 / np.sqrt(np.maximum(diagonal, FLAT * diagonal.max() + np.finfo(float).tiny))
    values, vectors = np.linalg.eigh(K * scale[:, None] * scale)
    size = np.maximum(abs(values), FLAT * abs(values).max() + np.finfo(float).tiny)
    return scale[:, None] * vectors / np.sqrt(size), values / size


class Summit(NamedTuple):
    """Where a climb ended: coordinates whitened there, what the target is there, how far the mode still is, in standard
    deviations, as a root mean square over directions, and whether the curvature is that of the last step's start."""

    at: Coordinates
    here: Local
    distance: float
    stale: bool


def climb(target: Target, at: Coordinates, tolerance: float, most: int = MOST_STEPS) -> Summit:
    """Climb until the mode is less than `tolerance` standard deviations away, or as near as `most` steps or rounding
    allow."""
    first, radius, d, stale = target.slope(at), math.inf, len(at.origin), False
    if not (math.isfinite(first.value) and np.isfinite(first.gradient).all()):
        raise NoMode("the log posterior or its gradient is not finite where the search for its mode starts", True)
    at, here, signs = whitened(target, at, target.local(at, first))
    for _ in range(most):
        length = float(np.linalg.norm(here.gradient))  # the curvature has size 1 now
        if (length <= tolerance * math.sqrt(d) and signs.min() > 0) or radius < LEAST_RADIUS:
            break
        way = uphill(here.gradient, signs)
        reach = float(np.linalg.norm(way))
        step = min(1.0, radius / reach) * way
        expected = float(step @ here.gradient - signs @ step**2 / 2)
        there = moved(at, step)
        slope = target.slope(there)
        gain = (slope.value - here.value) / expected
        if not gain > ENOUGH:  # or NaN
            radius = float(np.linalg.norm(step)) / 4
            continue
        radius = radius * 4 if gain > 0.5 else float(np.linalg.norm(step)) / 2
        stale = gain > 0.5 and float(np.linalg.norm(slope.gradient)) <= tolerance * math.sqrt(d) and signs.min() > 0
        at, here, signs = (
            (there, here.with_slope(slope), signs) if stale else whitened(target, there, target.local(there, slope))
        )
    return Summit(at, here, length / math.sqrt(d), stale)


def uphill(gradient: np.ndarray, signs: np.ndarray) -> np.ndarray:
    """Newton's step; where the log density bends up, at least one standard deviation: a saddle, or a ridge between two
    sides that are alike, has no slope there."""
    return np.where(signs < 0, np.copysign(np.maximum(abs(gradient), 1.0), gradient), gradient)


def whitened(target: Target, at: Coordinates, here: Local) -> tuple[Coordinates, Local, np.ndarray]:
    """Coordinates in which every curvature is 1 or −1, what is known there, and these signs. A direction may look flat
    because rounding hides its curvature beside the others: it is stretched, and its curvature computed anew."""
    W, signs = spectrum(here.curvature)
    at, here = turned(at, W), here.turned(W)
    if (abs(signs) < 1).any():
        here = target.with_hessian(at, here)
        W, signs = spectrum(here.curvature, scaled=False)
        if (flat := abs(signs) < 1).any():
            raise flat_direction(target, at, here, W[:, np.argmax(flat)])
        at, here = turned(at, W), here.turned(W)
    return at, here, signs


def flat_direction(target: Target, at: Coordinates, here: Local, direction: np.ndarray) -> NoMode:
    """What to raise: the posterior is flat along `direction`, or only its second derivatives vanish there."""
    step = direction / np.linalg.norm(direction)  # a thousand standard deviations or more of other directions
    if max(abs(target.slope(moved(at, z)).value - here.value) for z in (step, -step)) > HARDLY:
        return NoMode("the second derivatives of the log posterior vanish on the way to its mode")
    change = np.asarray(at.factor, np.float64) @ step
    name = entry_name(target.rows.unravel, change, at.origin.dtype)
    return NoMode(
        f"the posterior is flat along a direction in which {name} changes most: a column that is zero or follows from "
        "others needs a prior of finite variance, or leave it out",
        is_fault=True,
    )
