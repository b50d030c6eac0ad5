"""The paper's numbers, and a cell for each of them."""

import math

import pytest

from isotherm.paper.experiments import NAMES, paper, reproduce
from isotherm.paper.experiments.experiment import grid
from isotherm.paper.experiments.tasks import METHODS


@pytest.mark.parametrize("name", [name for name in NAMES if name != "weak-order"])
def test_every_number_of_the_paper_has_a_cell(name):
    for task in reproduce.experiment(name).tasks:
        places = {(cell.method, cell.step_size, cell.friction) for cell in grid(task)}
        printed = paper.losses(task.dataset)
        assert set(printed) <= places
        if printed:
            assert len(printed) == 4 * 3 * 2
            assert set(METHODS) <= set(task.methods)


def test_numbers_as_printed():
    printed = paper.losses("mnist-7-9")
    assert printed["mccadl", 5e-4, 10.0] == 0.1551
    assert math.isnan(printed["ccadl", 5e-4, 1.0])
    assert math.isinf(printed["sghmc", 1.2e-3, 1.0])
    assert paper.losses("letter")["sgnht", 2.5e-2, 1.0] == 0.3908
    assert paper.losses("unknown") == {}
