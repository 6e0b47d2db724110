"""The folders in `runs`: runs, reproductions and bisects, each known by a file of ours in it.

How old one is, its own files say: when it began and ended, and when they were written. The folder's own time
changes with every file that somebody puts there.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from ci.retention.disk import measure
from ci.retention.released import Released, words_of
from ci.retention.things import Foreign, Found, Thing
from ci.retention.trash import PREFIX
from test_selection.errors import SpyreCiError
from test_selection.files import load_json

RUNS, REPRODUCTIONS, BISECTS = "runs", "reproductions", "bisects"
# The file a folder is known by, the kind it makes of it, and its schema's; the first that is there decides.
_MARKS = (
    ("reproduction.json", REPRODUCTIONS, "reproduction"),
    ("bisect.json", BISECTS, "bisect"),
    ("run.json", RUNS, "run"),
    ("plan.json", RUNS, "plan"),
    ("summary.json", RUNS, "summary"),
    ("job.json", RUNS, "job"),
    ("hud.json", RUNS, "hud"),
)
# What `latest` may be asked for: the youngest run that holds one of these, as `find_run` has it.
_LATEST = (
    "run.json", "plan.json", "summary.json", "results.jsonl.gz", "catalog.jsonl.gz", "journal", "job.json",
)  # fmt: skip
_DATED = (
    *(name for name, _, _ in _MARKS), "run-settings.json", "selection.json", "results.jsonl.gz",
    "catalog.jsonl.gz", "report.html",
)  # fmt: skip
_TIMES = ("started_at", "completed_at", "ended", "began", "at")
_HEAD = re.compile(rb'\s*\{\s*"schema"\s*:\s*"spyre-ci/([a-z-]+)/\d+"')
_HEAD_BYTES = 200
# In the year 5138: any time as late is as good as any other.
_LAST_S = 1e11
# How deep in a folder a worktree is looked for.
_DEEP = ("", "*/", "*/*/")
# No file in which one run names another is as large; plans and summaries are, and name none.
_SMALL = 256 << 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What a look at folders takes.

    Attributes:
        user: whose files may go.
        mounts: where something is mounted.
        released: what releases name.
        seen: is told of each folder.
    """

    user: int
    mounts: frozenset[str]
    released: Released
    seen: Callable[[str], object] = lambda _: None


def find_folders(runs: Path, look: Look) -> dict[str, Found]:
    """The folders in `runs`, by kind; it need not be there."""
    things: dict[str, list[Thing]] = {RUNS: [], REPRODUCTIONS: [], BISECTS: []}
    foreign: list[Foreign] = []
    latest = _latest(runs)
    for path in _children(runs):
        if path.name.startswith(PREFIX):
            continue
        why = _not_ours(path, look.user)
        kind = "" if why else _kind_of(path)
        if not kind:
            foreign.append(Foreign(kind=RUNS, path=str(path), why=why or "no file of ours tells what it is"))
            continue
        with suppress(FileNotFoundError):  # gone since it was listed
            things[kind].append(_thing(path, kind, latest.get(path.name, ()), look))
        look.seen(path.name)
    found = {kind: Found(things=with_names(list(ones), runs)) for kind, ones in things.items()}
    return found | {RUNS: replace(found[RUNS], foreign=foreign)}


def _children(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except FileNotFoundError:
        return []


def _not_ours(path: Path, user: int) -> str:
    if path.is_symlink():
        return "is a link, and none is followed"
    if not path.is_dir():
        return "is no folder"
    return "" if path.lstat().st_uid == user else "belongs to another user"


def schema_of(path: Path) -> str:
    """The kind of a file of ours; empty of any other, and of one that cannot be read."""
    try:
        with path.open("rb") as stream:
            head = _HEAD.match(stream.read(_HEAD_BYTES))
    except OSError:
        return ""
    return head[1].decode() if head else ""


def _kind_of(path: Path) -> str:
    return next((kind for name, kind, schema in _MARKS if schema_of(path / name) == schema), "")


def _latest(runs: Path) -> dict[str, list[str]]:
    """By folder, what it is the latest with."""
    past = []
    for path in _children(runs):
        with suppress(OSError):
            past.append(((path / "run.json").stat().st_mtime_ns, path))
    found: dict[str, list[str]] = {}
    for holding in _LATEST:
        with_it = [one for one in past if (one[1] / holding).exists()]
        if with_it:
            found.setdefault(max(with_it)[1].name, []).append(holding)
    return found


def _thing(path: Path, kind: str, latest: list[str] | tuple[str, ...], look: Look) -> Thing:
    measured = measure(path, user=look.user, mounts=look.mounts)
    held = list(measured.held)
    identity, summary = _read(path / "run.json"), _read(path / "summary.json")
    if latest:
        held.append(f"is what `latest` means for {latest[0]}")
    held += _wanted(path, kind, identity, look.released)
    own = {REPRODUCTIONS: "reproduction.json", BISECTS: "bisect.json"}.get(kind, "")
    mark = _read(path / own) if own else None
    return Thing(
        kind=kind,
        name=path.name,
        path=str(path),
        at=_last_used(path, [identity, summary, _table(summary, "identity"), mark]),
        own=measured.own,
        shared=measured.shared,
        held=tuple(dict.fromkeys(held)),
        cut_off=not (_has_ended(mark) if own else _is_finished(path, summary)),
    )


def look_again(thing: Thing, look: Look) -> str:
    """Why a folder is not to go after all, seen just before it would; empty where all is as it was."""
    path = Path(thing.path)
    if _kind_of(path) != thing.kind:
        return "is not what it was"
    now = _thing(path, thing.kind, (), look)
    if now.held:
        return "; ".join(now.held)
    return "" if now.at == thing.at and now.cut_off == thing.cut_off else "was worked in meanwhile"


def _wanted(path: Path, kind: str, identity: Mapping[str, Any] | None, released: Released) -> Iterator[str]:
    """Why others want a folder."""
    run_id = None if identity is None else identity.get("run_id")
    if released.names_run(path.name, run_id if isinstance(run_id, int) else None):
        yield "a release names it"
    elif kind == RUNS and released.broken:
        yield "a release that cannot be read may name it"
    if any(path.glob("outbox*/*.json")):
        yield "reports wait in its outbox (spyre-ci hud flush sends them)"
    if any(_is_worktree_of_another(git, path) for below in _DEEP for git in path.glob(f"{below}.git")):
        yield "a worktree of a repository elsewhere is in it"


def _is_worktree_of_another(git: Path, folder: Path) -> bool:
    """Whether a `.git` is the file of a worktree whose repository notes it, and is not in this folder.

    Source: gitrepository-layout(5).
    """
    try:
        told = git.read_text(encoding="utf-8", errors="surrogateescape") if git.is_file() else ""
    except OSError:
        return True
    if not told.startswith("gitdir:"):
        return False
    return not (git.parent / told.removeprefix("gitdir:").strip()).resolve().is_relative_to(folder.resolve())


def _read(path: Path) -> Mapping[str, Any] | None:
    """A file's content; None where it is not there or not to be read."""
    try:
        content = load_json(path, path.stem)
    except (SpyreCiError, OSError):
        return None
    return content if isinstance(content, Mapping) else None


def _table(content: Mapping[str, Any] | None, key: str) -> Mapping[str, Any] | None:
    value = None if content is None else content.get(key)
    return value if isinstance(value, Mapping) else None


def _has_ended(mark: Mapping[str, Any] | None) -> bool:
    """Whether a reproduction (`ended`) or a bisect (`result`) came to its end."""
    return mark is not None and bool(mark.get("ended") or mark.get("result"))


def _is_finished(path: Path, summary: Mapping[str, Any] | None) -> bool:
    """Whether nothing is left to be run: all has a verdict, or it is what another CI handed over."""
    if summary is None:
        return path.name.startswith("handed-") and (path / "hud.json").is_file()
    verdicts = _table(summary, "verdicts") or {}
    return not (summary.get("interrupted") or summary.get("missing_shards") or verdicts.get("not_run"))


def _last_used(path: Path, contents: list[Mapping[str, Any] | None]) -> float | None:
    """Seconds since the epoch of the youngest of what a folder's files say and are dated."""
    times = [when for one in contents if one is not None for key in _TIMES if (when := _epoch(one.get(key)))]
    for file in (*(path / name for name in _DATED), *path.glob("journal/*"), *path.glob("control/journal/*")):
        with suppress(OSError):
            times.append(file.lstat().st_mtime)
    return max(times, default=None)


def _epoch(value: Any) -> float | None:
    """A time as ISO-8601 or in seconds since the epoch."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        # What no calendar has is in the future all the same.
        return None if math.isnan(value) else min(float(value), _LAST_S)
    with suppress(ValueError, TypeError, OverflowError):
        return min(datetime.fromisoformat(value).timestamp(), _LAST_S)
    return None


def with_names(things: list[Thing], folder: Path) -> list[Thing]:
    """The things, each with those of them that its files name: `--resume RUN`, a control, a run again."""
    known = {one.name for one in things}
    return [replace(one, names=frozenset(words_in(folder / one.name) & known - {one.name})) for one in things]


def words_in(folder: Path) -> set[str]:
    """Every word of a folder's small JSON files, at its top."""
    found: set[str] = set()
    for path in folder.glob("*.json"):
        with suppress(OSError, SpyreCiError, RecursionError):
            if os.lstat(path).st_size <= _SMALL and path.name not in {"plan.json", "selection.json"}:
                _collect(load_json(path, path.stem), found)
    return found


def _collect(value: Any, into: set[str]) -> None:
    if isinstance(value, str):
        into |= words_of(value)
    elif isinstance(value, Mapping):
        for one in value.values():
            _collect(one, into)
    elif isinstance(value, list):
        for one in value:
            _collect(one, into)
