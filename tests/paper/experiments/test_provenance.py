"""Where numbers come from: the checkout's commit, and no other repository's."""

import subprocess

import jax

import isotherm
from isotherm.data.processes import cores
from isotherm.paper.experiments import provenance


def git(folder, *arguments):
    identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
    command = ["git", *identity, "-C", str(folder), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def test_commit(tmp_path):
    assert provenance.commit(tmp_path) is None
    git(tmp_path, "init")
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "module.py").write_text("")
    git(tmp_path, "commit", "--allow-empty", "-m", "first")
    assert provenance.commit(tmp_path / "package") is None  # in a repository that does not hold it
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-m", "second")
    commit = git(tmp_path, "rev-parse", "--short", "HEAD")
    assert provenance.commit(tmp_path / "package") == commit
    (tmp_path / "package" / "module.py").write_text("1")
    assert provenance.commit(tmp_path / "package") == f"{commit}-dirty"


def test_without_git_there_is_no_commit(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert provenance.commit(tmp_path) is None


def test_the_machine_is_described():
    words = " · ".join(provenance.describe())
    assert f"isotherm {isotherm.__version__}" in words
    assert f"{cores()} cores" in words
    assert f"JAX {jax.__version__}" in words
    assert provenance.processor() in words
    assert provenance.processor()
