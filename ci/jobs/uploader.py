"""The bucket of a job's pods: bring what earlier pods left there, and upload what this pod writes.

Below `<store>/<run>/pods/<index>/` stand a pod's journals and logs as its run folder has them. They are
uploaded whole whenever they have grown, by a container of their own: the tests never have the bucket's keys.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from ci.core import interrupts, locks
from ci.core.errors import EXIT_INCOMPLETE, EXIT_OK, CommandError, SpyreCiError
from ci.core.object_store import Bucket
from ci.core.operating_system import boot_id, host_name
from ci.jobs.plan_chunks import FILE as PLAN_FILE
from ci.jobs.plan_chunks import PodPlan, read_pod_plan, unpack_plan
from ci.record import events
from ci.record.journal import JournalWriter, gathered_journals, journal_path, next_attempt
from test_selection.plan import Plan, read_plan

INPUTS, PODS = "inputs", "pods"
# How the run was asked to go: whoever goes on compares itself with it.
SETTINGS = "run-settings.json"
# Files of a run folder that are collected. Attempt 0 is the collector's own.
LEFT = re.compile(r"(control/)?(journal/\d{1,6}-[1-9]\d{0,5}\.jsonl|logs/(pod-)?\d{1,6}-[1-9]\d{0,5}\.log)")
# A pod has begun; and all that it wrote is in the bucket.
BEGUN, WHOLE = "begun", "whole"
CUT_OFF = "an earlier pod was lost before its results reached the store"
# The main container holds a lock on it while it lives.
MAIN_LOCK = "main.lock"
# A look at the files in so many seconds; the pods of a job look so often a second at most, all together.
LOOK_S, MOST_LOOK_S, LOOKS_A_SECOND = 0.5, 5.0, 128
# What a file costs that is uploaded again and again.
BYTES_A_SECOND = 256 << 10
# A kubelet starts the main container first. One that has not begun by then died before it came so far, as of
# its settings or for want of memory, and a pod whose uploader waits would hold its cards until its deadline.
BEGIN_S = 600.0
# How long the rest may take; less where the pod was told to end, which has 120 s in all.
FLUSH_S, FLUSH_ENDING_S = 120.0, 30.0


def restore(bucket: Bucket, run: str, index: int, folder: Path, say: Callable[[str], object]) -> PodPlan:
    """Bring a pod's plan and what earlier pods of its index left, and mark what may have been lost.

    Args:
        bucket: the store.
        run: as the store knows it.
        index: of the pod.
        folder: the pod's run folder.
        say: takes a line.

    Returns:
        What the pod runs.

    Raises:
        CommandError: the bucket cannot be read or written.
        BadFileError: the plan was damaged.
    """
    below, plan = f"{run}/{PODS}/{index}", f"{run}/{INPUTS}/{PLAN_FILE}"
    own = unpack_plan(bucket.get(plan), index, folder, where=bucket.address(plan))
    names = [one.name.removeprefix(f"{below}/") for one in bucket.objects(below)]
    for name in names:
        if LEFT.fullmatch(name) or name == SETTINGS:
            bucket.download(f"{below}/{name}", folder / name)
    # A pod that began and left nothing has lost all it had: the bucket was away until it was gone.
    if BEGUN in names and WHOLE not in names:
        count = mark_doubts(folder, read_plan(folder / "plan.json"), own.shards, clock=time.time)
        say(f"{count:,} tests may have run in an earlier pod that was lost before it reported")
    bucket.delete([f"{below}/{WHOLE}"])
    bucket.put(f"{below}/{BEGUN}", b"")
    return own


def mark_doubts(folder: Path, plan: Plan, shards: Collection[int], *, clock: Callable[[], float]) -> int:
    """Note the tests that no journal tells of, in journals of their own: they may have run.

    Args:
        folder: the pod's run folder.
        plan: the whole plan.
        shards: the pod's own.
        clock: seconds since the epoch.

    Returns:
        How many tests those are.
    """
    told = {getattr(event, "id", None) for journal in gathered_journals(folder) for event in journal.events}
    count = 0
    for index in shards:
        ids = [name for name in plan.shards[index].ids if name not in told]
        if not ids:
            continue
        count += len(ids)
        attempt = next_attempt(folder, index)
        start = events.ShardStart(
            shard=index, attempt=attempt, planned=0, fingerprint=plan.fingerprint, host=host_name(),
            boot=boot_id(),
        )  # fmt: skip
        with contextlib.closing(JournalWriter(journal_path(folder, index, attempt), clock)) as journal:
            journal.write(start)
            journal.write(events.Resumed(ids=ids, message=CUT_OFF))
    return count


@contextlib.contextmanager
def main_alive(folder: Path) -> Iterator[None]:
    """Within, the uploader of the pod waits for more; the lock goes with this process, however it ends."""
    folder.mkdir(parents=True, exist_ok=True)
    # Under its name only once it is locked: a file without a lock is of a process that ended.
    hidden = folder / f".{MAIN_LOCK}-{os.getpid()}"
    with hidden.open("wb") as stream:
        locks.take(stream)
        hidden.replace(folder / MAIN_LOCK)
        yield


def main_is_over(folder: Path, *, may_begin: bool = True) -> bool:
    """True if the main container has begun and ended, or has not begun and will not."""
    try:
        with (folder / MAIN_LOCK).open("rb") as stream:
            return locks.take(stream)
    except FileNotFoundError:
        return not may_begin


@dataclass(slots=True, kw_only=True)
class Uploader:
    """Uploads the files of a pod's run folder as they grow; a bucket that is away costs the run nothing.

    Attributes:
        bucket: the store.
        below: the pod's place in it.
        folder: the pod's run folder.
        say: takes a line.
    """

    bucket: Bucket
    below: str
    folder: Path
    say: Callable[[str], object]
    _sent: dict[str, tuple[int, int]] = field(default_factory=dict, init=False)
    _due: dict[str, float] = field(default_factory=dict, init=False)
    _trouble: str = field(default="", init=False)

    def run(self) -> int:
        """Upload until the main container is over and all of it is in the bucket; the exit code.

        3 if not all of it could be uploaded: another pod runs it again.
        """
        pause_s = look_s(read_pod_plan(self.folder).pods)
        begins_by = time.monotonic() + BEGIN_S
        with interrupts.noted() as heard:
            while not main_is_over(self.folder, may_begin=not heard and time.monotonic() < begins_by):
                self.upload()
                time.sleep(pause_s)
            end = time.monotonic() + (FLUSH_ENDING_S if heard else FLUSH_S)
            while not self.upload(final=True):
                if time.monotonic() >= end:
                    self.say(f"not everything was uploaded to the store: {self._trouble}")
                    return EXIT_INCOMPLETE
                time.sleep(LOOK_S)
        with contextlib.suppress(CommandError):  # without it, more is marked than needs to be
            self.bucket.put(f"{self.below}/{WHOLE}", b"")
        return EXIT_OK

    def upload(self, *, final: bool = False) -> bool:
        """Upload what is new; true if all of that is in the bucket now.

        Args:
            final: nothing comes any more, so that large files do not wait either.
        """
        try:
            for name in self._files():
                path, now = self.folder / name, time.monotonic()
                about = path.stat()
                state = about.st_size, about.st_mtime_ns
                if state == self._sent.get(name) or (not final and now < self._due.get(name, 0.0)):
                    continue
                self.bucket.put(f"{self.below}/{name}", path)
                self._sent[name], self._due[name] = state, now + about.st_size / BYTES_A_SECOND
        except (SpyreCiError, OSError) as error:
            if not self._trouble:
                self.say(f"cannot reach the store, retrying: {error}")
            self._trouble = str(error)
            return False
        if self._trouble:
            self.say("the store can be reached again")
        self._trouble = ""
        return True

    def _files(self) -> list[str]:
        found = [
            path.relative_to(self.folder).as_posix()
            for path in self.folder.glob("**/*-*.*")
            # A test may leave a pipe, which would be waited for, or a link to a file of this container.
            if path.is_file() and not path.is_symlink()
        ]
        names = sorted(name for name in found if name == SETTINGS or LEFT.fullmatch(name))
        # The log last: nothing is decided by it.
        return sorted(names, key=SETTINGS.__ne__)


def look_s(pods: int) -> float:
    """Seconds between two looks of a pod, by how many pods the job has."""
    return min(max(LOOK_S, pods / LOOKS_A_SECOND), MOST_LOOK_S)


def put_plan(bucket: Bucket, run: str, packed: bytes) -> str:
    """Put a job's packed plan where its pods read it; returns where that is."""
    return bucket.put(f"{run}/{INPUTS}/{PLAN_FILE}", packed)
