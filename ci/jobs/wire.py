"""One request to a cluster, by the official client's connections; what comes is raw.

The official client reads kubeconfigs and a pod's service account, runs credential plugins, renews tokens, and
knows proxies and certificates. Its models are left alone: they lose what they do not know, and at thousands
of pods reading them costs more than all else.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Literal
from urllib.parse import urlencode

from ci.core.addresses import safe_line, without_secrets
from ci.core.text import one_line
from ci.jobs.access import heard
from ci.jobs.answers import Reply
from ci.jobs.errors import CredentialsError

Method = Literal["GET", "POST", "PATCH", "DELETE"]
CONNECT_TIMEOUT_S = 10.0
READ_TIMEOUT_S = 60.0
PIECE_BYTES = 1 << 16


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
            raise _no_answer(error, taken=True) from None
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
            raise _no_answer(error, taken=True) from None


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
    return _no_answer(error, taken=not _never_connected(error))


def _no_answer(error: Exception, *, taken: bool) -> NoAnswerError:
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
