"""What the network said, in its own words."""

from __future__ import annotations

import pytest
import requests
from urllib3.connection import HTTPConnection
from urllib3.connectionpool import HTTPConnectionPool
from urllib3.exceptions import MaxRetryError, NewConnectionError, ProxyError

from ci.package.causes import cause

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
    assert cause(error) == said
