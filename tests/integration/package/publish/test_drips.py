"""An index that sends a byte now and then: a time-out of each read never comes, the deadline does."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from ci.config.package_model import Index
from ci.package.asking import Asker, IndexAwayError
from ci.package.listing import Listed

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 100000\r\n\r\n"
SECONDS = 1.0


@contextmanager
def dripping(at_once: bytes, byte: bytes) -> Iterator[str]:
    """A server that begins its answer and then sends one byte ten times a second; its address."""
    ended = threading.Event()

    def serve(listener: socket.socket) -> None:
        while not ended.is_set():
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=drip, args=(connection,), daemon=True).start()

    def drip(connection: socket.socket) -> None:
        with connection:
            try:
                connection.recv(1 << 16)
                connection.sendall(at_once)
                while not ended.wait(0.1):
                    connection.sendall(byte)
            except OSError:
                return

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=serve, args=(listener,), daemon=True).start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            ended.set()
            listener.shutdown(socket.SHUT_RDWR)


def asker(address: str) -> Asker:
    index = Index(upload=f"{address}/", simple=f"{address}/simple/", timeout_s=SECONDS)
    return Asker(name="stage", index=index)


@pytest.mark.parametrize(
    ("at_once", "said"),
    [
        (b"HTTP/1.1 200 OK\r\nX-Slow: ", "it did not answer within 1 s"),
        (HEAD, "its answer did not end within 1 s"),
    ],
    ids=["in its header", "in its body"],
)
def test_a_page_that_drips_is_left_at_its_deadline(at_once: bytes, said: str) -> None:
    with dripping(at_once, b"x") as address:
        begun = time.monotonic()
        with pytest.raises(IndexAwayError, match=said):
            asker(address).listed("spyre-demo", attempts=1)
        assert time.monotonic() - begun < 10 * SECONDS


def test_a_file_that_drips_is_left_at_its_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ci.package.asking._DOWNLOAD_S", SECONDS)
    with dripping(HEAD, b"x") as address:
        one = Listed(filename="spyre_demo-1.0.tar.gz", url=f"{address}/x")
        with pytest.raises(IndexAwayError, match="its answer did not end within 1 s"):
            asker(address).digest(one)
