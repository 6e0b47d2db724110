"""A folder that is written beside its place and put there whole, never over what somebody else wrote."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from ci.errors import FileSystemError, RunInUseError, SpyreCiError, UsageError
from test_selection.files import read_json, write_json

ACCOUNT = "spyre-ci-export.json"
KIND = "hud-export"


@contextlib.contextmanager
def replacing(folder: Path) -> Iterator[Path]:
    """A new folder beside `folder`, which takes its place when the block ends well.

    Raises:
        UsageError: `folder` is there and is no export, or holds what the export did not write.
        RunInUseError: somebody else exports there now.
        FileSystemError: the folder cannot be made or put in its place.
    """
    place = folder.resolve()
    check_ours(place)
    made = place.with_name(f".{place.name}.spyre-ci-new")
    old = place.with_name(f".{place.name}.spyre-ci-old")
    with _named(place):
        place.parent.mkdir(parents=True, exist_ok=True)
        made.mkdir(exist_ok=True)
    with _alone(made, place):
        with _named(place):
            _clear(made, place, old)
        try:
            yield made
            check_ours(place)
            with _named(place):
                _swap(made, place, old)
        finally:
            shutil.rmtree(made, ignore_errors=True)


def check_ours(folder: Path) -> None:
    """Refuse a folder that holds anything but an export.

    Raises:
        UsageError: it does.
    """
    if not os.path.lexists(folder):
        return
    remedy = "name a folder that is not there, is empty or holds an export alone"
    if not folder.is_dir():
        raise UsageError("is no folder", where=folder, remedy=remedy)
    held = {
        one.relative_to(folder).as_posix()
        for one in folder.rglob("*")
        if one.is_symlink() or not one.is_dir()
    }
    if not held and not any(folder.iterdir()):
        return
    if others := sorted(held - _written(folder)):
        raise UsageError(
            f"holds what no export wrote: {others[0][:200]!r}"
            + (f" and {len(others) - 1} more" if len(others) > 1 else ""),
            where=folder,
            remedy=remedy,
        )


def write_account(folder: Path, **told: object) -> None:
    """Write down what the export wrote, so that the next may take it away."""
    files = sorted(one.relative_to(folder).as_posix() for one in folder.rglob("*.html"))
    write_json(folder / ACCOUNT, KIND, {**told, "files": files})


def _written(folder: Path) -> set[str]:
    try:
        files = read_json(folder / ACCOUNT, KIND).get("files", [])
    except SpyreCiError:
        return set()
    return {ACCOUNT, *(one for one in files if isinstance(one, str))} if isinstance(files, list) else set()


@contextlib.contextmanager
def _alone(made: Path, place: Path) -> Iterator[None]:
    # The lock is on the new folder itself: nothing stays beside the site.
    handle = os.open(made, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            same = made.exists() and os.path.samestat(made.stat(), os.fstat(handle))
        except BlockingIOError:
            same = False
        if not same:
            raise RunInUseError("is being exported to", where=place, remedy="wait until that is done")
        yield
    finally:
        os.close(handle)


def _clear(made: Path, place: Path, old: Path) -> None:
    if old.exists() and not place.exists():
        old.rename(place)  # an export was ended between its two moves
    for leftover in (*made.iterdir(), *([old] if old.exists() else [])):
        _remove(leftover)


@contextlib.contextmanager
def _named(place: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise FileSystemError(
            f"the export cannot be put there: {error.strerror or error}",
            where=place,
            remedy="name a folder in one you may write to, which is no mount point",
        ) from error


def _swap(made: Path, place: Path, old: Path) -> None:
    if not place.exists():
        made.rename(place)
        return
    place.rename(old)
    try:
        made.rename(place)
    except OSError:
        old.rename(place)
        raise
    shutil.rmtree(old)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()
