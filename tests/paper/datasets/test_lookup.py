import dataclasses

import pytest

from isotherm.paper.datasets import DatasetError, lookup
from isotherm.paper.datasets.source import Archive, File, Source

SOURCE = Source(
    "toy", "", "", "", "",
    files=(File("toy.bin", ("http://toy.example/toy.bin.gz",)), File("other.bin", ("http://toy.example/other.bin",))),
)  # fmt: skip
TOY = SOURCE.files[0]


@pytest.mark.parametrize("suffix", ["", ".gz", ".xz", ".bz2"])
@pytest.mark.parametrize("folder", ["toy", "."])
def test_found_in_both_places_plain_or_compressed(tmp_path, suffix, folder):
    path = tmp_path / folder / f"toy.bin{suffix}"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"any content")
    assert lookup.find(SOURCE, TOY, tmp_path) == path


def test_look_up_order(tmp_path, cache, monkeypatch):
    places = [tmp_path / "argument", tmp_path / "variable", cache]
    for place in places:
        (place / "toy").mkdir(parents=True)
        (place / "toy" / "toy.bin").write_bytes(b"any content")
    monkeypatch.setenv("ISOTHERM_DATA", str(places[1]))
    for place in places:
        assert lookup.find(SOURCE, TOY, places[0]) == place / "toy" / "toy.bin"
        (place / "toy" / "toy.bin").unlink()
    assert lookup.find(SOURCE, TOY, places[0]) is None


def test_a_folder_that_is_not_there_is_named(tmp_path, monkeypatch):
    with pytest.raises(
        DatasetError, match=r"^data_dir \(--data\) must be the folder that holds the data sets, got .*nowhere"
    ):
        lookup.find(SOURCE, TOY, tmp_path / "nowhere")
    monkeypatch.setenv("ISOTHERM_DATA", "/no/such/folder")
    with pytest.raises(
        DatasetError, match=r"\$ISOTHERM_DATA must be the folder that holds the data sets, got '/no/such/folder'"
    ):
        lookup.find(SOURCE, TOY)


def test_missing_is_one_sentence_with_address_and_place(tmp_path, cache):
    (tmp_path / "other.bin").write_bytes(b"any content")
    with pytest.raises(DatasetError) as caught:
        lookup.locate(SOURCE, tmp_path)
    assert str(caught.value) == (
        "toy: toy.bin could not be downloaded from http://toy.example/toy.bin.gz (ConnectionError): "
        f"fetch it elsewhere and put it, plain or compressed, into {tmp_path / 'toy'}, "
        "or give the folder that has it (data_dir=, --data or $ISOTHERM_DATA)"
    )
    assert caught.value.__cause__ is None
    with pytest.raises(DatasetError, match=f"into {cache / 'toy'}, or"):
        lookup.locate(SOURCE)


def test_unpacked_archive_is_found_first(tmp_path):
    (tmp_path / "packed.tar.gz").write_bytes(b"any content")
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "toy.bin").write_bytes(b"any content")
    source = dataclasses.replace(SOURCE, archive=Archive("packed.tar.gz", (), "inner"))
    located = lookup.locate(source, tmp_path)
    assert located == {"toy.bin": tmp_path / "inner" / "toy.bin", "other.bin": tmp_path / "packed.tar.gz"}
