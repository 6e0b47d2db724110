"""What a pod of kind tests is told, how it runs its shards, and what it goes on from of an earlier pod."""

from __future__ import annotations

import contextlib
import re
import signal
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ci.core.errors import (
    EXIT_INCOMPLETE,
    EXIT_INTERRUPTED,
    MissingInputError,
    PlanMismatchError,
    SettingsError,
    SpyreCiError,
)
from ci.core.object_store import SCHEME, Bucket
from ci.core.operating_system import prctl
from ci.core.provider import BY_DIGEST
from ci.jobs.gather import take
from ci.jobs.job import INDEX_VARIABLE, INPUT_VARIABLE, RUN_VARIABLE, SHARE_VARIABLE, STORE_VARIABLE
from ci.jobs.layout import PODS, SETTINGS, BucketFiles
from ci.jobs.slices import Opened
from ci.record import events
from ci.record.journal import JournalWriter, gathered_journals, journal_path, next_attempt
from ci.record.journal_line import event_of
from test_selection.plan import Plan
from test_selection.shard_subset import format_ranges

# linux/prctl.h
_PR_SET_DUMPABLE = 4
_RUN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")
_INDEX = re.compile(r"\d{1,6}")
# The run's own words; any other end is no account of it.
_TOLD = frozenset({0, 1, 2, 3})
TERMINATED = 128 + signal.SIGTERM
# Keys of the store are the pod's; what tests print or leave behind is not to hold them (law 9). There are
# many ways to name them, so of these variables only what says where the store is goes on.
_KEYS = "AWS_"
_NO_KEYS = ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL")
# Objects of a pod: that it has begun, and that its every line is in the bucket, as of one that was evicted.
BEGUN, WHOLE = "begun", "whole"
CUT_OFF = "an earlier pod was lost with what had not reached the store"
# A journal's first line is no longer.
LINE_BYTES = 1 << 16


class StoreError(SpyreCiError):
    """A store cannot be read or written now; another pod takes the shards up."""

    exit_code = EXIT_INCOMPLETE


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Which pod of which run this is, and where its things are.

    Attributes:
        index: from 0.
        run: the readable run id.
        inputs: the folder of slices, or s3://….
        store: a folder or s3://….
        share: whether pods take over each other's work.
    """

    index: int
    run: str
    inputs: str
    store: str
    share: bool

    @property
    def below(self) -> str:
        """The pod's folder below the store."""
        return f"{self.run}/pods/{self.index}"

    @property
    def by_bucket(self) -> bool:
        """Whether the store is a bucket."""
        return self.store.startswith(SCHEME)

    @property
    def has_keys(self) -> bool:
        """Whether the pod has keys that are not the tests'."""
        return self.by_bucket or self.inputs.startswith(SCHEME)

    def folder(self, scratch: Path) -> Path:
        """The pod's run folder: in the store, or on its own disk where that is a bucket."""
        return (scratch if self.by_bucket else Path(self.store)) / self.below


def place_of(environ: Mapping[str, str]) -> Place:
    """What the environment says.

    Raises:
        SettingsError: a variable is not there, or has a value it cannot have.
    """
    index, run = _given(environ, INDEX_VARIABLE), _given(environ, RUN_VARIABLE)
    for variable, value, form in ((INDEX_VARIABLE, index, _INDEX), (RUN_VARIABLE, run, _RUN)):
        if not form.fullmatch(value):
            raise _bad(f"is {value!r:.80}", variable)
    found = Place(
        index=int(index),
        run=run,
        inputs=_given(environ, INPUT_VARIABLE),
        store=_given(environ, STORE_VARIABLE).rstrip("/"),
        share=bool(environ.get(SHARE_VARIABLE)),
    )
    if found.share and found.by_bucket:
        raise _bad("pods that share want a volume, not a bucket", SHARE_VARIABLE)
    return found


def _given(environ: Mapping[str, str], variable: str) -> str:
    if value := environ.get(variable, "").strip():
        return value
    raise _bad("is not set", variable)


def _bad(what: str, variable: str) -> SettingsError:
    return SettingsError(
        what, where=variable, remedy="this verb is what the pods of a job run; submit one with spyre-ci job"
    )


def command_of(opened: Opened, folder: Path, *, resumes: bool, source: str | None = None) -> Sequence[str]:
    """The command line that runs a pod's shards.

    Args:
        opened: what the pod is to do.
        folder: its run folder.
        resumes: an earlier pod of the same index has begun.
        source: where the tests are here; None: where the run's are.
    """
    words = [sys.executable, "-m", "ci.cli", "run", "--resume" if resumes else "--run-dir", str(folder)]
    words += ["--shard", format_ranges(opened.shards), "--cards", str(opened.cards)]
    return words if source is None else [*words, "--pytorch-src", source]


def environment_of(environ: Mapping[str, str], place: Place) -> dict[str, str]:
    """The environment of that command: the pod's without its store's keys, and where pods share.

    HUD is told of the whole run where it is collected, never of a part of it.
    """
    found = {name: value for name, value in environ.items() if not (place.has_keys and _is_key(name))}
    found["SPYRE_CI__REPORT__ENDPOINT"] = "none"
    if place.share:
        found["SPYRE_CI__RUN__SHARE"] = f"{place.store}/{place.run}/claims"
    return found


def _is_key(name: str) -> bool:
    return name.startswith(_KEYS) and not name.startswith(_NO_KEYS)


def exit_code_of(code: int, interrupts: Sequence[int]) -> int:
    """What a pod ends with: the run's word, or by which signal it was told to end.

    A run that gave no word was lost, as by the kernel when memory ran out: another pod takes it up.
    """
    if interrupts and code not in _TOLD:
        return TERMINATED if signal.SIGTERM in interrupts else EXIT_INTERRUPTED
    return code if code in _TOLD else EXIT_INCOMPLETE


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


def close_process(*, closed: bool = True) -> bool:
    """Have procfs and ptrace refuse this process to its own user; what it starts anew is open again.

    Source: the manual's PR_SET_DUMPABLE(2const) and proc(5).

    Args:
        closed: False opens it.

    Returns:
        Whether the system did so; only Linux can.
    """
    return prctl(_PR_SET_DUMPABLE, int(not closed))
