"""The state of a job and its pods: each status as the cluster writes it, and events in any order."""

from __future__ import annotations

import io
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from ci.core.text import counted
from ci.jobs.status import (
    DELETED,
    NODE_AWAY,
    SUSPENDED,
    UNBORN,
    Aggregates,
    End,
    JobStatus,
    Phase,
    PodStatus,
    index_of,
    job_status,
    pod_status,
)
from ci.jobs.watch import MAX_TOLD, Ending, View, ending_of, overall, reasons, worst

INDEX = "batch.kubernetes.io/job-completion-index"
IMAGE = "registry.example.com/i:1"


def condition(kind: str, value: str = "True", reason: str = "", message: str = "") -> dict[str, str]:
    return {"type": kind, "status": value, "reason": reason, "message": message}


def waiting(reason: str, message: str = "") -> dict[str, Any]:
    state = {"waiting": {"reason": reason, "message": message}}
    return {"phase": "Pending", "containerStatuses": [{"name": "main", "image": IMAGE, "state": state}]}


def ended(code: int, reason: str = "Error", message: str = "", *, init: str = "") -> dict[str, Any]:
    state = {"terminated": {"exitCode": code, "reason": reason, "message": message}}
    rows = [{"name": init or "main", "state": state}]
    return {"phase": "Failed", "initContainerStatuses" if init else "containerStatuses": rows}


def failed(**more: Any) -> dict[str, Any]:
    return {"phase": "Failed", **more}


def disrupted(why: str, said: str = "", **more: Any) -> dict[str, Any]:
    return failed(conditions=[condition("DisruptionTarget", reason=why, message=said)], **more)


FULL = 'Usage of EmptyDir volume "scratch" exceeds the limit "10Gi".'
LOW = "The node was low on resource: memory."
PODS: list[tuple[dict[str, Any], Phase, str]] = [
    ({"phase": "Succeeded"}, Phase.DONE, ""),
    ({"phase": "Running"}, Phase.RUNNING, ""),
    ({"phase": "Unknown"}, Phase.LOST, NODE_AWAY),
    ({}, Phase.PENDING, "no scheduler has seen it yet"),
    ({"phase": "Pending", "conditions": [condition("PodScheduled", "False", "Unschedulable", "0/6 nodes")]},
     Phase.PENDING, "cannot be scheduled: 0/6 nodes"),
    ({"phase": "Pending", "conditions": [condition("PodScheduled")]}, Phase.PENDING,
     "creating its containers"),
    (waiting("ContainerCreating"), Phase.PENDING, "no scheduler has seen it yet"),
    (waiting("ErrImagePull"), Phase.PENDING, f"cannot pull {IMAGE}"),
    (waiting("ImagePullBackOff"), Phase.PENDING, f"cannot pull {IMAGE}"),
    (waiting("CreateContainerConfigError", 'secret "k" not found'), Phase.PENDING,
     'CreateContainerConfigError: secret "k" not found'),
    ({"phase": "Pending", "initContainerStatuses": [{"name": "fetch-source", "state": {"running": {}}}]},
     Phase.RUNNING, "fetch-source (init container) runs"),
    (failed(reason="DeadlineExceeded"), Phase.FAILED, "took longer than its deadline"),
    (disrupted("TerminationByKubelet", "x", reason="Evicted", message=LOW), Phase.EVICTED, LOW),
    # Nobody's disruption but its own: the cluster counts it.
    (failed(reason="Evicted", message=FULL), Phase.FAILED, FULL),
    (disrupted("PreemptionByScheduler"), Phase.EVICTED, "PreemptionByScheduler"),
    (disrupted("DeletionByTaintManager"), Phase.LOST, "its node was removed"),
    (disrupted("DeletionByPodGC", "x"), Phase.LOST, "x"),
    (failed(reason="NodeLost"), Phase.LOST, "its node was removed"),
    (failed(), Phase.FAILED, "the cluster does not say why"),
    (failed(reason="UnexpectedAdmissionError", message="no cards left"), Phase.FAILED, "no cards left"),
    (ended(77), Phase.FAILED, "exit code 77"),
    (ended(1), Phase.FAILED, "exit code 1 (tests failed)"),
    (ended(2), Phase.FAILED, "exit code 2 (wrong usage or settings)"),
    (ended(3), Phase.FAILED, "exit code 3 (incomplete, hardware or infrastructure)"),
    (ended(137, "OOMKilled"), Phase.FAILED, "out of memory: exceeded its limit"),
    (ended(1, message="no such bucket", init="fetch-source"), Phase.FAILED,
     "fetch-source: exit code 1: no such bucket"),
]  # fmt: skip


@pytest.mark.parametrize(("status", "phase", "why"), PODS)
def test_a_pod_is_told_in_a_word_and_a_reason(status: dict[str, Any], phase: Phase, why: str) -> None:
    told = pod_status({"metadata": {"annotations": {INDEX: "3"}}, "status": status})
    codes = [one["state"]["terminated"]["exitCode"] for one in status.get("containerStatuses", ())
             if "terminated" in one["state"]]  # fmt: skip
    assert told == PodStatus(index=3, phase=phase, why=why, exit_code=codes[0] if codes else None)


@pytest.mark.parametrize(
    ("status", "phase", "why"),
    [
        ({"phase": "Running"}, Phase.RUNNING, "is terminating"),
        (ended(143), Phase.LOST, DELETED),
        (ended(3), Phase.LOST, DELETED),
        (ended(1), Phase.FAILED, "exit code 1 (tests failed)"),
        ({**disrupted("DeletionByTaintManager"), "phase": "Running"}, Phase.LOST, NODE_AWAY),
    ],
)
def test_a_pod_that_is_deleted_says_so(status: dict[str, Any], phase: Phase, why: str) -> None:
    told = pod_status({"metadata": {"deletionTimestamp": "now"}, "status": status})
    assert (told.phase, told.why) == (phase, why)


def test_what_a_pod_says_steers_no_terminal_and_stays_on_a_line() -> None:
    told = pod_status({"status": ended(1, message="\x1b[2J::error::a\nb" * 200)})
    assert "\x1b" not in told.why
    assert "\n" not in told.why
    assert len(told.why) < 300


@pytest.mark.parametrize(
    ("metadata", "index"),
    [({"labels": {INDEX: "7"}}, 7), ({}, 0), ({"annotations": {INDEX: "x"}}, 0), ({"annotations": None}, 0)],
)
def test_a_pod_without_a_number_is_the_first(metadata: dict[str, Any], index: int) -> None:
    assert index_of({"metadata": metadata}) == index


def job(spec: dict[str, Any] | None = None, **status: Any) -> dict[str, Any]:
    return {"kind": "Job", "metadata": {}, "spec": {"completions": 9, **(spec or {})}, "status": status}


def server(spec: dict[str, Any] | None = None, **status: Any) -> dict[str, Any]:
    return {"kind": "Deployment", "metadata": {}, "spec": spec or {}, "status": status}


LATE = "DeadlineExceeded", "too long"
JOBS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    (job(active=2, completedIndexes="0-2,5", failedIndexes="7"),
     {"done": {0, 1, 2, 5}, "failed": {7}, "over": None}),
    (job(conditions=[condition("SuccessCriteriaMet"), condition("Complete")]),
     {"over": End.COMPLETE, "done": set(range(9))}),
    (job(conditions=[condition("Failed", "True", *LATE)]),
     {"over": End.FAILED, "reason": "DeadlineExceeded: too long"}),
    (job(conditions=[condition("FailureTarget", "True", *LATE)]),
     {"over": End.FAILED, "reason": "DeadlineExceeded: too long"}),
    (job(conditions=[condition("SuccessCriteriaMet")]), {"over": End.COMPLETE}),
    (job(conditions=[condition("Failed", "False")]), {"over": None}),
    (job({"suspend": True}), {"waits": "is suspended"}),
    *((job(completedIndexes=text), {"done": set()})
      for text in ("", None, "0-99999999999", "a", "5-2", "0-1000000", 7.5)),
    (server(availableReplicas=1, replicas=1), {"over": End.SERVES}),
    (server(replicas=1), {"over": None, "waits": ""}),
    (server({"paused": True}), {"waits": "is paused"}),
    (server(conditions=[condition("Progressing", "False", "x", "has timed out")]),
     {"over": End.FAILED, "reason": "has timed out"}),
    (server(conditions=[condition("ReplicaFailure", message="exceeded quota")]),
     {"over": None, "waits": "gets no pod: exceeded quota"}),
    (server(conditions=[condition("ReplicaFailure", "False", message="x")]), {"waits": ""}),
]  # fmt: skip


@pytest.mark.parametrize(("given", "told"), JOBS)
def test_a_job_is_as_its_controller_says(given: dict[str, Any], told: dict[str, Any]) -> None:
    found = job_status(given)
    assert {name: getattr(found, name) for name in told} == told


def test_a_job_says_its_queue() -> None:
    one = job({"suspend": True, "completions": 3})
    one["metadata"] = {"labels": {"kueue.x-k8s.io/queue-name": "cards"}}
    assert job_status(one).waits == "waits in the queue cards"


STATUS: dict[str, dict[str, Any]] = {
    "pending": {"phase": "Pending"}, "running": {"phase": "Running"}, "done": {"phase": "Succeeded"},
    "failed": failed(), "evicted": disrupted("x"), "lost": {"phase": "Unknown"},
}  # fmt: skip


def pod(index: int, attempt: int = 0, phase: str = "pending", code: int | None = None) -> dict[str, Any]:
    about = {"annotations": {INDEX: str(index)}, "uid": f"{index}-{attempt}"}
    made = f"2026-11-23T00:00:{attempt:02}Z"
    return {
        "metadata": {**about, "creationTimestamp": made},
        "status": STATUS[phase] if code is None else ended(code),
    }


def deleted(one: dict[str, Any]) -> dict[str, Any]:
    return {**one, "metadata": {**one["metadata"], "deletionTimestamp": "now"}}


def dying(index: int, reason: str = "DeletionByTaintManager") -> dict[str, Any]:
    """A pod that is to go, and whose node does not answer."""
    return deleted({**pod(index), "status": {**disrupted(reason), "phase": "Running"}})


def aggregates(pods: int = 3, **status: Any) -> Aggregates:
    return Aggregates(JobStatus(pods=pods, **status))


def look(one: Aggregates, *events: dict[str, Any], kind: str = "MODIFIED", **change: Any) -> list[PodStatus]:
    """Take events, then the job as it is, or after a change; what is news."""
    for event in events:
        one.take(kind, event)
    return one.look(replace(one.job, **change))


def test_events_move_pods_between_phases_and_bad_ends_are_news_once() -> None:
    one = aggregates()
    assert (one.counts, one.reasons) == ({Phase.PENDING: 3}, {UNBORN: 3})
    assert look(one, pod(1, phase="running"), pod(7)) == []
    assert one.counts == {Phase.PENDING: 2, Phase.RUNNING: 1}
    (news,) = look(one, pod(1, phase="evicted"))
    assert news.phase is Phase.EVICTED
    assert look(one, pod(1, phase="evicted")) == []
    assert look(one, deleted(pod(1, phase="evicted")), kind="DELETED") == []
    assert one.ended_badly == 1


def test_the_newest_pod_of_an_index_counts_and_what_was_done_stays_done() -> None:
    one = aggregates(1)
    look(one, pod(0, 0, "lost"), pod(0, 1, "running"), pod(0, 0, "lost"))
    assert one.pod(0).phase is Phase.RUNNING
    look(one, pod(0, 1, "done"), pod(0, 2, "failed"))
    assert one.pod(0).phase is Phase.DONE


def test_pods_that_a_list_does_not_have_are_lost_and_the_controllers_word_counts() -> None:
    one = aggregates(3)
    one.relist([pod(0, phase="running"), pod(1, phase="done")])
    assert look(one) == []
    one.relist([pod(1, phase="done")])
    (news,) = look(one)
    assert (news.index, news.phase, news.why) == (0, Phase.LOST, "it was removed")
    look(one, done=frozenset({0, 1}), failed=frozenset({2}))
    assert one.counts == {Phase.DONE: 2, Phase.FAILED: 1}


def test_a_pod_that_somebody_deletes_is_told_once() -> None:
    one = aggregates(1)
    gone = deleted(pod(0, code=143))
    (told,) = look(one, pod(0, phase="running"), gone)
    assert told.line == f"pod 0 lost: {DELETED}"
    assert (look(one, gone, kind="DELETED"), one.ended_badly) == ([], 1)
    # One that is seen to run until it is gone is told as well.
    other = aggregates(1)
    look(other, pod(0, phase="running"))
    assert [each.why for each in look(other, pod(0, phase="running"), kind="DELETED")] == [DELETED]


@pytest.mark.parametrize(
    ("change", "why"),
    [({"waits": "waits in the queue cards"}, SUSPENDED), ({"over": End.FAILED}, "its job ended")],
)
def test_pods_that_their_job_deletes_are_no_news(change: dict[str, Any], why: str) -> None:
    one = aggregates(2)
    look(one, *(pod(index, phase="running") for index in range(2)))
    assert look(one, *(deleted(pod(index, code=143)) for index in range(2)), **change) == []
    assert one.ended_badly == 0
    if "waits" in change:
        assert reasons(one) == ["the job waits in the queue cards"]
        assert look(one, waits="") == []
        assert reasons(one) == ["2 pending: to be replaced; after 0 failed pods the cluster waits up to 10 s"]
    else:
        assert one.pod(0).why == why


def test_an_index_whose_pods_have_ended_says_how_long_the_cluster_waits() -> None:
    one = aggregates(1)
    for attempt, wait in enumerate(("10 s", "20 s", "40 s", "1 min 20 s")):
        look(one, pod(0, attempt, "evicted"))
        pods = counted(attempt + 1, "failed pod")
        assert reasons(one) == [f"1 pending: to be replaced; after {pods} the cluster waits up to {wait}"]
    look(one, *(pod(0, attempt, "evicted") for attempt in range(4, 9)))
    assert "up to 10 min 00 s" in reasons(one)[0]
    look(one, pod(0, 9, "running"))
    assert overall(one) == "1 pod: 1 running; 9 pods replaced"


def test_a_pod_on_a_node_that_does_not_answer_stays_until_somebody_acts() -> None:
    one = aggregates(2)
    look(one, pod(1, phase="done"), pod(0, phase="running"))
    (told,) = look(one, dying(0))
    assert (told.phase, told.why, one.stuck) == (Phase.LOST, NODE_AWAY, {0})
    assert worst(one) == f"pods 0: {NODE_AWAY}"
    # Whoever deletes its node, or forces the pod, has it replaced; it is no second loss.
    assert look(one, dying(0), kind="DELETED") == []
    assert (one.stuck, one.ended_badly, one.pod(0).phase) == (set(), 1, Phase.PENDING)
    drained = aggregates(1)
    look(drained, dying(0, "EvictionByEvictionAPI"))
    assert drained.pod(0).phase is Phase.RUNNING


def test_what_no_pod_is_made_for_is_told_for_all_that_wait() -> None:
    one = aggregates(3)
    one.unborn_because = "no pod can be created: exceeded quota"
    look(one, pod(0, phase="running"))
    assert (one.unborn, reasons(one)) == (2, ["2 pending: no pod can be created: exceeded quota"])


EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["ADDED", "MODIFIED", "DELETED"]), st.integers(0, 4), st.integers(0, 2),
        st.sampled_from(sorted(STATUS)), st.booleans(),
    ),
    max_size=40,
)  # fmt: skip


@given(EVENTS)
def test_counts_are_those_of_the_pods_whatever_comes(told: list[tuple[str, int, int, str, bool]]) -> None:
    one, news = aggregates(5), 0
    for kind, index, attempt, phase, goes in told:
        made = pod(index, attempt, phase)
        news += len(look(one, deleted(made) if goes else made, kind=kind))
    pods = [one.pod(index) for index in range(5)]
    assert one.counts == Counter(each.phase for each in pods)
    assert one.reasons == Counter(each.why for each in pods if each.phase is Phase.PENDING)
    assert one.ended_badly == news
    assert one.ended_badly <= len({(index, attempt) for _, index, attempt, _, _ in told})


def over(*codes: int, reason: str = "FailedIndexes: x") -> Ending:
    one = aggregates(len(codes) + 1)
    events = [pod(index, code=code) for index, code in enumerate(codes, start=1)]
    indexes = frozenset(range(1, len(codes) + 1))
    look(one, pod(0, phase="done"), *events, failed=indexes, over=End.FAILED, reason=reason)
    return ending_of(one)


@pytest.mark.parametrize(("codes", "worst"), [((1, 1), 1), ((1, 3), 3), ((1, 2), 2), ((1, 137), 3)])
def test_the_worst_of_the_pods_codes_is_the_watchs(codes: tuple[int, ...], worst: int) -> None:
    assert over(*codes) == Ending(exit_code=worst, why="failed for good: pods 1-2")


def test_a_job_that_failed_as_a_whole_or_whose_pods_are_gone_is_incomplete() -> None:
    late = "DeadlineExceeded: too long"
    assert over(1, reason=late) == Ending(exit_code=3, why=f"{late}; not completed: pods 1")
    one = aggregates(1)
    one.look(JobStatus(pods=1, failed=frozenset({0}), over=End.FAILED, reason="FailedIndexes"))
    assert ending_of(one).exit_code == 3
    one.look(replace(one.job, over=End.COMPLETE))
    assert ending_of(one) == Ending(exit_code=0)


def test_the_commonest_reasons_are_shown() -> None:
    one = aggregates(14)
    one.reasons.clear()
    for number in range(5):
        one.reasons[f"reason {number}"] = number + 1
    assert [line[0] for line in reasons(one)] == ["5", "4", "3", "a"]


def view(**environ: str) -> tuple[View, io.StringIO]:
    text = io.StringIO()
    console = Console(file=text, force_terminal=True, width=100, color_system=None)
    return View(console=console, environ=environ), text


def test_a_log_has_a_line_where_something_changed_and_one_after_silence() -> None:
    shown, text = view(CI="1")
    one = aggregates(4)
    look(one, pod(0, phase="running"))
    shown.show(one, 0)
    line = f"4 pods: 3 pending, 1 running; 3 pending: {UNBORN}\n"
    assert text.getvalue() == line
    shown.show(one, 20)
    assert text.getvalue() == line
    shown.show(one, 61)
    assert text.getvalue() == line * 2
    for _ in range(MAX_TOLD + 5):
        shown.tell(PodStatus(index=1, phase=Phase.EVICTED, why="::error::x"))
    shown.end(one)
    said = text.getvalue().splitlines()
    assert said.count("pod 1 evicted: ::error::x") == MAX_TOLD
    assert said[-2:] == ["5 more failed pods are not shown", "4 pods: 3 pending, 1 running"]
    shown.say("::error::x")
    assert text.getvalue().endswith("\n| ::error::x\n")


def test_a_terminal_has_a_line_that_stays() -> None:
    shown, text = view(TERM="xterm")
    one = aggregates(4)
    shown.show(one, 0)
    shown.tell(PodStatus(index=1, phase=Phase.EVICTED, why="low on disk"))
    shown.end(one)
    assert "pod 1 evicted: low on disk" in text.getvalue()
    assert text.getvalue().rstrip().endswith("4 pods: 4 pending")
