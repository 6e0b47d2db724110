"""What the network said, in its own words and without what may be secret."""

from __future__ import annotations

import pytest
import requests
from urllib3.connection import HTTPConnection
from urllib3.connectionpool import HTTPConnectionPool
from urllib3.exceptions import MaxRetryError, NewConnectionError, ProxyError

from ci.doctor.fetch import FetchError, Way, _cause, fetch

POOL = HTTPConnectionPool("h")


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
    assert _cause(error) == said


@pytest.mark.parametrize("url", ["ftp://a/b", "http://", "nothing"])
def test_what_cannot_be_asked_is_told(url: str) -> None:
    with pytest.raises(FetchError, match="it cannot be asked"):
        fetch(url, Way(), limit_s=30, clock=lambda: 0.0)


def test_an_error_holds_no_password() -> None:
    assert str(FetchError("at https://me:hunter2@h/x?key=abc it ends")) == "at https://h/x?*** it ends"
