"""A job of tests from its spec to its report, on a stand-in cluster where pods are lost in every way."""

from __future__ import annotations

import json
import threading
from collections import Counter
from pathlib import Path

import pytest
import yaml

from ci.cli.app import run
from ci.record.identity import RunIdentity, write_identity
from ci.record.verdict import Verdict
from ci.report.results import read_results
from test_selection.files import read_json
from test_selection.plan import Group, Plan, Shard, fingerprint, write_plan
from test_selection.selection import Selection, write_selection
from tests.kubelet import Host, Kubelet, Life
from tests.kubernetes_api import TOKEN, KubernetesApi

RUN = "20260301-120000-spyre-stage1"
PODS, TESTS = 8, 6
SPEC = {
    "version": 1,
    "kind": "tests",
    "image": {"name": f"registry.example.com/spyre/runtime@sha256:{'a' * 64}"},
    "resources": {"cards": 1},
    "tests": {"plan": RUN},
    "store": {"volume": "results"},
}


def id_of(shard: int, number: int) -> str:
    return f"test_{shard}.py::TestIt::test_{number}"


def plan_of(pods: int) -> Plan:
    shards = tuple(
        Shard(
            index=shard,
            expected_s=3,
            groups=(Group(file=f"test_{shard}.py", ids=tuple(id_of(shard, one) for one in range(TESTS))),),
        )
        for shard in range(pods)
    )
    return Plan(fingerprint=fingerprint(shards), bound_s=3, makespan_s=3, binds="balance", shards=shards)


def identity_of(number: int) -> RunIdentity:
    return RunIdentity(
        run=RUN, run_id=number, run_attempt=1, device="spyre", pytorch_version="2.13.0",
        pytorch_sha="0" * 40, stage=None, percent=100, started_at=1_772_366_400.0,
    )  # fmt: skip


@pytest.fixture
def project(tmp_path: Path, api: KubernetesApi, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout that is none, with a planned run and a spec."""
    folder = tmp_path / "project"
    planned = folder / "runs" / RUN
    planned.mkdir(parents=True)
    plan = plan_of(PODS)
    write_plan(planned / "plan.json", plan)
    write_selection(planned / "selection.json", Selection(stage=None, percent=100, ids=plan.ids))
    write_identity(planned, identity_of(7))
    (folder / "job.yaml").write_text(yaml.safe_dump(SPEC))
    (folder / "spyre-ci.yaml").write_text("report: {endpoint: none}\n")
    monkeypatch.chdir(folder)
    monkeypatch.setenv("KUBECONFIG", str(api.kubeconfig(tmp_path)))
    monkeypatch.setenv("CI", "1")
    # A job that waits is looked at as often as a watch is opened.
    monkeypatch.setattr("ci.jobs.watch.WINDOW_S", 1)
    return folder


def lost_node(host: Host) -> None:
    host.pod.run("node-3")
    host.test(upto=3, cut=True)
    host.pod.lose_node()
    host.pod.delete_node()


def evicted(host: Host) -> None:
    host.pod.run()
    host.test(upto=2)
    host.pod.evict()


def pending(host: Host) -> None:
    host.pod.pend()


def no_image(host: Host) -> None:
    host.pod.image_missing()


def incomplete(host: Host) -> None:
    host.pod.run()
    host.test(upto=1)
    host.pod.fail(3)


def red(host: Host) -> None:
    host.pod.run()
    host.test(failing=["test_4"])
    host.pod.fail(1)


def well(host: Host) -> None:
    host.pod.run()
    host.test()
    host.pod.succeed()


LIVES: dict[int, list[Life]] = {
    2: [lost_node, well],
    3: [evicted, well],
    4: [pending],
    5: [no_image],
    6: [incomplete],
    7: [red],
}


def test_whatever_becomes_of_pods_every_planned_test_has_one_verdict(
    api: KubernetesApi, project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # What is heard of pods is cut off twice, and what it goes on from is forgotten once.
    api.cut_watches = [2, 3]
    api.fail("status", code=429, reason="TooManyRequests", retry_after=0, path="/pods", method="GET")
    api.fail("status", code=410, reason="Expired", path="/pods", method="GET", times=1)
    store = tmp_path / "volume"
    with Kubelet(api, store, tmp_path / "mounts", LIVES).working():
        code = run(
            ["job", "submit", "job.yaml", "--collect", "--store", str(store), "--pending-limit", "0.05"]
        )
    said = "".join(capsys.readouterr())
    assert code == 3, said
    results = {one.id: one for one in read_results(project / "runs" / RUN / "results.jsonl.gz")}
    plan = plan_of(PODS)
    assert sorted(results) == sorted(plan.ids)
    by_pod = {pod: Counter(results[id_of(pod, one)].verdict for one in range(TESTS)) for pod in range(PODS)}
    # Shards are dealt to pods one each, the longest first; all are alike here, so pod and shard agree.
    assert by_pod[0] == by_pod[1] == by_pod[2] == by_pod[3] == {Verdict.PASSED: TESTS}
    assert by_pod[4] == by_pod[5] == {Verdict.NOT_RUN: TESTS}
    assert by_pod[6] == {Verdict.PASSED: 3, Verdict.NOT_RUN: TESTS - 3}
    assert by_pod[7] == {Verdict.PASSED: TESTS - 1, Verdict.FAILED: 1}
    summary = read_json(project / "runs" / RUN / "summary.json", "summary")
    assert (summary["planned"], sum(summary["verdicts"].values())) == (PODS * TESTS, PODS * TESTS)
    assert "Insufficient ibm.com/spyre_pf" in results[id_of(4, 0)].message
    assert "cannot pull registry.example.com/spyre/runtime" in results[id_of(5, 0)].message
    # Which test was cut off with its node is plain to see.
    assert results[id_of(2, 2)].attempts == 2
    assert TOKEN not in said


def test_a_job_that_goes_on_is_reported_here_and_nobody_hears_of_its_end(
    api: KubernetesApi, project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store, folder = tmp_path / "volume", project / "runs" / RUN
    go = threading.Event()

    def slow(host: Host) -> None:
        host.pod.run()
        host.test(upto=2)
        go.wait(60)
        host.test()
        host.pod.succeed()

    told = [folder / "hud.json", project / ".spyre-ci" / "store.sqlite"]
    collect = ["job", "collect", RUN, "--from", str(store)]
    with Kubelet(api, store, tmp_path / "mounts", {PODS - 1: [slow]}).working() as kubelet:
        assert run(["job", "submit", "job.yaml"]) == 0
        kubelet.wait_for_journals(PODS)
        assert run(collect) == 3
        assert "collect it after its end for HUD, MLflow, history" in "".join(capsys.readouterr())
        assert (folder / "report.html").is_file()
        assert not [path for path in told if path.exists()]
        go.set()
        name = read_json(folder / "job.json", "job")["name"]
        assert run(["job", "watch", name]) == 0
    assert run(collect) == 0
    assert [path for path in told if path.exists()] == told


def test_a_run_is_not_begun_again_in_another_image_or_dealt_otherwise(
    api: KubernetesApi, project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store, folder = tmp_path / "volume", project / "runs" / RUN
    with Kubelet(api, store, tmp_path / "mounts", {}).working():
        assert run(["job", "submit", "job.yaml", "--collect", "--store", str(store)]) == 0
    assert run(["job", "cancel", read_json(folder / "job.json", "job")["name"]]) == 0
    another = f"registry.example.com/spyre/runtime@sha256:{'b' * 64}"
    capsys.readouterr()
    for more, said in (
        ({"image": {"name": another}}, f", now {another}"),
        ({"tests": {"plan": RUN, "pods": 4}}, "its shards were split among 8 pods, now differently among 4"),
    ):
        (project / "other.yaml").write_text(yaml.safe_dump(SPEC | more))
        assert run(["job", "submit", "other.yaml"]) == 2
        shown = "".join(capsys.readouterr())
        assert f"{RUN}-7-1 was submitted before as tests-" in shown
        assert said in shown
    assert run(["job", "submit", "job.yaml", "--dry-run"]) == 0
    # Whoever takes the record away has it said what the tests ran in.
    record = read_json(folder / "job.json", "job") | {"image": another}
    (folder / "job.json").write_text(json.dumps(record))
    run(["job", "collect", RUN, "--from", str(store)])
    notes = read_json(folder / "summary.json", "summary")["notes"]
    assert any(one.startswith(f"planned for {another}; ran in registry.example.com") for one in notes)


@pytest.mark.nightly
def test_last_nights_journals_are_no_word_of_tonights_tests(
    api: KubernetesApi, project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store, folder = tmp_path / "volume", project / "runs" / RUN
    words = ["job", "submit", "job.yaml", "--collect", "--store", str(store), "--pending-limit", "0.05"]
    # Last night shard 1 had a second pod, and tonight it has one; nothing runs of shard 2.
    tonight: dict[int, list[Life]] = {1: [evicted, well, red, red], 2: [well, pending]}
    kubelet = Kubelet(api, store, tmp_path / "mounts", tonight)
    with kubelet.working():
        assert run(words) == 0, "".join(capsys.readouterr())
        write_identity(folder, identity_of(8))
        assert run(["job", "collect", RUN, "--from", str(store)]) == 2
        said = "".join(capsys.readouterr())
        assert f"belongs to run {RUN}-7-1, but this folder now has run {RUN}-8-1" in said
        assert run(words) == 3
    said = "".join(capsys.readouterr())
    assert f"moved earlier results, which are not of {RUN}-8-1, to " in said
    results = {one.id: one for one in read_results(folder / "results.jsonl.gz")}
    assert results[id_of(1, 4)].verdict is Verdict.FAILED
    assert {results[id_of(2, one)].verdict for one in range(TESTS)} == {Verdict.NOT_RUN}
    assert (folder / "earlier" / "1" / "journal" / "1-2.jsonl").is_file()
    assert run(["job", "collect", RUN, "--from", str(store)]) == 3
    assert "not of" not in "".join(capsys.readouterr())


def test_a_check_makes_nothing_and_asks_the_cluster_of_everything(
    api: KubernetesApi, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["job", "submit", "job.yaml", "--check"]) == 0
    asked = [one for one in api.seen if one.method == "POST"]
    assert {one.query.get("dryRun") for one in asked} == {"All"}
    assert {one.body["kind"] for one in asked} == {"ConfigMap", "Job", "Pod"}
    assert not (project / "runs" / RUN / "job.json").exists()
    assert "the cluster accepts it; nothing was created" in capsys.readouterr().out


@pytest.mark.usefixtures("project")
def test_rendering_a_notebook_tells_how_to_make_the_secret_that_a_submit_makes(
    capsys: pytest.CaptureFixture[str],
) -> None:
    spec = {"version": 1, "kind": "notebook", "image": SPEC["image"]}
    Path("notebook.yaml").write_text(yaml.safe_dump(spec))
    assert run(["job", "submit", "notebook.yaml", "--dry-run", "--run", "trial", "-n", "cards"]) == 0
    out, err = capsys.readouterr()
    pod = [*yaml.safe_load_all(out)][-1]["spec"]["template"]["spec"]
    named = pod["containers"][0]["env"]
    (secret,) = [one["valueFrom"]["secretKeyRef"]["name"] for one in named if one["name"] == "JUPYTER_TOKEN"]
    assert "only `spyre-ci job submit` creates" in err
    # A token given as a word would be seen by whoever lists processes.
    assert f"oc create secret generic -n cards {secret} --from-file=token=/dev/stdin" in err
    Path("notebook.yaml").write_text(yaml.safe_dump({**spec, "notebook": {"token": "mine"}}))
    assert run(["job", "submit", "notebook.yaml", "--dry-run", "--run", "trial"]) == 0
    assert "secret" not in capsys.readouterr().err
