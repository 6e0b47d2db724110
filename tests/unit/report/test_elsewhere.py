"""What another host ran is neither lost nor this host's to answer for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ci.record.journal import Journal
from ci.record.verdict import Verdict
from ci.report.reconcile import reconcile, replay_all, what_ran_here
from tests.journal_rows import Row, events_from

from .any_journals import PLAN, A, B, C, D


def journal(shard: int, *events: Row) -> Journal:
    start = {"e": "shard_start", "fingerprint": PLAN.fingerprint, "card": "c", "host": "h"}
    rows = [start, *events, {"e": "shard_end", "status": "done"}]
    return Journal(
        path=Path("x"),
        shard=shard,
        attempt=1,
        events=events_from({"t": float(number), **row} for number, row in enumerate(rows)),
    )


def ran(name: str) -> list[Row]:
    return [{"e": "start", "id": name}, {"e": "end", "id": name, "outcome": "passed", "seconds": 0.1}]


def elsewhere(*ids: str, host: Any = "pod-7") -> Row:
    return {"e": "elsewhere", "ids": list(ids), "host": host}


def test_each_host_answers_for_what_it_ran_and_all_for_the_whole() -> None:
    first = journal(0, *ran(A), elsewhere(B))
    second = journal(1, *ran(B), *ran(C), *ran(D))
    parts = [what_ran_here(PLAN, [0], replay_all([first])), what_ran_here(PLAN, [1], replay_all([second]))]
    assert [sorted(part.ids) for part in parts] == [[A], sorted([B, C, D])]
    assert [[shard.index for shard in part.shards] for part in parts] == [[0], [1]]
    for part, one in zip(parts, (first, second), strict=True):
        account = reconcile(part, [one])
        assert account.holes == ()
        assert account.counts[Verdict.PASSED] == len(part.ids)
    whole = reconcile(PLAN, [first, second])
    assert whole.counts[Verdict.PASSED] == 4
    assert whole.holes == ()


def test_what_the_other_host_does_not_tell_of_is_not_run_and_says_who_had_it() -> None:
    account = reconcile(PLAN, [journal(0, *ran(A), elsewhere(B)), journal(1, *ran(C), *ran(D))])
    (lost,) = [one for one in account.results if one.verdict is Verdict.NOT_RUN]
    assert lost.id == B
    assert lost.message == "pod-7 claimed it, and no collected journal reports it"


def test_a_host_whose_tests_all_went_to_others_has_nothing_to_answer_for() -> None:
    part = what_ran_here(PLAN, [0], replay_all([journal(0, elsewhere(A, B))]))
    assert part.ids == []
    assert reconcile(part, []).missing_shards == ()


def test_what_was_begun_here_stays_here_though_another_took_it_over() -> None:
    part = what_ran_here(PLAN, [0], replay_all([journal(0, *ran(A), elsewhere(A, B))]))
    assert part.ids == [A]


def test_what_was_cut_off_here_and_went_to_another_is_that_ones_to_answer_for() -> None:
    cut_off: list[Row] = [{"e": "start", "id": B}, {"e": "not_run", "ids": [B], "message": "interrupted"}]
    one = journal(0, *ran(A), *cut_off, elsewhere(B))
    part = what_ran_here(PLAN, [0], replay_all([one]))
    assert part.ids == [A]
    account = reconcile(part, [one], known=PLAN.ids)
    assert account.holes == ()
    assert reconcile(part, [one]).unplanned == (B,)


def test_broken_words_of_other_hosts_are_counted_and_not_believed() -> None:
    broken: list[Row] = [
        {"e": "elsewhere"},
        {"e": "elsewhere", "ids": "all"},
        {"e": "elsewhere", "ids": [7]},
    ]
    account = reconcile(PLAN, [journal(0, *ran(A), *ran(B), *broken, elsewhere(B, host=7))])
    assert account.torn == 3


@given(st.sets(st.sampled_from([A, B])), st.sets(st.sampled_from([C, D])))
def test_parts_of_hosts_that_took_from_each_other_are_the_plan(
    from_first: set[str], from_second: set[str]
) -> None:
    first = journal(
        0,
        *(event for name in {A, B} - from_first | from_second for event in ran(name)),
        elsewhere(*from_first),
    )
    second = journal(
        1,
        *(event for name in {C, D} - from_second | from_first for event in ran(name)),
        elsewhere(*from_second),
    )
    parts = [what_ran_here(PLAN, [0], replay_all([first])), what_ran_here(PLAN, [1], replay_all([second]))]
    assert sorted(name for part in parts for name in part.ids) == sorted([A, B, C, D])
