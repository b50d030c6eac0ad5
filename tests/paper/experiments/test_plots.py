"""Figures: written, complete, and telling methods apart without colour."""

import pytest

from isotherm.paper.experiments import plots

LINES = [
    plots.Line("mCCAdL, A = 1", [1, 2, 3], [3.0, 2.0, 1.0], "mccadl", 1.0, [0.1, 0.1, 0.1]),
    plots.Line("SGHMC, A = 10", [1, 2, 3], [4.0, 5.0, 6.0], "sghmc", 10.0),
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
    assert len(set(plots.MARKERS.values())) == len(plots.MARKERS)
    assert set(plots.MARKERS) == set(plots.COLOURS)
    drawn = plots.draw([[plots.Panel("", LINES)]], "x", "y").axes[0].lines
    assert drawn[0].get_marker() != drawn[1].get_marker()
    assert drawn[0].get_linestyle() != drawn[1].get_linestyle()


def test_a_panel_without_lines_draws_no_legend():
    assert plots.draw([[plots.Panel("all diverged", [])]], "x", "y").legends == []
