"""The zoo of models, as users write them: none may abort, hang or end in an error that is not isotherm's own."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

RUN_ZOO = Path(__file__).with_name("run_zoo.py")

# A few of each theme, each with one of three samplers; all of them with all samplers are the long test.
REPRESENTATIVE = {
    "eccadl": """
        whitening_matrix_float64 table_of_a_megabyte item_response_3pl_xlogy params_callable_module
        data_python_lists init_of_zero_size prior_constant_int without_replacement_all_rows
    """,
    "mccadl": """
        whole_data_by_index data_with_array_method
        pure_callback_of_parameters likelihood_nan_at_start custom_root_by_custom_vjp batch_of_one
    """,
    "sgnht": """
        control_variate_of_every_row schedule_from_a_table_of_float64 data_frame_with_text
        pure_callback_of_data schedule_that_raises params_of_zero_size_beside_others
    """,
}
THEMES = [path.stem for path in sorted(RUN_ZOO.parent.glob("*.py")) if "\n@model\n" in path.read_text()]


def run_zoo(*options: str) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, RUN_ZOO, *options], capture_output=True, text=True, check=False)


def test_representative_models():
    cases = [f"{model}@{sampler}" for sampler, models in REPRESENTATIVE.items() for model in models.split()]
    ran = run_zoo("--models", ",".join(cases), "--steps", "30")
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.long
@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("precision", [[], ["--x64"]], ids=["x32", "x64"])
def test_all_models_with_all_samplers(precision, theme):
    ran = run_zoo(*precision, "--chains", "1,3", "--samplers", "all", "--models", theme, "--quiet")
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_the_runner_names_what_is_not_as_expected(tmp_path):
    file = tmp_path / "outcomes.jsonl"
    models = "misbehaving_aborts,misbehaving_runs_where_refusal_is_expected,misbehaving_raises_before_the_run"
    ran = run_zoo("--samplers", "sgld", "--models", models, "--jobs", "1", "--json", str(file))
    assert ran.returncode == 1, ran.stderr
    assert [json.loads(line)["verdict"] for line in file.read_text().splitlines()] == ["ABORT", "ok", "TRACEBACK"]
    assert "3 not as expected" in ran.stdout


def test_the_runner_ends_a_hang():
    ran = run_zoo("--samplers", "sgld", "--models", "misbehaving_hangs", "--limit", "1")
    assert ran.returncode == 1, ran.stderr
    assert "misbehaving_hangs sgld x32 1 HANG: no answer after 1 s of work" in ran.stdout


def test_the_runner_alternates_precision_and_chains(tmp_path):
    file = tmp_path / "outcomes.jsonl"
    options = ["--samplers", "sgld,sghmc,sgnht,msgld", "--models", "misbehaving_raises_before_the_run", "--jobs", "1"]
    run_zoo("--alternate", "--chains", "1,3", *options, "--json", str(file))
    outcomes = [json.loads(line) for line in file.read_text().splitlines()]
    ways = [(outcome["sampler"], outcome["x64"], outcome["chains"]) for outcome in outcomes]
    assert ways == [("sgld", True, 1), ("sghmc", False, 1), ("sgnht", True, 3), ("msgld", False, 3)]


def test_the_zoo_is_large():
    assert run_zoo("--list").stdout.count("\n  ") >= 170
