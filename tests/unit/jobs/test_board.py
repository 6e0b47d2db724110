from __future__ import annotations

import time
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.jobs.board import NEXT, UNBORN, Board
from ci.jobs.fate import NODE_AWAY, Phase, fate_of
from ci.jobs.standing import End, Standing
from ci.jobs.watch import Ending, ending_of, worst_reason
from ci.jobs.watch_view import overall, reasons

INDEX = "batch.kubernetes.io/job-completion-index"
STATUS: dict[str, dict[str, Any]] = {
    "pending": {"phase": "Pending"},
    "running": {"phase": "Running"},
    "done": {"phase": "Succeeded"},
    "failed": {"phase": "Failed"},
    "evicted": {"phase": "Failed", "conditions": [{"type": "DisruptionTarget", "status": "True"}]},
    "lost": {"phase": "Unknown"},
}


def pod(index: int, attempt: int = 0, phase: str = "pending") -> dict[str, Any]:
    about = {"annotations": {INDEX: str(index)}, "uid": f"{index}-{attempt}"}
    return {
        "metadata": {**about, "creationTimestamp": f"2026-11-23T00:00:{attempt:02}Z"},
        "status": STATUS[phase],
    }


def board(pods: int = 3, **standing: Any) -> Board:
    return Board(Standing(pods=pods, **standing), 0.0)


def exited(index: int, code: int) -> dict[str, Any]:
    ended = {"name": "main", "state": {"terminated": {"exitCode": code}}}
    return {**pod(index), "status": {"phase": "Failed", "containerStatuses": [ended]}}


def test_before_any_pod_all_are_pending_for_want_of_one() -> None:
    one = board()
    assert one.counts == {Phase.PENDING: 3}
    assert one.reasons == {UNBORN: 3}
    assert not one.settled


def test_an_event_moves_one_pod() -> None:
    one = board()
    one.take("ADDED", pod(1), 1)
    one.take("MODIFIED", pod(1, phase="running"), 2)
    assert +one.counts == {Phase.PENDING: 2, Phase.RUNNING: 1}
    assert one.reasons == {UNBORN: 2}


def test_a_pod_that_ends_badly_is_news_once() -> None:
    one = board()
    assert one.take("MODIFIED", pod(1, phase="evicted"), 1) is not None
    assert one.take("MODIFIED", pod(1, phase="evicted"), 2) is None
    assert one.take("DELETED", pod(1, phase="evicted"), 3) is None
    assert one.badly == {Phase.EVICTED: 1}


def test_its_replacement_counts_and_a_late_word_of_the_first_does_not() -> None:
    one = board(1)
    one.take("MODIFIED", pod(0, 0, "lost"), 1)
    one.take("ADDED", pod(0, 1, "running"), 2)
    one.take("MODIFIED", pod(0, 0, "lost"), 3)
    assert one.fate(0).phase is Phase.RUNNING


def test_what_was_done_stays_done() -> None:
    one = board(1)
    one.take("MODIFIED", pod(0, 0, "done"), 1)
    one.take("ADDED", pod(0, 1, "failed"), 2)
    assert one.fate(0).phase is Phase.DONE


def test_shards_are_done_where_their_tests_ran_failed_ones_too() -> None:
    one = board(3, shards=(2, 2, 1))
    one.take("MODIFIED", pod(0, phase="done"), 1)
    one.take("MODIFIED", exited(1, 1), 1)
    one.take("MODIFIED", exited(2, 3), 1)
    assert one.shards_done == 4
    one.look(replace(one.standing, failed=frozenset({1, 2})), 2)
    assert overall(one) == "3 pods: 1 done, 2 failed; 4/5 shards"


def test_a_number_that_no_pod_of_the_job_has_is_passed_over() -> None:
    one = board(1)
    assert one.take("ADDED", pod(7), 1) is None
    assert one.counts == {Phase.PENDING: 1}


def test_pods_that_a_list_does_not_have_are_lost() -> None:
    one = board(3)
    one.relist([pod(0, phase="running"), pod(1, phase="done")], 1)
    (news,) = one.relist([pod(1, phase="done")], 2)
    assert (news.index, news.phase, news.why) == (0, Phase.LOST, "it is gone")
    assert +one.counts == {Phase.DONE: 1, Phase.PENDING: 2}
    assert one.reasons == {NEXT: 1, UNBORN: 1}


def test_the_controllers_word_counts_where_pods_are_gone() -> None:
    one = board(3, done=frozenset({0}))
    assert one.fate(0).phase is Phase.DONE
    one.look(Standing(pods=3, done=frozenset({0, 1}), failed=frozenset({2})), 1)
    assert +one.counts == {Phase.DONE: 2, Phase.FAILED: 1}
    assert one.settled


def test_a_job_stalls_while_pods_wait_and_none_runs() -> None:
    one = board(2)
    assert one.stalled_s(5) == 5
    one.take("MODIFIED", pod(0, phase="running"), 6)
    assert one.stalled_s(100) == 0
    one.take("MODIFIED", pod(0, phase="done"), 200)
    assert one.stalled_s(203) == 3
    one.take("MODIFIED", pod(1, phase="done"), 204)
    assert one.stalled_s(300) == 0


def dying(index: int, phase: str = "running", reason: str = "DeletionByTaintManager") -> dict[str, Any]:
    """A pod that is to go, and whose node does not answer."""
    one = pod(index, phase=phase)
    one["metadata"]["deletionTimestamp"] = "2026-11-23T00:05:00Z"
    why = {"type": "DisruptionTarget", "status": "True", "reason": reason}
    return {**one, "status": {**one["status"], "conditions": [why]}}


@pytest.mark.parametrize("phase", ["pending", "running", "lost"])
def test_a_pod_on_a_node_that_does_not_answer_is_lost_and_nothing_replaces_it(phase: str) -> None:
    one = board(2)
    one.take("ADDED", pod(1, phase="done"), 1)
    one.take("ADDED", pod(0, phase="running"), 1)
    told = one.take("MODIFIED", dying(0, phase), 5)
    assert told is not None
    assert (told.phase, told.why) == (Phase.LOST, NODE_AWAY)
    assert one.stuck == {0}
    assert (one.settled, one.stalled_s(12)) == (False, 7)
    assert worst_reason(one) == f"pods 0: {NODE_AWAY}"
    # Whoever deletes its node, or forces the pod, has it replaced.
    assert one.take("DELETED", dying(0, phase), 20) is None
    assert (one.stuck, one.badly[Phase.LOST]) == (set(), 1)
    assert (one.fate(0).phase, one.fate(0).why) == (Phase.PENDING, NEXT)


def test_a_pod_on_such_a_node_that_a_list_does_not_have_is_no_second_loss() -> None:
    one = board(1)
    one.take("MODIFIED", dying(0), 5)
    assert one.relist([], 6) == []
    assert (one.stuck, one.reasons) == (set(), {NEXT: 1})


def test_a_pod_that_is_drained_still_runs_until_it_ends() -> None:
    one = board(1)
    one.take("MODIFIED", dying(0, reason="EvictionByEvictionAPI"), 5)
    assert (one.fate(0).phase, one.fate(0).why) == (Phase.RUNNING, "is being ended")


def test_an_index_whose_pods_have_ended_waits_for_another() -> None:
    one = board(2)
    for index in range(2):
        one.take("ADDED", pod(index, phase="running"), 1)
        one.take("DELETED", pod(index, phase="running"), 2)
    assert overall(one) == "2 pods: 2 pending"
    assert reasons(one) == ["2 pending: to be replaced"]
    assert (one.settled, one.quiet, one.stalled_s(10)) == (False, True, 8)
    one.look(replace(one.standing, waits="waits in the queue cards"), 11)
    assert reasons(one) == ["the job waits in the queue cards"]
    assert one.stalled_s(20) == 18
    one.take("ADDED", pod(0, 1, "running"), 21)
    assert (one.quiet, one.stalled_s(30)) == (False, 0)
    assert overall(one) == "2 pods: 1 pending, 1 running; 1 pod replaced"


def test_a_job_that_is_about_to_fail_has_its_pods_as_they_ended() -> None:
    one = board(1)
    one.take("ADDED", pod(0, phase="lost"), 1)
    assert one.fate(0).phase is Phase.PENDING
    one.look(replace(one.standing, ending=End.FAILED, reason="DeadlineExceeded"), 2)
    assert one.fate(0).phase is Phase.LOST
    assert ending_of(one).why == "DeadlineExceeded; without an end: pods 0"


events = st.lists(
    st.tuples(
        st.sampled_from(["ADDED", "MODIFIED", "DELETED"]),
        st.integers(0, 4),
        st.integers(0, 2),
        st.sampled_from(sorted(STATUS)),
    ),
    max_size=40,
)


@given(events)
def test_counts_are_those_of_the_pods_whatever_comes(told: list[tuple[str, int, int, str]]) -> None:
    one = board(5)
    for kind, index, attempt, phase in told:
        one.take(kind, pod(index, attempt, phase), 1)
    fates = [one.fate(index) for index in range(5)]
    assert +one.counts == Counter(fate.phase for fate in fates)
    assert one.reasons == Counter(fate.why for fate in fates if fate.phase is Phase.PENDING)
    assert one.settled == all(fate.phase not in {Phase.PENDING, Phase.RUNNING} for fate in fates)


@given(events)
def test_a_list_of_what_events_told_changes_nothing(told: list[tuple[str, int, int, str]]) -> None:
    one, newest = board(5), {}
    for _, index, attempt, phase in told:
        newest[index, attempt] = pod(index, attempt, phase)
        one.take("MODIFIED", newest[index, attempt], 1)
    before = [one.fate(index) for index in range(5)]
    assert one.relist(newest.values(), 2) == []
    assert [one.fate(index) for index in range(5)] == before


def test_an_event_costs_the_same_however_many_pods_there_are() -> None:
    def seconds(pods: int) -> float:
        one = board(pods)
        one.relist([pod(index) for index in range(pods)], 0)
        made = [pod(index, phase="running") for index in range(256)]
        began = time.process_time()
        for _ in range(4):
            for each in made:
                one.take("MODIFIED", each, 1)
        return time.process_time() - began

    # Sixty-four times the pods; what is linear in them would cost as many times more.
    assert seconds(16_384) < 8 * seconds(256) + 0.05


def ended(*codes: int, reason: str = "FailedIndexes: Job has failed indexes") -> Ending:
    one = board(len(codes) + 1)
    one.take("MODIFIED", pod(0, phase="done"), 1)
    for index, code in enumerate(codes, start=1):
        one.take("MODIFIED", exited(index, code), 1)
    failed = frozenset(range(1, len(codes) + 1))
    one.look(Standing(pods=one.pods, failed=failed, end=End.FAILED, reason=reason), 2)
    return ending_of(one)


def test_the_worst_of_the_pods_codes_is_the_watchs() -> None:
    assert ended(1, 1) == Ending(exit_code=1, why="failed for good: pods 1-2")
    assert ended(1, 3).exit_code == 3
    assert ended(1, 2).exit_code == 2
    assert ended(1, 137).exit_code == 3


def test_a_job_that_failed_as_a_whole_is_incomplete() -> None:
    told = ended(1, reason="DeadlineExceeded: too long")
    assert told == Ending(exit_code=3, why="DeadlineExceeded: too long; without an end: pods 1")


def test_failed_pods_that_are_gone_are_incomplete() -> None:
    one = board(1)
    one.look(Standing(pods=1, failed=frozenset({0}), end=End.FAILED, reason="FailedIndexes"), 1)
    assert ending_of(one).exit_code == 3
    one.look(replace(one.standing, end=End.COMPLETE), 2)
    assert ending_of(one) == Ending(exit_code=0)


def test_fate_and_board_agree() -> None:
    for phase, status in STATUS.items():
        assert fate_of({"status": status}).phase == phase
