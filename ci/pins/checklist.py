"""The checklist of a decision as Markdown: what the ledger answers is ticked, what people answer is not.

Every sentence is Markdown as it is: names of releases, requests and campaigns stand in code.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ci.core.templates import harmless_environment
from ci.core.text import counted
from ci.pins.compatibility import broken_calls
from ci.pins.events import MAX_TEXT, URGENT, Event, Requested
from ci.pins.protocol import Decision
from ci.pins.record import PackageChange, Record, changes
from ci.pins.state import State, fold
from ci.pins.words import day, listed, moment, named
from ci.report.summary import code


class Answer(NamedTuple):
    """A question and its answer: words, lines below them, rows of packages; `known`, else it is open."""

    question: str
    said: str
    lines: Sequence[str] = ()
    rows: Sequence[PackageChange] = ()
    known: bool = True


class _Compared(NamedTuple):
    """The records of what is pinned and of the target; None where nobody has recorded it."""

    before: Record | None
    after: Record | None

    @property
    def calls(self) -> list[str]:
        """Entry points that were read in both."""
        if self.before is None or self.after is None:
            return []
        return sorted(self.before.signatures.keys() & self.after.signatures.keys())

    def lost(self, calls: Sequence[str]) -> list[str]:
        """What callers lose."""
        return [] if self.after is None else list(broken_calls(calls, self.before, self.after))


def checklist(track: str, decision: Decision, records: Sequence[Record], events: Sequence[Event]) -> str:
    """The checklist of a decision that was made of these records and events.

    Raises:
        BadFileError: two different requests have one id.
    """
    state = fold(records, events, now=decision.at)
    target = decision.target
    after = None
    if target is not None and not target.rebuild:
        after = state.releases.named(target.version, target.sha)
    both = _Compared(state.releases.record_of(state.pin), after)
    # It is no page: what others have named is in code.
    environment = harmless_environment("ci.pins").overlay(autoescape=False, keep_trailing_newline=True)
    environment.filters["code"] = code
    return environment.get_template("checklist.md.j2").render(
        title=f"{named(track)}: {_headline(decision)}",
        answers=[*_state(state, decision), *(_change(both, decision) if target is not None else ())],
        still_open=list(_open(state, both, decision)),
        done_when=list(_done_when(decision)),
    )


def _headline(decision: Decision) -> str:
    if decision.target is None:
        return "no upgrade now"
    version = named(decision.target.version)
    return f"build {version} anew" if decision.target.rebuild else f"upgrade to {version}"


def _state(state: State, decision: Decision) -> Iterator[Answer]:
    """What holds before the decision, and why it was made."""
    pinned = "nothing yet"
    if (pin := state.pin) is not None:
        sha = f" ({named(pin.sha[:12])})" if pin.sha else ""
        age = counted(max((state.now - pin.since).days, 0), "day")
        pinned = f"{named(pin.version)}{sha}, since {day(pin.since)}, {age} ago"
    yield Answer("What is pinned, and since when?", pinned)
    why = {"upgrade": "Why now?", "wait": "What is waited for?", "none": "Why not?"}[decision.action]
    yield Answer(why, "", [one.words for one in decision.reasons])
    on = [
        f"{named(one.name)}, {f'until {moment(one.planned)}' if one.planned else 'until it is ended'}"
        for one in state.campaigns
    ]
    yield Answer("Is a campaign on?", f"yes: {listed(on)}" if on else "no")
    requests = [_request(one, decision) for one in state.pending]
    yield Answer("Which requests are there?", "" if requests else "none", requests)


def _request(one: Requested, decision: Decision) -> str:
    wanted = "" if one.version is None else f" for {named(one.version)}"
    fix = f" with {named(one.sha[:12])}" if one.sha else ""
    outcome = "superseded" if one.id in decision.supersedes else "stays pending"
    outcome = "answered by this" if one.id in decision.answers else outcome
    return f"{one.id} ({one.reason}){wanted}{fix}, {outcome}: {code(one.text, MAX_TEXT)}"


def _change(both: _Compared, decision: Decision) -> Iterator[Answer]:
    """What the upgrade changes, as far as both releases are recorded."""
    packages, compatible, deprecated = (
        "What changed of the direct dependencies?", "Is the API compatible?", "Which suites are deprecated?"
    )  # fmt: skip
    before, after = both
    if not decision.image_changed:
        yield Answer(packages, "nothing: the image is the same")
        yield Answer(compatible, "yes: the image is the same")
        yield Answer(deprecated, "none: the image is the same")
        return
    unknown = "not known before it is built and recorded"
    if before is None or after is None:
        said = unknown
        if before is None and (there := decision.before.partition("@")[0]):
            said = f"not known: the ledger has no record of {named(there)}, which is pinned"
        elif before is None:
            said = "nothing was pinned before: there is nothing to compare with"
        yield Answer(packages, said, known=not decision.before)
        yield Answer(compatible, said, known=not decision.before)
    else:
        # What became a direct dependency in the meantime was there before, perhaps.
        rows = changes({*before.direct, *after.direct}, {**before.packages, **before.direct}, after.direct)
        nothing = f"nothing of {listed(map(named, sorted(after.direct)))}"
        yield Answer(packages, "" if rows else nothing, rows=rows)
        if lost := both.lost(both.calls):
            yield Answer(compatible, "no", lost)
        elif both.calls:
            yield Answer(compatible, f"yes: {listed(map(named, both.calls))} can be called as before")
        else:
            yield Answer(compatible, "no entry point is recorded of both", known=False)
    if after is None:
        yield Answer(deprecated, unknown, known=False)
        return
    lines = [f"{named(one.suite)}: {'; '.join(one.why)}" for one in decision.deprecates]
    none = "none that the ledger tells of" if decision.unclear else "none"
    yield Answer(deprecated, "" if lines else none, lines)


def _open(state: State, both: _Compared, decision: Decision) -> Iterator[str]:
    """What only people can answer."""
    target = decision.target
    if target is None:
        return
    there = named(target.version)
    if target.rebuild:
        mend = f"commit {named(target.sha)}" if target.sha else "the commit with the mend"
        yield f"Is {there} built of {mend}, and recorded (`spyre-ci pins record`)?"
    for one in state.pending:
        if one.id in decision.answers and one.reason in URGENT:
            mend = f" ({named(one.sha)})" if one.sha else ""
            yield f"Does {there} hold the mend of request {one.id}{mend}?"
    for sha in state.fixes:
        pinned = named(decision.before.partition("@")[0])
        yield f"Does {there} hold {named(sha)} too, which {pinned} was built anew with?"
    for call in both.calls if decision.image_changed else ():
        if both.lost([call]):
            yield f"Do all callers of {named(call)} call it as it is now?"
    for unclear in decision.unclear:
        why = "; ".join(unclear.why)
        yield f"Does {there} support {named(unclear.suite)}? {why}: the ledger does not tell."
    for lost in decision.deprecates:
        yield f"Do those who use {named(lost.suite)} know that it is deprecated?"


def _done_when(decision: Decision) -> Iterator[str]:
    if decision.target is not None:
        yield f"Every question above is answered, and the tests pass on {named(decision.target.version)}."
        yield "The change is merged: the pin, the record and the event together."
        if told := sorted({*decision.answers, *decision.supersedes}):
            many = "request" if len(told) == 1 else "requests"
            yield f"What became of {many} {listed(map(str, told))} is told to those who asked."
    elif decision.action == "wait":
        when = f" on {moment(decision.wait_until)} at the latest" if decision.wait_until else ""
        yield f"What is waited for has come, and `spyre-ci pins decide` was asked again{when}."
    else:
        when = f" on {moment(decision.next_due)}" if decision.next_due else " once a release is recorded"
        yield f"`spyre-ci pins decide` was asked again{when}."
