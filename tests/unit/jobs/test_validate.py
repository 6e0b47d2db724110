"""Checks of a cluster: what a job asks for, what pods say, and what the whole comes to."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.core.findings import FAILED, PASSED, UNASKED, judged
from ci.jobs import validate
from ci.jobs.cli_pod import line_of
from ci.jobs.spec import Spec
from ci.jobs.trial import NodeResult, judge_cards, node_result, preflight_jobs, trial_pod
from ci.jobs.validate import CHECKS, RIGHTS, Answers, Node, Wanted, check_all, of_a_job, unasked
from ci.runner.preflight import Finding
from tests.job_specs import spec_of
from tests.manifests import check_strictly

PF = "ibm.com/spyre_pf"


def wanted(**more: Any) -> Wanted:
    image = "registry.example.org/a:1"
    usual: dict[str, Any] = {"stage": 0, "cards": 24, "namespace": "cards", "image": image}
    return Wanted(**usual | more)


def node(name: str, healthy: int = 2, capacity: int = 2, *, usable: bool = True) -> Node:
    return Node(name=name, capacity=capacity, healthy=healthy, usable=usable)


def test_a_job_of_tests_asks_for_all_cards_of_the_stage() -> None:
    spec = spec_of("tests", resources={"cards": 8, "cpu": "16", "memory": "64Gi", "tier": 1})
    found = of_a_job(wanted(cards=128, spec=spec))
    assert found["pods"] == 16
    assert found[f"requests.{PF}_tier1"] == 128
    assert found["requests.cpu"] == found["limits.cpu"] == found["cpu"] == 256
    assert found["requests.memory"] == 16 * 64 * 2**30
    assert of_a_job(wanted()) == {}
    scratch = spec_of("tests", resources={"cards": 8, "scratch": {"size": "50Gi", "storage_class": "fast"}})
    assert of_a_job(wanted(spec=scratch))["requests.storage"] == 3 * 50 * 2**30
    # In a queue the node's disk is not asked for.
    alone, queued = (of_a_job(wanted(spec=spec_of("tests", **more))) for more in ({}, {"queue": "cards"}))
    assert {name for name in set(alone) - set(queued) if name.startswith("requests")} == {
        "requests.ephemeral-storage"
    }
    uploads = of_a_job(wanted(spec=spec_of("tests", store={"bucket": "s3://runs"}, resources={"cards": 24})))
    assert float(uploads["requests.cpu"]) == 4.25


def test_other_kinds_are_one_pod_and_fewer_pods_may_be_asked_for() -> None:
    assert wanted(spec=spec_of("notebook", resources={"cards": 2})).pods == 1
    assert wanted(cards=128, spec=spec_of("tests", resources={"cards": 8}, tests={"pods": 2})).pods == 2


@pytest.mark.parametrize(
    "spec", [None, spec_of("tests"), spec_of("notebook", notebook={"token": "my-token"})]
)
def test_secrets_are_asked_of_none_but_a_notebook_whose_token_is_made(spec: Spec | None) -> None:
    lacking = [str(one) for one in RIGHTS if one not in wanted(spec=spec).rights]
    assert lacking == ["create secrets", "get secrets"]
    assert wanted(spec=spec_of("notebook")).rights == list(RIGHTS)


def test_3_beats_1_and_all_well_is_0() -> None:
    good = judged("a", "seen", holds=True, remedy="never shown")
    bad = judged("b", "seen", holds=False, remedy="mend")
    open_ = unasked("c", "forbidden", "ask")
    for found, code in (([], 0), ([good], 0), ([good, bad], 1), ([bad, open_], 3)):
        assert validate.exit_code(found) == code
    assert validate.digest([good, bad]) != validate.digest([good, open_])


def test_a_check_whose_answer_was_refused_is_not_asked() -> None:
    refused = {name: f"{name} is forbidden" for check in CHECKS for name in check.needs}
    found = check_all(Answers(found={}, refused=refused), wanted())
    assert {one.state for one in found} == {UNASKED}
    assert len(found) == len(CHECKS)


def test_a_cluster_of_other_cards_is_asked_nothing_of_spyre() -> None:
    gpu = spec_of("evaluation", resources={"cards": 1, "resource": "nvidia.com/gpu"})
    room = {"capacity": {"nvidia.com/gpu": "24"}, "allocatable": {"nvidia.com/gpu": "24"}}
    status = room | {"conditions": [{"type": "Ready", "status": "True"}]}
    lists: dict[str, Any] = {name: [] for check in CHECKS for name in check.needs} | {
        "version": {},
        "queue": (None, None, None),
    }
    lists["nodes"] = [{"metadata": {"name": "gpu-1"}, "status": status}]
    found = {one.check: one for one in check_all(Answers(found=lists, refused={}), wanted(spec=gpu))}
    assert found["cards"].state == found["nodes for the job"].state == PASSED
    assert not {"Spyre operator", "device plugin"} & set(found)


def test_what_preflight_says_is_read_again() -> None:
    good = line_of("0000:1a:00.0", Finding(ok=True, seconds=1), emulated=False)
    bad = line_of("0000:1b:00.0", Finding(ok=False, seconds=1, message="broke\x1b[31m\n::"), emulated=True)
    log = f"noise\n[1]\n{good}\n{bad}\n{json.dumps({'card': 'x'})}".encode() + b"\xff"
    pod = {"metadata": {"name": "p"}, "spec": {"nodeName": "a"}, "status": {"phase": "Failed"}}
    found = node_result(pod, log)
    assert list(found.cards) == ["0000:1a:00.0", "0000:1b:00.0"]
    states = {one.check: (one.state, one.seen) for one in judge_cards([node("a")], [found])}
    assert states["preflight"] == (FAILED, "1 cards passed; failed: a 0000:1b:00.0: broke ::")
    assert states["preflight on real cards"][0] == FAILED
    silent = node_result(pod, b"Traceback (most recent call last):")
    assert silent.why == "p said nothing of cards"
    assert [one.state for one in judge_cards([node("a")], [silent])] == [FAILED, UNASKED]
    short = NodeResult(node="a", cards={"0": {"ok": True}})
    assert [one.state for one in judge_cards([node("a")], [short])] == [PASSED, UNASKED]


@given(st.binary(max_size=300))
def test_a_log_of_anything_says_nothing_of_cards(log: bytes) -> None:
    pod = {"metadata": {"name": "p"}, "status": {"phase": "Succeeded"}}
    assert node_result(pod, log).cards == {} or b"card" in log


def test_what_is_put_into_a_cluster_is_what_every_release_takes() -> None:
    spec = spec_of(
        "tests",
        resources={"cards": 8},
        priority="nightly",
        service_account="runner",
        image={"name": "registry.example.org/a:1", "pull_secrets": ["registry"]},
        tolerations=[{"key": "own", "operator": "Equal", "value": "us", "effect": "NoSchedule"}],
        node_selector={"pool": "ci"},
    )
    nodes = [node("a"), node("b"), node("c", 1), node("d", 0)]
    for one in (wanted(), wanted(spec=spec)):
        jobs = preflight_jobs(one, nodes, "validate-x", deadline_s=900, card_s=60)
        assert [job["spec"]["completions"] for job in jobs] == [1, 2]
        check_strictly([trial_pod(one, "a", ["true"]), *jobs])
