"""Gather what pods left in a store, their journals and logs, into a run folder.

What is here is a copy, and the store is the truth. What is new there is put behind what is here, so that
gathering again is cheap and gathering while pods run is of use; what became another file there is taken anew.
What a store holds is data: names are checked, links are not followed, and a file whose middle is missing ends
where the hole begins.

A run folder may have the same name every night, and the plan its fingerprint. So what is gathered is noted
with its job; what is there of another one, or of nobody that is known, is moved out of the way before.

Where no journal tells of a test, one is made that says why, so that the report does. It is attempt 0 of its
shard, which no pod makes: whatever a pod's journal tells of a test comes after it, and it goes when one came.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from ci.core.errors import BadFileError
from ci.core.object_store import SCHEME, Bucket
from ci.jobs.layout import KINDS, MOST_BYTES, PODS, BucketFiles, is_file, is_pod, shard_of
from ci.jobs.record import HERE, JobRecord
from ci.record import events
from ci.record.journal import JournalWriter, journal_path, read_journal
from ci.record.run_state import state_of
from test_selection.files import atomic_writer, read_json, write_json
from test_selection.plan import Plan, Shard

CHUNK_BYTES = 1 << 16
# By so much of its beginning a journal is known again: its first line has a time in it.
HEAD_BYTES = 160
MOST_NOTES = 20
SIDE_BY_SIDE = 8
KIND = "gathered"
FILE = "gathered.json"
EARLIER = "earlier"
# Folders of a run folder that gathering fills.
FILLED = ("journal", "logs", "control")
ATTEMPT = 0
NO_POD = "no journal of its pod was gathered: the pod never began, or what it left is not in the store"


class Held(Protocol):
    """A file in a store."""

    @property
    def pod(self) -> int:
        """The pod's index."""

    @property
    def file(self) -> str:
        """Its name in the pod's run folder."""

    @property
    def size(self) -> int:
        """Bytes there are of it, as far as nothing of it is missing."""

    @property
    def trouble(self) -> str:
        """What is wrong with it; empty where nothing is."""

    def read(self, start: int) -> Iterator[bytes]:
        """What it holds from a byte on.

        Raises:
            SpyreCiError, OSError: it cannot be read.
        """


@dataclass(slots=True, kw_only=True)
class Gathered:
    """What came of it.

    Attributes:
        files: journals and logs of pods that there are.
        new_bytes: that were not here before.
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


def gather(store: str, run: str, into: Path, owners: Mapping[int, int] | None = None) -> Gathered:
    """Copy what is new of pods' journals and logs into a run folder.

    Args:
        store: a folder, or s3://….
        run: the readable run id.
        into: the run folder.
        owners: by shard, the pod that runs it, where that is known.

    Raises:
        SettingsError: it is no bucket, or what reads buckets is not installed.
        CommandError: the bucket cannot be read.
    """
    found = Gathered()
    if store.startswith(SCHEME):
        files: Iterator[Held] = BucketFiles(
            Bucket(store, where="--from"), f"{run}/{PODS}/", found.note
        ).files()
        with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
            for number in pool.map(
                lambda one: take(one, into, found.note), _unlike(files, owners or {}, found)
            ):
                found.new_bytes += number
    else:
        for held in _unlike(_folder_files(Path(store) / run / PODS, found.note), owners or {}, found):
            found.new_bytes += take(held, into, found.note)
    return found


def _unlike(files: Iterator[Held], owners: Mapping[int, int], found: Gathered) -> Iterator[Held]:
    """Files no two of which have the same name: a shard is one pod's."""
    whose: dict[str, int] = {}
    for held in files:
        found.files += 1
        if held.trouble:
            found.note(f"pod {held.pod}: {held.file}: {held.trouble}")
        shard = shard_of(held.file)
        owner = held.pod if shard is None else owners.get(shard, held.pod)
        first = whose.setdefault(held.file, owner)
        if first == held.pod:
            yield held
        else:
            found.note(f"pod {held.pod} has a {held.file}, which is pod {first}'s; it is left there")


def take(held: Held, into: Path, note: Callable[[str], None]) -> int:
    """Put what is new of a file behind what is here; what is another file here is replaced.

    Args:
        held: the file in the store.
        into: the run folder it is put in.
        note: told what was replaced.

    Returns:
        How many bytes were taken.
    """
    target = into / held.file
    have = target.stat().st_size if target.exists() else 0
    if have == held.size and shard_of(held.file) is None:
        return 0  # a log is no evidence, and not looked into for its own sake
    if have and (have > held.size or not _alike(_head(target), next(held.read(0), b""))):
        note(f"pod {held.pod}: {held.file} was another one here than in the store, and is the store's now")
        with atomic_writer(target) as whole:
            return sum(whole.write(data) for data in held.read(0))
    if have >= held.size:
        return 0
    target.parent.mkdir(parents=True, exist_ok=True)
    written = 0
    with target.open("ab") as stream:
        for data in held.read(have):
            written += stream.write(data)
    return written


def _alike(here: bytes, there: bytes) -> bool:
    length = min(len(here), len(there))
    return here[:length] == there[:length]


def _head(path: Path) -> bytes:
    with path.open("rb") as stream:
        return stream.read(HEAD_BYTES)


@dataclass(frozen=True, slots=True, kw_only=True)
class _File:
    """A file of a folder."""

    pod: int
    file: str
    path: Path
    size: int
    trouble: str = ""

    def read(self, start: int) -> Iterator[bytes]:
        # What is no file any more is not waited for, and no link is followed.
        descriptor = os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as stream:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return
            stream.seek(start)
            left = self.size - start
            while left > 0 and (data := stream.read(min(CHUNK_BYTES, left))):
                left -= len(data)
                yield data


def _folder_files(pods: Path, note: Callable[[str], None]) -> Iterator[Held]:
    """The files of every pod, by pod and name."""
    pods = pods.resolve()
    found = pods.iterdir() if pods.is_dir() else ()
    for index in sorted(int(path.name) for path in found if is_pod(path.name)):
        for kind in KINDS:
            folder = pods / str(index) / kind
            # No way there leads over a link.
            if folder.is_dir() and folder.resolve() == folder:
                yield from _files(index, kind, folder, note)


def _files(pod: int, kind: str, folder: Path, note: Callable[[str], None]) -> Iterator[Held]:
    with os.scandir(folder) as entries:
        found = sorted(
            (entry for entry in entries if is_file(kind, entry.name)), key=lambda entry: entry.name
        )
    for entry in found:
        name = f"{kind}/{entry.name}"
        if not entry.is_file(follow_symlinks=False):
            note(f"pod {pod}: {name} is no file, and left there")
            continue
        size = entry.stat(follow_symlinks=False).st_size
        trouble = f"is larger than {MOST_BYTES:,} bytes, and cut there" if size > MOST_BYTES else ""
        yield _File(pod=pod, file=name, path=folder / entry.name, size=min(size, MOST_BYTES), trouble=trouble)


def make_room(folder: Path, run: str, record: JobRecord | None) -> Path | None:
    """Move away what was gathered of another job, and note whose it is from here on.

    Args:
        folder: the run's; nobody else works in it.
        run: as the store knows it.
        record: of the job; None where nobody noted it.

    Returns:
        Where it was moved; None: there was nothing to move.
    """
    # A job that ran on this machine is another than the cluster's of the same run.
    whose = {"run": run, "namespace": HERE if record is None else record.namespace}
    if _noted(folder) == whose:
        return None
    there = [name for name in FILLED if (folder / name).is_dir() and any((folder / name).iterdir())]
    into = _new_folder(folder / EARLIER) if there else None
    for name in there:
        assert into is not None  # noqa: S101  # for mypy: it is made where there is something
        (folder / name).rename(into / name)
    write_json(folder / FILE, KIND, whose)
    return into


def _noted(folder: Path) -> dict[str, str] | None:
    if not (folder / FILE).is_file():
        return None
    try:
        content = read_json(folder / FILE, KIND)
    except BadFileError:
        return None  # nobody knows whose it is
    return {name: str(value) for name, value in content.items() if name != "schema"}


def _new_folder(among: Path) -> Path:
    among.mkdir(exist_ok=True)
    number = 1
    while (path := among / str(number)).exists():
        number += 1
    path.mkdir()
    return path


def tell_untold(folder: Path, plan: Plan, reasons: Mapping[int, str], *, moment: float) -> list[int]:
    """Write a journal for each shard that has none, or whose pod is known to have been lost for good.

    Those that were made before and are not needed now are taken back.

    Args:
        folder: the run's, with what was gathered.
        plan: the whole plan.
        reasons: by shard, why its pod left nothing, or no more, where that is known.
        moment: when it is said to have been told, in seconds since the epoch; not behind the run's end.

    Returns:
        The shards of which no journal tells.

    Raises:
        OSError: a journal cannot be written.
    """
    told = _told(folder)
    untold = []
    for shard in plan.shards:
        path = journal_path(folder, shard.index, ATTEMPT)
        path.unlink(missing_ok=True)
        ids = shard.ids
        if shard.index in told:
            ids = _left(shard, told[shard.index]) if shard.index in reasons else []
        elif ids:
            untold.append(shard.index)
        if ids:
            with contextlib.closing(JournalWriter(path, lambda: moment)) as journal:
                journal.write(
                    events.ShardStart(
                        shard=shard.index, attempt=ATTEMPT, planned=len(ids), fingerprint=plan.fingerprint
                    )
                )
                journal.write(events.NotRun(ids=ids, message=reasons.get(shard.index, NO_POD)))
    return untold


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


def _told(folder: Path) -> dict[int, list[Path]]:
    """The journals of pods that tell anything, by shard."""
    found: dict[int, list[Path]] = {}
    for path in (folder / "journal").glob("*-*.jsonl"):
        shard, _, attempt = path.stem.partition("-")
        if shard.isdecimal() and attempt.isdecimal() and int(attempt) != ATTEMPT and path.stat().st_size:
            found.setdefault(int(shard), []).append(path)
    return found
