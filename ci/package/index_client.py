"""What a package index has: its simple API, in JSON with hashes or in HTML (PEP 691), and its files.

An index never gives a file name twice: what is published stays as it is. So every file of a release is
absent, there with the same bytes, or there with other bytes, and then the version is taken.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import requests
from packaging.utils import canonicalize_name
from pypi_simple import ACCEPT_ANY, DistributionPackage, ProjectPage, UnsupportedRepoVersionError
from requests.adapters import HTTPAdapter
from urllib3 import Retry
from urllib3.exceptions import HTTPError

from ci.config.package_model import Index
from ci.core.addresses import without_secrets
from ci.core.errors import EXIT_INCOMPLETE, EXIT_TEST_FAILED, SettingsError, SpyreCiError
from ci.core.http import cause, pieces, session
from ci.package.artifacts import Artifact, key_of
from test_selection.files import atomic_writer

_RETRIES = Retry(
    total=2,
    backoff_factor=0.5,
    status_forcelist=(429, 500, 502, 503, 504),
    raise_on_status=False,
    respect_retry_after_header=False,
)
_MOST_PAGE_BYTES = 64 << 20
_DOWNLOAD_S = 3600
_DIGITS = 16
_LOGIN = (401, 403)
# What readers raise of what is none.
_NO_PAGE = (
    ValueError, LookupError, TypeError, AttributeError, RecursionError, UnsupportedRepoVersionError,
)  # fmt: skip


class IndexAwayError(SpyreCiError):
    """An index that does not answer as one."""

    exit_code = EXIT_INCOMPLETE


class OtherBytesError(SpyreCiError):
    """A file that an index gives is not the one that was published."""

    exit_code = EXIT_TEST_FAILED


class TakenError(SpyreCiError):
    """A version that is published already, with other bytes."""

    exit_code = EXIT_TEST_FAILED


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexFile:
    """A file that an index shows.

    Attributes:
        filename: as it names it.
        url: where it can be downloaded.
        sha256: of it, in hex; empty where the index does not say.
        yanked: why installers pass it over; None where they do not.
        uploaded: when it came there; None where the index does not say.
        metadata: SHA-256 of its metadata beside it (PEP 658), empty where the index does not say; None: it
            has none there.
    """

    filename: str
    url: str
    sha256: str = ""
    yanked: str | None = None
    uploaded: datetime | None = None
    metadata: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The files of a release beside what an index has.

    Attributes:
        absent: those to upload, in the order they are uploaded in.
        there: those that are there, with the same bytes.
        taken: those that are there with other bytes, each with what is there.
    """

    absent: tuple[Artifact, ...] = ()
    there: tuple[Artifact, ...] = ()
    taken: tuple[tuple[Artifact, IndexFile], ...] = ()

    def refuse_taken(self, index: str) -> None:
        """Raise an error that names every file with both hashes, where the version is taken.

        Raises:
            TakenError: it is.
        """
        if not self.taken:
            return
        lines = "".join(
            f"\n  {seen.filename}: local {_short(one.sha256)}, on the index {_short(seen.sha256)}"
            for one, seen in self.taken
        )
        raise TakenError(
            f"{self.taken[0][0].version} is already published with other contents, and what is published "
            f"never changes{lines}",
            where=index,
            remedy="raise the version, or publish the files of that build",
        )


def upload_order(artifacts: Sequence[Artifact]) -> list[Artifact]:
    """Wheels, then the sdist: were it there alone, everybody who installs meanwhile would build it."""
    return sorted(artifacts, key=lambda one: (one.kind == "sdist", one.filename))


def compare(artifacts: Sequence[Artifact], shown: Sequence[IndexFile]) -> Comparison:
    """Compare the files of a release with what an index shows, hashes included; pure."""
    known = {key_of(one.filename): one for one in shown}
    absent, there, taken = [], [], []
    for one in upload_order(artifacts):
        seen = known.get(key_of(one.filename))
        if seen is None:
            absent.append(one)
        elif seen.sha256 == one.sha256:
            there.append(one)
        else:
            taken.append((one, seen))
    return Comparison(absent=tuple(absent), there=tuple(there), taken=tuple(taken))


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexClient:
    """Asks an index, by its name and settings."""

    name: str
    index: Index

    def compare(self, artifacts: Sequence[Artifact]) -> Comparison:
        """Compare files of one release with what the index has.

        Raises:
            IndexAwayError: as `files`; or it shows no hash of one of them.
            SettingsError: as `files`.
        """
        found = compare(artifacts, self.files(artifacts[0].name))
        for _, seen in found.taken:
            if not seen.sha256:
                raise self._away(f"it lists no SHA-256 of {seen.filename}, so nothing can be compared")
        return found

    def files(self, project: str) -> list[IndexFile]:
        """What the index shows of a project, by its canonical name; nothing where it does not know it yet.

        Raises:
            IndexAwayError: it is away, hangs or says something else than an index.
            SettingsError: it shows nothing without a login.
        """
        url = f"{self.index.simple.rstrip('/')}/{project}/"
        with self._answer(url, ACCEPT_ANY) as answer:
            if answer.status_code == requests.codes.not_found:
                return []
            if answer.status_code in _LOGIN:
                raise SettingsError(
                    f"its simple API requires a login: HTTP {answer.status_code}",
                    where=f"package.indexes.{self.name}.simple",
                    remedy="put a login with read access into ~/.netrc, which pip reads as well",
                )
            body = b"".join(
                self._chunks(answer, f"its page of {project}", _MOST_PAGE_BYTES, self.index.timeout_s)
            )
            kind, address = answer.headers.get("content-type", "text/html"), answer.url
        try:
            return [_shown(one) for one in _parsed(project, body, kind, address).packages]
        except _NO_PAGE as error:
            raise self._away(f"its response for {project} is not a page of a simple API: {error}") from error

    def download(self, one: IndexFile, path: Path) -> str:
        """Write a file of the index; the SHA-256 of what came.

        Raises:
            IndexAwayError: it does not give it.
        """
        digest, most = hashlib.sha256(), int(self.index.max_mib * (1 << 20))
        with atomic_writer(path) as stream, self._answer(one.url, "*/*") as answer:
            for chunk in self._chunks(answer, one.filename, most, _DOWNLOAD_S):
                digest.update(chunk)
                stream.write(chunk)
        return digest.hexdigest()

    @contextmanager
    def _answer(self, url: str, accept: str) -> Iterator[requests.Response]:
        """An answer whose body is still to be read; whatever the network says is the index's being away."""
        headers = {"Accept": accept, "Accept-Encoding": "identity", "Cache-Control": "no-cache"}
        try:
            with session(url) as opened:
                for scheme in ("http://", "https://"):
                    opened.mount(scheme, HTTPAdapter(max_retries=_RETRIES))
                with opened.get(url, headers=headers, timeout=self.index.timeout_s, stream=True) as answer:
                    yield answer
        except (requests.RequestException, HTTPError, OSError) as error:
            raise self._away(f"it cannot be reached: {cause(error)}") from error

    def _chunks(self, answer: requests.Response, what: str, limit: int, seconds: float) -> Iterator[bytes]:
        if answer.status_code != requests.codes.ok:
            raise self._away(f"{what} cannot be downloaded: HTTP {answer.status_code}")
        size = 0
        for chunk in pieces(answer, until=time.monotonic() + seconds, most_bytes=limit):
            size += len(chunk)
            if size > limit:
                raise self._away(f"its response is larger than {limit / (1 << 20):g} MiB")
            yield chunk

    def _away(self, what: str) -> IndexAwayError:
        return IndexAwayError(
            without_secrets(what),
            where=f"{self.name} ({self.index.simple})",
            remedy="check the address and the network, or try again when the index is available",
        )


def _shown(one: DistributionPackage) -> IndexFile:
    return IndexFile(
        filename=one.filename,
        url=one.url,
        sha256=one.digests.get("sha256", "").lower(),
        yanked=(one.yanked_reason or "") if one.is_yanked else None,
        uploaded=one.upload_time,
        metadata=(one.metadata_digests or {}).get("sha256", "").lower() if one.has_metadata else None,
    )


def _parsed(project: str, body: bytes, kind: str, url: str) -> ProjectPage:
    if "json" in kind:
        page = ProjectPage.from_json_data(json.loads(body), base_url=url)
        if canonicalize_name(page.project) != project:
            raise ValueError(f"it is the page of {page.project!r}")
        return page
    page = ProjectPage.from_html(project, body, base_url=url)
    # A page of a login or an error must not read as one of a project of which nothing is published.
    named = any(one.package_type for one in page.packages) or page.repository_version is not None
    if not named and b"links for" not in body.lower():
        raise ValueError("it lists no files and is not marked as a page of an index")
    return page


def _short(digest: str) -> str:
    return f"sha256:{digest[:_DIGITS]}…"
