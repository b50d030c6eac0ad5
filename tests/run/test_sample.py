"""`isotherm.sample` as a whole: seeds, exact gradients, one compilation, what it refuses, and ArviZ."""

import arviz_stats
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import isotherm

RNG = np.random.default_rng(0)
DATA = {"x": RNG.standard_normal((200, 3)).astype(np.float32), "y": RNG.standard_normal(200).astype(np.float32)}


def log_likelihood(params, example):
    return -0.5 * (example["y"] - example["x"] @ params["slope"] - params["offset"]) ** 2


def log_prior(params):
    return -0.5 * (jnp.sum(params["slope"] ** 2) + params["offset"] ** 2)


POSTERIOR = isotherm.Posterior(log_likelihood, log_prior)
INIT = {"offset": np.float32(0), "slope": np.zeros(3, np.float32)}


def sample(sampler=None, **settings):
    settings = {"batch_size": 20, "steps": 300, "chains": 3, "thin": 7, "progress": False} | settings
    return isotherm.sample(POSTERIOR, sampler or isotherm.mccadl(0.02), DATA, settings.pop("init", INIT), **settings)


def flat(tree):
    return np.concatenate([tree.posterior.offset.values[..., None], tree.posterior.slope.values], axis=-1)


def assert_same_run(a, b):
    for group in ("posterior", "sample_stats", "posterior_mean", "posterior_variance"):
        for name in a[group].data_vars:
            np.testing.assert_array_equal(a[group][name], b[group][name], err_msg=f"{group}/{name}")


def test_arviz_takes_it_as_it_is():
    tree = sample(steps=2000)
    assert np.isfinite(arviz_stats.ess(tree).slope).all()
    assert (arviz_stats.rhat(tree).slope < 1.5).all()


def test_same_seed_same_draws_and_another_seed_others():
    assert_same_run(sample(seed=5), sample(seed=5))
    assert not np.allclose(flat(sample(seed=5)), flat(sample(seed=6)))


@pytest.mark.slow
def test_exact_gradients_make_batches_that_do_not_matter():
    runs = [sample(isotherm.sgld(1e-4), batch_size=200, replace=False, seed=s, steps=20, thin=1) for s in (0, 0)]
    assert_same_run(*runs)
    tree = sample(isotherm.mccadl(1e-2), batch_size=200, replace=False, steps=20, thin=1)
    assert (tree.sample_stats.expm_error == 0).all()


def test_a_second_call_compiles_nothing():
    compiled = []
    jax.monitoring.register_event_duration_secs_listener(
        lambda event, *_, **__: compiled.append(event) if event.endswith("backend_compile_duration") else None
    )
    sample(isotherm.mccadl(0.011, scheme="BAODCDOAB", rank=3))
    assert compiled
    compiled.clear()
    sample(isotherm.mccadl(0.01, 3.0, rank=3), seed=1, steps=400)
    jax.monitoring.clear_event_listeners()
    assert not compiled


def test_a_sampler_that_needs_more_than_it_gets():
    with pytest.raises(ValueError, match="mass has 3 entries but there are 4 parameters"):
        sample(isotherm.sgld(0.1, mass=np.ones(3)))
    with pytest.raises(ValueError, match="batch_size must be at least 2 to estimate a covariance, got 1"):
        sample(batch_size=1)


@pytest.mark.slow
def test_a_model_that_is_not_finite_at_the_start_is_refused():
    """With words about the model, not about the step size; −inf and NaN in a row whose gradient is finite, too."""
    cases = [
        (lambda p, e: jnp.log(e["x"][0]) + log_likelihood(p, e), log_prior, r"log_likelihood must be .* got nan at "
            r"init for row \d+ and \d+ other rows of the data; start elsewhere"),
        (lambda p, e: jnp.where(e["y"] == DATA["y"][7], -jnp.inf, log_likelihood(p, e)), log_prior,
            "got -inf at init for row 7 of the data"),
        (log_likelihood, lambda p: jnp.where(p["offset"] < 1, -jnp.inf, log_prior(p)), "log_prior must be finite where "
            "the chains start, got -inf at init; start inside the region"),
    ]  # fmt: skip
    for likelihood, prior, words in cases:
        with pytest.raises(ValueError, match=words):
            isotherm.sample(isotherm.Posterior(likelihood, prior), isotherm.mccadl(0.02), DATA, INIT, batch_size=20,
                            steps=100, progress=False)  # fmt: skip


P = RNG.uniform(0.2, 3.0, 200)


@pytest.mark.slow
def test_unequal_probabilities_leave_the_posterior_as_it_is():
    """Mean and variance of a Gaussian posterior, within five standard errors by its effective draws; the variance
    within 3 % beside, for the step size. Rows that count once each would move the mean by more than that. By
    eccadl: mccadl's own mean is 0.35 standard deviations off here at h = 0.02, and 0.09 at 0.005."""
    design = np.concatenate([np.ones((200, 1)), DATA["x"]], axis=1)
    covariance = np.linalg.inv(design.T @ design + np.eye(4))
    mean = covariance @ (design.T @ DATA["y"])
    tree = sample(isotherm.eccadl(), batch_size=40, steps=20_000, thin=5, chains=2, probabilities=P)
    ess = arviz_stats.ess(tree, method="bulk")
    worst = min(float(ess.offset), float(ess.slope.min()))
    draws, sd = flat(tree).astype(np.float64), np.sqrt(np.diag(covariance))
    assert (abs(draws.mean(axis=(0, 1)) - mean) / sd < 5 / np.sqrt(worst)).all()
    assert (abs(draws.std(axis=(0, 1)) / sd - 1) < 0.03 + 5 / np.sqrt(2 * worst)).all()
    share = 200 * P / P.sum()
    biased = np.linalg.solve(design.T @ (share[:, None] * design) + np.eye(4), design.T @ (share * DATA["y"]))
    assert (abs(biased - mean) / sd).max() > 10 / np.sqrt(worst)


@pytest.mark.slow
def test_equal_probabilities_are_no_other_posterior_and_need_not_add_up_to_one():
    assert_same_run(sample(probabilities=np.full(200, 3.0)), sample(probabilities=np.full(200, 1 / 200)))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"probabilities": P, "replace": False}, "replace must be True where rows have unequal probabilities"),
        ({"probabilities": P[:-1]}, "there are probabilities for 199 rows, and data has 200; give one for each row"),
        ({"probabilities": P - P.min()}, r"probabilities must be positive and finite, got 0\.0 for row"),
    ],
    ids=["replace", "length", "zero"],
)
def test_probabilities_that_are_refused(settings, said):
    with pytest.raises(ValueError, match=said):
        sample(**settings)


@pytest.mark.slow
def test_an_anchored_posterior_goes_wherever_a_posterior_goes():
    """With its own batch size, starts and probabilities; others are refused."""
    anchored = isotherm.anchor(POSTERIOR, DATA, INIT, progress=False)
    settings = {"steps": 200, "chains": 2, "progress": False}
    tree = isotherm.sample(anchored, isotherm.eccadl(), DATA, **settings)
    assert tree.attrs["batch_size"] == anchored.chosen_batch_size
    assert set(tree.posterior.data_vars) == {"offset", "slope"}
    mode = np.asarray(anchored.coordinates.origin)
    sd = np.linalg.norm(np.asarray(anchored.coordinates.factor), axis=1)
    assert (abs(flat(tree) - mode) < 8 * sd).all()  # parameters, not positions
    with pytest.raises(ValueError, match="probabilities must not be given with an anchored posterior"):
        isotherm.sample(anchored, isotherm.eccadl(), DATA, probabilities=P, **settings)
    with pytest.raises(ValueError, match=r"there are probabilities for 200 rows, and data has 100; .*anchor the"):
        isotherm.sample(anchored, isotherm.eccadl(), {k: v[:100] for k, v in DATA.items()}, **settings)


def test_what_only_an_anchored_posterior_knows_must_be_given():
    with pytest.raises(TypeError, match="batch_size must be given, unless the posterior comes from"):
        sample(batch_size=None)
    with pytest.raises(TypeError, match="init must be given"):
        sample(init=None)
