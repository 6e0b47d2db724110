"""The events of a journal, each as it stands in a line. Pure.

A line is a JSON object whose key `e` names the kind and `t` the time. Outcomes are passed, failed, skipped,
xfailed, xpassed; and hardware, where a test failed by its card.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any

from msgspec import Meta, Struct, ValidationError, convert, field
from msgspec.structs import fields

from test_selection.seeds import MOST

# The year 5138, in seconds since the epoch: a time beyond it is a mistake that no calendar can show.
MAX_SECONDS = 1e11
# Nothing is tried so often; a greater number is a mistake, and would be as many tries that are missing.
MAX_TRIES = 100
MAX_THREADS = 4096

Seconds = Annotated[float, Meta(ge=0, lt=MAX_SECONDS)]
Count = Annotated[int, Meta(gt=0, le=MAX_TRIES)]
Seed = Annotated[int, Meta(ge=0, le=MOST)]
Threads = Annotated[int, Meta(gt=0, le=MAX_THREADS)]


def _tag(name: str) -> str:
    return re.sub(r"(?<=.)(?=[A-Z])", "_", name).lower()


class JournalEvent(Struct, tag_field="e", tag=_tag, kw_only=True, omit_defaults=True, gc=False):
    """One line of a journal.

    Attributes:
        t: seconds since the epoch.
    """

    t: Seconds = 0.0


class ShardStart(JournalEvent):
    """An attempt at a shard begins; it says what its tests run in.

    Attributes:
        seed: the run's.
        environ: variables that may matter to a test, no secrets.
    """

    shard: int = 0
    attempt: int | None = None
    card: str | None = None
    host: str = ""
    boot: str = ""
    pid: int = 0
    planned: int = 0
    fingerprint: str = ""
    run: str = ""
    seed: Seed | None = None
    threads: Threads = 0
    back_end: str = ""
    torch: str = ""
    image: str = ""
    python: str = ""
    environ: dict[str, str] = field(default_factory=dict)


class ShardEnd(JournalEvent):
    """The attempt ends: done, interrupted or stopped; the message says why it was stopped."""

    status: str = "done"
    message: str = ""


class Resumed(JournalEvent):
    """An earlier attempt may have run these tests, and the lines that told of it are lost."""

    ids: list[str]
    message: str = ""


class GroupStart(JournalEvent):
    """A process begins to import and collect a file."""

    file: str
    tests: int = 0


class GroupReady(JournalEvent):
    """A file is set up.

    Attributes:
        setup_s: seconds of its import and collection.
    """

    file: str
    setup_s: Seconds = 0.0


class GroupEnd(JournalEvent):
    """A process has ended that ran tests of a file.

    Attributes:
        seconds: from its last test on.
    """

    file: str = ""
    seconds: Seconds = 0.0


class Piece(JournalEvent):
    """A worker gets tests of one file to run.

    Attributes:
        tests: how many.
        why: plan, stolen or retry.
        of: the shard they are planned for.
        attempt: which try of the tests it is.
    """

    file: str = ""
    tests: int = 0
    why: str = ""
    of: int = 0
    attempt: Count = 1


class Start(JournalEvent):
    """A test begins.

    Attributes:
        log: where in the shard's log its output begins, in bytes.
        number: which try it is.
        seed: the test's.
        seeded_as: the try whose seed that is, where it is another than this.
    """

    id: str
    log: int = 0
    number: Count = field(default=1, name="try")
    seed: Seed | None = None
    seeded_as: Count | None = field(default=None, name="as")


class End(JournalEvent):
    """A test ended.

    Attributes:
        leak: processes and threads it left behind.
        unseeded: the generators that could not be seeded, and why.
        ras: the card's own word, where the outcome is hardware.
        ops: the key of the operators it called; empty where nobody noted them.
    """

    id: str
    outcome: str
    seconds: Seconds | None = None
    message: str = ""
    detail: str = ""
    card: str | None = None
    leak: str = ""
    unseeded: str = ""
    ras: str = ""
    ops: str = ""


class OpSet(JournalEvent):
    """The operators that a test called; tests that called the same share it.

    Attributes:
        key: by which the ends of those tests name it.
        ops: each an overload and a dtype.
    """

    key: str
    ops: list[str] = field(default_factory=list)


class Crash(JournalEvent):
    """A test ended with its process.

    Attributes:
        cause: signal, hang, oom, exit or hardware.
        ras: the card's own word, where it said that it failed.
    """

    id: str
    cause: str = "exit"
    message: str = ""
    detail: str = ""
    seconds: Seconds | None = None
    card: str | None = None
    ras: str = ""


class CardCheck(JournalEvent):
    """A card was checked.

    Attributes:
        why: order or crash.
        ended: whether the process that did it has ended.
    """

    why: str
    ok: bool
    seconds: Seconds = 0.0
    message: str = ""
    detail: str = ""
    ras: str = ""
    ended: bool = True


class CardFault(JournalEvent):
    """A card failed while a file was set up, which costs no test anything."""

    message: str = ""
    ras: str = ""
    detail: str = ""


class CardLost(JournalEvent):
    """A card is not used any more."""

    card: str = ""
    message: str = ""


class WorkerLost(JournalEvent):
    """A worker went, from outside.

    Attributes:
        id: the test that ran, which is infrastructure; None: none, or nobody knows.
    """

    id: str | None = None
    message: str = ""


class NotRun(JournalEvent):
    """Tests that were planned are not run, and why."""

    ids: list[str]
    message: str = ""


class NoRetry(JournalEvent):
    """Tests that failed were to run again and did not, and why."""

    ids: list[str]
    message: str = ""


class Elsewhere(JournalEvent):
    """Tests planned for this shard were claimed by another host."""

    ids: list[str]
    host: str = ""


class FileError(JournalEvent):
    """A file could not be imported where its tests were to run."""

    file: str
    message: str = ""
    detail: str = ""


class Respawn(JournalEvent):
    """A file goes on in a fresh process, and why."""

    file: str = ""
    message: str = ""
    detail: str = ""


class Unread(JournalEvent):
    """What this version cannot read; it is never written.

    Attributes:
        malformed: the kind is known, and lacks what it promises.
    """

    malformed: bool


KINDS: Mapping[str, type[JournalEvent]] = {
    _tag(kind.__name__): kind for kind in JournalEvent.__subclasses__() if kind is not Unread
}


def parse(row: Mapping[str, Any]) -> JournalEvent:
    """The event of a JSON object; a value that its field cannot hold counts as not told."""
    name = row.get("e")
    kind = KINDS.get(name, Unread) if isinstance(name, str) else Unread
    known = {one.encode_name: one.type for one in fields(kind)}
    kept = {key: value for key, value in row.items() if key in known and _fits(value, known[key])}
    try:
        return convert(kept, kind) if kind is not Unread else Unread(malformed=False, t=kept.get("t", 0.0))
    except ValidationError:
        return Unread(malformed=True, t=kept.get("t", 0.0))


def _fits(value: Any, kind: Any) -> bool:
    try:
        convert(value, kind)
    except ValidationError:
        return False
    return True
