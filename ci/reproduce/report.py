"""What is known of a test and what running it showed: lines for people, one object for machines. Pure."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import msgspec

from ci.core.errors import EXIT_INTERRUPTED
from ci.core.text import clean, counted, one_line
from ci.record.failure_signature import Failure
from ci.record.verdict import NO_OUTCOME
from ci.reproduce.evidence import Evidence
from ci.reproduce.reproduce import Ran

# Variables that are listed.
_SHOWN = 60
_OUTCOMES = {
    "reproduced": "the same failure, in try {last}",
    "failed differently": "it fails here too, but differently",
    "failed": "how it ended in the run is not known",
    "interrupted": "nothing failed before the interrupt",
    "no outcome": "a try has no outcome, so it is not known whether the test fails here",
    "not reproduced": "it did not fail",
}


def known_lines(found: Evidence) -> list[str]:
    """What is known of the test, a line each."""
    info, worker = found.info, found.worker
    card = f", card {one_line(worker.card)}" if worker.card else ""
    threads = f", {counted(worker.threads, 'thread')}" if worker.threads else ""
    rows = [
        ("test", clean(found.id)),
        ("run", f"{one_line(info.run)} ({one_line(found.at)})" if found.at else ""),
        ("outcome", found.verdict.replace("_", " ") + _why(found.failure) if found.verdict else ""),
        ("attempt", f"{found.attempt} of {found.attempts}" if found.attempts > 1 else ""),
        ("seed", "not recorded" if found.seed is None else f"{found.seed} (of the run: {found.run_seed})"),
        ("pytorch", f"{one_line(found.torch)} {one_line(info.pytorch_sha)}".strip() or "not recorded"),
        ("tests", one_line(found.source, 500) if found.source else "the embedded op suite"),
        ("device", f"{one_line(found.device)}{card} {one_line(found.back_end)}".rstrip()),
        ("image", one_line(found.image) or "not recorded"),
        ("python", one_line(worker.python) + threads),
        ("ran before it", counted(len(found.before), "test") if found.before else ""),
        *((f"  {one_line(name)}", one_line(value)) for name, value in list(worker.environ.items())[:_SHOWN]),
        *(("note", one_line(note, 500)) for note in found.notes),
    ]
    return [f"{name}: {value}" for name, value in rows if value]


def ran_lines(found: Evidence, ran: Ran) -> list[str]:
    """What running it showed, a line each; the last says it in a word or two."""
    lines = []
    for number, (one, differs) in enumerate(ran.ends, start=1):
        how = f" ({one_line(differs, 500)})" if differs else ""
        lines.append(f"try {number}: {one.verdict.words}{_why(one)}{how}")
    word, last = outcome(found, ran), len(ran.ends)
    many = counted(last, "try", "tries")
    return [*lines, f"{word}: {_OUTCOMES[word].format(last=last)} ({many}); {ran.folder}"]


def outcome(found: Evidence, ran: Ran) -> str:
    """`reproduced`, `failed differently`, `failed`, `interrupted`, `no outcome` or `not reproduced`."""
    known = found.failure is not None and found.failure.bad
    if known and not all(differs for _, differs in ran.ends):
        return "reproduced"
    if any(one.bad for one, _ in ran.ends):
        return "failed differently" if known else "failed"
    if ran.exit_code == EXIT_INTERRUPTED:
        return "interrupted"
    if not ran.ends or any(one.verdict in NO_OUTCOME for one, _ in ran.ends):
        return "no outcome"
    return "not reproduced"


def document(found: Evidence, ran: Ran | None) -> dict[str, Any]:
    """The object for machines."""
    told: dict[str, Any] = msgspec.to_builtins(found)
    for name in ("own", "timeout_s", "expectations", "times"):
        del told[name]
    told |= {"seed": found.seed, "command": found.command, "ran": None}
    if ran is not None:
        tries = [asdict(one) | {"differs": differs} for one, differs in ran.ends]
        told["ran"] = {"outcome": outcome(found, ran), "folder": ran.folder, "exit_code": ran.exit_code}
        told["ran"]["tries"] = tries
    return told


def _why(failure: Failure | None) -> str:
    if failure is None:
        return ""
    cause = f" ({one_line(failure.cause)})" if failure.cause else ""
    return f"{cause}: {one_line(failure.message)}" if failure.message else cause
