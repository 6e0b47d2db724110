"""Verdicts over several tries, and the exit code."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace

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


def test_a_try_lost_to_infrastructure_stays_visible_in_the_message() -> None:
    tries = [
        Try(outcome=INFRASTRUCTURE, message="pod evicted", card="spyre:0"),
        Try(outcome=PASSED, seconds=2.5, card="spyre:1", shard=4),
    ]
    result = settle("a", tries, file="a.py")
    assert (result.verdict, result.attempts, result.seconds, result.card) == (PASSED, 2, 2.5, "spyre:1")
    assert result.message == "attempt 1: infrastructure: pod evicted; attempt 2: passed"


def test_a_flaky_test_shows_the_card_cause_and_traceback_of_its_failure() -> None:
    failing = Try(outcome=FAILED, message="boom", cause="signal", detail="trace", card="spyre:0", seconds=9)
    result = settle("a", [failing, Try(outcome=PASSED, card="spyre:1", seconds=1)], file="a.py")
    assert (result.verdict, result.card, result.cause, result.detail) == (FLAKY, "spyre:0", "signal", "trace")
    assert result.seconds == 1


def test_a_retry_whose_first_try_is_lost_is_flaky_and_says_so() -> None:
    result = settle("a", [Try(outcome=PASSED, number=2, again=True, card="spyre:1")], file="a.py")
    assert (result.verdict, result.attempts, result.seconds) == (FLAKY, 2, 0.0)
    assert result.message == f"attempt 1: failed: {LOST}; attempt 2: passed"


def test_every_lost_try_between_known_ones_counts_as_started() -> None:
    tries = [Try(outcome=INFRASTRUCTURE, message="gone"), Try(outcome=PASSED, number=3, again=True)]
    result = settle("a", tries, file="a.py")
    assert (result.verdict, result.attempts) == (FLAKY, 3)
    assert result.message == f"attempt 1: infrastructure: gone; attempt 2: failed: {LOST}; attempt 3: passed"


def test_a_skip_after_a_lost_failure_is_no_good_end() -> None:
    assert settle("a", [Try(outcome=SKIPPED, number=2, again=True)], file="a.py").verdict is FAILED


def test_what_a_lost_host_had_begun_is_no_retry() -> None:
    taken_over = Try(outcome=PASSED, number=2)
    assert settle("a", [taken_over], file="a.py").verdict is PASSED
    tries = [replace(taken_over, outcome=INFRASTRUCTURE), Try(outcome=PASSED, number=3, again=True)]
    assert (settle("a", tries, file="a.py").verdict, settle("a", tries, file="a.py").attempts) == (PASSED, 2)


@given(st.lists(st.tuples(st.integers(1, 5), st.booleans(), st.sampled_from(OUTCOMES)), min_size=1))
def test_no_pass_is_silent_where_a_try_was_ordered_again(rows: list[tuple[int, bool, Verdict]]) -> None:
    rows = sorted((number, again and number > 1, outcome) for number, again, outcome in rows)
    tries = [Try(outcome=outcome, number=number, again=again) for number, again, outcome in rows]
    result = settle("a", tries, file="a.py")
    assert result.attempts >= max([len(rows), *(number for number, again, _ in rows[:1] if again)])
    if any(again for _, again, _ in rows):
        assert result.verdict is not PASSED or result.attempts > 1


def test_a_job_that_is_run_again_counts_its_tries_anew() -> None:
    failed = [Try(outcome=FAILED), Try(outcome=FAILED, number=2, again=True)]
    assert settle("a", [*failed, Try(outcome=PASSED, job=2)], file="a.py").verdict is FLAKY
    assert settle("a", [Try(outcome=PASSED), Try(outcome=FAILED, job=2)], file="a.py").verdict is FAILED
    # Only a try of the same job can say that one before it is lost.
    later = Try(outcome=PASSED, number=2, again=True, job=2)
    result = settle("a", [Try(outcome=PASSED), later], file="a.py")
    assert (result.verdict, result.attempts) == (FLAKY, 3)


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


def test_a_test_with_one_try_keeps_its_message_as_it_is() -> None:
    assert settle("a", [Try(outcome=SKIPPED, message="no fp8")], file="a.py").message == "no fp8"


def test_a_test_with_many_tries_tells_of_the_first_and_the_last() -> None:
    tries = [Try(outcome=FAILED, message=str(number)) for number in range(20)]
    message = settle("a", tries, file="a.py").message
    assert message.startswith("attempt 1: failed: 0; ")
    assert message.endswith("; …; attempt 20: failed: 19")


def code(counts: dict[Verdict, int], **rest: object) -> int:
    return judge(counts, **{"percent": 5, **rest}).code  # type: ignore[arg-type]  # one helper for all keys


@pytest.mark.parametrize("verdict", [PASSED, FLAKY, SKIPPED, XFAILED, XPASSED])
def test_these_verdicts_end_with_0(verdict: Verdict) -> None:
    assert code({verdict: 3}) == 0


@pytest.mark.parametrize(
    ("verdict", "said"),
    [
        (HARDWARE, "2 tests met a fault of the card"),
        (INFRASTRUCTURE, "2 tests lost to infrastructure"),
        (NOT_RUN, "2 tests not run"),
    ],
)
def test_an_incomplete_account_ends_with_3_and_beats_a_failed_test(verdict: Verdict, said: str) -> None:
    status = judge({PASSED: 9, verdict: 2, FAILED: 1}, percent=5)
    assert status.code == 3
    assert status.reasons == (said, "1 test failed")


def test_a_failed_test_ends_with_1() -> None:
    assert code({PASSED: 5, FAILED: 1}) == 1


def test_a_file_that_could_not_be_collected_ends_with_3_unless_allowed() -> None:
    status = judge({PASSED: 5}, percent=5, collect_errors=1)
    assert (status.code, status.reasons) == (3, ("1 in-scope file could not be collected",))
    assert code({PASSED: 5}, collect_errors=1, allow_collect_errors=True) == 0
    assert code({FAILED: 5}, collect_errors=1, allow_collect_errors=True) == 1


def test_a_hole_ends_with_3() -> None:
    assert code({PASSED: 5}, holes=["1 shard without a journal"]) == 3


def test_nothing_to_run_is_a_success_only_at_0_percent() -> None:
    status = judge({}, percent=5)
    assert (status.code, status.reasons) == (3, ("there was nothing to run, though 5 % was asked for",))
    assert code({}, percent=0) == 0


def test_what_was_not_asked_for_after_so_many_failures_makes_no_hole() -> None:
    counts = {FAILED: 1, NOT_RUN: 3}
    status = judge(counts, percent=5, stopped={"stopped after 1 failure (--max-fail)": 3})
    said = "stopped after 1 failure (--max-fail), 3 tests not run"
    assert (status.code, status.reasons) == (1, ("1 test failed", said))
    assert code({FAILED: 1, NOT_RUN: 4}, stopped={"enough": 3}) == 3


def test_an_interrupted_run_ends_with_130_whatever_else_there_is() -> None:
    for rest in itertools.product((0, 1), repeat=2):
        counts = dict(zip((FAILED, NOT_RUN), rest, strict=True))
        assert code(counts, interrupted=True) == 130


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


def test_a_hole_beats_an_expired_entry() -> None:
    assert judge({NOT_RUN: 1}, percent=5, failures=Failures(expired=("q:1",))).code == 3
