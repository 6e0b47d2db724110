"""Removing a file or folder at once for whoever looks, and finishing what was cut off.

What goes is renamed into a folder beside it, whose name and note say that it is ours, and deleted from
there. Whoever was killed meanwhile leaves that folder; the next one finds it and deletes it.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import shutil
import stat
import tempfile
import uuid
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from test_selection.errors import EXIT_INCOMPLETE, SpyreCiError
from test_selection.files import read_json, schema_name

PREFIX = ".spyre-ci-trash-"
# Trash for which a full disk has no folder and no note: what goes itself, known by a name that only we give.
_BARE = re.compile(re.escape(PREFIX) + r"bare-[0-9a-f]{32}")
_FULL = {errno.ENOSPC, errno.EDQUOT}
NOTE, KIND = "trash.json", "trash"


class NotRemovedError(SpyreCiError):
    """Something that was to go and is still there, whole or in part."""

    exit_code = EXIT_INCOMPLETE


def discard(path: Path) -> None:
    """Remove a file or folder; nobody sees a part of it, and a link is only itself.

    Raises:
        FileNotFoundError: it is gone already.
        NotRemovedError: it cannot be moved, and is as it was; or not all of it can be deleted, and the rest
            is in the trash beside it.
    """
    if not stat.S_ISDIR(path.lstat().st_mode):
        try:
            path.unlink()  # which nobody sees a part of either
        except FileNotFoundError:
            raise
        except OSError as error:
            raise _not_moved(path, error) from error
        return
    try:
        trash = _moved(path)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise _not_moved(path, error) from error
    empty(trash)


def _moved(path: Path) -> Path:
    """Move a folder into trash beside it; a full disk, which wants it most, may have no room for more."""
    try:
        trash = Path(tempfile.mkdtemp(prefix=PREFIX, dir=path.parent))
        try:
            # Not by `write_json`, which waits for the disk: one that a machine's end left empty will do.
            (trash / NOTE).write_text(json.dumps({"schema": schema_name(KIND), "was": path.name}))
            path.rename(trash / "it")
        except BaseException:
            if not os.path.lexists(trash / "it"):
                shutil.rmtree(trash, ignore_errors=True)
            raise
    except OSError as error:
        if error.errno not in _FULL:
            raise
        trash = path.with_name(f"{PREFIX}bare-{uuid.uuid4().hex}")
        path.rename(trash)
    return trash


def empty(trash: Path) -> None:
    """Delete a trash folder, what is in it first and its note last.

    Raises:
        NotRemovedError: something in it cannot be deleted.
    """
    it = trash if _BARE.fullmatch(trash.name) else trash / "it"
    if _delete(it):
        # Tests leave folders that nobody may write to; in the trash they are ours to open.
        for folder, _, _ in os.walk(it):
            with contextlib.suppress(OSError):
                Path(folder).chmod(0o700)
        if errors := _delete(it):
            raise NotRemovedError(
                f"not all of it can be deleted: {errors[0].strerror or errors[0]}",
                where=it,
                remedy="see to its rights, then prune again: the rest is deleted then",
            )
    shutil.rmtree(trash, ignore_errors=True)


def _delete(folder: Path) -> list[OSError]:
    """Delete a folder; what refused to go."""
    refused: list[OSError] = []

    def note(_call: Callable[..., Any], _name: str, error: tuple[Any, BaseException, Any]) -> None:
        # Two prunes may empty one trash.
        if isinstance(error[1], OSError) and not isinstance(error[1], FileNotFoundError):
            refused.append(error[1])

    # As Python 3.11 has it; `onexc` came after.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        shutil.rmtree(folder, onerror=note)
    return refused


def left_over(folder: Path) -> list[Path]:
    """Trash in a folder that nobody finished; a folder of such a name without our note is not ours."""
    return [path for path in sorted(folder.glob(f"{PREFIX}*")) if _is_ours(path)]


def _is_ours(path: Path) -> bool:
    try:
        info = path.lstat()
        if not stat.S_ISDIR(info.st_mode) or info.st_uid != os.getuid():
            return False
        if _BARE.fullmatch(path.name):
            return True
        if {one.name for one in path.iterdir()} - {NOTE, "it"}:
            return False
        if (path / NOTE).lstat().st_size:
            read_json(path / NOTE, KIND)
    except (SpyreCiError, OSError):
        return False
    return True


def _not_moved(path: Path, error: OSError) -> NotRemovedError:
    return NotRemovedError(
        f"cannot be removed: {error.strerror or error}",
        where=path,
        remedy="see to the rights of its folder, then prune again",
    )
