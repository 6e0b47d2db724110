"""A folder into a bucket: what is there is left, and a manifest comes last and tells that it is whole."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

from ci.buckets import PART_BYTES, Bucket, Held
from ci.errors import BadFileError, MissingInputError
from ci.jobs.transfer import check_fetched
from ci.jobs.transfer_names import MANIFEST, OWN, Manifest, Sum, Wanted, check_names
from ci.jobs.transfer_pool import Moved, Tally, each

_CHUNK = 1024 * 1024


def put(folder: Path, bucket: Bucket, *, say: Callable[[str], object], clock: Callable[[], float]) -> Moved:
    """Put every file of a folder below an address, and at the end a manifest that tells it is whole.

    What is there with the same content is left. Objects there that are not in the folder stay; a fetch
    passes them over.

    Args:
        folder: with files.
        bucket: the address.
        say: takes a line of progress.
        clock: seconds, monotonic.

    Raises:
        MissingInputError: there is no such folder.
        BadFileError: it is empty, or holds a link that leads out of it, or a name that is refused.
        NotWholeError: it was not fetched to its end.
        BucketAwayError: the endpoint is not reached; the next call goes on from here.
        CommandError: the bucket refuses.
    """
    paths = files_of(folder)
    there = {one.name: one for one in bucket.objects()}
    sums: dict[str, Sum] = {}
    changed: list[Wanted] = []

    def look(name: str) -> None:
        sums[name], etag = digests(paths[name], there.get(name))
        if name not in there or there[name].etag != etag:
            changed.append(Wanted(name=name, size=sums[name].size, etag=""))

    each(look, sorted(paths), Tally(files=0, size=0, say=lambda _: None, clock=clock))
    changed.sort(key=lambda one: one.name)
    manifest = Manifest(whole=True, files=dict(sorted(sums.items())))
    moved = Moved(files=len(sums), size=sum(one.size for one in sums.values()), moved=len(changed))
    if not changed and MANIFEST in there and bucket.get(MANIFEST) == manifest.as_bytes():
        return moved
    tally = Tally(files=len(changed), size=sum(one.size for one in changed), say=say, clock=clock)
    bucket.put(MANIFEST, Manifest(whole=False, files={}).as_bytes(), kind="application/json")
    each(lambda file: bucket.put(file.name, paths[file.name], seen=tally.seen), changed, tally)
    bucket.put(MANIFEST, manifest.as_bytes(), kind="application/json")
    return moved


def files_of(folder: Path) -> dict[str, Path]:
    """The files of a folder that is to be put, by name.

    Raises:
        MissingInputError: there is no such folder.
        BadFileError: it is empty, or holds what is no file, a link that leads out, or a name that is refused.
        NotWholeError: it was not fetched to its end.
    """
    if not folder.is_dir():
        raise MissingInputError("there is no such folder", where=folder, remedy="check the path")
    check_fetched(folder)
    inside = folder.resolve()
    found = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if name.split("/")[0] == OWN or (path.is_dir() and not path.is_symlink()):
            continue
        # Links between files are how model caches are laid out; a linked folder would be walked for ever.
        if not path.is_file() or not path.resolve().is_relative_to(inside):
            raise BadFileError(
                f"{name!r} is no file of this folder",
                where=folder,
                remedy="remove it, or put a copy in its place: links may lead to files of the folder alone",
            )
        found[name] = path
    if not found:
        raise BadFileError("holds no file", where=folder, remedy="check the path")
    check_names(found, str(folder))
    return found


def digests(path: Path, there: Held | None) -> tuple[Sum, str]:
    """What a file holds, and the ETag it would have; that is empty where nothing there is of its size.

    An ETag is the MD5 of the object or, where it came in parts, of the parts' MD5 sums. Where the bucket
    makes it otherwise (as with keys of its own) it never fits, and the file is put again.
    """
    size = path.stat().st_size
    whole = hashlib.sha256()
    parts: list[bytes] | None = [] if there is not None and there.size == size else None
    with path.open("rb") as stream:
        for start in range(0, max(size, 1), PART_BYTES):
            part = hashlib.md5(usedforsecurity=False)
            for _ in range(start, min(start + PART_BYTES, size), _CHUNK):
                data = stream.read(_CHUNK)
                whole.update(data)
                if parts is not None:
                    part.update(data)
            if parts is not None:
                parts.append(part.digest())
    return Sum(size=size, sha256=whole.hexdigest()), _etag(parts or [], size)


def _etag(parts: list[bytes], size: int) -> str:
    if not parts:
        return ""
    if size < PART_BYTES:
        return parts[0].hex()
    return f"{hashlib.md5(b''.join(parts), usedforsecurity=False).hexdigest()}-{len(parts)}"
