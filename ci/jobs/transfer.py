"""Move a folder from and into a bucket: several files at once, checked by a manifest that is put last.

A transfer that broke off is taken up again: what is there already is not moved a second time.
"""

from __future__ import annotations

import contextlib
import hashlib
import shutil
import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import asdict, dataclass, field
from pathlib import Path, PurePosixPath

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ci.core.errors import BadFileError, MissingInputError, NotWholeError
from ci.core.object_store import PART_BYTES, Bucket, Held
from ci.core.text import size as amount
from ci.jobs.spec import leads_out
from test_selection.files import convert, read_json, schema_name, write_json

# Whoever finds it in force knows that the folder in the bucket is whole.
MANIFEST = "spyre-ci-manifest.json"
# What a fetch keeps for itself in the folder it fills.
OWN = ".spyre-ci-fetch"
# Of a manifest with a hundred thousand files about twenty.
LARGEST_MANIFEST = 256 << 20
# Files under way at once; a large one has parts side by side besides.
AT_ONCE = 4
LINE_EVERY_S = 10.0
_KIND = "fetch"
_PUT_AGAIN = "put the folder again with `spyre-ci job put`"
Say = Callable[[str], object]


class Sum(BaseModel):
    """What a file holds."""

    model_config = ConfigDict(frozen=True)

    size: int = Field(ge=0)
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")


class Manifest(BaseModel):
    """The files of a folder in a bucket; `whole` is false while it is being put."""

    model_config = ConfigDict(frozen=True, populate_by_name=True)

    form: str = Field(default=schema_name("manifest"), alias="schema", pattern=r"^spyre-ci/manifest/1$")
    whole: bool
    files: dict[str, Sum]

    def as_bytes(self) -> bytes:
        """As it is put."""
        return self.model_dump_json(by_alias=True, indent=1).encode() + b"\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """What a folder holds: from where, whether all of it, and each file's ETag by its name."""

    source: str
    whole: bool = False
    etags: dict[str, str] = field(default_factory=dict)


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
    files, sums = _source(bucket)
    left = _begin(bucket.address(), folder, files)
    inside, parts = folder.resolve(), folder / OWN / "parts"

    def one(name: str, seen: Callable[[int], object]) -> None:
        part = parts / hashlib.sha256(name.encode()).hexdigest()
        bucket.download(name, part, seen=seen)
        _check_same(part, files[name], sums.get(name), bucket.address(name))
        target = folder / name
        _check_inside(target, inside)
        if target.is_dir():
            raise _in_the_way(target)
        target.parent.mkdir(parents=True, exist_ok=True)
        part.replace(target)

    try:
        _each("fetched", one, {name: files[name].size for name in left}, say)
    finally:
        shutil.rmtree(parts, ignore_errors=True)
    _write_state(folder, bucket.address(), files, whole=True)
    return Moved(files=len(files), size=sum(one.size for one in files.values()), moved=len(left))


def check_fetched(folder: Path) -> None:
    """Refuse a folder whose fetch was not finished; one that nobody fetched is as whole as it is.

    Raises:
        NotWholeError: its fetch broke off.
    """
    if (folder / OWN / "state.json").is_file() and not _read_state(folder).whole:
        raise NotWholeError(
            "was not fetched to its end", where=folder, remedy="do the `spyre-ci job fetch` into it again"
        )


def _source(bucket: Bucket) -> tuple[dict[str, Held], dict[str, Sum]]:
    """The objects to fetch by name, and what the manifest tells of them, if there is one."""
    where = bucket.address()
    # Consoles make empty objects to show a folder.
    held = {
        one.name: one for one in bucket.objects() if one.size or (one.name and not one.name.endswith("/"))
    }
    told = held.pop(MANIFEST, None)
    sums: dict[str, Sum] = {}
    if told is not None:
        manifest = read_manifest(bucket, told.size)
        sums = manifest.files
        if not manifest.whole:
            remedy = "wait for `spyre-ci job put`, or do it again"
            raise NotWholeError("a put to this folder is under way or broke off", where=where, remedy=remedy)
        others = [name for name, one in sums.items() if name not in held or held[name].size != one.size]
        if others:
            raise NotWholeError(
                f"{len(others)} of {len(sums)} files are not as the manifest tells, like {others[0]!r}",
                where=where,
                remedy=_PUT_AGAIN,
            )
        held = {name: held[name] for name in sums}
    if not held:
        raise BadFileError(
            "holds no object", where=where, remedy="check the address: it names a folder, not one object"
        )
    check_names(held, where)
    return held, sums


def read_manifest(bucket: Bucket, size: int) -> Manifest:
    """The manifest of a folder in a bucket, of so many bytes.

    Raises:
        BadFileError: it is none.
    """
    try:
        if size > LARGEST_MANIFEST:
            raise ValueError(f"it has {size:,} bytes")
        return Manifest.model_validate_json(bucket.get(MANIFEST))
    except ValueError as error:
        said = error.errors()[0]["msg"] if isinstance(error, ValidationError) else error
        raise BadFileError(
            f"is no manifest: {said}",
            where=bucket.address(MANIFEST),
            remedy=f"{_PUT_AGAIN}, or remove this object",
        ) from None


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
        above = {str(one) for one in PurePosixPath(name).parents} & known
        parts = name.split("/")
        if leads_out(name):
            why = "leads out of the folder"
        elif {"", "."} & set(parts):
            why = "has an empty part"
        elif not name.isprintable():
            why = "has characters that are not printed"
        elif max(len(part.encode()) for part in parts) > 255:  # noqa: PLR2004  # of file systems
            why = "has a part of more than 255 bytes"
        elif parts[0] == OWN or name == MANIFEST:
            why = "is one that transfers keep for themselves"
        elif above:
            name, why = min(above), "is both a file and a folder"  # noqa: PLW2901  # it is the one
        else:
            continue
        remedy = "rename or remove it there; nothing was moved"
        raise BadFileError(f"the name {name!r} {why}", where=where, remedy=remedy)


def _begin(source: str, folder: Path, files: Mapping[str, Held]) -> list[str]:
    """Mark the folder as not whole; returns the names that are still to be fetched."""
    before = _read_state(folder) if (folder / OWN / "state.json").is_file() else State(source=source)
    if before.source != source:
        raise BadFileError(
            f"holds what was fetched from {before.source}",
            where=folder,
            remedy="name another folder, or remove this one",
        )
    check_names(before.etags, str(folder))
    inside = folder.resolve()
    kept = {name for name, one in files.items() if _is_same(folder / name, one, before.etags.get(name))}
    # What goes, goes before anything comes: a file may become a folder, or a folder a file. What is to come
    # goes too: files appear whole, so that one which is there after this is of this list.
    for name in sorted((before.etags.keys() | files.keys()) - kept):
        path = folder / name
        _check_inside(path, inside)
        if not path.is_dir() or path.is_symlink():
            try:
                path.unlink(missing_ok=True)
            except NotADirectoryError:
                raise _in_the_way(path.parent) from None
            with contextlib.suppress(OSError):  # the first that holds more
                for above in path.parents[: len(Path(name).parents) - 1]:
                    above.rmdir()
    shutil.rmtree(folder / OWN / "parts", ignore_errors=True)
    _write_state(folder, source, files, whole=False)
    return [name for name in files if name not in kept]


def _in_the_way(path: Path) -> BadFileError:
    return BadFileError(
        "nobody fetched it, and it stands in the way of what is to be fetched",
        where=path,
        remedy="remove it, or name another folder",
    )


def _is_same(path: Path, held: Held, etag: str | None) -> bool:
    """True if an earlier fetch left the object there."""
    return etag == held.etag and path.is_file() and not path.is_symlink() and path.stat().st_size == held.size


def _read_state(folder: Path) -> State:
    path = folder / OWN / "state.json"
    remedy = "remove the folder, and do the `spyre-ci job fetch` into it again"
    return convert(read_json(path, _KIND), State, where=path, remedy=remedy)


def _write_state(folder: Path, source: str, files: Mapping[str, Held], *, whole: bool) -> None:
    state = State(source=source, whole=whole, etags={name: one.etag for name, one in files.items()})
    write_json(folder / OWN / "state.json", _KIND, asdict(state))


def _check_same(part: Path, held: Held, told: Sum | None, where: str) -> None:
    same = part.stat().st_size == held.size
    if same and told is not None:
        with part.open("rb") as stream:
            same = hashlib.file_digest(stream, "sha256").hexdigest() == told.sha256
    if not same:
        raise NotWholeError(
            "is not what the bucket told of it: it was changed meanwhile, or damaged",
            where=where,
            remedy="do it again; if it stays so, put the folder again",
        )


def _check_inside(path: Path, inside: Path) -> None:
    """Refuse a file that a link in the folder would lead out of it."""
    if not path.parent.resolve().is_relative_to(inside):
        raise BadFileError(
            "is reached by a link that leads out of the folder",
            where=path,
            remedy="remove the link, or name an empty folder",
        )


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
    sums: dict[str, Sum] = {}
    etags: dict[str, str] = {}

    def read(name: str, seen: Callable[[int], object]) -> None:
        sums[name], etags[name] = digests(paths[name], seen)

    def send(name: str, seen: Callable[[int], object]) -> None:
        bucket.put(name, paths[name], seen=seen)

    _each("read", read, sizes, say)
    changed = [name for name in paths if there.get(name) != etags[name]]
    manifest = Manifest(whole=True, files={name: sums[name] for name in paths})
    if changed or MANIFEST not in there or bucket.get(MANIFEST) != manifest.as_bytes():
        bucket.put(MANIFEST, Manifest(whole=False, files={}).as_bytes(), kind="application/json")
        _each("put", send, {name: sizes[name] for name in changed}, say)
        bucket.put(MANIFEST, manifest.as_bytes(), kind="application/json")
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

    An ETag is the MD5 of the object or, if it came in parts, of the parts' MD5 sums. A bucket that makes it
    otherwise (as one that encrypts with keys of a service) gets the file again.

    Args:
        path: of the file.
        seen: told of so many more bytes that were read.
    """
    size, whole, parts = 0, hashlib.sha256(), []
    with path.open("rb") as stream:
        while data := stream.read(PART_BYTES):
            whole.update(data)
            parts.append(hashlib.md5(data, usedforsecurity=False).digest())
            size += len(data)
            seen(len(data))
    joined = hashlib.md5(b"".join(parts), usedforsecurity=False).hexdigest()
    alone = parts[0].hex() if parts else joined
    return Sum(size=size, sha256=whole.hexdigest()), alone if size < PART_BYTES else f"{joined}-{len(parts)}"


class _StoppedError(Exception):
    """A transfer that ends because another one failed."""


def _each(
    word: str,
    work: Callable[[str, Callable[[int], object]], object],
    sizes: Mapping[str, int],
    say: Say,
) -> None:
    """Do a piece of work for each file, some at once, and say how it goes; the first failure ends the others.

    Raises:
        Exception: the first failure.
    """
    stop, lock = threading.Event(), threading.Lock()
    moved, total = 0, amount(sum(sizes.values()))

    def seen(count: int) -> None:
        nonlocal moved
        if stop.is_set():
            raise _StoppedError
        with lock:
            moved += count

    with ThreadPoolExecutor(AT_ONCE) as pool:
        left = {pool.submit(work, name, seen) for name in sizes}
        try:
            while left:
                done, left = wait(left, timeout=LINE_EVERY_S, return_when=FIRST_EXCEPTION)
                for one in done:
                    one.result()
                if left:
                    count = len(sizes) - len(left)
                    say(f"{word} {count} of {len(sizes)} files, {amount(moved)} of {total}")
        except BaseException:
            stop.set()
            pool.shutdown(cancel_futures=True)
            raise
