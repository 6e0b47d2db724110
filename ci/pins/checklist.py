"""The checklist of a decision as Markdown: what the ledger answers is ticked, what people answer is not.

Every sentence is Markdown as it is: names of releases, requests and campaigns stand in code.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ci.core.text import counted
from ci.pins.compatibility import broken_calls
from ci.pins.decide import Decision
from ci.pins.events import MAX_TEXT, URGENT, Event, Requested
from ci.pins.record import PackageChange, Record, changes
from ci.pins.state import State, fold
from ci.pins.words import day, listed, moment, named
from ci.report.summary import code


def checklist(track: str, decision: Decision, records: Sequence[Record], events: Sequence[Event]) -> str:
    """The checklist of a decision that was made of these records and events.

    Raises:
        BadFileError: two different requests have one id.
    """
    state = fold(records, events, now=decision.at)
    target, before, after = decision.target, state.releases.record_of(state.pin), None
    if target is not None and not target.rebuild:
        after = state.releases.named(target.version, target.sha)
    # Entry points that were read in both, and what their callers lose.
    calls = sorted(before.signatures.keys() & after.signatures.keys()) if before and after else []
    lost = {call: found for call in calls if after and (found := list(broken_calls([call], before, after)))}
    answers = [*_state(state, decision)]
    answers += _change(decision, before, after, calls, lost) if target is not None else ()
    still_open = [f"- [ ] {line}" for line in _open(state, decision, lost)]
    done_when = [f"- [ ] {line}" for line in _done_when(decision)]
    lines = [f"# {named(track)}: {_headline(decision)}", "", "## What the ledger answers", "", *answers]
    lines += ["", "## Open", "", *still_open] if still_open else []
    return "\n".join([*lines, "", "## Done when", "", *done_when, ""])


def _answer(question: str, said: str, lines: Iterable[str] = (), *, known: bool = True) -> list[str]:
    """A question and its answer, with lines below it; ticked where it is known."""
    first = f"- [{'x' if known else ' '}] {question} {said}".rstrip()
    return [first, *(f"  - {line}" for line in lines)]


def _table(rows: Sequence[PackageChange]) -> list[str]:
    """Packages of both releases, below an answer."""
    cells = [(one.name, one.before, one.after) for one in rows]
    told = (" | ".join(code(cell) if cell else "none" for cell in row) for row in cells)
    return ["", "  | package | pinned | new |", "  |---|---|---|", *(f"  | {row} |" for row in told), ""]


def _headline(decision: Decision) -> str:
    if decision.target is None:
        return "no upgrade now"
    version = named(decision.target.version)
    return f"rebuild {version}" if decision.target.rebuild else f"upgrade to {version}"


def _state(state: State, decision: Decision) -> Iterator[str]:
    """What holds before the decision, and why it was made."""
    pinned = "nothing yet"
    if (pin := state.pin) is not None:
        sha = f" ({named(pin.sha[:12])})" if pin.sha else ""
        age = counted(max((state.now - pin.since).days, 0), "day")
        pinned = f"{named(pin.version)}{sha}, since {day(pin.since)}, {age} ago"
    yield from _answer("What is pinned, and since when?", pinned)
    why = {"upgrade": "Why now?", "wait": "What does it wait for?", "none": "Why not?"}[decision.action]
    yield from _answer(why, "", [one.words for one in decision.reasons])
    on = [
        f"{named(one.name)}, {f'until {moment(one.planned)}' if one.planned else 'with no planned end'}"
        for one in state.campaigns
    ]
    yield from _answer("Is a campaign active?", f"yes: {listed(on)}" if on else "no")
    requests = [_request(one, decision) for one in state.pending]
    yield from _answer("Which requests are pending?", "" if requests else "none", requests)


def _request(one: Requested, decision: Decision) -> str:
    wanted = "" if one.version is None else f" for {named(one.version)}"
    fix = f" with {named(one.sha[:12])}" if one.sha else ""
    outcome = "superseded" if one.id in decision.supersedes else "stays pending"
    outcome = "answered by this" if one.id in decision.answers else outcome
    return f"{one.id} ({one.reason}){wanted}{fix}, {outcome}: {code(one.text, MAX_TEXT)}"


def _change(
    decision: Decision,
    before: Record | None,
    after: Record | None,
    calls: Sequence[str],
    lost: Mapping[str, Sequence[str]],
) -> Iterator[str]:
    """What the upgrade changes, as far as both releases are recorded."""
    packages, compatible, deprecated = (
        "What changed of the direct dependencies?", "Is the API compatible?", "Which suites are deprecated?"
    )  # fmt: skip
    if not decision.image_changed:
        yield from _answer(packages, "nothing: the image is the same")
        yield from _answer(compatible, "yes: the image is the same")
        yield from _answer(deprecated, "none: the image is the same")
        return
    unknown = "not known before it is built and recorded"
    if before is None or after is None:
        said = unknown
        if before is None and (there := decision.before.partition("@")[0]):
            said = f"not known: the ledger has no record of {named(there)}, which is pinned"
        elif before is None:
            said = "nothing was pinned before: there is nothing to compare with"
        yield from _answer(packages, said, known=not decision.before)
        yield from _answer(compatible, said, known=not decision.before)
    else:
        # What became a direct dependency in the meantime was there before, perhaps.
        rows = changes({*before.direct, *after.direct}, {**before.packages, **before.direct}, after.direct)
        nothing = f"none of {listed(map(named, sorted(after.direct)))}"
        yield from _answer(packages, "" if rows else nothing)
        yield from _table(rows) if rows else ()
        can = f"yes: {listed(map(named, calls))} can be called as before"
        none = "no entry point is recorded for both"
        said = "no" if lost else can if calls else none
        yield from _answer(compatible, said, itertools.chain(*lost.values()), known=bool(calls))
    if after is None:
        yield from _answer(deprecated, unknown, known=False)
        return
    lines = [f"{named(one.suite)}: {'; '.join(one.why)}" for one in decision.deprecates]
    none = "none that the ledger knows of" if decision.unclear else "none"
    yield from _answer(deprecated, "" if lines else none, lines)


def _open(state: State, decision: Decision, lost: Iterable[str]) -> Iterator[str]:
    """What only people can answer."""
    target = decision.target
    if target is None:
        return
    there = named(target.version)
    if target.rebuild:
        mend = f"commit {named(target.sha)}" if target.sha else "the commit with the fix"
        yield f"Is {there} built from {mend}, and recorded (`spyre-ci pins record`)?"
    for one in state.pending:
        if one.id in decision.answers and one.reason in URGENT:
            mend = f" ({named(one.sha)})" if one.sha else ""
            yield f"Does {there} contain the fix of request {one.id}{mend}?"
    for sha in state.fixes:
        pinned = named(decision.before.partition("@")[0])
        yield f"Does {there} also contain {named(sha)}, with which {pinned} was rebuilt?"
    for call in lost if decision.image_changed else ():
        yield f"Do all callers of {named(call)} fit its new signature?"
    for unclear in decision.unclear:
        why = "; ".join(unclear.why)
        yield f"Does {there} support {named(unclear.suite)}? {why}: the ledger does not record it."
    for gone in decision.deprecates:
        yield f"Do the users of {named(gone.suite)} know that it is deprecated?"


def _done_when(decision: Decision) -> Iterator[str]:
    if decision.target is not None:
        yield f"Every question above is answered, and the tests pass on {named(decision.target.version)}."
        yield "The change is merged: the pin, the record and the event together."
        if told := sorted({*decision.answers, *decision.supersedes}):
            many = "request" if len(told) == 1 else "requests"
            yield f"The authors of {many} {listed(map(str, told))} know the outcome."
    elif decision.action == "wait":
        when = f" on {moment(decision.wait_until)} at the latest" if decision.wait_until else ""
        yield f"What it waits for has arrived, and `spyre-ci pins decide` ran again{when}."
    else:
        when = f" on {moment(decision.next_due)}" if decision.next_due else " once a release is recorded"
        yield f"`spyre-ci pins decide` ran again{when}."
