"""Figures: written, complete, telling methods apart without colour, and saying what diverged, what lies outside the
axes and what a band is.
"""

from dataclasses import replace

import pytest

from isotherm.paper.experiments import plots
from isotherm.paper.experiments.catalogue import MNIST

LINES = [
    plots.Curve("mCCAdL, A = 1", [1, 2, 3], [3.0, 2.0, 1.0], "mccadl", 1.0, [0.1, 0.1, 0.1]),
    plots.Curve("SGHMC, A = 10", [1, 2, 3], [4.0, 5.0, 6.0], "sghmc", 10.0),
]


@pytest.mark.parametrize(("kind", "start"), [("png", b"\x89PNG"), ("pdf", b"%PDF")])
def test_a_figure_is_written(tmp_path, kind, start):
    panel = plots.Panel("step size 0.001", LINES, ("NUTS", 1.5), "CCAdL diverged")
    path = plots.save(plots.draw([[panel, panel]], "passes", "loss"), tmp_path / "new" / f"figure.{kind}")
    assert path.read_bytes().startswith(start)


def test_axes_are_labelled_and_the_legend_names_each_line_once():
    panel = plots.Panel("left", LINES)
    figure = plots.draw([[panel, panel]], "passes over the data", "2-Wasserstein distance", yscale="log")
    assert [axes.get_xlabel() for axes in figure.axes] == ["passes over the data"] * 2
    assert figure.axes[0].get_ylabel() == "2-Wasserstein distance"
    assert figure.axes[0].get_yscale() == "log"
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["mCCAdL, A = 1", "SGHMC, A = 10"]


def test_the_lowest_panel_of_each_column_says_what_is_across():
    figure = plots.draw([[plots.Panel("a", LINES)] * 2, [plots.Panel("b", LINES)]], "passes", "loss")
    assert [axes.get_xlabel() for axes in figure.axes if axes.get_visible()] == ["", "passes", "passes"]


def test_methods_and_frictions_differ_in_grey():
    assert len({marker for _, marker in plots.LOOKS.values()}) == len(plots.LOOKS)
    drawn = plots.draw([[plots.Panel("", LINES)]], "x", "y").axes[0].lines
    assert drawn[0].get_marker() != drawn[1].get_marker()
    assert drawn[0].get_linestyle() != drawn[1].get_linestyle()


def test_a_panel_without_lines_draws_no_legend():
    assert plots.draw([[plots.Panel("all diverged", [])]], "x", "y").legends == []


TASK = replace(MNIST, step_sizes=(1e-4, 1e-3), frictions=(1.0,), methods=("sghmc", "ccadl", "eccadl"))


def entry(method, h, seed, end, first_bad_step=None):
    curves = {"passes": [1.0, 2.0], "log_likelihood": [-0.7, end]}
    identity = {"kind": "cell", "dataset": TASK.dataset, "sampler": method, "step_size": h, "friction": 1.0}
    return identity | {"seed": seed, "curves": curves, "first_bad_step": first_bad_step}


def entries(seeds):
    for seed in range(seeds):
        for h in TASK.step_sizes:
            yield entry("eccadl", h, seed, -0.15)
            yield entry("sghmc", h, seed, -0.16 if h == 1e-4 else -2.0)
            yield entry("ccadl", h, seed, -0.15, None if h == 1e-4 else 6)


def test_what_diverged_and_what_is_outside_the_axes_is_named():
    small, large = plots._row(TASK, "log_likelihood", list(entries(1)))
    assert small.note == ""
    assert large.note == "CCAdL diverged at step 6 (A = 1)\noutside the axes: SGHMC (A = 1)"
    assert small.limits == large.limits  # they share an axis


def test_the_caption_explains_bands_and_notes(tmp_path):
    arguments = [TASK], "log_likelihood"
    one = plots.of_tasks("mnist", "Figure 2", *arguments, list(entries(1)), tmp_path)
    two = plots.of_tasks("mnist", "Figure 2", *arguments, list(entries(2)), tmp_path)
    assert "± one standard deviation over seeds" in two.caption
    assert "no bands" in one.caption
    assert "outside its axes" in one.caption
    assert {path.name for path in tmp_path.iterdir()} == {"mnist.pdf", "mnist.png"}
