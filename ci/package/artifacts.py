"""Sdists and wheels: what they are called, and the SHA-256 of their bytes."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

from packaging.tags import Tag
from packaging.utils import (
    BuildTag,
    InvalidSdistFilename,
    InvalidWheelFilename,
    parse_sdist_filename,
    parse_wheel_filename,
)
from packaging.version import Version

from ci.core.archives import text_in
from ci.core.errors import BadFileError, MissingInputError

_METADATA = {"wheel": re.compile(r"[^/]+\.dist-info/METADATA"), "sdist": re.compile(r"[^/]+/PKG-INFO")}


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact:
    """A file that can be published.

    Attributes:
        path: of it.
        kind: sdist or wheel.
        name: of its project, canonical.
        version: of it.
        tags: what a wheel runs on; empty for an sdist.
        sha256: of its bytes, in hex.
        size: in bytes.
    """

    path: Path
    kind: Literal["sdist", "wheel"]
    name: str
    version: Version
    tags: frozenset[Tag] = frozenset()
    sha256: str
    size: int

    @property
    def filename(self) -> str:
        """As indexes show it."""
        return self.path.name

    @property
    def platforms(self) -> set[str]:
        """The platforms a wheel runs on, such as `any` or `linux_x86_64`."""
        return {tag.platform for tag in self.tags}

    def as_json(self) -> dict[str, object]:
        """As records name it."""
        return {"name": self.filename, "sha256": self.sha256, "size": self.size}


class Key(NamedTuple):
    """What a file of a project is, however its name is spelt: an sdist has no tags."""

    name: str
    version: Version
    build: BuildTag = ()
    tags: frozenset[Tag] = frozenset()


def key_of(filename: str) -> Key | None:
    """Read the name of an sdist or a wheel; None for what is neither."""
    try:
        if filename.endswith(".whl"):
            return Key(*parse_wheel_filename(filename))
        return Key(*parse_sdist_filename(filename))
    except (InvalidWheelFilename, InvalidSdistFilename):
        return None


def artifact(path: Path) -> Artifact:
    """Name a file by its name and bytes.

    Raises:
        MissingInputError: it is not found.
        BadFileError: its name is not that of an sdist or a wheel.
    """
    if not path.is_file():
        raise MissingInputError(
            "there is no such file", where=path, remedy="build it: spyre-ci package build"
        )
    key = key_of(path.name)
    if key is None:
        raise BadFileError(
            "its name is not that of a wheel or an sdist",
            where=path,
            remedy="build it with a back end that follows the packaging specifications",
        )
    return Artifact(
        path=path, kind="wheel" if key.tags else "sdist", name=key.name, version=key.version, tags=key.tags,
        sha256=sha256_of(path), size=path.stat().st_size,
    )  # fmt: skip


def artifacts_in(folder: Path) -> list[Artifact]:
    """Every sdist and wheel of a folder, sdists first, by name.

    Raises:
        MissingInputError: there is none.
        BadFileError: a name cannot be read, or they are of several projects or versions.
    """
    paths = [*folder.glob("*.whl"), *folder.glob("*.tar.gz")]
    found = sorted(map(artifact, paths), key=lambda one: (one.kind, one.filename))
    if not found:
        raise MissingInputError(
            "there is neither an sdist nor a wheel here", where=folder, remedy="run spyre-ci package build"
        )
    releases = sorted({f"{one.name} {one.version}" for one in found})
    if len(releases) > 1:
        raise BadFileError(
            f"the folder has files of more than one release: {', '.join(releases)}",
            where=folder,
            remedy="keep those of one and delete the others",
        )
    return found


def sha256_of(path: Path) -> str:
    """The digest of a file, in hex."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def metadata_of(one: Artifact) -> bytes:
    """The text of an artifact's core metadata: METADATA of a wheel, PKG-INFO of an sdist.

    Raises:
        BadFileError: it is damaged or has none.
    """
    if (text := text_in(one.path, _METADATA[one.kind])) is None:
        raise BadFileError("is damaged: it has no metadata", where=one.path, remedy="build it again")
    return text
