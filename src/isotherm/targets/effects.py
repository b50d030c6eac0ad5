"""Effects: from names of columns to levels, and the density of a model that has them.

An effect is N(0, Σ(η)) at each level, Σ = DRRᵀD, where D has the scales τ = exp(log_sd) and R is the Cholesky factor of
a correlation matrix, of partial correlations tanh(corr). The parameters of the model are then a dict of the user's own,
`log_sd_NAME` and `corr_NAME` where they are learned, and `NAME`, a row for each level. Each row of the data has the
numbers of its levels.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln

from isotherm.data import processes
from isotherm.data.on_disk.column import Column
from isotherm.lib.types import Array, Batch, Example, Float, Params, Results, Scalar, Vector
from isotherm.posterior import UNCONSTRAINED, Effect, Effects, Posterior
from isotherm.targets import checks
from isotherm.targets.target import Target

if TYPE_CHECKING:
    import xarray

LOG_SD, CORR, SD, CORRELATION = "log_sd_", "corr_", "sd_", "correlation_"
LEVEL = "_level"  # after an effect's name: the dimension of its levels
Columns = dict[str, np.ndarray | Column]  # of the data, by name
ROWS, LEVELS = "rows", "levels"  # the data's own columns, and the numbers of the levels
EFFECTS = "effects"  # the attribute of results that says what effects there are


@dataclass(frozen=True, eq=False)
class LevelNames:
    """What the levels of a column are called; two are the same if all labels are."""

    values: np.ndarray

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LevelNames) and np.array_equal(self.values, other.values)

    def __hash__(self) -> int:
        return hash(len(self.values))


@dataclass(frozen=True)
class Group:
    """An effect and the levels that its column has in the data."""

    name: str
    effect: Effect
    labels: LevelNames

    @property
    def count(self) -> int:
        return len(self.labels.values)

    @property
    def size(self) -> int:
        return self.effect.size or 1

    @property
    def places(self) -> int:
        """How often a row has this effect."""
        return len(self.effect.columns)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one level."""
        return () if self.effect.size is None else (self.effect.size,)

    @property
    def learned(self) -> dict[str, int]:
        """The parameters of the population that are learned, by name, and their sizes."""
        k = self.size
        sizes = {LOG_SD + self.name: k} if self.effect.scale is None else {}
        return sizes | ({CORR + self.name: k * (k - 1) // 2} if self.effect.correlated else {})

    def scales(self, params: Params) -> Vector:
        """Return τ of each component."""
        if self.effect.scale is not None:
            return jnp.full(self.size, self.effect.scale)
        return jnp.exp(jnp.reshape(params[LOG_SD + self.name], -1))

    def root(self, params: Params) -> Float[Array, "k k"]:
        """Return the Cholesky factor DR of Σ."""
        sd = self.scales(params)
        if not self.effect.correlated:
            return jnp.diag(sd)
        root: Array = sd[:, None] * correlation_root(params[CORR + self.name], self.size)
        return root

    def precision(self, params: Params) -> Float[Array, "k k"]:
        """Return Σ⁻¹."""
        inverse = jax.scipy.linalg.solve_triangular(self.root(params), jnp.eye(self.size), lower=True)
        return inverse.T @ inverse

    def log_density(self, params: Params) -> Scalar:
        """Return the log density of all levels."""
        root, levels = self.root(params), jnp.reshape(params[self.name], (self.count, self.size))
        log_size = self.count * jnp.sum(jnp.log(jnp.diagonal(root)))
        if self.effect.df is not None:
            nu = self.effect.df
            constant = gammaln((nu + 1) / 2) - gammaln(nu / 2) - 0.5 * np.log(nu * np.pi)
            standard = levels / jnp.diagonal(root)[None, :]
            return jnp.sum(constant - (nu + 1) / 2 * jnp.log1p(standard**2 / nu)) - log_size
        if self.effect.correlated:
            standard = levels @ jax.scipy.linalg.solve_triangular(root, jnp.eye(self.size), lower=True).T
        else:
            standard = levels / jnp.diagonal(root)[None, :]
        constant = 0.5 * np.log(2 * np.pi) * self.count * self.size
        value: Scalar = -0.5 * jnp.sum(standard**2) - log_size - constant
        return value

    def log_hyperprior(self, params: Params) -> Scalar:
        """Return the log density of what is learned of the population, on the scale it is sampled on."""
        value: Scalar = jnp.zeros(())
        if self.effect.scale is None:
            sd, prior = jnp.reshape(self.scales(params), self.shape), self.effect.scale_prior
            if callable(prior):
                value += jnp.sum(prior(sd))
            elif prior is not None:
                value += jnp.sum(-0.5 * (sd / prior) ** 2 + 0.5 * np.log(2 / np.pi) - np.log(prior))
            value += jnp.sum(params[LOG_SD + self.name])
        if self.effect.correlated:
            value += log_lkj(params[CORR + self.name], self.size)
        return value


def correlation_root(free: Vector, size: int) -> Float[Array, "k k"]:
    """Return the Cholesky factor of the correlation matrix with these partial correlations, atanh of each."""
    partial = jnp.tanh(free)
    rows, place = [[jnp.ones(())]], 0
    for i in range(1, size):
        row, left = [], jnp.ones(())
        for _ in range(i):
            row.append(partial[place] * jnp.sqrt(left))
            left = left * (1 - partial[place] ** 2)
            place += 1
        rows.append([*row, jnp.sqrt(left)])
    padded = [jnp.stack([*row, *[jnp.zeros(())] * (size - len(row))]) for row in rows]
    return jnp.stack(padded)


def log_lkj(free: Vector, size: int) -> Scalar:
    """Return the log density of LKJ(1), up to a constant: a partial correlation given j others has a beta distribution
    on (−1, 1) with both parameters (size − j)/2."""
    orders = jnp.array([j for i in range(1, size) for j in range(i)], jnp.result_type(free))
    log_rest = jnp.log(4.0) + 2 * (free - jnp.logaddexp(2 * free, 0.0))  # log(1 − tanh²)
    return jnp.sum((size - orders) / 2 * log_rest)  # 1 of it is the Jacobian of tanh


@dataclass(frozen=True)
class GroupedLikelihood:
    """The log-likelihood of a row, of the parameters of all levels or of the row's own."""

    of_row: Callable[[Params, Example], Scalar]
    groups: tuple[Group, ...]

    def __call__(self, params: Params, example: Example) -> Scalar:
        own = {group.name: params[group.name][example[LEVELS][group.name]] for group in self.groups}
        return self.of_own(params, own, example)

    def of_own(self, params: Params, own: dict[str, Array], example: Example) -> Scalar:
        """Return it of the globals and the row's own levels."""
        hidden = {name for group in self.groups for name in group.learned}
        return self.of_row({name: value for name, value in params.items() if name not in hidden} | own, example[ROWS])


@dataclass(frozen=True)
class GroupedPrior:
    """The log-prior of all parameters."""

    of_globals: Callable[[Params], Scalar]
    groups: tuple[Group, ...]

    def __call__(self, params: Params) -> Scalar:
        value = self.without_levels(params)
        for group in self.groups:
            value += group.log_density(params)
        return value

    def without_levels(self, params: Params) -> Scalar:
        """Return that of everything but the levels."""
        hidden = {name for group in self.groups for name in (group.name, *group.learned)}
        visible = {name: value for name, value in params.items() if name not in hidden}
        for group in self.groups:
            if group.effect.scale is None:
                visible[SD + group.name] = jnp.reshape(group.scales(params), group.shape)
        value = self.of_globals(visible)
        for group in self.groups:
            value += group.log_hyperprior(params)
        return value


def groups_of(target: Posterior) -> tuple[Group, ...]:
    """Return the effects of a target and their levels; none if it has no effects."""
    likelihood = target.log_likelihood
    return likelihood.groups if isinstance(likelihood, GroupedLikelihood) else ()


def bind(posterior: Posterior, data: Batch, init: Params | None) -> tuple[Target, Batch, Params | None]:
    """Return the target of a posterior with effects, the data with the numbers of each row's levels, and where to
    start: the levels at 0 unless they are given."""
    found, columns = numbered_levels(posterior.effects, data)  # type: ignore[arg-type]
    target = Target(GroupedLikelihood(posterior.log_likelihood, found), GroupedPrior(posterior.log_prior, found))
    return target, columns, None if init is None else with_levels(init, found)


def numbered_levels(effects: Effects, data: Batch) -> tuple[tuple[Group, ...], Batch]:
    """Return the effects with the levels that they have in the data, and the data with the numbers of each row's."""
    if processes.several():
        raise ValueError("effects must not be given with several processes, which do not know each other's levels")
    columns = as_columns(data)
    codes, groups = {}, list[Group]()
    for name, effect in effects:
        labels, codes[name] = levels_of(name, effect, columns)
        groups.append(Group(name, effect, LevelNames(labels)))
    rows = {name: column for name, column in columns.items() if is_numeric(column)}  # no model can use others
    checks.checked_data(rows | {name: each for name, each in codes.items() if name not in rows})  # by the user's names
    return tuple(groups), {ROWS: rows, LEVELS: codes}


def bind_again(target: Target, data: Batch, init: Params | None) -> tuple[Batch, Params | None]:
    """Return the data and the start of a target with effects, which may have gone through `bind` before."""
    groups = groups_of(target)
    if not isinstance(data, dict) or data.keys() != {ROWS, LEVELS}:
        found, data = numbered_levels(tuple((group.name, group.effect) for group in groups), data)
        if other := next((a.name for a, b in zip(groups, found, strict=True) if a.labels != b.labels), None):
            raise ValueError(f"data has other levels of {other} than the posterior was anchored with; anchor it again")
    return data, None if init is None else with_levels(init, groups)


def with_levels(init: Params, groups: tuple[Group, ...]) -> Params:
    """Return the user's start with the levels and their scales, where they are not in it."""
    if callable(init):
        return lambda key: with_levels(init(key), groups)
    if not isinstance(init, dict):
        raise TypeError(f"init must be a dict, to which effects are added by name, got {type(init).__name__}")
    dtype = jnp.result_type(*jax.tree.leaves(init)) if jax.tree.leaves(init) else jnp.result_type(float)
    added: dict[str, np.ndarray] = {}
    for group in groups:
        if group.effect.scale is None:
            added[LOG_SD + group.name] = np.zeros(group.shape, dtype)
        if group.effect.correlated:
            added[CORR + group.name] = np.zeros(group.learned[CORR + group.name], dtype)
        added[group.name] = np.zeros((group.count, *group.shape), dtype)
        if SD + group.name in init:
            added[LOG_SD + group.name] = np.log(np.asarray(init[SD + group.name], dtype))
    kept = {name: value for name, value in init.items() if name.removeprefix(SD) not in {g.name for g in groups}}
    return added | kept | {name: init[name] for name in init if name in added}


def as_columns(data: Batch) -> Columns:
    """Return the columns of a table or a dict, those of labels as they are."""
    if checks.is_table(data):
        names = getattr(data, "column_names", None)
        return {str(name): np.asarray(data[name]) for name in (data.columns if names is None else names)}
    if not isinstance(data, dict):
        raise TypeError(
            f"data must be a table or a dict of columns, so that effects find theirs, got {type(data).__name__}"
        )
    return {name: np.asarray(column) if is_list(column) else column for name, column in data.items()}


def is_list(column: object) -> bool:
    """Return whether a column is a list, or one of a library whose dtypes are its own."""
    return not isinstance(column, np.ndarray | jax.Array | Column | dict | np.generic)


def is_numeric(column: object) -> bool:
    dtype = getattr(column, "dtype", None)
    return dtype is None or np.dtype(dtype).kind in "biuf" or dtype == jnp.bfloat16


def parts_of(column: str, columns: Columns) -> list[str]:
    """Return the columns that a name stands for: itself, or those of "school:class"."""
    return [column] if column in columns else column.split(":")


def levels_of(name: str, effect: Effect, columns: Columns) -> tuple[np.ndarray, np.ndarray]:
    """Return the labels of an effect's levels, in order, and the number of each row's level."""
    each = [labels_of(name, column, columns) for column in effect.columns]
    if len(each) == 1:
        return each[0]
    labels, inverse = np.unique(np.concatenate([labels for labels, _ in each]), return_inverse=True)
    starts = np.cumsum([0, *(len(labels) for labels, _ in each[:-1])])
    codes = [inverse[start + codes].astype(np.int32) for start, (_, codes) in zip(starts, each, strict=True)]
    return labels, np.stack(codes, axis=1)


def labels_of(name: str, column: str, columns: Columns) -> tuple[np.ndarray, np.ndarray]:
    """Return the labels of a column, in order, and the number of each row's."""
    parts = []
    for part in parts_of(column, columns):
        if part not in columns:
            raise ValueError(f"effect {name!r}: data has no column {part!r}; it has {', '.join(map(repr, columns))}")
        parts.append(distinct(name, part, np.asarray(columns[part])))
    labels, codes = parts[0]
    for more, inner in parts[1:]:
        pairs, codes = np.unique(codes.astype(np.int64) * len(more) + inner, return_inverse=True)
        labels = np.array([f"{labels[pair // len(more)]}:{more[pair % len(more)]}" for pair in pairs])
    return labels, codes.astype(np.int32)


def distinct(name: str, column: str, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return what a column holds, in order and each once, and the place of each row's."""
    if values.ndim != 1:
        raise ValueError(f"effect {name!r}: column {column!r} must have one label a row, got shape {values.shape}")
    if not len(values):
        raise ValueError("data must hold at least one row, got none")
    missing = np.zeros(len(values), bool)
    if values.dtype.kind == "f":
        missing = np.isnan(values)
    elif values.dtype.kind in "mM":
        missing = np.isnat(values)
    elif values.dtype.kind == "O":
        missing = np.array([value is None or value != value for value in values])
        values = values if missing.any() else values.astype(str)
    if missing.any():
        raise ValueError(
            f"effect {name!r}: column {column!r} has no label in row {int(np.argmax(missing))} and {missing.sum() - 1} "
            "others; drop such rows, or give them a label of their own"
        )
    if values.dtype.kind in "iu":
        low, high = int(values.min()), int(values.max())
        if high - low < 4 * len(values) + 1000:  # counting is quicker than sorting
            seen = np.zeros(high - low + 1, bool)
            seen[values - low] = True
            place = np.cumsum(seen, dtype=np.int64) - 1
            return np.flatnonzero(seen) + low, place[values - low]
    labels, codes = np.unique(values, return_inverse=True)
    return labels, codes


def user_results(groups: tuple[Group, ...], tree: Results) -> Results:
    """Return the results with levels by their labels, scales as `sd_NAME` and correlation matrices; what was sampled
    is in `unconstrained_posterior`."""
    import xarray

    described = {
        group.name: {"by": group.effect.columns, "scale": group.effect.scale, "df": group.effect.df} for group in groups
    }
    tree.attrs[EFFECTS] = json.dumps(described)
    if UNCONSTRAINED in tree.children or "posterior" not in tree.children:
        return tree
    result: Results = tree.copy()
    result[UNCONSTRAINED] = tree["posterior"].copy()
    for name in ("posterior", "posterior_mean", "posterior_variance"):
        if name in tree.children:
            result[name] = xarray.DataTree(with_labels(groups, tree[name].to_dataset(), name == "posterior"))
    return result


def with_labels(groups: tuple[Group, ...], sampled: "xarray.Dataset", are_draws: bool) -> "xarray.Dataset":
    """Return levels by their labels; of draws, the scales and correlations in place of what was sampled."""
    import xarray

    moved = sampled.drop_vars([name for name in sampled.coords if name not in ("chain", "draw")])
    arrays = {str(name): moved[name] for name in moved.data_vars}
    for group in groups:
        level, component = group.name + LEVEL, f"{group.name}_component"
        dims = (level, *((component,) if group.shape else ()))
        kept = sampled.coords[f"{group.name}_dim_0"].values
        levels = _with_dims(arrays[group.name], dims)
        arrays[group.name] = levels.assign_coords({level: group.labels.values[kept]})
        if are_draws and LOG_SD + group.name in arrays:
            log_sd = _with_dims(arrays.pop(LOG_SD + group.name), dims[1:])
            arrays[SD + group.name] = log_sd.copy(data=np.exp(log_sd.values))
        if are_draws and CORR + group.name in arrays:
            free = arrays.pop(CORR + group.name)
            roots = jax.vmap(jax.vmap(lambda one, k=group.size: correlation_root(one, k)))(jnp.asarray(free.values))
            matrix, two = np.asarray(roots @ jnp.swapaxes(roots, -1, -2)), (component, component + "_2")
            arrays[CORRELATION + group.name] = xarray.DataArray(matrix, dims=(*free.dims[:2], *two))
    return xarray.Dataset(arrays, attrs=sampled.attrs)


def _with_dims(array: "xarray.DataArray", dims: tuple[str, ...]) -> "xarray.DataArray":
    """Return an array whose last dimensions have these names."""
    return array.rename(dict(zip(array.dims[array.ndim - len(dims) :], dims, strict=True)))
