"""What requests over HTTP have in common: whom they lead to, how long they wait, why they came to nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

import requests
from urllib3.exceptions import NewConnectionError

from ci.core.addresses import is_loopback

_CHUNK = 1 << 16
_MOST_SAID = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """An HTTP answer; header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    text: str

    @property
    def ok(self) -> bool:
        """Whether it was done; a redirect that nobody followed was not."""
        return 200 <= self.status < 300  # noqa: PLR2004  # HTTP's own numbers

    @property
    def has_next(self) -> bool:
        """Whether a list goes on, on another page (RFC 8288)."""
        return 'rel="next"' in self.headers.get("link", "")


def leads_here(url: str) -> bool:
    """Whether the URL's host is this machine."""
    try:
        return is_loopback(urlsplit(url).hostname or "")
    except ValueError:
        return False


def is_private(url: str) -> bool:
    """Whether nobody on the way can read what is sent: https, or this very machine."""
    return url.lower().startswith("https://") or leads_here(url)


def session(url: str) -> requests.Session:
    """A session for an address; a proxy of the environment cannot reach this machine's own loopback."""
    made = requests.Session()
    made.trust_env = not leads_here(url)
    return made


def as_nobody(request: requests.PreparedRequest) -> requests.PreparedRequest:
    """An `auth` that adds nothing, and keeps requests from asking ~/.netrc."""
    return request


def pieces(
    response: requests.Response,
    *,
    until: float,
    most_bytes: int,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[bytes]:
    """An answer that is streamed, as it comes, until a little beyond its bound.

    Args:
        response: of a request with `stream=True`.
        until: when it has to be there, by the clock.
        most_bytes: after which no more is read.
        clock: seconds; the sockets wait in real time.

    Raises:
        TimeoutError: it was not found.
        ConnectionError: it breaks off.
    """
    if response.is_redirect:  # requests has read it, to see where it leads
        yield response.content[:most_bytes]
        return
    size = 0
    # A time-out of requests is between two bytes; a server that drips must not hold anybody for ever. Only
    # read1 gives what has come so far, iter_content waits until its piece is full.
    while size <= most_bytes and (piece := response.raw.read1(_CHUNK, decode_content=True)):
        size += len(piece)
        yield piece
        if clock() > until:
            raise TimeoutError("the answer takes too long")
    promised = response.headers.get("Content-Length", "")
    # What is packed is longer or shorter than what was promised.
    whole = promised.isdecimal() and "Content-Encoding" not in response.headers
    if whole and size < min(int(promised), most_bytes):
        raise ConnectionError(f"the response ends after {size} bytes")


def never_connected(error: Exception) -> bool:
    """Whether nobody was there, so that nothing can have been done."""
    if isinstance(error, requests.exceptions.ConnectTimeout | requests.exceptions.ProxyError):
        return True
    inner = error.args[0] if error.args else None
    return isinstance(getattr(inner, "reason", inner), NewConnectionError)


def cause(error: BaseException) -> str:
    """What the network said, without the names of what wraps it.

    Args:
        error: of requests or urllib3, which wrap what the system said, and a proxy's error once more.
    """
    inner = error.args[0] if error.args and isinstance(error.args[0], BaseException) else error
    reason = getattr(inner, "reason", None) or inner
    last = reason.args[-1] if isinstance(reason, BaseException) and len(reason.args) > 1 else None
    if isinstance(last, BaseException):  # of a proxy: what was done, and what came of it
        return f"{reason.args[0]}: {cause(last)}"
    return str(reason).rpartition(">: ")[2].rpartition("): ")[2][:_MOST_SAID]
