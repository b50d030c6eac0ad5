"""The table that `predict` writes: new columns for classes and numbers, and cells as they were."""

import numpy as np
import pytest

from isotherm.tables import output
from isotherm.tables.model import Predicted
from isotherm.tables.recipe import Recipe, TableSource, TargetColumn


def recipe(target):
    source = TableSource("t.csv", None, (), None, {}, 0.2, 0)
    return Recipe("logistic", "mean", 1.0, 20, target, (), source)


@pytest.mark.parametrize("classes", [("no", "=cmd()"), ("a", "b", "c")])
def test_probabilities_and_the_likeliest_class(classes):
    p = np.random.default_rng(0).dirichlet(np.ones(len(classes)), 4)
    p[2] = np.nan  # a row without a prediction
    made = recipe(TargetColumn("y", "categorical", classes, threshold="> 3"))
    found = output.columns(made, Predicted(p, p, *[p - 0.01, p + 0.01] * 2))
    likeliest = [None if np.isnan(row).any() else classes[row.argmax()] for row in p]
    assert list(found["y > 3 predicted"]) == likeliest
    shown = classes[1:] if len(classes) == 2 else classes
    assert list(found)[1::3] == [f"p(y > 3 = {name})" for name in shown]
    for name in shown:
        np.testing.assert_array_equal(found[f"p(y > 3 = {name})"], p[:, classes.index(name)])
        np.testing.assert_array_equal(found[f"p(y > 3 = {name}) high"], p[:, classes.index(name)] + 0.01)


def test_cells_are_copied_as_they_were(tmp_path):
    """Numbers, empty cells, quotes and formulas; only the new columns are added."""
    text = 'a;b;c\n1.50;"x; ""y""";\n007;=cmd();NA\n'
    (tmp_path / "t.csv").write_text(text)
    new = {"p": np.array([0.25, np.nan]), "k": np.array(["=x", None], object)}
    said = output.write(recipe(TargetColumn("y", "bernoulli")), tmp_path / "t.csv", tmp_path / "out.csv", new)
    assert (tmp_path / "out.csv").read_text() == 'a;b;c;p;k\n1.50;"x; ""y""";;0.25;=x\n007;=cmd();NA;;\n'
    assert "2 cells of" in said[0]
    assert "begin with = or @" in said[0]
