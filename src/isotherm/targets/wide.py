"""A model with effects in coordinates in which its posterior is nearly N(0, I), at any number of levels.

With Λ of `arrow.py` and its factor at the scales η̂, and P(η) the precision of the levels' prior,

    η = η̂ + g(C_η⁻ᵀ z_η),    (δg, x) = C₂⁻ᵀ z₂,    r_i⁻² = 1 + c_iᵀ(P(η) − P(η̂))c_i   for the columns c_i of C₁⁻ᵀ,
    u = C₁⁻ᵀ[r² ∘ (C₁ᵀm − C₁⁻¹Uδ₂) + r ∘ z₁],

where u are the levels of the first unit, m their mean at η̂ and δ₂ what the dense part differs from its mean. A level
that the data decide stays where it is when its scale changes (r = 1), one that they do not moves along (r = τ/τ̂). In
between r is what a Gaussian likelihood makes it, so that scales and levels mix together however many rows a level has.
Levels of the dense part are moved likewise, an effect after the other, along the principal axes of its levels, and all
else that is dense follows as it depends on them. The log density gains Σ log r.

The sum over rows is taken whole at every step, or estimated from batches of ℓ_i − T_i as on any anchored posterior,
with G and H as sums by level and by pair of levels.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy  # its parts are loaded when they are used
from jax.flatten_util import ravel_pytree
from jax.tree_util import register_dataclass

from isotherm.data.batches import AliasTable
from isotherm.lib.types import Array, Example, Int, Matrix, Params, Scalar, Vector
from isotherm.targets.arrow import Layout, Point, Precision, Sums, Unit
from isotherm.targets.effects import GroupedLikelihood
from isotherm.targets.gaussian import FoundGaussian
from isotherm.targets.target import NOT_A_STEP, UNKNOWN, Findings, Target

LEAST_SHRINKAGE = 1e-6  # r⁻² is at least this
ALL_KEPT, KEPT_LEVELS = 300_000, 1_000  # parameters up to which all draws are kept; else of so many levels of an effect
STRETCH_STEPS = 8  # of Newton's method, from a side where it stays on
EXACT_SIZE = 4  # of blocks up to which r is a matrix, exact for a Gaussian likelihood; of larger ones its diagonal
ROTATED_LEVELS = 2_048  # levels of a component that are moved along their principal axes


class PairTerms(NamedTuple):
    """Terms of a bilinear form in the levels of two slots: for each pair of levels that occur, a small matrix."""

    first: Array
    second: Array
    values: Array


class Rotation(NamedTuple):
    """How levels of the dense part move with their scale: m and D = P^(1/2) of each, principal axes of DVD, V their
    covariance, and the share s of the prior along each; and how all of the dense part follows, V_·aV_aa⁻¹. No axes:
    the levels are too many, and each moves by itself."""

    mean: Vector
    root: Vector
    shares: Vector
    axes: Matrix | None
    response: Array | None

    def log_r(self, change: Scalar) -> Vector:
        """Return log r, if P is 1 + `change` times what it was."""
        return -0.5 * jnp.log(jnp.maximum(1 + self.shares * change, LEAST_SHRINKAGE))

    def along(self, levels: Vector) -> Vector:
        """Return levels along the axes."""
        return self.root * levels if self.axes is None else (self.root * levels) @ self.axes

    def moved(self, dense: Vector, begin: int, step: int, log_r: Vector, back: bool = False) -> Vector:
        """Return what the dense part differs from its mean after the levels, those from `begin` on, every `step`-th,
        have moved, or, `back`, before."""
        r, mean = jnp.exp(log_r), self.along(self.mean)
        index = slice(begin, begin + step * self.mean.size, step)
        here = self.along(dense[index])
        y = (here + mean - r * r * mean) / r if back else here
        change = (r * r - 1) * mean + (r - 1) * y
        shift = (change if self.axes is None else self.axes @ change) / self.root
        shift = -shift if back else shift
        return dense.at[index].add(shift) if self.response is None else dense + self.response @ shift


class Stretch(NamedTuple):
    """How each entry of η depends on a coordinate x in which its information is about constant: with that of a scale,
    2J(1 − s)², s = 1/(1 + e^(2ω)/κ) its mean share of the prior, ω − ω̂ = g(x) is the inverse of

        φ(ω) = [½c log((κ + e^(2ω))/(κ + 1)) + bω]/(b + c/(1 + κ)),    c = √(2J),

    with b for the prior's own information. Where c is 0, as for correlations, g(x) = x."""

    c: Vector
    kappa: Vector
    b: Vector

    @property
    def _slope_at_zero(self) -> Vector:
        return self.b + self.c / (1 + self.kappa)

    def slope(self, shift: Vector) -> Vector:
        """Return φ′."""
        slope: Vector = (self.b + self.c / (1 + self.kappa * jnp.exp(-2 * shift))) / self._slope_at_zero
        return slope

    def coordinate(self, shift: Vector) -> Vector:
        """Return φ."""
        stretched = self.c / 2 * (jnp.logaddexp(jnp.log(self.kappa), 2 * shift) - jnp.log1p(self.kappa))
        coordinate: Vector = (stretched + self.b * shift) / self._slope_at_zero
        return coordinate

    def shift(self, x: Vector) -> Vector:
        """Return g(x), by Newton's method, whose last step carries the derivative."""
        lowest = x * self._slope_at_zero / self.b  # φ is convex, and its slope at −∞ is known
        start = jax.lax.stop_gradient(jnp.where(x > 0, x, lowest))

        def closer(_: Array, shift: Vector) -> Vector:
            return shift - (self.coordinate(shift) - jax.lax.stop_gradient(x)) / self.slope(shift)

        found = jax.lax.stop_gradient(jax.lax.fori_loop(0, STRETCH_STEPS, closer, start))
        last: Vector = found - (self.coordinate(found) - x) / jax.lax.stop_gradient(self.slope(found))
        return last


class GaussianArrays(NamedTuple):
    """N(m, LLᵀ) as arrays on the device; see the formulas above."""

    g: Vector
    eta: Vector
    levels: list[Array]
    eta_root: Matrix  # C_η⁻ᵀ
    stretch: Stretch
    dense_root: Matrix  # C₂⁻ᵀ
    block_root: Array  # C₁⁻ᵀ, (J, k, k)
    block_mean: Array  # C₁ᵀm, (J, k)
    block_weights: Array | None  # by how much the prior of a level is narrower, with Student's t, (J, k)
    across_globals: Array  # U for the globals, (J, k, p)
    across: dict[str, PairTerms]  # U for the levels of each slot, by its number
    rotations: list[Rotation]  # of each component of the levels of each dense unit


class Taylor(NamedTuple):
    """G and H of the log-likelihood at m, in the parameters."""

    g: Vector
    levels: list[Array]
    gg: Matrix
    gu: list[Array]
    uu: list[Array]
    uv: dict[str, PairTerms]


@partial(
    register_dataclass,
    data_fields=("gaussian", "taylor", "rows", "noise", "largest_curvature", "kept_entries"),
    meta_fields=("log_likelihood", "log_prior", "effects", "unravel", "layout", "findings", "population"),
)
@dataclass(frozen=True, repr=False, kw_only=True)
class Wide(Target):
    """What `isotherm.anchor` returns for a model with effects; it goes wherever a `Posterior` goes."""

    layout: Layout
    gaussian: GaussianArrays
    taylor: Taylor | None  # None: every step takes all rows
    rows: AliasTable | None
    noise: Vector | None  # the diagonal of S of batches of one row
    largest_curvature: Scalar  # at the mean, where all would be 1
    population: int  # rows
    kept_entries: Int[Array, " k"] | None = None  # of flat parameters, whose draws are recorded; all, if None
    findings: Findings = UNKNOWN

    curvature_is_identity = True
    rows_are_checked = True
    order = 2

    @property
    def takes_all_rows(self) -> bool:
        return self.taylor is None

    @property
    def stiffness(self) -> Scalar:
        return self.largest_curvature

    @property
    def kept(self) -> Int[Array, " k"] | None:
        return self.kept_entries

    def keeping(self, levels: int | str | None) -> "Wide":
        """Return it with draws recorded of all levels if `levels` is None, or "auto" and there are not too many; else
        of about as many of each effect, evenly spread."""
        if levels is None or (levels == "auto" and self.parameters <= ALL_KEPT):
            return self
        most = KEPT_LEVELS if levels == "auto" else int(levels)
        chosen, begin = [], 0
        counts = {group.name: group.count for group in self.layout.groups}
        for name, leaf in sorted(self.mode.items()):
            size = sum(np.size(part) for part in jax.tree.leaves(leaf))
            count = counts.get(name, 1)
            rows = np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(np.int64))
            width = size // count
            chosen.append(begin + (rows[:, None] * width + np.arange(width)).ravel())
            begin += size
        entries = np.concatenate(chosen)
        return self if len(entries) == begin else replace(self, kept_entries=jnp.asarray(entries, jnp.int32))

    @property
    def parameters(self) -> int:
        return self.layout.parameters

    @property
    def row_probabilities(self) -> AliasTable | None:
        return self.rows

    @property
    def chosen_batch_size(self) -> int:
        return self.population if self.takes_all_rows else int(self.findings.batch_size)

    def noise_diagonal(self, size: int) -> Vector | None:
        """Return the diagonal of S of batches of `size` rows."""
        if self.noise is None:
            return jnp.zeros(self.parameters, self.gaussian.g.dtype)
        return self.noise / size

    @property
    def mode(self) -> Params:
        """The mean of the Gaussian."""
        at = self.gaussian
        return self.layout.params(at.g, at.eta, at.levels)

    def typical_params(self, seed: int, chains: int) -> list[Params]:
        """Return draws from the Gaussian."""
        z = np.random.default_rng([seed, NOT_A_STEP]).standard_normal((chains, self.parameters))
        return [_params(self, jnp.asarray(each, self.gaussian.g.dtype)) for each in z]

    def parts(self, position: Vector) -> tuple[Vector, Vector, Array]:
        """Return z_η, z₂ and z₁."""
        q, n = self.layout.populations, self.layout.dense
        return position[:q], position[q : q + n], position[q + n :].reshape(self.layout.blocks)

    def values(self, position: Vector) -> tuple[Vector, Vector, list[Array], Scalar]:
        """Return globals, η, the levels of each unit, and Σ log r."""
        layout, at = self.layout, self.gaussian
        z_eta, z_dense, z_blocks = self.parts(position)
        moved = at.stretch.shift(at.eta_root @ z_eta)
        eta = at.eta + moved
        dense, log_size = at.dense_root @ z_dense, -jnp.sum(jnp.log(at.stretch.slope(moved)))
        changes = self._prior_changes(eta)
        for rotation, (begin, step, change) in zip(at.rotations, self._moves(changes), strict=True):
            log_r = rotation.log_r(change)
            dense = rotation.moved(dense, begin, step, log_r)
            log_size += jnp.sum(log_r)
        shift, shifts = self._dense_parts(dense)
        offset = int(layout.has_blocks)
        levels = [mean + each for mean, each in zip(at.levels[offset:], shifts, strict=True)]
        if offset:
            blocks, log_r = self._blocks(shift, shifts, z_blocks, changes[0][0])
            levels = [blocks, *levels]
            log_size += jnp.sum(log_r)
        return at.g + shift, eta, levels, log_size

    def _moves(self, changes: list[tuple[Matrix, Matrix]]) -> list[tuple[int, int, Scalar]]:
        """Return for each component of each dense unit where it begins in the dense part, every how manyth entry is its
        own, and the relative change of its prior's precision."""
        found, begin = [], self.layout.globals
        for unit, (_, relative) in zip(self.layout.dense_units, changes[int(self.layout.has_blocks) :], strict=True):
            found += [(begin + a, unit.size, relative[a, a]) for a in range(unit.size)]
            begin += unit.entries
        return found

    def _dense_parts(self, dense: Vector) -> tuple[Vector, list[Array]]:
        """Return the globals and the levels of each dense unit."""
        shifts, begin = [], self.layout.globals
        for unit in self.layout.dense_units:
            shifts.append(dense[begin : begin + unit.entries].reshape(unit.count, unit.size))
            begin += unit.entries
        return dense[: self.layout.globals], shifts

    def _prior_changes(self, eta: Vector) -> list[tuple[Matrix, Matrix]]:
        """Return for each unit P(η) − P(η̂), and the same relative to the diagonal of P(η̂)."""
        layout, found = self.layout, []
        now, then = layout.population_params(eta), layout.population_params(self.gaussian.eta)
        for unit in layout.units:
            before = [group.precision(then) for group in unit.groups]
            change = [group.precision(now) - old for group, old in zip(unit.groups, before, strict=True)]
            relative = [each / jnp.diagonal(old)[:, None] for each, old in zip(change, before, strict=True)]
            found.append(tuple(jax.scipy.linalg.block_diag(*parts).astype(eta.dtype) for parts in (change, relative)))
        return found

    def _across(self, shift: Vector, shifts: list[Array]) -> Array:
        """Return Uδ₂."""
        at, layout = self.gaussian, self.layout
        J, _ = layout.blocks
        total = jnp.einsum("jap,p->ja", at.across_globals, shift)
        for slot, pairs in at.across.items():
            number = layout.slots[int(slot)][0]
            terms = _applied(pairs.values, shifts[number - 1][pairs.second])
            total += jax.ops.segment_sum(terms, pairs.first, J, indices_are_sorted=True)
        return total

    def _blocks(self, shift: Vector, shifts: list[Array], z: Array, change: Matrix) -> tuple[Array, Array]:
        """Return the levels of the first unit, and log r."""
        root, weights = self.gaussian.block_root, self.gaussian.block_weights
        middle = self.gaussian.block_mean - _applied_transposed(root, self._across(shift, shifts))
        if 1 < root.shape[-1] <= EXACT_SIZE and weights is None:
            relative = jnp.einsum("jai,ab,jbl->jil", root, change, root)
            inner, log_r = solved_with(relative, middle, z)
            return _applied(root, inner), log_r
        if root.shape[-1] == 1:
            quadratic = root[:, :, 0] ** 2 * change[0, 0] * (1.0 if weights is None else weights)
        elif any(group.effect.correlated for group in self.layout.units[0].groups):
            quadratic = jnp.einsum("jai,ab,jbi->ji", root, change, root)
        else:
            weighted = jnp.diagonal(change) if weights is None else weights * jnp.diagonal(change)[None, :]
            quadratic = jnp.einsum("jai,a->ji" if weights is None else "jai,ja->ji", root**2, weighted)
        log_r = -0.5 * jnp.log(jnp.maximum(1 + quadratic, LEAST_SHRINKAGE))
        r = jnp.exp(log_r)
        return _applied(root, r * r * middle + r * z), log_r

    def params(self, position: Vector) -> Params:
        g, eta, levels, _ = self.values(position)
        return self.layout.params(g, eta, levels)

    def flat_parameters(self, position: Vector) -> Vector:
        return ravel_pytree(self.params(position))[0]

    def position(self, flat: np.ndarray) -> np.ndarray:
        return np.asarray(_position(self, jnp.asarray(flat, self.gaussian.g.dtype)))

    def estimated(self, position: Vector, example: Example) -> Scalar:
        """Return ℓ_i − T_i, or ℓ_i where every step takes all rows."""
        assert isinstance(self.log_likelihood, GroupedLikelihood)
        g, _, levels, _ = self.values(position)
        log_likelihood = partial(self.layout.of_row, self.log_likelihood)
        local = self._local(g, levels, example)
        if self.taylor is None:
            return log_likelihood(local, example)
        origin = self._local(self.gaussian.g, self.gaussian.levels, example)
        delta = local - origin

        def slope(at: Vector) -> tuple[Scalar, Scalar]:
            return jax.jvp(lambda at: log_likelihood(at, example), (at,), (delta,))

        (value, first), (_, second) = jax.jvp(slope, (origin,), (delta,))
        rest: Scalar = log_likelihood(local, example) - (value + first + second / 2)
        return rest

    def _local(self, g: Vector, levels: list[Array], example: Example) -> Vector:
        codes = self.layout.codes(example)
        return jnp.concatenate([g, *(levels[number][codes[s]] for s, (number, _) in enumerate(self.layout.slots))])

    def exact(self, position: Vector) -> Scalar:
        """Return log π(θ) + Σ log r + G·δ + ½ δᵀHδ."""
        g, eta, levels, log_size = self.values(position)
        value = self.log_prior(self.layout.params(g, eta, levels)) + log_size
        return value if self.taylor is None else value + self._taylor(self.taylor, g, levels)

    def _taylor(self, known: Taylor, g: Vector, levels: list[Array]) -> Scalar:
        at = self.gaussian
        dg, du = g - at.g, [a - b for a, b in zip(levels, at.levels, strict=True)]
        value = known.g @ dg + dg @ (known.gg @ dg) / 2
        for unit, slope, cross, curvature in zip(du, known.levels, known.gu, known.uu, strict=True):
            value += jnp.sum(unit * (slope + jnp.einsum("jpa,p->ja", cross, dg) + _applied(curvature, unit) / 2))
        for key, pairs in known.uv.items():
            s, t = (self.layout.slots[int(slot)][0] for slot in key.split(","))
            value += jnp.sum(du[s][pairs.first] * _applied(pairs.values, du[t][pairs.second]))
        return value

    def __repr__(self) -> str:
        rows = "all rows at every step" if self.takes_all_rows else f"batch_size {self.chosen_batch_size:,}"
        return (
            f"<anchored posterior with effects: {self.parameters:,} parameters, {self.population:,} rows; {rows}, "
            f"noise over curvature {float(self.findings.noise):.2g}, after {float(self.findings.passes):.1f} passes "
            "over the data>"
        )


def solved_with(relative: Array, middle: Array, z: Array) -> tuple[Array, Array]:
    """Return M⁻¹ times `middle` plus F⁻ᵀz, M = I + `relative` = FFᵀ, for many small M, and minus the logarithms of the
    diagonals of F; entry by entry, which is quicker than many small calls."""
    k = relative.shape[-1]
    F: list[list[Array]] = [[jnp.zeros_like(z[:, 0])] * k for _ in range(k)]
    for i in range(k):
        for j in range(i + 1):
            entry = relative[:, i, j] + float(i == j) - sum(F[i][a] * F[j][a] for a in range(j))
            F[i][j] = jnp.sqrt(jnp.maximum(entry, LEAST_SHRINKAGE)) if i == j else entry / F[j][j]
    half: list[Array] = []
    for i in range(k):
        half.append((middle[:, i] - sum(F[i][a] * half[a] for a in range(i))) / F[i][i])
    found: list[Array] = [jnp.zeros_like(z[:, 0])] * k
    for i in reversed(range(k)):
        known = sum(F[a][i] * found[a] for a in range(i + 1, k))
        found[i] = (half[i] + z[:, i] - known) / F[i][i]
    return jnp.stack(found, axis=1), jnp.stack([-jnp.log(F[i][i]) for i in range(k)], axis=1)


def _applied(matrices: Array, vectors: Array) -> Array:
    """Return each of (n, a, b) matrices times each of (n, b) vectors."""
    if matrices.shape[1:] == (1, 1):
        return matrices[:, :, 0] * vectors
    return jnp.einsum("jab,jb->ja", matrices, vectors)


def _applied_transposed(matrices: Array, vectors: Array) -> Array:
    return _applied(jnp.swapaxes(matrices, 1, 2), vectors)


@jax.jit
def _params(target: Wide, position: Vector) -> Params:
    return target.params(position)


@jax.jit
def _position(target: Wide, flat: Vector) -> Vector:
    """Return the z of flat parameters: `Wide.values` backwards."""
    layout, at = target.layout, target.gaussian
    g, eta, levels = layout.split(target.unravel(flat))
    offset, changes = int(layout.has_blocks), target._prior_changes(eta)
    shifts = [each - mean for each, mean in zip(levels[offset:], at.levels[offset:], strict=True)]
    dense = jnp.concatenate([g - at.g, *(each.ravel() for each in shifts)])
    for rotation, (begin, step, change) in list(zip(at.rotations, target._moves(changes), strict=True))[::-1]:
        dense = rotation.moved(dense, begin, step, rotation.log_r(change), back=True)
    solve = partial(jax.scipy.linalg.solve_triangular, lower=False)
    z = [solve(at.eta_root, at.stretch.coordinate(eta - at.eta)), solve(at.dense_root, dense)]
    if offset:
        # u is linear in z₁: what it is at 0 and along each axis tells which z₁ it comes from.
        def at_block(z: Array) -> Array:
            return target._blocks(g - at.g, shifts, z, changes[0][0])[0]

        J, k = layout.blocks
        middle = at_block(jnp.zeros((J, k), flat.dtype))
        axes = [at_block(jnp.broadcast_to(axis, (J, k))) - middle for axis in jnp.eye(k, dtype=flat.dtype)]
        z.append(jnp.linalg.solve(jnp.stack(axes, axis=2), (levels[0] - middle)[..., None]).ravel())
    return jnp.concatenate(z)


def make_gaussian(found: FoundGaussian, layout: Layout, dtype: np.dtype) -> GaussianArrays:
    """Return the arrays of the coordinates."""
    put = partial(jnp.asarray, dtype=dtype)
    precision, mean = found.precision, found.mean
    q = layout.populations
    dense_root = inverse_root(precision.factor)
    eta_factor = np.linalg.cholesky(found.information + 1e-9 * np.eye(q)) if q else np.zeros((0, 0))
    offset = int(layout.has_blocks)
    rotations = [
        make_rotation(precision, begin + a, unit.size, levels[:, a], prior[:, a], put)
        for unit, begin, levels, prior in dense_levels(precision, mean, layout)
        for a in range(unit.size)
    ]
    root = precision.root
    block_mean = np.linalg.solve(root, mean.levels[0][..., None])[..., 0] if offset else np.zeros((0, 1))
    across = {}
    for (s, t), pairs in precision.sums.pairs.items():
        if offset and layout.slots[s][0] == 0:
            order = np.argsort(pairs.first, kind="stable")
            values = put(-precision.sums.uv[s, t][order])
            across[str(t)] = PairTerms(jnp.asarray(pairs.first[order]), jnp.asarray(pairs.second[order]), values)
    return GaussianArrays(
        put(mean.g),
        put(mean.eta),
        [put(levels) for levels in mean.levels],
        put(inverse_root(eta_factor)),
        Stretch(*(put(each) for each in found.stretch)),
        put(dense_root),
        put(root),
        put(block_mean),
        put(precision.weights[0]) if offset and precision.weights[0] is not None else None,
        put(precision.Ug),
        across,
        rotations,
    )


def dense_levels(
    precision: Precision, mean: Point, layout: Layout
) -> Iterator[tuple[Unit, int, np.ndarray, np.ndarray]]:
    """Yield each dense unit, where it begins, the means of its levels and the diagonals of their prior's precision."""
    for number, begin in precision.starts().items():
        unit, prior = layout.units[number], precision.prior_diagonals[number]
        yield unit, begin, mean.levels[number], np.broadcast_to(prior, (unit.count, unit.size))


def make_rotation(
    precision: Precision, begin: int, step: int, mean: np.ndarray, prior: np.ndarray, put: Callable[..., Array]
) -> Rotation:
    """Return the rotation of one component of the levels of a dense unit."""
    index = np.arange(begin, begin + step * len(mean), step)
    root = np.sqrt(prior)
    if len(mean) > ROTATED_LEVELS:
        shares = np.clip(precision.dense_variances[index] * prior, 0, 1)
        return Rotation(put(mean), put(root), put(shares), None, None)
    unit_vectors = np.zeros((precision.n, len(mean)))
    unit_vectors[index, np.arange(len(mean))] = 1
    columns = scipy.linalg.cho_solve((precision.factor, True), unit_vectors)
    V = (columns[index] + columns[index].T) / 2
    shares, axes = np.linalg.eigh(root[:, None] * V * root)
    response = np.linalg.solve(V, columns.T).T
    return Rotation(put(mean), put(root), put(np.clip(shares, 0, 1)), put(axes), put(response))


def inverse_root(factor: np.ndarray) -> np.ndarray:
    """Return C⁻ᵀ of a lower C."""
    if not factor.size:
        return factor
    found: np.ndarray = scipy.linalg.solve_triangular(factor, np.eye(len(factor)), lower=True).T
    return found


def make_taylor(sums: Sums, dtype: np.dtype) -> Taylor:
    """Return G and H as arrays on the device."""
    put = partial(jnp.asarray, dtype=dtype)
    uv = {
        f"{s},{t}": PairTerms(jnp.asarray(pairs.first), jnp.asarray(pairs.second), put(sums.uv[s, t]))
        for (s, t), pairs in sums.pairs.items()
    }
    return Taylor(
        put(sums.gradient.g),
        [put(each) for each in sums.gradient.levels],
        put(sums.gg),
        [put(each) for each in sums.gu],
        [put(each) for each in sums.uu],
        uv,
    )
