"""The file about a table in a run's folder: read back as it was written."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

from isotherm.tables import recipe
from isotherm.tables.columns import Frame, Numbers, TableColumn
from isotherm.tables.recipe import LevelColumn, NumberColumn, Recipe, TableSource, TargetColumn

RECIPE = Recipe(
    "logistic",
    "indicator",
    1.0,
    20,
    TargetColumn("y", "bernoulli", ("no", "=cmd()"), base=(0.25,)),
    (
        NumberColumn("a b/ü\n", 1e-9, 2.5, 3, True),
        LevelColumn("g", ("p", "(missing)"), (4, 2), 2),
        LevelColumn("h", ("false", "true"), (1, 5), truth=True),
    ),
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


def test_a_table_is_no_run(tmp_path):
    (tmp_path / "t.csv").write_text("x,y\n")
    with pytest.raises(ValueError, match=r"t\.csv', which is a file$"):
        recipe.read(tmp_path / "t.csv")
    with pytest.raises(ValueError, match=r"run\.zarr', which is not there$"):
        recipe.read(tmp_path / "run.zarr")


@dataclass(frozen=True)
class Angles(TableColumn):
    kind = "angle"


@dataclass(frozen=True)
class AngleColumn(NumberColumn):
    kind: str = "angle"

    @classmethod
    def plan(cls, name, column, rule):
        return cls(name, 0.0, 1.0)

    @property
    def inputs(self):
        return [f"cos {self.name}", f"sin {self.name}"]

    @property
    def units(self):
        return [(0.0, 1.0), (0.0, 1.0)]

    def encode(self, column):
        return np.stack([np.cos(column.values), np.sin(column.values)], axis=1).astype(np.float32)


def test_a_new_kind_of_column_is_two_classes(tmp_path, monkeypatch):
    """One says what it holds, the other what becomes of it."""
    monkeypatch.setitem(recipe.PLANS, Angles, AngleColumn)
    monkeypatch.setitem(recipe.STORED_PLANS, "angle", AngleColumn)
    wind = Angles(np.array([0.0, np.pi / 2]))
    made = replace(RECIPE, columns=(recipe.plan_column("wind", wind, "error"), RECIPE.columns[0]))
    recipe.write(made, tmp_path / "run")
    assert recipe.read(tmp_path / "run") == made
    assert made.inputs == ["cos wind", "sin wind", *RECIPE.inputs]
    x = made.encode(Frame("t.csv", {"wind": wind, "a b/ü\n": Numbers(np.array([np.nan, 5.0]))}, 2))["x"]
    np.testing.assert_allclose(x, [[1, 0, 0, 1], [0, 1, 2, 0]], atol=1e-6)
