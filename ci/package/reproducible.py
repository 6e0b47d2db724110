"""The same bytes from the same sources: an sdist packed by one rule, and what two builds differ in."""

from __future__ import annotations

import gzip
import shutil
import tarfile
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryFile

from ci.core.archives import damage, walk
from ci.package.artifacts import Artifact, digests_of
from test_selection.files import atomic_writer


def pack_again(path: Path, seconds: int) -> None:
    """Pack an sdist anew by one rule: members by name, one time, nobody's, rights as Git knows them.

    Back ends differ in which of these they keep from the machine (reproducible-builds.org, archives).

    Args:
        path: the .tar.gz, which is replaced.
        seconds: since the epoch; the time of all.

    Raises:
        BadFileError: it is damaged, or larger than anything that is published.
    """
    # In a file, where every member is within reach, and none has to be held.
    with damage(path), TemporaryFile(dir=path.parent) as unpacked:
        # It is no larger than anything that is published.
        deque(walk(path, "sdist"), maxlen=0)
        with gzip.open(path) as stream:
            shutil.copyfileobj(stream, unpacked)
        unpacked.seek(0)
        with (
            tarfile.open(fileobj=unpacked, mode="r:") as packed,
            atomic_writer(path) as target,
            gzip.GzipFile("", "wb", 9, target, mtime=0) as squeezed,
            tarfile.open(fileobj=squeezed, mode="w", format=tarfile.PAX_FORMAT) as fresh,
        ):
            for info in sorted(packed.getmembers(), key=lambda one: one.name):
                fresh.addfile(_plain(info, seconds), packed.extractfile(info) if info.isfile() else None)


def _plain(info: tarfile.TarInfo, seconds: int) -> tarfile.TarInfo:
    plain = tarfile.TarInfo(info.name)
    plain.type, plain.linkname, plain.size = info.type, info.linkname, info.size
    plain.mtime = seconds
    plain.mode = 0o755 if info.isdir() or info.mode & 0o100 else 0o644
    return plain


def differences(first: Sequence[Artifact], second: Sequence[Artifact]) -> dict[str, list[str]]:
    """What two builds differ in, by file name: the members that do, or what is wrong with the whole.

    Raises:
        BadFileError: one of them is damaged.
    """
    ones, others = ({one.filename: one for one in build} for build in (first, second))
    found: dict[str, list[str]] = {}
    for name in sorted(ones.keys() | others.keys()):
        if name not in ones or name not in others:
            found[name] = ["made by one of the builds only"]
        elif ones[name].sha256 != others[name].sha256:
            found[name] = _members(ones[name], others[name]) or ["order, times or rights of its members"]
    return found


def _members(one: Artifact, other: Artifact) -> list[str]:
    a, b = digests_of(one), digests_of(other)
    return sorted(name for name in a.keys() | b.keys() if a.get(name) != b.get(name))
