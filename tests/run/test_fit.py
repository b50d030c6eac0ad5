"""`isotherm.fit` as a whole: right where the answer is known, and honest where anchoring does not apply."""

import dataclasses
import signal
import warnings

import arviz_stats
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import isotherm
from isotherm.models import DRBM
from isotherm.paper.datasets import letter
from isotherm.run.assemble import RunSettings
from isotherm.run.fit import choose
from isotherm.run.plan import Goal
from isotherm.targets.newton import CannotAnchor
from isotherm.targets.target import Coordinates
from isotherm.targets.user import with_defaults

RNG = np.random.default_rng(0)


def gaussian(theta, row):
    return -0.5 * (row["y"] - row["x"] @ theta) ** 2


def normal_prior(theta):
    return -0.5 * jnp.sum(theta**2)


LINEAR = isotherm.Posterior(gaussian, normal_prior)


def regression(rows, d):
    """Data of y = x·1 + ε; the exact mean and covariance of the posterior."""
    x = RNG.standard_normal((rows, d)).astype(np.float32)
    y = (x.sum(axis=1) + RNG.standard_normal(rows)).astype(np.float32)
    covariance = np.linalg.inv(x.T.astype(np.float64) @ x + np.eye(d))
    return {"x": x, "y": y}, covariance @ (x.T.astype(np.float64) @ y), covariance


def fitted(*arguments, **settings):
    """The results, and what was warned of."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        warnings.filterwarnings("ignore", "do not rely on this run yet: (kinetic|friction)")  # of runs so short
        tree = isotherm.fit(*arguments, **({"progress": False} | settings))
    return tree, [warning for warning in told if issubclass(warning.category, RuntimeWarning)]


def assert_moments(tree, mean, covariance):
    """Within five standard errors, by the effective draws that there are; and 2 % of bias of the variance at h = 1."""
    draws = tree.posterior.theta.values.reshape(-1, len(mean)).astype(np.float64)
    bulk = float(arviz_stats.ess(tree, method="bulk").theta.min())
    sd = np.sqrt(np.diag(covariance))
    np.testing.assert_array_less(abs(draws.mean(axis=0) - mean) / sd, 5 / np.sqrt(bulk))
    np.testing.assert_array_less(abs(draws.std(axis=0) / sd - 1), 0.01 + 5 / np.sqrt(2 * bulk))


@pytest.fixture(scope="module")
def linear():
    data, mean, covariance = regression(3000, 3)
    tree, told = fitted(LINEAR, data, np.zeros(3, np.float32), chains=4)
    return tree, told, data, mean, covariance


def test_a_linear_regression(linear):
    tree, told, _, mean, covariance = linear
    assert told == []
    assert_moments(tree, mean, covariance)
    for method, settings in (("bulk", {}), ("tail", {"prob": (0.05, 0.95)})):
        assert arviz_stats.ess(tree, method=method, **settings).theta.min() >= 400
    assert arviz_stats.rhat(tree).theta.max() <= 1.01


@pytest.mark.slow
def test_a_single_parameter():
    """The rate of an exponential law under an exponential prior: its posterior is Gamma(N + 1, 1 + Σy)."""
    y = RNG.exponential(1 / 3, 5000).astype(np.float32)
    posterior = isotherm.Posterior(lambda rate, y: (jnp.log(rate) - rate * y).sum(), lambda rate: -rate.sum())
    tree, told = fitted(posterior, y, jnp.ones(1), chains=4)
    assert not told
    assert tree.attrs["fit_method"] == "anchored eccadl"
    scale = 1 / (1 + y.sum(dtype=np.float64))
    assert_moments(tree, np.array([5001 * scale]), np.array([[5001 * scale**2]]))
    # ξ has standard deviation 1/√250 by the law of the thermostat.
    assert 0.9 < float(tree.sample_stats.friction.mean()) < 1.1
    assert float(tree.sample_stats.friction.std()) < 0.1


def test_attributes_say_what_was_chosen(linear):
    attributes = linear[0].attrs
    assert attributes["fit_method"] == "anchored eccadl"
    assert attributes["fit_reason"].startswith("noise over curvature 0.")
    assert attributes["fit_ess"] == 400
    assert attributes["anchor_order"] in (1, 2)
    assert attributes["anchor_noise"] < 0.1 < attributes["anchor_plain_noise"]
    assert attributes["anchor_modes"] == 1
    assert attributes["anchor_distance"] < 0.3
    assert 64 <= attributes["batch_size"] <= 750
    assert (attributes["sampler"], attributes["chains"], attributes["interrupted"]) == ("eccadl", 4, 0)


@pytest.mark.slow
def test_the_same_seed_gives_the_same_draws(linear):
    tree, _, data, _, _ = linear
    again, _ = fitted(LINEAR, data, np.zeros(3, np.float32))
    np.testing.assert_array_equal(again.posterior.theta, tree.posterior.theta)


@pytest.mark.slow
def test_an_anchored_posterior_needs_no_start_and_no_more_passes(linear):
    _, _, data, mean, covariance = linear
    anchored = isotherm.anchor(LINEAR, data, np.zeros(3, np.float32), seed=7, progress=False)
    tree, told = fitted(anchored, data, ess=100, chains=2)
    assert told == []
    assert tree.attrs["anchor_passes"] == pytest.approx(float(anchored.findings.passes))
    assert_moments(tree, mean, covariance)


def test_seconds_end_it_and_that_is_said(linear):
    _, _, data, _, _ = linear
    tree, told = fitted(LINEAR, data, np.zeros(3, np.float32), ess=10**7, seconds=1.0)
    (warning,) = told
    assert issubclass(warning.category, isotherm.VerdictWarning)
    assert "10000000" in str(warning.message)
    assert "seconds" in str(warning.message)
    assert warning.filename == __file__
    assert tree.posterior.sizes["draw"] > 0
    assert tree.attrs["interrupted"] == 0


@pytest.mark.slow
def test_more_parameters_than_half_the_rows():
    """200 rows, 100 parameters: all rows at every step, which is exact up to the step size."""
    data, mean, covariance = regression(200, 100)
    tree, told = fitted(LINEAR, data, np.zeros(100, np.float32), ess=50, seconds=20)
    assert "there are too few rows for 100 parameters" in str(told[0].message)
    assert "all 200 rows at every step, without anchoring: few enough for NUTS" in str(told[0].message)
    assert told[0].filename == __file__
    assert (tree.attrs["fit_method"], tree.attrs["batch_size"], tree.attrs["replace"]) == ("plain eccadl", 200, 0)
    assert tree.attrs["fit_reason"] == str(told[0].message)
    draws = tree.posterior.theta.values.astype(np.float64)
    z = (draws.mean(axis=(0, 1)) - mean) / np.sqrt(np.diag(covariance))
    bulk = float(arviz_stats.ess(tree, method="bulk").theta.min())
    assert np.sqrt(np.mean(z**2)) < 3 / np.sqrt(bulk)
    ratio = draws.var(axis=(0, 1)).sum() / np.trace(covariance)
    assert abs(ratio - 1) < 0.05 + 5 * np.sqrt(2 / bulk / 100)


def funnel(params, row):
    return -0.5 * (row["y"] - params["effects"][row["group"]]) ** 2


def funnel_prior(params):
    """Effects N(0, s²), centred, log s ~ N(0, 3²): the joint density has no maximum, it grows without end as s → 0."""
    scaled = params["effects"] * jnp.exp(-params["log_s"])
    return -0.5 * jnp.sum(scaled**2) - 5 * params["log_s"] - 0.5 * (params["log_s"] / 3) ** 2


@pytest.mark.slow
def test_a_funnel_with_five_groups():
    group = np.repeat(np.arange(5), 20)
    data = {"y": RNG.standard_normal(100).astype(np.float32), "group": group}
    init = {"effects": np.zeros(5, np.float32), "log_s": np.float32(0)}
    tree, told = fitted(isotherm.Posterior(funnel, funnel_prior), data, init, ess=50, seconds=3)
    assert "without anchoring: few enough for NUTS, which has no bias" in str(told[0].message)
    assert tree.attrs["fit_method"] == "plain eccadl"
    good = tree.sample_stats.first_bad_step.values < 0
    means = np.array([data["y"][group == k].mean() for k in range(5)])
    effects = tree.posterior.effects.values[good].astype(np.float64)
    assert good.any()
    assert (abs(effects.mean(axis=(0, 1)) - means) < 4 * np.sqrt(1 / 20)).all()  # shrunk, but not by more


@pytest.mark.parametrize(
    ("bend", "width", "finite", "at_mode"),
    [(0.1, 1e-4, True, True), (0.7, 1e-4, True, False), (0.7, 1e-4, False, True), (0.7, 1, True, True)],
    ids=str,
)
def test_plain_chains_begin_at_a_mode_unless_it_is_a_spike(linear, monkeypatch, bend, width, finite, at_mode):
    """A centred hierarchy has a spike where its scale is 0: chains that begin there do not leave it, though the start
    that they were given is better, if they stay finite from there. A mode that they come to is no spike."""
    data, init = linear[2], np.full(3, 0.5, np.float32)
    found = isotherm.anchor(LINEAR, data, init, progress=False)
    origin, factor = found.coordinates
    findings, coordinates = found.findings._replace(bend=bend, modes=2), Coordinates(origin, width * factor)
    found = dataclasses.replace(found, findings=findings, coordinates=coordinates)
    monkeypatch.setattr("isotherm.run.fit.anchor", lambda *_, **__: found)
    monkeypatch.setattr("isotherm.run.fit.good_chains", lambda _: np.full(2, finite))
    target, _, _ = with_defaults(LINEAR, data, init)
    with pytest.warns(RuntimeWarning, match="without anchoring"):
        chosen = choose(target, data, init, RunSettings(chains=2), True, Goal(400, 1000), progress=False)
    np.testing.assert_array_equal(chosen.run.starts, [found.mode if at_mode else init] * 2)


def mixture(means, x):
    return jnp.logaddexp(-0.5 * (x - means[0]) ** 2, -0.5 * (x - means[1]) ** 2)


@pytest.mark.slow
def test_two_modes():
    x = np.concatenate([RNG.normal(-2, 1, 300), RNG.normal(2, 1, 300)]).astype(np.float32)
    posterior = isotherm.Posterior(mixture, lambda means: -0.5 * jnp.sum(means**2) / 25)
    tree, told = fitted(posterior, x, np.float32([-1.0, 1.0]), ess=50, seconds=3)
    assert "the posterior has more than one mode, and chains do not cross between them" in str(told[0].message)
    draws = tree.posterior.theta.values
    assert tree.attrs["fit_method"] == "plain eccadl"
    np.testing.assert_allclose(np.sort(draws.mean(axis=(0, 1))), [-2, 2], atol=0.5)  # data's own means ± 0.1


@pytest.mark.slow
def test_more_parameters_than_matrices_are_made_for(monkeypatch):
    """And burn-in, all of which would take a minute or more, ends in time for some draws."""
    monkeypatch.setattr("isotherm.run.fit.EXACT_STEPS", (10**7, 2 * 10**7, 10**9))
    posterior = isotherm.Posterior(lambda t, x: -0.5 * jnp.sum((t - x) ** 2), normal_prior)
    x = RNG.standard_normal((40, 1100)).astype(np.float32)
    tree, told = fitted(posterior, x, np.zeros(1100, np.float32), ess=10**6, seconds=1.0, chains=1)
    assert "1,100 parameters" in str(told[0].message)
    assert tree.attrs["fit_method"] == "plain eccadl"
    assert np.isfinite(tree.posterior.theta).all()
    assert tree.attrs["sampling_time"] < 5  # a chunk of steps takes a quarter of a second
    assert tree.attrs["interrupted"] == 0
    assert 0 < tree.attrs["burn_in"] < tree.attrs["steps"] == tree.attrs["steps_done"]
    assert tree.posterior.sizes["draw"] >= 8
    assert tree.posterior.sizes["draw"] == (tree.attrs["steps"] - tree.attrs["burn_in"]) // tree.attrs["thin"]


def too_large(posterior, data, init, parameters):
    """`fit` for two seconds says why it is not anchored, samples plainly and is over in about that time."""
    tree, told = fitted(posterior, data, init, seconds=2, chains=2)
    words = str(told[0].message)
    assert f"{parameters:,} parameters" in words
    assert tree.attrs["fit_reason"] == words
    assert tree.attrs["fit_method"] == "plain eccadl"
    assert any(issubclass(warning.category, isotherm.VerdictWarning) for warning in told)
    assert tree.attrs["sampling_time"] < 10
    assert tree.posterior.sizes["draw"] > 0
    assert all(np.isfinite(values).all() for values in tree.posterior.data_vars.values())


def letter_or_rows_like_it(folder):
    if (folder / "letter").is_dir():
        return letter.load(folder).train
    return {
        "x": RNG.uniform(-1, 1, (10_500, 16)).astype(np.float32),
        "y": RNG.integers(0, 26, 10_500).astype(np.int32),
    }


@pytest.mark.long
def test_the_drbm_of_letter(data_folder):
    model = DRBM(features=16, hidden=100, classes=26)
    posterior = isotherm.Posterior(model.log_likelihood, model.log_prior)
    too_large(posterior, letter_or_rows_like_it(data_folder), model.init(jax.random.key(0)), 4_326)


@pytest.mark.long
def test_a_network():
    sizes = {"W": (784, 256), "b": (256,), "V": (256, 10), "c": (10,)}
    init = {name: (RNG.standard_normal(shape) / shape[0] ** 0.5).astype(np.float32) for name, shape in sizes.items()}

    def log_likelihood(params, row):
        hidden = jnp.tanh(row["x"] @ params["W"] + params["b"])
        return jax.nn.log_softmax(hidden @ params["V"] + params["c"])[row["y"]]

    def log_prior(params):
        return -0.5 * sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(params))

    data = {"x": RNG.random((400, 784)).astype(np.float32), "y": RNG.integers(0, 10, 400).astype(np.int32)}
    too_large(isotherm.Posterior(log_likelihood, log_prior), data, init, 203_530)


@pytest.mark.long
def test_a_hierarchy_that_is_not_centred():
    """40 groups of 500 rows: its mode is many standard deviations from where its draws are. It is not anchored there,
    and plain chains stay finite; that these few steps are not enough is said."""
    group = np.arange(20_000, dtype=np.int32) % 40
    data = {"y": (RNG.standard_normal(40)[group] + RNG.standard_normal(20_000)).astype(np.float32), "group": group}

    def log_likelihood(params, row):
        effect = params["mu"] + jnp.exp(params["log_tau"]) * params["eta"][row["group"]]
        return -0.5 * (row["y"] - effect) ** 2

    def log_prior(params):
        return -0.5 * sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(params))

    init = {"eta": np.zeros(40, np.float32), "log_tau": np.float32(0), "mu": np.float32(0)}
    tree, told = fitted(isotherm.Posterior(log_likelihood, log_prior), data, init, steps=400)
    assert "the posterior is far from a Gaussian around its mode" in str(told[0].message)
    assert tree.attrs["fit_method"] == "plain eccadl"
    assert (tree.sample_stats.first_bad_step.values < 0).all()
    assert any(issubclass(warning.category, isotherm.VerdictWarning) for warning in told)


def test_what_is_no_posterior_is_refused_and_not_sampled(linear):
    data = linear[2] | {"x": linear[2]["x"] * np.float32([1, 0, 1])}
    posterior = isotherm.Posterior(gaussian, lambda theta: 0.0 * jnp.sum(theta))
    with pytest.raises(CannotAnchor, match=r"flat along a direction in which theta\[1\] changes most"):
        isotherm.fit(posterior, data, np.zeros(3, np.float32), progress=False)


@pytest.mark.parametrize(
    ("changed", "kind", "said"),
    [
        ({"ess": 0}, ValueError, "ess .*got 0"),
        ({"ess": "many"}, TypeError, "ess .*got 'many'"),
        ({"seconds": -1}, ValueError, "seconds .*got -1"),
        ({"seconds": float("inf")}, ValueError, "seconds must be finite"),
        ({"chains": 0}, ValueError, "chains .*got 0"),
        ({"seed": -1}, ValueError, "seed .*got -1"),
        ({"init": None}, TypeError, "init must be given: the parameters to start from"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_refused(linear, changed, kind, said):
    """Before any work is done."""
    settings = {"init": np.zeros(3, np.float32), "progress": False} | changed
    with pytest.raises(kind, match=said):
        isotherm.fit(LINEAR, linear[2], settings.pop("init"), **settings)


def test_a_store_that_is_taken_is_refused_first(linear, tmp_path, monkeypatch):
    monkeypatch.setattr("isotherm.run.fit.anchor", lambda *_, **__: pytest.fail("work was done"))
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(ValueError, match=r"^store="):
        isotherm.fit(LINEAR, linear[2], np.zeros(3, np.float32), store=tmp_path, progress=False)


@pytest.mark.slow
def test_ctrl_c_in_the_pilot_run_is_obeyed(linear, monkeypatch):
    """There are no draws to return yet."""
    monkeypatch.setattr("isotherm.run.execute.DrawsOutsidePrior.see", lambda *_: signal.raise_signal(signal.SIGINT))
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background may ignore it
    try:
        with pytest.raises(KeyboardInterrupt):
            isotherm.fit(LINEAR, linear[2], np.zeros(3, np.float32), progress=False)
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.slow
def test_parameters_keep_their_names(linear):
    def named(params, row):
        return gaussian(jnp.append(params["w"], params["b"]), row)

    posterior = isotherm.Posterior(named, lambda p: -0.5 * (jnp.sum(p["w"] ** 2) + p["b"] ** 2))
    init = {"w": np.zeros(2, np.float32), "b": np.zeros((), np.float32)}
    tree, told = fitted(posterior, linear[2], init, ess=100, chains=2)
    assert told == []
    assert set(tree.posterior.data_vars) == {"w", "b"}
    _, _, _, mean, covariance = linear
    bulk = float(arviz_stats.ess(tree, method="bulk").b)
    found = float(tree.posterior.b.mean()), *(float(m) for m in tree.posterior_mean.w.mean("chain"))
    expected = mean[2], mean[0], mean[1]
    sd = np.sqrt(np.diag(covariance))[[2, 0, 1]]
    np.testing.assert_array_less(abs(np.subtract(found, expected)) / sd, 5 / np.sqrt(bulk))
    np.testing.assert_array_less(
        abs(np.sqrt(tree.posterior_variance.w.mean("chain")) / sd[1:] - 1), 0.02 + 5 / np.sqrt(2 * bulk)
    )
    assert tree.posterior.w.dtype == np.float32
