"""Methods compare by the value of their model; linear models and networks of any family, by hand."""

import dataclasses
import inspect
from dataclasses import dataclass

import jax
import numpy as np
import pytest
from scipy import stats

from isotherm.models import DRBM, GeneralisedLinear, Network, Poisson, families
from isotherm.models.model import method

RNG = np.random.default_rng(1)
N, P, SIZES = 30, 3, (4, 2)
X = RNG.standard_normal((N, P))
LEVELS = np.stack([RNG.integers(-1, size, N) for size in SIZES], axis=1)  # −1: none
CODES = np.where(LEVELS < 0, -1, LEVELS + np.array([0, SIZES[0]])).astype(np.int32)
ONE_HOT = np.stack([(level == CODES).any(axis=1) for level in range(sum(SIZES))], axis=1).astype(np.float64)


@dataclass(frozen=True)
class Line:
    slope: float

    @method
    def at(self, x: float, y: float = 0.0) -> float:
        """slope · x + y."""
        return self.slope * x + y


class Steep(Line):
    """Inherits `at`."""


def test_bound_methods_compare_by_the_values_of_their_models():
    assert Line(2.0).at == Line(2.0).at
    assert hash(Line(2.0).at) == hash(Line(2.0).at)
    assert Line(2.0).at != Line(3.0).at
    assert Line(2.0).at != Steep(2.0).at


def test_calls_and_describes_the_function_also_when_inherited():
    for model in (Line(2.0), Steep(2.0)):
        assert model.at(3.0, y=1.0) == 7.0
        assert model.at.__name__ == "at"
        assert list(inspect.signature(model.at).parameters) == ["x", "y"]
    assert Line.at.__doc__ == "slope · x + y."


def test_poisson_likelihood_and_rate_by_hand():
    theta, x = np.float32([1.0, -2.0]), np.float32([3.0, 0.5])  # θ·x = 2
    model = Poisson(2)
    found = model.log_likelihood(jax.numpy.asarray(theta), {"x": x, "y": np.int32(5)})
    np.testing.assert_allclose(found, stats.poisson(np.exp(2)).logpmf(5), rtol=1e-6)
    np.testing.assert_allclose(model.predict(jax.numpy.asarray(theta), np.stack([x, 0 * x])), [np.exp(2), 1], rtol=1e-6)


def test_linear_predictor_and_prior_by_hand(float64):
    rng = np.random.default_rng(0)
    W, b, x = rng.normal(size=(3, 4)), rng.normal(size=3), rng.normal(size=(5, 4))
    model = GeneralisedLinear(4, families.Categorical(3), prior_variance=4.0, intercept_variance=25.0)
    params = {"coef": jax.numpy.asarray(W), "intercept": jax.numpy.asarray(b)}
    a = x @ W.T + b
    np.testing.assert_allclose(model.predict(params, x), a - np.log(np.exp(a).sum(axis=1, keepdims=True)))
    common = np.full((3, 3), 1 / 3)  # onto what all classes have in common: N(0, 1) there, and as given across
    expected = stats.multivariate_normal(cov=4 * (np.eye(3) - common) + common).logpdf(W.T).sum()
    expected += stats.multivariate_normal(cov=25 * (np.eye(3) - common) + common).logpdf(b)
    np.testing.assert_allclose(model.log_prior(params), expected)


def test_a_narrow_prior_of_classes_stays_as_it_is(float64):
    model = GeneralisedLinear(4, families.Categorical(3), prior_variance=0.5, intercept_variance=0.0)
    W = np.random.default_rng(0).normal(size=(3, 4))
    expected = stats.norm(0, 0.5**0.5).logpdf(W).sum()
    np.testing.assert_allclose(model.log_prior({"coef": jax.numpy.asarray(W)}), expected)


def test_without_an_intercept_there_is_none(float64):
    model = GeneralisedLinear(2, families.Gaussian(), intercept_variance=0.0)
    params = model.init(jax.random.key(0), dtype=np.float64)
    assert set(params) == {"coef", "log_sigma"}
    np.testing.assert_allclose(model.predictor(params, [3.0, 4.0]), params["coef"] @ np.array([3.0, 4.0]))
    expected = stats.norm(0, 10**0.5).logpdf(params["coef"]).sum() + families.Gaussian().log_prior(params)
    np.testing.assert_allclose(model.log_prior(params), expected)


def test_network_by_hand(float64):
    model = Network(2, (3, 4), families.Gaussian(), prior_variance=2.0)
    params = model.init(jax.random.key(0), scale=1.0, dtype=np.float64)
    x = np.array([0.5, -1.0])
    first = np.tanh(params["W1"] @ x / np.sqrt(2) + params["b1"])
    second = np.tanh(params["W2"] @ first / np.sqrt(3) + params["b2"])
    expected = params["W3"] @ second / 2 + params["b3"]
    assert params["W3"].shape == (4,)
    np.testing.assert_allclose(model.predict(params, x[None]), expected[None])
    np.testing.assert_allclose(
        model.log_likelihood(params, {"x": x, "y": 0.3}),
        stats.norm(float(expected), np.exp(float(params["log_sigma"]))).logpdf(0.3),
    )
    layers = np.concatenate([np.ravel(value) for name, value in params.items() if name != "log_sigma"])
    prior = stats.norm(0, 2**0.5).logpdf(layers).sum() + families.Gaussian().log_prior(params)
    np.testing.assert_allclose(model.log_prior(params), prior)


def with_and_without_levels(model, weights):
    """A model of x and levels at some parameters, and the same of a matrix with a column for each level."""
    params = model.init(jax.random.key(0), scale=1.0, dtype=np.float64)
    effects = np.asarray(params["effects"]).T
    matrix = {name: value for name, value in params.items() if name != "effects"}
    matrix[weights] = jax.numpy.concatenate([params[weights], effects], axis=-1)
    return params, dataclasses.replace(model, features=P + sum(SIZES), levels=0), matrix


@pytest.mark.parametrize(
    ("model", "weights"),
    [
        (GeneralisedLinear(P, families.Gaussian(), levels=sum(SIZES)), "coef"),
        (GeneralisedLinear(P, families.Categorical(3), levels=sum(SIZES)), "coef"),
        (Network(P, (5, 2), families.Bernoulli(), prior_variance=2.0, levels=sum(SIZES)), "W1"),
        (DRBM(P, 5, 3, levels=sum(SIZES)), "W"),
    ],
    ids=["number", "classes", "network", "machine"],
)
def test_effects_by_index_are_those_of_a_matrix_of_zeros_and_ones(float64, model, weights):
    params, plain, matrix = with_and_without_levels(model, weights)
    if isinstance(model, Network):  # its inputs are divided by the root of how many a row has
        matrix["W1"] = matrix["W1"] * np.sqrt((P + sum(SIZES)) / (P + len(SIZES)))
    y = np.arange(N) % 2
    by_index = jax.vmap(model.log_likelihood, (None, 0))(params, {"x": X, "codes": CODES, "y": y})
    rows = {"x": np.concatenate([X, ONE_HOT], axis=1), "y": y}
    np.testing.assert_allclose(by_index, jax.vmap(plain.log_likelihood, (None, 0))(matrix, rows))
    if not isinstance(model, Network):
        np.testing.assert_allclose(model.log_prior(params), plain.log_prior(matrix))


@pytest.mark.parametrize(
    "model",
    [
        GeneralisedLinear(0, families.Bernoulli(), levels=6),
        Network(0, (3,), families.Bernoulli(), levels=6),
        DRBM(0, 3, 2, levels=6),
    ],
    ids=["linear", "network", "machine"],
)
def test_rows_of_levels_alone(model):
    params = model.init(jax.random.key(0), scale=0.0)
    mean = np.asarray(model.mean(params, {"codes": CODES[0]}))
    np.testing.assert_allclose(mean, 0.5)
    assert "coef" not in params
    assert np.isfinite(model.log_prior(params))


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: GeneralisedLinear(0, families.Poisson()), "features must be at least 1"),
        (lambda: GeneralisedLinear(1, families.Poisson(), intercept_variance=-1.0), "intercept_variance must not be"),
        (lambda: Network(2, (3, 0), families.Poisson()), "hidden must be at least 1"),
        (lambda: Network(2, (3,), families.Poisson(), activation="sin"), "activation must be one of 'tanh'"),
    ],
)
def test_refuses_bad_arguments_by_name(build, words):
    with pytest.raises(ValueError, match=words):
        build()
