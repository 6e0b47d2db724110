"""Checks of a cluster: quantities, what a job asks for, what pods say, and what the whole comes to."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.core.findings import FAILED, PASSED, UNASKED, judged
from ci.jobs.cli_preflight import line_of
from ci.jobs.spec import Spec
from ci.jobs.validate import checks, probe, probing
from ci.jobs.validate.checks import CHECKS, cell, check_all, drawing
from ci.jobs.validate.facts import Asked, Facts, Node, quantity, whole
from ci.jobs.validate.namespace import of_a_job
from ci.jobs.validate.rights import RIGHTS, lacking, wanted
from ci.runner.preflight import Finding
from tests.job_specs import spec_of
from tests.manifests import check_strictly

PF = "ibm.com/spyre_pf"


def asked(**more: Any) -> Asked:
    image = "registry.example.org/a:1"
    usual: dict[str, Any] = {"stage": 0, "cards": 24, "namespace": "cards", "image": image}
    return Asked(**usual | more)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("500m", "0.5"), ("16Gi", str(16 * 2**30)), ("1e3", "1000"), ("2k", "2000"), ("1.5", "1.5"),
        ("8", "8"), ("100n", "0.0000001"), ("3u", "0.000003"), ("1E", "1000000000000000000"),
        (7, "7"), ("much", "0"), ("", "0"), ("1e-3", "0.001"), ("4Ki", "4096"),
    ],
)  # fmt: skip
def test_a_quantity_is_the_number_it_says(text: object, number: str) -> None:
    assert quantity(text) == Decimal(number)


@given(st.integers(0, 10**12), st.sampled_from(["", "k", "M", "Ki", "Mi", "Gi", "m"]))
def test_quantities_are_in_the_order_of_their_numbers(number: int, suffix: str) -> None:
    assert quantity(f"{number + 1}{suffix}") > quantity(f"{number}{suffix}")
    assert whole(f"{number}k") == 1000 * number


def test_a_job_of_tests_asks_for_all_cards_of_the_stage() -> None:
    spec = spec_of("tests", resources={"cards": 8, "cpu": "16", "memory": "64Gi", "tier": 1})
    found = of_a_job(asked(cards=128, spec=spec))
    assert found["pods"] == 16
    assert found[f"requests.{PF}_tier1"] == 128
    assert found["requests.cpu"] == found["limits.cpu"] == found["cpu"] == 256
    assert found["requests.memory"] == 16 * 64 * 2**30
    assert found["count/jobs.batch"] == 1
    assert of_a_job(asked()) == {}


def test_other_kinds_are_one_pod_and_fewer_pods_may_be_asked_for() -> None:
    assert asked(spec=spec_of("notebook", resources={"cards": 2})).pods == 1
    few = spec_of("tests", resources={"cards": 8}, tests={"pods": 2})
    assert asked(cards=128, spec=few).pods == 2


def test_scratch_that_is_claimed_counts_as_storage() -> None:
    spec = spec_of("tests", resources={"cards": 8, "scratch": {"size": "50Gi", "storage_class": "fast"}})
    found = of_a_job(asked(spec=spec))
    assert found["persistentvolumeclaims"] == 3
    assert found["requests.storage"] == 3 * 50 * 2**30
    assert found["fast.storageclass.storage.k8s.io/requests.storage"] == found["requests.storage"]
    assert "requests.ephemeral-storage" not in found


def test_in_a_queue_the_nodes_disk_is_not_asked_for() -> None:
    alone, queued = (
        of_a_job(asked(spec=spec_of("tests"))),
        of_a_job(asked(spec=spec_of("tests", queue="cards"))),
    )
    assert set(alone) - set(queued) == {"requests.ephemeral-storage", "ephemeral-storage"}


def test_a_right_nobody_told_of_is_lacking() -> None:
    assert lacking({str(one): True for one in RIGHTS}, spec_of("notebook")) == []
    assert lacking({}, spec_of("notebook")) == [str(one) for one in RIGHTS]
    log = next(one for one in RIGHTS if one.part)
    review: Any = log.review("cards")
    assert review["spec"]["resourceAttributes"] == {
        "namespace": "cards", "verb": "get", "resource": "pods", "subresource": "log",
    }  # fmt: skip


@pytest.mark.parametrize(
    "spec", [None, spec_of("tests"), spec_of("notebook", notebook={"token": "my-token"})]
)
def test_secrets_are_asked_of_none_but_a_notebook_whose_token_is_made(spec: Spec | None) -> None:
    found = [str(one) for one in RIGHTS if one not in wanted(spec)]
    assert found == ["create secrets", "get secrets"]


def test_3_beats_1_and_all_well_is_0() -> None:
    good = judged("a", "seen", holds=True, remedy="never shown")
    bad = judged("b", "seen", holds=False, remedy="mend")
    open_ = checks.unasked("c", "forbidden", "ask")
    assert good.remedy == ""
    assert checks.exit_code([]) == 0
    assert checks.exit_code([good]) == 0
    assert checks.exit_code([good, bad]) == 1
    assert checks.exit_code([bad, open_]) == 3
    assert checks.digest([good, bad]) != checks.digest([good, open_])
    assert checks.digest([good]) == checks.digest([good])


def test_a_check_whose_answer_was_refused_is_not_asked_and_others_are() -> None:
    refused = {name: f"{name} is forbidden" for check in CHECKS for name in check.needs}
    found = check_all(Facts(unread=refused), asked())
    assert {one.state for one in found} == {UNASKED}
    assert len(found) == len(CHECKS)


def test_a_cluster_of_other_cards_is_asked_nothing_of_spyre() -> None:
    gpu = spec_of("evaluation", resources={"cards": 1, "resource": "nvidia.com/gpu"})
    room = {"capacity": {"nvidia.com/gpu": "24"}, "allocatable": {"nvidia.com/gpu": "24"}}
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    node = {"metadata": {"name": "gpu-1", "labels": dict(gpu.node_selector)}, "status": room | ready}
    found = {one.check: one for one in check_all(Facts(nodes=[node]), asked(spec=gpu))}
    assert found["healthy cards"].state == found["resource names"].state == PASSED
    assert not {"Spyre operator", "device plugin", "node labels"} & set(found)


def test_what_preflight_says_is_read_again() -> None:
    good = line_of("0000:1a:00.0", Finding(ok=True, seconds=1), emulated=False)
    bad = line_of(
        "0000:1b:00.0", Finding(ok=False, seconds=1, message="broke\x1b[31m\n::error::"), emulated=True
    )
    found = probing.cards_told(f"noise\n[1]\n{good}\n{bad}\n{json.dumps({'card': 'x'})}".encode() + b"\xff")
    assert [(one.card, one.ok, one.emulated) for one in found] == [
        ("0000:1a:00.0", True, False),
        ("0000:1b:00.0", False, True),
    ]
    assert found[1].message == "broke ::error::"


@given(st.binary(max_size=300))
def test_a_log_of_anything_says_nothing_of_cards(log: bytes) -> None:
    assert probing.cards_told(log) == () or b"card" in log


def node(name: str, healthy: int = 2, capacity: int = 2, *, usable: bool = True) -> Node:
    return Node(name=name, capacity=capacity, healthy=healthy, usable=usable)


def test_a_node_that_answers_for_fewer_cards_than_it_gives_out_is_told() -> None:
    card = probing.CardTold(card="0", ok=True, message="", emulated=False)
    found = list(probing.preflight([node("a")], [probing.NodeTold(node="a", cards=(card,))]))
    assert [one.state for one in found] == [PASSED, UNASKED]
    assert "a: 1 of 2" in found[1].seen


def test_a_pod_that_ended_and_said_nothing_is_told() -> None:
    pod = {"metadata": {"name": "p"}, "spec": {"nodeName": "a"}, "status": {"phase": "Failed"}}
    found = probing.node_told(pod, b"Traceback (most recent call last):")
    assert found.why == "p said nothing of cards"
    assert [one.state for one in probing.preflight([node("a")], [found])] == [FAILED, UNASKED]


@pytest.mark.parametrize(
    ("status", "state", "seen"),
    [
        ({"phase": "Succeeded"}, PASSED, "pulled"),
        ({"phase": "Failed"}, PASSED, "pulled"),
        ({"containerStatuses": [{"state": {"waiting": {"reason": "ErrImagePull", "message": "denied"}}}]},
         FAILED, "ErrImagePull: denied"),
        ({"containerStatuses": [{"state": {"waiting": {"reason": "RunContainerError"}}}]},
         PASSED, "pulled"),
        ({"phase": "Pending"}, UNASKED, "pod Pending"),
        ({"containerStatuses": [{"state": {"waiting": {"reason": "ContainerCreating"}}}]},
         UNASKED, "ContainerCreating"),
        ({"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
                          "message": "no room"}]}, UNASKED, "Unschedulable: no room"),
    ],
)  # fmt: skip
def test_an_image_is_pulled_or_not_by_what_its_pod_waits_for(
    status: dict[str, Any], state: str, seen: str
) -> None:
    found = probing.image_pull("image", {"metadata": {"name": "p"}, "status": status})
    assert (found.state, seen in found.seen) == (state, True)


def test_a_pod_that_went_away_is_not_asked() -> None:
    assert probing.image_pull("image", None).state == UNASKED


def test_what_is_put_into_a_cluster_is_what_nine_releases_take() -> None:
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
    for one in (asked(), asked(spec=spec)):
        jobs = probe.preflight_jobs(one, nodes, "validate-x", deadline_s=900, card_s=60)
        assert [job["spec"]["completions"] for job in jobs] == [1, 2]
        check_strictly([probe.pull_pod(one, "validate-x", 300), *jobs])


def test_a_nodes_cards_are_drawn_as_they_are() -> None:
    rows = drawing([node("a", 3, 4), node("b", usable=False), node("c", 100, 100)])
    assert [one.kind for one in rows[0].squares] == ["healthy"] * 3 + ["sick"]
    assert {one.kind for one in rows[1].squares} == {"shut"}
    assert rows[1].note == "2 of 2, takes no pods"
    assert len({(one.x, one.y) for one in rows[2].squares}) == 100


def test_a_cell_of_markdown_shows_what_it_was_given() -> None:
    assert cell("a|b\n`c` [d](e)") == "a\\|b \\`c\\` \\[d\\](e)"
