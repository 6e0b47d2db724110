"""Move a folder from and into a bucket: side by side, checked by name, told as not whole till its manifest.

A fetch that broke off is taken up again. Of what is put, what is there is left, and a manifest comes last.
"""

from __future__ import annotations

import hashlib
import shutil
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path
from typing import TypeVar

from ci.core.errors import BadFileError, MissingInputError, NotWholeError
from ci.core.object_store import PART_BYTES, Bucket
from ci.jobs.transfer_names import (
    LARGEST_MANIFEST,
    MANIFEST,
    OWN,
    Manifest,
    Sum,
    Wanted,
    check_names,
    read_manifest,
    wanted,
)
from test_selection.files import convert, read_json, write_json

# Files under way at once; a large one has parts side by side besides.
AT_ONCE = 4
LINE_EVERY_S = 10.0
Item = TypeVar("Item")
_KIND = "fetch"


@dataclass(frozen=True, slots=True, kw_only=True)
class _State:
    """What a folder holds: from where, whether all of it, and each file's ETag by its name."""

    source: str
    whole: bool = False
    etags: dict[str, str] = field(default_factory=dict)


def fetch(bucket: Bucket, folder: Path, *, say: Callable[[str], object], clock: Callable[[], float]) -> Moved:
    """Fetch every object below an address into a folder.

    What an earlier call fetched is kept where the bucket still holds the same; what it no longer holds is
    removed. Until the end the folder is told as not whole (`check_fetched`).

    Args:
        bucket: the address.
        folder: made where it is not there.
        say: takes a line of progress.
        clock: seconds, monotonic.

    Raises:
        BadFileError: the address holds nothing, or a name that leads out of the folder.
        NotWholeError: what is there is a part, or changed meanwhile.
        BucketAwayError: the endpoint is not reached; the next call goes on from here.
        CommandError: the bucket refuses.
    """
    files = _source(bucket)
    left = _begin(bucket.address(), folder, files)
    tally = Tally(word="fetched", files=len(left), size=sum(file.size for file in left), say=say, clock=clock)
    parts = folder / OWN / "parts"
    inside = folder.resolve()

    def one(file: Wanted) -> None:
        part = parts / hashlib.sha256(file.name.encode()).hexdigest()
        bucket.download(file.name, part, seen=tally.seen)
        _check_same(part, file, bucket.address(file.name))
        target = folder / file.name
        _check_inside(target, inside)
        target.parent.mkdir(parents=True, exist_ok=True)
        part.replace(target)

    try:
        each(one, left, tally)
    finally:
        shutil.rmtree(parts, ignore_errors=True)
    _write_state(folder, bucket.address(), files, whole=True)
    return Moved(files=len(files), size=sum(file.size for file in files), moved=len(left))


def check_fetched(folder: Path) -> None:
    """Refuse a folder whose fetch was not finished; one that nobody fetched is as whole as it is.

    Raises:
        NotWholeError: its fetch broke off.
    """
    state = folder / OWN / "state.json"
    if state.is_file() and not _read_state(state).whole:
        raise NotWholeError(
            "was not fetched to its end", where=folder, remedy="do the `spyre-ci job fetch` into it again"
        )


def _source(bucket: Bucket) -> list[Wanted]:
    held = list(bucket.objects())
    manifest = None
    if (told := next((one for one in held if one.name == MANIFEST), None)) is not None:
        if told.size > LARGEST_MANIFEST:
            raise BadFileError(
                f"is no manifest: it has {amount(told.size)}",
                where=bucket.address(MANIFEST),
                remedy="put the folder again with `spyre-ci job put`, or remove this object",
            )
        manifest = read_manifest(bucket.get(MANIFEST), bucket.address(MANIFEST))
    return wanted(held, manifest, bucket.address())


def _begin(source: str, folder: Path, files: list[Wanted]) -> list[Wanted]:
    """Tell that the folder is not whole, and what of it is still to be fetched."""
    state = folder / OWN / "state.json"
    before = _read_state(state) if state.is_file() else _State(source=source)
    if before.source != source:
        raise BadFileError(
            f"holds what was fetched from {before.source}",
            where=folder,
            remedy="name another folder, or remove this one",
        )
    had = before.etags
    check_names(had, str(folder))
    now = {file.name: file for file in files}
    kept = set()
    inside = folder.resolve()
    for name in had.keys() | now.keys():
        path = folder / name
        same = name in now and had.get(name) == now[name].etag
        if same and path.is_file() and not path.is_symlink() and path.stat().st_size == now[name].size:
            kept.add(name)
        else:
            _check_inside(path, inside)
            # A file appears whole, so one that is there after this is the one of this list.
            path.unlink(missing_ok=True)
    shutil.rmtree(folder / OWN / "parts", ignore_errors=True)
    _write_state(folder, source, files, whole=False)
    return [file for file in files if file.name not in kept]


def _read_state(path: Path) -> _State:
    remedy = "remove the folder, and do the `spyre-ci job fetch` into it again"
    return convert(read_json(path, _KIND), _State, where=path, remedy=remedy)


def _write_state(folder: Path, source: str, files: list[Wanted], *, whole: bool) -> None:
    state = _State(source=source, whole=whole, etags={file.name: file.etag for file in files})
    write_json(folder / OWN / "state.json", _KIND, asdict(state))


def _check_same(part: Path, file: Wanted, where: str) -> None:
    same = part.stat().st_size == file.size
    if same and file.sha256:
        with part.open("rb") as stream:
            same = hashlib.file_digest(stream, "sha256").hexdigest() == file.sha256
    if not same:
        raise NotWholeError(
            "is not what the bucket told of it: it was changed meanwhile, or damaged",
            where=where,
            remedy="do it again; if it stays so, put the folder again",
        )


def _check_inside(path: Path, inside: Path) -> None:
    """Refuse a file that a link which lies here already would lead out of the folder."""
    if not path.parent.resolve().is_relative_to(inside):
        raise BadFileError(
            "is reached by a link that leads out of the folder",
            where=path,
            remedy="remove the link, or name an empty folder",
        )


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """What a transfer did.

    Attributes:
        files: how many there are at its end.
        size: of all of them, in bytes.
        moved: how many of them were moved; the others were there.
    """

    files: int
    size: int
    moved: int


class _StoppedError(Exception):
    """A transfer that ends because another one failed."""


@dataclass(slots=True, kw_only=True)
class Tally:
    """What was moved so far, and lines that tell it; `word` is what is done to it."""

    word: str
    files: int
    size: int
    say: Callable[[str], object]
    clock: Callable[[], float]
    done: int = 0
    moved: int = 0
    stop: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _said: float = 0.0

    def seen(self, count: int) -> None:
        """So many more bytes, from any thread; it ends the transfer where another failed."""
        if self.stop.is_set():
            raise _StoppedError
        with self._lock:
            self.moved += count

    def tell(self) -> None:
        """A line, where it is time for one."""
        if (now := self.clock()) - self._said >= LINE_EVERY_S:
            self._said = now
            amounts = f"{amount(self.moved)} of {amount(self.size)}"
            self.say(f"{self.word} {self.done} of {self.files} files, {amounts}")


def amount(size: int) -> str:
    """A number of bytes as people read it."""
    for unit, word in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if size >= unit:
            return f"{size / unit:.1f} {word}"
    return f"{size} B"


def each(work: Callable[[Item], object], items: Sequence[Item], tally: Tally) -> None:
    """Do a piece of work for each of many, some at once; the first that fails ends the others.

    Raises:
        Exception: what the first of them raised.
    """
    rest = iter(items)
    with ThreadPoolExecutor(AT_ONCE) as pool:

        def more(count: int) -> set[Future[object]]:
            return {pool.submit(work, one) for one in islice(rest, count)}

        left = more(2 * AT_ONCE)
        try:
            while left:
                done, left = wait(left, timeout=LINE_EVERY_S, return_when=FIRST_COMPLETED)
                for one in done:
                    one.result()
                tally.done += len(done)
                tally.tell()
                left |= more(len(done))
        except BaseException:
            tally.stop.set()
            pool.shutdown(cancel_futures=True)
            raise
