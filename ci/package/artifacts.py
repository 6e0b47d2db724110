"""Sdists and wheels: what they are called, what is in them, and what their metadata says."""

from __future__ import annotations

import hashlib
import stat
import tarfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
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

from ci.errors import BadFileError, MissingInputError

_BROKEN = (tarfile.TarError, zipfile.BadZipFile, EOFError, OSError, ValueError, NotImplementedError)
_CHUNK = 1 << 20


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
class Member:
    """A file in an archive.

    Attributes:
        name: its path there.
        size: in bytes, unpacked.
        mode: its Unix rights; 0 where the archive does not say.
        link: where it leads; empty for what is no link.
        special: whether it is a device, a pipe or the like.
    """

    name: str
    size: int
    mode: int
    link: str = ""
    special: bool = False


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
        BadFileError: it is damaged, or has no metadata.
    """
    try:
        return _wheel(one) if one.kind == "wheel" else _sdist(one)
    except _BROKEN as error:
        raise BadFileError(f"is damaged: {error}", where=one.path, remedy="build it again") from error


def needs_of(artifacts: Sequence[Artifact]) -> list[str]:
    """The requirements of artifacts, as their metadata states them.

    Raises:
        BadFileError: one is damaged.
    """
    return [
        str(line) for one in artifacts for line in contents_of(one).metadata.get_all("Requires-Dist") or ()
    ]


def digests_of(one: Artifact) -> Mapping[str, str]:
    """The SHA-256 of every file in an artifact, by its path there.

    Raises:
        BadFileError: it is damaged.
    """
    try:
        return {name: hashlib.sha256(data).hexdigest() for name, data in _files(one)}
    except _BROKEN as error:
        raise BadFileError(f"is damaged: {error}", where=one.path, remedy="build it again") from error


def _files(one: Artifact) -> Iterator[tuple[str, bytes]]:
    if one.kind == "wheel":
        with zipfile.ZipFile(one.path) as archive:
            for info in archive.infolist():
                if not info.is_dir():
                    yield info.filename, archive.read(info)
        return
    with tarfile.open(one.path) as packed:
        for entry in packed:
            if stream := packed.extractfile(entry) if entry.isfile() else None:
                yield entry.name, stream.read()


def read_member(one: Artifact, name: str) -> bytes:
    """The bytes of a file in an artifact.

    Raises:
        BadFileError: it is damaged, or has no such file.
    """
    try:
        if one.kind == "wheel":
            with zipfile.ZipFile(one.path) as archive:
                return archive.read(name)
        with tarfile.open(one.path) as packed:
            stream = packed.extractfile(name)
            return stream.read() if stream else b""
    except (*_BROKEN, KeyError) as error:
        raise BadFileError(f"{name} cannot be read from it: {error}", where=one.path) from error


def _wheel(one: Artifact) -> Contents:
    with zipfile.ZipFile(one.path) as archive:
        infos = archive.infolist()
        folder = _dist_info(one, [info.filename for info in infos])
        text, wheel = archive.read(f"{folder}/METADATA"), archive.read(f"{folder}/WHEEL")
        members = tuple(_zipped(info, archive) for info in infos if not info.is_dir())
    return Contents(members=members, metadata=_parsed(text), metadata_text=text, wheel=_parsed(wheel))


def _dist_info(one: Artifact, names: list[str]) -> str:
    """The folder of a wheel's metadata."""
    folders = {
        name.partition("/")[0] for name in names if name.endswith((".dist-info/METADATA", ".dist-info/WHEEL"))
    }
    if len(folders) != 1:
        raise ValueError(f"has {len(folders)} folders *.dist-info with METADATA and WHEEL")
    folder = folders.pop()
    distribution = folder.removesuffix(".dist-info").rpartition("-")[0]
    if canonicalize_name(distribution) != one.name:
        raise ValueError(f"holds {folder}, which is another project's")
    return folder


def _zipped(info: zipfile.ZipInfo, archive: zipfile.ZipFile) -> Member:
    mode = info.external_attr >> 16
    is_link = stat.S_ISLNK(mode)
    return Member(
        name=info.filename,
        size=info.file_size,
        mode=stat.S_IMODE(mode),
        link=archive.read(info).decode(errors="replace") if is_link else "",
    )


def _sdist(one: Artifact) -> Contents:
    with tarfile.open(one.path) as packed:
        infos = packed.getmembers()
        top = infos[0].name.partition("/")[0] if infos else ""
        stream = packed.extractfile(f"{top}/PKG-INFO") if f"{top}/PKG-INFO" in packed.getnames() else None
        if stream is None:
            raise ValueError("has no PKG-INFO")
        text = stream.read()
    members = tuple(
        Member(
            name=info.name,
            size=info.size,
            mode=info.mode,
            link=info.linkname if info.issym() or info.islnk() else "",
            special=not (info.isfile() or info.isdir() or info.issym() or info.islnk()),
        )
        for info in infos
        if not info.isdir()
    )
    return Contents(members=members, metadata=_parsed(text), metadata_text=text)


def _parsed(text: bytes) -> Message:
    return BytesParser().parsebytes(text)
