"""The log density of a table's model: effects by index are the same as a matrix of zeros and ones."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from isotherm.models import families
from isotherm.tables.model import INTERCEPT_SCALE, TableModel

RNG = np.random.default_rng(1)
N, P, SIZES = 30, 3, (4, 2)
NUMBERS = RNG.standard_normal((N, P)).astype(np.float32)
LEVELS = np.stack([RNG.integers(-1, size, N) for size in SIZES], axis=1)  # −1: missing
CODES = np.where(LEVELS < 0, -1, LEVELS + np.array([0, SIZES[0]])).astype(np.int32)
ONE_HOT = np.stack([(level == CODES).any(axis=1) for level in range(sum(SIZES))], axis=1).astype(np.float64)


def drawn(model):
    return {name: RNG.standard_normal(shape).astype(np.float32) for name, shape in model.shapes.items()}


def total(model, params, y):
    batch = {"numbers": NUMBERS, "codes": CODES, "y": y}
    return jax.vmap(model.log_likelihood, (None, 0))(jax.tree.map(jnp.asarray, params), batch)


def test_linear():
    model = TableModel(families.Gaussian(), P, 2, sum(SIZES), (0.0,))
    params, y = drawn(model), RNG.standard_normal(N).astype(np.float32)
    mean = params["intercept"] + NUMBERS @ params["slopes"] + ONE_HOT @ params["effects"]
    expected = stats.norm.logpdf(y, mean, np.exp(params["log_sigma"]))
    np.testing.assert_allclose(total(model, params, y), expected, rtol=1e-4, atol=1e-4)  # float32


def test_softmax():
    model = TableModel(families.Categorical(3), P, 2, sum(SIZES), (0.0, 0.1, -0.1))
    params, y = drawn(model), RNG.integers(0, 3, N).astype(np.int32)
    logits = params["intercept"] + NUMBERS @ params["slopes"].T + ONE_HOT @ params["effects"]
    expected = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    np.testing.assert_allclose(total(model, params, y), expected[np.arange(N), y], rtol=1e-4, atol=1e-4)


def test_network():
    model = TableModel(families.Bernoulli(), P, 2, sum(SIZES), (0.5,), hidden=5)
    params, y = drawn(model), RNG.integers(0, 2, N).astype(np.float32)
    inner = np.tanh(params["intercept"] + NUMBERS @ params["slopes"].T + ONE_HOT @ params["effects"])
    eta = params["bias"] + inner @ params["out"]
    expected = -np.log1p(np.exp(-(2 * y - 1) * eta))
    np.testing.assert_allclose(total(model, params, y), expected, rtol=1e-4, atol=1e-4)


def test_boltzmann_machine_sums_over_hidden_units():
    hidden, classes = 3, 2
    model = TableModel(families.Categorical(classes), P, 2, sum(SIZES), (0.1, -0.1), hidden=hidden, machine=True)
    params, y = drawn(model), RNG.integers(0, classes, N).astype(np.int32)
    inner = params["intercept"] + NUMBERS @ params["slopes"].T + ONE_HOT @ params["effects"]
    weights = np.zeros((N, classes))
    for bits in range(2**hidden):
        h = np.array([bits >> j & 1 for j in range(hidden)])
        weights += np.exp(params["bias"] + ((inner[:, None] + params["out"]) * h).sum(axis=2))
    expected = np.log(weights / weights.sum(axis=1, keepdims=True))
    np.testing.assert_allclose(total(model, params, y), expected[np.arange(N), y], rtol=1e-4, atol=1e-4)


def test_prior():
    model = TableModel(families.Bernoulli(), P, 2, sum(SIZES), (0.5,), prior_scale=2.0)
    params = drawn(model)
    expected = stats.norm.logpdf(params["intercept"], 0.5, INTERCEPT_SCALE).sum()
    expected += sum(stats.norm.logpdf(params[name], 0, 2.0).sum() for name in ("slopes", "effects"))
    at_base = stats.norm.logpdf(0, 0, INTERCEPT_SCALE) + (P + sum(SIZES)) * stats.norm.logpdf(0, 0, 2.0)
    start = model.init()
    found = model.log_prior(jax.tree.map(jnp.asarray, params)) - model.log_prior(jax.tree.map(jnp.asarray, start))
    np.testing.assert_allclose(found, expected - at_base, rtol=1e-5)


def test_prior_of_what_classes_have_in_common():
    """N(0, 1), which no probability depends on."""
    model = TableModel(families.Categorical(3), P, 2, sum(SIZES), (0.3, 0.1, -0.4), prior_scale=2.0)
    params = jax.tree.map(jnp.asarray, drawn(model))
    common = np.full((3, 3), 1 / 3)
    expected = 0.0
    for name, scale in (("intercept", INTERCEPT_SCALE), ("slopes", 2.0), ("effects", 2.0)):
        values = params[name] - (jnp.asarray(model.base) if name == "intercept" else 0)
        law = stats.multivariate_normal(cov=scale**2 * (np.eye(3) - common) + common)
        by_class = values if name == "effects" else values.T
        expected += law.logpdf(by_class).sum() - law.logpdf(np.zeros_like(by_class)).sum()
    start = model.init()
    found = model.log_prior(params) - model.log_prior(jax.tree.map(jnp.asarray, start))
    np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.parametrize("machine", [False, True])
def test_a_network_does_not_start_where_all_units_are_equal(machine):
    model = TableModel(families.Categorical(3), P, 2, 6, (0.0, 0.0, 0.0), hidden=4, machine=machine)
    start = model.init(1)
    assert {name: value.shape for name, value in start.items()} == model.shapes
    assert np.ptp(start["slopes"][:, 0]) > 0
    assert not np.array_equal(start["out"], model.init(2)["out"])


def test_models_of_numbers_or_of_levels_alone():
    numbers = TableModel(families.Bernoulli(), P, 0, 0, (0.0,))
    levels = TableModel(families.Bernoulli(), 0, 2, 6, (0.0,))
    for model, row in ((numbers, {"numbers": NUMBERS[0]}), (levels, {"codes": CODES[0]})):
        assert model.mean(jax.tree.map(jnp.asarray, model.init()), row) == pytest.approx(0.5)
