"""The checklist of an upgrade as Markdown: what the ledger answers is ticked, what people answer is not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from jinja2 import Environment, PackageLoader, StrictUndefined

from ci.pins.answers import answers, compared, entry_points
from ci.pins.events import URGENT, Event, Requested
from ci.pins.protocol import Decision
from ci.pins.record import Record
from ci.pins.situation import Situation, situation
from ci.pins.support import Breaks, broken_calls
from ci.pins.words import listed, moment, named
from ci.report.summary import code


def checklist(
    track: str, decision: Decision, records: Sequence[Record], events: Sequence[Event], *, breaks: Breaks
) -> str:
    """Answer for a decision what the ledger can answer.

    Args:
        track: its name in the settings.
        decision: made of these records and events.
        records: of the track.
        events: of the track, in the order they were told.
        breaks: of two signatures, what a caller of the first cannot do with the second.

    Raises:
        BadFileError: two requests have one id.
    """
    held = situation(records, events, now=decision.at)
    environment = Environment(
        loader=PackageLoader("ci.pins"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # noqa: S701  # not for a page; what others have named is in code
    )
    environment.filters["code"] = code
    return environment.get_template("checklist.md.j2").render(
        title=f"{named(track)}: {_headline(decision)}",
        answers=answers(held, decision, breaks),
        still_open=list(_open(held, decision, breaks)),
        done_when=list(_done_when(decision)),
    )


def _headline(decision: Decision) -> str:
    if decision.target is None:
        return "no upgrade now"
    version = named(decision.target.version)
    return f"build {version} anew" if decision.target.rebuild else f"upgrade to {version}"


def _open(held: Situation, decision: Decision, breaks: Breaks) -> Iterator[str]:
    """What only people can answer."""
    target = decision.target
    if target is None:
        return
    there = named(target.version)
    if target.rebuild:
        mend = f"commit {named(target.sha)}" if target.sha else "the commit with the mend"
        yield f"Is {there} built of {mend}, and recorded (`spyre-ci pins record`)?"
    for one in _asked(held, decision.answers):
        if one.reason in URGENT:
            mend = f" ({named(one.sha)})" if one.sha else ""
            yield f"Does {there} hold the mend of request {one.id}{mend}?"
    for sha in held.mends:
        pinned = named(decision.before.partition("@")[0])
        yield f"Does {there} hold {named(sha)} too, which {pinned} was built anew with?"
    before, after = compared(held, decision)
    if before is not None and after is not None and decision.image_changed:
        for call in entry_points(before, after):
            if any(broken_calls([call], before, after, breaks)):
                yield f"Do all callers of {named(call)} call it as it is now?"
    yield from (
        f"Does {there} support {named(one.suite)}? {'; '.join(one.why)}: the ledger does not tell."
        for one in decision.unclear
    )
    for lost in decision.deprecates:
        yield f"Do those who use {named(lost.suite)} know that it is deprecated?"


def _done_when(decision: Decision) -> Iterator[str]:
    if decision.target is not None:
        yield f"Every question above is answered, and the tests pass on {named(decision.target.version)}."
        yield "The change is merged: the pin, the record and the event together."
        told = sorted({*decision.answers, *decision.supersedes})
        if told:
            many = "request" if len(told) == 1 else "requests"
            yield f"What became of {many} {listed(map(str, told))} is told to those who asked."
    elif decision.action == "wait":
        when = f" on {moment(decision.wait_until)} at the latest" if decision.wait_until else ""
        yield f"What is waited for has come, and `spyre-ci pins decide` was asked again{when}."
    else:
        when = f" on {moment(decision.next_due)}" if decision.next_due else " once a release is recorded"
        yield f"`spyre-ci pins decide` was asked again{when}."


def _asked(held: Situation, ids: Sequence[int]) -> list[Requested]:
    return [one for one in held.pending if one.id in ids]
