"""`isotherm fit` and what follows it, as commands, on one small table: what is printed, kept and predicted."""

import csv
import dataclasses
import inspect
import json
import shutil

import numpy as np
import pytest
import xarray
from pyarrow import parquet
from typer.testing import CliRunner

from isotherm.cli.app import app, fit
from isotherm.tables import recipe
from isotherm.tables.options import TableOptions

ROWS = 600
SLOPE, NOISE = 2.0, 0.5
SHIFTS = {"a": 1.0, "b": 0.0, "=cmd()": -1.0}


def invoke(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """A table, and a run that was fitted to it by a TOML file; what the command said."""
    folder, rng = tmp_path_factory.mktemp("table"), np.random.default_rng(5)
    x, g = rng.normal(100, 10, ROWS), rng.choice(list(SHIFTS), ROWS)
    y = 50 + SLOPE * x + np.array([SHIFTS[each] for each in g]) + NOISE * rng.standard_normal(ROWS)
    lines = [f"{x[i]:.6f},{g[i]},007,{y[i]:.6f}" if i % 50 else f",{g[i]},007,{y[i]:.6f}" for i in range(ROWS)]
    (folder / "t.csv").write_text("\n".join(["x,g,id,y", *lines]) + "\n")
    (folder / "fit.toml").write_text(
        f"table = '{folder / 't.csv'}'\ntarget = 'y'\nmissing = 'mean'\nignore = ['id']\n"
        f"run = '{folder / 'run.zarr'}'\nreport = '{folder / 'page.html'}'\nholdout = 0.5\n"
    )
    answer = invoke("fit", "--config", folder / "fit.toml", "--holdout", "0.2")  # the flag wins
    assert answer.exit_code == 0, answer.output
    return folder, answer.output


def test_an_option_of_the_command_is_one_of_a_toml_file():
    fields = {field.name for field in dataclasses.fields(TableOptions)}
    assert inspect.signature(fit).parameters.keys() - {"context", "config"} == fields


def test_what_is_printed(fitted):
    _, said = fitted
    assert 'model linear, as "y" has 600 different numbers; --model takes another' in said
    assert "missing numbers are the column's mean: x (" in said
    assert "480 rows learned from, 120 held out" in said
    assert "root mean square error" in said
    assert "BAD" not in said
    words = next(line for line in said.splitlines() if line.startswith("x ")).split()
    mean, deviation, low, high = map(float, words[1:])
    assert low < SLOPE < high
    # About 12 rows have the mean of x instead of x, 20 off at most: most of the residuals' variance.
    assert deviation < 0.05
    assert abs(mean - SLOPE) < 4 * deviation
    assert "g: =cmd()" in said


def test_the_report_has_predictions_and_coefficients(fitted):
    page = (fitted[0] / "page.html").read_text()
    assert "<title>Linear model of y</title>" in page
    for title in ("Verdict", "Predictions", "Coefficients", "How it was made"):
        assert f"<h2>{title}</h2>" in page
    assert "g: =cmd()" in page
    assert "coef[0]" not in page


def test_a_run_is_a_store_as_any_other(fitted):
    tree = xarray.open_datatree(fitted[0] / "run.zarr", engine="zarr")
    assert tree.posterior.coef.shape[2:] == (1,)
    assert tree.posterior.effects.shape[2:] == (3,)
    made = json.loads((fitted[0] / "run.zarr" / ".isotherm" / "table.json").read_text())
    assert made["source"]["holdout"] == 0.2


def test_predictions_from_the_folder_alone(fitted, tmp_path):
    shutil.copytree(fitted[0] / "run.zarr", tmp_path / "moved.zarr")
    rows = 'g,note,x,id\n"a","a, b",110.50,007\nnew,,90,1\n=cmd(),z,,x\n'
    (tmp_path / "new.csv").write_text(rows)
    answer = invoke("predict", tmp_path / "moved.zarr", tmp_path / "new.csv", "--out", tmp_path / "out.csv")
    assert answer.exit_code == 0, answer.output
    assert 'g: 1 rows have one of 1 levels that were not learned from ("new")' in answer.output
    assert "1 of 3 rows lack a value: they get predictions by the rule mean" in answer.output
    assert "begin with = or @" in answer.output
    with open(tmp_path / "out.csv", newline="") as file:
        head, *found = csv.reader(file)
    assert head == ["g", "note", "x", "id", "y mean", "y mean low", "y mean high", "y low", "y high"]
    assert found[0][:4] == ["a", "a, b", "110.50", "007"]  # as they were
    assert found[2][0] == "=cmd()"
    numbers = np.array([row[4:] for row in found], float)
    expected = 50 + SLOPE * np.array([110.5, 90, 100]) + np.array([1, 0, -1])
    spread = (numbers[:, 4] - numbers[:, 3]) / 4  # the interval for new rows is about 4 standard deviations wide
    assert (abs(numbers[:, 0] - expected) < spread).all()
    assert (numbers[:, 3] <= numbers[:, 1]).all()
    assert (numbers[:, 1] < numbers[:, 0]).all()
    assert (numbers[:, 0] < numbers[:, 2]).all()
    assert (numbers[:, 2] <= numbers[:, 4]).all()
    assert numbers[1, 2] - numbers[1, 1] > 5 * (numbers[0, 2] - numbers[0, 1])  # three levels say little of a fourth


def test_predictions_as_parquet(fitted, tmp_path):
    answer = invoke("predict", fitted[0] / "run.zarr", fitted[0] / "t.csv", "--out", tmp_path / "out.parquet")
    assert answer.exit_code == 0, answer.output
    table = parquet.read_table(tmp_path / "out.parquet")
    assert table.num_rows == ROWS
    y = np.array(table["y"].to_pylist(), float)
    inside = (table["y low"].to_numpy() < y) & (y < table["y high"].to_numpy())
    assert inside.mean() > 0.9


@pytest.mark.parametrize(
    ("content", "out", "message"),
    [
        ("g\na\n", "out.csv", 'the run was made with the column "x", which is not in'),
        ("g,z\na,1\n", "out.csv", 'its columns are "g", "z"'),
        ("x,g\none,a\n", "out.csv", "has 'one' in the column \"x\", which must hold numbers"),
        ("x,g,y mean\n1,a,1\n", "out.csv", 'has a column "y mean" already'),
        ("x,g\n1,a\n", "new.csv", "--out must be another file than the table"),
        ("x,g\n1,a\n", "out.xlsx", "--out must end in .csv or .parquet"),
        ("x,g\n1,a\n", "no/out.csv", "there is no folder"),
        ("", "out.csv", "new.csv is empty"),
    ],
)
def test_new_rows_that_cannot_be_predicted(fitted, tmp_path, content, out, message):
    (tmp_path / "new.csv").write_text(content)
    answer = invoke("predict", fitted[0] / "run.zarr", tmp_path / "new.csv", "--out", tmp_path / out)
    assert answer.exit_code == 2, answer.output
    assert message in answer.output
    assert "Traceback" not in answer.output
    assert (tmp_path / "new.csv").read_text() == content
    assert len(list(tmp_path.iterdir())) == 1


def test_check_resume_and_report(fitted, tmp_path):
    run = tmp_path / "run.zarr"
    shutil.copytree(fitted[0] / "run.zarr", run)
    answer = invoke("check", run)
    assert answer.exit_code == 0, answer.output
    assert "BAD" not in answer.output
    assert "effects[" not in answer.output
    shutil.copy(fitted[0] / "t.csv", tmp_path / "elsewhere.csv")
    made = json.loads((run / ".isotherm" / "table.json").read_text())
    made["source"]["table"] = str(tmp_path / "gone.csv")
    (run / ".isotherm" / "table.json").write_text(json.dumps(made))
    answer = invoke("check", run)
    assert answer.exit_code == 2
    assert "is not there; say where it is with --data FILE" in answer.output
    draws = xarray.open_datatree(run, engine="zarr").posterior.sizes["draw"]
    answer = invoke("resume", run, "--steps", 20, "--data", tmp_path / "elsewhere.csv")
    assert answer.exit_code == 0, answer.output
    assert f"4 chains of {draws + 20:,} draws" in answer.output
    answer = invoke("report", run, "--data", tmp_path / "elsewhere.csv", "--out", tmp_path / "page.html")
    assert answer.exit_code == 0, answer.output
    assert "<h2>Predictions</h2>" in (tmp_path / "page.html").read_text()


def test_resume_with_other_rows_is_refused(fitted, tmp_path):
    lines = (fitted[0] / "t.csv").read_text().splitlines()
    (tmp_path / "other.csv").write_text("\n".join([lines[0], *reversed(lines[1:])]) + "\n")
    answer = invoke("resume", fitted[0] / "run.zarr", "--data", tmp_path / "other.csv")
    assert answer.exit_code == 2
    assert "was made with different data" in answer.output


def test_the_folder_holds_no_pickle(fitted):
    for path in (fitted[0] / "run.zarr").rglob("*"):
        assert not path.is_file() or path.read_bytes()[:2] != b"\x80\x04"
    assert recipe.read(fitted[0] / "run.zarr").target.name == "y"


@pytest.mark.long
@pytest.mark.filterwarnings("default")  # fit says that there are few rows, or that 20 seconds were too few
@pytest.mark.parametrize("model", ["logistic", "softmax", "poisson", "mlp", "drbm"])
def test_every_model_runs_and_predicts(tmp_path, model):
    rng = np.random.default_rng(3)
    x, g = rng.standard_normal((400, 2)), rng.integers(0, 3, 400)
    eta = x[:, 0] - x[:, 1] + 0.5 * g
    y = (eta > 0).astype(int) + (eta > 1.5) * (model != "logistic")
    if model == "poisson":
        y = rng.poisson(np.exp(0.5 * eta))
    rows = [f"{a:.4f},{b:.4f},{'abc'[c]},{d}" for (a, b), c, d in zip(x, g, y, strict=True)]
    (tmp_path / "t.csv").write_text("\n".join(["u,v,g,y", *rows]) + "\n")
    options = ("--model", model, "--run", tmp_path / "run.zarr", "--hidden", 4, "--seconds", 20, "--ess", 50)
    answer = invoke("fit", tmp_path / "t.csv", "--target", "y", *options)
    assert answer.exit_code == 0, answer.output
    log_loss = next(line.split() for line in answer.output.splitlines() if line.startswith("log loss"))
    if model != "poisson":
        assert float(log_loss[2]) < 0.7 * float(log_loss[3])
    answer = invoke("predict", tmp_path / "run.zarr", tmp_path / "t.csv", "--out", tmp_path / "out.csv")
    assert answer.exit_code == 0, answer.output
    with open(tmp_path / "out.csv", newline="") as file:
        found = list(csv.DictReader(file))
    if model == "poisson":
        means = np.array([float(row["y mean"]) for row in found])
        assert np.corrcoef(means, np.exp(0.5 * eta))[0, 1] > 0.9
    else:
        assert np.mean([row["y predicted"] == row["y"] for row in found]) > 0.8
        p = np.array([[float(row[name]) for name in row if name.startswith("p(")] for row in found])
        assert ((p >= 0) & (p <= 1)).all()
