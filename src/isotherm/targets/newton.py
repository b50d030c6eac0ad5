"""Sums over rows of the log-likelihood and its derivatives; and with them the way to the mode, and to other modes.

All sums are taken at the origin of some coordinates θ = θ̂ + Lz and are derivatives by z. A chunk of rows is summed in
the precision of the parameters, the chunks in float64. Chunks have one size, so that each sum is compiled once.

The way is Newton's method in a trust region, in coordinates that follow the curvature. Where the curvature is negative,
its size is taken (Dauphin et al. 2014), so that a saddle is left rather than approached. Lengths are in posterior
standard deviations, in which the trust region is a ball.
"""

import math
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from isotherm.data import processes
from isotherm.data.batches import pad
from isotherm.data.on_disk.open_data import host, on_disk
from isotherm.lib.progress import Passes
from isotherm.lib.types import Array, Batch, Float, Matrix, Scalar, Vector
from isotherm.targets.parameters import entry_name
from isotherm.targets.target import Coordinates, Target

# Sums over rows
CHUNK_NUMBERS = 2**22  # of a chunk's intermediate arrays, about: they stay small beside the data
LEAST_CHUNK, LARGEST_CHUNK = 2**6, 2**13  # rows
PROBES = 32  # random vectors that leverages are estimated from, with a relative error of about √(2/32) = 1/4
READERS = 2  # threads beyond one a core, as some wait for the disk

# Newton's method
NEWTON_STEPS = 60
FLAT_CURVATURE = 1e-6  # with unit diagonal, less than this part of the largest is none: float32 has seven digits
LEAST_GAIN = 0.05  # of the gain that was expected: a step with less is not taken
LEAST_RADIUS = 1e-3  # standard deviations
SMALL_CHANGE = 1.0  # a change of the log posterior up to this counts as none

# The search for other modes
OTHER_STARTS = 6
OTHER_STEPS = 200  # of L-BFGS from each
OTHER_DISTANCE = 5.0  # standard deviations between two modes, root mean square over directions
OTHER_DEPTH = 20.0  # by how much less the log posterior may be in another mode that counts

T = TypeVar("T")


class RowSums:
    """Sums over the rows of `data`, each counted `weights` times (once, if there are none), times `scale`. `passes`
    counts the rows that were summed; `shared`: these are the rows of this process, and sums are over those of all."""

    def __init__(
        self,
        target: Target,
        data: Batch,
        weights: np.ndarray | None = None,
        scale: float = 1.0,
        passes: Passes | None = None,
        shared: bool = False,
    ) -> None:
        self.target, self.scale, self.passes, self.shared = target, scale, passes, shared
        self.data = jax.tree.map(host, data)
        self.rows = len(jax.tree.leaves(data)[0])
        self.weights = np.broadcast_to(np.float32(1), self.rows) if weights is None else weights
        self.row_numbers = max(1, sum(math.prod(leaf.shape[1:]) for leaf in jax.tree.leaves(self.data)))

    def gradient(self, at: Coordinates) -> tuple[float, np.ndarray]:
        """Return Σℓ_i and LᵀΣ∇ℓ_i."""
        total = np.zeros(1 + len(at.origin))
        for value, slope in self._chunks(_gradient, at, 1):
            total += np.append(np.asarray(value, np.float64), np.asarray(slope, np.float64))
        if self.shared:
            total = processes.total(total)
        return self.scale * float(total[0]), self.scale * total[1:]

    def hessian(self, at: Coordinates) -> np.ndarray:
        """Return LᵀΣ∇²ℓ_i L."""
        total = np.zeros((len(at.origin),) * 2)
        for part in self._chunks(_hessian, at, len(at.origin)):
            total += np.asarray(part, np.float64)
        if self.shared:
            total = processes.total(total)
        return self.scale * (total + total.T) / 2

    def leverages(self, at: Coordinates, probes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the leverage of each row, |tr Lᵀ∇²ℓ_iL|, or a bit more, and ‖Lᵀ∇ℓ_i‖², as means over random vectors v
        of |vᵀLᵀ∇²ℓ_iLv| and (vᵀLᵀ∇ℓ_i)²."""
        vectors = probes.astype(at.origin.dtype)
        (bends, slopes), first = np.empty((2, self.rows), at.origin.dtype), 0
        for some in self._chunks(_leverages, at, probes.shape[1], vectors):
            last = min(first + len(some[0]), self.rows)
            bends[first:last], slopes[first:last] = (np.asarray(each)[: last - first] for each in some)
            first = last
        return (processes.joined(bends), processes.joined(slopes)) if self.shared else (bends, slopes)

    def _chunks(self, function: Callable[..., T], at: Coordinates, width: int, *more: np.ndarray) -> Iterator[T]:
        """Yield what `function` makes of each chunk, in order. The last is filled up with rows that count nothing."""
        size = max(LEAST_CHUNK, min(LARGEST_CHUNK, CHUNK_NUMBERS // max(width, self.row_numbers)))
        x64 = jax.dtypes.canonicalize_dtype(np.int64) == np.int64

        def one(first: int) -> T:
            batch = jax.tree.map(lambda column: pad(column[first : first + size], size), self.data)
            weights = np.zeros(size, at.origin.dtype)
            weights[: self.rows - first] = self.weights[first : first + size]
            with jax.enable_x64(x64):  # this setting of JAX is per thread
                made: T = jax.block_until_ready(function(self.target, at, batch, weights, *more))
                return made

        # Threads that wait for the disk leave the cores to the others.
        with ThreadPoolExecutor(processes.cores() + (READERS if on_disk(self.data) else 0)) as pool:
            for first, made in zip(range(0, self.rows, size), pool.map(one, range(0, self.rows, size)), strict=True):
                if self.passes is not None:
                    rows = min(size, self.rows - first)
                    self.passes.add(rows * self.passes.rows // self.rows if self.shared else rows)
                yield made


def _total(target: Target, at: Coordinates, batch: Batch, weights: Float[Array, " n"], z: Vector) -> Scalar:
    values = jax.vmap(target.log_likelihood, in_axes=(None, 0))(target.unravel(at.flat(z)), batch)
    return jnp.sum(weights.astype(values.dtype) * values)


@jax.jit
def _gradient(target: Target, at: Coordinates, batch: Batch, weights: Float[Array, " n"]) -> tuple[Scalar, Vector]:
    return jax.value_and_grad(partial(_total, target, at, batch, weights))(jnp.zeros_like(at.origin))


@jax.jit
def _hessian(target: Target, at: Coordinates, batch: Batch, weights: Float[Array, " n"]) -> Matrix:
    gradient = jax.grad(partial(_total, target, at, batch, weights))
    _, product = jax.linearize(gradient, jnp.zeros_like(at.origin))
    hessian: Matrix = jax.vmap(product, in_axes=1, out_axes=1)(jnp.eye(len(at.origin), dtype=at.origin.dtype))
    return hessian


@jax.jit
def _leverages(
    target: Target, at: Coordinates, batch: Batch, weights: Float[Array, " n"], probes: Float[Array, "d k"]
) -> tuple[Float[Array, " n"], Float[Array, " n"]]:
    def each(z: Vector) -> Float[Array, " n"]:
        return jax.vmap(target.log_likelihood, in_axes=(None, 0))(target.unravel(at.flat(z)), batch)

    def along(v: Vector) -> tuple[Float[Array, " n"], Float[Array, " n"]]:
        def slope(z: Vector) -> Float[Array, " n"]:
            slopes: Float[Array, " n"] = jax.jvp(each, (z,), (v,))[1]
            return slopes

        first, second = jax.jvp(slope, (jnp.zeros_like(v),), (v,))
        return jnp.abs(second), first**2

    bends, slopes = jax.vmap(along, in_axes=1, out_axes=1)(probes)
    return bends.mean(axis=1), slopes.mean(axis=1)


@jax.jit
def prior_gradient(target: Target, at: Coordinates) -> tuple[Scalar, Vector]:
    """Return log π and its gradient by z."""
    return jax.value_and_grad(partial(_log_prior, target, at))(jnp.zeros_like(at.origin))


@jax.jit
def prior_hessian(target: Target, at: Coordinates) -> Matrix:
    hessian: Matrix = jax.hessian(partial(_log_prior, target, at))(jnp.zeros_like(at.origin))
    return hessian


def _log_prior(target: Target, at: Coordinates, z: Vector) -> Scalar:
    return target.log_prior(target.unravel(at.flat(z)))


class CannotAnchor(ValueError):
    """Why a posterior cannot be anchored, in a sentence. `is_fault`: no other sampler can sample it either."""

    def __init__(self, reason: str, is_fault: bool = False) -> None:
        super().__init__(reason)
        self.is_fault = is_fault


class FirstOrder(NamedTuple):
    """The log density at the origin of coordinates, its gradient, and the part of it that is the log-likelihood's."""

    value: float
    gradient: np.ndarray
    likelihood_gradient: np.ndarray


class SecondOrder(NamedTuple):
    """The same and the curvature −∇²; and the part of the Hessian that is the log-likelihood's."""

    value: float
    gradient: np.ndarray
    curvature: np.ndarray
    likelihood_gradient: np.ndarray
    likelihood_hessian: np.ndarray

    def turned(self, W: np.ndarray) -> "SecondOrder":
        """Return the same in coordinates z′ with z = Wz′."""
        gradients = W.T @ self.gradient, W.T @ self.likelihood_gradient
        matrices = W.T @ self.curvature @ W, W.T @ self.likelihood_hessian @ W
        return SecondOrder(self.value, gradients[0], matrices[0], gradients[1], matrices[1])


class LogPosterior:
    """The sum over `rows` and the prior. Its curvature is taken from the rows `some`, if given, which stand for all."""

    def __init__(self, rows: RowSums, some: RowSums | None = None) -> None:
        self.rows, self.some = rows, rows if some is None else some

    def first_order(self, at: Coordinates) -> FirstOrder:
        value, gradient = self.rows.gradient(at)
        prior, slope = prior_gradient(self.rows.target, at)
        return FirstOrder(value + float(prior), gradient + np.asarray(slope, np.float64), gradient)

    def second_order(self, at: Coordinates, first: FirstOrder) -> SecondOrder:
        """Return `first` with the curvature."""
        H = self.some.hessian(at)
        prior = np.asarray(prior_hessian(self.rows.target, at), np.float64)
        here = SecondOrder(first.value, first.gradient, -H - prior, first.likelihood_gradient, H)
        if not (math.isfinite(here.value) and np.isfinite(here.gradient).all()):
            raise CannotAnchor("the log posterior or its gradient is not finite on the way to the mode")
        if not np.isfinite(here.curvature).all():
            raise CannotAnchor("the second derivatives of the log posterior are not finite on the way to the mode")
        return here

    def with_hessian(self, at: Coordinates, here: SecondOrder) -> SecondOrder:
        """Return `here`, with the likelihood's Hessian computed again at these coordinates."""
        H = self.some.hessian(at)
        return here._replace(curvature=here.curvature + here.likelihood_hessian - H, likelihood_hessian=H)


def moved(at: Coordinates, z: np.ndarray) -> Coordinates:
    """Return coordinates with the origin at z, in the precision of the parameters."""
    origin = np.asarray(at.origin, np.float64) + np.asarray(at.factor, np.float64) @ z
    return at._replace(origin=origin.astype(at.origin.dtype))


def turned(at: Coordinates, W: np.ndarray) -> Coordinates:
    """Return coordinates z′ with z = Wz′."""
    return at._replace(factor=(np.asarray(at.factor, np.float64) @ W).astype(at.origin.dtype))


def spectrum(K: np.ndarray, scaled: bool = True) -> tuple[np.ndarray, np.ndarray]:
    """Return a matrix W and numbers λ with WᵀKW = diag(λ): |λ| = 1, or less in flat directions, whose curvature is
    below FLAT_CURVATURE times the largest, after K was scaled to unit diagonal if `scaled`."""
    diagonal = abs(np.diagonal(K)) if scaled else np.ones(len(K))
    scale = 1 / np.sqrt(np.maximum(diagonal, FLAT_CURVATURE * diagonal.max() + np.finfo(float).tiny))
    values, vectors = np.linalg.eigh(K * scale[:, None] * scale)
    size = np.maximum(abs(values), FLAT_CURVATURE * abs(values).max() + np.finfo(float).tiny)
    return scale[:, None] * vectors / np.sqrt(size), values / size


def inverse_root(K: np.ndarray) -> np.ndarray:
    """Return W with WᵀKW = I: C⁻ᵀ, where K = CCᵀ."""
    return np.linalg.solve(np.linalg.cholesky(K), np.eye(len(K))).T


class Mode(NamedTuple):
    """Where Newton's method ended: coordinates whitened there, the log density there, how far the mode still is (root
    mean square over directions), and whether the curvature is that of the last step's start."""

    at: Coordinates
    here: SecondOrder
    distance: float
    stale: bool


def find_mode(density: LogPosterior, at: Coordinates, tolerance: float, steps: int = NEWTON_STEPS) -> Mode:
    """Climb until the mode is `tolerance` standard deviations away, or as near as `steps` or rounding allow."""
    first, radius, d, stale = density.first_order(at), math.inf, len(at.origin), False
    if not (math.isfinite(first.value) and np.isfinite(first.gradient).all()):
        raise CannotAnchor("the log posterior or its gradient is not finite where the search for its mode starts", True)
    at, here, signs = whiten(density, at, density.second_order(at, first))
    for _ in range(steps):
        length = float(np.linalg.norm(here.gradient))  # the curvature has size 1 now
        if (length <= tolerance * math.sqrt(d) and signs.min() > 0) or radius < LEAST_RADIUS:
            break
        way = uphill(here.gradient, signs)
        reach = float(np.linalg.norm(way))
        step = min(1.0, radius / reach) * way
        expected = float(step @ here.gradient - signs @ step**2 / 2)
        there = moved(at, step)
        first = density.first_order(there)
        gain = (first.value - here.value) / expected
        if not gain > LEAST_GAIN:  # or NaN
            radius = float(np.linalg.norm(step)) / 4
            continue
        radius = radius * 4 if gain > 0.5 else float(np.linalg.norm(step)) / 2
        stale = gain > 0.5 and float(np.linalg.norm(first.gradient)) <= tolerance * math.sqrt(d) and signs.min() > 0
        if stale:
            at, here = there, here._replace(**first._asdict())
        else:
            at, here, signs = whiten(density, there, density.second_order(there, first))
    return Mode(at, here, length / math.sqrt(d), stale)


def uphill(gradient: np.ndarray, signs: np.ndarray) -> np.ndarray:
    """Return Newton's step; where the log density bends up, one standard deviation or more: a saddle, or a ridge
    between two sides that are alike, has no slope there."""
    return np.where(signs < 0, np.copysign(np.maximum(abs(gradient), 1.0), gradient), gradient)


def whiten(density: LogPosterior, at: Coordinates, here: SecondOrder) -> tuple[Coordinates, SecondOrder, np.ndarray]:
    """Return coordinates in which every curvature is 1 or −1, the log density there, and these signs. Directions that
    look flat in float32 are rescaled and their curvature recomputed."""
    W, signs = spectrum(here.curvature)
    at, here = turned(at, W), here.turned(W)
    if (abs(signs) < 1).any():
        here = density.with_hessian(at, here)
        W, signs = spectrum(here.curvature, scaled=False)
        if (flat := abs(signs) < 1).any():
            raise flat_direction(density, at, here, W[:, np.argmax(flat)])
        at, here = turned(at, W), here.turned(W)
    return at, here, signs


def flat_direction(density: LogPosterior, at: Coordinates, here: SecondOrder, direction: np.ndarray) -> CannotAnchor:
    """Return what to raise: the posterior is flat along `direction`, or only its second derivatives vanish there."""
    step = direction / np.linalg.norm(direction)  # a thousand standard deviations or more of other directions
    if max(abs(density.first_order(moved(at, z)).value - here.value) for z in (step, -step)) > SMALL_CHANGE:
        return CannotAnchor("the second derivatives of the log posterior vanish on the way to its mode")
    change = np.asarray(at.factor, np.float64) @ step
    name = entry_name(density.rows.target.unravel, change, at.origin.dtype)
    return CannotAnchor(
        f"the posterior is flat along a direction in which {name} changes most: a column that is zero or follows from "
        "others needs a prior of finite variance, or leave it out",
        is_fault=True,
    )


def find_other_mode(some: RowSums, everything: RowSums, at: Coordinates, rng: np.random.Generator) -> np.ndarray | None:
    """Return flat parameters near another mode, found on `some` rows from a few starts and confirmed on all, if there
    is one. `at` is whitened, with its origin at the mode that is known."""
    import scipy.optimize

    few, d = LogPosterior(some), len(at.origin)
    share = some.rows / everything.rows  # of all rows: the posterior of some is wider by its inverse root

    def minus(z: np.ndarray) -> tuple[float, np.ndarray]:
        first = few.first_order(moved(at, z / np.sqrt(share)))
        return -first.value, -first.gradient / np.sqrt(share)

    def climb(z: np.ndarray) -> tuple[float, np.ndarray]:
        found = scipy.optimize.minimize(minus, z, jac=True, method="L-BFGS-B", options={"maxiter": OTHER_STEPS})
        return -float(found.fun), found.x

    top, here = climb(np.zeros(d))
    origin = np.asarray(at.origin, np.float64)
    for start in rng.standard_normal((OTHER_STARTS, d)) * max(1.0, float(np.sqrt(np.mean(origin**2)))):
        value, there = climb(np.sqrt(share) * at.position(start.astype(at.origin.dtype)))
        apart = float(np.sqrt(np.mean((there - here) ** 2)))
        if np.isfinite(value) and value > top - OTHER_DEPTH and apart > OTHER_DISTANCE:
            ends = there / np.sqrt(share), np.zeros(d)
            other, known = (LogPosterior(everything).first_order(moved(at, z)).value for z in ends)
            if other > known - OTHER_DEPTH - 2 * d / share:  # the mode of some rows is that much below that of all
                return np.asarray(moved(at, there / np.sqrt(share)).origin)
    return None
