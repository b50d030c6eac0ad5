import bz2
import gzip
import hashlib
import io
import lzma
import tarfile

import pytest

from isotherm.paper.datasets import DatasetError, verify
from isotherm.paper.datasets.source import File, Source

CONTENT = b"\x00\x00\x08\x01" + bytes(range(256)) * 40
OTHER = b"something else entirely" * 100
SHA256 = hashlib.sha256(CONTENT).hexdigest()
SOURCE = Source(
    "toy", "", "", "", "",
    files=(
        File("toy.bin", SHA256, len(CONTENT)),
        File("other.bin", hashlib.sha256(OTHER).hexdigest(), len(OTHER)),
    ),
    mirrors=("http://toy.example/{}.gz",),
)  # fmt: skip
COMPRESS = {"": bytes, ".gz": gzip.compress, ".xz": lzma.compress, ".bz2": bz2.compress}
each_suffix = pytest.mark.parametrize("suffix", COMPRESS)


def read(path):
    return verify.read(SOURCE, {"toy.bin": path})["toy.bin"]


def refused(path, stored):
    """What is said of these bytes at this path; the file must be untouched afterwards."""
    path.write_bytes(stored)
    with pytest.raises(DatasetError) as caught:
        read(path)
    assert path.read_bytes() == stored
    message = str(caught.value)
    assert message.startswith(f"{path} is not toy.bin: ")
    assert f"expected {SHA256}" in message
    assert "It is left as it is: move it away and fetch it again from http://toy.example/toy.bin.gz" in message
    return message


@each_suffix
def test_plain_and_compressed_read_alike(tmp_path, suffix):
    path = tmp_path / "any name"
    path.write_bytes(COMPRESS[suffix](CONTENT))
    assert read(path) == CONTENT


def test_a_suffix_that_is_not_true_does_not_matter(tmp_path):
    """Browsers decompress on the way and keep the name."""
    path = tmp_path / "toy.bin.gz"
    path.write_bytes(CONTENT)
    assert read(path) == CONTENT


@each_suffix
def test_truncated_is_refused(tmp_path, suffix):
    whole = COMPRESS[suffix](CONTENT)
    message = refused(tmp_path / f"toy.bin{suffix}", whole[: len(whole) // 2])
    assert "it is truncated" in message
    if not suffix:
        half = CONTENT[: len(CONTENT) // 2]
        assert f"5,122 bytes of 10,244; the SHA-256 of its content is {hashlib.sha256(half).hexdigest()}" in message


@each_suffix
def test_corrupted_is_refused(tmp_path, suffix):
    stored = bytearray(COMPRESS[suffix](CONTENT))
    stored[len(stored) // 2] ^= 0x10
    assert "it is damaged" in refused(tmp_path / f"toy.bin{suffix}", bytes(stored))


def test_corrupted_inside_a_sound_wrapper_is_refused(tmp_path):
    damaged = bytearray(CONTENT)
    damaged[1000] ^= 1
    message = refused(tmp_path / "toy.bin.xz", lzma.compress(bytes(damaged)))
    assert "it is damaged, of the right length but with other content" in message
    assert f"its content is {hashlib.sha256(damaged).hexdigest()}" in message


@each_suffix
def test_wrong_is_refused(tmp_path, suffix):
    path = tmp_path / f"toy.bin{suffix}"
    assert "it is another file, other.bin" in refused(path, COMPRESS[suffix](OTHER))
    assert "it is another file, 10,247 bytes instead of 10,244" in refused(path, COMPRESS[suffix](CONTENT + b"xyz"))


def test_empty_is_refused(tmp_path):
    assert "it is truncated or another file, 0 bytes of 10,244" in refused(tmp_path / "toy.bin", b"")


def test_blanks_at_line_ends_are_no_content_of_text(tmp_path):
    text = b"1 1:0.5\n2 2:-1\n"
    file = File("rows", hashlib.sha256(text).hexdigest(), len(text))
    source = Source("text", "", "", "", "", files=(file,), text=True)
    for stored in (text, b"1 1:0.5 \n2 2:-1 \n", b"1 1:0.5\r\n2 2:-1\r\n"):
        (tmp_path / "rows").write_bytes(stored)
        assert verify.read(source, {"rows": tmp_path / "rows"}) == {"rows": stored}
    (tmp_path / "rows").write_bytes(b"1 1:0.5\n2  2:-1\n")
    with pytest.raises(DatasetError, match="rows is not rows"):
        verify.read(source, {"rows": tmp_path / "rows"})


ARCHIVED = Source(
    "packed", "", "", "", "",
    files=SOURCE.files, mirrors=("http://toy.example/{}",), archive="packed.tar.gz", folder="inner",
)  # fmt: skip


def archive(members):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, stored in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(stored)
            tar.addfile(member, io.BytesIO(stored))
    return buffer.getvalue()


def test_archive_gives_its_named_members_and_unpacks_nothing(tmp_path):
    evil = {"../escaped": b"x", "/absolute": b"x", "inner/readme": b"x"}
    members = {"inner/other.bin": OTHER, **evil, "inner/toy.bin": CONTENT}
    path = tmp_path / "packed.tar.gz"
    path.write_bytes(archive(members))
    assert verify.read(ARCHIVED, {"toy.bin": path, "other.bin": path}) == {"toy.bin": CONTENT, "other.bin": OTHER}
    assert [path.name for path in tmp_path.rglob("*")] == ["packed.tar.gz"]
    assert not (tmp_path.parent / "escaped").exists()


@pytest.mark.parametrize(
    ("stored", "words"),
    [
        (archive({"inner/toy.bin": CONTENT[:-1], "inner/other.bin": OTHER}), "10,243 bytes of 10,244"),
        (archive({"inner/other.bin": OTHER}), "it does not hold that file"),
        (archive({"inner/toy.bin": CONTENT, "inner/other.bin": OTHER})[:150], "truncated or damaged"),
        (b"<html>no such page</html>", "truncated or damaged"),
    ],
)
def test_archive_with_wrong_members_is_refused(tmp_path, stored, words):
    path = tmp_path / "packed.tar.gz"
    path.write_bytes(stored)
    with pytest.raises(DatasetError, match=rf"{path} is not toy.bin: .*{words}.*expected {SHA256}"):
        verify.read(ARCHIVED, {"toy.bin": path, "other.bin": path})
    assert path.read_bytes() == stored
