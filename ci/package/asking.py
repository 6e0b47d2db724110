"""Asking a package index what it has, and downloading from it: its simple API, JSON or HTML (PEP 691)."""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

import requests
from packaging.utils import canonicalize_name
from pypi_simple import ACCEPT_ANY, ProjectPage, UnsupportedRepoVersionError
from urllib3.exceptions import HTTPError

from ci.config.package_model import Index
from ci.core.addresses import is_loopback, without_secrets
from ci.core.errors import EXIT_INCOMPLETE, SettingsError, SpyreCiError
from ci.core.http import cause
from ci.core.pump import Pump, pumped
from ci.package.artifacts import Artifact
from ci.package.listing import Decision, Listed, OtherBytesError, decide, key_of
from test_selection.files import atomic_writer

ATTEMPTS = 3
PAUSE_S = 1.0
_CHUNK = 1 << 16
_HTML = re.compile(rb"<(!doctype|html|body|a)\b", re.IGNORECASE)
_HEADING = re.compile(rb"<(?:title|h1)\b[^>]{0,200}>[^<]{0,200}\blinks for\b", re.IGNORECASE)
# What of a page says nothing to anybody. A script may say anything, and a title says whose page it is.
_UNSEEN = re.compile(rb"<!--.*?-->|<style\b.*?</style\s*>", re.IGNORECASE | re.DOTALL)
_SCRIPT = re.compile(rb"<(script|iframe|object|embed|frame)\b", re.IGNORECASE)
# Pages that say nothing are short, and a search in one has to end.
_EMPTY_BYTES = 1 << 14
_TAG = re.compile(rb"<[^<>]*>")
_PAGE_MIB = 64
_DOWNLOAD_S = 3600
_MISSING, _LOGIN = 404, (401, 403)


class IndexAwayError(SpyreCiError):
    """An index that does not answer as one."""

    exit_code = EXIT_INCOMPLETE


@dataclass(frozen=True, slots=True, kw_only=True)
class _Head:
    """What an answer begins with."""

    status: int
    kind: str
    url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Asker:
    """An index that is asked.

    Attributes:
        name: of it.
        index: its settings.
        sleep: waits some seconds.
        clock: seconds, monotonic.
    """

    name: str
    index: Index
    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic

    def listed(self, project: str, *, attempts: int = ATTEMPTS) -> list[Listed]:
        """What it shows of a project; nothing where it does not know it yet.

        Args:
            project: the canonical name.
            attempts: how often a fault is met before it is told.

        Raises:
            IndexAwayError: it is away, hangs or says something else than an index.
            SettingsError: it shows nothing without a login.
        """
        for attempt in range(1, attempts + 1):
            try:
                return self._page(project)
            except IndexAwayError:
                if attempt == attempts:
                    raise
                self.sleep(PAUSE_S * 2.0 ** (attempt - 1))
        raise AssertionError("unreachable")

    def decision(self, artifacts: Sequence[Artifact], *, attempts: int = ATTEMPTS) -> Decision:
        """What is to be done with files of one release.

        Raises:
            IndexAwayError: as `listed`.
            SettingsError: as `listed`.
        """
        listed = self.listed(artifacts[0].name, attempts=attempts)
        return decide(artifacts, self.with_hashes(artifacts, listed))

    def with_hashes(self, artifacts: Sequence[Artifact], listed: Sequence[Listed]) -> list[Listed]:
        """The listing, with the hash of each of our files; what the index does not say is downloaded.

        Raises:
            IndexAwayError: a download failed.
        """
        ours = {key_of(one.filename) for one in artifacts}
        return [
            replace(one, sha256=self.digest(one)) if not one.sha256 and key_of(one.filename) in ours else one
            for one in listed
        ]

    def digest(self, one: Listed) -> str:
        """The SHA-256 of a file's bytes as the index gives them.

        Raises:
            IndexAwayError: it does not give them.
        """
        found = hashlib.sha256()
        for chunk in self._bytes(one):
            found.update(chunk)
        return found.hexdigest()

    def download(self, one: Listed, path: Path) -> str:
        """Write a file of the index; the SHA-256 of what came.

        Raises:
            IndexAwayError: it does not give it.
        """
        found = hashlib.sha256()
        with atomic_writer(path) as stream:
            for chunk in self._bytes(one):
                found.update(chunk)
                stream.write(chunk)
        return found.hexdigest()

    def _bytes(self, one: Listed) -> Iterator[bytes]:
        with self._got(one.url, "*/*") as (head, pump):
            if head.status != requests.codes.ok:
                raise self._away(f"{one.filename} cannot be downloaded: it answered {head.status}")
            yield from self._chunks(pump, limit=_limit(self.index.max_mib), seconds=_DOWNLOAD_S)

    def _page(self, project: str) -> list[Listed]:
        url = f"{self.index.simple.rstrip('/')}/{project}/"
        with self._got(url, ACCEPT_ANY) as (head, pump):
            status = head.status
            if status == _MISSING:
                return []
            if status in _LOGIN:
                raise SettingsError(
                    f"its simple API shows nothing without a login: it answered {status}",
                    where=f"package.indexes.{self.name}.simple",
                    remedy="put one that may read into ~/.netrc, which pip reads as well",
                )
            if status != requests.codes.ok:
                raise self._away(f"it answered {status}")
            body = b"".join(self._chunks(pump, limit=_limit(_PAGE_MIB), seconds=self.index.timeout_s))
        try:
            page = _parsed(project, body, head.kind, head.url)
        except (
            ValueError,
            LookupError,
            TypeError,
            AttributeError,
            RecursionError,
            UnsupportedRepoVersionError,
        ) as error:
            raise self._away(f"what it says of {project} is no page of a simple API: {error}") from error
        return [
            Listed(
                filename=one.filename,
                url=one.url,
                sha256=one.digests.get("sha256", "").lower(),
                yanked=(one.yanked_reason or "") if one.is_yanked else None,
                uploaded=one.upload_time,
                metadata=(one.metadata_digests or {}).get("sha256", "").lower() if one.has_metadata else None,
            )
            for one in page.packages
        ]

    @contextmanager
    def _got(self, url: str, accept: str) -> Iterator[tuple[_Head, Pump[_Head | bytes]]]:
        """The head of an answer, and what the rest of it comes from."""
        seconds = self.index.timeout_s
        with self._told(seconds), pumped(lambda: _sent(url, accept, seconds)) as pump:
            head = pump.take(seconds)
            assert isinstance(head, _Head)  # noqa: S101  # comes first
            yield head, pump

    @contextmanager
    def _told(self, seconds: float) -> Iterator[None]:
        """Whatever the network says is the index's being away."""
        try:
            yield
        except (requests.Timeout, TimeoutError) as error:
            raise self._away(f"it did not answer within {seconds:g} s") from error
        except (requests.RequestException, HTTPError, OSError) as error:
            raise self._away(f"it cannot be reached: {cause(error)}") from error

    def _chunks(self, pump: Pump[_Head | bytes], *, limit: int, seconds: float) -> Iterator[bytes]:
        end, size = self.clock() + seconds, 0
        while True:
            try:
                chunk = pump.take(end - self.clock())
            except TimeoutError as error:
                raise self._away(f"its answer did not end within {seconds:g} s") from error
            if not isinstance(chunk, bytes):
                return
            size += len(chunk)
            if size > limit:
                raise self._away(f"it sends more than {limit / (1 << 20):g} MiB")
            if self.clock() > end:
                raise self._away(f"its answer did not end within {seconds:g} s")
            yield chunk

    def _away(self, what: str) -> IndexAwayError:
        return IndexAwayError(
            without_secrets(what),
            where=f"{self.name} ({self.index.simple})",
            remedy="check the address and the network, or come back when the index is well",
        )


def fetch(asker: Asker, one: Listed, *, sha256: str, folder: Path) -> Path:
    """Download a file into a folder and compare its hash; its path.

    Raises:
        IndexAwayError: the index does not give it.
        OtherBytesError: other bytes came.
    """
    path = folder / one.filename
    found = asker.download(one, path)
    if found != sha256:
        raise OtherBytesError(
            f"{one.filename} came from {asker.name} with other bytes: sha256 {found}, not {sha256}",
            where=one.url.partition("?")[0],
            remedy="find out who changed it before anybody installs it",
        )
    return path


def _sent(url: str, accept: str, seconds: float) -> Iterator[_Head | bytes]:
    """An answer: its head, then its body in pieces."""
    headers = {"Accept": accept, "Accept-Encoding": "identity", "Cache-Control": "no-cache"}
    with (
        requests.Session() as session,
        session.get(url, headers=headers, timeout=seconds, stream=True, proxies=_past_proxies(url)) as answer,
    ):
        kind = answer.headers.get("content-type", "text/html")
        yield _Head(status=answer.status_code, kind=kind, url=answer.url)
        yield from answer.iter_content(_CHUNK)


def _parsed(project: str, body: bytes, kind: str, url: str) -> ProjectPage:
    if "json" in kind:
        told = ProjectPage.from_json_data(json.loads(body), base_url=url)
        if canonicalize_name(told.project) != project:
            raise ValueError(f"it is of {told.project!r}")
        return told
    if not _HTML.search(body):
        raise ValueError("it is not HTML")
    page = ProjectPage.from_html(canonicalize_name(project), body, base_url=url)
    if not _is_of_an_index(page, body):
        raise ValueError("it names no file, and does not say that it is a page of an index")
    return page


def _is_of_an_index(page: ProjectPage, body: bytes) -> bool:
    """Whether a page is an index's: of a login or an error nobody may read that nothing is published.

    An index says so (PEP 629), or shows files, or heads a page without any as all indexes do ("Links for …"),
    or says nothing at all, which is all that PEP 503 asks for.
    """
    if page.repository_version is not None or any(one.package_type for one in page.packages):
        return True
    if _HEADING.search(body):
        return True
    if len(body) > _EMPTY_BYTES or _SCRIPT.search(body):
        return False
    return not (page.packages or _TAG.sub(b" ", _UNSEEN.sub(b" ", body)).strip())


def _past_proxies(url: str) -> dict[str, str]:
    """A proxy does not know this machine's own servers."""
    host = urlsplit(url).hostname or ""
    return {"no_proxy": host} if is_loopback(host) else {}


def _limit(mib: float) -> int:
    return int(mib * (1 << 20))
