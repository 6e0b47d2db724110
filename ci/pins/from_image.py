"""Releases of an image: the tags of its repository, and what is installed behind each.

An image is a stranger's. It is run twice, for a bounded time, without network, mounts, capabilities and its
entry point, and its root cannot be written; what it prints is data. Source is copied out of a container that
never ran.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import Any

import docker
from docker.errors import APIError
from packaging.utils import canonicalize_name

from ci.image.container import Conditions, container, create, follow
from ci.image.engine import engine_error, fetch, has_image
from ci.image.registry import digest_of, tags_of
from ci.pins.entry_points import signatures
from ci.pins.out_of_container import bounded, counter, source_in
from ci.pins.packages import Packages, parse_freeze
from ci.pins.releases import parsed
from ci.pins.signatures import Signature
from ci.pins.sources import Release, Seen, UntoldError

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
        found = _SHA256.fullmatch(digest_of(self.client, image))
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
