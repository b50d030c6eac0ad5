import gzip
import hashlib
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from isotherm.paper.datasets import DatasetError, download, lookup, verify
from isotherm.paper.datasets.source import File, Source

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


def source(*urls):
    return Source("toy", "", "", "", "", (File("toy.bin", urls, hashlib.sha256(CONTENT).hexdigest(), len(CONTENT)),))


def left_in(folder):
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


def test_downloads_into_the_cache_once(server, cache):
    address, pages = server
    pages["/toy.bin.gz"] = gzip.compress(CONTENT)
    toy = source(f"{address}/toy.bin.gz")
    located = lookup.locate(toy)
    assert located == {"toy.bin": cache / "toy" / "toy.bin.gz"}
    assert verify.read(toy, located) == {"toy.bin": CONTENT}
    pages.clear()
    assert lookup.locate(toy) == located
    assert left_in(cache) == ["toy.bin.gz"]


def test_goes_on_to_the_next_address(server, cache):
    address, pages = server
    pages |= {"/wrong/toy.bin": b"<html>moved</html>", "/toy.bin": CONTENT}
    toy = source(f"{address}/missing/toy.bin", f"{address}/wrong/toy.bin", f"{address}/toy.bin")
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
    toy = source(f"{address}/toy.bin.gz")
    with pytest.raises(DatasetError) as caught:
        lookup.locate(toy)
    message = str(caught.value)
    assert f"toy: toy.bin could not be downloaded from {address}/toy.bin.gz (not that file: {words}" in message
    assert f"expected {toy.files[0].sha256}" in message
    assert left_in(cache) == []


def test_no_page_and_no_server_are_one_sentence(server, cache):
    address, _ = server
    with pytest.raises(DatasetError, match=rf"from {address}/toy.bin \(HTTPError\): fetch it elsewhere and put it"):
        lookup.locate(source(f"{address}/toy.bin"))
    with pytest.raises(DatasetError, match=r"\(ConnectionError\): .*compressed, into"):
        lookup.locate(source("http://127.0.0.1:9/toy.bin"))
    assert left_in(cache) == []


def test_a_place_that_cannot_be_written_is_said(server, cache):
    address, pages = server
    pages["/toy.bin"] = CONTENT
    cache.write_text("a file where the cache should be")
    with pytest.raises(
        DatasetError, match=r"toy.bin could not be downloaded from .* \((File exists|Not a directory)\)"
    ):
        lookup.locate(source(f"{address}/toy.bin"))


def test_terminal_sees_a_bar_that_fills(server, cache, monkeypatch, capsys):
    address, pages = server
    pages["/toy.bin"] = CONTENT
    monkeypatch.setattr(download.sys.stderr, "isatty", lambda: True, raising=False)
    lookup.locate(source(f"{address}/toy.bin"))
    shown = capsys.readouterr().err
    assert "toy.bin" in shown
    assert "1.3/1.3 MB" in shown
