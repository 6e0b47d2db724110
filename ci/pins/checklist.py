"""The checklist of an upgrade as Markdown: what the ledger answers is ticked, what people answer is not.

Every sentence is Markdown as it is: what releases, requests and campaigns are called is in code.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from jinja2 import Environment, PackageLoader, StrictUndefined

from ci.core.text import counted
from ci.pins.events import MAX_TEXT, URGENT, Event, Requested
from ci.pins.packages import changes
from ci.pins.protocol import Decision
from ci.pins.record import Change, Record
from ci.pins.situation import Situation, situation
from ci.pins.support import Breaks, broken_calls
from ci.pins.words import day, listed, moment, named
from ci.report.summary import code


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A question and its answer.

    Attributes:
        question: in words.
        said: the answer.
        lines: of it, one below the other.
        rows: of packages.
        known: whether it is an answer; else the question is open.
    """

    question: str
    said: str
    lines: tuple[str, ...] = ()
    rows: tuple[Change, ...] = ()
    known: bool = True


def answers(held: Situation, decision: Decision, breaks: Breaks) -> list[Answer]:
    """The questions in their order.

    Args:
        held: what holds at the moment of the decision.
        decision: of that moment.
        breaks: of two signatures, what a caller of the first cannot do with the second.
    """
    found = [_pinned(held), _why(decision), _campaign(held), _requests(held, decision)]
    if decision.target is not None:
        before, after = compared(held, decision)
        found += [
            _packages(before, after, decision),
            _compatible(before, after, decision, breaks),
            _deprecated(after, decision),
        ]
    return found


def compared(held: Situation, decision: Decision) -> tuple[Record | None, Record | None]:
    """The records of what is pinned and of the target; None where nobody has recorded it."""
    before = held.releases.named(held.pin.version, held.pin.sha) if held.pin else None
    target = decision.target
    if target is None or target.rebuild:
        return before, None
    return before, held.releases.named(target.version, target.sha)


def entry_points(before: Record, after: Record) -> list[str]:
    """Those that were looked at in both."""
    return sorted(before.signatures.keys() & after.signatures.keys())


def _pinned(held: Situation) -> Answer:
    question = "What is pinned, and since when?"
    if held.pin is None:
        return Answer(question=question, said="nothing yet")
    sha = f" ({named(held.pin.sha[:12])})" if held.pin.sha else ""
    age = max((held.now - held.pin.since).days, 0)
    said = f"{named(held.pin.version)}{sha}, since {day(held.pin.since)}, {counted(age, 'day')} ago"
    return Answer(question=question, said=said)


def _why(decision: Decision) -> Answer:
    question = {"upgrade": "Why now?", "wait": "What is waited for?", "none": "Why not?"}[decision.action]
    return Answer(question=question, said="", lines=tuple(one.words for one in decision.reasons))


def _campaign(held: Situation) -> Answer:
    question = "Is a campaign on?"
    if not held.campaigns:
        return Answer(question=question, said="no")
    ends = (
        f"{named(one.name)}, {f'until {moment(one.planned)}' if one.planned else 'until it is ended'}"
        for one in held.campaigns
    )
    return Answer(question=question, said=f"yes: {listed(ends)}")


def _requests(held: Situation, decision: Decision) -> Answer:
    lines = [_request(one, _fate(one.id, decision)) for one in held.pending]
    said = "" if lines else "none"
    return Answer(question="Which requests are there?", said=said, lines=tuple(lines))


def _fate(number: int, decision: Decision) -> str:
    if number in decision.answers:
        return "answered by this"
    return "superseded" if number in decision.supersedes else "stays pending"


def _request(one: Requested, fate: str) -> str:
    wanted = "" if one.version is None else f" for {named(one.version)}"
    mend = f" with {named(one.sha[:12])}" if one.sha else ""
    return f"{one.id} ({one.reason}){wanted}{mend}, {fate}: {code(one.text, MAX_TEXT)}"


def _packages(before: Record | None, after: Record | None, decision: Decision) -> Answer:
    question = "What changed of the direct dependencies?"
    if not decision.image_changed:
        return Answer(question=question, said="nothing: the image is the same")
    if after is None or before is None:
        return Answer(question=question, said=_unrecorded(before, decision), known=not decision.before)
    # What became a direct dependency in the meantime was there before, perhaps.
    there = {**before.packages, **before.direct}
    rows = changes({*before.direct, *after.direct}, there, after.direct)
    said = "" if rows else f"nothing of {listed(map(named, sorted(after.direct)))}"
    return Answer(question=question, said=said, rows=rows)


def _compatible(before: Record | None, after: Record | None, decision: Decision, breaks: Breaks) -> Answer:
    question = "Is the API compatible?"
    if not decision.image_changed:
        return Answer(question=question, said="yes: the image is the same")
    if after is None or before is None:
        return Answer(question=question, said=_unrecorded(before, decision), known=not decision.before)
    calls = entry_points(before, after)
    if not calls:
        return Answer(question=question, said="no entry point is recorded of both", known=False)
    lost = tuple(broken_calls(calls, before, after, breaks))
    if lost:
        return Answer(question=question, said="no", lines=lost)
    return Answer(question=question, said=f"yes: {listed(map(named, calls))} can be called as before")


def _deprecated(after: Record | None, decision: Decision) -> Answer:
    question = "Which suites are deprecated?"
    if not decision.image_changed:
        return Answer(question=question, said="none: the image is the same")
    if after is None:
        return Answer(question=question, said="not known before it is built and recorded", known=False)
    lines: Sequence[str] = [f"{named(one.suite)}: {'; '.join(one.why)}" for one in decision.deprecates]
    said = "none that the ledger tells of" if decision.unclear else "none"
    return Answer(question=question, said="" if lines else said, lines=tuple(lines))


def _unrecorded(before: Record | None, decision: Decision) -> str:
    if before is None:
        there = decision.before.partition("@")[0]
        if not there:
            return "nothing was pinned before: there is nothing to compare with"
        return f"not known: the ledger has no record of {named(there)}, which is pinned"
    return "not known before it is built and recorded"


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
    for one in held.pending:
        if one.id in decision.answers and one.reason in URGENT:
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
