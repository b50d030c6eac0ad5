"""The file about a table in a run's folder: read back as it was written."""

import numpy as np
import pytest

from isotherm.tables import recipe
from isotherm.tables.recipe import LevelColumn, NumberColumn, Recipe, TableSource, TargetColumn

RECIPE = Recipe(
    "logistic",
    "indicator",
    1.0,
    20,
    TargetColumn("y", "bernoulli", ("no", "=cmd()"), base=(0.25,)),
    (NumberColumn("a b/ü\n", 1e-9, 2.5, 3, True),),
    (LevelColumn("g", ("p", "(missing)"), (4, 2), 2), LevelColumn("h", ("false", "true"), (1, 5), truth=True)),
    TableSource(
        "/data/t.csv", None, ("?",), ";", {"a b/ü\n": "number", "g": "text", "h": "truth", "y": "text"}, 0.2, 7
    ),
    0.9,
    ("said",),
)


def test_written_and_read(tmp_path):
    recipe.write(RECIPE, tmp_path / "run")
    assert recipe.is_there(tmp_path / "run")
    assert recipe.read(tmp_path / "run") == RECIPE


def test_what_the_parameters_are_for():
    assert RECIPE.inputs == ["a b/ü\n", "a b/ü\n is missing"]
    assert RECIPE.offsets == (0, 2, 4)


def test_units_of_the_columns_of_x():
    np.testing.assert_array_equal(RECIPE.units.centre, [1e-9, 0])
    np.testing.assert_array_equal(RECIPE.units.scale, [2.5, 1])


def test_a_run_with_other_units_and_priors_is_refused(tmp_path):
    """Those of the first format, before columns had the estimators' units."""
    recipe.write(RECIPE, tmp_path / "run")
    file = tmp_path / "run" / ".isotherm" / "table.json"
    file.write_text(file.read_text().replace('"format": 2', '"format": 1'))
    with pytest.raises(ValueError, match="its priors and units were others: fit the table again"):
        recipe.read(tmp_path / "run")
