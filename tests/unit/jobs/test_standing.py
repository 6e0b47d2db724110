from __future__ import annotations

from typing import Any

import pytest

from ci.jobs.listing import row_of
from ci.jobs.standing import End, Standing, standing_of


def job(spec: dict[str, Any] | None = None, **status: Any) -> dict[str, Any]:
    return {
        "kind": "Job",
        "metadata": {"name": "a"},
        "spec": {"completions": 9, **(spec or {})},
        "status": status,
    }


def condition(kind: str, reason: str = "", message: str = "", value: str = "True") -> dict[str, str]:
    return {"type": kind, "status": value, "reason": reason, "message": message}


def test_indexes_are_read_as_the_controller_writes_them() -> None:
    told = standing_of(job(active=2, completedIndexes="0-2,5", failedIndexes="7"))
    assert told == Standing(pods=9, done=frozenset({0, 1, 2, 5}), failed=frozenset({7}), active=2)


@pytest.mark.parametrize("text", ["", None, "0-99999999999", "a", "5-2", "0-1000000", 7.5])
def test_indexes_that_are_none_are_taken_for_none(text: object) -> None:
    assert standing_of(job(completedIndexes=text)).done == frozenset()


def test_a_job_that_is_complete_has_done_all() -> None:
    told = standing_of(job(conditions=[condition("SuccessCriteriaMet"), condition("Complete")]))
    assert (told.end, len(told.done)) == (End.COMPLETE, 9)


def test_a_job_that_failed_says_why() -> None:
    told = standing_of(job(conditions=[condition("Failed", "DeadlineExceeded", "too long")]))
    assert (told.end, told.reason) == (End.FAILED, "DeadlineExceeded: too long")


@pytest.mark.parametrize(
    ("kind", "ending"), [("FailureTarget", End.FAILED), ("SuccessCriteriaMet", End.COMPLETE)]
)
def test_a_job_whose_last_pods_still_end_is_about_to(kind: str, ending: End) -> None:
    told = standing_of(job(conditions=[condition(kind, "DeadlineExceeded", "too long")]))
    assert (told.end, told.ending, told.over) == (None, ending, ending)
    assert told.reason == "DeadlineExceeded: too long"
    assert row_of(job(conditions=[condition(kind)]), now_s=0).state == "is ending"


def test_a_condition_that_does_not_hold_is_no_end() -> None:
    assert standing_of(job(conditions=[condition("Failed", value="False")])).end is None


def test_what_is_held_says_by_whom() -> None:
    one = job({"suspend": True})
    assert standing_of(one).waits == "is suspended"
    one["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "cards"}
    assert standing_of(one).waits == "waits in the queue cards"


@pytest.mark.parametrize(
    ("told", "shards"),
    [("2,2,1", (2, 2, 1)), ("2,2", ()), ("2,2,-1", ()), ("a,b,c", ()), ("", ()), (None, ())],
)
def test_shards_are_told_pod_by_pod_or_not_at_all(told: object, shards: tuple[int, ...]) -> None:
    one = job({"completions": 3})
    one["metadata"]["annotations"] = {"spyre-ci.io/shards": told}
    assert standing_of(one).shards == shards


def server(spec: dict[str, Any] | None = None, **status: Any) -> dict[str, Any]:
    return {"kind": "Deployment", "metadata": {"name": "a"}, "spec": spec or {}, "status": status}


def test_a_server_that_is_available_serves() -> None:
    assert standing_of(server(availableReplicas=1, replicas=1)).end is End.SERVES
    assert standing_of(server(replicas=1)).end is None
    assert standing_of(server({"paused": True})).waits == "is paused"


def test_a_server_that_makes_no_progress_failed() -> None:
    stuck = condition("Progressing", "ProgressDeadlineExceeded", 'ReplicaSet "a" has timed out', "False")
    told = standing_of(server(conditions=[stuck]))
    assert (told.end, told.reason) == (End.FAILED, 'ReplicaSet "a" has timed out')


def test_a_server_that_may_have_no_pod_says_why() -> None:
    told = standing_of(
        server(conditions=[condition("ReplicaFailure", "FailedCreate", "exceeded quota: cards")])
    )
    assert (told.end, told.waits) == (None, "gets no pod: exceeded quota: cards")
    ended = condition("ReplicaFailure", "FailedCreate", "exceeded quota", value="False")
    assert standing_of(server(conditions=[ended])).waits == ""


def test_what_was_made_at_no_time_is_as_old_as_time() -> None:
    assert row_of(job(), now_s=5).age_s == 5
    assert row_of(job(), now_s=5).state == "waits for pods"


def test_a_row_is_a_line_of_a_table() -> None:
    one = job(active=2, completedIndexes="0-2")
    one["metadata"]["creationTimestamp"] = "1970-01-01T00:00:10Z"
    assert row_of(one, now_s=70).cells() == ("a", "", "running", "2/9", "3", "0", "1 min 00 s", "")
