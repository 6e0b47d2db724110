"""Ask a cluster's API: requests are tried again for a while, and nothing is made twice.

The official client finds credentials, certificates and proxies, and reads watches. Its models are left alone:
they lose fields that they do not know, and at thousands of pods reading them costs more than all else.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import Any, Self
from urllib.parse import quote, urlencode

from urllib3.exceptions import HTTPError, MaxRetryError
from urllib3.response import BaseHTTPResponse
from urllib3.util import Retry, Timeout

from ci.core.addresses import safe_line
from ci.core.text import one_line
from ci.jobs.access import authorization_of, configuration_of
from ci.jobs.errors import (
    ClusterAwayError,
    ClusterError,
    ConflictError,
    CredentialsError,
    CutError,
    ForbiddenError,
    GoneError,
    MissingError,
    RefusedError,
)

SPEC_ANNOTATION = "spyre-ci.io/spec"
# Creating one asks what the caller may do; nothing is kept of it.
ACCESS_REVIEW = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
KUEUE = "/apis/kueue.x-k8s.io"
CLUSTER_WIDE: Mapping[str, str] = {
    "ClusterOperator": "/apis/config.openshift.io/v1",
    "ClusterVersion": "/apis/config.openshift.io/v1",
    "CustomResourceDefinition": "/apis/apiextensions.k8s.io/v1",
    "Node": "/api/v1",
    "PriorityClass": "/apis/scheduling.k8s.io/v1",
    "StorageClass": "/apis/storage.k8s.io/v1",
}
_API = {"Deployment": "/apis/apps/v1", "DaemonSet": "/apis/apps/v1", "Job": "/apis/batch/v1", **CLUSTER_WIDE}
PATIENCE_S = 90.0
CONNECT_TIMEOUT_S = 10.0
READ_TIMEOUT_S = 60.0
# A log that is followed may be silent for long; a server that went away is noticed in the end.
FOLLOW_SILENCE_S = 3600.0
LONGEST_WAIT_S = 20.0
LONGEST_RETRY_AFTER_S = 60
PAGE = 500
# How often a list is begun again whose version expired between two pages.
RELISTS = 3
MAX_SAID = 600
CHUNK_BYTES = 1 << 16
# Answers that may be others after a while; every other 5xx as well.
_BUSY = {HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS, *range(500, 600)}
_UNTRUSTED = "CERTIFICATE_VERIFY_FAILED"
_REFUSALS: Mapping[int, tuple[type[ClusterError], str]] = {
    401: (ForbiddenError, "sign in again (oc login), or give a service account's token"),
    403: (ForbiddenError, "have the Role of docs/jobs-cluster.md bound to the user you are signed in as"),
    404: (MissingError, "check the namespace and the name, and that the cluster serves this kind"),
    409: (ConflictError, "look at the object of that name, remove it or take another name"),
    410: (GoneError, "try again"),
}


def path_of(kind: str, namespace: str = "", name: str | None = None) -> str:
    """The API path of a kind's list, or of one object.

    Args:
        kind: such as Job.
        namespace: of it; ignored for kinds of the whole cluster. Empty: all namespaces.
        name: of one object; None: the list.
    """
    within = f"/namespaces/{quote(namespace, safe='')}" if namespace and kind not in CLUSTER_WIDE else ""
    plural = kind.lower() + ("es" if kind.endswith("s") else "s")
    path = f"{_API.get(kind, '/api/v1')}{within}/{plural}"
    return path if name is None else f"{path}/{quote(name, safe='')}"


def same_spec(there: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """True if both objects carry the same hash of the spec they were rendered from."""
    known, asked = (
        (one.get("metadata", {}).get("annotations") or {}).get(SPEC_ANNOTATION) for one in (there, wanted)
    )
    return bool(asked) and known == asked


@dataclass(frozen=True, slots=True, kw_only=True)
class Effects:
    """Time; tests hand in their own."""

    monotonic: Callable[[], float] = time.monotonic
    sleep: Callable[[float], object] = time.sleep


def _patient(effects: Effects, patience_s: float) -> Retry:
    """Try again until the time is over, longer apart each time, and as late as Retry-After asks.

    Every request may be repeated: the name of what is created keeps it from being made twice.
    """
    end = effects.monotonic() + patience_s

    class Patience(Retry):
        def increment(
            self, method: str | None = None, url: str | None = None, *more: Any, **named: Any
        ) -> Self:
            made, error = super().increment(method, url, *more, **named), named.get("error")
            over = effects.monotonic() + made.wait_s(named.get("response")) > end
            if over or _UNTRUSTED in str(error):
                raise MaxRetryError(None, url or "", error)  # type: ignore[arg-type]  # the pool is only shown
            return made

        def wait_s(self, response: BaseHTTPResponse | None) -> float:
            asked = None if response is None else self.get_retry_after(response)
            return max(asked or 0.0, self.get_backoff_time())

        def sleep(self, response: BaseHTTPResponse | None = None) -> None:
            effects.sleep(self.wait_s(response))

    return Patience(
        total=None,
        allowed_methods=None,
        status_forcelist=_BUSY,
        raise_on_status=False,
        backoff_factor=0.5,
        backoff_max=LONGEST_WAIT_S,
        backoff_jitter=0.5,
        # A longer one is somebody's mistake.
        retry_after_max=LONGEST_RETRY_AFTER_S,
    )


class Cluster:
    """A cluster's API; every call raises the errors of `ci.jobs.errors` once trying again does not help.

    Args:
        configure: gives the official client's configuration, and a namespace; called again when a credential
            is refused.
        namespace: of jobs; None: the one that is given.
        effects: time and chance.
        patience_s: how long one call may wait in all.
    """

    def __init__(
        self,
        configure: Callable[[], tuple[Any, str]],
        namespace: str | None,
        *,
        effects: Effects | None = None,
        patience_s: float = PATIENCE_S,
    ) -> None:
        self.effects = effects or Effects()
        self._patience_s, self._configure = patience_s, configure
        own = self._connect()
        self.namespace = namespace or own

    def version(self) -> dict[str, Any]:
        """The cluster's version."""
        return self._answer("GET", "/version")

    @property
    def host(self) -> str:
        """The address of the API server."""
        return str(self._configuration.host)

    def get(self, path: str) -> dict[str, Any] | None:
        """An object; None if it does not exist."""
        try:
            return self._answer("GET", path)
        except MissingError:
            return None

    def items(self, path: str, *, labels: str = "", fields: str = "") -> tuple[list[dict[str, Any]], str]:
        """A whole list, and the version a watch goes on from.

        Raises:
            MissingError: the cluster does not serve this kind.
        """
        for _ in range(RELISTS):
            try:
                return self._pages(path, _selectors(labels, fields))
            except GoneError as error:
                # The version of the first page is kept for some minutes only.
                gone = error
        raise gone

    def create(self, path: str, body: Mapping[str, Any], *, dry_run: bool = False) -> dict[str, Any]:
        """Create an object, or only have it checked; fields that the cluster does not know are refused.

        Raises:
            ConflictError: its name is taken by an object of another spec.
        """
        name = body.get("metadata", {}).get("name", "")
        query = {"fieldValidation": "Strict"} | ({"dryRun": "All"} if dry_run else {})
        try:
            return self._answer("POST", path, query, body)
        except ConflictError:
            there = self.get(f"{path}/{name}")
            if there is None or not same_spec(there, body):
                raise
            return there

    def patch(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Change an object by a merge patch (RFC 7386)."""
        return self._answer("PATCH", path, None, body)

    def delete(self, path: str, *, propagation: str = "Background") -> bool:
        """Delete an object; False if there is none."""
        try:
            self._answer("DELETE", path, None, _options(propagation))
        except MissingError:
            return False
        return True

    def delete_all(self, path: str, labels: str) -> None:
        """Delete every object of a kind that has these labels, of which there is at least one."""
        assert labels  # noqa: S101  # an empty selector would empty the namespace
        self._answer("DELETE", path, {"labelSelector": labels}, _options("Background"))

    def watch(
        self, path: str, *, labels: str, resource_version: str, timeout_s: int
    ) -> Generator[dict[str, Any], None, None]:
        """Events from a version on, bookmarks included, until the server ends the watch or it is cut.

        Raises:
            GoneError: that version is no longer kept; list again.
            ClusterAwayError: a line is no event.
        """
        from kubernetes.client.exceptions import ApiException  # noqa: PLC0415  # an extra, slow to import
        from kubernetes.watch import Watch  # noqa: PLC0415  # the same

        query = {
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
            "timeoutSeconds": str(timeout_s),
        } | _selectors(labels, "")

        def begin(**_: Any) -> BaseHTTPResponse:
            # A server that says nothing beyond the time it was given is no longer there.
            return self._request("GET", path, query, read_s=timeout_s + 10, stream=True)

        try:
            watch: Any = Watch
            for event in watch().stream(begin, timeout_seconds=timeout_s):
                if not isinstance(event, dict) or not isinstance(event.get("object"), dict):
                    raise _no_cluster(f"the watch of {path} sent something that is not an event")
                yield event
        except ApiException as error:
            raise error_of(int(error.status or 500), str(error.reason).encode(), f"GET {path}") from None
        except (KeyError, TypeError):
            raise _no_cluster(f"the watch of {path} sent something that is not an event") from None
        except (HTTPError, OSError):
            return

    def log(
        self, pod: str, query: Mapping[str, object] | None = None, *, patience_s: float | None = None
    ) -> Iterator[bytes]:
        """A pod's log as it comes, in chunks that end anywhere.

        Args:
            pod: its name.
            query: container, follow, timestamps, previous, sinceSeconds and sinceTime, as the API has them.
            patience_s: how long it may wait in all to begin; None: as every call.

        Raises:
            ClusterAwayError: it does not begin, as where the pod's node does not answer.
            CutError: the connection broke, so that more may be there.
        """
        given = {
            name: str(value).lower() if value is True else str(value)
            for name, value in (query or {}).items()
            if value
        }
        path = f"{path_of('Pod', self.namespace, pod)}/log"
        read_s = FOLLOW_SILENCE_S if "follow" in given else None
        response = self._request("GET", path, given, read_s=read_s, patience_s=patience_s, stream=True)
        try:
            with contextlib.closing(response):
                yield from response.stream(CHUNK_BYTES)
        except (HTTPError, OSError) as error:
            raise CutError(
                f"the log of {pod} broke off: {safe_line(str(error))}", remedy="try again"
            ) from None

    def _connect(self) -> str:
        """Find the cluster and its credentials; returns the namespace that goes with them."""
        from kubernetes.client import ApiClient  # noqa: PLC0415  # an extra, and a second to import

        self._configuration, namespace = self._configure()
        self._pools = ApiClient(self._configuration).rest_client.pool_manager
        return namespace

    def _pages(self, path: str, selectors: Mapping[str, str]) -> tuple[list[dict[str, Any]], str]:
        found: list[dict[str, Any]] = []
        query = {**selectors, "limit": str(PAGE)}
        while True:
            page = self._answer("GET", path, query)
            about, rows = page.get("metadata") or {}, page.get("items")
            if not isinstance(rows, list):
                raise _no_cluster(f"the answer to GET {path} is not a list")
            found += rows
            if not about.get("continue"):
                return found, str(about.get("resourceVersion", ""))
            query["continue"] = about["continue"]

    def _answer(
        self, method: str, path: str, query: Mapping[str, str] | None = None, body: Any = None
    ) -> dict[str, Any]:
        """The JSON object that a request is answered with."""
        data = self._request(method, path, query, body).data
        try:
            content = json.loads(data)
        except (ValueError, RecursionError):
            content = None
        if not isinstance(content, dict):
            text = one_line(data[:200].decode(errors="replace"), 80)
            raise _no_cluster(f"the answer to {method} {path} is not a JSON object: {text!r}")
        return content

    def _request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        *,
        read_s: float | None = None,
        patience_s: float | None = None,
        stream: bool = False,
    ) -> BaseHTTPResponse:
        """The answer to a request that was carried out; a refused credential is read anew once."""
        what = f"{method} {path}"
        headers = {"accept": "application/json", "user-agent": "spyre-ci"}
        if body is not None:
            kind = "merge-patch+json" if method == "PATCH" else "json"
            headers["content-type"] = f"application/{kind}"
        for renewed in (False, True):
            known = authorization_of(self._configuration)
            try:
                response: BaseHTTPResponse = self._pools.request(
                    method,
                    f"{self._configuration.host}{path}" + (f"?{urlencode(query)}" if query else ""),
                    body=None if body is None else json.dumps(body).encode(),
                    headers={**headers, **({"authorization": known} if known else {})},
                    timeout=Timeout(connect=CONNECT_TIMEOUT_S, read=read_s or READ_TIMEOUT_S),
                    preload_content=not stream,
                    retries=_patient(self.effects, self._patience_s if patience_s is None else patience_s),
                    redirect=False,
                )
            except (HTTPError, OSError) as error:
                raise _unanswered(error, what) from None
            except ValueError:
                # The error quotes the header, and that is a token.
                raise CredentialsError(
                    "the credentials cannot be sent: they contain a character that a header cannot have",
                    remedy="correct the kubeconfig's user; a token is one line",
                ) from None
            if response.status // 100 == 2:  # noqa: PLR2004  # HTTP's own
                return response
            # A refusal may quote the token, and errors are shown.
            said = response.read(10 * MAX_SAID) if stream else response.data
            refusal = error_of(
                response.status, said.replace(known.partition(" ")[2].encode() or b"\0", b"***"), what
            )
            response.close()
            if response.status != HTTPStatus.UNAUTHORIZED or renewed:
                break
            # The token was replaced meanwhile: its file or program is asked again.
            self._connect()
        raise refusal


def open_cluster(
    environ: Mapping[str, str],
    *,
    namespace: str | None = None,
    context: str | None = None,
    effects: Effects | None = None,
    patience_s: float = PATIENCE_S,
) -> Cluster:
    """The cluster of the kubeconfig, or the one this pod is in. It is not asked anything yet.

    Args:
        environ: the environment.
        namespace: of jobs; None: that of the context or pod.
        context: of the kubeconfig; None: its current one.
        effects: time and chance.
        patience_s: how long one call may wait in all.

    Raises:
        CredentialsError: there is none, or it cannot be used.
    """
    configure = partial(configuration_of, environ, context=context)
    return Cluster(configure, namespace, effects=effects, patience_s=patience_s)


def kueue_api(cluster: Cluster) -> str | None:
    """The path of Kueue's newest API version that this code knows; None: the cluster has no Kueue.

    Raises:
        ClusterError: the cluster does not say.
    """
    versions = (cluster.get(KUEUE) or {}).get("versions") or ()
    known = {str(one.get("version")) for one in versions}
    return next((f"{KUEUE}/{version}" for version in ("v1", "v1beta2", "v1beta1") if version in known), None)


def _selectors(labels: str, fields: str) -> dict[str, str]:
    return {name: one for name, one in (("labelSelector", labels), ("fieldSelector", fields)) if one}


def _options(propagation: str) -> dict[str, str]:
    return {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": propagation}


def error_of(status: int, body: bytes, what: str) -> ClusterError:
    """The error that a refusal is; its Status object says why (meta/v1)."""
    try:
        content = json.loads(body)
        said = safe_line(str(content.get("message") or content.get("reason") or ""), MAX_SAID)
    except (ValueError, RecursionError, AttributeError):
        said = safe_line(body[: 10 * MAX_SAID].decode(errors="replace"), MAX_SAID)
    text = f"the cluster answers {what} with {status}" + (f": {said}" if said else "")
    if status in _BUSY:
        return ClusterAwayError(text, remedy="try again when the cluster is healthy", said=said)
    kind, remedy = _REFUSALS.get(status, (RefusedError, "correct what the cluster rejects"))
    if "exceeded quota" in said:
        remedy = "wait until other jobs end, request less, or have the namespace's quota raised"
    return kind(text, remedy=remedy, said=said)


def _unanswered(error: Exception, what: str) -> ClusterError:
    """The error of a request without an answer; an untrusted certificate gets no better by trying again."""
    if _UNTRUSTED in str(error):
        return CredentialsError(
            f"the cluster's certificate is not trusted: {one_line(str(error))}",
            remedy="set certificate-authority in the kubeconfig to the CA that signed it",
        )
    doubt = "" if what.startswith("GET") else " (it may have been done anyway)"
    reason = error.reason if isinstance(error, MaxRetryError) else error
    return ClusterAwayError(
        f"the cluster does not answer {what}{doubt}: {safe_line(str(reason))}",
        remedy="check the network, the cluster's address and its certificate, and try again",
    )


def _no_cluster(what: str) -> ClusterAwayError:
    return ClusterAwayError(
        what, remedy="check that the cluster's address is that of its API, and no proxy is in between"
    )
