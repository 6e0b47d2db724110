"""Answers end in time and at their bound; of what failed, the network's own words are told."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable

import pytest
import requests
from urllib3.connection import HTTPConnection
from urllib3.connectionpool import HTTPConnectionPool
from urllib3.exceptions import MaxRetryError, NewConnectionError, ProxyError

from ci.core.http import cause, pieces

POOL = HTTPConnectionPool("h")


class Parts:
    def __init__(self, parts: Iterable[bytes]) -> None:
        self._parts = iter(parts)

    def read1(self, size: int, *, decode_content: bool) -> bytes:
        assert size
        assert decode_content
        return next(self._parts, b"")


def answer(parts: Iterable[bytes], status: int = 200, **headers: str) -> requests.Response:
    made = requests.Response()
    made.status_code = status
    made.headers.update({name.replace("_", "-"): value for name, value in headers.items()})
    made.raw = Parts(parts)
    return made


def read(response: requests.Response, until: float = 1.0, clock: Callable[[], float] = lambda: 0.0) -> bytes:
    return b"".join(pieces(response, until=until, most_bytes=100, clock=clock))


def test_an_answer_that_never_ends_is_not_waited_for() -> None:
    ticks = iter(range(1000))
    with pytest.raises(TimeoutError):
        read(answer(itertools.repeat(b"[")), 50, lambda: float(next(ticks)))
    assert next(ticks) < 60
    assert len(read(answer(itertools.repeat(b"[" * 60)))) == 120
    assert read(answer([b"a", b"b"])) == b"ab"


def test_an_answer_that_breaks_off_is_no_answer() -> None:
    with pytest.raises(ConnectionError, match="after 1 bytes"):
        read(answer([b"a"], Content_Length="2"))
    assert read(answer([b"a"], Content_Length="2", Content_Encoding="gzip")) == b"a"
    assert len(read(answer([b"a" * 101], Content_Length="1000"))) == 101


def test_of_a_redirect_that_is_not_followed_the_text_is_there() -> None:
    moved = answer([], status=302, Location="/there", Content_Length="4")
    moved._content = b"gone"  # as requests has read it
    assert read(moved) == b"gone"


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (requests.ConnectionError("plain"), "plain"),
        (
            requests.ConnectionError(
                MaxRetryError(POOL, "/x?token=abc", NewConnectionError(HTTPConnection("h"), "refused"))
            ),
            "refused",
        ),
        (
            requests.exceptions.ProxyError(
                MaxRetryError(POOL, "/x", ProxyError("Unable to connect to proxy", OSError(111, "refused")))
            ),
            "Unable to connect to proxy: [Errno 111] refused",
        ),
    ],
)
def test_the_cause_is_what_the_network_said(error: Exception, said: str) -> None:
    assert cause(error) == said
