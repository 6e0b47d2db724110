"""What an earlier pod of the same index left in a bucket, brought to the pod that goes on from there."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection
from pathlib import Path

from ci.core.errors import MissingInputError, PlanMismatchError
from ci.core.object_store import Bucket
from ci.core.provider import BY_DIGEST
from ci.jobs.gather import take
from ci.jobs.layout import PODS, SETTINGS
from ci.jobs.pieces import BucketFiles
from ci.jobs.pod import Place
from ci.record import events
from ci.record.journal import JournalWriter, gathered_journals, journal_path, next_attempt
from ci.record.journal_line import event_of
from test_selection.plan import Plan

# Objects of a pod: that it has begun, and that its every line is in the bucket, as of one that was evicted.
BEGUN, WHOLE = "begun", "whole"
CUT_OFF = "an earlier pod was lost with what had not reached the store"
# A journal's first line is no longer.
LINE_BYTES = 1 << 16


def fetch_earlier(
    bucket: Bucket, place: Place, folder: Path, note: Callable[[str], None]
) -> tuple[set[str], bool]:
    """Bring what earlier pods of an index left, and note that one more has begun.

    A pod that began and left nothing has lost all it had: the bucket was away until it went.

    Args:
        bucket: the store.
        place: the pod's.
        folder: its run folder.
        note: told what is left in the store, and why.

    Returns:
        The files that are there, and whether their ends may be missing.

    Raises:
        CommandError: the bucket cannot be read or written.
    """
    brought = set()
    for held in BucketFiles(bucket, f"{place.run}/{PODS}/", note).files(place.index):
        if held.trouble:
            note(f"{held.file}: {held.trouble}")
        take(held, folder, note)
        brought.add(held.file)
    with contextlib.suppress(MissingInputError):
        bucket.download(f"{place.below}/{SETTINGS}", folder / SETTINGS)
    begun, whole = (f"{place.below}/{name}" for name in (BEGUN, WHOLE))
    if not _is_there(bucket, begun):
        bucket.put(begun, b"")
        return brought, bool(brought)
    if not _is_there(bucket, whole):
        return brought, True
    bucket.delete([whole])  # from here on it may be lost, too
    return brought, False


def _is_there(bucket: Bucket, name: str) -> bool:
    try:
        bucket.get(name)
    except MissingInputError:
        return False
    return True


def refuse_another_image(folder: Path, image: str) -> None:
    """Refuse to go on with what an earlier pod began in another image: one report would hold both's verdicts.

    Args:
        folder: the pod's run folder.
        image: this pod's, as its environment says; where that is no digest, nobody knows which it was.

    Raises:
        PlanMismatchError: a journal is of another image.
    """
    if not BY_DIGEST.fullmatch(image):
        return
    for path in sorted((folder / "journal").glob("*.jsonl")):
        with path.open("rb") as stream:
            event = event_of(stream.readline(LINE_BYTES))
        seen = getattr(event, "image", "")
        if seen and seen.rpartition("@")[2] != image.rpartition("@")[2]:
            raise PlanMismatchError(
                f"is of an earlier pod in {seen!r:.300}, and this one is in {image}",
                where=path,
                remedy="submit a new run for another image: collect, select and plan it",
            )


def mark_doubts(
    folder: Path, plan: Plan, shards: Collection[int], *, boot: str, host: str, clock: Callable[[], float]
) -> int:
    """Note in journals of their own which tests may have run without a word that reached the bucket.

    That is every test that no journal tells of: none runs twice without a mark.

    Args:
        folder: the pod's run folder.
        plan: of its slice.
        shards: its own.
        boot: of this machine.
        host: its name.
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
        with contextlib.closing(JournalWriter(journal_path(folder, index, attempt), clock)) as journal:
            journal.write(
                events.ShardStart(
                    shard=index,
                    attempt=attempt,
                    planned=0,
                    fingerprint=plan.fingerprint,
                    host=host,
                    boot=boot,
                )
            )
            journal.write(events.Resumed(ids=ids, message=CUT_OFF))
    return count
