"""`isotherm sample` and `isotherm resume`, as commands."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
import xarray
from typer.testing import CliRunner

import isotherm
from isotherm.cli.app import app
from isotherm.diagnostics.stein import Bias
from isotherm.paper.experiments import catalogue, stored_runs
from isotherm.run.largest_step import Found, Trial

PROGRAM = "import sys; from isotherm.cli.app import app; app(prog_name='isotherm', args=sys.argv[1:])"


def invoke(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def values(path):
    tree = xarray.open_datatree(path, engine="zarr")
    return {f"{group.name}.{name}": array.values for group in tree.subtree for name, array in group.data_vars.items()}


def test_a_killed_command_is_resumed_by_a_command(tmp_path):
    settings = ("--sampler", "sgnht", "--step-size", "0.001", "--friction", "10")  # the loop that is compiled soonest
    words = ("linear_regression", "--steps", "20000", "--chains", "1", "--thin", "100", "--seed", "3", *settings)
    command = [sys.executable, "-c", PROGRAM, "sample", words[0], str(tmp_path / "cut"), *words[1:]]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        until = time.monotonic() + 120
        while not (tmp_path / "cut" / ".isotherm" / "checkpoint-0").exists():
            assert time.monotonic() < until
            assert process.poll() is None
            time.sleep(0.02)
        os.kill(process.pid, signal.SIGKILL)
    answer = invoke("resume", tmp_path / "cut")
    assert answer.exit_code == 0, answer.output
    assert "step 20,000 of 20,000, 1 chains of 160 draws" in answer.output
    whole = invoke("sample", words[0], tmp_path / "whole", *words[1:])
    assert whole.exit_code == 0, whole.output
    cut, uncut = values(tmp_path / "cut"), values(tmp_path / "whole")
    assert cut.keys() == uncut.keys()
    for name in cut:
        np.testing.assert_array_equal(cut[name], uncut[name])


def test_a_finished_run_is_extended(tmp_path):
    assert invoke("sample", "linear_regression", tmp_path / "run", "--steps", 100, "--chains", 2).exit_code == 0
    answer = invoke("resume", tmp_path / "run", "--steps", 50)
    assert "step 150 of 150, 2 chains of 13 draws" in answer.output, answer.output


@pytest.mark.slow  # ξ has to come from 1 to its place at each step size that is tried
def test_auto_finds_a_step_size_for_any_sampler(tmp_path):
    words = ("--sampler", "mccadl", "--steps", 50, "--chains", 1)
    answer = invoke("sample", "linear_regression", tmp_path / "run", *words)
    assert answer.exit_code == 0, answer.output
    attributes = xarray.open_datatree(tmp_path / "run", engine="zarr").attrs
    assert attributes["step_size_found"].startswith("isotherm.largest_step")
    assert 0 < attributes["sampler_step_size"] < 0.018  # 2/√λ_max(Hessian), the limit of stability
    assert attributes["sampler_friction"] == 1


def test_auto_is_a_step_size_that_is_looked_for(tmp_path, monkeypatch):
    """The search, which finds at once here, is of tests/run/test_largest_step.py."""
    trial = Trial(0.01, Bias(0.0004, 1e-5, 1.05, 0.01, 0.1), 256, True)
    monkeypatch.setattr("isotherm.run.sample.find", lambda run, bound, progress: Found(trial, (trial,)))
    words = ("--sampler", "sghmc", "--friction", 2, "--steps", 50, "--chains", 1)
    answer = invoke("sample", "linear_regression", tmp_path / "run", *words)
    assert answer.exit_code == 0, answer.output
    attributes = xarray.open_datatree(tmp_path / "run", engine="zarr").attrs
    assert attributes["step_size_found"] == "isotherm.largest_step, bias at most 0.1"
    assert attributes["step_size_shift"] == pytest.approx(0.02)
    assert attributes["step_size_variance"] == 1.05
    assert (attributes["sampler_step_size"], attributes["sampler_friction"]) == (0.01, 2)


def test_every_problem_has_a_name_of_its_own():
    tasks = [task for experiment in catalogue.ALL for task in experiment.tasks]
    assert len(stored_runs.PROBLEMS) == len(tasks)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("linear",), "PROBLEM must be one of linear_regression, mnist-7-9"),
        (("linear_regression", "--sampler", "nuts"), "--sampler must be one of eccadl"),
        (("linear_regression", "--sampler", "sgld", "--friction", "2"), "--friction is not for sgld, which has none"),
        (("linear_regression", "--step-size", "big"), "must be a number or \"auto\", got 'big'"),
        (("linear_regression", "--steps", "0"), "steps must be"),
    ],
)
def test_mistakes_are_told_before_anything_is_made(tmp_path, words, message):
    answer = invoke("sample", words[0], tmp_path / "run", *words[1:])
    assert answer.exit_code == 2
    assert message in answer.output
    assert not (tmp_path / "run").exists()


def test_what_cannot_be_resumed_is_refused(tmp_path):
    answer = invoke("resume", tmp_path / "none")
    assert answer.exit_code == 2
    assert "which is not there" in answer.output
    posterior = isotherm.Posterior(lambda theta, x: -jnp.sum((theta - x) ** 2), lambda theta: -jnp.sum(theta**2))
    data = np.zeros((20, 2), np.float32)
    arguments = {"batch_size": 5, "steps": 20, "thin": 1, "progress": False}
    isotherm.sample(posterior, isotherm.sgld(1e-3), data, jnp.zeros(2), store=tmp_path / "mine", **arguments)
    answer = invoke("resume", tmp_path / "mine")
    assert answer.exit_code == 2
    assert "was not started with `isotherm fit` or `isotherm sample`" in answer.output


def test_a_folder_that_is_no_run_is_refused_in_a_sentence(tmp_path):
    (tmp_path / "photographs").mkdir()
    (tmp_path / "photographs" / "cat.jpg").write_bytes(b"")
    answer = invoke("resume", tmp_path / "photographs")
    assert answer.exit_code == 2
    assert isinstance(answer.exception, SystemExit), answer.exception
    assert answer.output.startswith("error: ")
    assert "photographs" in answer.output
    assert "Errno" not in answer.output
    assert answer.output.count("\n") == 1


@pytest.mark.parametrize(
    ("data_dir", "words"),
    [(None, "isotherm resume 'my run'"), ("my data", "isotherm resume 'my run' --data 'my data'")],
)
def test_the_command_that_continues_a_run_names_the_same_data(data_dir, words):
    tree = xarray.DataTree.from_dict({"posterior": xarray.Dataset({"theta": (("chain", "draw"), np.zeros((2, 3)))})})
    tree.attrs = {"steps_done": 40, "steps": 100, "interrupted": True}
    status = stored_runs.status(tree, Path("my run"), data_dir and Path(data_dir))
    assert status == f"my run: step 40 of 100, 2 chains of 3 draws; continue with: {words}"


@pytest.mark.parametrize("words", [("sample", "mnist-7-9", "run"), ("reproduce", "mnist"), ("data", "check")])
def test_a_wrong_folder_is_named_as_it_was_typed(tmp_path, monkeypatch, words):
    monkeypatch.chdir(tmp_path)
    answer = invoke(*words, "--data", "nowhere")
    assert answer.exit_code == 2
    assert "error: --data must " in answer.output
    assert "got 'nowhere'" in answer.output
    assert "data_dir" not in answer.output
    assert isinstance(answer.exception, SystemExit), answer.exception
