"""The folders in `runs`: runs, reproductions and bisects, each known by a file of ours in it.

How old one is, its own files say: when it began and ended, and when they were written. The folder's own time
changes with every file that somebody puts there. A broken file says nothing, and breaks nothing.
"""

from __future__ import annotations

import math
import re
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from ci.bisect.record import FILE as BISECT_FILE
from ci.bisect.record import KIND as BISECT_KIND
from ci.record.reproduction import FILE as REPRODUCTION_FILE
from ci.record.reproduction import KIND as REPRODUCTION_KIND
from ci.record.reproduction import has_ended
from ci.report.released import Released, words_of
from ci.retention.disk import measure
from ci.retention.things import Foreign, Found, Thing
from ci.retention.trash import PREFIX
from test_selection.errors import SpyreCiError
from test_selection.files import load_json

_HEAD = re.compile(rb'\s*\{\s*"schema"\s*:\s*"spyre-ci/([a-z-]+)/\d+"')
_HEAD_BYTES = 200
# In the year 5138: any time as late is as good as any other.
_LAST_S = 1e11
# No file in which one run names another is as large; plans and summaries are, and name none.
_SMALL = 256 << 10
RUNS, REPRODUCTIONS, BISECTS = "runs", "reproductions", "bisects"
# By a file that a folder is known by, its kind and the file's schema; the first that is there decides.
_MARKS = {
    REPRODUCTION_FILE: (REPRODUCTIONS, REPRODUCTION_KIND),
    BISECT_FILE: (BISECTS, BISECT_KIND),
    "run.json": (RUNS, "run"),
    "plan.json": (RUNS, "plan"),
    "summary.json": (RUNS, "summary"),
    "job.json": (RUNS, "job"),
    "hud.json": (RUNS, "hud"),
}
# What `latest` may be asked for: the youngest run that holds one of these, as `find_run` has it.
_LATEST = (
    "run.json", "plan.json", "summary.json", "results.jsonl.gz", "catalog.jsonl.gz", "journal", "job.json",
)  # fmt: skip
_DATED = (
    *_MARKS, "run-settings.json", "selection.json", "results.jsonl.gz",
    "catalog.jsonl.gz", "report.html",
)  # fmt: skip
_TIMES = ("started_at", "completed_at")
# How deep in a folder a worktree is looked for.
_DEEP = ("", "*/", "*/*/")


def schema_of(path: Path) -> str:
    """The kind of a file of ours; empty of any other, and of one that cannot be read."""
    if not path.is_file():  # a named pipe would wait for whoever writes into it
        return ""
    try:
        with path.open("rb") as stream:
            head = _HEAD.match(stream.read(_HEAD_BYTES))
    except OSError:
        return ""
    return head[1].decode() if head else ""


def read_any(path: Path) -> Mapping[str, Any] | None:
    """A file's content; None where it is not there or not to be read."""
    if not path.is_file():
        return None
    try:
        content = load_json(path, path.stem)
    except (SpyreCiError, OSError):
        return None
    return content if isinstance(content, Mapping) else None


def table_of(content: Mapping[str, Any] | None, key: str) -> Mapping[str, Any] | None:
    """A table of a file's content; None where there is none."""
    value = None if content is None else content.get(key)
    return value if isinstance(value, Mapping) else None


def epoch_of(value: Any) -> float | None:
    """A time, as ISO-8601 or in seconds since the epoch; None of anything else."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        # What no calendar has is in the future all the same.
        if isinstance(value, float) and math.isnan(value):
            return None
        return float(min(max(value, -_LAST_S), _LAST_S))
    with suppress(ValueError, TypeError, OverflowError):
        return min(datetime.fromisoformat(value).timestamp(), _LAST_S)
    return None


def with_names(things: list[Thing], folder: Path) -> list[Thing]:
    """The things, each with those of them that its files name: `--resume RUN`, a control, a run again."""
    known: dict[str, set[str]] = {}
    for one in things:
        for called in calls_of(folder / one.name):
            known.setdefault(called, set()).add(one.name)
    # A copy of a run is not what the run's name means; of copies alone, any may be meant.
    known |= {one.name: {one.name} for one in things}
    found = []
    for one in things:
        named = (known[word] for word in words_in(folder / one.name) & known.keys())
        found.append(replace(one, names=frozenset().union(*named) - {one.name}))
    return found


def calls_of(folder: Path) -> set[str]:
    """What a run is called: its folder may have been given another name than it has."""
    identity = read_any(folder / "run.json") or {}
    return {folder.name} | {one for one in (identity.get("run"),) if isinstance(one, str) and one}


def words_in(folder: Path) -> set[str]:
    """Every word of a folder's small JSON files, at its top."""
    found: set[str] = set()
    for path in folder.glob("*.json"):
        with suppress(OSError, SpyreCiError, RecursionError):
            seen = path.lstat()
            plain = stat.S_ISREG(seen.st_mode) and seen.st_size <= _SMALL
            if plain and path.name not in {"plan.json", "selection.json"}:
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
        mark = "" if why else _mark_of(path)
        if not mark:
            foreign.append(Foreign(kind=RUNS, path=str(path), why=why or "no file of ours tells what it is"))
            continue
        with suppress(FileNotFoundError):  # gone since it was listed
            thing = _thing(path, mark, latest.get(path.name, ()), look)
            things[thing.kind].append(thing)
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


def _mark_of(path: Path) -> str:
    """The file that a folder is known by; empty where no file of ours tells what it is."""
    return next((name for name, (_, schema) in _MARKS.items() if schema_of(path / name) == schema), "")


def _latest(runs: Path) -> dict[str, list[str]]:
    """By folder, what it is the latest with; a test that was brought back is nobody's latest run."""
    past = []
    for path in _children(runs):
        with suppress(OSError):
            if not (path / REPRODUCTION_FILE).exists():
                past.append(((path / "run.json").stat().st_mtime_ns, path))
    found: dict[str, list[str]] = {}
    for holding in _LATEST:
        with_it = [(at, path) for at, path in past if (path / holding).exists()]
        youngest = max((at for at, _ in with_it), default=None)
        for at, path in with_it:
            if at == youngest:  # of several that are as young, any may be meant
                found.setdefault(path.name, []).append(holding)
    return found


def _thing(path: Path, mark: str, latest: list[str] | tuple[str, ...], look: Look) -> Thing:
    kind, _ = _MARKS[mark]
    measured = measure(path, user=look.user, mounts=look.mounts)
    held = list(measured.held)
    identity, summary = read_any(path / "run.json"), read_any(path / "summary.json")
    if identity is None and (path / "run.json").exists():
        held.append("its run.json cannot be read")
    if latest:
        held.append(f"is what `latest` means for {latest[0]}")
    held += _wanted(path, kind, identity, look.released)
    content = read_any(path / mark)
    return Thing(
        kind=kind,
        name=path.name,
        path=str(path),
        at=_last_used(path, [identity, summary, table_of(summary, "identity"), content]),
        own=measured.own,
        shared=measured.shared,
        held=tuple(dict.fromkeys(held)),
        cut_off=not (_is_finished(path, summary) if kind == RUNS else _has_ended(kind, content)),
    )


def look_again(thing: Thing, look: Look) -> str:
    """Why a folder is not to go after all, seen just before it would; empty where all is as it was."""
    path = Path(thing.path)
    mark = _mark_of(path)
    if not mark or _MARKS[mark][0] != thing.kind:
        return "is not what it was"
    now = _thing(path, mark, (), look)
    if now.held:
        return "; ".join(now.held)
    return "" if now.at == thing.at and now.cut_off == thing.cut_off else "was worked in meanwhile"


def _wanted(path: Path, kind: str, identity: Mapping[str, Any] | None, released: Released) -> Iterator[str]:
    """Why others want a folder."""
    run_id = None if identity is None else identity.get("run_id")
    if any(released.names_run(one, run_id if isinstance(run_id, int) else None) for one in calls_of(path)):
        yield "a release names it"
    elif kind == RUNS and released.broken:
        yield "a release that cannot be read may name it"
    if any(path.glob("outbox*/*.json")):
        yield "reports wait in its outbox (spyre-ci hud send sends them)"
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


def _has_ended(kind: str, mark: Mapping[str, Any] | None) -> bool:
    """Whether a reproduction or a bisect came to its end."""
    if mark is None:
        return False
    return has_ended(mark) if kind == REPRODUCTIONS else mark.get("result") is not None


def _is_finished(path: Path, summary: Mapping[str, Any] | None) -> bool:
    """Whether nothing is left to be run: all has a verdict, or it is what another CI handed over."""
    if summary is None:
        return path.name.startswith("handed-") and (path / "hud.json").is_file()
    verdicts = table_of(summary, "verdicts") or {}
    return not (summary.get("interrupted") or summary.get("missing_shards") or verdicts.get("not_run"))


def _last_used(path: Path, contents: list[Mapping[str, Any] | None]) -> float | None:
    """Seconds since the epoch of the youngest of what a folder's files say and are dated."""
    times = [
        when for one in contents if one is not None for key in _TIMES if (when := epoch_of(one.get(key)))
    ]
    for file in (*(path / name for name in _DATED), *path.glob("journal/*"), *path.glob("control/journal/*")):
        with suppress(OSError):
            times.append(file.lstat().st_mtime)
    return max(times, default=None)
