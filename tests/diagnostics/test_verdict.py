"""What a run says against itself: each sentence is read once, and once must not be said."""

import numpy as np
import xarray

from isotherm.diagnostics.convergence import Convergence
from isotherm.diagnostics.verdict import (
    LENIENT,
    STRICT,
    WARNING_DRAWS,
    WARNING_ENTRIES,
    Line,
    converged,
    doubts,
    entries,
    entry_of,
    shortfall,
)
from isotherm.targets.parameters import entry

RNG = np.random.default_rng(0)
RIGHT = RNG.standard_normal((4, 500, 3)).astype(np.float32)


def tree(theta=RIGHT, stats=None, **attributes):
    """Results as a run returns them; every statistic is one number for each chain and draw."""
    groups = {"posterior": xarray.Dataset({"theta": (["chain", "draw", "theta_dim_0"], theta)})}
    if stats is not None:
        groups["sample_stats"] = xarray.Dataset({name: (["chain", "draw"], values) for name, values in stats.items()})
    made = xarray.DataTree.from_dict(groups)
    made.attrs.update(attributes)
    return made


def around(mean, deviation=0.1, draws=500):
    return np.random.default_rng(1).normal(mean, deviation, (4, draws)).astype(np.float32)


def said(*arguments, **settings):
    return list(doubts(tree(*arguments, **settings)))


def test_right_draws_are_left_in_peace():
    stats = {"kinetic_temperature": around(1), "friction": around(1), "expm_error": around(1e-4, 1e-5)}
    assert said() == said(stats=stats, sampler="eccadl") == []


def test_r_hat():
    apart = RIGHT + np.array([0, 0, 1, 1], np.float32)[:, None, None] * np.array([0, 2, 0], np.float32)
    sentences = said(apart)
    assert "R-hat 1." in sentences[0]
    assert (
        ", largest for theta[1] (bound: 1.05): run longer, or drop more as burn-in; if chains stay apart, there may be "
        "several modes" in sentences[0]
    )
    assert not any("R-hat" in sentence for sentence in said(RIGHT[:, :200]))


def test_one_chain_may_be_good():
    """R-hat is then that of its halves."""
    alone = RIGHT.reshape(1, 2000, 3)
    assert said(alone) == []
    assert all(line.good for line in converged(alone, ["a", "b", "c"], STRICT))
    drifting = alone + np.linspace(0, 2, 2000, dtype=np.float32)[None, :, None]
    assert any("R-hat 1." in sentence for sentence in said(drifting))


def test_effective_draws():
    walk = RIGHT.copy()
    walk[..., 2] = np.cumsum(walk[..., 2], axis=1)
    sentences = [sentence for sentence in said(walk) if "effective draws" in sentence]
    assert len(sentences) == 1
    assert "fewest for theta[2] (bound: at least 100): run longer" in sentences[0]
    assert not any("effective draws" in sentence for sentence in said(RIGHT[:, :60]))


def test_kinetic_temperature():
    (sentence,) = said(stats={"kinetic_temperature": around(1.5)})
    assert "kinetic temperature 1.499 ± 0.003, " in sentence
    assert "should be 1 (bound: 0.105 off): the noise of the gradients is not removed" in sentence
    assert "isotherm.fit" in sentence
    assert said(stats={"kinetic_temperature": around(1.05)}) == []
    assert said(stats={"kinetic_temperature": around(0.5)}, sampler_temperature=0.5) == []
    assert "should be 0.5" in said(stats={"kinetic_temperature": around(1)}, sampler_temperature=0.5)[0]


def test_a_temperature_that_is_not_known_well_is_no_reason():
    """Off by 20 %, with an error of 40 %: 4 chains of 5 draws."""
    noisy = np.array([[0.1, 3.0, 0.5, 1.8, 0.6]] * 4, np.float32)
    assert "kinetic temperature" not in " ".join(said(RIGHT[:, :5], stats={"kinetic_temperature": noisy}))


def test_the_error_of_a_hot_run_does_not_excuse_it():
    """Two of four chains at 3 and two at 1: 2 ± 0.2 by blocks, of which a run at 1 would have half."""
    hot = np.repeat(np.array([1.0, 3.0, 1.0, 3.0], np.float32)[:, None], 500, axis=1)
    (sentence,) = said(stats={"kinetic_temperature": hot})
    assert "2.000 ± 0.180, should be 1 (bound: 0.369 off)" in sentence


def thermostat(friction, A=1.0, thermal_mass=3.0):
    """What a thermostat records."""
    stats = {"friction": friction, "target_friction": A, "thermal_mass": thermal_mass}
    return {name: around(value, 0.1 if name == "friction" else 0) for name, value in stats.items()}


def test_friction():
    (sentence,) = said(stats=thermostat(34))
    assert "friction 34.0" in sentence
    assert "should be 1 (bound: 4.89 off): there is noise that the sampler does not see" in sentence  # 2 + 5/√3
    assert said(stats=thermostat(3)) == []
    assert said(stats=thermostat(34, A=30)) == []
    (low,) = said(stats=thermostat(-80, A=10))
    assert "should be 10" in low


def test_friction_has_the_thermal_mass_that_the_sampler_had():
    """ξ has the standard deviation 1/√(βμ), whatever the number of parameters: 2 + 5/√0.01 = 52, 2 + 5·√(4/250) = 2.6.
    With μ = 3, the number of parameters, the second would have passed."""
    assert said(stats=thermostat(34, thermal_mass=0.01)) == []
    (sentence,) = said(stats=thermostat(5, thermal_mass=250), sampler_temperature=4.0)
    assert "bound: 2.63 off" in sentence


def test_a_friction_that_is_no_thermostats_has_no_line():
    assert said(stats={"friction": around(34)}) == []


def test_krylov_error():
    error = around(1e-4, 0)
    error[2, 7] = 0.2
    (sentence,) = said(stats={"expm_error": error})
    assert sentence.endswith("Krylov error 0.2 (bound: 0.01): raise rank, or use a smaller step_size")
    assert said(stats={"expm_error": np.zeros((4, 500), np.float32)}) == []


def test_what_never_moves_is_not_asked_for_draws():
    still = RIGHT.copy()
    still[..., 1] = 7
    assert said(still) == []
    assert said(np.full((2, 50, 1), 7, np.float32)) == []


def test_chains_that_each_stand_still_elsewhere_are_said():
    stuck = np.broadcast_to(np.array([0, 1, 2, 3], np.float32)[:, None, None], (4, 50, 1)) + 0
    assert any("R-hat inf" in sentence for sentence in said(stuck))


def test_diverged_and_hardly_begun_runs_have_warnings_of_their_own():
    broken = RIGHT.copy()
    broken[1, 300:] = np.nan
    assert said(broken) == []
    assert said(RIGHT[:, :3]) == []


def test_draws_that_are_not_finite_are_worth_nothing():
    broken = RIGHT.copy()
    broken[0, :, 1] = np.nan
    r_hat, ess = converged(broken, ["a", "b", "c"], STRICT)
    assert (r_hat.good, r_hat.found) == (False, "inf, largest for b")
    assert (ess.good, ess.found) == (False, "0, fewest for b")


def test_too_few_draws_to_look_at_are_a_bad_line():
    (line,) = converged(RIGHT[:, :3], ["a", "b", "c"], STRICT)
    assert not line.good
    assert str(line) == "BAD  effective draws: 3 draws (bound: at least 400)\n     run longer"


def test_bounds_of_a_verdict_are_stricter():
    few = RIGHT[:, :70]  # 280 effective draws
    assert all(line.good for line in converged(few, ["a", "b", "c"], LENIENT))
    assert [line.name for line in converged(few, ["a", "b", "c"], STRICT) if not line.good][-1] == "effective draws"


def test_a_line_is_words():
    line = Line("mass", True, "2.0", "3", "eat less")
    assert str(line) == "ok   mass: 2.0 (bound: 3)"
    assert line.sentence == "mass 2.0 (bound: 3): eat less"
    assert str(line._replace(good=False)) == "BAD  mass: 2.0 (bound: 3)\n     eat less"


def test_entries_have_names():
    assert (entry("b", (), 0), entry("W", (2, 3), 4), entry("v", (5,), 4)) == ("b", "W[1, 1]", "v[4]")
    arrays = {"b": (["chain", "draw"], np.zeros((1, 2))), "W": (["chain", "draw", "i", "j"], np.zeros((1, 2, 2, 3)))}
    both = xarray.DataTree.from_dict({"posterior": xarray.Dataset(arrays)})
    assert (entry_of(both, 0), entry_of(both, 1), entry_of(both, 6)) == ("b", "W[0, 0]", "W[1, 2]")


def lacking(ess, r_hat):
    return shortfall(tree(), Convergence(np.array(ess), np.array(ess) + 1, np.array(r_hat)), 400.0)


def test_what_is_missing_to_a_goal():
    assert lacking([500.0, 210.4, 900.0], [1.0, 1.002, 1.0]) == (
        "210 effective draws of theta[1], where 400 were asked for"
    )
    assert lacking([500.0, 399.0, 900.0], [1.0, 1.002, 1.024]) == (
        "399 effective draws of theta[1], where 400 were asked for and R-hat 1.024 of theta[2], where 1.01 is the bound"
    )
    assert lacking([500.0, 400.0, 900.0], [1.0, 1.002, 1.024]).startswith("R-hat 1.024 of theta[2], where")


def test_a_goal_stands_for_r_hat_and_effective_draws_but_not_for_the_rest():
    few, hot = RIGHT[:, :60], {"kinetic_temperature": around(1.5, draws=60)}
    assert list(doubts(tree(few), "")) == []
    assert list(doubts(tree(few), "it is short")) == ["do not rely on this run yet: it is short"]
    (sentence,) = doubts(tree(few, hot), "")
    assert "kinetic temperature" in sentence
    assert list(doubts(tree(np.full((2, 9, 3), np.nan)), "")) == []  # all diverged: said elsewhere


def test_large_runs_are_looked_at_in_part():
    variables = {"a": (["chain", "draw"], np.zeros((1, 2 * WARNING_DRAWS + 1), np.float32))}
    wide = np.zeros((1, 2 * WARNING_DRAWS + 1, 20), np.float32) + np.arange(20, dtype=np.float32)
    variables["b"] = (["chain", "draw", "i"], wide)
    variables["c"] = (["chain", "draw", "i"], wide)
    results = xarray.DataTree.from_dict({"posterior": xarray.Dataset(variables)})
    names, draws = entries(results, np.array([0, 3, 40]), WARNING_DRAWS)
    assert names == ["a", "b[2]", "c[19]"]
    assert draws.shape == (1, 2667, 3)  # every third
    np.testing.assert_array_equal(draws[0, 5], [0, 2, 19])


def test_a_single_parameter_beside_a_large_array_is_looked_at():
    """It used to be only the first 256 entries: of a hierarchy with 300 effects, never the scale that follows them."""
    effects = RNG.standard_normal((4, 500, WARNING_ENTRIES + 44)).astype(np.float32)
    stuck = np.repeat(np.arange(4, dtype=np.float32)[:, None], 500, axis=1) + RIGHT[..., 0]
    found = tree()
    found["posterior"] = xarray.DataTree(
        xarray.Dataset({"effects": (["chain", "draw", "group"], effects), "log_tau": (["chain", "draw"], stuck)})
    )
    assert "largest for log_tau" in next(doubts(found))
