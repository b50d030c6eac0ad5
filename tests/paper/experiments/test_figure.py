"""The figure's words: what diverged, what lies outside the axes, what a band is."""

from dataclasses import replace

from isotherm.paper.experiments import figure
from isotherm.paper.experiments.catalogue import MNIST

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
    small, large = figure._row(TASK, "log_likelihood", list(entries(1)))
    assert small.note == ""
    assert large.note == "CCAdL diverged at step 6 (A = 1)\noutside the axes: SGHMC (A = 1)"
    assert small.limits == large.limits  # they share an axis


def test_the_caption_explains_bands_and_notes(tmp_path):
    arguments = [TASK], "log_likelihood"
    one = figure.write("mnist", "Figure 2", *arguments, list(entries(1)), tmp_path)
    two = figure.write("mnist", "Figure 2", *arguments, list(entries(2)), tmp_path)
    assert "± one standard deviation over seeds" in two.caption
    assert "no bands" in one.caption
    assert "outside its axes" in one.caption
    assert {path.name for path in tmp_path.iterdir()} == {"mnist.pdf", "mnist.png"}
