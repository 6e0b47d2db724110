"""A folder into a bucket: what is there is left, and a manifest comes last and tells that it is whole."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

from ci.core.errors import BadFileError, MissingInputError
from ci.core.object_store import PART_BYTES, Bucket
from ci.jobs.transfer import check_fetched
from ci.jobs.transfer_names import MANIFEST, OWN, Manifest, Sum, check_names
from ci.jobs.transfer_pool import Moved, Tally, each


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
    sizes = {name: path.stat().st_size for name, path in paths.items()}
    sums: dict[str, Sum] = {}
    etags: dict[str, str] = {}
    tally = Tally(word="read", files=len(paths), size=sum(sizes.values()), say=say, clock=clock)

    def read(name: str) -> None:
        sums[name], etags[name] = digests(paths[name], tally.seen)

    each(read, list(paths), tally)
    changed = [name for name in paths if name not in there or there[name].etag != etags[name]]
    manifest = Manifest(whole=True, files={name: sums[name] for name in paths})
    moved = Moved(files=len(paths), size=tally.size, moved=len(changed))
    if not changed and MANIFEST in there and bucket.get(MANIFEST) == manifest.as_bytes():
        return moved
    size = sum(sizes[name] for name in changed)
    tally = Tally(word="put", files=len(changed), size=size, say=say, clock=clock)
    bucket.put(MANIFEST, Manifest(whole=False, files={}).as_bytes(), kind="application/json")
    each(lambda name: bucket.put(name, paths[name], seen=tally.seen), changed, tally)
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


def digests(path: Path, seen: Callable[[int], object]) -> tuple[Sum, str]:
    """What a file holds, and the ETag it would have in a bucket.

    An ETag is the MD5 of the object or, where it came in parts, of the parts' MD5 sums. Where the bucket
    makes it otherwise (as where it encrypts with keys of a service) it never fits, and the file is put again.

    Args:
        path: of the file.
        seen: told of so many more bytes that were read.
    """
    size = 0
    whole = hashlib.sha256()
    parts = []
    with path.open("rb") as stream:
        while data := stream.read(PART_BYTES):
            whole.update(data)
            parts.append(hashlib.md5(data, usedforsecurity=False).digest())
            size += len(data)
            seen(len(data))
    joined = hashlib.md5(b"".join(parts), usedforsecurity=False).hexdigest()
    alone = parts[0].hex() if parts else joined
    etag = alone if size < PART_BYTES else f"{joined}-{len(parts)}"
    return Sum(size=size, sha256=whole.hexdigest()), etag
