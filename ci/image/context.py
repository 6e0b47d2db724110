"""The build's context: a tar of the Containerfile and the components' files, the same for the same input."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO

CONTAINERFILE = "Containerfile"


def write_context(stream: IO[bytes], containerfile: str, sources: Mapping[str, Path]) -> None:
    """Write a context.

    Builders compare what is copied by content, mode and owner, so those are made alike.

    Args:
        stream: takes the tar.
        containerfile: the text.
        sources: folders by the name they have below `sources/`.
    """
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as tar:
        content = containerfile.encode()
        top = tarfile.TarInfo(CONTAINERFILE)
        top.size = len(content)
        tar.addfile(top, io.BytesIO(content))
        for name in sorted(sources):
            _add(tar, sources[name], f"sources/{name}")


def write_folder(stream: IO[bytes], folder: Path) -> None:
    """Write a folder as a context, for a Containerfile that is in it.

    Args:
        stream: takes the tar.
        folder: what its `.dockerignore` leaves out is not in it any more.
    """
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as tar:
        _add(tar, folder, "")


def _add(tar: tarfile.TarFile, folder: Path, inside: str) -> None:
    if inside:
        tar.add(folder, arcname=inside, recursive=False, filter=_alike)
    for path in sorted(folder.rglob("*")):
        below = path.relative_to(folder).as_posix()
        tar.add(path, arcname=f"{inside}/{below}".lstrip("/"), recursive=False, filter=_alike)


def _alike(info: tarfile.TarInfo) -> tarfile.TarInfo:
    info.uid = info.gid = 0
    info.uname = info.gname = ""
    info.mtime = 0
    info.mode = 0o755 if info.isdir() or info.mode & 0o100 else 0o644
    return info
