"""What an index says, by a real server: pages in JSON and HTML, what is no page, and what never ends."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from ci.config.package_model import Index
from ci.core.errors import SettingsError
from ci.package.index_client import IndexAwayError, IndexClient, IndexFile

JSON = b"""{"meta": {"api-version": "1.1"}, "name": "spyre-demo", "versions": ["1.0"], "files": [
  {"filename": "spyre_demo-1.0.tar.gz", "url": "../../files/x", "hashes": {"sha256": "AA"},
   "yanked": "broken"},
  {"filename": "spyre_demo-1.1.tar.gz", "url": "/files/y", "hashes": {}}]}"""
HTML = b"""<!DOCTYPE html><html><body>
<a href="../../files/x#sha256=aa" data-yanked="broken">spyre_demo-1.0.tar.gz</a>
<a href="/files/y#md5=bb">spyre_demo-1.1.tar.gz</a></body></html>"""
PORTAL = b"<html><title>Welcome</title><a href='/login'>Log in</a> to use this network</html>"
SIMPLE = "application/vnd.pypi.simple.v1+json"


@dataclass(slots=True)
class Says:
    """What the server answers."""

    body: bytes = HTML
    kind: str = "text/html"
    statuses: list[int] = field(default_factory=lambda: [200])
    drips: bool = False
    ended: threading.Event = field(default_factory=threading.Event)


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, says: Says) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.says = says


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        says = self.server.says
        self.send_response(says.statuses.pop(0) if len(says.statuses) > 1 else says.statuses[0])
        self.send_header("Content-Type", says.kind)
        self.send_header("Content-Length", str(100_000 if says.drips else len(says.body)))
        self.end_headers()
        self.wfile.write(says.body)
        while says.drips and not says.ended.wait(0.1):
            self.wfile.write(b"x")

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def says() -> Says:
    return Says()


@pytest.fixture
def client(says: Says) -> Iterator[IndexClient]:
    with Server(says) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}"
        index = Index(upload=f"{address}/", simple=f"{address}/simple/", timeout_s=1, max_mib=1)
        yield IndexClient(name="stage", index=index)
        says.ended.set()
        server.shutdown()


@pytest.mark.parametrize(("body", "kind"), [(JSON, SIMPLE), (HTML, "text/html")], ids=["JSON", "HTML"])
def test_files_are_read_of_json_and_html(client: IndexClient, says: Says, body: bytes, kind: str) -> None:
    says.body, says.kind = body, kind
    address = client.index.simple.removesuffix("/simple/")
    assert client.files("spyre-demo") == [
        IndexFile(filename="spyre_demo-1.0.tar.gz", url=f"{address}/files/x", sha256="aa", yanked="broken"),
        IndexFile(filename="spyre_demo-1.1.tar.gz", url=f"{address}/files/y"),
    ]


def test_a_project_that_it_does_not_know_has_no_files(client: IndexClient, says: Says) -> None:
    says.body = b"<html><title>Links for spyre-demo</title></html>"
    assert client.files("spyre-demo") == []
    says.statuses = [404]
    assert client.files("spyre-demo") == []


def test_a_fault_that_passes_is_met_again(client: IndexClient, says: Says) -> None:
    says.statuses = [503, 200]
    assert len(client.files("spyre-demo")) == 2


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ((PORTAL, "text/html", 200), "it lists no files and is not marked as a page of an index"),
        ((b"[" * 100_000, SIMPLE, 200), "is not a page of a simple API"),
        ((b"{}", SIMPLE, 200), "is not a page of a simple API"),
        ((JSON.replace(b"spyre-demo", b"other"), SIMPLE, 200), "it is the page of 'other'"),
        ((JSON.replace(b'"1.1"', b'"2.0"'), SIMPLE, 200), "version"),
        ((b"", "text/html", 503), "its page of spyre-demo cannot be downloaded: HTTP 503"),
    ],
    ids=["portal", "deep", "no keys", "another project", "another version", "503"],
)
def test_what_is_no_page_of_an_index_is_an_index_that_is_away(
    client: IndexClient, says: Says, answer: tuple[bytes, str, int], said: str
) -> None:
    says.body, says.kind, status = answer
    says.statuses = [status]
    with pytest.raises(IndexAwayError) as caught:
        client.files("spyre-demo")
    assert said in str(caught.value)
    assert "stage (http://127.0.0.1:" in str(caught.value)


@pytest.mark.parametrize("status", [401, 403])
def test_an_index_that_wants_a_login_says_where_it_goes(client: IndexClient, says: Says, status: int) -> None:
    says.statuses = [status]
    with pytest.raises(SettingsError, match=r"~/\.netrc"):
        client.files("spyre-demo")


def test_an_answer_that_drips_is_left_at_its_deadline(client: IndexClient, says: Says) -> None:
    says.drips = True
    with pytest.raises(IndexAwayError, match="the answer takes too long"):
        client.files("spyre-demo")


def test_a_file_is_downloaded_with_its_hash_and_within_its_bound(
    client: IndexClient, says: Says, tmp_path: Path
) -> None:
    one = IndexFile(filename="x", url=f"{client.index.upload}x")
    says.body = b"data"
    assert client.download(one, tmp_path / "x").startswith("3a6eb079")
    assert (tmp_path / "x").read_bytes() == b"data"
    says.body = bytes(2 << 20)
    with pytest.raises(IndexAwayError, match="its response is larger than 1 MiB"):
        client.download(one, tmp_path / "y")
    says.statuses = [410]
    with pytest.raises(IndexAwayError, match="x cannot be downloaded: HTTP 410"):
        client.download(one, tmp_path / "y")
    assert not (tmp_path / "y").exists()
