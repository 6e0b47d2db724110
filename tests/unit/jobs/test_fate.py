from __future__ import annotations

from typing import Any

import pytest

from ci.jobs.fate import Fate, Phase, fate_of, index_of

INDEX = "batch.kubernetes.io/job-completion-index"


def pod(index: str = "3", **status: Any) -> dict[str, Any]:
    return {"metadata": {"annotations": {INDEX: index}}, "status": status}


def condition(kind: str, value: str = "True", reason: str = "", message: str = "") -> dict[str, str]:
    return {"type": kind, "status": value, "reason": reason, "message": message}


def container(name: str = "main", **state: Any) -> dict[str, Any]:
    return {"name": name, "image": "registry.example.com/i:1", "state": state}


def ended(code: int, reason: str = "Error", message: str = "", name: str = "main") -> dict[str, Any]:
    return container(name, terminated={"exitCode": code, "reason": reason, "message": message})


SCHEDULED = condition("PodScheduled")


@pytest.mark.parametrize(
    ("status", "phase", "why"),
    [
        ({"phase": "Succeeded"}, Phase.DONE, ""),
        ({"phase": "Running"}, Phase.RUNNING, ""),
        ({}, Phase.PENDING, "no scheduler has looked at it"),
        (
            {
                "phase": "Pending",
                "conditions": [condition("PodScheduled", "False", "Unschedulable", "0/6 nodes")],
            },
            Phase.PENDING,
            "no node takes it: 0/6 nodes",
        ),
        ({"phase": "Pending", "conditions": [SCHEDULED]}, Phase.PENDING, "its containers are being made"),
        (
            {
                "phase": "Pending",
                "conditions": [SCHEDULED],
                "containerStatuses": [container(waiting={"reason": "ContainerCreating"})],
            },
            Phase.PENDING,
            "its containers are being made",
        ),
        (
            {"phase": "Pending", "containerStatuses": [container(waiting={"reason": "ErrImagePull"})]},
            Phase.PENDING,
            "cannot pull registry.example.com/i:1",
        ),
        (
            {"phase": "Pending", "containerStatuses": [container(waiting={"reason": "ImagePullBackOff"})]},
            Phase.PENDING,
            "cannot pull registry.example.com/i:1",
        ),
        (
            {
                "phase": "Pending",
                "containerStatuses": [
                    container(
                        waiting={"reason": "CreateContainerConfigError", "message": 'secret "k" not found'}
                    )
                ],
            },
            Phase.PENDING,
            'CreateContainerConfigError: secret "k" not found',
        ),
        (
            {"phase": "Pending", "initContainerStatuses": [container("fetch-source", running={})]},
            Phase.RUNNING,
            "fetch-source prepares",
        ),
        ({"phase": "Failed", "reason": "DeadlineExceeded"}, Phase.FAILED, "took longer than its deadline"),
        (
            {
                "phase": "Failed",
                "reason": "Evicted",
                "message": "The node was low on resource: memory.",
                "conditions": [condition("DisruptionTarget", reason="TerminationByKubelet", message="x")],
            },
            Phase.EVICTED,
            "The node was low on resource: memory.",
        ),
        # Nobody's disruption but its own: the cluster counts it.
        (
            {
                "phase": "Failed",
                "reason": "Evicted",
                "message": 'Usage of EmptyDir volume "scratch" exceeds the limit "10Gi".',
            },
            Phase.FAILED,
            'Usage of EmptyDir volume "scratch" exceeds the limit "10Gi".',
        ),
        (
            {
                "phase": "Failed",
                "conditions": [condition("DisruptionTarget", reason="PreemptionByScheduler")],
            },
            Phase.EVICTED,
            "PreemptionByScheduler",
        ),
        (
            {
                "phase": "Failed",
                "conditions": [condition("DisruptionTarget", reason="DeletionByTaintManager")],
            },
            Phase.LOST,
            "its node is gone",
        ),
        (
            {
                "phase": "Failed",
                "conditions": [condition("DisruptionTarget", reason="DeletionByPodGC", message="x")],
            },
            Phase.LOST,
            "x",
        ),
        ({"phase": "Failed", "reason": "NodeLost"}, Phase.LOST, "its node is gone"),
        ({"phase": "Unknown"}, Phase.LOST, "its node does not answer"),
        ({"phase": "Failed"}, Phase.FAILED, "the cluster does not say why"),
        (
            {"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": "no cards left"},
            Phase.FAILED,
            "no cards left",
        ),
    ],
)
def test_a_pods_status_is_told_in_a_word_and_a_reason(status: dict[str, Any], phase: Phase, why: str) -> None:
    assert fate_of(pod(**status)) == Fate(index=3, phase=phase, why=why)


@pytest.mark.parametrize(
    ("code", "why"),
    [
        (1, "exit code 1 (tests failed)"),
        (2, "exit code 2 (wrong usage or settings)"),
        (3, "exit code 3 (incomplete, hardware or infrastructure)"),
        (77, "exit code 77"),
    ],
)
def test_a_container_that_failed_is_told_with_what_its_code_means(code: int, why: str) -> None:
    told = fate_of(pod(phase="Failed", containerStatuses=[ended(code)]))
    assert told == Fate(index=3, phase=Phase.FAILED, why=why, exit_code=code)


def test_a_container_out_of_memory_says_so() -> None:
    told = fate_of(pod(phase="Failed", containerStatuses=[ended(137, "OOMKilled")]))
    assert (told.why, told.exit_code) == ("out of memory: more than its limit", 137)


def test_an_init_container_that_failed_is_named() -> None:
    told = fate_of(
        pod(phase="Failed", initContainerStatuses=[ended(1, message="no such bucket", name="fetch-source")])
    )
    # No test failed: nothing of it has begun.
    assert (told.why, told.exit_code) == ("fetch-source: exit code 1: no such bucket", None)


def test_what_a_pod_says_steers_no_terminal_and_stays_on_a_line() -> None:
    told = fate_of(pod(phase="Failed", containerStatuses=[ended(1, message="\x1b[2J::error::a\nb" * 200)]))
    assert "\x1b" not in told.why
    assert "\n" not in told.why
    assert len(told.why) < 300


def test_a_pod_that_is_being_ended_still_runs() -> None:
    one = pod(phase="Running")
    one["metadata"]["deletionTimestamp"] = "2026-11-23T00:00:00Z"
    assert fate_of(one) == Fate(index=3, phase=Phase.RUNNING, why="is being ended")


@pytest.mark.parametrize(
    ("metadata", "index"),
    [({"labels": {INDEX: "7"}}, 7), ({}, 0), ({"annotations": {INDEX: "x"}}, 0), ({"annotations": None}, 0)],
)
def test_a_pod_without_a_number_is_the_first(metadata: dict[str, Any], index: int) -> None:
    assert index_of({"metadata": metadata}) == index
