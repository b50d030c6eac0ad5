"""Columns as arrays: standardised numbers, codes into one vector of effects, and each rule for what is missing."""

import numpy as np
import pytest

from isotherm.models.priors import column_units
from isotherm.tables import preparing
from isotherm.tables.columns import Numbers, Times
from isotherm.tables.options import TableOptions

ROWS = 40


@pytest.fixture
def table(tmp_path):
    """`a` is missing in every tenth row, `g` in every eighth; r is rare."""
    lines = ["a,g,b,y"]
    for i in range(ROWS):
        g = "" if i % 8 == 0 else "r" if i == 3 else "pq"[i % 2]
        lines.append(f"{'' if i % 10 == 0 else i},{g},{i * i},{i % 3 + 0.5 * i}")
    path = tmp_path / "t.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def prepared(table, **options):
    return preparing.prepare(TableOptions(str(table), target="y", **options))


def test_numbers_are_standardised_and_levels_are_codes(table):
    recipe, train, held_out = prepared(table, missing="mean", holdout=0.0)
    assert held_out is None
    a = np.array([np.nan if i % 10 == 0 else i for i in range(ROWS)])
    z = (a - np.nanmean(a)) / column_units(a[~np.isnan(a)]).scale
    np.testing.assert_allclose(train["x"][:, 0], np.nan_to_num(z), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(train["x"][:, 1].mean(), 0, atol=1e-6)
    (column,) = recipe.levels
    assert column.levels == ("p", "q", "r")
    assert sum(column.counts) == ROWS - 5
    texts = [None if i % 8 == 0 else "r" if i == 3 else "pq"[i % 2] for i in range(ROWS)]
    codes = [-1 if text is None else "pqr".index(text) for text in texts]
    np.testing.assert_array_equal(train["codes"][:, 0], codes)


def test_being_missing_has_coefficients(table):
    recipe, train, _ = prepared(table, missing="indicator", holdout=0.0)
    assert recipe.inputs == ["a", "a is missing", "b"]
    np.testing.assert_array_equal(train["x"][:, 1], np.arange(ROWS) % 10 == 0)
    assert recipe.levels[0].levels == ("p", "q", "r", "(missing)")
    np.testing.assert_array_equal(train["codes"][:, 0] == 3, np.arange(ROWS) % 8 == 0)


def test_rows_that_lack_a_value_are_dropped_and_counted(table):
    recipe, train, _ = prepared(table, missing="drop", holdout=0.0)
    lacking = sum(i % 10 == 0 or i % 8 == 0 for i in range(ROWS))
    assert len(train["y"]) == ROWS - lacking
    assert f"{lacking} of {ROWS} rows are left out: they lack a value" in recipe.notes


def test_what_was_done_is_said_with_counts(table):
    notes = prepared(table, missing="mean", holdout=0.0).recipe.notes
    assert "missing numbers are the column's mean: a (4)" in notes
    assert "missing levels have the effect 0: g (5)" in notes


def test_the_same_rows_again(table):
    """What a resumed run is given is what the run was given, bit for bit."""
    first = prepared(table, missing="mean", holdout=0.25, seed=3)
    again = preparing.prepare_again(first.recipe)
    for one, other in ((first.train, again.train), (first.held_out, again.held_out)):
        assert one.keys() == other.keys()
        for name in one:
            np.testing.assert_array_equal(one[name], other[name])
    assert len(first.held_out["y"]) == ROWS // 4


def test_held_out_rows_do_not_count_in_means(table):
    recipe, train, _ = prepared(table, missing="mean", holdout=0.25)
    np.testing.assert_allclose(train["x"][:, 1].mean(), 0, atol=1e-6)
    assert recipe.numbers[1].mean != pytest.approx(np.mean(np.arange(ROWS) ** 2))


def test_a_level_that_was_not_learned_from_has_no_effect(table, tmp_path):
    recipe = prepared(table, missing="mean").recipe
    (tmp_path / "new.csv").write_text("g,b,a\nnew,1,2\np,3,4\n,5,6\n")
    new = preparing.new_rows(recipe, tmp_path / "new.csv")
    codes = recipe.encode(new)["codes"][:, 0]
    np.testing.assert_array_equal(codes, [-1, recipe.levels[0].levels.index("p"), -1])
    (said,) = recipe.unknown_levels(new)
    assert '1 rows have one of 1 levels that were not learned from ("new"): these get the effect 0' in said


def test_a_column_that_is_a_name_is_left_out_and_said(tmp_path):
    lines = ["who,x,y", *(f"person {i},{i % 5},{i}" for i in range(ROWS))]
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n")
    recipe = prepared(tmp_path / "t.csv").recipe
    assert [column.name for column in recipe.columns] == ["x"]
    assert any("who is left out: 40 different texts in 40 rows" in note for note in recipe.notes)
    kept = prepared(tmp_path / "t.csv", categorical=("who",)).recipe
    assert [column.name for column in kept.levels] == ["who"]


def test_a_test_file_instead_of_held_out_rows(table, tmp_path):
    (tmp_path / "test.csv").write_text("y,a,b,g,more\n" + "1,2,3,p,x\n4,5,6,q,y\n" * 5)
    made = prepared(table, missing="mean", test=str(tmp_path / "test.csv"))
    assert len(made.train["y"]) == ROWS
    assert len(made.held_out["y"]) == 10


def test_a_rare_indicator_is_as_large_as_where_it_is_1(tmp_path):
    """By its standard deviation, 0.1, its effect would have a prior ten times as wide as that of a common one."""
    lines = ["rare,x,y", *(f"{int(i % 100 == 0)},{i % 7},{i}" for i in range(1000))]
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n")
    rare, x = prepared(tmp_path / "t.csv", holdout=0.0).recipe.numbers
    assert rare.scale == pytest.approx(0.99**0.5)
    assert x.scale == pytest.approx(np.std(np.arange(1000) % 7) / np.mean(np.arange(1000) % 7 != 3) ** 0.5)


def test_a_part_of_a_column_is_found_again_in_new_rows(tmp_path, monkeypatch):
    """Whatever it is called: where it comes from is the column whose part it is."""

    def parts(self, name):
        return {f"odd {name}": Numbers(self.values % 2)}

    monkeypatch.setattr(Times, "parts", parts)
    lines = [f"2024-01-{day:02} 00:00:{day:02},{day}" for day in range(1, 32)]  # every second is odd or even
    (tmp_path / "t.csv").write_text("\n".join(["day,y", *lines]) + "\n")
    recipe = prepared(tmp_path / "t.csv", holdout=0.0).recipe
    assert recipe.source.kinds == {"day": "time", "y": "number"}
    (tmp_path / "new.csv").write_text("day\n2024-02-01\n")
    rows = preparing.new_rows(recipe, tmp_path / "new.csv")
    assert [column.name for column in recipe.columns] == list(rows.columns) == ["odd day"]
