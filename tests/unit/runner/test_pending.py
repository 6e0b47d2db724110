"""Retries that a run still had to make when it was cut off, as its journals tell."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.record.events import NoRetry
from ci.record.journal import XPASS_STRICT, Journal
from ci.runner.pending import Pending, pending_retries
from ci.runner.retries import NO_OTHER_CARD, TOO_MANY, Retries
from tests.journal_rows import Row, events_from

CARDS = ("spyre:0", "spyre:1", "spyre:2+spyre:3")


def journal(*events: Row, card: str = "spyre:0", number: int = 1, boot: str = "") -> Journal:
    begin = {"e": "shard_start", "t": 0.0, "card": card, "boot": boot}
    path = Path(f"journal/0-{number}.jsonl")
    return Journal(path=path, shard=0, attempt=number, events=events_from([begin, *events]))


def tried(name: str, outcome: str, number: int = 1, t: float | None = None, **more: Any) -> list[Row]:
    t = float(number) if t is None else t
    start: Row = {"e": "start", "t": t, "id": name} | ({"try": number} if number > 1 else {})
    match outcome:
        case "cut":
            return [start]
        case "crash":
            return [start, {"e": "crash", "t": t, "id": name, "cause": "signal", **more}]
        case "lost":
            return [start, {"e": "worker_lost", "t": t, "id": name, **more}]
        case _:
            return [start, {"e": "end", "t": t, "id": name, "outcome": outcome, **more}]


@pytest.mark.parametrize(
    ("events", "attempt"),
    [
        (tried("a", "failed"), 2),
        (tried("a", "crash"), 2),
        (tried("a", "hardware"), 2),
        ([*tried("a", "failed"), *tried("a", "cut", 2)], 3),
        (tried("a", "failed", 4), 5),
        ([*tried("a", "lost"), *tried("a", "passed", 2)], None),
        (tried("a", "passed"), None),
        (tried("a", "skipped"), None),
        (tried("a", "xfailed"), None),
        ([*tried("a", "failed"), *tried("a", "passed", 2)], None),
        ([*tried("a", "failed"), *tried("a", "skipped", 2)], None),
        ([*tried("a", "failed"), *tried("a", "failed", 2)], None),
        ([*tried("a", "failed"), *tried("a", "lost", 2)], 3),
        ([*tried("a", "lost"), *tried("a", "failed", 2)], 3),
        ([*tried("a", "failed"), *tried("a", "lost", 2), *tried("a", "lost", 3)], None),
        (tried("a", "lost"), None),
        (tried("a", "cut"), None),
        (tried("a", "failed", message=f"{XPASS_STRICT} x"), None),
        ([*tried("a", "failed"), {"e": "no_retry", "ids": ["a"], "message": "no other card"}], None),
        ([*tried("a", "failed", t=1.0), *tried("a", "passed", t=2.0)], None),
        ([*tried("a", "passed", t=1.0), *tried("a", "failed", t=2.0)], 2),
    ],
)
def test_what_failed_last_and_has_a_try_left_is_pending(events: list[Row], attempt: int | None) -> None:
    expected = [] if attempt is None else [Pending("a", frozenset({"spyre:0"}), attempt)]
    assert [(*one[:3],) for one in pending_retries([journal(*events)], 1)] == [one[:3] for one in expected]
    assert pending_retries([journal(*events)], 0) == []


def test_on_another_machine_there_are_other_cards() -> None:
    no_other: Row = {"e": "no_retry", "ids": ["a"], "message": f"{NO_OTHER_CARD}; spyre:1 is held"}
    found = journal(*tried("a", "hardware", card="spyre:0"), no_other, boot="one")
    assert pending_retries([found], 1, "one") == pending_retries([found], 1) == []
    assert pending_retries([found], 1, "two") == [Pending("a", frozenset(), 2)]
    # It failed there, too; and what was said for another reason holds everywhere.
    again = journal(*tried("a", "hardware", 2, t=2.0), no_other, number=2, boot="two")
    assert pending_retries([found, again], 1, "three") == []
    assert pending_retries([found, again], 2, "two") == []
    assert pending_retries([found, again], 2, "one") == []
    assert pending_retries([found, again], 2, "three") == [Pending("a", frozenset(), 3, 2)]
    found.events[-1] = NoRetry(ids=["a"], message=TOO_MANY)
    assert pending_retries([found], 1, "two") == []


def test_tries_are_counted_over_all_journals_whatever_their_order() -> None:
    first = journal(*tried("a", "failed"), *tried("b", "failed"))
    other = journal(*tried("a", "failed", 2, t=2.0), card="spyre:1+spyre:2", number=2)
    for journals in ([first, other], [other, first]):
        assert sorted(pending_retries(journals, 2)) == [
            Pending("a", frozenset({"spyre:0", "spyre:1", "spyre:2"}), 3, failed=2),
            Pending("b", frozenset({"spyre:0"}), 2),
        ]
        assert [one.id for one in pending_retries(journals, 1)] == ["b"]


def test_strange_events_are_no_tries() -> None:
    strange: list[Row] = [
        {"e": "end"}, {"e": "end", "id": 3, "outcome": "failed"}, {"e": "start", "id": ["x"], "try": "y"},
        {"e": "worker_lost", "id": None}, {"e": "no_retry", "ids": 7}, {"e": "crash", "id": "a", "t": "x"},
        {"e": "start", "id": "a", "try": -1}, {"e": "end", "id": "b", "outcome": ["failed"]},
    ]  # fmt: skip
    assert pending_retries([journal(*strange, card="")], 1) == [Pending("a", frozenset(), 2)]


_TURNS = st.lists(
    st.tuples(
        st.sampled_from(CARDS),
        st.sampled_from(["passed", "failed", "crash", "hardware", "skipped", "xfailed"]),
        st.booleans(),
    ),
    max_size=40,
)


@given(_TURNS, st.integers(0, 3), st.booleans())
def test_they_are_those_that_the_run_that_was_cut_off_had_waiting(
    turns: list[tuple[str, str, bool]], most: int, cut: bool
) -> None:
    retries = Retries(most=most, budget=10**6)
    told: dict[str, list[Row]] = {card: [] for card in CARDS}
    expected_more: list[Pending] = []
    for moment, (card, outcome, new) in enumerate(turns):
        again = None if new else retries.take(card)
        name, number = (f"t{moment}", 1) if again is None else (again.id, again.attempt)
        if again is not None and cut and moment == len(turns) - 1:
            told[card] += tried(name, "cut", number, t=float(moment))
            expected_more = [Pending(name, again.avoid, number + 1)]
            continue
        told[card] += tried(name, outcome, number, t=float(moment))
        if outcome in ("failed", "crash", "hardware"):
            retries.failed(name, file="f.py", of=0, card=card, attempt=number)
    journals = [
        journal(*events, card=card, number=number) for number, (card, events) in enumerate(told.items(), 1)
    ]
    waiting = [Pending(one.id, one.avoid, one.attempt) for one in retries.waiting]
    found = sorted(one[:3] for one in pending_retries(journals, most))
    assert found == sorted(one[:3] for one in [*waiting, *expected_more])
