"""The command line: quick to answer, plain about mistakes, and stoppable."""

import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import xarray
from typer.testing import CliRunner

import isotherm
from isotherm.cli.app import SAMPLERS, app
from isotherm.diagnostics.check import Verdict
from isotherm.paper.datasets import DatasetError
from isotherm.paper.experiments import demo, metrics, reproduce, stored_runs

RUNNER = CliRunner()
PROGRAM = "import sys; from isotherm.cli.app import app; app(prog_name='isotherm', args=sys.argv[1:])"


def invoke(*arguments):
    return RUNNER.invoke(app, list(arguments))


def test_help_lists_the_commands():
    answer = invoke("--help")
    assert answer.exit_code == 0
    for command in ("demo", "fit", "predict", "reproduce", "check", "report", "data"):
        assert command in answer.output


def test_help_lists_the_samplers():
    assert SAMPLERS == stored_runs.SAMPLERS
    words = " ".join(invoke("sample", "--help").output.replace("│", " ").split())
    assert f"{', '.join(SAMPLERS[:-1])} or {SAMPLERS[-1]}" in words


def test_version():
    assert invoke("--version").output.strip() == f"isotherm {isotherm.__version__}"


def test_help_imports_nothing_heavy():
    code = (
        "import sys\nfrom isotherm.cli.app import app\n"
        "try:\n    app(prog_name='isotherm', args=['--help'])\nexcept SystemExit:\n    pass\n"
        "heavy = {'jax', 'matplotlib', 'xarray', 'sklearn', 'numpy', 'requests', 'pyarrow'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, timeout=60)


def test_an_unknown_experiment_is_refused_with_the_names():
    answer = invoke("reproduce", "mnits")
    assert answer.exit_code == 2
    assert "NAME must be one of linear-regression, mnist" in answer.output
    assert "got 'mnits'" in answer.output


def test_missing_data_is_one_sentence(monkeypatch, tmp_path):
    def missing(*_):
        raise DatasetError("acoustic_scale is missing: put it in DIR, from ADDRESS")

    monkeypatch.setattr(reproduce, "reproduce", missing)
    answer = invoke("reproduce", "acoustic", "--out", str(tmp_path))
    assert answer.exit_code == 2
    assert "error: acoustic_scale is missing: put it in DIR, from ADDRESS" in answer.output
    assert "Traceback" not in answer.output


def test_reproduce_prints_what_it_wrote(monkeypatch, tmp_path):
    seen = {}

    def stand_in(names, options, out, tick, tell):
        seen.update(names=names, options=options)
        tick(1, 2, "a cell")
        return [out / "results.json"]

    monkeypatch.setattr(reproduce, "reproduce", stand_in)
    answer = invoke("reproduce", "mnist", "letter", "--quick", "--seeds", "2", "--data", "d", "--out", str(tmp_path))
    assert answer.exit_code == 0, answer.output
    assert str(tmp_path / "results.json") in answer.output.replace("\n", "")
    assert seen["names"] == ["mnist", "letter"]
    assert seen["options"] == (True, 2, Path("d"))


def test_report_writes_a_page_about_any_stored_run(tmp_path):
    draws = np.random.default_rng(0).standard_normal((2, 50))
    posterior = xarray.Dataset({"mu": (("chain", "draw"), draws)})
    xarray.DataTree.from_dict({"posterior": posterior}).to_zarr(tmp_path / "run.zarr", consolidated=False)
    answer = invoke("report", str(tmp_path / "run.zarr"), "--out", str(tmp_path / "deep" / "page.html"))
    assert answer.exit_code == 0, answer.output
    assert "effective draws" in answer.output
    assert "page.html" in answer.output
    assert "<title>Report of a run</title>" in (tmp_path / "deep" / "page.html").read_text()


def test_report_checks_a_run_of_sample_with_its_data(tmp_path, monkeypatch):
    posterior = xarray.Dataset({"theta": (("chain", "draw"), np.zeros((2, 50)))})
    tree = xarray.DataTree.from_dict({"posterior": posterior})
    tree.attrs["name"] = "mnist-7-9"
    tree.to_zarr(tmp_path / "run.zarr", consolidated=False)
    seen = []

    def stand_in(run, data):
        seen.append((run, data))
        return Verdict((), ("other modes",), 3.0)

    monkeypatch.setattr(stored_runs, "check_run", stand_in)
    answer = invoke("report", str(tmp_path / "run.zarr"), "--data", "d", "--out", str(tmp_path / "page.html"))
    assert answer.exit_code == 0, answer.output
    assert seen == [(tmp_path / "run.zarr", Path("d"))]
    assert str(Verdict((), (), 0.0)).splitlines()[0] in answer.output
    assert "3.0 passes" in (tmp_path / "page.html").read_text()


def test_report_of_what_is_not_a_run_is_refused_in_a_sentence(tmp_path):
    (tmp_path / "empty").mkdir()
    for name in ("nowhere", "empty"):
        answer = invoke("report", str(tmp_path / name), "--out", str(tmp_path / "page.html"))
        assert answer.exit_code == 2
        assert "error: " in answer.output
        assert "Traceback" not in answer.output
    assert not (tmp_path / "page.html").exists()


def test_data_list_names_every_set():
    answer = invoke("data", "list")
    assert answer.exit_code == 0
    for name in ("mnist", "cifar10", "letter", "acoustic", "digits", "linear_regression"):
        assert f"{name}: " in answer.output
    assert "licence" in answer.output


def test_data_check_in_an_empty_folder_says_missing(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("ISOTHERM_DATA", raising=False)
    answer = invoke("data", "check", "--data", str(tmp_path))
    assert "letter/letter.scale.t: missing" in answer.output


def test_data_check_fails_on_a_wrong_file(tmp_path, monkeypatch):
    (tmp_path / "letter").mkdir()
    (tmp_path / "letter" / "letter.scale.t").write_text("1 1:0.5\n")
    answer = invoke("data", "check", "--data", str(tmp_path))
    assert answer.exit_code == 1


def test_data_fetch_refuses_an_unknown_name():
    answer = invoke("data", "fetch", "minst")
    assert answer.exit_code == 2
    assert "got 'minst'" in answer.output


def test_demo_prints_a_table_and_saves_a_figure(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(demo, "PASSES", 20)
    monkeypatch.setattr(metrics, "windows", partial(metrics.windows, points=4))
    monkeypatch.setattr(demo, "ORDER", ("sgnht", "ccadl"))
    monkeypatch.setattr(demo, "CELLS", [cell for cell in demo.CELLS if cell.method in demo.ORDER])
    answer = invoke("demo")
    assert answer.exit_code == 0, answer.output
    assert "step size 0.005" in answer.output
    assert "diverged at step" in answer.output  # CCAdL at the large step
    assert "SGNHT" in answer.output
    assert Path("isotherm-demo/w2.png").read_bytes().startswith(b"\x89PNG")
    assert "isotherm-demo/w2.png" in answer.output


def start(out):
    command = [sys.executable, "-c", PROGRAM, "reproduce", "linear-regression", "--quick", "--out", str(out)]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, preexec_fn=hear)


def hear():
    """A shell starts background jobs deaf to SIGINT, and tests may run in one."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def wait_for_cells(out, count):
    until = time.monotonic() + 120
    while len(found := list(out.rglob("cells/**/*.json"))) < count:
        assert time.monotonic() < until, "no cells in two minutes"
        time.sleep(0.05)
    return {path: path.stat().st_mtime_ns for path in found}


@pytest.mark.long
@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGKILL])
def test_a_stopped_reproduce_goes_on_where_it_was(tmp_path, stop):
    with start(tmp_path) as process:
        wait_for_cells(tmp_path, 2)
        os.kill(process.pid, stop)
        words = process.stderr.read()
        code = process.wait(60)
    if stop == signal.SIGINT:
        assert code == 130
        assert "the same command continues there" in words.replace("\n", "")
        assert "Traceback" not in words
    before = wait_for_cells(tmp_path, 2)
    with start(tmp_path) as process:
        after = wait_for_cells(tmp_path, len(before) + 1)
        process.kill()
    assert {path: after[path] for path in before} == before


def stored(folder, steps):
    """A run of linear regression."""
    run = str(folder / "run.zarr")
    answer = invoke("sample", "linear_regression", run, "--steps", str(steps), "--thin", str(steps // 200))
    assert answer.exit_code == 0, answer.output
    return run


@pytest.mark.slow
def test_check_says_what_it_found(tmp_path):
    answer = invoke("check", stored(tmp_path, 50_000))
    assert "ok   mean: off by 0.0" in answer.output
    assert "passes over the data" in answer.output
    assert answer.exit_code == 0, answer.output


def test_check_of_a_good_run_ends_with_0(tmp_path, monkeypatch):
    monkeypatch.setattr(stored_runs, "check_run", lambda run, data: Verdict((), ("other modes",), 3.0))
    answer = invoke("check", str(tmp_path / "run.zarr"))
    assert answer.exit_code == 0, answer.output
    assert str(Verdict((), (), 3.0)).splitlines()[0] in answer.output


def test_check_of_a_run_that_is_too_short_ends_with_1(tmp_path):
    answer = invoke("check", stored(tmp_path, 200))
    assert answer.exit_code == 1
    assert "BAD  effective draws: " in answer.output
    assert "\n     run longer" in answer.output


def test_check_of_what_is_no_run_is_one_sentence(tmp_path):
    answer = invoke("check", str(tmp_path / "nothing.zarr"))
    assert answer.exit_code == 2
    assert "error: RUN must be a folder made by `isotherm fit` or `isotherm sample`, got " in answer.output
    assert "Traceback" not in answer.output


def test_check_of_a_run_without_a_problem_says_what_to_do_instead(tmp_path):
    posterior = isotherm.Posterior(lambda t, x: -((t - x) ** 2), lambda t: -(t**2))
    settings = {"batch_size": 3, "steps": 40, "thin": 1, "progress": False, "store": tmp_path / "mine.zarr"}
    isotherm.sample(posterior, isotherm.sgld(1e-3), np.zeros(9, np.float32), np.float32(0), **settings)
    answer = invoke("check", str(tmp_path / "mine.zarr"))
    assert answer.exit_code == 2
    assert "it has no problem's name; check it in Python, with isotherm.check(tree, posterior, data)" in answer.output
