from __future__ import annotations

import tracemalloc
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.record.events import End, parse
from ci.record.journal import Journal
from ci.record.verdict import Verdict
from ci.report.live.news import CardLost, Ended, FileBroken, FileEnded, Retried, WorkerLost
from ci.report.live.state import NOBODY, NOT_STARTED, State
from ci.report.reconcile import reconcile
from tests.journal_rows import events_from

from ..any_journals import EVENTS, PLAN  # noqa: TID252  # tests are no package with a name
from .small_states import A, B, C, D, Feed, shard, small_state


@st.composite
def told(draw: st.DrawFn) -> list[tuple[int, int, list[dict[str, Any]]]]:
    """What a supervisor hears: of each shard its attempts one after another, as (shard, attempt, events)."""
    found = []
    moments = draw(st.lists(st.integers(0, 500), min_size=40, max_size=40, unique=True))
    for index in range(draw(st.integers(0, 3))):
        for attempt in range(1, draw(st.integers(1, 3)) + 1):
            events = draw(st.lists(EVENTS.filter(lambda one: one["e"] != "shard_start"), max_size=3))
            begun = {"e": "shard_start", "attempt": attempt, "card": f"c{index}", "fingerprint": "f"}
            made: list[dict[str, Any]] = [{**one, "t": moments.pop()} for one in (begun, *events)]
            found.append((index, attempt, made))
    return found


@given(told(), st.randoms(use_true_random=False), st.booleans())
def test_what_is_seen_is_what_the_report_will_say(
    heard: list[tuple[int, int, list[dict[str, Any]]]], rng: Any, interrupted: bool
) -> None:
    state = State(PLAN.shards, cards=["c0"], expected_s={}, setup_s={}, now=0.0)
    waiting: dict[int, list[dict[str, Any]]] = {}
    for index, _, events in heard:
        waiting.setdefault(index, []).extend(events)
    ended: list[Ended] = []
    while waiting:
        index = rng.choice(sorted(waiting))
        ended += [
            one for one in state.take(index, parse(waiting[index].pop(0)), 1.0) if isinstance(one, Ended)
        ]
        if not waiting[index]:
            del waiting[index]
        assert sum(state.counts.values()) == state.settled <= state.planned
        for tally in state.files.values():
            assert sum(tally.counts.values()) == tally.settled <= tally.planned
    ended += [one for one in state.finish(2.0, interrupted=interrupted) if isinstance(one, Ended)]

    journals = [
        Journal(path=Path("x"), shard=one, attempt=number, events=events_from(events))
        for one, number, events in heard
    ]
    account = reconcile(PLAN, journals, interrupted=interrupted)
    assert {verdict: state.counts[verdict] for verdict in Verdict} == account.counts
    assert {one.id: state.verdict(one.id) for one in account.results} == {
        one.id: one.verdict for one in account.results
    }
    assert state.left == 0
    # The last that was told of each test is what it came to: who follows the events knows as much.
    assert {one.id: one.verdict for one in ended} == {one.id: one.verdict for one in account.results}


def test_a_try_whose_end_is_damaged_failed_where_another_was_ordered() -> None:
    feed = Feed(small_state())
    feed.begin(0, "a.py")
    for number in (1, 2):
        feed.event(0, "start", id=A, **{"try": number})
    list(feed.state.finish(9.0, interrupted=False))
    assert feed.state.verdict(A) is Verdict.FAILED


def test_a_test_that_is_run_again_counts_once() -> None:
    feed = Feed(small_state())
    feed.begin(0, "a.py")
    feed.begin(1, "b.py")
    feed.test(0, A, "failed", "it broke")
    assert (feed.state.counts[Verdict.FAILED], feed.state.settled) == (1, 1)
    news = feed.test(1, A, "passed", number=2)
    assert feed.state.counts == Counter({Verdict.FLAKY: 1, Verdict.FAILED: 0})
    assert feed.state.settled == 1
    assert [type(one) for one in news] == [Retried, Ended]
    ended = news[1]
    assert isinstance(ended, Ended)
    assert ended.outcome is Verdict.PASSED
    assert ended.verdict is Verdict.FLAKY
    assert ended.attempt == 2


def test_a_retry_of_a_try_that_nobody_told_of_is_flaky() -> None:
    feed = Feed(small_state())
    feed.begin(0, "a.py")
    feed.test(0, A, "passed", number=2)
    assert feed.state.verdict(A) is Verdict.FLAKY


def test_a_file_ends_once_with_its_cards_and_its_seconds() -> None:
    feed = Feed(small_state())
    feed.begin(0, "a.py")
    feed.test(0, A, "failed", "it broke")
    news = feed.test(0, B, "skipped", "not today")
    (ended,) = [one for one in news if isinstance(one, FileEnded)]
    assert ended.tally.file == "a.py"
    assert ended.tally.seconds == 5.0
    assert list(ended.tally.cards) == ["card:0"]
    assert ended.reasons == ((Verdict.SKIPPED, "not today", 1),)
    late = feed.test(0, A, "failed", "it broke", number=2)
    assert not [one for one in late if isinstance(one, FileEnded)]
    assert [one.repeated for one in late if isinstance(one, Ended)] == [True]


def test_a_lost_worker_takes_its_test_and_is_told() -> None:
    feed = Feed(small_state())
    feed.begin(0, "a.py")
    feed.event(0, "start", id=A)
    news = feed.event(0, "worker_lost", id=A, message="died by SIGKILL")
    assert [type(one) for one in news] == [WorkerLost, Ended]
    assert feed.state.verdict(A) is Verdict.INFRASTRUCTURE
    assert feed.state.at_work == []


def test_cards_at_work_are_those_that_run_or_set_up_something() -> None:
    feed = Feed(small_state())
    feed.begin(0, "a.py")
    assert feed.state.at_work == []
    feed.event(0, "start", id=A)
    feed.event(1, "shard_start", attempt=1, card="card:1")
    feed.event(1, "group_start", file="b.py", tests=2)
    assert [(one.card, one.state.file, one.state.setting_up) for one in feed.state.at_work] == [
        ("card:0", "a.py", False),
        ("card:1", "b.py", True),
    ]
    feed.event(1, "shard_end", status="done")
    assert [one.card for one in feed.state.at_work] == ["card:0"]


def test_a_lost_card_is_able_no_more_each_of_several_at_once() -> None:
    feed = Feed(small_state())
    feed.begin(0, "a.py")
    (news,) = feed.event(0, "card_lost", card="card:0+card:1", message="lost 2 times")
    assert news == CardLost(card="card:0+card:1", message="lost 2 times")
    assert feed.state.able == ()


def test_a_file_that_cannot_be_set_up_and_tests_given_up_are_told() -> None:
    feed = Feed(small_state())
    feed.begin(0, "a.py")
    (broken,) = feed.event(0, "file_error", file="a.py", message="ImportError: no\nsuch", detail="x")
    assert broken == FileBroken(file="a.py", card="card:0", message="ImportError: no such")
    news = feed.event(0, "not_run", ids=[A, B], message="ImportError: no such")
    assert [type(one) for one in news] == [Ended, Ended, FileEnded]
    assert feed.state.counts[Verdict.NOT_RUN] == 2


@pytest.mark.parametrize(("interrupted", "message"), [(True, NOT_STARTED), (False, NOBODY)])
def test_at_the_end_every_planned_test_has_been_told_of(interrupted: bool, message: str) -> None:
    feed = Feed(small_state())
    feed.begin(0, "a.py")
    feed.test(0, A, "passed")
    news = feed.state.finish(9.0, interrupted=interrupted)
    assert [(one.id, one.message) for one in news if isinstance(one, Ended)] == [
        (B, message),
        (C, message),
        (D, message),
    ]
    assert [one.tally.file for one in news if isinstance(one, FileEnded)] == ["a.py", "b.py"]


@pytest.mark.parametrize("stopped", ["", "stopped after 1 failure (--max-fail)"])
def test_what_was_running_when_the_run_ended_is_counted_among_what_was_not_run(stopped: str) -> None:
    feed = Feed(small_state())
    feed.begin(0, "a.py")
    feed.event(0, "start", id=A)
    if stopped:
        feed.event(0, "shard_end", status="stopped", message=stopped)
    news = feed.state.finish(9.0, interrupted=not stopped)
    reasons = next(one.reasons for one in news if isinstance(one, FileEnded) and one.tally.file == "a.py")
    running, other = (stopped, stopped) if stopped else ("interrupted", NOT_STARTED)
    expected = (
        {(Verdict.NOT_RUN, running, 2)}
        if stopped
        else {
            (Verdict.NOT_RUN, running, 1),
            (Verdict.NOT_RUN, other, 1),
        }
    )
    assert set(reasons) == expected


def test_the_rate_is_of_the_last_half_minute() -> None:
    names = [f"a.py::T::t{number}" for number in range(60)]
    state = small_state(shard(0, {"a.py": names}))
    for number, name in enumerate(names):
        event = End(id=name, outcome="passed", seconds=0.1)
        state.take(0, event, 1.0 if number < 30 else 100.0)
    assert state.rate(100.0) == 1.0
    assert state.rate(200.0) == 0.0


@pytest.mark.parametrize(
    "event",
    [
        {},
        {"e": None},
        {"e": "start"},
        {"e": "start", "id": []},
        {"e": "start", "id": A, "try": "x"},
        {"e": "shard_start", "attempt": "x", "card": 7},
        {"e": "group_start", "file": {}},
        {"e": "card_lost", "card": None},
        {"e": "worker_lost"},
        {"e": "not_run", "ids": "a"},
        {"e": "no_retry", "ids": "a"},
        {"e": "no_retry", "ids": [A], "message": "no other card is left"},
        {"e": "piece", "why": [], "attempt": {}},
        {"e": "end", "id": "nobody.py::planned", "outcome": "passed"},
    ],
)
def test_events_that_are_broken_or_of_nobody_change_no_count(event: dict[str, Any]) -> None:
    state = small_state()
    state.take(0, parse(event), 1.0)
    assert state.settled == 0


def test_what_is_kept_of_a_test_is_small() -> None:
    names = [f"a.py::T::t{number}" for number in range(2000)]
    state = small_state(shard(0, {"a.py": names}))
    long = "x" * 20_000
    for number, name in enumerate(names):
        event = End(t=number + 0.5, id=name, outcome="failed", message=long, detail=long)
        if number == 100:  # what comes once for the run has come
            tracemalloc.start()
        state.take(0, event, 1.0)
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len([one for test in state.tests.values() for one in test.tries]) == len(names)
    # A float that says when it began, and nothing besides.
    assert kept / 1900 < 40
    (worker,) = state._workers.values()
    assert not worker.state.tries


def test_what_another_host_took_is_no_longer_waited_for_and_is_not_called_not_run() -> None:
    feed = Feed(small_state())
    feed.begin(0, "a.py")
    feed.test(0, A, "passed")
    feed.event(0, "elsewhere", host="pod-7", ids=[A, B, C, D, "nobody's"])
    assert [one.tally.file for one in feed.news if isinstance(one, FileEnded)] == ["a.py"]
    assert (feed.state.planned, feed.state.left, feed.state.unended) == (1, 0, {})
    assert feed.state.finish(9.0, interrupted=False) == []
    assert +feed.state.counts == {Verdict.PASSED: 1}


@pytest.mark.parametrize("ids", [None, "all", 7, [[A]], [A, 7]])
def test_strange_words_of_other_hosts_change_nothing(ids: Any) -> None:
    feed = Feed(small_state())
    feed.event(0, "elsewhere", host="pod-7", ids=ids)
    assert feed.state.planned == 4


def test_what_is_taken_from_another_host_counts_here_also_in_a_file_that_had_ended() -> None:
    state = small_state(shard(0, {"a.py": [A]}), others={B: "a.py", C: "b.py"}, expected_s={C: 3.0})
    feed = Feed(state)
    feed.begin(0, "a.py")
    for name in (A, B, C):
        feed.test(0, name, "passed")
    assert (state.planned, state.settled, state.unended) == (3, 3, {})
    assert [one.tally.file for one in feed.news if isinstance(one, FileEnded)] == ["a.py", "b.py"]
    assert state.files["a.py"].counts[Verdict.PASSED] == 2
    assert state.finish(9.0, interrupted=False) == []


def test_a_retry_that_is_cut_short_is_no_reason_why_its_test_was_not_run() -> None:
    feed = Feed(small_state())
    feed.begin(1, "b.py")
    feed.begin(0, "a.py")
    feed.test(0, A, "failed", "x")
    feed.event(1, "start", id=A, **{"try": 2})
    feed.event(0, "start", id=B)
    ended = [one for one in feed.state.finish(9.0, interrupted=True) if isinstance(one, FileEnded)]
    told = sum(number for one in ended for verdict, _, number in one.reasons if verdict is Verdict.NOT_RUN)
    assert told == sum(one.tally.counts[Verdict.NOT_RUN] for one in ended) > 0
