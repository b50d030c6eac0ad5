from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import isotherm
from isotherm.diagnostics.stein import Bias
from isotherm.run import largest_step
from isotherm.run.largest_step import Trial, excesses, search
from isotherm.targets.newton import CannotAnchor

N, n, d = 2000, 100, 3
RNG = np.random.default_rng(0)
X = RNG.standard_normal((N, d)).astype(np.float32)
DATA = {"x": X, "y": (X @ np.float32([1, 2, 3]) + RNG.standard_normal(N)).astype(np.float32)}
POSTERIOR = isotherm.Posterior(
    lambda theta, row: -0.5 * (row["y"] - row["x"] @ theta) ** 2, lambda theta: -0.5 * jnp.sum(theta**2)
)
ZERO = jnp.zeros(d)
HALF = {"bound": 0.5, "progress": False}  # a large bias is told in few steps


def bias(distance=0.0, trace=1.0, memory=0.1):
    return Bias(distance**2, 1e-4, trace, 0.01, memory)


def below(edge, memory=lambda h: 0.1, steps=largest_step.TRIAL_STEPS):
    """A sampler whose variance is right below an edge and twice too large above; and the steps that were tried."""
    tried = []

    def trial(h):
        tried.append(h)
        return Trial(h, bias(trace=1.0 if h < edge else 2.0, memory=memory(h)), steps, h < edge)

    return trial, tried


@pytest.mark.parametrize("first", [1e-5, 1e-3, 0.1])
def test_the_edge_is_found_from_any_side(first):
    edge = 1.3e-3
    trial, tried = below(edge)
    found = search(trial, first, 0.1)
    assert edge / largest_step.PRECISION <= found.largest.step_size < edge
    assert len(tried) == len(found.trials) < 12


def test_no_step_passes():
    with pytest.raises(
        ValueError,
        match=r"no step size keeps the bias under 0\.1: .*at 1\.\S+ .* 2\.00 ± 0\.01 times .*; use isotherm.fit",
    ):
        search(below(0.0)[0], 1.0, 0.1)


def test_chains_that_are_too_slow_end_the_search():
    trial, tried = below(0.0, memory=lambda h: 0.02 / h)
    with pytest.raises(ValueError, match="chains still remember their start after 32,768 steps, and smaller"):
        search(trial, 1.0, 0.1)
    assert tried == [1.0, 0.5, 0.25, 0.125, 0.0625]


def test_a_step_that_is_far_too_hot_is_not_taken_for_a_slow_one():
    """It was given up after few steps, in which chains forget little."""
    found = search(below(1e-3, memory=lambda h: 0.9, steps=256)[0], 1.0, 0.1)
    assert 1e-3 / largest_step.PRECISION <= found.largest.step_size < 1e-3


def test_diverged_chains_are_told():
    with pytest.raises(ValueError, match="chains diverged"):
        search(lambda h: Trial(h, None, 256, False), 1.0, 0.1)


def test_the_worse_of_mean_and_variance_counts():
    assert max(excesses(bias(), 0.1)) == pytest.approx(-10)  # the variance has 0.1 to go, in errors of 0.01
    assert [max(excesses(bias(trace=trace), 0.1)) for trace in (1.2, 0.8)] == pytest.approx([10, 10])
    assert max(excesses(bias(distance=0.2), 0.1)) == pytest.approx(300)  # (0.04 − 0.01)/1e-4
    assert max(excesses(bias(trace=np.nan), 0.1)) == np.inf


def test_a_bias_near_the_bound_need_not_be_told_from_it():
    """Its error of a fifth of the bound is one of a fifth of the step size, or less."""
    near = Bias(0.0101, 0.0019, 1.0, 0.01, 0.1)
    assert largest_step.is_decided(near, 0.1)
    assert not largest_step.is_decided(near._replace(square_error=0.0021), 0.1)
    assert largest_step.is_decided(near._replace(square=0.02, square_error=0.004), 0.1)  # surely beyond
    assert largest_step.is_decided(near._replace(square=0.001, square_error=0.004), 0.1)  # surely within
    assert largest_step.is_decided(near._replace(trace=1.11, trace_error=0.019), 0.1)
    assert not largest_step.is_decided(near._replace(trace=1.11, trace_error=0.021), 0.1)
    too_wide = near._replace(trace=1.2, trace_error=0.021, square_error=1.0)
    assert largest_step.is_decided(too_wide, 0.1)  # the mean may be anywhere


def test_fewer_parameters_more_draws():
    assert [largest_step.draws_of(parameters) for parameters in (1, 50, 100, 1024)] == [128, 64, 32, 32]


@pytest.mark.parametrize("temperature", [1.0, 4.0])
def test_the_right_variance_is_that_of_the_samplers_temperature(temperature):
    class Gaussian:
        factor = np.eye(50)

        def positions(self, draws):
            return draws

        def at(self, positions, size):
            return -positions

    run = SimpleNamespace(sampler=isotherm.sgld(0.1, temperature=temperature))
    trials = largest_step.Trials(run, Gaussian(), 1, 0.1, print)
    draws = 0.2 * temperature**0.5 + temperature**0.5 * RNG.standard_normal((16, 32, 50))
    found = trials.bias(trials.positions(draws))
    assert found.trace == pytest.approx(1, abs=4 * found.trace_error)
    assert found.distance == pytest.approx(0.2, abs=0.02)  # 50 means, each ± 0.04


@pytest.mark.slow
def test_sgld_is_as_hot_as_it_should_be():
    """Its variance is 1 + ηS/2 times the true one, to first order, and S is about (N/n) K: η = bound · 2n/(NK)."""
    found = isotherm.largest_step(POSTERIOR, isotherm.sgld("auto"), DATA, ZERO, n, **HALF)
    K = float(np.linalg.eigvalsh(X.T @ X).mean())
    # Steps are tried to a factor of 1.2; second order makes the variance larger, by (ηK/2)² and (ηK)²N/4n, below 10 %.
    assert found == pytest.approx(0.5 * 2 * n / N / K, rel=0.35)
    assert isotherm.largest_step(POSTERIOR, isotherm.sgld(1.0), DATA, ZERO, n, **HALF) == found  # the same seed


def test_a_friction_that_still_adapts():
    """On the way from 1 to 40, and around 40, where a change of 5 % or of four standard errors is none."""
    here = 40 + RNG.standard_normal((16, 32))
    assert largest_step.is_drifting(np.linspace(1, 40, 32) + here - 40)
    assert not largest_step.is_drifting(here)
    assert not largest_step.is_drifting(here + np.linspace(0, 2, 32))
    assert not largest_step.is_drifting(1 + 30 * (here - 40))


@pytest.mark.slow
def test_sgnht_is_given_the_time_to_adapt_its_friction():
    """Linear regression, with noise much the same in all directions: ξ has to be about (h/2)S = 100 at h = 5e-3. Judged
    before that, the variance was too large at all steps above 2e-5."""
    x = RNG.standard_normal((2000, 5)).astype(np.float32)
    data = {"x": x, "y": (x @ np.ones(5) + RNG.standard_normal(2000)).astype(np.float32)}
    linear = isotherm.Posterior(lambda b, row: -0.5 * (row["y"] - row["x"] @ b) ** 2, lambda b: -0.5 * jnp.sum(b**2))
    found = isotherm.largest_step(linear, isotherm.sgnht("auto", 1.0), data, jnp.zeros(5), 100, progress=False)
    assert found > 1e-3


@pytest.mark.slow
def test_without_an_anchor_a_first_run_shows_the_way(monkeypatch):
    anchored = isotherm.largest_step(POSTERIOR, isotherm.sgld("auto"), DATA, ZERO, n, **HALF)

    def refused(*args, **kwargs):
        raise CannotAnchor("no")

    monkeypatch.setattr(largest_step, "anchor", refused)
    found = isotherm.largest_step(POSTERIOR, isotherm.sgld("auto"), DATA, ZERO, n, **HALF)
    assert found == pytest.approx(anchored, rel=0.5)  # to a factor of 1.2 each, and by chance


def test_on_an_anchored_posterior_steps_are_in_its_own_units():
    anchored = isotherm.anchor(POSTERIOR, DATA, ZERO, progress=False)
    found = isotherm.largest_step(anchored, isotherm.sghmc("auto", 1.0), DATA, **HALF)
    assert 0.5 < found < 4  # the curvature is 1, and hardly any noise is left


@pytest.fixture(name="cheap")
def _cheap(monkeypatch):
    """A search that finds 1e-5."""
    monkeypatch.setattr(largest_step, "surroundings", lambda run, rng, progress: (run, None, 1))
    monkeypatch.setattr(largest_step, "Trials", lambda *args: below(1e-5 * 1.0001)[0])
    monkeypatch.setattr(largest_step, "first_step", lambda run, forces: 1e-5)


@pytest.mark.parametrize("build", [isotherm.sgld, pytest.param(isotherm.mccadl, marks=pytest.mark.slow)])
@pytest.mark.filterwarnings("ignore::isotherm.VerdictWarning")  # 40 steps are too few for anything
def test_auto_becomes_a_number_before_the_run(cheap, build, tmp_path):
    settings = {"batch_size": n, "steps": 40, "thin": 1, "progress": False, "chains": 2}
    store = tmp_path / "run.zarr"
    tree = isotherm.sample(POSTERIOR, build("auto"), DATA, ZERO, **settings, store=store)
    h = tree.attrs["sampler_step_size"]
    assert 1e-5 / 1.2 < h <= 1e-5
    assert tree.attrs["step_size_found"] == "isotherm.largest_step, bias at most 0.1"
    assert tree.attrs["step_size_variance"] == 1.0
    same = isotherm.sample(POSTERIOR, build(h), DATA, ZERO, **settings)
    assert "step_size_found" not in same.attrs
    np.testing.assert_array_equal(tree["posterior"]["theta"], same["posterior"]["theta"])
    longer = isotherm.resume(store, POSTERIOR, DATA, steps=10, progress=False)
    assert longer.attrs["sampler_step_size"] == h
    assert longer.attrs["step_size_found"]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::isotherm.VerdictWarning")
def test_a_sampler_that_chooses_by_itself_is_left_to_do_so(cheap):
    settings = {"batch_size": n, "steps": 40, "thin": 1, "progress": False}
    tree = isotherm.sample(POSTERIOR, isotherm.eccadl(), DATA, ZERO, **settings)
    assert tree.attrs["sampler_step_size"] == "auto"
    assert "step_size_found" not in tree.attrs


def test_what_cannot_be_is_refused_in_words():
    with pytest.raises(ValueError, match=r"bound .*got 0"):
        isotherm.largest_step(POSTERIOR, isotherm.sgld("auto"), DATA, ZERO, n, bound=0)
    large = isotherm.Posterior(lambda theta, x: -0.5 * jnp.sum((theta - x) ** 2), lambda theta: 0.0 * theta[0])
    with pytest.raises(ValueError, match="1,500 parameters, and finding a step size needs d×d"):
        isotherm.largest_step(large, isotherm.sgld("auto"), np.zeros((10, 1), np.float32), jnp.zeros(1500), 5)
    with pytest.raises(TypeError, match="sampler must have a field step_size, got Still without one"):
        isotherm.largest_step(POSTERIOR, Still(), DATA, ZERO, n)


@jax.tree_util.register_dataclass
@largest_step.dataclasses.dataclass(frozen=True)
class Still:
    def init(self, key, position, noisy):
        raise NotImplementedError

    def step(self, key, state, noisy):
        raise NotImplementedError
