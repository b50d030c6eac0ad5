"""The file about a table in a run's folder: read back as it was written."""

from isotherm.tables import recipe
from isotherm.tables.recipe import LevelColumn, NumberColumn, Recipe, Source, Target

RECIPE = Recipe(
    "logistic",
    "indicator",
    1.0,
    20,
    Target("y", "bernoulli", ("no", "=cmd()"), base=(0.25,)),
    (NumberColumn("a b/ü\n", 1e-9, 2.5, 3, True),),
    (LevelColumn("g", ("p", "(missing)"), (4, 2), 2), LevelColumn("h", ("false", "true"), (1, 5), truth=True)),
    Source("/data/t.csv", None, ("?",), ";", {"a b/ü\n": "number", "g": "text", "h": "truth", "y": "text"}, 0.2, 7),
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
