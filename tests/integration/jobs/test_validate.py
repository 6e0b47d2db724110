"""A cluster is checked: a healthy one passes, and each fault is told with its remedy."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from ci.cli.app import run
from ci.jobs import cli as job_cli
from ci.jobs.cluster import open_cluster
from tests.kubernetes_api import NAMESPACE, TOKEN, KubernetesApi
from tests.kubernetes_cluster import PF, CardCluster

IMAGE = "registry.example.org/cards/runtime:1"
SPEC: dict[str, Any] = {
    "version": 1,
    "kind": "tests",
    "image": {"name": IMAGE},
    "resources": {"cards": 8, "tier": 1},
    "store": {"volume": "results"},
    "priority": "nightly",
    "queue": "cards",
    "tests": {},
}


@pytest.fixture
def api() -> Iterator[KubernetesApi]:
    with KubernetesApi() as api:
        yield api


@pytest.fixture
def made(api: KubernetesApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CardCluster:
    """A healthy cluster of three nodes with eight cards each, as many as stage 0 has."""
    made = CardCluster(api)
    put = api.put
    put({"kind": "PersistentVolumeClaim", "metadata": {"name": "results"},
         "spec": {"accessModes": ["ReadWriteMany"]}, "status": {"phase": "Bound"}})  # fmt: skip
    put({"kind": "StorageClass", "metadata": {"name": "fast"}, "provisioner": "csi.example.org"})
    put({"kind": "PriorityClass", "metadata": {"name": "nightly"}, "value": 100})
    active = {"conditions": [{"type": "Active", "status": "True"}]}
    put(
        {
            "kind": "LocalQueue",
            "metadata": {"name": "cards"},
            "spec": {"clusterQueue": "all"},
            "status": active,
        }
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KUBECONFIG", str(api.kubeconfig(tmp_path)))
    monkeypatch.setattr(
        job_cli,
        "open_cluster",
        lambda environ, **more: open_cluster(environ, effects=made.effects(), **more),
    )
    write_spec(tmp_path, SPEC)
    return made


def write_spec(folder: Path, spec: Mapping[str, Any]) -> None:
    (folder / "spec.yaml").write_text(yaml.safe_dump(dict(spec)), encoding="utf-8")


def told(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict[str, dict[str, str]]]:
    """The exit code, and each finding by its check."""
    code = run(["job", "validate", "--spec", "spec.yaml", "--json", *words])
    said = capsys.readouterr().out
    return code, {one["check"]: one for one in json.loads(said)["findings"]}


def test_a_healthy_cluster_passes_and_nothing_stays_behind(
    made: CardCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    code, found = told(capsys)
    assert {one["state"] for one in found.values()} == {"passed"}, found
    assert code == 0
    assert found["preflight"]["seen"] == "24 cards passed"
    assert found["cards"]["seen"] == "24 healthy on 3 usable nodes; stage 0 needs 24"
    assert list(found) == [
        "API server", "rights", "nodes with cards", "Spyre operator", "cards", "nodes for the job",
        "storage", "queue", "pod", "preflight",
    ]  # fmt: skip
    left = {key[0] for key in made.api.store.objects if key[0] in {"pods", "jobs", "configmaps"}}
    assert left == set()


def test_all_cards_of_every_node_are_asked_for_by_one_pod_a_node(
    made: CardCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    node = made.node("node-2")
    for key in ("capacity", "allocatable"):
        node["status"][key] |= {PF: "4", f"{PF}_tier1": "4"}
    node["metadata"]["labels"]["ibm.com/spyre.count"] = "4"
    told(capsys)
    jobs = [one.body for one in made.api.asked("POST", "/jobs$")]
    asked = {
        one["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"][PF]: one["spec"][
            "completions"
        ]
        for one in jobs
    }
    assert asked == {"4": 1, "8": 2}


Spoil = Callable[[CardCluster], object]


def condition(name: str, kind: str, status: str) -> Spoil:
    def spoil(made: CardCluster) -> None:
        rows = made.node(name)["status"]["conditions"]
        rows[:] = [row for row in rows if row["type"] != kind] + [{"type": kind, "status": status}]

    return spoil


def allocatable(name: str, resource: str, number: str | None) -> Spoil:
    def spoil(made: CardCluster) -> None:
        for key in ("allocatable",) if number else ("allocatable", "capacity"):
            rows = made.node(name)["status"][key]
            rows.pop(resource) if number is None else rows.update({resource: number})

    return spoil


def sick_node(made: CardCluster) -> None:
    for resource in (PF, f"{PF}_tier1"):
        made.node("node-1")["status"]["allocatable"][resource] = "7"


def old_names(made: CardCluster) -> None:
    made.node("node-2")["status"]["allocatable"]["ibm.com/aiu_pf"] = "8"


def no_objects(plural: str) -> Spoil:
    def spoil(made: CardCluster) -> None:
        objects = made.api.store.objects
        for key in [key for key in objects if key[0] == plural]:
            del objects[key]

    return spoil


def change(plural: str, name: str, *path: str, to: Any) -> Spoil:
    def spoil(made: CardCluster) -> None:
        one = made.the(plural, name)
        for step in path[:-1]:
            one = one.setdefault(step, {})
        one[path[-1]] = to

    return spoil


def version(text: str) -> Spoil:
    return lambda made: setattr(made.api, "git_version", text)


MEMORY = {"limits": [{"type": "Container", "max": {"memory": "1Gi"}}]}
POLICY = ("spyreclusterpolicies", "spyreclusterpolicy")
FAULTS: list[tuple[str, Spoil, str, str]] = [
    ("API server", version("v1.27.9"), "v1.27.9", "Kubernetes 1.28 to 1.37"),
    ("nodes with cards", condition("node-2", "Ready", "False"), "healthy; not: node-2 (not Ready)", ""),
    ("nodes with cards", condition("node-1", "DiskPressure", "True"), "node-1 (DiskPressure)", "disk"),
    ("nodes with cards", change("nodes", "node-3", "spec", "unschedulable", to=True), "node-3 (cordoned)",
     "uncordon"),
    ("nodes with cards", no_objects("nodes"), "0 of 0 healthy", "no node has ibm.com/spyre_pf"),
    ("Spyre operator", lambda made: made.api.unserved.add("spyreclusterpolicies"), "not installed",
     "install"),
    ("Spyre operator", no_objects("spyreclusterpolicies"), "no SpyreClusterPolicy", "exactly one"),
    ("Spyre operator", change(*POLICY, "status", to={"state": "not ready", "message": "plugin is away"}),
     "not ready plugin is away", "spyrepol"),
    ("Spyre operator", change(*POLICY, "spec", "experimentalMode", to=["pseudoDevice"]), "pseudo devices",
     "fake cards"),
    ("cards", old_names, "old names: ibm.com/aiu_pf", "upgrade the device plugin"),
    ("cards", sick_node, "23 healthy on 3 usable nodes; stage 0 needs 24", "--stage"),
    ("cards", sick_node, "failing: node-1: 1", "lspci"),
    ("storage", no_objects("persistentvolumeclaims"), "results: not found", "ReadWriteMany"),
    ("storage", change("persistentvolumeclaims", "results", "spec", "accessModes", to=["ReadWriteOnce"]),
     "results: Bound, ReadWriteOnce", ""),
    ("storage", change("persistentvolumeclaims", "results", "status", "phase", to="Pending"),
     "results: Pending", ""),
    ("queue", no_objects("localqueues"), "no LocalQueue cards", "oc get localqueue"),
    ("queue", change("localqueues", "cards", "status", "conditions", to=[]),
     "cards -> all: not active, or stopped", "clusterqueue"),
    ("queue", lambda made: made.api.kueue.clear(), "the cluster has no Kueue", "leave `queue` out"),
    ("rights", lambda made: made.api.denied.update({("delete", "jobs"), ("get", "pods/log")}),
     "may not delete jobs, get pods/log", "add-role-to-user"),
    ("nodes for the job",
     lambda made: [
         made.node(f"node-{number}")["spec"].update(taints=[{"key": "own", "effect": "NoSchedule"}])
         for number in (1, 2, 3)
     ],
     "0 of 3 matching nodes usable; tainted: node-1 (own)", "tolerations"),
    ("pod", no_objects("priorityclasses"), "no PriorityClass with name nightly was found", "change the spec"),
    ("pod", lambda made: made.api.put({"kind": "LimitRange", "metadata": {"name": "limits"}, "spec": MEMORY}),
     "maximum memory usage per Container is 1Gi", "change the spec"),
    ("pod", lambda made: setattr(made.api.world, "refuse_pods", "exceeded quota: room"),
     "exceeded quota: room", "quota raised"),
]  # fmt: skip


@pytest.mark.parametrize(("check", "spoil", "seen", "remedy"), FAULTS)
def test_a_fault_is_told_with_what_was_seen_and_its_remedy(
    check: str,
    spoil: Spoil,
    seen: str,
    remedy: str,
    *,
    made: CardCluster,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with made.api.store.changed:
        spoil(made)
    code, found = told(capsys, "--no-preflight")
    assert found[check]["state"] == "failed", found
    assert seen in found[check]["seen"]
    assert remedy in found[check]["remedy"]
    assert found[check]["remedy"]
    assert code == 1


@pytest.mark.parametrize("versions", [["v1beta1"], ["v1beta2"], ["v1beta2", "v1beta1"]])
def test_kueue_is_asked_at_the_newest_version_that_is_served(
    versions: list[str], made: CardCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    made.api.kueue = versions
    assert told(capsys, "--no-preflight")[0] == 0
    assert {one.path.split("/")[3] for one in made.api.asked("GET", "queues/")} == {max(versions)}


def test_a_taint_that_the_spec_tolerates_keeps_nobody_out(
    made: CardCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in (1, 2, 3):
        taint = {"key": "own", "value": "us", "effect": "NoSchedule"}
        made.node(f"node-{number}")["spec"]["taints"] = [taint]
    write_spec(tmp_path, {**SPEC, "tolerations": [{"key": "own", "operator": "Equal", "value": "us"}]})
    assert told(capsys, "--no-preflight")[1]["nodes for the job"]["state"] == "passed"


@pytest.mark.usefixtures("made")
def test_a_stage_of_more_cards_than_there_are_fails(capsys: pytest.CaptureFixture[str]) -> None:
    code, found = told(capsys, "--no-preflight", "--stage", "1")
    assert code == 1
    assert found["cards"]["seen"] == "24 healthy on 3 usable nodes; stage 1 needs 128"


def test_cards_that_fail_their_check_are_named(made: CardCluster, capsys: pytest.CaptureFixture[str]) -> None:
    made.sick = {("node-2", 3): "card message: RAS::PCI::PCIeFailure"}
    made.says = ("a line that is none of ours", '{"no": "card"}', "{")
    code, found = told(capsys)
    assert code == 1
    seen = found["preflight"]["seen"]
    assert seen == ("23 cards passed; failed: node-2 0000:03:00.0: card message: RAS::PCI::PCIeFailure")


def test_nodes_that_do_not_answer_are_named(made: CardCluster, capsys: pytest.CaptureFixture[str]) -> None:
    made.busy, made.silent = {"node-1"}, {"node-3"}
    code, found = told(capsys)
    assert code == 3
    assert found["preflight"]["seen"] == "8 cards passed"
    told_of = found["preflight of every node"]
    assert told_of["state"] == "not checked"
    assert "2 nodes did not report all their cards: node-1 (0 of 8), node-3 (0 of 8)" in told_of["seen"]
    assert "Insufficient ibm.com/spyre_pf" in told_of["seen"]
    assert {key[0] for key in made.api.store.objects if key[0] in {"pods", "jobs"}} == set()


def test_a_quota_that_lets_no_pod_of_the_trial_in_is_told(
    made: CardCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    made.api.world.refuse_pods = "exceeded quota: room"
    code, found = told(capsys)
    assert code == 3
    assert "no pod can be created: Error creating: pods" in found["preflight of every node"]["seen"]


def test_a_node_whose_log_cannot_be_had_is_named_and_others_count(
    made: CardCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    # Which of the pods comes first, the cluster says.
    made.api.fail(path="-0-[a-z0-9]+/log$", message="dial tcp 10.0.0.7:10250: i/o timeout", times=99)
    code, found = told(capsys)
    assert code == 3
    assert found["preflight"]["seen"] == "16 cards passed"
    assert "1 nodes did not report all their cards" in found["preflight of every node"]["seen"]


def test_nodes_that_all_have_no_log_are_the_clusters_own_trouble(
    made: CardCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    made.api.fail(path="/log$", message="no route to host", times=999)
    assert run(["job", "validate", "--spec", "spec.yaml"]) == 3
    assert "no route to host" in capsys.readouterr().err
    assert {key[0] for key in made.api.store.objects if key[0] in {"pods", "jobs"}} == set()


def test_emulated_cards_are_no_cards(made: CardCluster, capsys: pytest.CaptureFixture[str]) -> None:
    made.emulated = True
    code, found = told(capsys)
    assert code == 1
    assert "emulated on node-1" in found["preflight on real cards"]["seen"]


def test_what_may_not_be_read_is_not_asked(made: CardCluster, capsys: pytest.CaptureFixture[str]) -> None:
    made.api.denied.add(("list", "nodes"))
    code, found = told(capsys)
    assert code == 3
    for name in ("nodes with cards", "cards", "nodes for the job", "preflight"):
        assert found[name]["state"] == "not checked"
        assert "nodes is forbidden" in found[name]["seen"]
    assert found["pod"]["state"] == "passed"


def test_no_usable_card_is_no_preflight(made: CardCluster, capsys: pytest.CaptureFixture[str]) -> None:
    for number in (1, 2, 3):
        made.node(f"node-{number}")["spec"]["unschedulable"] = True
    assert told(capsys)[1]["preflight"]["seen"] == "no usable node offers a card"


def test_what_a_log_of_github_shows_is_no_command(
    made: CardCluster, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    status = {"state": "not ready", "message": "::error::it broke " * 20}
    made.the("spyreclusterpolicies", "spyreclusterpolicy")["status"] = status
    assert run(["job", "validate", "--no-preflight"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert not [line for line in lines if re.match(r"\W*::", line) and not line.startswith("|")]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--stage", "9"], "there is no stage 9"),
        (["--preflight-timeout", "0"], "'--preflight-timeout': Input should be greater than or equal to 1"),
    ],
)
@pytest.mark.usefixtures("made")
def test_what_cannot_be_asked_for_is_refused(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["job", "validate", *words]) == 2
    assert said in capsys.readouterr().err


def test_a_cluster_that_is_away_ends_with_3(made: CardCluster, capsys: pytest.CaptureFixture[str]) -> None:
    made.api.fail("drop", times=1000)
    assert run(["job", "validate"]) == 3
    assert "spyre-ci: " in capsys.readouterr().err


def test_a_cluster_newer_than_any_that_was_checked_passes_and_is_told(
    made: CardCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    made.api.git_version = "v1.38.0"
    code, found = told(capsys, "--no-preflight")
    assert (code, found["API server"]["state"]) == (0, "passed")
    assert (
        found["API server"]["seen"]
        == "v1.38.0, newer than 1.37, the newest that manifests are checked against"
    )


@pytest.mark.parametrize(
    ("objects", "seen"),
    [
        ({}, "slow: not found"),
        ({"provisioner": "kubernetes.io/no-provisioner"}, "slow: kubernetes.io/no-provisioner"),
    ],
)
def test_a_storage_class_that_is_away_or_makes_no_volumes_is_told(
    objects: dict[str, str], seen: str, made: CardCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if objects:
        made.api.put({"kind": "StorageClass", "metadata": {"name": "slow"}, **objects})
    resources = {**SPEC["resources"], "scratch": {"storage_class": "slow"}}
    write_spec(tmp_path, {**SPEC, "resources": resources})
    code, found = told(capsys, "--no-preflight")
    assert (code, found["storage"]["state"]) == (1, "failed")
    assert found["storage"]["seen"].startswith(seen)


def test_an_image_the_registry_does_not_have_is_told_of_every_node(
    made: CardCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    made.missing_image = True
    code, found = told(capsys)
    assert code == 3
    assert f"cannot pull {IMAGE}" in found["preflight of every node"]["seen"]
    assert made.api.world.pods() == []


@pytest.mark.parametrize(
    ("denied", "message", "code", "seen"),
    [
        ({("create", "jobs")}, "", 3, "cannot create"),
        (set(), "exceeded quota: room", 1, "exceeded quota: room"),
    ],
)
def test_a_preflight_that_may_not_be_made_is_told(
    made: CardCluster,
    capsys: pytest.CaptureFixture[str],
    *,
    denied: set[tuple[str, str]],
    message: str,
    code: int,
    seen: str,
) -> None:
    made.api.denied |= denied
    if message:
        made.api.fail(code=422, reason="Invalid", message=message, method="POST", path="/jobs$")
    ended, found = told(capsys)
    assert ended == code
    assert seen in found["preflight"]["seen"]


@pytest.mark.usefixtures("made")
def test_without_a_spec_the_cluster_alone_is_checked(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["job", "validate", "--json"]) == 3
    found = {one["check"]: one for one in json.loads(capsys.readouterr().out)["findings"]}
    assert found["preflight"]["seen"] == "no image is known"
    assert "--image" in found["preflight"]["remedy"]
    assert not {"storage", "queue", "tiers"} & set(found)
    assert run(["job", "validate", "--image", IMAGE, "--json"]) == 0
    capsys.readouterr()


def test_the_report_is_one_to_sign_and_holds_no_token(
    made: CardCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status = {"state": "not ready", "message": "<script>alert(1)</script> | \x1b[31m::error::x"}
    made.the("spyreclusterpolicies", "spyreclusterpolicy")["status"] = status
    sick_node(made)
    out = tmp_path / "report.md"
    words = ["job", "validate", "--spec", "spec.yaml", "--no-preflight"]
    assert run([*words, "--out", str(out)]) == 1
    shown, report = capsys.readouterr().out, out.read_text(encoding="utf-8")
    for one in (shown, report):
        assert TOKEN not in one
        assert "\x1b[31m" not in one
    assert "<script" not in report
    for word in (
        "v1.33.2",
        made.api.url.removeprefix("http://"),
        NAMESPACE,
        "node-1",
        "0: 24 cards",
        "\\|",
    ):
        assert word in report
    assert "ignature" in report
    for word in ("failed", "remedy:", "checks:"):
        assert word in shown
