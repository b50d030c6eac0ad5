import dataclasses
import gzip
import hashlib
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from isotherm.paper.datasets import DatasetError, lookup, verify
from isotherm.paper.datasets.source import File, Source

SOURCE = Source(
    "toy", "", "", "", "",
    files=(File("toy.bin"), File("other.bin")), mirrors=("http://toy.example/{}.gz",),
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
    source = dataclasses.replace(SOURCE, archive="packed.tar.gz", folder="inner")
    located = lookup.locate(source, tmp_path)
    assert located == {"toy.bin": tmp_path / "inner" / "toy.bin", "other.bin": tmp_path / "packed.tar.gz"}


CONTENT = bytes(range(256)) * 5000


@pytest.fixture
def server():
    """A web server on this machine: its address, and the pages it serves."""
    pages = {}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            body = pages.get(self.path)
            if body is None:
                self.send_error(404)
                return
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=httpd.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{httpd.server_port}", pages
    httpd.shutdown()
    httpd.server_close()
    thread.join()


def source_at(*urls):
    return Source("toy", "", "", "", "", (File("toy.bin", hashlib.sha256(CONTENT).hexdigest(), len(CONTENT)),), urls)


def left_in(folder):
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


def test_downloads_into_the_cache_once(server, cache):
    address, pages = server
    pages["/toy.bin.gz"] = gzip.compress(CONTENT)
    toy = source_at(f"{address}/toy.bin.gz")
    located = lookup.locate(toy)
    assert located == {"toy.bin": cache / "toy" / "toy.bin.gz"}
    assert verify.read(toy, located) == {"toy.bin": CONTENT}
    pages.clear()
    assert lookup.locate(toy) == located
    assert left_in(cache) == ["toy.bin.gz"]


def test_goes_on_to_the_next_address(server, cache):
    address, pages = server
    pages |= {"/wrong/toy.bin": b"<html>moved</html>", "/toy.bin": CONTENT}
    toy = source_at(f"{address}/missing/toy.bin", f"{address}/wrong/toy.bin", f"{address}/toy.bin")
    assert verify.read(toy, lookup.locate(toy)) == {"toy.bin": CONTENT}
    assert left_in(cache) == ["toy.bin"]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (gzip.compress(CONTENT)[:1000], "it is truncated"),
        (gzip.compress(CONTENT[:-1] + b"!"), "it is damaged"),
        (b"<html>moved</html>", "it is truncated or another file, 18 bytes of 1,280,000"),
    ],
)
def test_what_is_wrong_is_not_kept(server, cache, body, words):
    address, pages = server
    pages["/toy.bin.gz"] = body
    toy = source_at(f"{address}/toy.bin.gz")
    with pytest.raises(DatasetError) as caught:
        lookup.locate(toy)
    message = str(caught.value)
    assert f"toy: toy.bin could not be downloaded from {address}/toy.bin.gz (not that file: {words}" in message
    assert f"expected {toy.files[0].sha256}" in message
    assert left_in(cache) == []


def test_no_page_and_no_server_are_one_sentence(server, cache):
    address, _ = server
    with pytest.raises(DatasetError, match=rf"from {address}/toy.bin \(HTTPError\): fetch it elsewhere and put it"):
        lookup.locate(source_at(f"{address}/toy.bin"))
    with pytest.raises(DatasetError, match=r"\(ConnectionError\): .*compressed, into"):
        lookup.locate(source_at("http://127.0.0.1:9/toy.bin"))
    assert left_in(cache) == []


def test_a_place_that_cannot_be_written_is_said(server, cache):
    address, pages = server
    pages["/toy.bin"] = CONTENT
    cache.write_text("a file where the cache should be")
    with pytest.raises(
        DatasetError, match=r"toy.bin could not be downloaded from .* \((File exists|Not a directory)\)"
    ):
        lookup.locate(source_at(f"{address}/toy.bin"))


def test_terminal_sees_a_bar_that_fills(server, cache, monkeypatch, capsys):
    address, pages = server
    pages["/toy.bin"] = CONTENT
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    lookup.locate(source_at(f"{address}/toy.bin"))
    shown = capsys.readouterr().err
    assert "toy.bin" in shown
    assert "1.3/1.3 MB" in shown
