"""`isotherm.check`: what is right passes, what is wrong is named, and what was not looked at is said."""

from itertools import pairwise

import jax.numpy as jnp
import numpy as np
import pytest
import xarray

import isotherm
from isotherm.diagnostics import check as checking
from isotherm.diagnostics.check import by_chance
from isotherm.diagnostics.stein import SteinMoments, SteinTails
from isotherm.diagnostics.verdict import r_hat_by_chance

N, D = 1000, 5
RNG = np.random.default_rng(0)
X = (RNG.standard_normal((N, D)) * [1, 3, 0.3, 1, 1]).astype(np.float32)
DATA = {"x": X, "y": (X @ np.linspace(-1, 1, D) + RNG.standard_normal(N)).astype(np.float32)}
PRECISION = X.T.astype(np.float64) @ X + np.eye(D)
MEAN = np.linalg.solve(PRECISION, X.T.astype(np.float64) @ DATA["y"])
SPREAD = np.linalg.inv(np.linalg.cholesky(PRECISION)).T  # θ = MEAN + SPREAD z
NAMES = [f"theta[{i}]" for i in range(D)]


def log_likelihood(theta, example):
    return -0.5 * (example["y"] - example["x"] @ theta) ** 2


def log_prior(theta):
    return -0.5 * jnp.sum(theta**2)


POSTERIOR = isotherm.Posterior(log_likelihood, log_prior)


def white(seed=0, draws=500):
    return np.random.default_rng(seed).standard_normal((4, draws, D))


def tree(z, **stats):
    """Draws of linear regression, whose posterior is a Gaussian, as any sampler's."""
    return labelled({"theta": MEAN + z @ SPREAD.T}, **stats)


def labelled(arrays, **stats):
    def dataset(arrays):
        dims = {name: ["chain", "draw", *(f"{name}_{i}" for i in range(a.ndim - 2))] for name, a in arrays.items()}
        return xarray.Dataset({name: (dims[name][: a.ndim], a) for name, a in arrays.items()})

    single = {name: np.asarray(array, np.float32) for name, array in arrays.items()}
    return xarray.DataTree.from_dict(
        {"posterior": dataset(single)} | ({"sample_stats": dataset(stats)} if stats else {})
    )


def check(draws, **settings):
    return isotherm.check(draws, POSTERIOR, DATA, progress=False, **settings)


def bad(verdict):
    return [line.name for line in verdict.table if not line.good]


def line(verdict, name):
    (found,) = [line for line in verdict.table if line.name == name]
    return found


@pytest.fixture(scope="module")
def right():
    return check(tree(white()))


def test_a_fit_is_judged_by_the_effective_draws_that_it_was_asked_for():
    few = tree(white()[:, :60])
    assert str(line(check(few), "effective draws")).startswith("BAD")
    few.attrs["fit_ess"] = 100.0
    assert "at least 100" in (shown := str(line(check(few), "effective draws")))
    assert shown.startswith("ok")


def test_exact_draws_are_accepted(right):
    assert right
    assert bad(right) == []
    assert [each.name for each in right.table] == [
        "R-hat",
        "effective draws",
        "mean",
        "variance",
        "variance of each parameter",
        "tails",
    ]


def test_it_prints(right):
    first, *lines = str(right).splitlines()
    assert first == "nothing speaks against these draws"
    assert [words[:5] for words in lines[:6]] == ["ok   "] * 6
    assert lines[-2] == "not checked: modes that no chain has visited"
    assert lines[-1] == f"it took {right.passes:.1f} passes over the data"
    # Curvature, its slope, leverages, gradient; and 64 rows or more for each of 1,000 draws.
    assert right.passes >= 4 + 64


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_other_draws_rows_and_seeds_are_accepted(seed):
    assert check(tree(white(seed + 1)), seed=seed)


def test_same_seed_same_words(right):
    assert str(check(tree(white()))) == str(right)


def test_a_mean_that_is_off():
    verdict = check(tree(white() + 0.3))
    assert not verdict
    assert bad(verdict) == ["mean"]
    words = str(verdict)
    assert words.startswith("do not rely on these draws: mean\n")
    assert "BAD  mean: off by 0.3" in words
    assert "\n     run longer; if it stays, the sampler is biased: use isotherm.fit, or a smaller step_size\n" in words


def test_the_mean_of_one_parameter_that_is_off_has_its_name():
    """0.3 of its standard deviations, across the others: 0.3/√5 = 0.13 over all."""
    along = SPREAD[3] / np.linalg.norm(SPREAD[3])
    words = str(line(check(tree(white() + 0.3 * along)), "mean"))
    assert "BAD  mean: off by 0.1" in words
    assert "; theta[3] by +0.3" in words


def test_a_variance_that_is_off():
    verdict = check(tree(np.sqrt(1.3) * white()))
    assert "variance" in bad(verdict)
    words = str(line(verdict, "variance"))
    assert words.startswith("BAD  variance: 1.296 ± 0.018 ")
    assert "times what it should be (bound: " in words
    assert "too hot or not mixed: use isotherm.fit or isotherm.eccadl, larger batches" in words


@pytest.mark.parametrize("T", [0.1, 2.0])
def test_draws_at_a_temperature_are_compared_with_the_posterior_at_it(T):
    """π^(1/T) has T times the variance; what is off is in its standard deviations."""

    def judged(z):
        draws = tree(np.sqrt(T) * z)
        draws.attrs["sampler_temperature"] = T
        return check(draws)

    verdict = judged(white())
    assert verdict, str(verdict)
    assert f" times what it should be at temperature {T:g} (bound: " in str(line(verdict, "variance"))
    assert 0.95 < verdict.moments.found.trace < 1.05
    wide = judged(np.sqrt(1.3) * white())
    assert str(line(wide, "variance")).startswith("BAD  variance: 1.29")
    assert "BAD  mean: off by 0.3" in str(judged(white() + 0.3))
    assert "variance" in bad(check(tree(np.sqrt(T) * white())))


def test_a_variance_of_1_2_is_found_with_more_draws():
    """5 parameters, 2,000 draws of which 1,000 are looked at: the trace is known to 2 %."""
    assert bad(check(tree(np.sqrt(1.2) * white())))


@pytest.mark.parametrize("parameter", [1, 4])
def test_one_parameter_that_is_too_wide_has_its_name(parameter):
    along = SPREAD[parameter] / np.linalg.norm(SPREAD[parameter])
    z = white()
    words = str(line(check(tree(z + 0.6 * (z @ along)[..., None] * along)), "variance of each parameter"))
    assert words.startswith("BAD  variance of each parameter: 2.")
    assert f"times what it should be for theta[{parameter}] (bound: " in words
    assert "run longer; if it stays, use isotherm.fit, or a smaller step_size" in words


def test_tails_that_are_too_heavy_for_a_gaussian():
    """Student's t of 5 degrees of freedom, of the posterior's variance: R-hat, mean and variance are right."""
    t = np.random.default_rng(0).standard_t(5, (4, 500, D)) / np.sqrt(5 / 3)
    verdict = check(tree(t))
    assert bad(verdict) == ["tails"]
    words = str(line(verdict, "tails"))
    assert words.startswith("BAD  tails: a kurtosis 1.2")
    assert " too large on average; theta[" in words
    assert "the variance may be right all the same: use isotherm.fit, a smaller step_size, or run longer" in words


def test_tails_that_are_too_light():
    verdict = check(tree(np.random.default_rng(0).uniform(-np.sqrt(3), np.sqrt(3), (4, 500, D))))
    assert bad(verdict) == ["tails"]
    assert "BAD  tails: a kurtosis 1.8" in str(verdict)
    assert " too small on average; theta[" in str(verdict)


def test_the_tails_of_one_parameter_have_its_name():
    """θ₂ alone: a tenth of its draws is √11 times as wide as the rest, the variance is right."""
    along = SPREAD[2] / np.linalg.norm(SPREAD[2])
    z, scale = white(), np.where(np.random.default_rng(1).random((4, 500)) < 0.1, np.sqrt(5.5), np.sqrt(0.5))
    verdict = check(tree(z + ((scale - 1) * (z @ along))[..., None] * along))
    assert bad(verdict) == ["tails"]
    assert "; theta[2] by +" in str(line(verdict, "tails"))


def test_nothing_good_is_said_of_a_variance_that_is_off():
    t = np.random.default_rng(0).standard_t(5, (4, 500, D))
    verdict = check(tree(t))
    assert {"variance", "tails"} <= set(bad(verdict))
    assert str(line(verdict, "tails")).endswith("\n     use isotherm.fit, a smaller step_size, or run longer")


def test_chains_that_differ():
    z = white()
    z[2] += 2
    verdict = check(tree(z))
    assert {"R-hat", "effective draws"} <= set(bad(verdict))


def test_too_few_draws():
    verdict = check(tree(white(draws=60)))
    assert "effective draws" in bad(verdict)
    assert "(bound: at least 400)\n     run longer" in str(line(verdict, "effective draws"))
    few = check(tree(white(draws=3)))
    assert bad(few) == ["effective draws"]
    assert "mean, variance and tails: there are too few draws" in few.not_checked
    assert few.passes == 0


def test_divergences():
    """Chains that diverged are left out of the moments; those that are left are enough."""
    draws = tree(white(), first_bad_step=np.array([-1, -1, -1, -1]))
    assert str(line(check(draws), "divergences")) == "ok   divergences: 0 chains (bound: none)"
    z = white()
    z[1, 100:] = np.nan
    verdict = check(tree(z, first_bad_step=np.array([-1, 700, -1, -1])))
    assert "divergences" in bad(verdict)
    assert str(line(verdict, "divergences")).startswith("BAD  divergences: 1 chains (bound: none)\n     use a smaller")
    assert line(verdict, "mean").good
    assert line(verdict, "variance").good


def test_all_chains_diverged():
    verdict = check(tree(np.full((4, 50, D), np.nan), first_bad_step=np.array([1, 1, 1, 1])))
    assert "divergences" in bad(verdict)
    assert "mean, variance and tails: there are too few draws" in verdict.not_checked


@pytest.mark.parametrize(
    ("name", "good", "wrong", "words"),
    [
        ("kinetic_temperature", 1.02, 1.2, "kinetic temperature: 1.200 ± 0.000, should be 1 (bound: 0.050 off)"),
        ("friction", 1.5, 34.0, "friction: 34.00, should be 1 (bound: 3.24 off)"),
        ("expm_error", 1e-4, 0.05, "Krylov error: 0.05 (bound: 0.01)"),
    ],
)
def test_statistics_of_the_run(name, good, wrong, words):
    shown = words.split(":")[0]
    stats = {"target_friction": np.ones((4, 500)), "thermal_mass": np.full((4, 500), float(D))}
    assert line(check(tree(white(), **stats, **{name: np.full((4, 500), good)})), shown).good
    verdict = check(tree(white(), **stats, **{name: np.full((4, 500), wrong)}))
    assert bad(verdict) == [shown]
    assert f"BAD  {words}" in str(verdict)


def test_more_parameters_than_matrices_are_made_for():
    draws = labelled({"theta": np.random.default_rng(0).standard_normal((2, 300, 1025))})
    wide = isotherm.Posterior(lambda theta, x: -jnp.sum((theta - x) ** 2), lambda theta: jnp.sum(theta) * 0)
    verdict = isotherm.check(draws, wide, np.zeros((5, 1025), np.float32), progress=False)
    assert "mean, variance and tails: they need d×d matrices, for up to 1,024 parameters" in verdict.not_checked
    assert [each.name for each in verdict.table] == ["R-hat", "effective draws"]
    assert "not checked: modes that no chain has visited; mean, variance and tails: they need" in str(verdict)


@pytest.mark.slow
def test_parameters_in_a_dict_a_list_or_a_nest():
    theta = MEAN + white() @ SPREAD.T
    nests = {
        "dict": ({"a": theta[..., 0], "b": theta[..., 1:]}, lambda p: [p["a"][None], p["b"]]),
        "list": ({"0": theta[..., :2], "1": theta[..., 2:]}, lambda p: p),
        "nest": (
            {"in.0": theta[..., :1], "in.1": theta[..., 1:3], "out": theta[..., 3:]},
            lambda p: [*p["in"], p["out"]],
        ),
    }
    for arrays, parts in nests.values():
        posterior = isotherm.Posterior(
            lambda p, e, parts=parts: log_likelihood(jnp.concatenate(parts(p)), e),
            lambda p, parts=parts: log_prior(jnp.concatenate(parts(p))),
        )
        assert isotherm.check(labelled(arrays), posterior, DATA, progress=False)


def test_init_is_needed_for_other_parameters():
    """A tuple's parts have the names of a list's; init says what they are, and must have the same names."""
    theta = MEAN + white() @ SPREAD.T
    arrays = {"0": theta[..., :2], "1": theta[..., 2:]}

    def joined(params):
        assert isinstance(params, tuple)
        return jnp.concatenate(params)

    posterior = isotherm.Posterior(lambda p, e: log_likelihood(joined(p), e), lambda p: log_prior(joined(p)))
    init = (np.zeros(2, np.float32), np.zeros(D - 2, np.float32))
    assert isotherm.check(labelled(arrays), posterior, DATA, init=init, progress=False)
    assert isotherm.check(labelled(arrays), posterior, DATA, init=lambda key: init, progress=False)  # as of a run
    with pytest.raises(ValueError, match="the draws have 0, 1, and init has theta; give init= as in the run"):
        isotherm.check(labelled(arrays), posterior, DATA, init=np.zeros(D, np.float32), progress=False)


def test_a_seed_is_a_number():
    with pytest.raises((TypeError, ValueError), match="seed"):
        check(tree(white()), seed=-1)


@pytest.mark.slow
def test_a_run_of_ours_is_accepted_and_one_that_is_heated_is_not():
    settings = {"steps": 40_000, "thin": 40, "chains": 4, "progress": False}
    init = np.zeros(D, np.float32)
    exact = isotherm.sample(POSTERIOR, isotherm.eccadl(), DATA, init, batch_size=N, replace=False, **settings)
    assert check(exact), str(check(exact))
    heated = isotherm.sample(POSTERIOR, isotherm.sghmc(0.003, friction=30.0), DATA, init, batch_size=20, **settings)
    verdict = check(heated)
    assert {"kinetic temperature", "variance"} <= set(bad(verdict))


def moments(**changed):
    zero = np.zeros(3)
    settings = {"shift": zero, "shift_error": zero, "variance": zero + 1, "variance_error": zero}
    return SteinMoments(**(settings | {"distance": 0.0, "trace": 1.0, "trace_error": 0.0} | changed))


def test_bounds_of_the_mean():
    names = ["a", "b", "c"]
    assert checking._shift(checking.bounded(names, moments(distance=0.1), tails(), 4.0)).good
    assert not checking._shift(checking.bounded(names, moments(distance=0.101), tails(), 4.0)).good
    one = np.array([0, 0.16, 0])
    assert not checking._shift(checking.bounded(names, moments(shift=one), tails(), 4.0)).good
    assert checking._shift(
        checking.bounded(names, moments(shift=one, shift_error=np.array([0, 0.05, 0])), tails(), 4.0)
    ).good
    # Not the largest shift, but the one that its error does not explain.
    mixed = moments(shift=np.array([0.5, 0.2, 0]), shift_error=np.array([0.2, 0.01, 0]))
    assert "b by +0.20" in str(checking._shift(checking.bounded(names, mixed, tails(), 4.0)))


def test_bounds_of_the_variance():
    assert checking._trace(moments(trace=1.07, trace_error=0.01), 1.0).good
    assert not checking._trace(moments(trace=1.09, trace_error=0.01), 1.0).good
    assert not checking._trace(moments(trace=0.9, trace_error=0.01), 1.0).good
    # A variance that is 4 times too large has errors 4 times as large, which do not excuse it.
    hot = checking._trace(moments(trace=4.0, trace_error=1.2), 1.0)
    assert not hot.good
    assert str(hot).startswith("BAD  variance: 4.000 ± 1.200 times what it should be (bound: 95.0% off)")
    wide = moments(variance=np.array([1.9, 1.0, 1.0]), variance_error=np.array([0.25, 0.1, 0.1]))
    each = checking._variances(checking.bounded(["a", "b", "c"], wide, tails(), 4.0))
    assert not each.good
    assert "1.90 ± 0.25 times what it should be for a (bound: 52.6% off)" in str(each)
    names, narrow = ["a", "b", "c"], np.array([1, 1, 0.7])
    assert "for c" in str(checking._variances(checking.bounded(names, moments(variance=narrow), tails(), 4.0)))
    assert not checking._variances(checking.bounded(names, moments(variance=narrow), tails(), 4.0)).good
    assert checking._variances(
        checking.bounded(names, moments(variance=narrow, variance_error=np.full(3, 0.1)), tails(), 4.0)
    ).good


def tails(**changed):
    zero = np.zeros(3)
    return SteinTails(**({"excess": zero, "excess_error": zero, "mean": 0.0, "mean_error": 0.0} | changed))


def test_bounds_of_the_tails():
    def judged(**changed):
        return checking._tails(
            checking.bounded(["a", "b", "c"], moments(), tails(**changed), 4.0), variance_is_good=True
        )

    assert judged(mean=0.12, mean_error=0.01).good
    assert not judged(mean=0.14, mean_error=0.01).good
    assert not judged(mean=-0.14, mean_error=0.01).good
    one = np.array([0, -0.6, 0])
    assert not judged(excess=one).good
    assert judged(excess=one, excess_error=np.full(3, 0.16)).good
    assert str(judged(excess=one, mean=-0.05)) == (
        "BAD  tails: a kurtosis 0.05 ± 0.00 too small on average; b by -0.60 ± 0.00 (bound: 0.10, and 0.50 for one "
        "parameter)\n     the variance may be right all the same: use isotherm.fit, a smaller step_size, or run longer"
    )


def test_chance_grows_with_parameters_and_falls_with_blocks():
    for less, more in pairwise([by_chance(p, 32) for p in (1, 10, 100, 1000)]):
        assert less < more
    assert by_chance(1, 10**6) == pytest.approx(2.576, abs=1e-3)  # of a Gaussian, 1 % is beyond
    assert by_chance(1, 8) == pytest.approx(3.499, abs=1e-3)  # of Student's t with 7 degrees of freedom
    assert r_hat_by_chance(4, 1) < r_hat_by_chance(4, 100) < 1.05  # what a warning takes


@pytest.mark.long
def test_right_draws_are_hardly_ever_refused_and_errors_are_hardly_ever_missed():
    """40 sets: of those that are right, each of 5 lines refuses 1 % or so; 6 of 40 would be one in two hundred."""
    refused = sum(not check(tree(white(seed)), seed=seed) for seed in range(40))
    missed = sum(bool(check(tree(white(seed) + 0.2 * np.array([1, -1, 1, -1, 1])))) for seed in range(40))
    assert refused <= 5
    assert missed <= 2
