"""Releases of an image: the tags of its repository, and what is installed behind each.

An image is a stranger's. It is run twice, for a bounded time, without network, mounts, capabilities and its
entry point, and its root cannot be written; what it prints is data. Source is copied out of a container that
never ran, never more than so much.
"""

from __future__ import annotations

import io
import json
import posixpath
import re
import tarfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import docker
from docker.errors import APIError, NotFound
from docker.models.containers import Container
from packaging.utils import canonicalize_name

from ci.core.archives import damage
from ci.core.container_engine import engine_error, fetch, has_image
from ci.core.containers import Conditions, container, create, follow
from ci.core.registry import digest_of, tags_of
from ci.pins.entry_points import Source, files_of, signatures
from ci.pins.packages import Packages, parse_freeze
from ci.pins.releases import parsed
from ci.pins.signatures import Signature
from ci.pins.sources import Release, Seen, UntoldError

_MOST_BYTES = 8 << 20
_MOST_LINKS = 8
# A path is the image's own words, and each folder of it is asked several times for each module.
_MOST_FOLDERS = 100
# As engines, which are written in Go, tell the mode of a file.
_IS_FOLDER = 1 << 31
LOOK_S = 180.0
# The Python that the image's path leads to is the one that its users get; its pip lists its packages, while
# another pip on the path may be another Python's.
_PYTHONS = ("python3", "python")
_FREEZE = ("-m", "pip", "--disable-pip-version-check", "freeze", "--all")
PIP, METADATA = "pip freeze", "importlib.metadata"
# What the image prints besides, as `sitecustomize` may, does not begin so.
_MARK = "spyre-ci packages "
_TELL = f"""
import json, sys
from importlib import metadata
found = {{}}
for one in metadata.distributions():
    name = one.metadata["Name"]
    if name and name not in found:
        found[name] = one.version
print()
print({_MARK!r} + json.dumps({{"path": sys.path, "found": found}}))
"""
_SHA256 = re.compile(r"sha256:([0-9a-f]{64})")
# Before, no image was made: reproducible builds say 1970, and some tools the year 1.
_FIRST_YEAR = 2013
_ALONE = Conditions(
    network="none",
    read_only=True,
    scratch=("/tmp",),  # noqa: S108  # the container's
    scratch_bytes=256 << 20,
    memory_bytes=2 << 30,
    processes=256,
    restricted=True,
    environment={"PIP_NO_INPUT": "1"},
)


def source_in(made: Container, path: Iterable[str], *, where: str, late: Callable[[], bool]) -> Source:
    """The modules of a container, which need not have run.

    Args:
        made: it.
        path: that its Python looks along.
        where: it is from, for errors.
        late: whether the time for it is over; the source raises UntoldError then.

    Raises:
        UntoldError: the path is too long.
    """
    folders = list(dict.fromkeys(one for one in path if one.startswith("/") and not one.endswith(".zip")))
    if len(folders) > _MOST_FOLDERS:
        raise _strange(f"its Python looks along {len(folders)} folders", where)

    def timely(file: str) -> bytes | None:
        if late():
            raise _strange("its entry points are not found in time", where)
        return _file(made, file)

    return lambda module: _source(timely, folders, module)


def _source(
    file: Callable[[str], bytes | None], folders: Sequence[str], module: str
) -> tuple[Path, str] | None:
    """A module's file, and its text."""
    for folder in folders:
        for path in files_of(module):
            if (data := file(f"{folder}/{path.as_posix()}")) is not None:
                return path, data.decode("utf-8", "replace")
    return None


def _file(made: Container, path: str) -> bytes | None:
    """The bytes of a file in a container; None where there is none of that name."""
    for _ in range(_MOST_LINKS):
        try:
            stream, about = made.get_archive(path)
        except NotFound:
            return None
        if about is None or about["mode"] & _IS_FOLDER:
            return None
        packed = b"".join(bounded(stream, path))
        with damage(Path(path)), tarfile.open(fileobj=io.BytesIO(packed)) as tar:
            member = tar.next()
            if member is None or not member.issym():
                content = None if member is None else tar.extractfile(member)
                return None if content is None else content.read()
            path = posixpath.join(posixpath.dirname(path), member.linkname)
    return None


def counter(where: str) -> Callable[[str], None]:
    """Takes lines until they are too many.

    Args:
        where: they come from, for errors.
    """
    size = 0

    def count(line: str) -> None:
        nonlocal size
        size += len(line) + 1
        if size > _MOST_BYTES:
            raise _too_much(where)

    return count


def bounded(stream: Iterable[bytes], where: str) -> Iterator[bytes]:
    """Pieces of a stream.

    Args:
        stream: of it.
        where: it comes from, for errors.

    Raises:
        UntoldError: they are too many.
    """
    size = 0
    for piece in stream:
        size += len(piece)
        if size > _MOST_BYTES:
            raise _too_much(where)
        yield piece


def _too_much(where: str) -> UntoldError:
    return _strange(f"it says more than {_MOST_BYTES >> 20} MiB", where)


def _strange(what: str, where: str) -> UntoldError:
    return UntoldError(what, where=where, remedy="look at what is in the image before anybody uses it")


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageSource:
    """A repository of images.

    Attributes:
        client: the engine.
        repository: registry and repository, without a tag.
        tags: which of them are releases, as a glob; None: those that are versions.
        entry_points: whose signatures are read.
        echo: takes lines for people.
        timeout_s: seconds a container may take, and the search for entry points in it.
        clock: seconds, of any beginning.
    """

    client: docker.DockerClient
    repository: str
    entry_points: Sequence[str]
    echo: Callable[[str], None]
    tags: str | None = None
    timeout_s: float = LOOK_S
    clock: Callable[[], float] = time.monotonic

    @property
    def name(self) -> str:
        """The repository."""
        return self.repository

    def releases(self, only: str | None) -> list[Release]:
        """What each tag is now; a tag that moved is another release.

        Args:
            only: one tag, whatever it is called; None: all that are releases.

        Raises:
            MissingInputError: the registry has no such repository or tag.
            CommandError: it cannot be reached, or refuses the credentials.
            UntoldError: its digest of a tag is no SHA-256.
        """
        tags = self._chosen(tags_of(self.repository)) if only is None else [only]
        return [Release(version=tag, sha=self._digest(tag)) for tag in tags]

    def look(self, release: Release) -> Seen:
        """What is installed in an image.

        Raises:
            UntoldError: it has no Python that tells.
            CommandError: it cannot be pulled or run.
        """
        image = f"{self.repository}@sha256:{release.sha}"
        try:
            with self._here(image):
                read_by, packages, path = self._installed(image)
                return Seen(
                    sha=release.sha,
                    released_at=created(self.client.images.get(image).attrs),
                    packages=packages.versions,
                    origins=packages.origins,
                    read_by=read_by,
                    signatures=self._signatures(image, path),
                    unread=packages.unread,
                )
        except APIError as error:
            raise engine_error(error, where=image) from error

    def _chosen(self, tags: Sequence[str]) -> list[str]:
        """Those that are releases; `latest`, caches and charts are none unless they are asked for."""
        if self.tags is None:
            found = [tag for tag in tags if parsed(tag) is not None]
        else:
            found = [tag for tag in tags if fnmatchcase(tag, self.tags)]
        if tags and not found:
            wanted = "is a version" if self.tags is None else f"matches {self.tags}"
            self.echo(f"{self.repository}: none of {len(tags)} tags {wanted}; see pins.tracks.*.tags")
        return found

    def _digest(self, tag: str) -> str:
        image = f"{self.repository}:{tag}"
        found = _SHA256.fullmatch(digest_of(image))
        if found is None:
            raise UntoldError(
                "its digest in the registry is no SHA-256",
                where=image,
                remedy="push it again with another tool, or leave its tag out by pins.tracks.*.tags",
            )
        return found[1]

    @contextmanager
    def _here(self, image: str) -> Iterator[None]:
        """The image is here while the block runs; where it was not before, it does not stay."""
        stays = has_image(self.client, image)
        if not stays:
            self.echo(f"{image}: pulling it")
        fetch(self.client, image)
        try:
            yield
        finally:
            if not stays:
                # Somebody may have begun to use it meanwhile.
                with suppress(APIError):
                    self.client.images.remove(image)

    def _installed(self, image: str) -> tuple[str, Packages, list[str]]:
        """What told the packages, the packages, and the path that Python looks along."""
        for python in _PYTHONS:
            said = self._said(image, python, ("-c", _TELL))
            if said is None:
                continue
            known, path = told(said, image)
            frozen = self._said(image, python, _FREEZE)
            if frozen is not None and (packages := parse_freeze(frozen, known)).versions:
                return PIP, packages, path
            return METADATA, Packages(versions=known), path
        raise UntoldError(
            f"neither {' nor '.join(_PYTHONS)} of it tells what is installed",
            where=image,
            remedy="track an image whose PATH leads to its Python",
        )

    def _said(self, image: str, program: str, words: Sequence[str]) -> str | None:
        """What a program of an image prints; None where it is not there or fails."""
        try:
            with container(self.client, image, words, replace(_ALONE, entrypoint=[program])) as made:
                # Counted while it is said: an engine keeps all of it on its disk.
                ended = follow(made, timeout_s=self.timeout_s, echo=counter(image))
                pieces = made.logs(stdout=True, stderr=False, stream=True, follow=False)
                said = b"".join(bounded(pieces, image)).decode("utf-8", "replace")
        except APIError as error:
            if _is_not_there(error):
                return None
            raise
        if ended.timed_out:
            raise UntoldError(
                f"{program} of it did not end within {self.timeout_s:g} s",
                where=image,
                remedy="try again; an image that hangs every time is not recorded",
            )
        return said if ended.exit_code == 0 else None

    def _signatures(self, image: str, path: Iterable[str]) -> dict[str, Signature | None]:
        if not self.entry_points:
            return {}
        made = create(self.client, image, [], replace(_ALONE, entrypoint=["none"]))
        try:
            until = self.clock() + self.timeout_s
            source = source_in(made, path, where=image, late=lambda: self.clock() > until)
            return signatures(self.entry_points, source)
        finally:
            made.remove(force=True, v=True)


def told(said: str, where: str) -> tuple[dict[str, str], list[str]]:
    """Packages and path, of what a Python printed.

    Args:
        said: all of it.
        where: of the image, for errors.

    Raises:
        UntoldError: it is something else.
    """
    lines = [line for line in said.splitlines() if line.startswith(_MARK)]
    try:
        content = json.loads(lines[-1].removeprefix(_MARK))
        found: dict[str, str] = {
            canonicalize_name(str(name)): str(version) for name, version in content["found"].items()
        }
        return found, [str(one) for one in content["path"]]
    except (IndexError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise UntoldError(
            "its Python says something else than its packages",
            where=where,
            remedy="see what runs whenever it starts, such as sitecustomize",
        ) from error


def created(attributes: Mapping[str, Any]) -> datetime | None:
    """When an image was made, as it says; None where it says nothing that can be."""
    try:
        found = datetime.fromisoformat(str(attributes.get("Created")))
    except ValueError:
        return None
    found = found if found.tzinfo else found.replace(tzinfo=UTC)
    return found if found.year >= _FIRST_YEAR else None


def _is_not_there(error: APIError) -> bool:
    """Whether an engine says that a program is not in the image, which each says in its own way."""
    said = str(error.explanation or error).lower()
    return any(words in said for words in ("not found", "no such file", "permission denied"))
