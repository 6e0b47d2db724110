"""Send requests to a cluster until it answers: bounded, and never twice what may have been done already.

The official client reads kubeconfigs and a pod's service account, runs credential plugins, renews tokens, and
knows proxies and certificates. Its models are left alone: they lose what they do not know, and at thousands
of pods reading them costs more than all else.
"""

from __future__ import annotations

import contextlib
import json
import random
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal
from urllib.parse import urlencode

from ci.core.addresses import safe_line, without_secrets
from ci.core.text import one_line
from ci.jobs.access import heard
from ci.jobs.answers import Reply, asked_wait_s, content_of, error_of, is_untouched, is_worth_another
from ci.jobs.errors import ClusterAwayError, ClusterError, CredentialsError, CutError

Method = Literal["GET", "POST", "PATCH", "DELETE"]
CONNECT_TIMEOUT_S = 10.0
READ_TIMEOUT_S = 60.0
PIECE_BYTES = 1 << 16
FIRST_WAIT_S = 0.5
LONGEST_WAIT_S = 20.0
PAGE = 500


class NoAnswerError(Exception):
    """No whole answer came; `taken` says whether it may have been done all the same."""

    def __init__(self, said: str, *, taken: bool) -> None:
        super().__init__(said)
        self.taken = taken


class Wire:
    """The way to a cluster's API.

    Args:
        configuration: the official client's, with address, certificates and credentials.
    """

    def __init__(self, configuration: Any) -> None:
        from kubernetes.client import ApiClient  # noqa: PLC0415  # an extra, and a second to import

        self._configuration = configuration
        self._token = ""
        self._pools = ApiClient(configuration).rest_client.pool_manager

    def exchange(
        self, method: Method, path: str, query: Mapping[str, str] | None = None, body: Any = None
    ) -> Reply:
        """Make a request and read its answer, of whatever status.

        Raises:
            NoAnswerError: none came, or not the whole of it.
            CredentialsError: nothing could be had to show who asks.
        """
        from urllib3.exceptions import HTTPError  # noqa: PLC0415  # comes with the extra

        response = self._send(method, path, query, body, read_s=READ_TIMEOUT_S)
        try:
            return self._reply(response, response.data)
        except (HTTPError, OSError) as error:
            raise _unanswered(error, taken=True) from None
        finally:
            response.release_conn()

    def stream(self, path: str, query: Mapping[str, str], *, read_s: float) -> tuple[Reply, Iterator[bytes]]:
        """Begin a GET whose answer comes bit by bit: the answer's head, and its pieces where it is ok.

        Raises:
            NoAnswerError: none came; while the pieces are read, that it was cut.
            CredentialsError: nothing could be had to show who asks.
        """
        response = self._send("GET", path, query, None, read_s=read_s)
        if (head := self._reply(response, b"")).ok:
            return head, _pieces(response)
        with _closed(response):
            return self._reply(response, response.read(PIECE_BYTES)), iter(())

    def _reply(self, response: Any, body: bytes) -> Reply:
        headers = {name.lower(): str(value) for name, value in response.headers.items()}
        reply = Reply(status=response.status, headers=headers, body=body)
        if reply.ok or not self._token:
            return reply
        # What is refused may be quoted, and errors are shown.
        return replace(reply, body=body.replace(self._token.encode(), b"***"))

    def _send(
        self, method: Method, path: str, query: Mapping[str, str] | None, body: Any, *, read_s: float
    ) -> Any:
        from kubernetes.config import ConfigException  # noqa: PLC0415  # an extra
        from urllib3.exceptions import HTTPError  # noqa: PLC0415  # comes with it
        from urllib3.util import Timeout  # noqa: PLC0415  # the same

        headers = {"accept": "application/json", "user-agent": "spyre-ci"}
        if body is not None:
            merge = method == "PATCH"
            headers["content-type"] = "application/merge-patch+json" if merge else "application/json"
        try:
            with heard() as said:
                settings = self._configuration.auth_settings()
        except (ConfigException, OSError) as error:
            said = [without_secrets(str(error))[:300]]
        if said:
            raise CredentialsError(
                f"who asks can no longer be shown: {said[-1]}",
                remedy="sign in again (oc login), or mend the kubeconfig's user",
            )
        for one in filter(lambda one: one["value"], settings.values()):
            headers[one["key"]] = one["value"]
            self._token = one["value"].split()[-1]
        try:
            return self._pools.request(
                method,
                f"{self._configuration.host}{path}" + (f"?{urlencode(query)}" if query else ""),
                body=None if body is None else json.dumps(body).encode(),
                headers=headers,
                timeout=Timeout(connect=CONNECT_TIMEOUT_S, read=read_s),
                preload_content=False,
                retries=False,
                redirect=False,
            )
        except (HTTPError, OSError) as error:
            raise _told(error) from None
        except ValueError:
            # What a header may not hold is quoted in the error, and here that is a token.
            raise CredentialsError(
                "the credentials cannot be sent: they hold what no header may",
                remedy="mend the kubeconfig's user; a token is one line",
            ) from None


def _pieces(response: Any) -> Iterator[bytes]:
    """What comes, as it comes; closed with its connection, which an answer nobody read to its end blocks."""
    from urllib3.exceptions import HTTPError  # noqa: PLC0415  # comes with the extra

    with _closed(response):
        try:
            yield from response.stream(PIECE_BYTES)
        except (HTTPError, OSError) as error:
            raise _unanswered(error, taken=True) from None


@contextlib.contextmanager
def _closed(response: Any) -> Iterator[None]:
    try:
        yield
    finally:
        response.close()
        response.release_conn()


def _told(error: Exception) -> Exception:
    """What became of a request that led to no answer; a certificate gets no better by trying again."""
    if "CERTIFICATE_VERIFY_FAILED" in str(error):
        return CredentialsError(
            f"the cluster's certificate is not trusted: {one_line(str(error))}",
            remedy="give the authority that signed it in the kubeconfig (certificate-authority)",
        )
    return _unanswered(error, taken=not _never_connected(error))


def _unanswered(error: Exception, *, taken: bool) -> NoAnswerError:
    return NoAnswerError(safe_line(str(error)), taken=taken)


def _never_connected(error: Exception) -> bool:
    """Whether nobody was there, so that nothing can have been done."""
    from urllib3.exceptions import (  # noqa: PLC0415  # comes with the extra
        ConnectTimeoutError,
        NewConnectionError,
        ProxyError,
        SSLError,
    )

    return isinstance(error, ConnectTimeoutError | NewConnectionError | ProxyError | SSLError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Effects:
    """The outside world of a cluster's client: time and chance.

    Attributes:
        monotonic: seconds, for how long something takes.
        sleep: waits so many seconds.
        rng: a number from 0 to 1, so that many clients do not come back at the same moment.
    """

    monotonic: Callable[[], float] = time.monotonic
    sleep: Callable[[float], object] = time.sleep
    rng: Callable[[], float] = field(default_factory=lambda: random.SystemRandom().random)


class Asking:
    """Requests with second tries.

    Args:
        wire: the way to the cluster.
        effects: time and chance.
        patience_s: how long one call may wait in all.
    """

    def __init__(self, wire: Wire, effects: Effects, patience_s: float) -> None:
        self._wire = wire
        self._effects = effects
        self._patience_s = patience_s

    def answer(
        self,
        method: Method,
        path: str,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        *,
        again: bool = True,
    ) -> dict[str, Any]:
        """What a request is answered with.

        Args:
            method: of HTTP.
            path: of the API.
            query: of the address.
            body: sent as JSON.
            again: whether it may be sent twice, where nobody knows if the first was taken.

        Raises:
            ClusterError: see `ci.jobs.errors`.
        """
        what = f"{method} {path}"
        reply = self._until(what, lambda: self._wire.exchange(method, path, query, body), again=again)
        return content_of(reply, what)

    def pieces(
        self, path: str, query: Mapping[str, str], *, read_s: float, patience_s: float | None = None
    ) -> Iterator[bytes]:
        """An answer that comes bit by bit.

        Args:
            path: of the API.
            query: of the address.
            read_s: seconds after which an answer that says nothing is over.
            patience_s: how long it may wait in all to begin; None: as every call.

        Raises:
            ClusterError: it does not begin; see `ci.jobs.errors`.
            CutError: once it has begun, and does not come to its end.
        """
        found: list[Iterator[bytes]] = []

        def begin() -> Reply:
            reply, pieces = self._wire.stream(path, query, read_s=read_s)
            found[:] = [pieces]
            return reply

        self._until(f"GET {path}", begin, again=True, patience_s=patience_s)
        return _to_the_end(found[0], f"GET {path}")

    def _until(
        self, what: str, ask: Callable[[], Reply], *, again: bool, patience_s: float | None = None
    ) -> Reply:
        """The first answer that is ok."""
        end = self._effects.monotonic() + (self._patience_s if patience_s is None else patience_s)
        tries = 0
        while True:
            tries += 1
            try:
                reply = ask()
            except NoAnswerError as error:
                failure, wait_s = _no_answer(error, what), self._pause_s(tries)
                worth = again or not error.taken
            else:
                if reply.ok:
                    return reply
                failure, wait_s = error_of(reply, what), max(asked_wait_s(reply), self._pause_s(tries))
                worth = is_untouched(reply.status) or (again and is_worth_another(reply.status))
            if not worth or self._effects.monotonic() + wait_s > end:
                raise failure
            self._effects.sleep(wait_s)

    def _pause_s(self, tries: int) -> float:
        """Longer after each try, and not the same for everybody."""
        usual = min(FIRST_WAIT_S * 2.0 ** min(tries - 1, 10), LONGEST_WAIT_S)
        return usual * (0.5 + self._effects.rng())


def _to_the_end(pieces: Iterator[bytes], what: str) -> Iterator[bytes]:
    try:
        yield from pieces
    except NoAnswerError as error:
        raise CutError(f"the answer to {what} was cut: {error}", remedy="do it again") from None


def _no_answer(error: NoAnswerError, what: str) -> ClusterError:
    doubt = " (it may have been done all the same)" if error.taken and not what.startswith("GET") else ""
    return ClusterAwayError(
        f"the cluster gives no answer to {what}{doubt}: {error}",
        remedy="check the network, the cluster's address and its certificate, and do it again",
    )


def all_pages(asking: Asking, path: str, narrowed: Mapping[str, str]) -> tuple[list[dict[str, Any]], str]:
    """What a list holds, and the version it is of.

    Args:
        asking: the cluster.
        path: of the list.
        narrowed: selectors, as the address has them.

    Raises:
        GoneError: the version was dropped under way.
        ClusterError: see `ci.jobs.errors`.
    """
    found: list[dict[str, Any]] = []
    query = {**narrowed, "limit": str(PAGE)}
    while True:
        page = asking.answer("GET", path, query)
        about, rows = page.get("metadata") or {}, page.get("items")
        if not isinstance(rows, list):
            raise ClusterAwayError(
                f"the answer to GET {path} is no list", remedy="check the cluster's address"
            )
        found += rows
        if not about.get("continue"):
            return found, str(about.get("resourceVersion", ""))
        query["continue"] = about["continue"]
