"""Jobs of every kind: the manifests of a spec, and a job's whole life on a stand-in cluster."""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.engine import engine_client
from tests.kubernetes_api import NAMESPACE, TOKEN, KubernetesApi
from tests.kubernetes_cluster import CardCluster
from tests.manifests import broken_rules, check_strictly
from tests.oracle.conftest import ROOT, TREE, Desk, make_desk
from tests.oracle.job_nodes import Nodes
from tests.repositories import git

Golden = Callable[[str, str], None]
IMAGE = f"registry.example.com/spyre/runtime@sha256:{'a' * 64}"
MODEL = {"artifact": {"run": "0f" * 16, "path": "models/base"}}
MLFLOW = {"MLFLOW_TRACKING_URI": "https://mlflow.example.com"}
EVALUATION = {"command": ["evaluate", "{configs}/run.conf"], "configs": ["run.conf"]}
SPECS: dict[str, dict[str, Any]] = {
    "tests": {"resources": {"cards": 1}, "tests": {"plan": "nightly"}, "store": {"volume": "results"}},
    "evaluation": {"evaluation": EVALUATION, "queue": "cards", "parameters": {"BITS": 8}},
    "load": {"source": MODEL, "environment": MLFLOW, "load": {"to": "s3://models/base"}},
    "train": {
        "source": {"bucket": "s3://models/base"}, "store": {"bucket": "s3://runs/train"},
        "train": {"command": ["train"], "dataset": MODEL}, "environment": MLFLOW,
        "resources": {"cards": 8, "scratch": {"size": "500Gi", "storage_class": "fast"}},
        "tracking": {"experiment": "tuning", "output": "lora"},
    },
    "serve": {"source": {"bucket": "s3://models/base"}, "resources": {"cards": 1}},
    "notebook": {"resources": {"cards": 1}, "user": 1001, "group": 2001},
}  # fmt: skip
EXAMPLES = ("gpu-evaluation", "load", "serve", "tests-stage1")
# The oldest that has all a job needs, and the newest there are schemas of.
RELEASES = ("1.29", "1.33", "1.37")
PLANNED_BY = {"GITHUB_ACTIONS": "true", "GITHUB_RUN_ID": "42", "GITHUB_RUN_ATTEMPT": "1"}


@pytest.fixture(scope="module")
def planned(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    """A checkout with specs and a run `nightly` that was planned: nine tests, three shards."""
    base = tmp_path_factory.mktemp("planned")
    desk = make_desk(base, "report: {endpoint: none}\nrun: {retries: 0}\n", stand_in=True)
    shutil.copytree(TREE, base / "pytorch")
    shutil.copytree(ROOT / "examples", desk.folder / "examples")
    for kind, more in SPECS.items():
        spec = {"version": 1, "kind": kind, "image": {"name": IMAGE}, **more}
        desk.write(f"{kind}.yaml", yaml.safe_dump(spec))
    desk.write("run.conf", "a: 1\n")
    desk.write(".gitignore", "runs/\n.spyre-ci/\nout/\n")
    git(desk.folder, "init", "--quiet", "--initial-branch=main")
    git(desk.folder, "add", "--all")
    git(desk.folder, "commit", "--quiet", "--message", "specs")
    there = ("--run-dir", "runs/nightly")
    collect = ("collect", *there, "--pytorch-src", base / "pytorch", "--files", "test_outcomes.py")
    desk.call(*collect, code=0, **PLANNED_BY)
    desk.call("select", *there, "--percent", "100")
    desk.call("plan", *there, "--shards", "3")
    return desk


@pytest.fixture
def here(planned: Desk, tmp_path: Path) -> Desk:
    """A copy of it, for a test of its own; the tree stays where it was planned."""
    shutil.copytree(planned.folder, tmp_path / "base" / "desk")
    return replace(planned, folder=tmp_path / "base" / "desk")


@pytest.fixture
def api() -> Iterator[KubernetesApi]:
    with KubernetesApi() as server:
        yield server


def with_cluster(desk: Desk, api: KubernetesApi) -> Desk:
    """The same desk, with a kubeconfig that leads to the cluster."""
    found = {"KUBECONFIG": str(api.kubeconfig(desk.folder.parent)), "CI": "1"}
    return replace(desk, environ=desk.environ | found)


def ids_of(plan: dict[str, Any]) -> list[str]:
    return [one for shard in plan["shards"] for group in shard["groups"] for one in group["ids"]]


def tame(manifests: list[dict[str, Any]]) -> str:
    """Manifests without what is made anew for each: names by the run, hashes, packed content, a commit."""
    name = manifests[-1]["metadata"]["labels"]["app.kubernetes.io/name"]
    for one in manifests:
        for key in one.get("binaryData", {}):
            one["binaryData"][key] = "<packed>"
    text = yaml.safe_dump_all(manifests, sort_keys=True, width=200)
    text = text.replace(name, "<name>")
    text = re.sub(r"(?<!sha256:)\b[0-9a-f]{64}\b", "<hash>", text)
    return re.sub(r"(spyre-ci.io/commit: '?)[0-9a-f]{40}\b", r"\1<commit>", text)


def render(desk: Desk, spec: str) -> list[dict[str, Any]]:
    """The manifests of a spec, which are the same in a file and on the screen."""
    words = ("--run", "trial") if "tests" not in spec else ("--plan", "nightly")
    said = desk.call("job", "submit", spec, "--dry-run", *words, "--namespace", NAMESPACE)
    return list(yaml.safe_load_all(said.out))


@pytest.mark.gate
@pytest.mark.parametrize("name", [*SPECS, *(f"examples/{name}" for name in EXAMPLES)])
def test_manifests_of_each_kind_are_as_they_were_looked_at(planned: Desk, golden: Golden, name: str) -> None:
    manifests = render(planned, f"{name}.yaml")
    check_strictly(manifests, RELEASES)
    assert broken_rules(manifests) == []
    assert {one["metadata"]["namespace"] for one in manifests} == {NAMESPACE}
    golden(f"oracle/jobs/{name.replace('/', '-')}.yaml", tame(manifests))


def test_a_job_of_tests_has_a_pod_for_each_part_of_the_plan_and_its_cards(planned: Desk) -> None:
    job = render(planned, "tests.yaml")[-1]
    assert (job["kind"], job["spec"]["completionMode"]) == ("Job", "Indexed")
    assert job["spec"]["completions"] == len(planned.read("runs/nightly/plan.json")["shards"]) == 3
    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert container["image"] == IMAGE
    assert container["resources"]["limits"]["ibm.com/spyre_pf"] == "1"
    assert container["args"][:3] == ["spyre-ci", "job", "pod"]
    # What a test's own fault ends is not begun again, and what a node's does is.
    rules = {rule["action"] for rule in job["spec"]["podFailurePolicy"]["rules"]}
    assert rules == {"Ignore", "FailIndex", "Count"}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"kind": "tets"}, "tests"),
        ({"store": None}, "store"),
        ({"cards": 1}, "cards"),
        ({"resources": {"cards": -1}}, "cards"),
        ({"image": {"name": "UPPER case"}}, "image"),
    ],
)
def test_a_spec_that_does_not_hold_is_refused_by_its_key(
    here: Desk, change: dict[str, Any], said: str
) -> None:
    spec = {"version": 1, "kind": "tests", "image": {"name": IMAGE}, **SPECS["tests"]} | change
    here.write("wrong.yaml", yaml.safe_dump({key: one for key, one in spec.items() if one is not None}))
    told = here.call("job", "submit", "wrong.yaml", "--dry-run", code=2)
    assert "wrong.yaml" in told.err
    assert said in told.err


def objects(api: KubernetesApi, *plurals: str) -> list[str]:
    """What is in the cluster of some kinds."""
    with api.store.changed:
        every = plurals or ("jobs", "pods", "configmaps", "secrets", "services", "deployments")
        return [f"{plural}/{one['metadata']['name']}" for plural in every for one in api.store.of(plural)]


def submit(desk: Desk, *words: str, code: int = 0) -> str:
    """Submit the job of tests; its name."""
    said = desk.call("job", "submit", "tests.yaml", *words, code=code)
    assert TOKEN not in said.out + said.err
    return str(desk.read("runs/nightly/job.json")["name"])


@pytest.mark.gate
def test_a_job_is_submitted_once_seen_and_cancelled(here: Desk, api: KubernetesApi) -> None:
    desk = with_cluster(here, api)
    desk.call("job", "submit", "tests.yaml", "--check")
    assert objects(api) == []
    assert {one.query.get("dryRun") for one in api.asked("POST", "")} == {"All"}
    name = submit(desk)
    made = json.dumps(api.world.job(name))
    first = objects(api)
    assert submit(desk) == name
    assert (objects(api), json.dumps(api.world.job(name))) == (first, made)
    assert Counter(one.partition("/")[0] for one in first)["pods"] == 3
    said = desk.call("job", "cancel", name, "--json").json
    assert said["job"] == name
    assert objects(api) == []


REFUSALS: dict[str, dict[str, Any]] = {
    "its fields": {"code": 422, "reason": "Invalid", "method": "POST", "path": "/jobs"},
    "its inputs": {"code": 403, "reason": "Forbidden", "method": "POST", "path": "/configmaps"},
    "a quota": {
        "code": 403,
        "reason": "Forbidden",
        "message": "exceeded quota",
        "method": "POST",
        "path": "/jobs",
    },
}


@pytest.mark.gate
@pytest.mark.parametrize("name", REFUSALS)
def test_a_submit_that_is_refused_leaves_nothing(here: Desk, api: KubernetesApi, name: str) -> None:
    desk = with_cluster(here, api)
    api.fail("status", times=99, **REFUSALS[name])
    said = desk.call("job", "submit", "tests.yaml", code=2)
    assert str(REFUSALS[name]["code"]) in said.err
    assert objects(api) == []


@pytest.mark.gate
def test_a_job_is_watched_until_it_ends_and_its_logs_are_kept(here: Desk, api: KubernetesApi) -> None:
    desk = with_cluster(here, api)
    name = submit(desk)
    for index in range(3):
        pod = api.world.pod(index)
        pod.run()
        pod.log(f"hello of {index}", "::warning::no")
        pod.log("old", age_s=4 * 86_400)
    window = ("--shift-unit", "days", "--shift-amount", "3")
    said = desk.call("job", "logs", name, "--index", "1", *window)
    assert said.out == "[1] hello of 1\n[1] ::warning::no\n"
    desk.call("job", "logs", name, "--to", "out")
    kept = sorted(path.read_text() for path in (desk.folder / "out").iterdir())
    assert [text.count(f"hello of {index}") for index, text in enumerate(kept)] == [1, 1, 1]
    with desk.start("job", "watch", name, "--json") as process:
        api.world.pod(0).succeed()
        api.world.pod(1).fail(1)
        api.world.pod(2).succeed()
        out, err = process.communicate(timeout=120)
    assert process.returncode == 1, err
    told = json.loads(out)
    assert (told["job"], told["pods"], told["counts"], told["exit_code"]) == (
        name, 3, {"done": 2, "failed": 1}, 1,
    )  # fmt: skip
    assert "pod 1" in err


@pytest.mark.gate
def test_a_job_whose_pods_never_run_is_given_up_and_left(here: Desk, api: KubernetesApi) -> None:
    desk = with_cluster(here, api)
    name = submit(desk)
    for index in range(3):
        api.world.pod(index).pend()
    said = desk.call("job", "watch", name, "--pending-limit", "0", code=3)
    assert "0/6 nodes are available" in said.out + said.err
    assert len(objects(api, "pods")) == 3


def account(desk: Desk) -> dict[str, str]:
    """The verdicts of the run by id, which add up to the plan (law 1)."""
    run = desk.folder / "runs" / "nightly"
    rows = {one["id"]: one["verdict"] for one in desk.read(run / "results.jsonl.gz") if "id" in one}
    assert sorted(rows) == sorted(ids_of(desk.read(run / "plan.json")))
    summary = desk.read(run / "summary.json")
    assert summary["planned"] == len(rows) == sum(summary["verdicts"].values()), summary
    assert Counter(rows.values()) == {key: n for key, n in summary["verdicts"].items() if n}
    return rows


EXPECTED = {
    "test_passes": "passed", "test_fails": "failed", "test_errors": "failed", "test_skips": "skipped",
    "test_xfails": "xfailed", "test_unexpectedly_passes": "failed", "test_subtests": "failed",
    "test_function[left=1,right=2]": "passed", "test_function[left=3,right=4]": "passed",
}  # fmt: skip


@pytest.mark.gate
def test_pods_run_their_parts_and_one_report_adds_up_though_nodes_were_lost(
    here: Desk, api: KubernetesApi, tmp_path: Path
) -> None:
    desk, store = with_cluster(here, api), tmp_path / "volume"
    # What is heard of pods is cut off once, and asked for too often once.
    api.cut_watches = [3]
    api.fail("status", code=429, reason="TooManyRequests", retry_after=0, path="/pods", method="GET")
    with Nodes(api, desk, store, {1: ["evicted"]}).working() as nodes:
        said = desk.call("job", "submit", "tests.yaml", "--collect", "--store", store, code=1)
    assert {one.rpartition("::")[2]: verdict for one, verdict in account(desk).items()} == EXPECTED
    assert sorted(nodes.codes) == [0, 1, 2]
    assert all(codes in ([0], [1]) for codes in nodes.codes.values())
    for name in ("report.html", "junit", "summary.md"):
        assert (desk.folder / "runs" / "nightly" / name).exists()
    assert TOKEN not in said.out + said.err
    # Collecting again is the same account.
    before = account(desk)
    desk.call("job", "collect", "nightly", "--from", store, code=1)
    assert account(desk) == before


@pytest.mark.nightly
def test_what_no_pod_ran_is_told_as_not_run(here: Desk, api: KubernetesApi, tmp_path: Path) -> None:
    desk, store = with_cluster(here, api), tmp_path / "volume"
    words = ("--collect", "--store", store, "--pending-limit", "0.03")
    with Nodes(api, desk, store, {2: ["unpulled"]}).working():
        desk.call("job", "submit", "tests.yaml", *words, code=3)
    verdicts = account(desk)
    lost = ids_of({"shards": [desk.read("runs/nightly/plan.json")["shards"][2]]})
    assert {one for one, verdict in verdicts.items() if verdict == "not_run"} == set(lost)


@pytest.mark.nightly
def test_the_same_spec_runs_on_the_container_engine_here(here: Desk) -> None:
    with engine_client() as client:
        script = 'cat "$1/run.conf"; echo "$PARAM_SIZE" > /results/size; exit 1'
        spec = {
            "version": 1,
            "kind": "evaluation",
            "name": f"x{secrets.token_hex(4)}",
            "image": {"name": os.environ["TEST_BASE_IMAGE"]},
            "store": {"volume": "results"},
            "evaluation": {"command": ["/bin/sh", "-c", script, "sh", "{configs}"], "configs": ["run.conf"]},
        }
        here.write("here.yaml", yaml.safe_dump(spec))
        words = ("--local", "--param", "SIZE=7", "--network", "none", "--store", "out")
        said = here.call("job", "submit", "here.yaml", *words, code=1)
        assert "[0] a: 1\n" in said.out
        assert (here.folder / "out" / "size").read_text() == "7\n"
        left = client.containers.list(all=True, ignore_removed=True)
        assert not [one for one in left if str(spec["name"]) in json.dumps(one.labels)]


def test_what_is_no_pod_is_refused(here: Desk, tmp_path: Path) -> None:
    assert "SPYRE_CI_JOB_STORE" in here.call("job", "pod", code=2).err
    (tmp_path / "empty").mkdir()
    assert "nightly" in here.call("job", "collect", "nightly", "--from", tmp_path / "empty", code=2).err


@contextmanager
def kubelet(cluster: CardCluster) -> Iterator[None]:
    """Pods of a cluster of cards start and end by themselves."""
    stop = threading.Event()

    def work() -> None:
        while not stop.wait(0.1):
            cluster.sleep(1)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(10)


def card_cluster(api: KubernetesApi) -> CardCluster:
    """A cluster with all that the spec of tests and stage 0 want."""
    made = CardCluster(api)
    claim = {"accessModes": ["ReadWriteMany"]}
    api.put(
        {
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "results"},
            "spec": claim,
            "status": {"phase": "Bound"},
        }
    )
    api.put(
        {
            "kind": "ClusterVersion", "metadata": {"name": "version"}, "spec": {"clusterID": "0123-abcd"},
            "status": {"desired": {"version": "4.20.1"}},
        }
    )  # fmt: skip
    return made


def findings(desk: Desk, *words: str, code: int) -> dict[str, str]:
    said = desk.call("job", "validate", "--spec", "tests.yaml", "--json", *words, code=code)
    return {one["check"]: one["state"] for one in said.json["findings"]}


@pytest.mark.gate
def test_a_cluster_is_validated_with_a_check_of_every_card(here: Desk, api: KubernetesApi) -> None:
    desk, made = with_cluster(here, api), card_cluster(api)
    with kubelet(made):
        found = findings(desk, "--out", "validation.md", code=0)
        assert set(found.values()) <= {"passed", "unknown", "skipped"}, found
        assert found["preflight"] == "passed"
        assert objects(api, "jobs", "pods", "configmaps") == []
        assert "ignature" in (desk.folder / "validation.md").read_text()


@pytest.mark.nightly
def test_one_bad_card_of_a_cluster_is_found(here: Desk, api: KubernetesApi) -> None:
    desk, made = with_cluster(here, api), card_cluster(api)
    made.sick[("node-2", 3)] = "bus fence"
    with kubelet(made):
        found = findings(desk, code=1)
    assert found["preflight"] == "failed"
    assert objects(api, "jobs", "pods", "configmaps") == []


@pytest.mark.gate
def test_a_cluster_that_lacks_something_is_told_by_the_check(here: Desk, api: KubernetesApi) -> None:
    desk, made = with_cluster(here, api), card_cluster(api)
    assert "failed" not in findings(desk, "--no-preflight", code=0).values()
    del api.store.objects["persistentvolumeclaims", NAMESPACE, "results"]
    for number in (1, 2, 3):
        made.node(f"node-{number}")["status"]["allocatable"]["ibm.com/spyre_pf"] = "1"
    found = findings(desk, "--no-preflight", code=1)
    assert found["storage"] == "failed"
    assert found["cards"] == "failed"
