"""The folders in `runs`: runs, reproductions and bisects, each recognized by a file that spyre-ci writes."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from ci.core.errors import MissingInputError, RunInUseError, SpyreCiError
from ci.core.locks import RUN_LOCK, run_lock
from ci.record.identity import FILE as IDENTITY_FILE
from ci.record.reproduction import FILE as REPRODUCTION_FILE
from ci.record.reproduction import has_ended
from ci.report.released import Released
from ci.report.results import RESULTS_FILE, SUMMARY_FILE
from ci.retention.disk import PREFIX, discard, measure
from ci.retention.rules import Item, KeptError
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


def find_folders(runs: Path, released: Released) -> tuple[list[Item], list[Path]]:
    """Find the folders in `runs`, and what else is there, which is left alone."""
    items, foreign = [], []
    latest = _latest(runs)
    for path in sorted(runs.iterdir()) if runs.is_dir() else ():
        if path.name.startswith(PREFIX):
            continue
        with suppress(FileNotFoundError):  # removed since it was listed
            if item := _item(path, released, latest=path.resolve() in latest):
                items.append(item)
            else:
                foreign.append(path)
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


def _item(path: Path, released: Released, *, latest: bool = False) -> Item | None:
    """The folder at a path; None if it is not one of ours."""
    mark = next((name for name in _MARKS if (path / name).exists()), "")
    if not mark or path.is_symlink() or path.lstat().st_uid != os.getuid():
        return None
    content, kind = _read(path / mark), _MARKS[mark]
    if content is not None and not str(content.get("schema")).startswith("spyre-ci/"):
        return None
    size, held = measure(path)
    if content is None:
        held = f"its {mark} cannot be read"
    elif latest:
        held = "`latest` means it"
    return Item(
        kind=kind,
        name=path.name,
        path=str(path),
        at=_last_written(path),
        bytes=size,
        held=held or _why_needed(path, kind, released),
        unfinished=_is_unfinished(path, mark, content or {}),
        remove=partial(_remove, released),
    )


def _why_needed(path: Path, kind: str, released: Released) -> str:
    identity = _read(path / IDENTITY_FILE) or {}
    run, number = identity.get("run"), identity.get("run_id")
    names = {path.name, run} if isinstance(run, str) else {path.name}
    if any(released.names_run(one, number if isinstance(number, int) else None) for one in names):
        return "a release names it"
    if kind == RUNS and released.broken:
        return "a release that cannot be read may name it"
    if any(path.glob("outbox*/*.json")):
        return "unsent reports are in its outbox (send them: spyre-ci hud send)"
    return ""


def _last_written(path: Path) -> float | None:
    """When the newest file of a run was written; the folder's own time changes by other things too."""
    times = []
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


def _remove(released: Released, item: Item) -> None:
    """Remove a folder, under the lock that keeps others from starting work in it."""
    path = Path(item.path)
    if not path.is_dir():
        raise KeptError("removed meanwhile")
    try:
        with run_lock(path, alone=True):
            now = _item(path, released)
            if now is None or (now.kind, now.at, now.held) != (item.kind, item.at, ""):
                raise KeptError(now.held if now and now.held else "changed meanwhile")
            discard(path)
    except RunInUseError as error:
        raise KeptError(f"in use: {error.what}") from error
