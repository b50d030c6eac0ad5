"""The Gaussian that a model with effects is anchored at.

A hierarchy has no joint mode of levels and their scale. But given the scales, and all else that is learned of
populations (η), the log posterior of globals and levels is nearly always concave: Newton's method finds their Gaussian.
And η follows from that by the score of its marginal likelihood,

    ∂/∂η_a = ½ Σ_j [m_jᵀPΣ_aPm_j − tr((P − PV_jP)Σ_a)],    I_ab = ½ Σ_j tr(Q_jΣ_aQ_jΣ_b),   Q_j = P − PV_jP,

with m_j and V_j the mean and the covariance of level j, P = Σ⁻¹ and Σ_a = ∂Σ/∂η_a. The two go together. In the last
rounds values are averages over the Gaussian itself, of θ = m ± Lz, which is nearer to the mean than any mode.
"""

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from isotherm.data.on_disk.open_data import host
from isotherm.lib.progress import Passes
from isotherm.lib.types import Array, Batch, Matrix, Params, Scalar, Vector
from isotherm.targets.arrow import DENSE_LEVELS, Layout, Pairs, Point, Precision, Sums, Unit, add_by, units_of
from isotherm.targets.effects import Group, GroupedPrior, LevelNames, groups_of
from isotherm.targets.newton import CannotAnchor
from isotherm.targets.parameters import flattening
from isotherm.targets.target import Target

CHUNK_NUMBERS = 2**23  # of derivatives of rows that are computed at once
ALL_DENSE = 1_024  # parameters that are dense, all of them
FIRST_ROWS = (50_000, 0.05)  # rows, at least and as a share of all, to begin with
LARGEST_MOVE = 0.5  # of η in a round
LEVEL_STEP = 2.0  # scales of its population that a level moves in a round, at most
ROUNDS = 60
HALVINGS = 12  # of a step of Newton's method
NEAR, LOOSE = 0.1, 0.5  # standard deviations, root mean square, of a last step: of all rows, and of some
AVERAGED_ROUNDS, AVERAGED_WEIGHT = 4, 0.5  # rounds with averages over the Gaussian, and the weight of each
PRIOR_SHARE = 1.0  # least of b, over c/(1 + κ): so that the coordinate of a scale is stretched up to twofold
LEAST_KNOWN = 1e-3  # of 1 − s and of κ
PROBES = 32  # random directions for the covariances of levels


class FoundGaussian(NamedTuple):
    """The Gaussian: its mean, the precision of globals and levels there, that of η, the sums over rows at the mean, and
    how far the last step went; and how the coordinates of η are stretched (`Populations.stretch`)."""

    mean: Point
    precision: Precision
    information: np.ndarray
    sums: Sums
    distance: float
    stretch: tuple[np.ndarray, np.ndarray, np.ndarray]


@dataclass(frozen=True, eq=False)
class LevelRows:
    """Rows of the data on the host, and their sums."""

    target: Target
    layout: Layout
    data: Batch
    passes: Passes

    @property
    def count(self) -> int:
        return len(jax.tree.leaves(self.data)[0])

    @property
    def chunk(self) -> int:
        """The number of rows whose derivatives are computed at once."""
        locals_ = sum(self.layout.widths)
        return max(64, min(self.count, CHUNK_NUMBERS // max(1, locals_ * (locals_ + 1) // 2)))

    def chunks(self) -> Iterator[tuple[slice, Batch, np.ndarray]]:
        """Yield slices of rows, the rows, of which the last are repeated where too few are left, and how often each of
        them counts."""
        size = self.chunk
        for first in range(0, self.count, size):
            some = slice(first, min(first + size, self.count))
            missing = size - (some.stop - first)
            weights = np.ones(size, np.float32)
            rows = jax.tree.map(lambda column, some=some: host(column)[some], self.data)
            if missing:
                weights[size - missing :] = 0
                rows = jax.tree.map(lambda c, m=missing: np.concatenate([c, np.repeat(c[-1:], m, axis=0)]), rows)
            yield some, rows, weights

    def codes(self) -> list[np.ndarray]:
        return [np.asarray(codes) for codes in self.layout.codes(self.data)]

    def pairs(self) -> dict[tuple[int, int], Pairs]:
        codes, slots = self.codes(), self.layout.slots
        return {
            (s, t): Pairs.of(codes[s], codes[t], self.layout.units[slots[t][0]].count)
            for s in range(len(slots))
            for t in range(s + 1, len(slots))
        }

    def value(self, at: Point) -> float:
        """Return Σℓ_i."""
        arrays, total = on_device(at), 0.0
        for some, rows, weights in self.chunks():
            total += float(_values(self.target, self.layout, arrays, rows, weights))
            self.passes.add(some.stop - some.start)
        return total

    def sums(self, at: Point, pairs: dict[tuple[int, int], Pairs]) -> Sums:
        """Return the sums of values, gradients and Hessians."""
        layout, total, codes = self.layout, Sums(self.layout, pairs), self.codes()
        arrays = on_device(at)
        for some, rows, weights in self.chunks():
            found = _derivatives(self.target, layout, arrays, rows, weights)
            self._add(total, found, some, codes)
            self.passes.add(some.stop - some.start)
        return total

    def _add(self, total: Sums, found: "Derivatives", some: slice, codes: list[np.ndarray]) -> None:
        n = some.stop - some.start
        total.value += float(found.value)
        total.gradient.g[:] += np.asarray(found.g, np.float64)
        total.gg[:] += np.asarray(found.gg, np.float64)
        for s, (number, _) in enumerate(self.layout.slots):
            of_rows = codes[s][some]
            for kept, new in (
                (total.gradient.levels[number], found.u[s]),
                (total.gu[number], found.gu[s]),
                (total.uu[number], found.uu[s]),
            ):
                add_by(kept, of_rows, np.asarray(new[:n], np.float64))
        for key, pairs in total.pairs.items():
            add_by(total.uv[key], pairs.of_row[some], np.asarray(found.uv[key][:n], np.float64))

    def of_some_levels(self, size: int, rng: np.random.Generator) -> tuple["LevelRows", np.ndarray]:
        """Return about `size` rows, all of those that some levels of the first unit have, and these levels."""
        unit, codes = self.layout.units[0], self.codes()[0]
        order = rng.permutation(unit.count)
        counts = np.cumsum(np.bincount(codes, minlength=unit.count)[order])
        levels = np.sort(order[: int(np.searchsorted(counts, size)) + 1])
        place = np.full(unit.count, -1, np.int32)
        place[levels] = np.arange(len(levels), dtype=np.int32)
        numbers = np.flatnonzero(place[codes] >= 0)
        data = jax.tree.map(lambda column: host(column)[numbers], self.data)
        for group in unit.groups:
            data["levels"][group.name] = place[data["levels"][group.name]]
        some = Unit(tuple(replace(group, labels=LevelNames(group.labels.values[levels])) for group in unit.groups))
        layout = replace(self.layout, units=(some, *self.layout.units[1:]))
        return LevelRows(self.target, layout, data, self.passes), levels


def on_device(at: Point) -> tuple[Array, list[Array]]:
    return jnp.asarray(at.g, float), [jnp.asarray(levels, float) for levels in at.levels]


class Derivatives(NamedTuple):
    """Those of some rows: the sum of their values, the gradient and the Hessian in globals, summed, and of each row
    what has to do with its levels, by slot and by pair of slots."""

    value: Array
    g: Array
    gg: Array
    u: list[Array]
    gu: list[Array]
    uu: list[Array]
    uv: dict[tuple[int, int], Array]


def row_locals(layout: Layout, arrays: tuple[Array, list[Array]], rows: Batch) -> Array:
    """Return each row's local vector."""
    g, levels = arrays
    codes = layout.codes(rows)
    parts = [levels[number][codes[s]] for s, (number, _) in enumerate(layout.slots)]
    return jnp.concatenate([jnp.broadcast_to(g, (len(parts[0]), g.size)), *parts], axis=1)


@partial(jax.jit, static_argnums=(0, 1))
def _values(target: Target, layout: Layout, arrays: tuple[Array, list[Array]], rows: Batch, weights: Array) -> Scalar:
    function = partial(layout.of_row, target.log_likelihood)
    values = jax.vmap(function)(row_locals(layout, arrays, rows), rows)
    return jnp.sum(jnp.where(weights > 0, values, 0))


@partial(jax.jit, static_argnums=(0, 1))
def _derivatives(
    target: Target, layout: Layout, arrays: tuple[Array, list[Array]], rows: Batch, weights: Array
) -> Derivatives:
    function = partial(layout.of_row, target.log_likelihood)

    def one(local: Vector, row: Batch) -> tuple[Scalar, Vector, Matrix]:
        value, gradient = jax.value_and_grad(function)(local, row)
        return value, gradient, jax.jacfwd(jax.grad(function))(local, row)

    values, gradients, hessians = jax.vmap(one)(row_locals(layout, arrays, rows), rows)
    on = weights > 0
    gradients = jnp.where(on[:, None], gradients, 0)
    hessians = jnp.where(on[:, None, None], hessians, 0)
    p, starts = layout.globals, np.cumsum(layout.widths)
    parts = [slice(a, b) for a, b in itertools.pairwise(starts)]
    pairs = [(s, t) for s in range(len(parts)) for t in range(s + 1, len(parts))]
    return Derivatives(
        jnp.sum(jnp.where(on, values, 0)),
        gradients[:, :p].sum(axis=0),
        hessians[:, :p, :p].sum(axis=0),
        [gradients[:, part] for part in parts],
        [hessians[:, :p, part] for part in parts],
        [hessians[:, part, part] for part in parts],
        {(s, t): hessians[:, parts[s], parts[t]] for s, t in pairs},
    )


class Populations:
    """The priors of globals and levels at some η, and the score of η."""

    def __init__(self, target: Target, layout: Layout) -> None:
        prior = target.log_prior
        assert isinstance(prior, GroupedPrior)
        self.layout = layout
        # The covariances of levels, as last known: with Student's t, the weight of a level depends on them.
        self.variances = [np.zeros((unit.count, unit.size, unit.size)) for unit in layout.units]

        def rest(g: Vector, eta: Vector) -> Scalar:
            return prior.without_levels({**layout.unravel_globals(g), **layout.population_params(eta)})

        def covariance(group: Group, eta: Vector) -> Matrix:
            root = group.root(layout.population_params(eta))
            return root @ root.T

        self._rest = jax.jit(rest)
        self._rest_slopes = jax.jit(jax.grad(rest, (0, 1)))
        self._rest_bends = jax.jit(jax.hessian(rest, (0, 1)))
        self._covariances = [jax.jit(partial(covariance, group)) for group in layout.groups]
        self._covariance_slopes = [jax.jit(jax.jacfwd(partial(covariance, group))) for group in layout.groups]

    def rest(self, at: Point) -> float:
        """Return the log-prior of everything but the levels."""
        return float(self._rest(jnp.asarray(at.g, float), jnp.asarray(at.eta, float)))

    def slopes(self, at: Point) -> tuple[np.ndarray, np.ndarray]:
        """Return its gradient in the globals and in η."""
        g, eta = self._rest_slopes(jnp.asarray(at.g, float), jnp.asarray(at.eta, float))
        return np.asarray(g, np.float64), np.asarray(eta, np.float64)

    def bends(self, at: Point) -> tuple[np.ndarray, np.ndarray]:
        """Return minus its Hessians in the globals and in η, without what is negative."""
        hessian = self._rest_bends(jnp.asarray(at.g, float), jnp.asarray(at.eta, float))
        return tuple(positive_part(-np.asarray(hessian[i][i], np.float64)) for i in (0, 1))  # type: ignore[return-value]

    def covariances(self, eta: np.ndarray) -> list[np.ndarray]:
        """Return Σ of each effect."""
        return [np.asarray(each(jnp.asarray(eta, float)), np.float64) for each in self._covariances]

    def precisions(self, at: Point) -> tuple[list[np.ndarray], list[np.ndarray | None]]:
        """Return the curvature of the prior of each unit's levels, (count or 1, size, size), and by how much that of
        each level differs from P, (count, size), where there is Student's t."""
        blocks, weights = list[np.ndarray](), list[np.ndarray | None]()
        covariances = iter(self.covariances(at.eta))
        for unit, levels, V in zip(self.layout.units, at.levels, self.variances, strict=True):
            student = any(group.effect.df is not None for group in unit.groups)
            weight = np.ones((unit.count if student else 1, unit.size))
            block = np.zeros((*weight.shape, unit.size))
            for group, part in unit.parts:
                P = np.linalg.inv(next(covariances))
                weight[:, part] = student_weights(group, levels[:, part], V[:, part, part], P)
                block[:, part, part] = P * weight[:, part, None]
            blocks.append(block)
            weights.append(weight if student else None)
        return blocks, weights

    def levels(self, at: Point) -> float:
        """Return the log density of the levels, up to a constant."""
        total, covariances = 0.0, iter(self.covariances(at.eta))
        for unit, levels in zip(self.layout.units, at.levels, strict=True):
            for group, part in unit.parts:
                u, cov = levels[:, part], next(covariances)
                if group.effect.df is not None:
                    nu = group.effect.df
                    total -= (nu + 1) / 2 * float(np.log1p(u**2 / (nu * np.diag(cov))).sum())
                else:
                    total -= 0.5 * float(np.einsum("ja,ab,jb->", u, np.linalg.inv(cov), u))
                total -= 0.5 * group.count * float(np.linalg.slogdet(cov)[1])
        return total

    def level_slopes(self, at: Point) -> list[np.ndarray]:
        """Return the gradient of the log density of the levels: minus their precision times them, for each kind."""
        precisions, _ = self.precisions(at)
        return [
            -np.einsum("jab,jb->ja", np.broadcast_to(P, (len(u), *P.shape[1:])), u)
            for P, u in zip(precisions, at.levels, strict=True)
        ]

    def score(self, at: Point, variances: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Return the score of η and its information, with those of its prior."""
        q = self.layout.populations
        score, information = np.zeros(q), np.zeros((q, q))
        numbers = itertools.count()
        for unit, levels, V in zip(self.layout.units, at.levels, variances, strict=True):
            for group, part in unit.parts:
                number = next(numbers)
                if not group.learned:
                    continue
                eta = jnp.asarray(at.eta, float)
                P = np.linalg.inv(np.asarray(self._covariances[number](eta), np.float64))
                slopes = np.moveaxis(np.asarray(self._covariance_slopes[number](eta), np.float64), -1, 0)  # Σ_a
                moments = V[:, part, part] + levels[:, part, None] * levels[:, None, part]
                weights = student_weights(group, levels[:, part], V[:, part, part], P)
                T = np.sum(moments * weights[:, :, None], axis=0)
                score += 0.5 * np.einsum("aij,ij->a", slopes, P @ T @ P - group.count * P)
                Q = P - P @ V[:, part, part] @ P
                information += 0.5 * trace_products(positive_part(Q), slopes)
        # A scale that wants to be 0: there the score is about −cτ², whose slope is twice itself.
        information += np.diag(np.maximum(0, -2 * score))
        return score + self.slopes(at)[1], information + self.bends(at)[1]

    def stretch(self, at: Point, variances: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return c = √(2J) of each learned scale, 0 of correlations; κ = s/(1 − s), s the share of the prior in what is
        known of its levels; and b, the root of the prior's own information."""
        c, kappa = np.zeros(self.layout.populations), np.ones(self.layout.populations)
        covariances, place = iter(self.covariances(at.eta)), 0
        for unit, V in zip(self.layout.units, variances, strict=True):
            for group, part in unit.parts:
                shares = np.einsum("jaa->ja", V)[:, part] / np.diag(next(covariances))
                known = np.sqrt(np.mean(np.clip(1 - shares, LEAST_KNOWN, 1) ** 2, axis=0))
                if group.effect.scale is None:
                    c[place : place + group.size] = np.sqrt(2 * group.count)
                    kappa[place : place + group.size] = np.clip(1 / known - 1, LEAST_KNOWN, None)
                place += sum(group.learned.values())
        return c, kappa, np.maximum(1, PRIOR_SHARE * c / (1 + kappa))


def student_weights(group: Group, u: np.ndarray, V: np.ndarray, P: np.ndarray) -> np.ndarray:
    """Return by how much each level's precision differs from P, where levels have Student's t, a mixture of normal
    ones: (count, size); else a row of ones."""
    if group.effect.df is None:
        return np.ones((1, group.size))
    nu = group.effect.df
    found: np.ndarray = (nu + 1) / (nu + (u**2 + np.einsum("jaa->ja", V)) * np.diag(P))
    return found


def trace_products(Q: np.ndarray, slopes: np.ndarray) -> np.ndarray:
    """Return Σ_j tr(Q_jΣ_aQ_jΣ_b)."""
    q, k = len(slopes), Q.shape[-1]
    outer = np.tensordot(Q.reshape(len(Q), -1), Q.reshape(len(Q), -1), axes=(0, 0)).reshape(k, k, k, k)
    left = np.einsum("ijkl,ajk->ail", outer, slopes) if q else np.zeros((0, k, k))  # Σ_j Q_ij Σ_jk Q_kl
    found: np.ndarray = np.einsum("ail,bli->ab", left, slopes)
    return found


def positive_part(K: np.ndarray) -> np.ndarray:
    """Return symmetric matrices (…, k, k) without their negative eigenvalues."""
    if not K.size or K.shape[-1] == 1:
        raised: np.ndarray = np.maximum(K, 0)
        return raised
    values, vectors = np.linalg.eigh((K + np.swapaxes(K, -1, -2)) / 2)
    found: np.ndarray = (vectors * np.maximum(values, 0)[..., None, :]) @ np.swapaxes(vectors, -1, -2)
    return found


class GaussianSearch:
    """The rounds of the search, and what they share."""

    def __init__(self, rows: LevelRows, rng: np.random.Generator) -> None:
        self.rows, self.rng, self.layout = rows, rng, rows.layout
        self.populations = Populations(rows.target, rows.layout)
        if self.layout.dense > DENSE_LEVELS:
            raise CannotAnchor(
                f"the model has {self.layout.dense:,} parameters besides the effect with most levels, and anchoring "
                f"takes up to {DENSE_LEVELS:,}"
            )

    def run(self, start: Point) -> FoundGaussian:
        """Return the Gaussian of all rows, which is looked for with the rows of some levels first."""
        rows, at = self.rows, start
        size = max(FIRST_ROWS[0], int(FIRST_ROWS[1] * rows.count))
        if 2 * size < rows.count and self.layout.has_blocks:
            rows.passes.say(f"Gaussian of {size:,} rows")
            some, levels = rows.of_some_levels(size, self.rng)
            begin = at._replace(levels=[at.levels[0][levels], *at.levels[1:]])
            found = GaussianSearch(some, self.rng).approach(begin, LOOSE)[0]
            blocks = at.levels[0].copy()
            blocks[levels] = found.levels[0]
            at = found._replace(levels=[blocks, *found.levels[1:]])
        rows.passes.say("Gaussian of all rows")
        return self.averaged(*self.approach(at))

    def density(self, at: Point) -> float:
        """Return the log posterior of globals and levels."""
        return self.rows.value(at) + self.populations.rest(at) + self.populations.levels(at)

    def gradient(self, sums: Sums, at: Point) -> Point:
        """Return the gradient of the log posterior in globals and levels."""
        slopes = self.populations.level_slopes(at)
        levels = [a + b for a, b in zip(sums.gradient.levels, slopes, strict=True)]
        return Point(sums.gradient.g + self.populations.slopes(at)[0], np.zeros_like(at.eta), levels)

    def precision(self, sums: Sums, at: Point) -> Precision:
        return Precision(sums, self.populations.bends(at)[0], *self.populations.precisions(at))

    def approach(self, at: Point, near: float = NEAR) -> tuple[Point, Sums]:
        """Return a point near the mode of globals and levels, at the best η there, and the sums over rows."""
        rows, pairs = self.rows, self.rows.pairs()
        for _ in range(ROUNDS):
            sums = rows.sums(at, pairs)
            if not np.isfinite(sums.value):
                raise CannotAnchor("the log-likelihood is not finite on the way to the anchor")
            precision = self.precision(sums, at)
            gradient = self.gradient(sums, at)
            step = precision.solve(gradient)
            length = math.sqrt(max(0.0, step.dot(gradient)) / self.layout.parameters)
            variances = self.populations.variances = precision.variances(self.rng, PROBES)[:-1]
            step = self.limited(step, at.eta)
            # The score is that of the mode at this η, to which the step leads: m follows η.
            move, information = self.population_step(at.moved(step, min(1.0, 3 / max(length, 1e-9))), variances)
            scaled = math.sqrt(max(0.0, move @ information @ move) / max(1, len(move)))
            if length < near and scaled < near:
                return at, sums
            at = self.accepted(at, step, sums, length)._replace(eta=at.eta + move)
        raise CannotAnchor(
            f"the Gaussian that the posterior is anchored at is not found in {ROUNDS} rounds; start nearer to it"
        )

    def limited(self, step: Point, eta: np.ndarray) -> Point:
        """Return a step in which no level goes further than LEVEL_STEP times its scale: Newton's method would throw a
        level whose rows all agree far off, and the mean over all levels would not show it."""
        levels, covariances = [], iter(self.populations.covariances(eta))
        for unit, moves in zip(self.layout.units, step.levels, strict=True):
            sd = np.sqrt(np.concatenate([np.diag(next(covariances)) for _ in unit.groups]))
            levels.append(np.clip(moves, -LEVEL_STEP * sd, LEVEL_STEP * sd))
        return step._replace(levels=levels)

    def population_step(self, at: Point, variances: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Return the step of η, and its information."""
        score, information = self.populations.score(at, variances)
        if not score.size:
            return score, information
        floor = np.diag(np.maximum(0.05 * np.abs(score), 1e-3))  # where there is no information steps are bounded
        move = np.linalg.solve(information + floor, score)
        return np.clip(move, -LARGEST_MOVE, LARGEST_MOVE), information

    def accepted(self, at: Point, step: Point, sums: Sums, length: float) -> Point:
        """Return where a step of Newton's method leads, or a part of it that does not lose density."""
        if length < 1:  # near the maximum the quadratic is trusted
            return at.moved(step)
        before, share = sums.value + self.populations.rest(at) + self.populations.levels(at), 1.0
        for _ in range(HALVINGS):
            there = at.moved(step, share)
            if self.density(there) > before:
                return there
            share /= 3
        return at.moved(step, share)

    def averaged(self, at: Point, blended: Sums) -> FoundGaussian:
        """Return the Gaussian whose gradient and precision are averages over itself, starting near a mode."""
        pairs = blended.pairs
        precision = self.precision(blended, at)
        for _ in range(AVERAGED_ROUNDS):
            J, k = self.layout.blocks
            shift = precision.shift(self.rng.standard_normal((J, k)), self.rng.standard_normal(precision.n))
            mean = self.rows.sums(at.moved(shift), pairs).average(self.rows.sums(at.moved(shift, -1.0), pairs))
            blended = blended.blend(mean, AVERAGED_WEIGHT)
            precision = self.precision(blended, at)
            gradient = self.gradient(mean, at)
            step = precision.solve(gradient)
            variances = self.populations.variances = precision.variances(self.rng, PROBES)[:-1]
            _, information = self.population_step(at.moved(step), variances)
            at = at.moved(step, AVERAGED_WEIGHT)
        length = math.sqrt(max(0.0, step.dot(gradient)) / self.layout.parameters)
        stretch = self.populations.stretch(at, variances)
        return FoundGaussian(at, self.precision(blended, at), information, blended, length, stretch)


def make_layout(target: Target, params: Params, all_dense: int = ALL_DENSE) -> Layout:
    """Return the layout of a target's parameters. Up to `all_dense` of them blocks are for vectors only, whose scales
    move best in blocks; a unit that a row has twice is dense."""
    groups = groups_of(target)
    names = {name for group in groups for name in (group.name, *group.learned)}
    own = {name: value for name, value in params.items() if name not in names}
    unravel = flattening(own)[1] if own else no_globals
    size = sum(int(np.size(leaf)) for leaf in jax.tree.leaves(own))
    few = size + sum(group.count * group.size for group in groups) <= all_dense
    units = units_of(groups, vectors_first=few)
    return Layout(unravel, size, units, units[0].places == 1 and not (few and units[0].size == 1))


def no_globals(flat: Vector) -> Params:
    return {}
