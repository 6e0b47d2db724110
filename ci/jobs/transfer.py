"""A folder from a bucket: checked by name, taken up again where it broke off, told as not whole till then."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ci.core.errors import BadFileError, NotWholeError
from ci.core.object_store import Bucket
from ci.jobs.transfer_names import (
    LARGEST_MANIFEST,
    MANIFEST,
    OWN,
    Wanted,
    check_names,
    read_manifest,
    wanted,
)
from ci.jobs.transfer_pool import Moved, Tally, amount, each
from test_selection.files import read_json, write_json

_KIND = "fetch"


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
    if state.is_file() and not read_json(state, _KIND).get("whole"):
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
    before: dict[str, Any] = read_json(state, _KIND) if state.is_file() else {}
    if before and before.get("source") != source:
        raise BadFileError(
            f"holds what was fetched from {before.get('source')}",
            where=folder,
            remedy="name another folder, or remove this one",
        )
    had: dict[str, str] = before.get("etags", {})
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


def _write_state(folder: Path, source: str, files: list[Wanted], *, whole: bool) -> None:
    etags = {file.name: file.etag for file in files}
    write_json(folder / OWN / "state.json", _KIND, {"source": source, "whole": whole, "etags": etags})


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
