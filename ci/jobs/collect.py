"""Collect what pods left in a store, their journals and logs, into a run folder.

The store is the truth, and what is here a copy: files of another size are taken again, so collecting while
pods run is of use, and collecting again is cheap. What a store holds is data: names are checked, links not
followed.

A run folder may have the same name every night, so whose files it has is noted; those of another job are
moved away. Where no journal tells of a test, one is made that says why: attempt 0 of its shard, which no pod
makes.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import stat
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path
from typing import NamedTuple

from ci.core.errors import BadFileError
from ci.core.object_store import PART_BYTES, SCHEME, Bucket
from ci.jobs.record import HERE, JobRecord
from ci.jobs.uploader import LEFT, PODS
from ci.record import events
from ci.record.journal import JournalWriter, journal_path, read_journal
from ci.record.run_state import state_of
from test_selection.files import read_json, write_json
from test_selection.plan import Plan, Shard

MOST_NOTES = 20
SIDE_BY_SIDE = 16
KIND, FILE = "gathered", "gathered.json"
EARLIER = "earlier"
# Folders of a run folder that collecting fills.
FILLED = ("journal", "logs", "control")
ATTEMPT = 0
_INDEX = re.compile(r"0|[1-9]\d{0,5}", re.ASCII)
# Folders of a pod.
_KINDS = ("control/journal", "control/logs", "journal", "logs")
# No journal of an honest shard comes near it.
MOST_BYTES = 4 << 30
NO_POD = "no journal of its pod was collected: the pod never started, or its results are not in the store"


class Stored(NamedTuple):
    """A file of a pod in a store; `fetch` writes it to a path."""

    pod: int
    file: str
    size: int
    fetch: Callable[[Path], object]


@dataclass(slots=True, kw_only=True)
class Collected:
    """What was collected.

    Attributes:
        files: journals and logs of pods that there are.
        new_bytes: of files that were fetched now.
        notes: what could not be taken, a sentence each, no more than people read.
        more: how many such sentences are left out.
    """

    files: int = 0
    new_bytes: int = 0
    notes: list[str] = field(default_factory=list)
    more: int = 0

    def note(self, what: str) -> None:
        """Take a note."""
        if len(self.notes) < MOST_NOTES:
            self.notes.append(what)
        else:
            self.more += 1


def collect_files(store: str, run: str, into: Path, owners: Mapping[int, int] | None = None) -> Collected:
    """Copy pods' journals and logs into a run folder, where they are not as in the store.

    Args:
        store: a folder, or s3://….
        run: as the store knows it.
        into: the run folder.
        owners: the pod that runs each shard, where that is known.

    Raises:
        SettingsError: it is no bucket, or boto3 is not installed.
        CommandError: the bucket cannot be read.
    """
    found = Collected()

    def take(one: Stored) -> int:
        target = into / one.file
        if target.exists() and target.stat().st_size == one.size:
            return 0
        target.parent.mkdir(parents=True, exist_ok=True)
        half = target.with_name(f".{target.name}.half")
        one.fetch(half)
        half.replace(target)
        return one.size

    in_bucket = store.startswith(SCHEME)
    files = (_in_bucket if in_bucket else _in_folder)(store, f"{run}/{PODS}", found)
    with ThreadPoolExecutor(SIDE_BY_SIDE if in_bucket else 1) as pool:
        found.new_bytes = sum(pool.map(take, _one_each(files, owners or {}, found)))
    return found


def _one_each(files: Iterator[Stored], owners: Mapping[int, int], found: Collected) -> Iterator[Stored]:
    """Files of different names: each shard is one pod's."""
    whose: dict[str, int] = {}
    for one in files:
        if one.size > MOST_BYTES:
            found.note(f"pod {one.pod}: {one.file} is larger than {MOST_BYTES:,} bytes")
            continue
        found.files += 1
        name = one.file.rpartition("/")[2]
        owner = owners.get(int(name.partition("-")[0]), one.pod) if name.endswith(".jsonl") else one.pod
        first = whose.setdefault(one.file, owner)
        if first == one.pod:
            yield one
        else:
            found.note(f"pod {one.pod}: {one.file} belongs to pod {first}")


def _in_bucket(store: str, below: str, found: Collected) -> Iterator[Stored]:
    bucket = Bucket(store, where="--from")

    def get(name: str, path: Path) -> None:
        path.write_bytes(bucket.get(name))

    for held in bucket.objects(below):
        pod, _, file = held.name.removeprefix(f"{below}/").partition("/")
        if _INDEX.fullmatch(pod) and LEFT.fullmatch(file):
            # Of a small one a single request; a large one, as the log of a test that prints, is not held.
            fetch = bucket.download if held.size > PART_BYTES else get
            yield Stored(int(pod), file, held.size, partial(fetch, held.name))
        elif "/journal/" in f"/{file}":
            found.note(f"{bucket.address(held.name)!r:.200} is not the journal of a pod")


def _in_folder(store: str, below: str, found: Collected) -> Iterator[Stored]:
    pods = Path(store, below).resolve()
    names = [path.name for path in pods.iterdir()] if pods.is_dir() else []
    for pod in sorted(int(name) for name in names if _INDEX.fullmatch(name)):
        folders = [pods / str(pod) / kind for kind in _KINDS]
        # No way there leads over a link.
        for path in (path for one in folders if one.resolve() == one for path in sorted(one.glob("*"))):
            file, about = path.relative_to(pods / str(pod)).as_posix(), path.lstat()
            if not LEFT.fullmatch(file):
                continue
            if stat.S_ISREG(about.st_mode):
                yield Stored(pod, file, about.st_size, partial(shutil.copyfile, path, follow_symlinks=False))
            else:
                found.note(f"pod {pod}: {file} is not a regular file")


def make_room(folder: Path, run: str, record: JobRecord | None) -> Path | None:
    """Move away what was collected of another job, and note whose files the folder has from here on.

    Args:
        folder: the run's; nobody else works in it.
        run: as the store knows it.
        record: of the job; None if nobody noted it.

    Returns:
        Where it was moved; None: there was nothing to move.
    """
    # A job that ran on this machine is another than the cluster's of the same run.
    whose = {"run": run, "namespace": HERE if record is None else record.namespace}
    known = None
    if (folder / FILE).is_file():
        with contextlib.suppress(BadFileError):
            known = {name: value for name, value in read_json(folder / FILE, KIND).items() if name in whose}
    if known == whose:
        return None
    there = [name for name in FILLED if (folder / name).is_dir() and any((folder / name).iterdir())]
    into = None
    if there:
        (folder / EARLIER).mkdir(exist_ok=True)
        into = next(path for number in count(1) if not (path := folder / EARLIER / str(number)).exists())
        into.mkdir()
        for name in there:
            (folder / name).rename(into / name)
    write_json(folder / FILE, KIND, whose)
    return into


def fill_missing_shards(folder: Path, plan: Plan, reasons: Mapping[int, str], *, moment: float) -> list[int]:
    """Write a journal for each shard that has none, or whose pod was lost for good.

    Those that were made before and are not needed any more are removed.

    Args:
        folder: the run's, with what was collected.
        plan: the whole plan.
        reasons: by shard, why its pod left nothing, or no more, where that is known.
        moment: time of the journals, in seconds since the epoch; not after the run's end.

    Returns:
        The shards of which no journal tells.

    Raises:
        OSError: a journal cannot be written.
    """
    told = _journals(folder)
    missing = []
    for shard in plan.shards:
        path = journal_path(folder, shard.index, ATTEMPT)
        path.unlink(missing_ok=True)
        ids = shard.ids
        if shard.index in told:
            ids = _left(shard, told[shard.index]) if shard.index in reasons else []
        elif ids:
            missing.append(shard.index)
        if ids:
            start = events.ShardStart(
                shard=shard.index, attempt=ATTEMPT, planned=len(ids), fingerprint=plan.fingerprint
            )
            with contextlib.closing(JournalWriter(path, lambda: moment)) as journal:
                journal.write(start)
                journal.write(events.NotRun(ids=ids, message=reasons.get(shard.index, NO_POD)))
    return missing


def _left(shard: Shard, journals: list[Path]) -> list[str]:
    """The tests of a shard of which its journals have no word, nor of their file."""
    named: set[str] = set()
    files: set[str] = set()
    for path in journals:
        state = state_of(shard.index, ATTEMPT, read_journal(path, shard.index, ATTEMPT).events)
        named |= state.ids | state.open.keys() | state.no_retry.keys()
        files |= state.file_errors.keys()
    return [
        name for group in shard.groups if group.file not in files for name in group.ids if name not in named
    ]


def _journals(folder: Path) -> dict[int, list[Path]]:
    """The journals of pods that tell anything, by shard."""
    found: dict[int, list[Path]] = {}
    for path in (folder / "journal").glob("*-*.jsonl"):
        shard, _, attempt = path.stem.partition("-")
        if shard.isdecimal() and attempt.isdecimal() and int(attempt) != ATTEMPT and path.stat().st_size:
            found.setdefault(int(shard), []).append(path)
    return found
