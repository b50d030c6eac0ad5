"""A tiny experiment from end to end: cells, reference, largest steps, tables, figures, report."""

import json

import numpy as np
import pytest

import isotherm
from isotherm.models import DRBM, Linear, Logistic
from isotherm.paper.datasets.linear_regression import ExactPosterior
from isotherm.paper.experiments import metrics, nuts, reproduce
from isotherm.paper.experiments.experiment import Experiment, Options
from isotherm.paper.experiments.tasks import METHODS, Materials, PaperTask

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 3)).astype(np.float32)
Y = np.where(RNG.random(300) < 1 / (1 + np.exp(-X @ [2.0, -1.0, 0.5])), 1, -1).astype(np.float32)
TRAIN, TEST = {"x": X[:200], "y": Y[:200]}, {"x": X[200:], "y": Y[200:]}


def logistic(data_dir=None):
    return Materials(Logistic(3, prior_variance=1.0), TRAIN, np.zeros(3, np.float32), TEST)


def linear(data_dir=None):
    x = X.astype(np.float64)
    covariance = np.linalg.inv(x.T @ x + np.eye(3) / 10)
    exact = ExactPosterior(covariance @ x.T @ Y.astype(np.float64), covariance)
    return Materials(Linear(3), {"x": X, "y": Y}, np.zeros(3, np.float32), exact=exact)


def drbm(data_dir=None):
    model = DRBM(3, 4, 2)
    labels = {
        name: {"x": part["x"], "y": (part["y"] > 0).astype(np.int32)} for name, part in (("a", TRAIN), ("b", TEST))
    }
    return Materials(model, labels["a"], model.init, labels["b"])


def task(load, **more):
    settings = {"step_sizes": (0.02, 5.0), "batch_size": 20, "passes": 40.0, "quick_passes": 20.0, "seeds": 2}
    return PaperTask("tiny", "a tiny task", load, **settings | more)


@pytest.fixture
def unchecked(monkeypatch):
    """Without `isotherm.check`, of which other tests know (test_metrics.py)."""
    monkeypatch.setattr(metrics, "verdict", lambda *_: {})


@pytest.fixture
def tiny(monkeypatch):
    """Puts an experiment in the place of `reproduce mnist`."""

    def place(curve, *tasks):
        experiment = Experiment("mnist", "Tiny", tasks, curve)
        monkeypatch.setattr(reproduce, "experiment", lambda name: experiment)

    return place


def run(out, **options):
    ticks, told = [], []
    written = reproduce.reproduce(["mnist"], Options(**options), out, lambda *tick: ticks.append(tick), told.append)
    return json.loads(written[0].read_text()), ticks, told


@pytest.mark.parametrize("methods", [("mccadl", "ccadl"), pytest.param(METHODS, marks=pytest.mark.slow)], ids=len)
def test_a_classifier_end_to_end(tmp_path, tiny, methods):
    tiny("log_likelihood", task(logistic, reference_draws=100, small_step=0.01, methods=methods))
    cells, ticks, _ = run(tmp_path, quick=True)
    kinds = [cell["kind"] for cell in cells]
    assert kinds.count("cell") == 2 * 2 * 2 * len(methods)
    assert kinds.count("largest_step") == len(methods)
    assert ticks[-1][:2] == (len(cells), len(cells))
    for cell in cells:
        assert {"experiment", "dataset", "sampler", "step_size", "friction", "seed", "metrics"} < set(cell)
        assert {"first_bad_step", "seconds", "settings"} < set(cell)
    (truth,) = [cell["metrics"] for cell in cells if cell["kind"] == "reference"]
    by_cell = {(c["sampler"], c["step_size"], c["friction"], c["seed"]): c for c in cells}
    good = by_cell["mccadl", 0.02, 1.0, 0]
    assert set(metrics.CLASSIFIER) | {"variance_ratio", "mean_error"} | set(metrics.CHECKED) == set(good["metrics"])
    assert good["metrics"]["checked_variance"] == good["check"]["checked_variance"] > 0
    assert "effective draws" in good["check"]["bad"]
    assert good["check"]["passes"] > 0
    assert good["metrics"]["expected_log_loss"] == pytest.approx(truth["expected_log_loss"], rel=0.2)
    assert good["curves"]["passes"][-1] == 20
    assert -good["curves"]["log_likelihood"][-1] == good["metrics"]["posterior_mean_log_loss"]
    assert good["settings"]["passes"] == 20
    assert good["settings"]["burn_in"] == 0.2
    bad = by_cell["ccadl", 5.0, 1.0, 0]
    assert bad["first_bad_step"] > 0
    assert set(bad["metrics"].values()) == {None}
    assert bad["check"] == {}
    assert (tmp_path / "figures" / "mnist.pdf").exists()
    page = (tmp_path / "report.html").read_text()
    assert "Reference (NUTS)" in page
    assert f"NaN, step {min(by_cell['ccadl', 5.0, 1.0, s]['first_bad_step'] for s in (0, 1))}" in page
    assert "largest usable step" in page
    assert "whether to believe the draws" in page
    assert "as isotherm.check finds it without a reference" in page


def test_linear_regression_has_w2(tmp_path, tiny, unchecked):
    tiny("w2", task(linear, frictions=(1.0,), methods=("mccadl", "ccadl")))
    cells, _, _ = run(tmp_path)
    distances = {(c["sampler"], c["step_size"], c["seed"]): c["metrics"]["w2"] for c in cells}
    assert 0 < distances["mccadl", 0.02, 0] < 0.1
    assert distances["ccadl", 5.0, 0] is None


def test_a_drbm_has_predictive_metrics_and_a_random_start(tmp_path, tiny, unchecked):
    tiny("error", task(drbm, step_sizes=(0.02,), frictions=(10.0,), methods=("sgnht",), thin=5))
    cells, _, _ = run(tmp_path)
    for cell in cells:
        assert 0 < cell["metrics"]["predictive_error"] < 0.5
        assert len(cell["curves"]["error"]) == len(cell["curves"]["passes"])
    assert cells[0]["metrics"] != cells[1]["metrics"]  # another seed, another start


def test_running_again_computes_nothing_and_writes_the_same(tmp_path, tiny, monkeypatch, unchecked):
    few = {"frictions": (1.0,), "methods": ("mccadl", "ccadl")}
    tiny("w2", task(linear, **few))
    run(tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.glob("results.*")}
    tiny("w2", task(lambda data_dir: pytest.fail("loaded"), **few))
    run(tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.glob("results.*")} == before


def test_seeds_are_added_to_those_there(tmp_path, tiny, unchecked):
    tiny("w2", task(linear, step_sizes=(0.02,), frictions=(1.0,), methods=("sgnht",)))
    few, _, _ = run(tmp_path)
    more, _, _ = run(tmp_path, seeds=3)
    assert more[:2] == few
    assert len(more) == 3


def test_without_blackjax_the_rest_goes_on(tmp_path, tiny, monkeypatch, unchecked):
    monkeypatch.setattr(nuts, "available", lambda: False)
    tiny("log_likelihood", task(logistic, reference_draws=100, methods=("sgnht",), seeds=1))
    cells, _, told = run(tmp_path)
    assert "pip install 'isotherm[paper]'" in told[0]
    assert {cell["kind"] for cell in cells} == {"cell"}


def test_a_quick_report_says_so_and_where_it_is_from(tmp_path, tiny, unchecked):
    tiny("w2", task(linear, step_sizes=(0.02,), frictions=(1.0,), methods=("sgnht",)))
    run(tmp_path, quick=True)
    page = (tmp_path / "report.html").read_text()
    assert "Quick run" in page
    assert "a tiny task: 20 of 40 passes" in page
    assert f"isotherm {isotherm.__version__} · " in page
    assert "from earlier commands" not in page
    run(tmp_path, quick=True)
    assert "2 of 2 runs were there from earlier commands" in (tmp_path / "report.html").read_text()
    run(tmp_path)
    assert "Quick run" not in (tmp_path / "report.html").read_text()
