"""What users can do wrong with a table: each a sentence and exit status 2, before anything is made."""

import json

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet
from typer.testing import CliRunner

from isotherm.cli.app import app

GOOD = "\n".join(["x,group,y", *(f"{i % 7},{'ab'[i % 2]},{['no', 'yes'][i % 3 == 0]}" for i in range(30))]) + "\n"


def refused(tmp_path, content, *options, target="y", name="t.csv"):
    """What is said about a table; nothing else may be left behind."""
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    before = sorted(tmp_path.iterdir())
    words = [*(["--target", target] if target else []), "--run", str(tmp_path / "run.zarr"), *options]
    answer = CliRunner().invoke(app, ["fit", str(path), *words])
    assert answer.exit_code == 2, answer.output
    assert answer.exception is None or isinstance(answer.exception, SystemExit)
    assert "Traceback" not in answer.output
    assert answer.output.startswith("error: "), answer.output
    assert answer.output.count("\n") == 1
    assert sorted(tmp_path.iterdir()) == before
    return answer.output


def changed(old, new):
    assert old in GOOD
    return GOOD.replace(old, new, 1)


def test_an_empty_file(tmp_path):
    assert "t.csv is empty" in refused(tmp_path, "")
    assert "t.csv is empty" in refused(tmp_path, "\n\n")
    assert "has a header and no rows" in refused(tmp_path, "x,y\n")


def test_no_such_file(tmp_path):
    answer = CliRunner().invoke(app, ["fit", str(tmp_path / "nowhere.csv"), "--target", "y"])
    assert answer.exit_code == 2
    assert "there is no file" in answer.output
    answer = CliRunner().invoke(app, ["fit", str(tmp_path), "--target", "y"])
    assert "is a folder; a table is a file" in answer.output


def test_a_row_with_too_few_cells(tmp_path):
    said = refused(tmp_path, changed("\n3,b,", "\n3,"))
    assert 'has 3 columns in its header and 2 in row 4: "3,yes"' in said


def test_a_row_with_too_many_cells(tmp_path):
    assert "has 3 columns in its header and 4 in row 4" in refused(tmp_path, changed("\n3,b,", "\n3,b,b,"))


def test_no_target(tmp_path):
    assert 'one of "x", "group", "y"' in refused(tmp_path, GOOD, target="")
    said = refused(tmp_path, GOOD, target="grop")
    assert '"grop", which is not in' in said
    assert 'did you mean "group"?' in said


def test_a_constant_column(tmp_path):
    rows = GOOD.splitlines()
    constant = "\n".join(["one," + rows[0], *("1," + row for row in rows[1:])]) + "\n"
    said = refused(tmp_path, constant)
    assert 'the column "one" is 1 in every row' in said
    assert "--ignore-constant" in said


def test_text_where_numbers_belong(tmp_path):
    said = refused(tmp_path, changed("\n4,a,", "\nfour,a,"))
    assert 'the column "x" holds text where numbers belong: "four" in row 5' in said
    assert "1 of 30 entries" in said


def test_one_class_only(tmp_path):
    said = refused(tmp_path, GOOD.replace("no", "yes"))
    assert 'the target "y" has one class only, "yes"' in said


def test_missing_values_without_a_rule(tmp_path):
    for missing in ("", "NaN", "NA", "null"):
        said = refused(tmp_path, changed("\n4,a,", f"\n{missing},a,"))
        assert "has missing values, in 1 of 2 columns: x (1 rows)" in said
        assert "--missing mean" in said
    assert 'the target "y" is missing in 1 of 30 rows' in refused(tmp_path, changed("4,a,no", "4,a,"))


def test_numbers_that_are_not_finite(tmp_path):
    assert 'the column "x" holds inf in row 5' in refused(tmp_path, changed("\n4,a,", "\ninf,a,"))
    assert 'the column "x" holds -inf in row 5' in refused(tmp_path, changed("\n4,a,", "\n-1e999,a,"))


def test_a_column_without_values(tmp_path):
    rows = GOOD.splitlines()
    hollow = "\n".join(["none," + rows[0], *("," + row for row in rows[1:])]) + "\n"
    assert 'the column "none" has no values at all' in refused(tmp_path, hollow, "--missing", "mean")


def test_a_line_of_many_megabytes(tmp_path):
    assert "has a line of more than 16 MB" in refused(tmp_path, GOOD + "1,a," + "x" * (40 << 20) + "\n")
    assert "has a line of more than 16 MB" in refused(tmp_path, "x" * (40 << 20))
    said = refused(tmp_path, changed("\n4,a,", f"\n4,{'a' * 5_000_000},"))
    assert 'the column "group" holds a text of 5,000,000 characters' in said
    assert len(said) < 500


def test_a_table_of_very_many_columns(tmp_path):
    assert "must have at most 20,000 columns" in refused(tmp_path, ",".join(f"x{i}" for i in range(30_000)) + "\n")


def test_two_columns_of_one_name(tmp_path):
    assert 'more than one column named "x"' in refused(tmp_path, changed("x,group", "x,x"))


def test_text_that_is_not_utf_8(tmp_path):
    assert "UTF-8" in refused(tmp_path, changed("\n4,a,", "\n4,é,").encode("latin-1"))
    assert "UTF-16; save it as UTF-8" in refused(tmp_path, GOOD.encode("utf-16"))


def test_names_do_not_move_the_cursor_or_colour_the_terminal(tmp_path):
    said = refused(tmp_path, changed("x,group", "\x1b[31mx,[red]group"), target="\x1b[31mz")
    assert "\x1b" not in said


def test_parquet_that_is_damaged(tmp_path):
    parquet.write_table(pa.table({"x": range(100)}), tmp_path / "whole.parquet")
    half = (tmp_path / "whole.parquet").read_bytes()[:200]
    assert "is not a Parquet file that can be read" in refused(tmp_path, half, name="t.parquet")


def test_parquet_with_lists(tmp_path):
    parquet.write_table(pa.table({"x": [[1.0], [2.0]], "y": [1, 2]}), tmp_path / "t.parquet")
    said = refused(tmp_path, (tmp_path / "t.parquet").read_bytes(), name="t.parquet")
    assert 'the column "x" holds list<element: double>, which is neither numbers nor text' in said


def test_a_spreadsheet(tmp_path):
    np.savez(tmp_path / "x.npz", a=1)
    import zipfile

    with zipfile.ZipFile(tmp_path / "t.xlsx", "w") as file:
        file.writestr("xl/workbook.xml", "<workbook/>")
    said = refused(tmp_path, (tmp_path / "t.xlsx").read_bytes(), name="t.xlsx")
    assert "a spreadsheet must be saved as CSV" in said


def test_models_that_do_not_fit_the_target(tmp_path):
    assert "needs a target of numbers" in refused(tmp_path, GOOD, "--model", "linear")
    assert "needs two classes" in refused(tmp_path, GOOD, "--model", "logistic", target="x")
    said = refused(tmp_path, changed("\n4,a,", "\n4.5,a,"), "--model", "poisson", target="x")
    assert "needs a target of counts 0, 1, 2, …" in said
    assert "--model must be one of linear" in refused(tmp_path, GOOD, "--model", "lienar")


def test_options_that_are_wrong(tmp_path):
    assert "--holdout must be between 0 and 0.9, got 1.0" in refused(tmp_path, GOOD, "--holdout", "1")
    assert "--holdout 0.9 leaves 3 rows" in refused(tmp_path, GOOD, "--holdout", "0.9")
    assert "--missing must be one of" in refused(tmp_path, GOOD, "--missing", "median")
    assert "--delimiter must be one character" in refused(tmp_path, GOOD, "--delimiter", "::")
    assert '--ignore names the column "z"' in refused(tmp_path, GOOD, "--ignore", "z")
    assert '--categorical names the column "z"' in refused(tmp_path, GOOD, "--categorical", "z")
    assert '--target and --ignore both name "y"' in refused(tmp_path, GOOD, "--ignore", "y")
    assert "compare with a number" in refused(tmp_path, GOOD, target="x > many")
    assert "there is no file" in refused(tmp_path, GOOD, "--test", str(tmp_path / "no.csv"))


def test_a_run_that_is_there_already(tmp_path):
    (tmp_path / "run.zarr").mkdir()
    (tmp_path / "run.zarr" / "mine.txt").write_text("precious")
    assert "run.zarr'" in refused(tmp_path, GOOD)
    assert (tmp_path / "run.zarr" / "mine.txt").read_text() == "precious"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('model = "linear"\ntraget = "y"\n', "fit.toml, line 2: there is no option \"traget\"; did you mean 'target'?"),
        ("\n\nholdout = 'much'\n", "fit.toml, line 3: holdout must be a number, got 'much'"),
        ("seed = 1.5\n", "line 1: seed must be a whole number, got 1.5"),
        ("seed = true\n", "line 1: seed must be a whole number, got True"),
        ("ignore-constant = 1\n", "line 1: ignore-constant must be true or false, got 1"),
        ("ignore = [1]\n", "line 1: ignore must be a list of texts, got [1]"),
        ("\nmodel = 'sofmax'\n", "line 2: model must be one of linear, logistic, softmax"),
        ("model = 'sofmax'\n", "did you mean 'softmax'?"),
        ("chains = 0\n", "line 1: chains must be at least 1, got 0"),
        ("# a comment\n[fit]\nmodel = 'linear'\n", 'line 2: there is no option "fit"'),
        ("model = \n", "fit.toml is not TOML: Invalid value (at line 1, column 9)"),
        ("a = 1\na = 2\n", "is not TOML: Cannot overwrite a value (at line 2"),
    ],
)
def test_wrong_toml(tmp_path, text, message):
    (tmp_path / "fit.toml").write_text(text)
    assert message in refused(tmp_path, GOOD, "--config", str(tmp_path / "fit.toml"))


def test_toml_that_is_not_there_or_not_text(tmp_path):
    assert "No such file" in refused(tmp_path, GOOD, "--config", str(tmp_path / "no.toml"))
    (tmp_path / "fit.toml").write_bytes(b"\xff\xfe")
    assert "is not text in UTF-8" in refused(tmp_path, GOOD, "--config", str(tmp_path / "fit.toml"))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "it has no .isotherm/table.json"),
        ("{", "is damaged or from another version"),
        ("[]", "is damaged or from another version"),
        (json.dumps({"format": 99}), "its format is 99, and this version reads 2"),
        (json.dumps({"format": 2}), "is damaged or from another version"),
    ],
)
def test_predict_from_what_is_no_run_of_a_table(tmp_path, content, message):
    (tmp_path / "run.zarr" / ".isotherm").mkdir(parents=True)
    if content is not None:
        (tmp_path / "run.zarr" / ".isotherm" / "table.json").write_text(content)
    (tmp_path / "t.csv").write_text(GOOD)
    out = tmp_path / "out.csv"
    answer = CliRunner().invoke(
        app, ["predict", str(tmp_path / "run.zarr"), str(tmp_path / "t.csv"), "--out", str(out)]
    )
    assert answer.exit_code == 2, answer.output
    assert message in answer.output
    assert "Traceback" not in answer.output
    assert not out.exists()
