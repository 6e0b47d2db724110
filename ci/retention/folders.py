"""The folders in `runs`: runs, reproductions and bisects, each recognized by a file that spyre-ci writes."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from contextlib import suppress
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from ci.core.errors import MissingInputError, RunInUseError, SpyreCiError
from ci.core.locks import RUN_LOCK, run_lock, take
from ci.hud.row_upload import rows_wait
from ci.record.identity import FILE as IDENTITY_FILE
from ci.record.reproduction import FILE as REPRODUCTION_FILE
from ci.record.reproduction import has_ended
from ci.report.released import Released, words_of
from ci.report.results import RESULTS_FILE, SUMMARY_FILE
from ci.retention.disk import discard, is_trash, measure
from ci.retention.rules import Item, KeptError, is_young
from ci.steps.folder import CATALOG_FILE, JOURNALS, PLAN_FILE, find_run
from test_selection.files import load_json

RUNS, REPRODUCTIONS, BISECTS = "runs", "reproductions", "bisects"
_BISECT, _JOB, _HANDED = "bisect.json", "job.json", "hud.json"
# The kind of a folder by the first of these files that is in it.
_MARKS = {
    REPRODUCTION_FILE: REPRODUCTIONS,
    _BISECT: BISECTS,
    IDENTITY_FILE: RUNS,
    PLAN_FILE: RUNS,
    SUMMARY_FILE: RUNS,
    _JOB: RUNS,
    _HANDED: RUNS,
}
# A verb that takes `latest` takes the latest run that holds one of these.
_LATEST = (IDENTITY_FILE, PLAN_FILE, SUMMARY_FILE, RESULTS_FILE, CATALOG_FILE, JOURNALS, _JOB)
# In the year 5138; `iso_utc` cannot write every date that a file may have.
_LAST_S = 1e11
_NO_LOCKS = "is young, and its file system has no locks"


def find_folders(runs: Path, released: Released, *, now: float) -> tuple[list[Item], dict[Path, str]]:
    """Find the folders in `runs`, and what else is there and why it is left alone."""
    items, foreign = [], {}
    latest = _latest(runs)
    for path in sorted(runs.iterdir()) if runs.is_dir() else ():
        with suppress(FileNotFoundError):  # removed since it was listed
            try:
                if not is_trash(path):
                    items.append(_item(path, released, now=now, latest=latest))
            except KeptError as kept:
                foreign[path] = kept.what
            except PermissionError as error:
                foreign[path] = f"cannot be read: {error.strerror}"
    return items, foreign


def _read(path: Path) -> Mapping[str, Any] | None:
    """The object in a JSON file; None if there is none."""
    with suppress(SpyreCiError, OSError):
        content = load_json(path, path.stem)
        return content if isinstance(content, Mapping) else None
    return None


def _latest(runs: Path) -> set[Path]:
    """The folders that `latest` means, for one verb or another."""
    found = set()
    for holding in _LATEST:
        with suppress(MissingInputError):
            found.add(find_run(runs, "latest", holding=holding).path.resolve())
    return found


def _item(path: Path, released: Released, *, now: float, latest: Collection[Path] = ()) -> Item:
    """The folder at a path.

    Raises:
        KeptError: it is not one of ours.
    """
    if path.is_symlink():
        raise KeptError("is a link")
    if path.lstat().st_uid != os.getuid():
        raise KeptError("belongs to another user")
    mark = next((name for name in _MARKS if (path / name).exists()), "")
    content, identity = _read(path / mark), _read(path / IDENTITY_FILE) or {}
    if not mark or (content is not None and not str(content.get("schema")).startswith("spyre-ci/")):
        raise KeptError("not of spyre-ci")
    kind = _MARKS[mark]
    # The folder may have been renamed.
    called = frozenset({path.name, str(identity.get("run") or path.name)})
    size, held = measure(path)
    if content is None:
        held = f"its {mark} cannot be read"
    elif path.resolve() in latest:
        held = "`latest` means it"
    return Item(
        kind=kind,
        name=path.name,
        path=str(path),
        at=_last_used(path, content or {}, identity),
        bytes=size,
        held=held or _why_needed(path, kind, called, identity.get("run_id"), released),
        unfinished=_is_unfinished(path, mark, content or {}),
        called=called,
        names=frozenset(_words_in(content, identity)) - called,
        in_use=partial(_why_in_use, now),
        remove=partial(_remove, released, now),
    )


def _words_in(*values: object) -> set[str]:
    """The words in JSON values: `--resume RUN` names a run, and so does a reproduction's file."""
    words, left = set[str](), [*values]
    while left:
        value = left.pop()
        if isinstance(value, str):
            words |= words_of(value)
        elif isinstance(value, (Mapping, list)):
            left += value.values() if isinstance(value, Mapping) else value
    return words


def _why_needed(path: Path, kind: str, called: Collection[str], run_id: object, released: Released) -> str:
    number = run_id if isinstance(run_id, int) else None
    if any(released.names_run(one, number) for one in called):
        return "a release names it"
    if kind == RUNS and released.broken:
        return "a release that cannot be read may name it"
    if rows_wait(path) or any(path.glob("outbox*/*.json")):
        return "unsent reports are in its outbox (send them: spyre-ci hud send)"
    if any(_leads_out(Path(at, ".git"), path) for at, _, files in os.walk(path) if ".git" in files):
        return "a worktree of a repository elsewhere is in it"
    return ""


def _leads_out(git: Path, folder: Path) -> bool:
    """True if a `.git` file names a repository outside a folder (gitrepository-layout(5))."""
    text = git.read_text(encoding="utf-8", errors="surrogateescape") if git.is_file() else ""
    leads = os.path.normpath(git.parent.resolve() / text.partition("gitdir:")[2].strip())
    return text.startswith("gitdir:") and not Path(leads).is_relative_to(folder.resolve())


def _last_used(path: Path, content: Mapping[str, Any], identity: Mapping[str, Any]) -> float | None:
    """The newest of when a run says that it started and ended, and when its files were written.

    The folder's own time changes by other things too.
    """
    times = []
    summary: Mapping[str, Any] = _read(path / SUMMARY_FILE) or {}
    documents: list[Any] = [content, identity, summary, summary.get("identity")]
    for said in documents:
        for key in ("started_at", "completed_at"):
            with suppress(AttributeError, TypeError, ValueError, OverflowError):
                times.append(min(datetime.fromisoformat(said.get(key)).timestamp(), _LAST_S))
    for file in (*path.glob("*"), *path.glob(f"{JOURNALS}/*"), *path.glob(f"control/{JOURNALS}/*")):
        with suppress(FileNotFoundError):
            if file.name != RUN_LOCK and not file.is_dir():
                times.append(file.lstat().st_mtime)
    return max(times, default=None)


def _is_unfinished(path: Path, mark: str, content: Mapping[str, Any]) -> bool:
    if mark == REPRODUCTION_FILE:
        return not has_ended(content)
    if mark == _BISECT:
        return content.get("result") is None
    if mark == _HANDED:
        return False
    summary = _read(path / SUMMARY_FILE) or {"interrupted": True}
    verdicts = summary.get("verdicts")
    not_run = isinstance(verdicts, Mapping) and verdicts.get("not_run")
    return bool(summary.get("interrupted") or summary.get("missing_shards") or not_run)


def _why_in_use(now: float, item: Item) -> str:
    """Why a folder is in use; its lock is taken for this moment alone, and nothing is written."""
    try:
        lock = os.open(Path(item.path, RUN_LOCK), os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError as error:
        return "" if isinstance(error, FileNotFoundError) else f"its {RUN_LOCK} cannot be opened"
    try:
        return "" if take(lock) else "in use"
    except OSError:
        return _NO_LOCKS if is_young(item, now) else ""
    finally:
        os.close(lock)


def _remove(released: Released, now: float, item: Item) -> None:
    """Remove a folder, under the lock that keeps others from starting work in it."""
    path = Path(item.path)
    if not path.is_dir():
        raise KeptError("removed meanwhile")
    try:
        with run_lock(path, alone=True) as locked:
            if not locked and is_young(item, now):
                raise KeptError(_NO_LOCKS)
            again = _item(path, released, now=now)
            if (again.kind, again.at, again.held) != (item.kind, item.at, ""):
                raise KeptError(again.held or "changed meanwhile")
            discard(path)
    except RunInUseError as error:
        raise KeptError(f"in use: {error.what}") from error
