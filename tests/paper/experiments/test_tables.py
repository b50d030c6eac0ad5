"""Numbers beside the paper's: a percentage after a full run only; the best in bold; shades by distance; and a cell for
each of the paper's numbers."""

import math
from dataclasses import replace

import pytest

from isotherm.paper.experiments import NAMES, reproduce, tables
from isotherm.paper.experiments.catalogue import MNIST
from isotherm.paper.experiments.experiment import grid
from isotherm.paper.experiments.tasks import METHODS

TASK = replace(MNIST, step_sizes=(1.2e-4,), frictions=(1.0,), methods=("sgnht", "eccadl"))
SETTING = ("sgnht", 1.2e-4, 1.0)  # the paper has 0.2626


def entry(method, h, friction, loss, passes, **more):
    common = {"dataset": TASK.dataset, "seed": 0, "seconds_per_step": 1e-6, "first_bad_step": None}
    metrics = {"expected_log_loss": loss}
    identity = {"sampler": method, "step_size": h, "friction": friction, "metrics": metrics}
    return common | identity | {"kind": "cell", "settings": {"passes": passes}} | more


def losses(passes, **more):
    entries = [entry(*SETTING, 0.2889, passes, **more), entry("eccadl", *SETTING[1:], 0.1524, passes)]
    entries.append({"kind": "reference", "dataset": TASK.dataset, "metrics": {"expected_log_loss": 0.1525}})
    return tables.of_task(TASK, entries)[0]


def cell(table, method):
    return table.rows[0][1 + TASK.methods.index(method)]


def test_a_full_run_is_compared_with_the_paper():
    table = losses(TASK.passes)
    assert tables.printed_losses(TASK.dataset)[SETTING] == 0.2626
    assert cell(table, "sgnht").detail == "paper 0.2626 (+10.0 %)"
    assert "by how much ours is above or below it" in table.caption


def test_a_quick_run_is_not():
    table = losses(TASK.quick_passes)
    assert cell(table, "sgnht").detail == "paper 0.2626"
    assert "not comparable with this quick run" in table.caption
    assert "%" not in "".join(entry.detail for row in table.rows for entry in row)


def test_the_best_is_bold_and_shades_say_how_far_a_value_is():
    table = losses(TASK.passes)
    assert (cell(table, "eccadl").best, cell(table, "eccadl").shade) == (True, "near")
    assert (cell(table, "sgnht").best, cell(table, "sgnht").shade) == (False, "far")


def test_a_diverged_cell_says_when():
    diverged = cell(losses(TASK.passes, first_bad_step=7, metrics={"expected_log_loss": None}), "sgnht")
    assert (diverged.text, diverged.shade) == ("NaN, step 7", "diverged")


@pytest.mark.parametrize(("value", "shade"), [(1.0, "near"), (0.96, "close"), (1.15, "off"), (3.0, "far")])
def test_shades(value, shade):
    assert tables._shade(value, 1.0) == shade


def verdicts(*checks, **more):
    entries = [entry(*SETTING, 0.2, 200, seed=seed, check=check, **more) for seed, check in enumerate(checks)]
    entries.append(entry("eccadl", *SETTING[1:], 0.15, 200))
    return [table for table in tables.of_task(TASK, entries) if "whether to believe" in table.title]


GOOD = {"good": True, "bad": []}
HOT = {"good": False, "bad": ["kinetic temperature", "variance"]}


def test_what_check_says_stands_beside_the_reference():
    (table,) = verdicts(GOOD, GOOD)
    assert table.title == "MNIST, digits 7 and 9: whether to believe the draws"
    assert "knows nothing of the reference" in table.caption
    assert cell(table, "sgnht") == ("ok", "", "good", False)
    assert cell(table, "eccadl").text == "–"
    assert cell(verdicts(GOOD, HOT, {"good": False, "bad": ["variance", "mean"]})[0], "sgnht") == (
        "1 of 3 ok", "kinetic temperature, variance, mean", "bad", False
    )  # fmt: skip
    assert cell(verdicts(HOT)[0], "sgnht")[:2] == ("bad", "kinetic temperature, variance")
    assert cell(verdicts(GOOD, {}, first_bad_step=9)[0], "sgnht").text == "NaN, step 9"


def test_cells_of_earlier_versions_have_no_verdicts():
    assert verdicts({}, {}) == []


@pytest.mark.parametrize("name", [name for name in NAMES if name != "weak-order"])
def test_every_number_of_the_paper_has_a_cell(name):
    for task in reproduce.experiment(name).tasks:
        places = {(cell.method, cell.step_size, cell.friction) for cell in grid(task)}
        printed = tables.printed_losses(task.dataset)
        assert set(printed) <= places
        if printed:
            assert len(printed) == 4 * 3 * 2
            assert set(METHODS) <= set(task.methods)


def test_numbers_as_printed():
    printed = tables.printed_losses("mnist-7-9")
    assert printed["mccadl", 5e-4, 10.0] == 0.1551
    assert math.isnan(printed["ccadl", 5e-4, 1.0])
    assert math.isinf(printed["sghmc", 1.2e-3, 1.0])
    assert tables.printed_losses("letter")["sgnht", 2.5e-2, 1.0] == 0.3908
    assert tables.printed_losses("unknown") == {}
