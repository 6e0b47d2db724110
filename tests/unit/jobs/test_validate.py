"""Checks of a cluster: what a job asks for, what pods say, and what the whole comes to."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.core.findings import FAILED, PASSED, UNASKED, judged
from ci.jobs.cli_pod import line_of
from ci.jobs.cluster import Cluster
from ci.jobs.spec import Spec
from ci.jobs.trial import NodeResult, judge_cards, node_result, preflight_jobs
from ci.jobs.validate import RIGHTS, Node, Wanted, exit_code, unasked
from ci.runner.preflight import Finding
from tests.job_specs import spec_of
from tests.manifests import check_strictly


def wanted(spec: Spec | None = None) -> Wanted:
    cluster = Cluster.__new__(Cluster)
    cluster.namespace = "cards"
    return Wanted(cluster=cluster, stage=0, cards=24, spec=spec, image="registry.example.org/a:1")


def node(name: str, healthy: int = 2, capacity: int = 2) -> Node:
    return Node(name=name, capacity=capacity, healthy=healthy)


@pytest.mark.parametrize(
    "spec", [None, spec_of("tests"), spec_of("notebook", notebook={"token": "my-token"})]
)
def test_secrets_are_asked_of_none_but_a_notebook_whose_token_is_made(spec: Spec | None) -> None:
    lacking = [str(one) for one in RIGHTS if one not in wanted(spec).rights]
    assert lacking == ["create secrets", "get secrets"]
    assert wanted(spec_of("notebook")).rights == list(RIGHTS)


def test_3_beats_1_and_all_well_is_0() -> None:
    good = judged("a", "seen", holds=True, remedy="never shown")
    bad = judged("b", "seen", holds=False, remedy="mend")
    open_ = unasked("c", "forbidden", "ask")
    for found, code in (([], 0), ([good], 0), ([good, bad], 1), ([bad, open_], 3)):
        assert exit_code(found) == code


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
    assert silent.why == "p reported no cards"
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
    nodes = [node("a", 128), node("b", 128), node("c", 1)]
    for one in (None, spec):
        jobs = preflight_jobs(wanted(one), nodes, "validate-x", deadline_s=900, card_s=60)
        assert [job["spec"]["completions"] for job in jobs] == [1, 2]
        check_strictly(jobs)
    pod = jobs[0]["spec"]["template"]["spec"]
    assert (pod["serviceAccountName"], pod["priorityClassName"]) == ("runner", "nightly")
    assert [one["key"] for one in pod["tolerations"]] == ["ibm.com/spyre", "own"]
