"""One page over HTTP, within a time that holds for a server that hangs or drips as well."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from urllib.parse import urlsplit

import requests
from urllib3.exceptions import HTTPError

from ci.core.addresses import is_loopback, without_secrets
from ci.core.http import as_nobody, cause

PAGE_BYTES = 16 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """What a server answered; names of headers are in lower case.

    Attributes:
        status: of HTTP.
        headers: of the answer.
        body: of it; empty where only the head was wanted.
        sent: seconds since the epoch when it was asked.
        came: when the head of the answer came.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes
    sent: float
    came: float


class FetchError(Exception):
    """No answer, or not the whole of it; what it says holds no secret of an address."""

    def __init__(self, said: str) -> None:
        super().__init__(without_secrets(said))


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """How a page is asked for.

    Attributes:
        accept: kinds of content.
        follows: whether redirects are followed.
        logs_in: whether ~/.netrc may show who asks.
        whole: whether its body is read.
        certificates: file of the authorities that are trusted; empty: the usual ones. None: any certificate.
        proxy: for all; empty: the environment's.
    """

    accept: str = "*/*"
    follows: bool = False
    logs_in: bool = False
    whole: bool = False
    certificates: str | None = ""
    proxy: str = ""


def fetch(url: str, way: Way, *, limit_s: float, clock: Callable[[], float]) -> Page:
    """Ask for a page.

    Args:
        url: where; user and password in it show who asks.
        way: how.
        limit_s: after which it is too late.
        clock: seconds since the epoch.

    Raises:
        FetchError: none came.
    """
    # A time-out of a socket holds for one read of it. A server that sends a byte a second meets it for ever,
    # and names are looked up without one: what hangs is left behind, and ends with the process at the latest.
    page: Future[Page] = Future()

    def ask() -> None:
        try:
            page.set_result(_sent(url, way, limit_s, clock))
        except BaseException as error:  # noqa: BLE001  # is raised where it is waited for
            page.set_exception(error)

    threading.Thread(target=ask, name="fetch", daemon=True).start()
    try:
        return page.result(limit_s)
    except (requests.Timeout, TimeoutError) as error:
        raise FetchError(f"it did not answer within {limit_s:g} s") from error
    except requests.exceptions.SSLError as error:
        raise FetchError(f"its certificate is not trusted: {cause(error)}") from error
    except ValueError as error:  # some of requests' own are both
        raise FetchError(f"it cannot be asked: {cause(error)}") from error
    except (requests.RequestException, HTTPError, OSError) as error:
        raise FetchError(f"it cannot be reached: {cause(error)}") from error


def _sent(url: str, way: Way, limit_s: float, clock: Callable[[], float]) -> Page:
    host = urlsplit(url).hostname or ""
    here = is_loopback(host)
    with requests.Session() as session:
        # A proxy of the environment cannot reach this machine's own loopback.
        session.trust_env = way.logs_in or not here
        proxies = {"http": way.proxy, "https": way.proxy} if way.proxy else {}
        if here:
            proxies = {"no_proxy": host}
        sent = clock()
        with session.get(
            url,
            headers={"Accept": way.accept, "Cache-Control": "no-cache"},
            timeout=limit_s,
            stream=True,
            allow_redirects=way.follows,
            auth=None if way.logs_in else as_nobody,
            verify=False if way.certificates is None else way.certificates or True,
            proxies=proxies,
        ) as answer:
            came = clock()
            headers = {name.lower(): value for name, value in answer.headers.items()}
            body = _read(answer) if way.whole else b""
            return Page(status=answer.status_code, headers=headers, body=body, sent=sent, came=came)


def _read(answer: requests.Response) -> bytes:
    body = bytearray()
    for chunk in answer.iter_content(1 << 16):
        body += chunk
        if len(body) > PAGE_BYTES:
            raise requests.RequestException(f"it sends more than {PAGE_BYTES >> 20} MiB")
    return bytes(body)
