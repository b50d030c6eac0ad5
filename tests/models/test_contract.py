"""What every model keeps to, whatever its formula."""

import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from isotherm.models import DRBM, MLP, GeneralisedLinear, Linear, Logistic, Network, Poisson, Softmax, families

PLAIN = [Linear(4, noise_variance=0.5), Poisson(4), Logistic(4), Softmax(4, 3), DRBM(4, 5, 3), MLP(4, 5, 3)]
WITH_FAMILY = [
    GeneralisedLinear(4, families.Gaussian()),
    GeneralisedLinear(4, families.Bernoulli()),
    Network(4, (5, 2), families.Gaussian()),
    Network(4, (5,), families.Categorical(3), "silu"),
]
MODELS = [*PLAIN, *WITH_FAMILY]
CLASSIFIERS = [*PLAIN[2:], WITH_FAMILY[1], WITH_FAMILY[3]]
each_model = pytest.mark.parametrize(
    "model", MODELS, ids=lambda model: f"{type(model).__name__}-{type(getattr(model, 'family', 0)).__name__}"
)
each_classifier = pytest.mark.parametrize(
    "model", CLASSIFIERS, ids=lambda model: f"{type(model).__name__}-{type(getattr(model, 'family', 0)).__name__}"
)


def batch_for(model, rows=6):
    rng = np.random.default_rng(1)
    x = rng.normal(size=(rows, model.features)).astype(np.float32)
    if model not in CLASSIFIERS and not isinstance(model, Poisson):
        y = rng.normal(size=rows).astype(np.float32)
    elif isinstance(model, Logistic):
        y = np.where(np.arange(rows) % 2 == 0, 1, -1).astype(np.float32)
    else:
        y = (np.arange(rows) % 2).astype(np.int32)
    return {"x": x, "y": y}


@each_model
def test_built_twice_is_equal_and_so_are_its_methods(model):
    twin = type(model)(**{name: getattr(model, name) for name in model.__dataclass_fields__})
    assert twin == model
    assert twin.log_likelihood == model.log_likelihood
    assert hash(twin.log_prior) == hash(model.log_prior)
    assert model.log_likelihood != model.log_prior
    assert model.log_likelihood != type(model)(**{**vars(model), "prior_variance": 3.0}).log_likelihood


@each_model
def test_equal_models_share_one_compilation(model):
    traces = []

    def value(function, params):
        traces.append(function)
        return function(params)

    compiled = jax.jit(value, static_argnums=0)
    params = model.init(jax.random.key(0))
    compiled(model.log_prior, params)
    compiled(type(model)(**vars(model)).log_prior, params)
    assert len(traces) == 1


@each_model
def test_pickles_with_its_methods(model):
    assert pickle.loads(pickle.dumps(model)) == model
    assert pickle.loads(pickle.dumps(model.log_likelihood)) == model.log_likelihood


@each_model
@pytest.mark.parametrize("dtype", [np.float32, pytest.param(np.float64, marks=pytest.mark.slow)])
def test_keeps_the_dtype_of_the_parameters(model, dtype):
    with jax.enable_x64(True):
        params = model.init(jax.random.key(0), dtype=dtype)
        batch = batch_for(model)

        @jax.jit
        def evaluated(params, batch):
            values = jax.vmap(model.log_likelihood, in_axes=(None, 0))(params, batch)
            gradient = jax.grad(model.log_likelihood)(params, {"x": batch["x"][0], "y": batch["y"][0]})
            return values, model.log_prior(params), model.predict(params, batch["x"]), gradient

        values, log_prior, predicted, gradient = evaluated(params, batch)
        assert values.shape == (6,)
        assert {leaf.dtype for leaf in jax.tree.leaves(params)} == {np.dtype(dtype)}
        assert values.dtype == log_prior.dtype == predicted.dtype == dtype
        assert {leaf.dtype for leaf in jax.tree.leaves(gradient)} == {np.dtype(dtype)}


@each_model
def test_gradient_agrees_with_finite_differences(model):
    """Central differences with step 1e-6 in float64 are good to about 1e-9 here."""
    with jax.enable_x64(True):
        params, unravel = ravel_pytree(model.init(jax.random.key(3), scale=1.0, dtype=np.float64))
        batch = batch_for(model)

        def value(flat, example):
            return model.log_likelihood(unravel(flat), example) + model.log_prior(unravel(flat))

        values, gradient = jax.jit(jax.vmap(value, (0, None))), jax.jit(jax.grad(value))
        steps = 1e-6 * np.eye(params.size)
        for i in range(3):
            example = {name: column[i] for name, column in batch.items()}
            numeric = (values(params[None] + steps, example) - values(params[None] - steps, example)) / 2e-6
            np.testing.assert_allclose(gradient(params, example), numeric, atol=1e-8)


@each_model
def test_compiled_equals_eager(model):
    params, batch = model.init(jax.random.key(0), scale=1.0), batch_for(model)
    each = jax.vmap(model.log_likelihood, in_axes=(None, 0))
    np.testing.assert_allclose(jax.jit(each)(params, batch), each(params, batch), rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize("model", PLAIN, ids=lambda model: type(model).__name__)
def test_prior_is_a_normalised_gaussian_over_all_parameters(model):
    params = model.init(jax.random.key(0), scale=2.0)
    flat = np.asarray(ravel_pytree(params)[0], np.float64)
    expected = -(flat**2).sum() / 20 - flat.size / 2 * np.log(2 * np.pi * 10)
    np.testing.assert_allclose(model.log_prior(params), expected, rtol=1e-6)


@each_model
def test_start_has_the_asked_spread(model):
    big = type(model)(**{**vars(model), "features": 5000})
    flat = np.asarray(ravel_pytree(big.init(jax.random.key(0), scale=0.3))[0])
    # 5 standard errors of a mean and of a standard deviation of 5,000 or more draws
    assert abs(flat.mean()) < 5 * 0.3 / np.sqrt(flat.size)
    assert abs(flat.std() - 0.3) < 5 * 0.3 / np.sqrt(2 * flat.size)
    assert not np.any(ravel_pytree(model.init(jax.random.key(0), scale=0.0))[0])


@each_classifier
def test_prediction_is_the_likelihood_of_every_label(model):
    params, batch = model.init(jax.random.key(0), scale=1.0), batch_for(model)
    log_p = model.predict(params, batch["x"])
    np.testing.assert_allclose(np.exp(log_p).sum(axis=1), 1, rtol=1e-6)
    likelihood = jax.vmap(model.log_likelihood, in_axes=(None, 0))(params, batch)
    columns = np.asarray(model.class_index(batch["y"]))
    np.testing.assert_allclose(np.asarray(log_p)[np.arange(6), columns], likelihood, rtol=2e-6, atol=1e-6)


@each_classifier
def test_far_out_parameters_give_finite_numbers(model):
    params = jax.tree.map(lambda leaf: 1e4 * jnp.sign(leaf), model.init(jax.random.key(0)))
    batch = batch_for(model)
    values, gradient = jax.vmap(jax.value_and_grad(model.log_likelihood), in_axes=(None, 0))(params, batch)
    assert np.isfinite(values).all()
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(gradient))


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: Logistic(0), "features .*got 0"),
        (lambda: Linear(2, noise_variance=0.0), "noise_variance .*got 0.0"),
        (lambda: Softmax(2, 1), "classes .*got 1"),
        (lambda: DRBM(2, 0, 2), "hidden .*got 0"),
        (lambda: MLP(2, 2, 2, prior_variance=-1.0), "prior_variance .*got -1.0"),
        (lambda: Logistic(2).init(jax.random.key(0), scale=-1.0), "scale .*got -1.0"),
    ],
)
def test_refuses_bad_arguments_by_name(build, words):
    with pytest.raises(ValueError, match=words):
        build()
