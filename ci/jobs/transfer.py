"""Move a folder from and into a bucket: several files at once, checked by a manifest that is put last.

A transfer that broke off is taken up again: what is there already is not moved a second time.
"""

from __future__ import annotations

import contextlib
import hashlib
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ci.core.errors import BadFileError, MissingInputError, NotWholeError
from ci.core.object_store import PART_BYTES, Bucket
from ci.core.text import size as amount
from test_selection.files import atomic_writer, read_bounded, schema_name

# Whoever finds it whole knows that the folder in the bucket is.
MANIFEST = "spyre-ci-manifest.json"
# What a fetch keeps for itself in the folder it fills.
OWN = ".spyre-ci-fetch"
# Of a manifest with a hundred thousand files about thirty.
LARGEST_MANIFEST = 256 << 20
# Files under way at once; a large one has parts side by side besides.
AT_ONCE = 4
LINE_EVERY_S = 10.0
Say = Callable[[str], object]
# Told of so many more bytes of a file.
Seen = Callable[[int], object]


class Content(BaseModel):
    """What a file holds; the SHA-256 of an object is known by a manifest alone."""

    model_config = ConfigDict(frozen=True)

    size: int = Field(ge=0)
    etag: str
    sha256: str = ""


class Manifest(BaseModel):
    """The files of a folder in a bucket, or of one that was fetched; `whole` is false until all are there."""

    model_config = ConfigDict(frozen=True, populate_by_name=True)

    form: str = Field(default=schema_name("manifest"), alias="schema", pattern=r"^spyre-ci/manifest/1$")
    whole: bool = False
    source: str = ""
    files: dict[str, Content] = {}

    def as_bytes(self) -> bytes:
        """As it is put and kept."""
        return self.model_dump_json(by_alias=True, indent=1).encode() + b"\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """What a transfer did: files and bytes there are at its end, and how many files were moved."""

    files: int
    size: int
    moved: int


def fetch(bucket: Bucket, folder: Path, *, say: Say) -> Moved:
    """Fetch every object below an address into a folder.

    Files that an earlier call fetched stay if the bucket still holds the same; what it no longer holds is
    removed. Until the end the folder is marked as not whole (`check_fetched`).

    Args:
        bucket: the address.
        folder: made if it does not exist.
        say: takes a line of progress.

    Raises:
        BadFileError: the address holds nothing, or a name that leads out of the folder.
        NotWholeError: the source is a part, or changed meanwhile.
        BucketAwayError: the endpoint is not reached; the next call goes on from here.
        CommandError: the bucket refuses.
    """
    manifest = Manifest(source=bucket.address(), files=_source(bucket))
    files, parts = manifest.files, folder / OWN / "parts"
    left = _begin(folder, manifest)

    def one(name: str, seen: Seen) -> None:
        part, content = parts / hashlib.sha256(name.encode()).hexdigest(), files[name]
        bucket.download(name, part, seen=seen)
        found = content_of(part, lambda _: None) if content.sha256 else content
        if (part.stat().st_size, found.sha256) != (content.size, content.sha256):
            raise NotWholeError(
                "differs from the bucket's listing: it was changed meanwhile, or is damaged",
                where=bucket.address(name),
                remedy="try again; if it still differs, put the folder again",
            )
        with _place(folder, name) as target:
            target.parent.mkdir(parents=True, exist_ok=True)
            part.replace(target)

    try:
        _each("fetched", one, {name: files[name].size for name in left}, say)
    finally:
        shutil.rmtree(parts, ignore_errors=True)
    _keep(folder, manifest.model_copy(update={"whole": True}))
    return Moved(files=len(files), size=sum(one.size for one in files.values()), moved=len(left))


def check_fetched(folder: Path) -> None:
    """Refuse a folder whose fetch was not finished; one that nobody fetched is as whole as it is.

    Raises:
        NotWholeError: its fetch broke off.
    """
    kept = _kept(folder)
    if kept.source and not kept.whole:
        raise NotWholeError(
            "was not fetched completely", where=folder, remedy="run `spyre-ci job fetch` into it again"
        )


def _source(bucket: Bucket) -> dict[str, Content]:
    """The objects to fetch, by name: those that the manifest tells of, if there is one."""
    where = bucket.address()
    # Consoles make empty objects to show a folder.
    held = {
        one.name: Content(size=one.size, etag=one.etag)
        for one in bucket.objects()
        if one.size or (one.name and not one.name.endswith("/"))
    }
    if (about := held.pop(MANIFEST, None)) is not None:
        again = "put the folder again with `spyre-ci job put`"
        data = b"" if about.size > LARGEST_MANIFEST else bucket.get(MANIFEST)
        told = _manifest(data, bucket.address(MANIFEST), f"{again}, or remove this object")
        if not told.whole:
            remedy = "wait for `spyre-ci job put`, or run it again"
            raise NotWholeError(
                "a put to this folder is running or was interrupted", where=where, remedy=remedy
            )
        others = [name for name, one in told.files.items() if name not in held or held[name].size != one.size]
        if others:
            what = f"{len(others)} of {len(told.files)} files differ from the manifest"
            raise NotWholeError(f"{what}, such as {others[0]!r}", where=where, remedy=again)
        held = {name: one.model_copy(update={"etag": held[name].etag}) for name, one in told.files.items()}
    if not held:
        remedy = "check the address: it has to be a folder, not one object"
        raise BadFileError("contains no object", where=where, remedy=remedy)
    check_names(held, where)
    return held


def _manifest(data: bytes, where: str, remedy: str) -> Manifest:
    try:
        return Manifest.model_validate_json(data)
    except ValidationError as error:
        what = f"is not a manifest of at most {LARGEST_MANIFEST >> 20} MiB: {error.errors()[0]['msg']}"
        raise BadFileError(what, where=where, remedy=remedy) from None


def check_names(names: Iterable[str], where: str) -> None:
    """Refuse names that lead out of a folder, or that cannot all be in one.

    Args:
        names: with `/` between their parts.
        where: the bucket or folder, for errors.

    Raises:
        BadFileError: the first of them that is refused, and why.
    """
    known = set(names)
    for name in sorted(known):
        parts = name.split("/")
        if {"", ".", ".."} & set(parts):
            why = "is not a path below the folder"
        elif not name.isprintable():
            why = "has characters that cannot be printed"
        elif parts[0] == OWN or name == MANIFEST:
            why = "is reserved for transfers"
        elif known & {str(one) for one in PurePosixPath(name).parents}:
            why = "would be inside another file"
        else:
            continue
        remedy = "rename or remove it there; nothing was transferred"
        raise BadFileError(f"the name {name!r} {why}", where=where, remedy=remedy)


def _begin(folder: Path, manifest: Manifest) -> list[str]:
    """Mark the folder as not whole; returns the names that are still to be fetched."""
    before, files = _kept(folder), manifest.files
    if before.source not in ("", manifest.source):
        raise BadFileError(
            f"contains files fetched from {before.source}",
            where=folder,
            remedy="name another folder, or remove this one",
        )
    kept = set()
    for name in before.files.keys() & files.keys():
        path, one = folder / name, files[name]
        there = path.is_file() and not path.is_symlink() and path.stat().st_size == one.size
        if there and before.files[name].etag == one.etag:
            kept.add(name)
    # What goes, goes before anything comes: a file may become a folder, or a folder a file. What is to come
    # goes too: files appear whole, so that one which is there after this is of this list.
    for name in sorted((before.files.keys() | files.keys()) - kept):
        with _place(folder, name) as path:
            if path.is_dir() and not path.is_symlink():
                continue
            path.unlink(missing_ok=True)
            with contextlib.suppress(OSError):  # the first that holds more
                for above in path.parents[: len(Path(name).parents) - 1]:
                    above.rmdir()
    shutil.rmtree(folder / OWN / "parts", ignore_errors=True)
    _keep(folder, manifest)
    return [name for name in files if name not in kept]


def _kept(folder: Path) -> Manifest:
    path = folder / OWN / MANIFEST
    if not path.is_file():
        return Manifest()
    remedy = "remove the folder, and run `spyre-ci job fetch` into it again"
    return _manifest(read_bounded(path, LARGEST_MANIFEST), str(path), remedy)


def _keep(folder: Path, manifest: Manifest) -> None:
    with atomic_writer(folder / OWN / MANIFEST) as stream:
        stream.write(manifest.as_bytes())


@contextlib.contextmanager
def _place(folder: Path, name: str) -> Iterator[Path]:
    """Where a file of the folder is; a link that leads out of it, or what stands in its way, is refused."""
    path = folder / name
    if not path.parent.resolve().is_relative_to(folder.resolve()):
        raise BadFileError(
            "is reached by a link that leads out of the folder",
            where=path,
            remedy="remove the link, or name an empty folder",
        )
    try:
        yield path
    except (FileExistsError, IsADirectoryError, NotADirectoryError):
        raise BadFileError(
            "cannot be fetched: a file that was not fetched is in the way",
            where=path,
            remedy="remove it, or name another folder",
        ) from None


def put(folder: Path, bucket: Bucket, *, say: Say) -> Moved:
    """Put every file of a folder below an address, and at the end a manifest.

    Objects with the same content stay as they are. Objects that are not in the folder stay as well, and a
    fetch passes them over.

    Args:
        folder: with files.
        bucket: the address.
        say: takes a line of progress.

    Raises:
        MissingInputError: there is no such folder.
        BadFileError: it is empty, or holds a link that leads out of it, or a name that is refused.
        NotWholeError: it was not fetched to its end.
        BucketAwayError: the endpoint is not reached; the next call goes on from here.
        CommandError: the bucket refuses.
    """
    paths = files_of(folder)
    there = {one.name: one.etag for one in bucket.objects()}
    sizes = {name: path.stat().st_size for name, path in paths.items()}
    found: dict[str, Content] = {}

    def read(name: str, seen: Seen) -> None:
        found[name] = content_of(paths[name], seen)

    def send(name: str, seen: Seen) -> None:
        bucket.put(name, paths[name], seen=seen)

    _each("read", read, sizes, say)
    changed = [name for name in paths if there.get(name) != found[name].etag]
    manifest = Manifest(whole=True, files=dict(sorted(found.items()))).as_bytes()
    if changed or MANIFEST not in there or bucket.get(MANIFEST) != manifest:
        bucket.put(MANIFEST, Manifest().as_bytes(), kind="application/json")
        _each("put", send, {name: sizes[name] for name in changed}, say)
        bucket.put(MANIFEST, manifest, kind="application/json")
    return Moved(files=len(paths), size=sum(sizes.values()), moved=len(changed))


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
    found = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if name.split("/")[0] == OWN or (path.is_dir() and not path.is_symlink()):
            continue
        # Links between files are how model caches are laid out; a linked folder would be walked for ever.
        if not path.is_file() or not path.resolve().is_relative_to(folder.resolve()):
            raise BadFileError(
                f"{name!r} is not a file of this folder",
                where=folder,
                remedy="remove it, or put a copy in its place: links may lead only to files of the folder",
            )
        found[name] = path
    if not found:
        raise BadFileError("contains no file", where=folder, remedy="check the path")
    check_names(found, str(folder))
    return found


def content_of(path: Path, seen: Seen) -> Content:
    """What a file holds, with the ETag it would have in a bucket.

    An ETag is the MD5 of the object or, if it came in parts, of the parts' MD5 sums. A bucket that makes it
    otherwise (as one that encrypts with keys of a service) gets the file again.
    """
    whole, parts, size = hashlib.sha256(), list[bytes](), 0
    with path.open("rb") as stream:
        # An empty file is one part.
        while (data := stream.read(PART_BYTES)) or not parts:
            whole.update(data)
            parts.append(hashlib.md5(data, usedforsecurity=False).digest())
            size += len(data)
            seen(len(data))
    joined = hashlib.md5(b"".join(parts), usedforsecurity=False).hexdigest()
    etag = parts[0].hex() if size < PART_BYTES else f"{joined}-{len(parts)}"
    return Content(size=size, etag=etag, sha256=whole.hexdigest())


class _StoppedError(Exception):
    """A transfer that ends because another one failed."""


def _each(word: str, work: Callable[[str, Seen], object], sizes: Mapping[str, int], say: Say) -> None:
    """Do a piece of work for each file, some at once, and say how it goes; the first failure ends the others.

    Raises:
        Exception: the first failure.
    """
    stop, lock, total = threading.Event(), threading.Lock(), amount(sum(sizes.values()))
    moved, due = 0, time.monotonic() + LINE_EVERY_S

    def seen(count: int) -> None:
        nonlocal moved, due
        if stop.is_set():
            raise _StoppedError
        with lock:
            moved += count
            if time.monotonic() >= due:
                due = time.monotonic() + LINE_EVERY_S
                say(f"{word} {amount(moved)} of {total}")

    with ThreadPoolExecutor(AT_ONCE) as pool:
        tasks = [pool.submit(work, name, seen) for name in sizes]
        try:
            for task in as_completed(tasks):
                task.result()
        except BaseException:
            stop.set()
            pool.shutdown(cancel_futures=True)
            raise
