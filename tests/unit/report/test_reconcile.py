"""Plan and journals become one verdict a planned test, whatever the journals hold (law 1)."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.record.journal import OUTCOMES, Journal, attempts_before
from ci.record.result import LOST, Result
from ci.record.verdict import Verdict
from ci.report.aggregates import sections
from ci.report.reconcile import Account, fold_journals, reconcile
from ci.runner.retries import IN_ORDER, NO_OTHER_CARD, TOO_MANY
from test_selection.ids import canonical_id
from tests.journal_rows import Row, events_from, rows_of

from .any_journals import PLAN, A, B, C, D, journals_of, make_plan


def journal(*events: Row, shard: int = 0, attempt: int = 1, torn: int = 0) -> Journal:
    timed = [{"t": float(number), **event} for number, event in enumerate(events)]
    return Journal(path=Path("x"), shard=shard, attempt=attempt, events=events_from(timed), torn=torn)


def e(kind: str, name: str | None = None, **content: Any) -> Row:
    return {"e": kind, **({} if name is None else {"id": name}), **content}


def ran(name: str, outcome: str = "passed", **content: Any) -> list[Row]:
    return [e("start", name), e("end", name, outcome=outcome, seconds=0.5, **content)]


def results(account: Account) -> dict[str, Result]:
    return {result.id: result for result in account.results}


START = e("shard_start", card="spyre:0", host="node7", fingerprint="f")
DONE = e("shard_end", status="done")
WHOLE = [
    journal(START, *ran(A), *ran(B), DONE),
    journal(START, *ran(C), *ran(D), DONE, shard=1),
]


def test_journals_that_are_folded_one_by_one_come_to_the_same_and_a_copy_counts_once() -> None:
    once = [journal(START, *ran(A), *ran(B), DONE, torn=1), *WHOLE[1:]]
    for journals in (once, [once[0], *once]):
        folded, states = fold_journals(journals)
        assert not any(one.events for one in folded)
        assert reconcile(PLAN, folded, states=states) == reconcile(PLAN, once)


def test_a_whole_run_has_every_verdict_in_the_order_of_the_plan() -> None:
    account = reconcile(PLAN, reversed(WHOLE))
    assert [result.id for result in account.results] == [A, B, C, D]
    assert account.counts[Verdict.PASSED] == 4
    assert (account.holes, account.interrupted, account.missing_shards) == ((), False, ())
    one = results(account)[C]
    assert (one.card, one.shard, one.file, one.seconds, one.attempts) == ("spyre:0", 1, "b.py", 0.5, 1)


def test_a_job_that_the_ci_ran_again_has_the_last_word_and_what_it_cured_is_flaky() -> None:
    # Failed, and failed again when it was retried; then somebody had the job run again.
    first = journal(START, *ran(A, "failed"), *ran(B), e("start", A, **{"try": 2}), DONE)
    retried = journal(
        START,
        *ran(A, "failed"),
        *ran(B),
        e("piece", why="retry", attempt=2),
        e("start", A, **{"try": 2}),
        e("end", A, outcome="failed", seconds=0.5, **{"try": 2}),
        DONE,
    )
    again = journal(START, *ran(A), *ran(B), DONE, attempt=attempts_before(2) + 1)
    for before in (first, retried):
        account = reconcile(PLAN, [again, before, WHOLE[1]])
        assert [one.verdict for one in account.results] == ["flaky", "passed", "passed", "passed"]
    still = journal(START, *ran(A, "failed"), *ran(B), DONE, attempt=attempts_before(3) + 1)
    assert results(reconcile(PLAN, [retried, again, still, WHOLE[1]]))[A].verdict is Verdict.FAILED


def test_a_leg_that_was_lost_and_run_again_leaves_no_trace_of_a_fault() -> None:
    lost = journal(START, *ran(A), e("start", B))
    assert results(reconcile(PLAN, [lost, WHOLE[1]]))[B].verdict is Verdict.INFRASTRUCTURE
    again = journal(START, *ran(A), *ran(B), DONE, attempt=attempts_before(2) + 1)
    account = reconcile(PLAN, [lost, again, WHOLE[1]])
    assert account.counts[Verdict.PASSED] == 4
    assert account.holes == ()


def test_a_crash_fails_its_test_with_the_cause_and_nothing_else() -> None:
    crash = e("crash", A, cause="signal", message="SIGSEGV", detail="stack", seconds=3.0)
    one = results(reconcile(PLAN, [journal(START, e("start", A), crash, *ran(B), DONE)]))
    assert (one[A].verdict, one[A].cause, one[A].message, one[A].detail, one[A].seconds) == (
        Verdict.FAILED,
        "signal",
        "SIGSEGV",
        "stack",
        3.0,
    )
    assert one[B].verdict is Verdict.PASSED


def test_a_start_without_an_end_is_infrastructure() -> None:
    one = results(reconcile(PLAN, [journal(START, e("start", A))]))[A]
    assert (one.verdict, one.message) == (Verdict.INFRASTRUCTURE, "the worker exited without a result")


@pytest.mark.parametrize("name", [A, None])
def test_a_lost_worker_costs_the_running_test_its_outcome(name: str | None) -> None:
    lost = {"e": "worker_lost", "id": name, "message": "pod evicted"}
    one = results(reconcile(PLAN, [journal(START, e("start", A), lost, *ran(B), DONE)]))
    assert (one[A].verdict, one[A].message) == (Verdict.INFRASTRUCTURE, "pod evicted")
    assert one[B].verdict is Verdict.PASSED


def test_a_later_attempt_replaces_a_lost_one_and_says_so() -> None:
    first = journal(START, e("start", A), e("worker_lost", A, message="pod evicted"))
    second = journal(START, *ran(A), *ran(B), DONE, attempt=2)
    one = results(reconcile(PLAN, [second, first]))[A]
    assert (one.verdict, one.attempts) == (Verdict.PASSED, 2)
    assert "pod evicted" in one.message


def test_what_an_interrupt_cut_short_and_then_ran_was_tried_twice_and_lost_nothing() -> None:
    first = journal(START, e("start", A), e("shard_end", status="interrupted"))
    again = journal(START, *ran(A), *ran(B), DONE, attempt=2)
    one = results(reconcile(PLAN, [first, again]))[A]
    assert (one.verdict, one.attempts, one.interrupted) == (Verdict.PASSED, 2, 1)
    assert one.message == "attempt 1: not run: interrupted; attempt 2: passed"
    assert not sections([one])["retried"].results
    lost = journal(START, e("start", A), e("worker_lost", A, message="pod evicted"), DONE, attempt=2)
    one = results(reconcile(PLAN, [first, lost, replace(again, attempt=3)]))[A]
    assert (one.attempts, one.interrupted) == (3, 1)
    assert list(sections([one])["retried"].results) == [one]


@pytest.mark.parametrize(
    "piece", [[], [e("piece", why="retry", attempt=2)], [e("piece", why="plan", attempt=1)]]
)
def test_a_retry_whose_first_journal_is_lost_is_never_a_silent_pass(piece: list[Row]) -> None:
    again = [e("start", A, **{"try": 2}), e("end", A, outcome="passed")]
    one = results(reconcile(PLAN, [journal(START, *piece, *again, *ran(B), DONE), WHOLE[1]]))[A]
    assert (one.verdict, one.attempts) == (Verdict.FLAKY, 2)
    assert one.message == f"attempt 1: failed: {LOST}; attempt 2: passed"


@pytest.mark.parametrize("outcome", ["passed", "hardware"])
def test_a_retry_whose_first_try_has_a_damaged_end_is_never_a_silent_pass(outcome: str) -> None:
    first = journal(START, e("start", A), e("shard_end", status="done"))
    again = [e("piece", why="retry", attempt=2), e("start", A, **{"try": 2}), e("end", A, outcome=outcome)]
    one = results(reconcile(PLAN, [first, journal(START, *again, *ran(B), DONE, attempt=2), WHOLE[1]]))[A]
    assert one.verdict is (Verdict.FLAKY if outcome == "passed" else Verdict.HARDWARE)
    assert one.message.startswith(f"attempt 1: failed: {LOST}; attempt 2")


def test_what_was_taken_over_from_a_lost_host_may_have_run_before_and_is_not_flaky() -> None:
    piece = e("piece", file="a.py", why="stolen", attempt=2)
    over = [e("start", A, **{"try": 2}), e("end", A, outcome="passed")]
    account = reconcile(PLAN, [journal(START, piece, *over, *ran(B), DONE), WHOLE[1]])
    one = results(account)[A]
    assert (one.verdict, one.message) == (
        Verdict.PASSED, "may have run before: another host started it and was lost",
    )  # fmt: skip
    assert account.notes == ("1 test may have run before: another host started it and was lost",)
    told = journal(START, e("start", A), shard=1, attempt=7)
    one = results(reconcile(PLAN, [journal(START, piece, *over, *ran(B), DONE), WHOLE[1], told]))[A]
    assert (one.verdict, one.attempts) == (Verdict.PASSED, 2)


def test_a_journal_of_ones_own_whose_first_line_is_torn_counts_and_is_told() -> None:
    headless = journal(e("group_start", file="a.py"), *ran(A, "failed"), *ran(B), DONE, torn=1)
    account = reconcile(PLAN, [headless, WHOLE[1]])
    assert [one.verdict.value for one in account.results] == ["failed", "passed", "passed", "passed"]
    assert (account.foreign, account.notes) == ((), (
        "1 torn line in journal/0-1.jsonl",
        ("journal/0-1.jsonl has lost its first line, which names its plan; "
         "all its tests are planned, so it counts"),
    ))  # fmt: skip


@pytest.mark.parametrize("file", ["a.py", "a%b.py", "a:b#c.py", "a\nb\udcff.py"])
def test_a_journal_without_its_first_line_is_known_by_its_file_whatever_that_is_called(file: str) -> None:
    name = canonical_id(file, "T", "test", {})
    headless = journal(e("group_start", file=file), *ran(name), DONE, torn=1)
    account = reconcile(make_plan({file: [name]}), [headless])
    assert results(account)[name].verdict is Verdict.PASSED
    assert account.foreign == ()


@pytest.mark.parametrize(
    "strange",
    [
        ran("z.py::other"),
        [{"e": "not_run", "ids": ["z.py::other"], "message": "x"}],
        [{"e": "elsewhere", "ids": ["z.py::other"], "host": "x"}],
        [e("file_error", file="z.py", message="x")],
        [e("group_start", file="z.py")],
    ],
)
def test_a_journal_of_another_plan_whose_first_line_is_damaged_is_no_evidence(strange: list[Row]) -> None:
    headless = journal(*ran(A, "failed"), *strange, DONE, attempt=2, torn=1)
    account = reconcile(PLAN, [*WHOLE, headless])
    assert {one.verdict for one in account.results} == {Verdict.PASSED}
    assert (account.foreign, account.unplanned, account.file_errors) == (("0-2",), (), ())
    assert account.notes[1] == (
        "journal/0-2.jsonl has lost its first line, which names its plan; "
        "it reports tests that were not planned, so it is ignored"
    )
    assert account.holes == ("1 journal of another plan",)


def test_a_journal_of_which_nothing_can_be_read_is_nobody_s_and_harms_nobody() -> None:
    account = reconcile(PLAN, [*WHOLE, journal(attempt=2, torn=1)])
    assert (account.foreign, account.counts[Verdict.PASSED], account.holes) == ((), 4, ())


def test_what_another_host_answers_for_is_planned_too() -> None:
    part = replace(PLAN, shards=PLAN.shards[:1])
    headless = journal(*ran(A), *ran(B), *ran(C), DONE, torn=1)
    assert reconcile(part, [headless], known=PLAN.ids).foreign == ()
    assert reconcile(part, [headless]).foreign == ("0-1",)


@pytest.mark.parametrize("number", ["2", 2.0, True, 0, -1, 10**9, [], None])
def test_a_number_of_a_try_that_is_none_is_the_first(number: object) -> None:
    odd = [e("start", A, **{"try": number}), e("end", A, outcome="passed")]
    one = results(reconcile(PLAN, [journal(START, *odd, *ran(B), DONE)]))[A]
    assert (one.verdict, one.attempts) == (Verdict.PASSED, 1)


def test_a_failure_that_was_not_run_again_says_why() -> None:
    given = {"e": "no_retry", "ids": [A, B], "message": "no other\ncard is left"}
    account = reconcile(PLAN, [journal(START, *ran(A, "failed", message="boom"), *ran(B), given, DONE)])
    one = results(account)
    assert one[A].message == "boom; not run again: no other card is left"
    assert one[B].message == ""
    assert account.torn == 0


@pytest.mark.parametrize("reason", [IN_ORDER, NO_OTHER_CARD, TOO_MANY])
def test_why_a_failure_was_not_run_again_is_said_without_a_stutter(reason: str) -> None:
    given = {"e": "no_retry", "ids": [A], "message": reason}
    one = results(reconcile(PLAN, [journal(START, *ran(A, "failed", message="boom"), given, DONE)]))[A]
    assert one.message == f"boom; not run again: {reason}"
    assert one.message.count("run again: ") == 1


def test_the_running_test_of_an_interrupted_journal_is_not_run() -> None:
    account = reconcile(PLAN, [journal(START, *ran(A), e("start", B), e("shard_end", status="interrupted"))])
    one = results(account)[B]
    assert (one.verdict, one.message) == (Verdict.NOT_RUN, "interrupted")
    assert account.interrupted


def test_what_is_left_of_a_run_that_stopped_says_why_and_is_no_interrupt() -> None:
    enough = "stopped after 1 failure (--max-fail)"
    ended = (e("shard_end", status="interrupted"), e("shard_end", status="stopped", message=enough))
    first = journal(START, *ran(A, "failed"), e("start", B), *ended)
    account = reconcile(PLAN, [first, journal(ended[1], shard=1)])
    one = results(account)
    assert [one[name].message for name in (B, C, D)] == [enough] * 3
    assert (account.stopped, account.interrupted, account.notes) == ({enough: 3}, False, ())
    again = [
        journal(START, *ran(B), DONE, attempt=2),
        journal(START, *ran(C), *ran(D), DONE, shard=1, attempt=2),
    ]
    assert not reconcile(PLAN, [first, journal(ended[1], shard=1), *again]).stopped


def test_the_caller_can_say_that_a_journal_without_end_was_interrupted() -> None:
    account = reconcile(PLAN, [journal(START, e("start", A)), WHOLE[1]], interrupted=True)
    one = results(account)
    assert (one[A].verdict, one[A].message) == (Verdict.NOT_RUN, "interrupted")
    assert one[B].message == "the journal of shard 0 ends before it"
    assert account.interrupted


def test_a_run_that_was_interrupted_when_nothing_was_left_is_whole() -> None:
    ended = journal(START, *ran(A), *ran(B), e("shard_end", status="interrupted"))
    assert reconcile(PLAN, [ended, WHOLE[1]]).interrupted is False
    assert reconcile(PLAN, [ended]).interrupted is False  # what is missing is of a shard nobody interrupted


def test_a_test_that_may_have_run_before_says_so_whatever_became_of_it() -> None:
    events = [e("resumed", ids=[A, B], message="lost"), START, *ran(A), *ran(B, "failed", message="bad")]
    account = reconcile(PLAN, [journal(*events, DONE, attempt=2), WHOLE[1]])
    one = results(account)
    assert (one[A].verdict, one[A].message) == (Verdict.PASSED, "may have run before: lost")
    assert one[B].message == "bad; may have run before: lost"
    assert account.notes == ("2 tests may have run before: lost",)


def test_what_was_lost_of_a_journal_is_told_by_its_name_once() -> None:
    lossy = Journal(path=Path("x"), shard=0, attempt=2, torn=1, damaged=2)
    account = reconcile(PLAN, [*WHOLE, lossy, lossy])
    assert account.torn == 3
    assert account.notes == (
        "1 torn line in journal/0-2.jsonl",
        "2 lines with a wrong checksum in journal/0-2.jsonl",
    )


def test_an_interrupted_attempt_that_was_run_again_no_longer_counts_as_interrupted() -> None:
    first = journal(START, e("start", A), e("shard_end", status="interrupted"))
    account = reconcile(PLAN, [first, journal(START, *ran(A), *ran(B), DONE, attempt=2), WHOLE[1]])
    assert account.interrupted is False
    assert account.counts[Verdict.PASSED] == 4


@pytest.mark.parametrize(
    ("journals", "reason"),
    [
        ([], "shard 0 has no journal: it never ran, or its journal was not collected"),
        ([journal(START, DONE)], "shard 0 ended without starting it"),
        ([journal(START)], "the journal of shard 0 ends before it"),
        ([journal(START, e("shard_end", status="interrupted"))], "interrupted before it was started"),
        ([journal(START, e("not_run", ids=[A, B], message="no card left"), DONE)], "no card left"),
        (
            [journal(START, e("file_error", file="a.py", message="ImportError: x", detail="…"), DONE)],
            "a.py could not be imported: ImportError: x",
        ),
    ],
)
def test_a_test_that_was_never_started_is_not_run_with_the_reason(
    journals: list[Journal], reason: str
) -> None:
    one = results(reconcile(PLAN, [*journals, WHOLE[1]]))[A]
    assert (one.verdict, one.message, one.attempts, one.shard) == (Verdict.NOT_RUN, reason, 0, 0)


def test_a_shard_without_a_journal_is_a_hole() -> None:
    account = reconcile(PLAN, WHOLE[:1])
    assert account.missing_shards == (1,)
    assert account.holes == ("1 shard without a journal",)


def test_a_shard_whose_tests_others_ran_is_no_hole() -> None:
    account = reconcile(PLAN, [journal(START, *ran(A), *ran(B), *ran(C), *ran(D), DONE)])
    assert account.missing_shards == ()
    assert results(account)[C].shard == 0


def test_ids_nobody_planned_are_a_hole_and_get_no_verdict() -> None:
    account = reconcile(PLAN, [journal(START, *ran(A), *ran(B), *ran("z"), DONE), WHOLE[1]])
    assert account.unplanned == ("z",)
    assert account.holes == ("1 test reported that were not planned",)
    assert len(account.results) == 4


def test_torn_lines_and_malformed_events_are_counted() -> None:
    broken = journal(START, e("start"), e("end", A), e("not_run", ids="a"), torn=2)
    assert reconcile(PLAN, [broken]).torn == 5


def test_an_outcome_nobody_knows_is_infrastructure() -> None:
    one = results(reconcile(PLAN, [journal(START, *ran(A, "great"))]))[A]
    assert one.verdict is Verdict.INFRASTRUCTURE
    assert "'great'" in one.message


def test_the_reason_of_a_declared_outcome_stands_with_the_result() -> None:
    one = results(reconcile(PLAN, WHOLE, expectations={A: "no fp8 yet"}))
    assert (one[A].expectation, one[B].expectation) == ("no fp8 yet", "")


def test_groups_are_timed_with_their_set_up() -> None:
    group = e("group_start", file="a.py", tests=2)
    account = reconcile(
        PLAN,
        [journal(START, group, e("group_ready", file="a.py", setup_s=0.75), *ran(A), *ran(B), DONE)],
    )
    line = account.timelines[0]
    assert (line.card, line.host, line.status, line.started_at, line.ended_at) == (
        "spyre:0",
        "node7",
        "done",
        0,
        7,
    )
    assert [(one.file, one.setup_s, one.started_at, one.ended_at) for one in line.groups] == [
        ("a.py", 0.75, 1, 7)
    ]
    assert account.setup_seconds() == {"a.py": [0.75]}
    assert account.expected_s == {0: 10, 1: 10}
    assert account.ended_at == 7


def test_a_group_ends_where_the_next_one_starts() -> None:
    starts = [e("group_start", file="a.py"), e("group_start", file="b.py"), DONE]
    groups = reconcile(PLAN, [journal(START, *starts)]).timelines[0].groups
    assert [(one.file, one.started_at, one.ended_at) for one in groups] == [("a.py", 1, 2), ("b.py", 2, 3)]


def test_a_crash_without_seconds_lasted_from_its_start() -> None:
    events: list[Row] = [
        {"t": 100.0, "e": "start", "id": A},
        {"t": 104.0, "e": "worker_lost", "id": A, "message": "gone"},
    ]
    one = results(reconcile(PLAN, [journal(*events)]))[A]
    assert (one.seconds, one.started_at) == (4.0, 100.0)


@given(journals_of(), st.booleans())
def test_whatever_the_journals_hold_every_planned_test_gets_exactly_one_verdict(
    journals: list[Journal], interrupted: bool
) -> None:
    account = reconcile(PLAN, journals, interrupted=interrupted)
    assert Counter(result.id for result in account.results) == Counter(PLAN.ids)
    assert sum(account.counts.values()) == len(PLAN.ids)
    assert all(result.message for result in account.results if result.verdict is Verdict.NOT_RUN)
    assert all(0 <= result.seconds < 1e300 for result in account.results)
    assert not set(account.unplanned) & set(PLAN.ids)


@given(journals_of())
def test_journals_that_are_given_twice_or_in_another_order_change_nothing(journals: list[Journal]) -> None:
    unique = list({(one.shard, one.attempt): one for one in journals}.values())
    assert reconcile(PLAN, [*reversed(unique), *unique]) == reconcile(PLAN, unique)


@given(st.integers(0, 40), st.data())
def test_a_journal_cut_anywhere_loses_no_test_and_invents_no_pass(cut: int, data: st.DataObject) -> None:
    outcomes = [data.draw(st.sampled_from(OUTCOMES)) for _ in PLAN.ids]
    events = [START]
    for name, outcome in zip(PLAN.ids, outcomes, strict=True):
        events += ran(name, outcome)
    whole = journal(*events, DONE)
    cut_short = Journal(path=whole.path, shard=0, attempt=1, events=whole.events[:cut], torn=1)
    account = reconcile(PLAN, [cut_short])
    for result, outcome in zip(account.results, outcomes, strict=True):
        assert result.verdict in (outcome, Verdict.INFRASTRUCTURE, Verdict.NOT_RUN)
    assert sum(account.counts.values()) == 4


def test_tries_told_by_several_shards_count_in_the_order_of_attempts_and_time() -> None:
    early = journal(START, *ran(A, "failed"), shard=1)
    late = journal(START, *ran(A), *ran(B), DONE, attempt=2)
    assert results(reconcile(PLAN, [late, early]))[A].verdict is Verdict.FLAKY
    other = Journal(
        path=Path("x"),
        shard=0,
        attempt=1,
        events=events_from({**one, "t": one.get("t", 0.0) + 50} for one in rows_of(late.events)),
    )
    assert results(reconcile(PLAN, [other, early]))[A].verdict is Verdict.FLAKY


def test_a_second_start_without_an_end_of_the_first_is_a_second_try() -> None:
    one = results(reconcile(PLAN, [journal(START, e("start", A), *ran(A), *ran(B), DONE)]))[A]
    assert (one.verdict, one.attempts) == (Verdict.PASSED, 2)
    assert one.message == "attempt 1: infrastructure: the worker exited without a result; attempt 2: passed"


def op_set(key: str, *ops: str) -> Row:
    return e("op_set", key=key, ops=list(ops))


def test_what_tests_called_comes_of_their_whole_tries() -> None:
    broken = journal(
        START,
        op_set("k1", "aten::add float32"),
        op_set("none"),
        *ran(A, "failed", ops="k1"),
        *ran(B, "hardware", ops="k1"),
        *ran(C, ops="none"),
        *ran(D, ops="torn"),
    )
    assert reconcile(PLAN, [broken]).op_traces == {}

    again = journal(START, op_set("k1", "aten::mul float32"), *ran(A, "failed", ops="k1"), *ran(D), shard=1)
    retried = journal(
        START, op_set("k1", "aten::mul float32"), *ran(A, ops="k1"), *ran(B, "skipped", ops="k1"), shard=1
    )
    assert reconcile(PLAN, [broken, again]).op_traces == {}
    assert reconcile(PLAN, [broken, retried]).op_traces == {
        A: ["aten::mul float32"],
        B: ["aten::mul float32"],
    }
