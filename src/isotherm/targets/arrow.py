"""The precision of a model with effects, an arrow, and its factor; on the host in float64.

Effects by the same column share a block: unit is the word for these levels. The unit with most entries comes first; the
parameters of the user's own (globals) and all other levels are dense:

    Λ = [ B  U ]    B = C₁C₁ᵀ, a block for each level of the first unit;  U sparse: blocks of pairs that occur
        [ Uᵀ D ]    S = D − UᵀB⁻¹U = C₂C₂ᵀ;     Λ⁻¹ = LLᵀ with  Lz: δ₂ = C₂⁻ᵀz₂,  δ₁ = C₁⁻ᵀ(z₁ − C₁⁻¹Uδ₂).
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy  # its parts are loaded when they are used

from isotherm.lib.types import Array, Example, Params, Scalar, Vector
from isotherm.targets.effects import Group, GroupedLikelihood
from isotherm.targets.target import Unravel

DENSE_LEVELS = 12_000  # entries of the dense part: its factor then takes a gigabyte
EXACT_PRODUCTS = 4e8  # multiplications up to which covariances of levels are computed from all of the dense part
INDEFINITE = 1e-8  # eigenvalues below this share of the largest are raised to it


@dataclass(frozen=True)
class Unit:
    """The effects by one column: a vector for each level."""

    groups: tuple[Group, ...]

    @property
    def count(self) -> int:
        return self.groups[0].count

    @property
    def size(self) -> int:
        return sum(group.size for group in self.groups)

    @property
    def places(self) -> int:
        return self.groups[0].places

    @property
    def parts(self) -> list[tuple[Group, slice]]:
        """The effects, and which components of a level are theirs."""
        ends = itertools.accumulate(group.size for group in self.groups)
        return [(group, slice(end - group.size, end)) for group, end in zip(self.groups, ends, strict=True)]

    @property
    def entries(self) -> int:
        return self.count * self.size


def units_of(groups: tuple[Group, ...], vectors_first: bool) -> tuple[Unit, ...]:
    """Return the units, the one that becomes the blocks of the arrow first: the largest, or the largest of vectors."""
    by_column: dict[tuple[str, ...], list[Group]] = {}
    for group in groups:
        by_column.setdefault(group.effect.columns, []).append(group)
    units = [Unit(tuple(members)) for members in by_column.values()]
    return tuple(sorted(units, key=lambda u: (u.places > 1, vectors_first and u.size == 1, -u.entries)))


@dataclass(frozen=True)
class Layout:
    """How parameters are laid out: p globals, q parameters of populations, and the levels of units, of which the first
    may be the blocks of the arrow."""

    unravel_globals: Unravel
    globals: int
    units: tuple[Unit, ...]
    has_blocks: bool

    @property
    def groups(self) -> tuple[Group, ...]:
        return tuple(group for unit in self.units for group in unit.groups)

    @cached_property
    def learned(self) -> dict[str, tuple[int, tuple[int, ...]]]:
        """The place of each learned parameter of a population among all, and its shape."""
        places, begin = {}, 0
        for group in self.groups:
            for name, size in group.learned.items():
                places[name] = begin, group.shape if name.startswith("log_sd_") else (size,)
                begin += size
        return places

    @cached_property
    def populations(self) -> int:
        """q."""
        return sum(size for group in self.groups for size in group.learned.values())

    @property
    def blocks(self) -> tuple[int, int]:
        """The number of blocks and their size."""
        return (self.units[0].count, self.units[0].size) if self.has_blocks else (0, 1)

    @property
    def dense_units(self) -> tuple[Unit, ...]:
        return self.units[1:] if self.has_blocks else self.units

    @property
    def dense(self) -> int:
        """The number of entries of the dense part."""
        return self.globals + sum(unit.entries for unit in self.dense_units)

    @property
    def parameters(self) -> int:
        return self.populations + self.globals + sum(unit.entries for unit in self.units)

    @property
    def slots(self) -> tuple[tuple[int, int], ...]:
        """Where a row has levels: the number of the unit, and which of its columns."""
        return tuple((number, place) for number, unit in enumerate(self.units) for place in range(unit.places))

    def population_params(self, eta: Vector) -> Params:
        """Return what is learned of populations, by name."""
        return {
            name: jnp.reshape(eta[begin : begin + int(np.prod(shape))], shape)
            for name, (begin, shape) in self.learned.items()
        }

    def level_params(self, levels: list[Array]) -> Params:
        """Return the levels by the names of effects, of those of units."""
        params = {}
        for unit, values in zip(self.units, levels, strict=True):
            for group, part in unit.parts:
                params[group.name] = jnp.reshape(values[..., part], (*values.shape[:-1], *group.shape))
        return params

    def params(self, g: Vector, eta: Vector, levels: list[Array]) -> Params:
        """Return the model's parameters."""
        return {**self.unravel_globals(g), **self.population_params(eta), **self.level_params(levels)}

    def split(self, params: Params) -> tuple[Array, Array, list[Array]]:
        """Return the globals, flat, what is learned of populations, and the levels of each unit."""
        names = {name for group in self.groups for name in (group.name, *group.learned)}
        g, _ = jax.flatten_util.ravel_pytree({name: value for name, value in params.items() if name not in names})
        eta = [jnp.ravel(params[name]) for name in self.learned]
        levels = [
            jnp.concatenate(
                [jnp.reshape(params[group.name], (group.count, group.size)) for group in unit.groups], axis=1
            )
            for unit in self.units
        ]
        return g, jnp.concatenate([*eta, jnp.zeros(0, g.dtype)]), levels

    def codes(self, example: Example) -> list[Array]:
        """Return the numbers of a row's levels, or of many rows', one for each slot."""
        found = []
        for number, place in self.slots:
            unit = self.units[number]
            codes = example["levels"][unit.groups[0].name]
            found.append(codes if unit.places == 1 else codes[..., place])
        return found

    def of_row(self, likelihood: Callable[[Params, Example], Scalar], local: Vector, example: Example) -> Scalar:
        """Return a row's log-likelihood as a function of what it depends on: globals, and the vectors of its slots."""
        own, begin = dict[str, list[Array]](), self.globals
        for number, _ in self.slots:
            for group in self.units[number].groups:
                value = jnp.reshape(local[begin : begin + group.size], group.shape)
                own.setdefault(group.name, []).append(value)
                begin += group.size
        assert isinstance(likelihood, GroupedLikelihood)
        levels = {name: parts[0] if len(parts) == 1 else jnp.stack(parts) for name, parts in own.items()}
        return likelihood.of_own(self.unravel_globals(local[: self.globals]), levels, example)

    @property
    def widths(self) -> list[int]:
        """The sizes of the parts of a row's local vector: globals, and slots."""
        return [self.globals, *(self.units[number].size for number, _ in self.slots)]


class Point(NamedTuple):
    """Values of all parameters, on the host in float64."""

    g: np.ndarray
    eta: np.ndarray
    levels: list[np.ndarray]

    def moved(self, step: "Point", by: float = 1.0) -> "Point":
        levels = [a + by * b for a, b in zip(self.levels, step.levels, strict=True)]
        return Point(self.g + by * step.g, self.eta + by * step.eta, levels)

    def dot(self, other: "Point") -> float:
        """Return the product of the globals and levels of two points."""
        return float(self.g @ other.g + sum(np.vdot(a, b) for a, b in zip(self.levels, other.levels, strict=True)))


class Pairs(NamedTuple):
    """The pairs of levels of two slots that occur together in a row, in order, and each row's number among them."""

    first: np.ndarray
    second: np.ndarray
    of_row: np.ndarray

    @classmethod
    def of(cls, first: np.ndarray, second: np.ndarray, count: int) -> "Pairs":
        keys, of_row = np.unique(first.astype(np.int64) * count + second, return_inverse=True)
        return cls((keys // count).astype(np.int32), (keys % count).astype(np.int32), of_row.astype(np.int32))


class Sums:
    """Sums over rows of the log-likelihood, its gradient and its Hessian, by level and pair of levels."""

    def __init__(self, layout: Layout, pairs: dict[tuple[int, int], Pairs]) -> None:
        p, units, slots = layout.globals, layout.units, layout.slots
        self.layout, self.pairs, self.value = layout, pairs, 0.0
        self.gradient = Point(np.zeros(p), np.zeros(layout.populations), [np.zeros((u.count, u.size)) for u in units])
        self.gg = np.zeros((p, p))
        self.gu = [np.zeros((u.count, p, u.size)) for u in units]
        self.uu = [np.zeros((u.count, u.size, u.size)) for u in units]
        self.uv = {
            (s, t): np.zeros((len(each.first), units[slots[s][0]].size, units[slots[t][0]].size))
            for (s, t), each in pairs.items()
        }

    def average(self, other: "Sums") -> "Sums":
        """Return the mean of two sums."""
        both = self.blend(other, 0.5)
        both.value = (self.value + other.value) / 2
        both.gradient = self.gradient.moved(self.gradient, -0.5).moved(other.gradient, 0.5)
        return both

    def blend(self, new: "Sums", weight: float) -> "Sums":
        """Return (1 − weight) times these Hessians and weight times the new ones, with the new values and gradients."""
        after = Sums.__new__(Sums)
        after.layout, after.pairs, after.value, after.gradient = self.layout, self.pairs, new.value, new.gradient

        def mixed(old: np.ndarray, new: np.ndarray) -> np.ndarray:
            return (1 - weight) * old + weight * new

        after.gg = mixed(self.gg, new.gg)
        after.gu = [mixed(a, b) for a, b in zip(self.gu, new.gu, strict=True)]
        after.uu = [mixed(a, b) for a, b in zip(self.uu, new.uu, strict=True)]
        after.uv = {key: mixed(self.uv[key], new.uv[key]) for key in self.uv}
        return after


def indicator(codes: np.ndarray, count: int) -> "scipy.sparse.csc_matrix":
    """Return the matrix whose product with values of rows are their sums by level."""
    return scipy.sparse.csc_matrix((np.ones(len(codes)), codes, np.arange(len(codes) + 1)), (count, len(codes)))


def add_by(total: np.ndarray, codes: np.ndarray, values: np.ndarray) -> None:
    """Add to each level of `total` the `values` of the rows that have it."""
    there, place = np.unique(codes, return_inverse=True) if len(total) > 4 * len(codes) else (None, codes)
    count = len(total) if there is None else len(there)
    sums = (indicator(place, count) @ values.reshape(len(values), -1)).reshape(count, *total.shape[1:])
    if there is None:
        total += sums
    else:
        total[there] += sums


class Precision:
    """Λ of globals and levels at some scales, and its factor."""

    def __init__(
        self, sums: Sums, prior_g: np.ndarray, prior: list[np.ndarray], weights: list[np.ndarray | None]
    ) -> None:
        """`prior_g` is the curvature of the globals' prior, `prior` those of levels, (count, size, size) or one for
        all, and `weights` what they have in them of Student's t."""
        self.weights = weights
        self.prior_diagonals = [np.einsum("jaa->ja", each) for each in prior]
        layout = sums.layout
        self.layout, self.sums = layout, sums
        J, k = layout.blocks
        p, self.n = layout.globals, layout.dense
        offset = 1 if layout.has_blocks else 0
        if offset:
            self.B = positive_blocks(-sums.uu[0] + prior[0], np.broadcast_to(prior[0], sums.uu[0].shape))
        else:
            self.B = np.zeros((0, 1, 1))
        C = np.linalg.cholesky(self.B)
        self.root = np.swapaxes(np.linalg.inv(C), -1, -2)  # C₁⁻ᵀ
        self.U = self._sparse(offset)
        self.Ug = -np.swapaxes(sums.gu[0], 1, 2) if offset else np.zeros((0, 1, p))
        D = np.zeros((self.n, self.n))
        D[:p, :p] = prior_g - sums.gg
        self._dense_levels(D, prior, offset)
        if J:
            inverse = np.swapaxes(self.root, -1, -2)
            Yg = (inverse @ self.Ug).reshape(J * k, p)
            diagonal = scipy.sparse.bsr_matrix((inverse, np.arange(J), np.arange(J + 1)), (J * k, J * k)).tocsr()
            Y = (diagonal @ self.U).tocsr()
            D[:p, :p] -= Yg.T @ Yg
            cross = (Y.T @ Yg).T
            D[:p, p:] -= cross
            D[p:, :p] -= cross.T
            if Y.nnz:
                product = (Y.T @ Y).tocoo()
                np.subtract.at(D, (p + product.row, p + product.col), product.data)
        self.factor = self._cholesky(D)  # lower, C₂

    def _cholesky(self, D: np.ndarray) -> np.ndarray:
        try:
            factor: np.ndarray = scipy.linalg.cholesky(D, lower=True)
        except np.linalg.LinAlgError:
            values, vectors = np.linalg.eigh(D)
            values = np.maximum(np.abs(values), INDEFINITE * np.abs(values).max())
            factor = scipy.linalg.cholesky((vectors * values) @ vectors.T, lower=True)
        return factor

    def _sparse(self, offset: int) -> "scipy.sparse.csr_matrix":
        """Return U without the globals."""
        layout = self.layout
        J, k = layout.blocks
        rows, columns, values = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)], [np.zeros(0)]
        starts = self.starts()
        for (s, t), pairs in self.sums.pairs.items():
            if not offset or layout.slots[s][0] != 0:
                continue
            number = layout.slots[t][0]
            size = layout.units[number].size
            r = pairs.first[:, None, None].astype(np.int64) * k + np.arange(k)[None, :, None]
            c = starts[number] - layout.globals + pairs.second[:, None, None].astype(np.int64) * size
            c = c + np.arange(size)[None, None, :]
            shape = (len(pairs.first), k, size)
            rows.append(np.broadcast_to(r, shape).ravel())
            columns.append(np.broadcast_to(c, shape).ravel())
            values.append(-self.sums.uv[s, t].ravel())
        joined = [np.concatenate(each) for each in (values, rows, columns)]
        return scipy.sparse.csr_matrix((joined[0], (joined[1], joined[2])), (J * k, self.n - layout.globals))

    def starts(self) -> dict[int, int]:
        """Return where the levels of each dense unit begin in the dense part."""
        begin, found = self.layout.globals, {}
        for number, unit in enumerate(self.layout.units):
            if number or not self.layout.has_blocks:
                found[number] = begin
                begin += unit.entries
        return found

    def _dense_levels(self, D: np.ndarray, prior: list[np.ndarray], offset: int) -> None:
        layout, sums, p = self.layout, self.sums, self.layout.globals
        starts = self.starts()
        for number, begin in starts.items():
            unit = layout.units[number]
            J, k = unit.count, unit.size
            blocks = prior[number] - sums.uu[number]
            places = begin + np.arange(J * k).reshape(J, k)
            D[places[:, :, None], places[:, None, :]] += blocks
            D[:p, begin : begin + J * k] -= sums.gu[number].transpose(1, 0, 2).reshape(p, J * k)
            D[begin : begin + J * k, :p] = D[:p, begin : begin + J * k].T
        for (s, t), pairs in sums.pairs.items():
            a, b = layout.slots[s][0], layout.slots[t][0]
            if a not in starts or b not in starts:
                continue
            ka, kb = layout.units[a].size, layout.units[b].size
            r = starts[a] + pairs.first[:, None, None].astype(np.int64) * ka + np.arange(ka)[None, :, None]
            c = starts[b] + pairs.second[:, None, None].astype(np.int64) * kb + np.arange(kb)[None, None, :]
            r, c = np.broadcast_arrays(r, c)
            np.subtract.at(D, (r, c), sums.uv[s, t])
            np.subtract.at(D, (c, r), sums.uv[s, t])

    def solve(self, b: Point) -> Point:
        """Return Λ⁻¹b."""
        b1, b2 = self._parts(b)
        half = self._lower(b1)  # C₁⁻¹b₁
        y = self._upper(half)  # B⁻¹b₁
        rest = b2 - self._across_transposed(y)
        d2 = scipy.linalg.cho_solve((self.factor, True), rest)
        return self._point(self._upper(half - self._lower(self._across(d2))), d2)

    def shift(self, z1: np.ndarray, z2: np.ndarray) -> Point:
        """Return Lz."""
        d2 = scipy.linalg.solve_triangular(self.factor, z2, lower=True, trans="T")
        return self._point(self._upper(z1 - self._lower(self._across(d2))), d2)

    def variances(self, rng: np.random.Generator, probes: int) -> list[np.ndarray]:
        """Return the covariance of each level of each unit, (count, size, size), and that of the globals last: by
        random directions of the dense part, or by all where these cost little."""
        largest = max(self.U.nnz, self.n, self.B.shape[0] * self.B.shape[1])
        few = self.n <= probes or self.n * largest <= EXACT_PRODUCTS
        z = np.sqrt(self.n) * np.eye(self.n) if few else rng.standard_normal((self.n, probes))
        columns = scipy.linalg.solve_triangular(self.factor, z, lower=True, trans="T")
        columns /= np.sqrt(z.shape[1])
        found: list[np.ndarray] = []
        J, k = self.layout.blocks
        p = self.layout.globals
        if self.layout.has_blocks:
            across = (self.U @ columns[p:]).reshape(J, k, -1) + np.einsum("jap,pm->jam", self.Ug, columns[:p])
            half = np.swapaxes(self.root, -1, -2) @ across
            inner = np.eye(k) + half @ np.swapaxes(half, -1, -2)
            found.append(self.root @ inner @ np.swapaxes(self.root, -1, -2))
        for number, begin in self.starts().items():
            unit = self.layout.units[number]
            parts = columns[begin : begin + unit.entries].reshape(unit.count, unit.size, -1)
            found.append(parts @ np.swapaxes(parts, -1, -2))
        return [*found, columns[:p] @ columns[:p].T]

    @cached_property
    def dense_variances(self) -> np.ndarray:
        """The variances of the dense part."""
        root = scipy.linalg.solve_triangular(self.factor, np.eye(self.n), lower=True)
        variances: np.ndarray = np.einsum("ia,ia->a", root, root)
        return variances

    def _across(self, d2: np.ndarray) -> np.ndarray:
        """Return Uδ₂, (J, k)."""
        J, k = self.layout.blocks
        p = self.layout.globals
        product: np.ndarray = (self.U @ d2[p:]).reshape(J, k) + self.Ug @ d2[:p]
        return product

    def _across_transposed(self, d1: np.ndarray) -> np.ndarray:
        """Return Uᵀδ₁."""
        return np.concatenate([np.einsum("jap,ja->p", self.Ug, d1), self.U.T @ d1.ravel()])

    def _lower(self, v: np.ndarray) -> np.ndarray:
        """Return C₁⁻¹v."""
        product: np.ndarray = np.einsum("jai,ja->ji", self.root, v)
        return product

    def _upper(self, v: np.ndarray) -> np.ndarray:
        """Return C₁⁻ᵀv."""
        product: np.ndarray = np.einsum("jai,ji->ja", self.root, v)
        return product

    def _parts(self, b: Point) -> tuple[np.ndarray, np.ndarray]:
        first = b.levels[0] if self.layout.has_blocks else np.zeros((0, 1))
        others = b.levels[1:] if self.layout.has_blocks else b.levels
        return first, np.concatenate([b.g, *(each.ravel() for each in others)])

    def _point(self, d1: np.ndarray, d2: np.ndarray) -> Point:
        layout, begin = self.layout, self.layout.globals
        levels = [d1] if layout.has_blocks else []
        for unit in layout.dense_units:
            levels.append(d2[begin : begin + unit.entries].reshape(unit.count, unit.size))
            begin += unit.entries
        return Point(d2[: layout.globals], np.zeros(layout.populations), levels)


def positive_blocks(blocks: np.ndarray, least: np.ndarray) -> np.ndarray:
    """Return symmetric blocks, of which those that are less than half of `least` in some direction, which is positive,
    are made as large."""
    blocks = (blocks + np.swapaxes(blocks, -1, -2)) / 2
    inverse = np.linalg.inv(np.linalg.cholesky(least))
    relative = inverse @ blocks @ np.swapaxes(inverse, -1, -2)
    if blocks.shape[-1] == 1:
        raised: np.ndarray = np.maximum(blocks, least / 2)
        return raised
    smallest = np.linalg.eigvalsh(relative)[:, 0]
    bad = np.flatnonzero(~(smallest > 0.5))
    if bad.size:
        values, vectors = np.linalg.eigh(relative[bad])
        root = np.linalg.cholesky(least[bad])
        mended = (vectors * np.maximum(values, 0.5)[:, None, :]) @ np.swapaxes(vectors, -1, -2)
        blocks[bad] = root @ mended @ np.swapaxes(root, -1, -2)
    return blocks
