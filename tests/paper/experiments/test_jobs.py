"""Jobs are done once, their files are whole, and a stopped command goes on where it was."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from isotherm.paper.experiments import jobs
from isotherm.paper.experiments.jobs import Job


def counted(names, calls, settings=None):
    def job(name):
        return Job(name, {"name": name, **(settings or {})}, lambda: calls.append(name) or {"value": len(name)})

    return [job(name) for name in names]


@pytest.mark.parametrize("workers", [1, 2])
def test_a_finished_job_is_not_done_again(tmp_path, workers):
    calls = []
    first = list(jobs.run(counted("ab", calls), tmp_path, workers))
    second = list(jobs.run(counted("abc", calls), tmp_path, workers))
    assert sorted(calls) == ["a", "b", "c"]
    assert {one.job.name: one.result for one in second} == {name: {"value": 1} for name in "abc"}
    assert [one.reused for one in first] == [False, False]
    assert {one.job.name: one.reused for one in second} == {"a": True, "b": True, "c": False}


def test_other_settings_are_another_result(tmp_path):
    calls = []
    list(jobs.run(counted("a", calls, {"passes": 20}), tmp_path))
    list(jobs.run(counted("a", calls, {"passes": 200}), tmp_path))
    assert calls == ["a", "a"]


@pytest.mark.parametrize("content", ["", "{", "[]", '{"job": {}}', "\xff"])
def test_a_broken_file_is_done_again(tmp_path, content):
    calls = []
    (tmp_path / "a.json").write_text(content, encoding="latin-1")
    (only,) = jobs.run(counted("a", calls), tmp_path)
    assert only.result == {"value": 1}
    assert json.loads((tmp_path / "a.json").read_text())["result"] == {"value": 1}


@pytest.mark.parametrize("workers", [1, 2])
def test_what_fails_is_raised_and_what_was_done_is_kept(tmp_path, workers):
    def broken():
        raise ArithmeticError("no")

    work = [*counted("a", []), Job("b", {}, broken)]
    with pytest.raises(ArithmeticError, match="no"):
        list(jobs.run(work, tmp_path, workers))
    assert jobs.read_result(tmp_path, work[1]) is None


def test_nothing_but_whole_files_is_left(tmp_path):
    list(jobs.run(counted("ab", []), tmp_path))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.json", "b.json"]


SLOW = """
import sys, time
from pathlib import Path
from isotherm.paper.experiments.jobs import Job, run
out = Path(sys.argv[1])
def work(name):
    with (out / "log").open("a") as log: log.write(name + "\\n")
    time.sleep(0.3)
    return {"name": name}
for done in run([Job(n, {"n": n}, lambda n=n: work(n)) for n in "abcdef"], out, int(sys.argv[2])):
    print(done.job.name, flush=True)
"""


@pytest.mark.parametrize("workers", ["1", "2"])
@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGKILL])
def test_a_stopped_process_redoes_no_finished_job(tmp_path, stop, workers):
    command = [sys.executable, "-c", SLOW, str(tmp_path), workers]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        done = [process.stdout.readline().strip() for _ in range(2)]
        os.kill(process.pid, stop)
        process.wait(20)
    time.sleep(0.1)
    before = (tmp_path / "log").read_text().split()
    finished = {path.stem for path in tmp_path.glob("*.json")}
    assert set(done) <= finished
    subprocess.run(command, check=True, capture_output=True, timeout=30)
    after = (tmp_path / "log").read_text().split()[len(before) :]
    assert sorted(after) == sorted(set("abcdef") - finished)
    assert sorted(path.stem for path in tmp_path.glob("*.json")) == list("abcdef")
