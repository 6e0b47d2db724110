"""A HUD that answers badly is said to, and never ends `reproduce` with a traceback or holds it for ever."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator

import pytest

from ci.core.errors import CommandError
from ci.reproduce import lookup
from ci.reproduce.lookup import ask
from ci.reproduce.ref import HudPage

ANSWERS = {
    "/cut": (("Content-Length", "1000"), b'{"a"'),
    "/gzip": (("Content-Encoding", "gzip"), b"nothing of the kind"),
    "/chunk": (("Transfer-Encoding", "chunked"), b"zzzz\r\nabc\r\n"),
}


class _Bad(http.server.BaseHTTPRequestHandler):
    ended = threading.Event()

    def do_GET(self) -> None:
        self.send_response(200)
        if self.path == "/drip":
            self.send_header("Content-Length", "100000")
            self.end_headers()
            while not self.ended.wait(0.1):
                self.wfile.write(b"[")
            return
        header, body = ANSWERS[self.path]
        self.send_header(*header)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def page() -> Iterator[HudPage]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Bad) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield HudPage(base=f"http://127.0.0.1:{server.server_address[1]}", number=1)
        _Bad.ended.set()
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("path", [*ANSWERS, "/drip"])
def test_a_hud_that_answers_badly_is_said(path: str, page: HudPage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookup, "WHOLE_S", 1)
    with pytest.raises(CommandError, match="the HUD does not answer"):
        ask(page, "")(path, {})
