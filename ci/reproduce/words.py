"""What is told of a test that is brought back: lines for people, one object for machines. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ci.core.errors import EXIT_INTERRUPTED
from ci.core.text import clean, counted, one_line
from ci.record.failure_signature import Failure
from ci.record.verdict import NO_OUTCOME
from ci.reproduce.evidence import Evidence
from test_selection.files import schema_name

KIND = "reproduce"
MOST_NAMES = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Again:
    """One time it was run here: how it ended, and why that is not the same failure; empty where it is."""

    end: Failure
    differs: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """What came of running it.

    Attributes:
        folder: of the run that was made for it.
        tries: in their order.
        exit_code: of the command.
        after: how many tests ran before it in its process, as in the run.
    """

    folder: str
    tries: tuple[Again, ...]
    exit_code: int
    after: int = 0


def told_lines(found: Evidence) -> list[str]:
    """What is known of the test, a line each."""
    lines = [f"test: {clean(found.id)}"]
    if found.run or found.at:
        lines.append(f"run: {one_line(found.run) or '-'} ({one_line(found.at)})")
    if found.verdict:
        which = f", attempt {found.attempt} of {found.attempts}" if found.attempts > 1 else ""
        lines.append(f"there: {one_line(found.verdict.replace('_', ' '))}{which}{_said(found.end)}")
    lines.append(f"seed: {_seeds(found)}")
    version = f"{one_line(found.pytorch_version)} " if found.pytorch_version else ""
    lines.append(f"pytorch: {version}{one_line(found.sha) or 'of no commit that is known'}")
    lines.append(f"tests: {one_line(found.source, 500) if found.source else 'the embedded op suite'}")
    place = found.tried.place if found.tried is not None else None
    card = f", card {one_line(place.card)}" if place is not None and place.card else ""
    made = f" ({one_line(found.back_end)})" if found.back_end else ""
    lines.append(f"device: {one_line(found.device) or '-'}{card}{made}")
    lines.append(f"image: {one_line(found.image) or 'none that anybody named'}")
    if place is not None and place.python:
        threads = f", {counted(place.threads, 'thread')}" if place.threads else ""
        lines.append(f"python: {one_line(place.python)}{threads}")
    lines += [f"  {one_line(name)}={one_line(value)}" for name, value in _environ(found).items()]
    if found.before:
        lines.append(f"before it in its process: {counted(len(found.before), 'test')}")
    lines += [f"note: {one_line(note, 500)}" for note in found.notes]
    return lines


def ran_lines(found: Evidence, ran: Ran) -> list[str]:
    """What came of it, a line each; the last says it in a word."""
    lines = []
    for number, one in enumerate(ran.tries, start=1):
        how = "" if not one.differs or found.end is None else f" ({one_line(one.differs, 500)})"
        lines.append(f"try {number}: {one.end.verdict.words}{_said(one.end)}{how}")
    lines.append(f"{outcome(found, ran)}: {_sentence(found, ran)}")
    return lines


def outcome(found: Evidence, ran: Ran) -> str:
    """What came of it in a word or two.

    `reproduced`, `failed differently`, `failed` where nothing is to compare with; `not reproduced` where each
    try had an outcome and none failed; `no outcome` where a try came to none; `interrupted`.
    """
    known = found.end is not None and found.end.bad
    if known and any(not one.differs for one in ran.tries):
        return "reproduced"
    if any(one.end.bad for one in ran.tries):
        return "failed differently" if known else "failed"
    if ran.exit_code == EXIT_INTERRUPTED:
        return "interrupted"
    if not ran.tries or any(one.end.verdict in NO_OUTCOME for one in ran.tries):
        return "no outcome"
    return "not reproduced"


def document(found: Evidence, ran: Ran | None, notes: Sequence[str]) -> dict[str, Any]:
    """The object for machines; see docs/schemas/reproduce.json."""
    place = found.tried.place if found.tried is not None else None
    return {
        "schema": schema_name(KIND),
        "id": found.id,
        "run": found.run or None,
        "ref": found.ref or None,
        "at": found.at or None,
        "verdict": found.verdict or None,
        "message": found.end.message if found.end is not None else None,
        "cause": (found.end.cause or None) if found.end is not None else None,
        "attempt": found.attempt,
        "attempts": found.attempts,
        "run_seed": found.run_seed,
        "seed": found.seed,
        "pytorch": {"version": found.pytorch_version, "sha": found.sha, "source": found.source},
        "device": found.device,
        "card": (place.card or None) if place is not None else None,
        "back_end": found.back_end,
        "image": found.image or None,
        "python": (place.python or None) if place is not None else None,
        "threads": (place.threads or None) if place is not None else None,
        "environ": dict(_environ(found)),
        "before": [name for name, _ in found.before],
        "command": found.command,
        "notes": [*found.notes, *notes],
        "ran": None if ran is None else _ran(found, ran),
    }


def _ran(found: Evidence, ran: Ran) -> dict[str, Any]:
    rows = [
        {
            "verdict": one.end.verdict.value,
            "cause": one.end.cause or None,
            "message": one.end.message,
            "same": found.end is not None and not one.differs,
            "differs": one.differs or None,
        }
        for one in ran.tries
    ]
    return {
        "folder": ran.folder,
        "outcome": outcome(found, ran),
        "after": ran.after,
        "tries": rows,
        "exit_code": ran.exit_code,
    }


def _sentence(found: Evidence, ran: Ran) -> str:
    many = counted(len(ran.tries), "try", "tries")
    where = f"; {ran.folder}"
    match outcome(found, ran):
        case "reproduced":
            return f"the same failure, in try {len(ran.tries)}{where}"
        case "failed differently":
            return f"it fails here too, but not as it did there ({many}){where}"
        case "failed":
            return f"nothing is known of how it ended there ({many}){where}"
        case "interrupted":
            return f"nothing failed before somebody ended it ({many}){where}"
        case "no outcome":
            return f"nobody can tell whether it fails here, for it came to no end ({many}){where}"
        case _:
            return f"it did not fail ({many}){where}"


def _said(end: Failure | None) -> str:
    if end is None:
        return ""
    cause = f" ({one_line(end.cause)})" if end.cause else ""
    return f"{cause}: {one_line(end.message)}" if end.message else cause


def _seeds(found: Evidence) -> str:
    if found.seed is None:
        return "none that was noted"
    run = "" if found.run_seed is None else f" (the run's {found.run_seed}, attempt {found.attempt})"
    return f"{found.seed}{run}"


def _environ(found: Evidence) -> Mapping[str, str]:
    told: Iterable[tuple[str, str]] = () if found.tried is None else found.tried.place.environ.items()
    return dict(list(told)[:MOST_NAMES])
