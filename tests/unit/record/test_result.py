"""Verdicts over several tries, and the exit code."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.record.journal import attempts_before
from ci.record.result import LOST, Failures, Try, fold, judge, settle
from ci.record.verdict import NO_OUTCOME, Verdict
from ci.report.live.news import Tally
from ci.report.live.state import PlannedTest, Told

PASSED, FAILED, FLAKY, SKIPPED, XFAILED, XPASSED, HARDWARE, INFRASTRUCTURE, NOT_RUN = Verdict
OUTCOMES = [one for one in Verdict if one is not FLAKY]


@pytest.mark.parametrize(
    ("outcomes", "verdict"),
    [
        ([PASSED], PASSED),
        ([FAILED], FAILED),
        ([FAILED, FAILED], FAILED),
        ([FAILED, PASSED], FLAKY),
        ([FAILED, SKIPPED], FAILED),
        ([PASSED, FAILED], FAILED),
        ([HARDWARE, PASSED], HARDWARE),
        ([HARDWARE, FAILED], FAILED),
        ([FAILED, HARDWARE, PASSED], HARDWARE),
        ([INFRASTRUCTURE, PASSED], PASSED),
        ([INFRASTRUCTURE, FAILED], FAILED),
        ([PASSED, INFRASTRUCTURE], PASSED),
        ([INFRASTRUCTURE, NOT_RUN], INFRASTRUCTURE),
        ([NOT_RUN], NOT_RUN),
        ([NOT_RUN, XFAILED], XFAILED),
        ([], NOT_RUN),
    ],
)
def test_tries_fold_into_one_verdict(outcomes: list[Verdict], verdict: Verdict) -> None:
    assert fold(outcomes) is verdict


@given(st.lists(st.sampled_from(OUTCOMES), max_size=6))
def test_a_failure_or_a_fault_of_the_card_is_never_a_silent_pass(outcomes: list[Verdict]) -> None:
    if FAILED in outcomes or HARDWARE in outcomes:
        assert fold(outcomes) in (FAILED, FLAKY, HARDWARE)


@given(st.lists(st.sampled_from(OUTCOMES), max_size=6))
def test_a_lost_try_never_hides_an_outcome(outcomes: list[Verdict]) -> None:
    own = [one for one in outcomes if one not in NO_OUTCOME]
    if own:
        assert fold(outcomes) is fold(own)


MANY = "".join(f"attempt {n}: failed: {n}; " for n in range(1, 6)) + "…; attempt 20: failed: 20"


@pytest.mark.parametrize(
    ("tries", "told"),
    [
        # What was lost to infrastructure stays visible in the message.
        ([Try(outcome=INFRASTRUCTURE, message="pod evicted", card="0"),
          Try(outcome=PASSED, seconds=2.5, card="1")],
         {"verdict": PASSED, "attempts": 2, "seconds": 2.5, "card": "1",
          "message": "attempt 1: infrastructure: pod evicted; attempt 2: passed"}),
        # A flaky test shows the card, the cause and the traceback of its failure.
        ([Try(outcome=FAILED, message="boom", cause="signal", detail="trace", card="0", seconds=9),
          Try(outcome=PASSED, card="1", seconds=1)],
         {"verdict": FLAKY, "card": "0", "cause": "signal", "detail": "trace", "seconds": 1}),
        # A try that is lost, while a later one says that it was ordered for its sake, failed.
        ([Try(outcome=PASSED, number=2, again=True)],
         {"verdict": FLAKY, "attempts": 2, "seconds": 0.0,
          "message": f"attempt 1: failed: {LOST}; attempt 2: passed"}),
        ([Try(outcome=INFRASTRUCTURE, message="gone"), Try(outcome=PASSED, number=3, again=True)],
         {"verdict": FLAKY, "attempts": 3,
          "message": f"attempt 1: infrastructure: gone; attempt 2: failed: {LOST}; attempt 3: passed"}),
        ([Try(outcome=SKIPPED, number=2, again=True)], {"verdict": FAILED}),
        # What a lost host had begun is no retry.
        ([Try(outcome=PASSED, number=2)], {"verdict": PASSED}),
        ([Try(outcome=INFRASTRUCTURE, number=2), Try(outcome=PASSED, number=3, again=True)],
         {"verdict": PASSED, "attempts": 2}),
        # A job that is run again counts its tries anew, and only it can say that one of its own is lost.
        ([Try(outcome=FAILED), Try(outcome=FAILED, number=2, again=True), Try(outcome=PASSED, job=2)],
         {"verdict": FLAKY}),
        ([Try(outcome=PASSED), Try(outcome=FAILED, job=2)], {"verdict": FAILED}),
        ([Try(outcome=PASSED), Try(outcome=PASSED, number=2, again=True, job=2)],
         {"verdict": FLAKY, "attempts": 3}),
        # One try keeps its message; of many the first and the last are told.
        ([Try(outcome=SKIPPED, message="no fp8")], {"message": "no fp8"}),
        ([Try(outcome=FAILED, message=str(number)) for number in range(1, 21)],
         {"message": MANY}),
    ],
)  # fmt: skip
def test_tries_settle_into_one_result(tries: list[Try], told: dict[str, object]) -> None:
    result = settle("a", tries, file="a.py")
    assert {name: getattr(result, name) for name in told} == told


@given(st.lists(st.tuples(st.integers(1, 5), st.booleans(), st.sampled_from(OUTCOMES)), min_size=1))
def test_no_pass_is_silent_where_a_try_was_ordered_again(rows: list[tuple[int, bool, Verdict]]) -> None:
    rows = sorted((number, again and number > 1, outcome) for number, again, outcome in rows)
    tries = [Try(outcome=outcome, number=number, again=again) for number, again, outcome in rows]
    result = settle("a", tries, file="a.py")
    assert result.attempts >= max([len(rows), *(number for number, again, _ in rows[:1] if again)])
    if any(again for _, again, _ in rows):
        assert result.verdict is not PASSED or result.attempts > 1


ROWS = st.lists(
    st.tuples(st.integers(1, 3), st.integers(1, 4), st.booleans(), st.sampled_from(OUTCOMES)), min_size=1
)


@given(ROWS, st.randoms())
def test_a_run_that_is_watched_comes_to_the_verdict_of_its_report(
    rows: list[tuple[int, int, bool, Verdict]], chance: random.Random
) -> None:
    tries = [
        Try(outcome=outcome, number=number, again=again and number > 1, job=job, started_at=float(place))
        for place, (job, number, again, outcome) in enumerate(rows)
    ]
    ordered = sorted(tries, key=lambda one: (one.job, one.number, one.started_at or 0.0))
    told = settle("a", ordered, file="a.py").verdict
    test = PlannedTest(tally=Tally(file="a.py"), expected_s=1.0)
    shuffled = list(tries)
    chance.shuffle(shuffled)
    for one in shuffled:
        seen = test.add(Told.of(one, attempts_before(one.job) + 1), one.started_at or 0.0)
    assert seen is told


MAX_FAIL = {"stopped after 1 failure (--max-fail)": 3}
UNCOLLECTED = "1 in-scope file could not be collected"


@pytest.mark.parametrize(
    ("counts", "known", "code", "reasons"),
    [
        ({PASSED: 3, FLAKY: 3, SKIPPED: 3, XFAILED: 3, XPASSED: 3}, {}, 0, []),
        ({PASSED: 5, FAILED: 1}, {}, 1, ["1 test failed"]),
        ({HARDWARE: 2, FAILED: 1}, {}, 3, ["2 tests met a fault of the card", "1 test failed"]),
        ({INFRASTRUCTURE: 2, FAILED: 1}, {}, 3, ["2 tests lost to infrastructure", "1 test failed"]),
        ({NOT_RUN: 2, FAILED: 1}, {}, 3, ["2 tests not run", "1 test failed"]),
        ({PASSED: 5}, {"collect_errors": 1}, 3, [UNCOLLECTED]),
        ({PASSED: 5}, {"collect_errors": 1, "allow_collect_errors": True}, 0, []),
        ({FAILED: 5}, {"collect_errors": 1, "allow_collect_errors": True}, 1, ["5 tests failed"]),
        ({PASSED: 5}, {"holes": ["1 shard without a journal"]}, 3, ["1 shard without a journal"]),
        ({}, {}, 3, ["there was nothing to run, although 5 % was asked for"]),
        ({}, {"percent": 0}, 0, []),
        ({FAILED: 1, NOT_RUN: 3}, {"stopped": MAX_FAIL}, 1,
         ["1 test failed", "stopped after 1 failure (--max-fail), 3 tests not run"]),
        ({NOT_RUN: 4}, {"stopped": {"enough": 3}}, 3, ["1 test not run", "enough, 3 tests not run"]),
        ({PASSED: 1}, {"interrupted": True}, 130, ["the run was interrupted"]),
        ({FAILED: 1, NOT_RUN: 1}, {"interrupted": True}, 130,
         ["the run was interrupted", "1 test not run", "1 test failed"]),
        ({NOT_RUN: 1}, {"failures": Failures(expired=("q:1",))}, 3,
         ["1 test not run", "1 quarantine entry expired (q:1)"]),
    ],
)  # fmt: skip
def test_a_run_ends_with_the_weightiest_reason(
    counts: dict[Verdict, int], known: dict[str, Any], code: int, reasons: list[str]
) -> None:
    status = judge(counts, **{"percent": 5, **known})
    assert (status.code, list(status.reasons)) == (code, reasons)


@pytest.mark.parametrize(
    ("failures", "code", "reasons"),
    [
        (Failures(), 1, ("3 tests failed",)),
        (Failures(forgiven=3), 0, ()),
        (Failures(forgiven=2), 1, ("1 test failed",)),
        (Failures(control="cpu"), 1, ("3 tests failed (3 not tried on cpu)",)),
        (Failures(control="cpu", device=3), 1, ("3 tests failed, none of them on cpu too",)),
        (Failures(control="cpu", upstream=1), 1, ("3 tests failed (1 on cpu too, 2 not tried on cpu)",)),
        (Failures(control="cpu", upstream=1, device=2), 1, ("3 tests failed, 1 of them on cpu too",)),
        (Failures(control="cpu", device=1, unclear=2), 1,
         ("3 tests failed (1 not on cpu, 2 unclear on cpu)",)),
        (Failures(control="cpu", upstream=3), 1, ("3 tests failed, all of them on cpu too",)),
        (Failures(control="cpu", forgiven=2, upstream=1), 1, ("1 test failed, on cpu too",)),
        (Failures(control="cpu", forgiven=2, device=1), 1, ("1 test failed, not on cpu",)),
        (Failures(control="cpu", forgiven=2, unclear=1), 1, ("1 test failed, unclear on cpu",)),
        (Failures(control="cpu", forgiven=2), 1, ("1 test failed, not tried on cpu",)),
        (Failures(forgiven=3, expired=("q:1",)), 1, ("1 quarantine entry expired (q:1)",)),
        (Failures(expired=("q:1", "q:2", "q:3", "q:4")), 1,
         ("3 tests failed", "4 quarantine entries expired (q:1, q:2, q:3, …)")),
    ],
)  # fmt: skip
def test_failures_redden_unless_they_are_forgiven(
    failures: Failures, code: int, reasons: tuple[str, ...]
) -> None:
    status = judge({FAILED: 3, PASSED: 1}, percent=5, failures=failures)
    assert (status.code, status.reasons) == (code, reasons)
