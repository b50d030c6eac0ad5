import jax
import numpy as np
import pytest
from scipy import stats

from isotherm.models import GeneralisedLinear, Network, Poisson, families
from isotherm.models.predictors import Weighted


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


def test_a_weight_counts_an_example_as_often():
    model = GeneralisedLinear(2, families.Poisson())
    params = model.init(jax.random.key(0), scale=1.0)
    example = {"x": np.float32([1, 2]), "y": np.float32(3)}
    found = Weighted(model).log_likelihood(params, example | {"weight": 2.5})
    np.testing.assert_allclose(found, 2.5 * model.log_likelihood(params, example), rtol=1e-6)
    assert Weighted(model).log_likelihood == Weighted(GeneralisedLinear(2, families.Poisson())).log_likelihood


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
