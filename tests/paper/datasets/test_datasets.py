import pkgutil
import subprocess
import sys
from importlib import import_module

import pytest

from isotherm.paper import datasets
from isotherm.paper.datasets import letter
from isotherm.paper.datasets.source import SOURCES


def test_every_data_set_says_what_it_is():
    modules = {module.name for module in pkgutil.iter_modules(datasets.__path__)}
    with_source = {name for name in modules if hasattr(import_module(f"isotherm.paper.datasets.{name}"), "SOURCE")}
    rows = datasets.catalogue()
    assert {row["name"] for row in rows} == with_source == with_source & set(datasets.__all__)
    for row in rows:
        assert all(row[key] for key in ("title", "licence", "citation"))
        assert bool(row["files"]) == bool(row["addresses"])
        assert all(address.startswith("https://") for address in row["addresses"])


def test_importing_is_cheap():
    """None of scikit-learn, requests and pyarrow is loaded before it is needed."""
    heavy = {"sklearn", "requests", "pyarrow"}
    code = f"import sys; from isotherm import datasets; datasets.mnist; sys.exit(bool({heavy} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.fixture
def tiny(tmp_path, monkeypatch, with_contents):
    texts = [b"1 1:0.5\n", b"2 1:0.5\n"]
    source = with_contents(letter.SOURCE, texts)
    monkeypatch.setitem(SOURCES, "letter", source)
    for file, text in zip(source.files, texts, strict=True):
        (tmp_path / file.name).write_bytes(text)
    return tmp_path


def test_check_tells_each_file(tiny):
    (tiny / "letter.scale.t").write_bytes(b"3 1:0.5\n")
    (tiny / "acoustic_scale").write_bytes(b"1 1:0.5\n")
    status = {file: (name, words) for name, file, words in datasets.check(tiny)}
    assert status["letter.scale.tr"] == ("letter", "ok")
    assert status["letter.scale.t"][1].startswith(f"{tiny / 'letter.scale.t'} is not letter.scale.t: it is damaged")
    assert status["acoustic_scale"] == ("acoustic", "present, no checksum known")
    assert status["train-images-idx3-ubyte"] == ("mnist", "missing")
    assert len(status) == sum(len(source.files) for source in SOURCES.values())


def test_fetch_finds_what_is_there(tiny):
    assert datasets.fetch("letter", tiny) == [tiny / "letter.scale.tr", tiny / "letter.scale.t"]
    assert datasets.fetch("digits") == []


def test_fetch_refuses_and_says_where_to_put_files(tiny, tmp_path, cache):
    (tiny / "letter.scale.t").write_bytes(b"3 1:0.5\n")
    with pytest.raises(datasets.DatasetError, match=r"letter\.scale\.t is not letter\.scale\.t: it is damaged"):
        datasets.fetch("letter", tiny)
    assert (tiny / "letter.scale.t").read_bytes() == b"3 1:0.5\n"
    new = tmp_path / "new"
    with pytest.raises(datasets.DatasetError, match=f"into {new / 'mnist'}, or"):
        datasets.fetch("mnist", new)
    with pytest.raises(datasets.DatasetError, match=f"cifar-10-binary.tar.gz .* into {cache / 'cifar10'}, or"):
        datasets.fetch("cifar10")
    with pytest.raises(ValueError, match=r"name .*got 'minst'"):
        datasets.fetch("minst")
