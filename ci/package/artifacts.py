"""Sdists and wheels: what they are called, what is in them, and what their metadata says."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from email.message import Message
from email.parser import BytesParser
from pathlib import Path
from typing import Literal

from packaging.tags import Tag
from packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    canonicalize_name,
    parse_sdist_filename,
    parse_wheel_filename,
)
from packaging.version import Version

from ci.core.archives import Entry, Member, damage, walk
from ci.core.errors import BadFileError, MissingInputError

_CHUNK = 1 << 20
_INFO = ".dist-info"


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """What is in an artifact.

    Attributes:
        members: its files, in the archive's order.
        metadata: its core metadata; see the core metadata specifications.
        metadata_text: the same, as it stands.
        wheel: the WHEEL file of a wheel; None for an sdist.
    """

    members: tuple[Member, ...]
    metadata: Message
    metadata_text: bytes
    wheel: Message | None = None


def artifact(path: Path) -> Artifact:
    """Name a file by its name and bytes.

    Raises:
        MissingInputError: it is not there.
        BadFileError: its name is not that of an sdist or a wheel.
    """
    if not path.is_file():
        raise MissingInputError(
            "there is no such file", where=path, remedy="build it: spyre-ci package build"
        )
    digest = sha256_of(path)
    size = path.stat().st_size
    try:
        if path.name.endswith(".whl"):
            name, version, _, tags = parse_wheel_filename(path.name)
            return Artifact(
                path=path, kind="wheel", name=name, version=version, tags=tags, sha256=digest, size=size
            )
        name, version = parse_sdist_filename(path.name)
    except (InvalidWheelFilename, InvalidSdistFilename) as error:
        raise BadFileError(
            f"its name is not that of a wheel or an sdist: {error}",
            where=path,
            remedy="build it with a back end that keeps to the packaging specifications",
        ) from error
    return Artifact(path=path, kind="sdist", name=name, version=version, sha256=digest, size=size)


def artifacts_in(folder: Path) -> list[Artifact]:
    """Every sdist and wheel of a folder, sdists first, by name.

    Raises:
        MissingInputError: there is none.
        BadFileError: a name cannot be read, or they are of several projects or versions.
    """
    paths = sorted([*folder.glob("*.whl"), *folder.glob("*.tar.gz")])
    found = sorted(map(artifact, paths), key=lambda one: (one.kind, one.filename))
    if not found:
        raise MissingInputError(
            "there is neither an sdist nor a wheel here", where=folder, remedy="run spyre-ci package build"
        )
    kinds = sorted({f"{one.name} {one.version}" for one in found})
    if len(kinds) > 1:
        raise BadFileError(
            f"files of more than one release are here: {', '.join(kinds)}",
            where=folder,
            remedy="keep those of one and delete the others",
        )
    return found


def sha256_of(path: Path) -> str:
    """The digest of a file, in hex."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while chunk := stream.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def contents_of(one: Artifact) -> Contents:
    """What is in an artifact.

    Raises:
        BadFileError: it is damaged, has no metadata, or is larger than anything that is published.
    """
    with damage(one.path):
        return _wheel(one) if one.kind == "wheel" else _sdist(one)


def digests_of(one: Artifact) -> Mapping[str, str]:
    """The SHA-256 of every file in an artifact, in hex, by its path there; of what is there twice, the last.

    Raises:
        BadFileError: it is damaged.
    """
    return {
        entry.member.name: _digest(entry)
        for entry in walk(one.path, one.kind)
        if not (entry.member.link or entry.member.special)
    }


def read_member(one: Artifact, name: str) -> bytes:
    """The bytes of a text in an artifact.

    Raises:
        BadFileError: it is damaged, has no such file, or that is larger than any text.
    """
    for entry in walk(one.path, one.kind):
        if entry.member.name == name:
            return entry.whole()
    raise BadFileError(f"has no {name}", where=one.path, remedy="build it again")


def _digest(entry: Entry) -> str:
    digest = hashlib.sha256()
    for chunk in entry.chunks():
        digest.update(chunk)
    return digest.hexdigest()


def _wheel(one: Artifact) -> Contents:
    members, texts = [], {}
    for entry in walk(one.path, "wheel"):
        folder, _, name = entry.member.name.partition("/")
        members.append(entry.member)
        # A package may bring another one's below its own folder.
        if folder.endswith(_INFO) and name in {"METADATA", "WHEEL"}:
            texts[folder, name] = entry.whole()
    folder = _dist_info(one, {folder for folder, _ in texts})
    missing = [name for name in ("METADATA", "WHEEL") if (folder, name) not in texts]
    if missing:
        raise ValueError(f"has no {missing[0]} in {folder}")
    text = texts[folder, "METADATA"]
    wheel = _parsed(texts[folder, "WHEEL"])
    return Contents(members=tuple(members), metadata=_parsed(text), metadata_text=text, wheel=wheel)


def _dist_info(one: Artifact, folders: set[str]) -> str:
    """The folder of a wheel's metadata."""
    if len(folders) != 1:
        raise ValueError(f"has {len(folders)} folders *{_INFO} with METADATA and WHEEL")
    folder = folders.pop()
    distribution = folder.removesuffix(_INFO).rpartition("-")[0]
    if canonicalize_name(distribution) != one.name:
        raise ValueError(f"holds {folder!r}, which is another project's")
    return folder


def _sdist(one: Artifact) -> Contents:
    members: list[Member] = []
    text = None
    for entry in walk(one.path, "sdist"):
        members.append(entry.member)
        top = members[0].name.partition("/")[0]
        if entry.member.name == f"{top}/PKG-INFO":
            text = entry.whole()
    if text is None:
        raise ValueError("has no PKG-INFO")
    return Contents(members=tuple(members), metadata=_parsed(text), metadata_text=text)


def _parsed(text: bytes) -> Message:
    return BytesParser().parsebytes(text)
