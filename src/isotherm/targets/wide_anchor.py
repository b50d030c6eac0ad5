"""The way to an anchored posterior of a model with effects: its Gaussian, what batches leave of noise, or all rows."""

import math
from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from isotherm.data.batches import make_table
from isotherm.data.on_disk.open_data import host
from isotherm.lib.progress import Passes
from isotherm.lib.types import Array, Batch, Float, Params, Scalar, Vector
from isotherm.targets.arrow import Layout, Point
from isotherm.targets.forces import probabilities_of, weighted_rows
from isotherm.targets.gaussian import (
    PROBES,
    FoundGaussian,
    GaussianSearch,
    LevelRows,
    make_layout,
    on_device,
    row_locals,
)
from isotherm.targets.noisy import estimate
from isotherm.targets.target import Findings, Target
from isotherm.targets.wide import Wide, make_gaussian, make_taylor

ALL_ROWS = 20_000  # rows, of which all are taken at every step: few enough
MEAN_NOISE, LARGE_NOISE = 0.02, 2.0  # h²S/2 at h = 1, on average over directions and in the noisiest of them
LARGE_SHARE = 0.25  # of the rows in a batch: beyond, all are taken
NOISE_POSITIONS, NOISE_SIGNS = 24, 4  # typical positions at which the noise is measured, and random signs at each
NOISE_ROWS = 10_000  # of each such batch
POWER_STEPS = (24, 10)  # of the power method that measures the largest curvature, at the mean and far out
FAR_PLACES, FAR_SCALES = 6, 2.5  # draws where it is measured far out, with scales so many standard deviations away
FAR_STABLE = 3.0  # how much larger it may be there: a step is stable up to h²K = 4
LEAST_BATCH = 64


def anchor_wide(target: Target, data: Batch, params: Params, rng: np.random.Generator, passes: Passes) -> Wide:
    """Return the anchored posterior of a model with effects, whose data are on the device."""
    layout = make_layout(target, params)
    rows = LevelRows(target, layout, jax.tree.map(host, data), passes)
    start = as_point(layout, params)
    found = GaussianSearch(rows, rng).run(start)
    dtype = jax.flatten_util.ravel_pytree(params)[0].dtype
    gaussian = make_gaussian(found, layout, dtype)
    every = Wide(
        **vars(target),
        layout=layout,
        gaussian=gaussian,
        taylor=None,
        rows=None,
        noise=None,
        largest_curvature=jnp.ones((), dtype),
        population=rows.count,
    )
    chosen, noise = every, 0.0
    if rows.count > ALL_ROWS:
        passes.say("noise")
        chosen, noise = with_batches(every, rows, found, rng)
    passes.say("curvature")
    largest = jnp.asarray(largest_curvature(chosen, data, rng, passes), dtype)
    size = chosen.chosen_batch_size
    findings = Findings(passes.done, found.distance, size, noise, math.nan, 0, 1)
    return replace(chosen, largest_curvature=largest, findings=findings)


def as_point(layout: Layout, params: Params) -> Point:
    """Return parameters on the host."""
    g, eta, levels = layout.split(jax.tree.map(lambda leaf: jnp.asarray(leaf, float), params))
    return Point(np.asarray(g, np.float64), np.asarray(eta, np.float64), [np.asarray(u, np.float64) for u in levels])


def with_batches(every: Wide, rows: LevelRows, found: FoundGaussian, rng: np.random.Generator) -> tuple[Wide, float]:
    """Return the target that estimates from batches, if that pays, and the mean of h²S/2; else the one that takes all
    rows."""
    dtype = every.gaussian.g.dtype
    table = make_table(probabilities_of(leverages(rows, found, rng)), dtype, overwrite=True)
    exact = rows.sums(found.mean, found.sums.pairs)
    batched = replace(every, taylor=make_taylor(exact, dtype), rows=table)
    S = measured_noise(batched, rows, rng)
    size = max(LEAST_BATCH, S.mean() / 2 / MEAN_NOISE, S.max() / 2 / LARGE_NOISE)
    if not size <= LARGE_SHARE * rows.count:
        return every, 0.0
    size = math.ceil(max(size, min(every.parameters / 4, rows.count / 16)))  # as many cost hardly more than fewer
    findings = every.findings._replace(batch_size=size)
    noise = float(S.mean() / 2 / size)
    return replace(batched, noise=jnp.asarray(S, dtype), findings=findings), noise


def leverages(rows: LevelRows, found: FoundGaussian, rng: np.random.Generator) -> np.ndarray:
    """Return for each row how much of the curvature it has: its Hessian times the covariances of its levels."""
    layout = rows.layout
    covariances = [jnp.asarray(V, float) for V in found.precision.variances(rng, PROBES)]
    arrays, parts = on_device(found.mean), []
    for some, columns, _ in rows.chunks():
        values = np.asarray(_leverages(rows.target, layout, arrays, covariances, columns))
        parts.append(values[: some.stop - some.start])
        rows.passes.add(some.stop - some.start)
    return np.concatenate(parts)


@partial(jax.jit, static_argnums=(0, 1))
def _leverages(
    target: Target, layout: Layout, arrays: tuple[Array, list[Array]], covariances: list[Array], rows: Batch
) -> Float[Array, " n"]:
    slope = jax.grad(partial(layout.of_row, target.log_likelihood))
    hessians = jax.vmap(jax.jacfwd(slope))(row_locals(layout, arrays, rows), rows)
    p, starts, codes = layout.globals, np.cumsum(layout.widths), layout.codes(rows)
    total = jnp.abs(jnp.einsum("nab,ab->n", hessians[:, :p, :p], covariances[-1]))
    for s, (number, _) in enumerate(layout.slots):
        part = slice(starts[s], starts[s + 1])
        total += jnp.abs(jnp.einsum("nab,nab->n", hessians[:, part, part], covariances[number][codes[s]]))
    return total


def measured_noise(target: Wide, rows: LevelRows, rng: np.random.Generator) -> np.ndarray:
    """Return the diagonal of S of batches of one row, on average over typical positions."""
    total, n = np.zeros(target.parameters), min(NOISE_ROWS, rows.count)
    assert target.rows is not None
    for _ in range(NOISE_POSITIONS):
        z = rng.standard_normal(target.parameters).astype(target.gaussian.g.dtype)
        batch, weights = weighted_rows(rows.data, target.rows, n, rng)
        signs = rng.choice(np.array([-1, 1], z.dtype), (NOISE_SIGNS, n))
        total += np.asarray(_noise(target, z, batch, weights, signs), np.float64) / NOISE_POSITIONS
    rows.passes.add(NOISE_POSITIONS * n)
    return total


@jax.jit
def _noise(target: Wide, z: Vector, batch: Batch, weights: Array, signs: Array) -> Vector:
    """Return the diagonal of S of one row by random signs."""
    noisy = estimate(target, z, batch, population=target.population, size=1, weights=weights)
    covariance = noisy.covariance
    squares = jax.lax.map(lambda one: covariance.cotangents(one - one.mean()) ** 2, signs)
    diagonal: Vector = covariance.scale * squares.mean(axis=0)
    return diagonal


def largest_curvature(target: Wide, data: Batch, rng: np.random.Generator, passes: Passes) -> float:
    """Return the largest curvature at the mean, which is about 1 where the Gaussian is right, or what that must be for
    steps to stay stable far out, where a scale is at the edge of what is likely."""
    rows = None if target.taylor is not None else data
    largest, q = 1.0, target.layout.populations
    for place in range(1 + FAR_PLACES):
        z = np.zeros(target.parameters)
        if place:
            z = rng.standard_normal(target.parameters)
            z[:q] = FAR_SCALES * rng.choice([-1.0, 1.0], q)
        at = jnp.asarray(z, target.gaussian.g.dtype)
        v = jnp.asarray(rng.standard_normal(target.parameters), at.dtype)
        for _ in range(POWER_STEPS[min(place, 1)]):
            image = _curved(target, at, v / jnp.linalg.norm(v), rows)
            found, v = float(jnp.linalg.norm(image)), image
            if rows is not None:
                passes.add(2 * target.population)
        if math.isfinite(found):
            largest = max(largest, found / FAR_STABLE if place else found)
    return largest


@jax.jit
def _curved(target: Wide, at: Vector, v: Vector, rows: Batch | None) -> Vector:
    def energy(z: Vector) -> Scalar:
        value = -target.exact(z)
        if rows is not None:
            value -= jnp.sum(jax.vmap(target.estimated, (None, 0))(z, rows))
        return value

    product: Vector = jax.jvp(jax.grad(energy), (at,), (v,))[1]
    return product
