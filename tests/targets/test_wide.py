"""The anchored posterior of a model with effects is the same posterior, in other coordinates."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from isotherm.lib.progress import Passes
from isotherm.targets.arrow import Point
from isotherm.targets.gaussian import GaussianSearch, LevelRows, make_layout
from isotherm.targets.parameters import flattening
from isotherm.targets.user import with_defaults
from isotherm.targets.wide import Wide, make_gaussian, make_taylor
from isotherm.targets.wide_anchor import as_point

from .effect_models import INIT, MODELS, rows

SHAPES = ["blocks", "dense"]


class Case:
    """A model, its Gaussian, and the two anchored posteriors: with all rows at every step, and with Taylor terms."""

    def __init__(self, name, shape):
        self.target, self.data, init = with_defaults(MODELS[name], rows(), INIT)
        self.layout = make_layout(self.target, init, all_dense=0 if shape == "blocks" else 10_000)
        with Passes(240, False) as passes:
            every = LevelRows(self.target, self.layout, self.data, passes)
            search = GaussianSearch(every, np.random.default_rng(0))
            self.found = search.run(as_point(self.layout, init))
            self.sums = every.sums(self.found.mean, self.found.sums.pairs)
        dtype, unravel = flattening(init)
        self.target = dataclasses.replace(self.target, unravel=unravel)
        self.all_rows = Wide(
            **vars(self.target),
            layout=self.layout,
            gaussian=make_gaussian(self.found, self.layout, dtype),
            taylor=None,
            rows=None,
            noise=None,
            largest_curvature=jnp.ones((), dtype),
            population=240,
        )
        self.batched = dataclasses.replace(self.all_rows, taylor=make_taylor(self.sums, dtype))


CASES = [("crossed", "blocks"), ("twice", "dense")]
SLOW = [(name, shape) for name in MODELS for shape in SHAPES if (name, shape) not in [*CASES, ("twice", "blocks")]]


@pytest.fixture(
    scope="module",
    params=[*CASES, *(pytest.param(each, marks=pytest.mark.slow) for each in SLOW if each != ("correlated", "dense"))],
    ids="-".join,
)
def case(request):
    name, shape = request.param
    with jax.enable_x64(True):
        yield Case(name, shape)


def total(target, z, data):
    each = jax.vmap(target.estimated, (None, 0))(z, data)
    return target.exact(z) + each.sum()


def plain_density(target, flat, data):
    params = target.unravel(flat)
    return target.log_prior(params) + jax.vmap(target.log_likelihood, (None, 0))(params, data).sum()


@pytest.mark.parametrize("kind", ["all_rows", "batched"])
def test_it_is_the_same_posterior(case, kind):
    """Up to a constant the density in z is the plain one times |dθ/dz|. 1e-10: of sums of some hundred, float64."""
    target = getattr(case, kind)
    differences = []
    with jax.enable_x64(True):
        for z in 1.5 * np.random.default_rng(2).standard_normal((3, target.parameters)):
            size = np.linalg.slogdet(np.asarray(jax.jacfwd(target.flat_parameters)(jnp.asarray(z))))[1]
            flat = target.flat_parameters(jnp.asarray(z))
            plain = float(plain_density(case.target, flat, case.data)) + size
            differences.append(float(total(target, jnp.asarray(z), case.data)) - plain)
    assert np.ptp(differences) < 1e-9 * max(1, abs(plain))


def test_positions_are_those_of_parameters(case):
    with jax.enable_x64(True):
        for z in np.random.default_rng(3).standard_normal((2, case.all_rows.parameters)):
            flat = np.asarray(case.all_rows.flat_parameters(jnp.asarray(z)))
            np.testing.assert_allclose(case.all_rows.position(flat), z, atol=1e-8)


def dense_precision(case):
    """Λ of globals and levels by second derivatives of the plain density, at the scales of the Gaussian."""
    at = case.found.mean
    eta = jnp.asarray(at.eta)

    def parts(flat):
        levels, begin = [], case.layout.globals
        for unit in case.layout.units:
            levels.append(flat[begin : begin + unit.entries].reshape(unit.count, unit.size))
            begin += unit.entries
        return case.layout.params(flat[: case.layout.globals], eta, levels)

    def density(flat):
        return plain_density(case.target, ravel_pytree(parts(flat))[0], case.data)

    flat = jnp.concatenate([jnp.asarray(at.g), *(jnp.asarray(levels).ravel() for levels in at.levels)])
    return -np.asarray(jax.hessian(density)(flat))


def flat_of(point):
    return np.concatenate([point.g, *(levels.ravel() for levels in point.levels)])


def point_of(case, flat):
    levels, begin = [], case.layout.globals
    for unit in case.layout.units:
        levels.append(flat[begin : begin + unit.entries].reshape(unit.count, unit.size))
        begin += unit.entries
    return Point(flat[: case.layout.globals], np.zeros(case.layout.populations), levels)


def test_the_factor_is_that_of_the_precision(case):
    """L Lᵀ Λ = I, and solves are those of Λ; not with Student's t, whose precision is that of its weights."""
    if any(group.effect.df for group in case.layout.groups):
        pytest.skip("Λ has the weights of Student's t, not its second derivative")
    with jax.enable_x64(True):
        K = dense_precision(case)
        with Passes(240, False) as passes:
            precision = GaussianSearch(
                LevelRows(case.target, case.layout, case.data, passes), np.random.default_rng(0)
            ).precision(case.sums, case.found.mean)
    if np.linalg.eigvalsh(K)[0] < 0.1:
        pytest.skip("Λ is not positive: it was raised")
    J, k = case.layout.blocks
    columns = []
    for unit in np.eye(len(K)):
        split = J * k
        columns.append(flat_of(precision.shift(unit[:split].reshape(J, k), unit[split:])))
    L = np.array(columns).T
    np.testing.assert_allclose(L @ L.T @ K, np.eye(len(K)), atol=1e-7)
    b = np.random.default_rng(5).standard_normal(len(K))
    np.testing.assert_allclose(flat_of(precision.solve(point_of(case, b))), np.linalg.solve(K, b), atol=1e-7)


@pytest.mark.slow
def test_the_gaussian_is_the_posteriors(case):
    """The curvature in z is about 1 in all directions: the search has found the posterior's own shape. Bounds: by how
    much a posterior of 240 rows is not a Gaussian."""
    with jax.enable_x64(True):
        z = jnp.zeros(case.all_rows.parameters)
        K = -np.asarray(jax.hessian(lambda z: total(case.all_rows, z, case.data))(z))
    values = np.linalg.eigvalsh((K + K.T) / 2)
    assert values[0] > 0.2
    assert values[-1] < 3


@pytest.mark.slow
def test_shapes_agree():
    """With blocks or all dense, the search ends at the same Gaussian, but for its random averages."""
    with jax.enable_x64(True):
        blocks, dense = (Case("crossed", shape).found for shape in SHAPES)
    sd = 1 / np.sqrt(np.diagonal(dense.information))
    assert np.abs((blocks.mean.eta - dense.mean.eta) / sd).max() < 0.5
