"""The page about a run: complete, escaped, small, and nothing fetched from anywhere, whatever the run is like."""

import re
from html import escape

import jax.numpy as jnp
import numpy as np
import pytest
import xarray

import isotherm
from isotherm.diagnostics.check import MomentErrors, Verdict, check_without_data
from isotherm.diagnostics.stein import SteinMoments, SteinTails
from isotherm.diagnostics.verdict import Line
from isotherm.report import html, plots, report

LARGEST = 2_000_000


def run(arrays, stats=None, **attributes):
    """Results as samplers make them, from arrays by (chain, draw, …)."""

    def dataset(named):
        return xarray.Dataset(
            {
                name: (["chain", "draw", *(f"{name}_{i}" for i in range(a.ndim - 2))][: a.ndim], a)
                for name, a in named.items()
            }
        )

    groups = {"posterior": dataset(arrays)} | ({"sample_stats": dataset(stats)} if stats else {})
    tree = xarray.DataTree.from_dict(groups)
    tree.attrs.update(attributes)
    return tree


def draws(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


OURS = {"sampler": "sgnht", "sampler_friction": 2.0, "steps": 1100, "steps_done": 1100, "burn_in": 100, "thin": 10}


def ours(chains=4, length=100, parameters=3, **attributes):
    stats = {
        "kinetic_temperature": 1 + 0.1 * draws(chains, length, seed=1),
        "friction": 2 + 0.1 * draws(chains, length, seed=2),
        "target_friction": np.full((chains, length), 2.0),
        "thermal_mass": np.full((chains, length), 3.0),
        "first_bad_step": np.full(chains, -1),
    }
    return run({"theta": draws(chains, length, parameters)}, stats, **OURS | attributes)


def moments(parameters):
    shift, error = 0.01 * draws(1, 1, parameters)[0, 0], np.full(parameters, 0.02)
    ratio = np.ones(parameters)
    ratio[0] = 7.5
    found = SteinMoments(shift, error, ratio, error, 0.01, 1.0, 0.01)
    names = tuple(f"theta[{i}]" for i in range(parameters))
    tails = SteinTails(0 * ratio, error, 0.0, 0.01)
    return MomentErrors(names, found, tails, *(np.full(parameters, bound) for bound in (0.15, 0.2, 0.5)))


@pytest.fixture
def rendered():
    """The test wants real pictures, which take time."""


@pytest.fixture(autouse=True)
def _quick(request, monkeypatch):
    if "rendered" not in request.fixturenames:
        monkeypatch.setattr(plots, "_png", lambda figure: b"\x89PNG")


def words(path):
    """The page, after what is true of every page."""
    text = path.read_text()
    assert len(text.encode()) < LARGEST
    assert not re.search(r'(src|href)="(?!data:)|<script|@import|url\(|https?:', text)
    assert text.count("<img ") == text.count('src="data:image/png;base64,')
    return re.sub(r"base64,[^\"]*", "", text)


@pytest.mark.usefixtures("rendered")
def test_the_page_has_every_part(tmp_path):
    lines = (Line("R-hat", True, "1.001", "1.01"), Line("mean", False, "off by 2", "0.1", "use isotherm.fit"))
    verdict = Verdict(lines, ("other modes",), 2.5, moments(3))
    tree = ours(name="plants", warnings="one thing\nanother thing", batch_size=50, population=2000)
    text = words(isotherm.report(tree, path=tmp_path / "report.html", verdict=verdict))
    parts = ["Verdict", "How it was made", "The worst parameters", "Traces", "Ranks", "Autocorrelation"]
    parts += ["Temperature and friction", "Mean and variance against the posterior", "Parameters"]
    assert re.findall(r"<h[23]>(.*?)</h[23]>", text) == parts
    assert "<title>Report of plants</title>" in text
    assert "Do not rely on these draws: mean." in text
    assert "use isotherm.fit" in text
    assert "Not checked: other modes. The check took 2.5 passes over the data." in text
    assert "<li>one thing</li><li>another thing</li>" in text
    assert "4 chains; 100 draws each; 3 parameters; batches of 50 of 2,000 rows; 1,100 steps" in text
    assert "0 means, 1 variances and 0 tails of 3 parameters; furthest off is the variance of theta[0]" in text
    captions = [report.TRACE, report.AUTOCORRELATION, report.TEMPERATURE, report.FRICTION]
    captions += [report.SHIFT, report.VARIANCE, report.FOREST]
    assert all(escape(caption) in text for caption in captions)
    assert text.count("<figcaption>") == text.count("<figure>") == len(captions) + 1
    assert text.count("<img ") == 3 * 3 + 2 + 2 + 1


def test_with_posterior_and_data_the_run_is_checked(tmp_path):
    x = draws(500, 1)[:, 0]
    posterior = isotherm.Posterior(lambda theta, e: -0.5 * (e - theta) ** 2, lambda theta: -0.5 * theta**2)
    exact = x.sum() / 501 + draws(4, 300, seed=3) / np.sqrt(501, dtype=np.float32)
    tree = run({"theta": exact})
    text = words(isotherm.report(tree, posterior, jnp.asarray(x), tmp_path / "report.html", progress=False))
    assert "Nothing speaks against these draws." in text
    assert "variance ratio" in text
    assert "passes over the data" in text


def test_without_them_the_page_says_what_is_not_checked(tmp_path):
    text = words(isotherm.report(ours(), path=tmp_path / "report.html"))
    assert "how far mean, variance and tails are off, which takes the posterior and the data" in text
    assert "isotherm.report(tree, posterior, data)" in text
    assert "passes over" not in text


def test_one_without_the_other_is_refused(tmp_path):
    with pytest.raises(ValueError, match="posterior and data must be given together, and posterior is missing"):
        isotherm.report(ours(), data=jnp.zeros(3), path=tmp_path / "report.html")
    assert not (tmp_path / "report.html").exists()


def test_another_sampler_and_one_chain(tmp_path):
    text = words(isotherm.report(run({"mu": draws(1, 200)}), path=tmp_path / "report.html"))
    assert "1 chain; 200 draws each; 1 parameter." in text
    assert "both halves of the chain" in text
    assert "Temperature" not in text
    assert "all settings" not in text


def test_a_diverged_chain_is_named_and_left_out(tmp_path):
    tree = ours()
    tree["posterior"]["theta"].values[2, 50:] = np.nan
    tree["sample_stats"]["kinetic_temperature"].values[2, 50:] = np.nan
    tree["sample_stats"]["first_bad_step"].values[2] = 612
    text = words(isotherm.report(tree, path=tmp_path / "report.html"))
    assert "Chain 2 diverged at step 612; the pictures leave it out." in text
    assert "Do not rely on these draws: divergences" in text
    assert "<img " in text


def test_draws_that_are_not_finite_are_told_without_statistics(tmp_path):
    values = draws(2, 50)
    values[1, 20] = np.inf
    text = words(isotherm.report(run({"mu": values}), path=tmp_path / "report.html"))
    assert "Chain 1 has draws that are not finite" in text


@pytest.mark.parametrize(("broken", "why"), [("all", "every chain diverged"), ("short", "there are 3 draws a chain")])
def test_where_there_is_nothing_to_draw_it_says_why(tmp_path, broken, why):
    values = np.full((2, 50), np.nan, np.float32) if broken == "all" else draws(2, 3)
    text = words(isotherm.report(run({"mu": values}), path=tmp_path / "report.html"))
    assert f"There are none: {why}." in text
    assert "<img " not in text


def test_what_never_moves_is_not_the_worst(tmp_path):
    text = words(isotherm.report(run({"a": np.ones((2, 50)), "b": draws(2, 50)}), path=tmp_path / "report.html"))
    assert re.search(r"fewest effective draws, of 100 draws: b \(\d+\)\.", text)
    text = words(isotherm.report(run({"a": np.ones((2, 50))}), path=tmp_path / "report.html"))
    assert "No parameter moves" in text


@pytest.mark.usefixtures("rendered")
def test_a_thousand_parameters(tmp_path, monkeypatch):
    def stand_in(values):  # ArviZ takes some milliseconds a parameter
        ess = np.arange(values.shape[2], 0, -1.0)
        return report.Convergence(ess, ess, np.ones_like(ess))

    monkeypatch.setattr(report, "convergence", stand_in)
    tree = run({"theta": draws(4, 200, 1000)})
    verdict = Verdict((), (), 0.0, moments(1000))
    text = words(isotherm.report(tree, path=tmp_path / "report.html", verdict=verdict))
    assert "theta[999] (1), theta[998] (2), theta[997] (3)." in text
    assert "The 50 parameters with the fewest effective draws." in text


NASTY = "<b onclick='x()'>&\"$x_1$ \N{SNOWMAN}"


def test_names_and_attributes_are_escaped(tmp_path):
    verdict = Verdict((Line(NASTY, False, NASTY, NASTY, NASTY),), (NASTY,), 0.0, moments(1)._replace(names=(NASTY,)))
    tree = run({NASTY: draws(2, 50)}, name=NASTY, sampler=NASTY, warnings=NASTY, **{NASTY: NASTY})
    text = words(isotherm.report(tree, path=tmp_path / "report.html", verdict=verdict))
    assert "<b onclick" not in text
    assert "&lt;b onclick=&#x27;x()&#x27;&gt;&amp;&quot;$x_1$" in text


@pytest.mark.usefixtures("rendered")
def test_pictures_take_names_as_they_are():
    for name in ("$\\frac{", "_hidden", "a\nb", "x" * 200, ""):
        assert plots.trace(name, draws(2, 20), np.arange(20), "step").startswith(b"\x89PNG")
        assert plots.forest([name, name], draws(2, 20, 2))[0].startswith(b"\x89PNG")
    assert plots.short("x" * 200) == f"{'x' * 13}…{'x' * 13}"
    assert plots.short("weights[3, 4]") == "weights[3, 4]"


@pytest.mark.parametrize("parameters", [3, 60])
@pytest.mark.parametrize("lowest", [0.5, -0.5])
def test_numbers_on_a_logarithmic_axis_are_plain(monkeypatch, parameters, lowest):
    ratios, errors = np.linspace(lowest, 200, parameters), np.full(parameters, 0.1)
    names, figures = [f"theta[{i}]" for i in range(parameters)], []
    monkeypatch.setattr(plots, "_png", figures.append)
    plots.against_level("variance ratio", names, ratios, errors, 1, 2 * errors)
    (axes,) = figures[0].axes
    figures[0].canvas.draw()
    labels = [label.get_text() for label in (axes.get_xticklabels() if parameters == 3 else axes.get_yticklabels())]
    assert {"1", "10", "100"} <= set(labels)
    assert not any("$" in label for label in labels)


def test_scales_that_differ_are_shown_apart():
    together, apart = draws(2, 50, 2), draws(2, 50, 2) * np.array([1.0, 1e4])
    assert not plots.forest(["a", "b"], together)[1]
    assert plots.forest(["a", "b"], apart)[1]


def test_the_cheap_verdict_has_every_line_the_run_allows():
    names = [line.name for line in check_without_data(ours()).table]
    assert names == ["divergences", "R-hat", "effective draws", "kinetic temperature", "friction"]
    assert [line.name for line in check_without_data(run({"mu": draws(2, 50)})).table] == names[1:3]


def test_a_table_without_a_title_has_no_heading():
    assert "<h3>" not in html.table(html.Table("", ["a"], [[html.Entry("1")]]))
