"""The verbs of jobs: what they refuse before anything is asked, what they print, and how they end."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import yaml

from ci.cli.app import run
from ci.core.errors import EXIT_GOES_ON, EXIT_INCOMPLETE, EXIT_INTERRUPTED, EXIT_OK, EXIT_USAGE, UsageError
from ci.jobs.cluster import Cluster
from ci.jobs.job import Job
from ci.jobs.prepare import Asked, at_checkout
from ci.jobs.submit import submit
from ci.record.identity import RunIdentity, read_identity, write_identity
from test_selection.plan import Group, Plan, Shard, fingerprint, write_plan
from test_selection.selection import Selection, write_selection
from tests.kubernetes_api import NAMESPACE, TOKEN, KubernetesApi
from tests.kubernetes_jobs import NAME, manifests_of
from tests.mlflow_api import MlflowApi
from tests.repositories import commit, git
from tests.tracked import bounded

IMAGE = f"registry.example.com/spyre/runtime@sha256:{'b' * 64}"
EVALUATION: dict[str, Any] = {
    "version": 1,
    "kind": "evaluation",
    "image": {"name": IMAGE},
    "parameters": {"BATCH": 8, "TOKEN": {"secret": "hub", "key": "token"}},
    "evaluation": {"command": ["evaluate", "{configs}/a.yaml"], "configs": ["a.yaml"]},
}
TESTS: dict[str, Any] = {
    "version": 1,
    "kind": "tests",
    "image": {"name": IMAGE},
    "tests": {"plan": "some"},
    "store": {"volume": "results"},
}


@pytest.fixture
def project(tmp_path: Path, api: KubernetesApi, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Specs of two kinds, a config file and a planned run."""
    folder = tmp_path / "project"
    planned = folder / "runs" / "some"
    planned.mkdir(parents=True)
    groups = (Group(file="test_a.py", ids=("test_a.py::T::test_1",)),)
    shards = (Shard(index=0, expected_s=1, groups=groups),)
    plan = Plan(fingerprint=fingerprint(shards), bound_s=1, makespan_s=1, binds="balance", shards=shards)
    write_plan(planned / "plan.json", plan)
    write_selection(planned / "selection.json", Selection(stage=None, percent=100, ids=plan.ids))
    identity = RunIdentity(
        run="some", run_id=7, run_attempt=1, device="spyre", pytorch_version="2.13.0", pytorch_sha="0" * 40,
        stage=None, percent=100, started_at=1_772_366_400.0,
    )  # fmt: skip
    write_identity(planned, identity)
    (folder / "a.yaml").write_text("model: base\n")
    (folder / "evaluation.yaml").write_text(yaml.safe_dump(EVALUATION))
    (folder / "tests.yaml").write_text(yaml.safe_dump(TESTS))
    (folder / "spyre-ci.yaml").write_text("report: {endpoint: none}\n")
    monkeypatch.chdir(folder)
    monkeypatch.setenv("KUBECONFIG", str(api.kubeconfig(tmp_path)))
    monkeypatch.setenv("CI", "1")
    return folder


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["evaluation.yaml", "--param", "BATCH"], "--param 'BATCH' is not NAME=VALUE"),
        (["evaluation.yaml", "--param", "TOKEN=x"], "which the spec takes from a secret"),
        (["evaluation.yaml", "--param", "bad name=x"], "bad name"),
        (["evaluation.yaml", "--plan", "some"], "--plan is some, but kind evaluation has no plan"),
        (["evaluation.yaml", "--gather"], "only jobs of kind tests have journals, this is kind evaluation"),
        (["evaluation.yaml", "--run", "../other"], "--run cannot be '../other'"),
        (["evaluation.yaml", "--run", ""], "--run cannot be ''"),
        (["tests.yaml", "--run", "../other"], "--run cannot be '../other'"),
        (["tests.yaml", "--run", "other", "--dry-run"], "--run is other, but the plan belongs to some-7-1"),
        (["tests.yaml", "--gather"], "where the pods put their results is not recorded"),
        (["tests.yaml", "--plan", "gone"], "there is no run 'gone'"),
        (["gone.yaml"], "there is no such job spec"),
        (["built.yaml", "--dry-run"], "the image is built when the job is submitted"),
        (["lost.yaml", "--dry-run"], "the config file 'gone.yaml' is not below the spec's folder"),
        (["linked.yaml", "--dry-run"], "the config file 'link.yaml' is not below the spec's folder"),
    ],
)
def test_what_cannot_be_submitted_is_told_before_anything_is_asked(
    project: Path, api: KubernetesApi, capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    (project / "link.yaml").symlink_to(project.parent / "kubeconfig")
    others: dict[str, dict[str, Any]] = {
        "built": {"image": {"upload": {"folder": ".", "to": "registry.example.com/x/y"}}},
        "lost": {"evaluation": {"command": ["x", "{configs}"], "configs": ["gone.yaml"]}},
        "linked": {"evaluation": {"command": ["x", "{configs}"], "configs": ["link.yaml"]}},
    }
    for name, more in others.items():
        (project / f"{name}.yaml").write_text(yaml.safe_dump(EVALUATION | more))
    assert run(["job", "submit", *words]) == 2
    assert said in capsys.readouterr().err
    assert api.seen == []
    assert not (project / "runs" / "other").exists()


@pytest.mark.usefixtures("project")
def test_a_dry_run_prints_what_kubectl_takes_and_asks_nobody(
    api: KubernetesApi, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["job", "submit", "evaluation.yaml", "--dry-run", "--run", "one", "--param", "BATCH=32"]
    assert run(words) == 0
    pod = list(yaml.safe_load_all(capsys.readouterr().out))[-1]["spec"]["template"]["spec"]
    environment = {one["name"]: one.get("value") for one in pod["containers"][0]["env"]}
    assert (environment["PARAM_BATCH"], environment["PARAM_TOKEN"]) == ("32", None)
    assert run(["job", "submit", "tests.yaml", "--dry-run"]) == 0
    assert [one["kind"] for one in yaml.safe_load_all(capsys.readouterr().out)] == ["ConfigMap", "Job"]
    assert api.seen == []


def test_a_local_run_takes_the_image_that_is_here_and_asks_no_registry(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, ran = "only-here:1", list[str]()
    (project / "here.yaml").write_text(yaml.safe_dump(EVALUATION | {"image": {"name": name}}))
    monkeypatch.setattr("ci.jobs.images.find_digest", lambda _: pytest.fail("a registry was asked"))

    def run_here(job: Job, _: object, **__: object) -> int:
        ran.append(job.image)
        return 0

    monkeypatch.setattr("ci.jobs.local.run_here", run_here)
    assert run(["job", "submit", "here.yaml", "--local"]) == 0
    assert ran == [name]


@pytest.mark.nightly
@pytest.mark.parametrize(
    "words",
    [["submit", "tracked.yaml", "--run", "one", "--collect"], ["collect", "one"]],
    ids=["submit", "collect"],
)
def test_mlflow_is_told_how_a_job_without_tests_ended(
    project: Path,
    api: KubernetesApi,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
) -> None:
    from mlflow import MlflowClient  # noqa: PLC0415  # it takes seconds

    tracked = {"tracking": {"experiment": "dialogues", "output": "metrics"}, "store": {"volume": "results"}}
    (project / "tracked.yaml").write_text(yaml.safe_dump(EVALUATION | tracked))
    metrics = project / "results" / "one" / "metrics"
    metrics.mkdir(parents=True)
    (metrics / "metrics.json").write_text("{}")
    store = ["--from" if words[0] == "collect" else "--store", "results"]
    with MlflowApi() as server:
        bounded(monkeypatch, server.url)
        assert run(["job", "submit", "tracked.yaml", "--run", "one"]) == 0
        assert run(["job", "collect", "one"]) == EXIT_GOES_ON
        assert "the job is still running" in capsys.readouterr().out
        client, (made,) = MlflowClient(server.url), server.runs
        assert client.get_run(made).info.status == "RUNNING"
        api.world.pod(0).pend()
        submit_one = ["job", "submit", "tracked.yaml", "--run", "one"]
        assert run([*submit_one, "--collect", "--pending-limit", "0"]) == EXIT_INCOMPLETE
        assert client.get_run(made).info.status == "RUNNING"
        api.world.pod(0).succeed()
        # Its output is told by whoever sees the volume.
        assert run([*submit_one, "--watch"]) == 0
        assert "the job's output is not in MLflow" in capsys.readouterr().out
        assert not [name for name in server.files if "/output/" in name]
        assert run(["job", *words, *store]) == 0
        found = client.get_run(made)
        assert (found.info.status, list(found.data.metrics)) == ("FINISHED", ["seconds"])
        assert [name for name in server.files if name.endswith("/output/metrics.json")]


@pytest.mark.parametrize(("ends", "status"), [(0, "FINISHED"), (KeyboardInterrupt, "KILLED")])
def test_what_mlflow_did_not_hear_of_a_job_here_is_told_by_the_next_collect(
    project: Path, monkeypatch: pytest.MonkeyPatch, ends: Any, status: str
) -> None:
    from mlflow import MlflowClient  # noqa: PLC0415  # it takes seconds

    (project / "tracked.yaml").write_text(yaml.safe_dump(EVALUATION | {"tracking": {"experiment": "one"}}))
    monkeypatch.setattr("ci.jobs.local.run_here", Mock(side_effect=[ends]))
    bounded(monkeypatch, "http://127.0.0.1:9")
    code = run(["job", "submit", "tracked.yaml", "--run", "one", "--local"])
    assert code == (EXIT_INTERRUPTED if ends else 0)
    with MlflowApi() as server:
        bounded(monkeypatch, server.url)
        assert run(["job", "collect", "one"]) == 0
        assert MlflowClient(server.url).get_run(*server.runs).info.status == status
        assert run(["job", "collect", "one"]) == EXIT_USAGE


def test_a_plan_that_is_submitted_as_another_run_is_run_once_more(
    project: Path,
    api: KubernetesApi,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (project / "runs" / "some" / "summary.json").write_text("{}")
    assert run(["job", "submit", "tests.yaml", "--run", "nightly-1-1"]) == 0
    assert run(["job", "submit", "tests.yaml", "--run", "nightly-1-1"]) == 0
    folder = project / "runs" / "nightly-1-1"
    again = read_identity(folder)
    assert (again.run, again.device, again.run_attempt) == ("nightly-1-1", "spyre", 1)
    assert again.run_id > read_identity(project / "runs" / "some").run_id
    assert (folder / "plan.json").read_bytes() == (project / "runs" / "some" / "plan.json").read_bytes()
    assert not (folder / "summary.json").exists()
    assert len(api.store.of("jobs")) == 1
    assert run(["job", "submit", "tests.yaml", "--run", "nightly-2-1"]) == 0
    assert len(api.store.of("jobs")) == 2
    assert sorted(one.name for one in (project / "runs").iterdir()) == ["nightly-1-1", "nightly-2-1", "some"]
    (project / "runs" / "trial").mkdir()
    assert run(["job", "submit", "tests.yaml", "--run", "trial"]) == 2
    assert "trial: exists without a plan: another run has this name" in capsys.readouterr().err
    with monkeypatch.context() as full:
        full.setattr("shutil.copyfile", Mock(side_effect=OSError(errno.ENOSPC, "No space left on device")))
        assert run(["job", "submit", "tests.yaml", "--run", "full"]) == EXIT_INCOMPLETE
    assert not (project / "runs" / "full").exists()
    # A plan that was made elsewhere, where nothing was run yet.
    (project / "runs").rename(project / "elsewhere")
    assert run(["job", "submit", "tests.yaml", "--plan", "elsewhere/some", "--run", "nightly-3-1"]) == 0


def test_a_warning_of_a_submit_is_said_and_what_it_made_is_printed(
    project: Path, api: KubernetesApi, capsys: pytest.CaptureFixture[str]
) -> None:
    api.world.refuse_pods = "exceeded quota: cards"
    (project / "notebook.yaml").write_text(
        yaml.safe_dump({"version": 1, "kind": "notebook", "image": {"name": IMAGE}})
    )
    assert run(["job", "submit", "notebook.yaml", "--run", "trial", "--json"]) == 0
    out, err = capsys.readouterr()
    assert (json.loads(out)["begun_by"], json.loads(out)["image"]) == ("this submit", IMAGE)
    assert "warning: its pods wait for free quota in the namespace" in err
    (secret,) = api.store.of("secrets")
    assert f"its token is in the secret {secret['metadata']['name']}" in err
    assert secret["stringData"]["token"] not in out + err


@pytest.mark.usefixtures("project")
def test_a_cluster_that_goes_away_leaves_the_job_running(
    api: KubernetesApi, cluster: Cluster, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    submit(cluster, manifests_of())
    monkeypatch.setattr("ci.jobs.cli.PATIENCE_S", 0)
    api.fail(code=503, path="/pods$", times=99)
    assert run(["job", "watch", NAME]) == EXIT_GOES_ON
    assert (
        f"the job is still running; watch it again with `spyre-ci job watch {NAME}`"
        in capsys.readouterr().err
    )


@pytest.mark.usefixtures("project")
def test_ctrl_c_leaves_the_job_running_and_says_how_to_go_on(api: KubernetesApi, cluster: Cluster) -> None:
    submit(cluster, manifests_of())
    watching = subprocess.Popen(  # this interpreter, on this project
        [sys.executable, "-c", "from ci.cli import main; main()", "job", "watch", NAME],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[4])},
    )
    try:
        end = time.monotonic() + 60
        while not any("watch" in one.query for one in api.seen):
            assert time.monotonic() < end
            time.sleep(0.05)
        watching.send_signal(signal.SIGINT)
        _, said = watching.communicate(timeout=30)
    finally:
        watching.kill()
    assert f"the job is still running: watch it again with `spyre-ci job watch {NAME}`" in said
    assert f"end it with `spyre-ci job cancel {NAME}`" in said
    assert len(api.world.pods()) == 3
    assert watching.returncode == EXIT_INTERRUPTED


def test_a_watch_tells_its_end_as_json(
    project: Path, api: KubernetesApi, cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    assert project.is_dir()
    submit(cluster, manifests_of(pods=2))
    api.world.pod(0).fail(1)
    api.world.pod(1).succeed()
    assert run(["job", "watch", NAME, "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert (found["counts"], found["exit_code"]) == ({"done": 1, "failed": 1}, 1)
    assert found["why"] == "failed for good: pods 0"


def test_logs_go_to_a_folder_and_pods_without_are_said(
    project: Path, api: KubernetesApi, cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    submit(cluster, manifests_of(pods=1))
    api.world.pod(0).run()
    api.world.pod(0).log("hello")
    assert run(["job", "logs", NAME, "--to", "logs"]) == EXIT_OK
    assert "logs of 1 pod: logs" in capsys.readouterr().err
    assert [one.read_text() for one in (project / "logs").iterdir()] == ["[0] hello\n"]
    run(["job", "cancel", NAME])
    submit(cluster, manifests_of(queue="cards"))
    assert run(["job", "logs", NAME]) == EXIT_INCOMPLETE
    assert "no log of pods 0-2: they are gone or not created yet" in capsys.readouterr().err


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--shift-amount", "3"], "--shift-amount needs --shift-unit"),
        (["--follow", "--to", "logs"], "--follow and --to exclude each other"),
    ],
)
def test_flags_that_do_not_go_together_are_refused(
    capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    assert run(["job", "logs", NAME, *words]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.usefixtures("project")
def test_a_job_is_cancelled_and_what_went_is_said(
    api: KubernetesApi, cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    submit(cluster, manifests_of())
    assert run(["job", "cancel", NAME]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"{NAME}: removed 1 Job, 3 Pod, 1 ConfigMap"
    assert run(["job", "cancel", NAME, "--json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out) == {"schema": "spyre-ci/job-cancel/1", "job": NAME, "removed": []}
    assert err == f"{NAME}: nothing to remove\n"
    del api.seen[:]
    run(["job", "cancel", NAME, "--namespace", "other"])
    assert all("/namespaces/other/" in one.path for one in api.seen)
    api.token = "another"
    assert run(["job", "cancel", NAME]) == 2
    said = "".join(capsys.readouterr())
    assert "sign in again" in said
    assert TOKEN not in said
    assert NAMESPACE != "other"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    commit(tmp_path / "checkout", {"a.py": "1\n"})
    return tmp_path / "checkout"


def test_a_clean_checkout_is_its_commit_and_another_folder_has_none(checkout: Path) -> None:
    sha = git(checkout, "rev-parse", "HEAD")
    assert at_checkout(Asked(), checkout, allow_dirty=False) == Asked(commit=sha)
    assert at_checkout(Asked(), checkout.parent, allow_dirty=False) == Asked()


def test_a_dirty_checkout_is_refused_with_its_files(checkout: Path) -> None:
    # A change git was told not to see is one as well.
    git(checkout, "update-index", "--skip-worktree", "a.py")
    (checkout / "a.py").write_text("2\n")
    for number in range(6):
        (checkout / f"new-{number}").write_text("")
    with pytest.raises(
        UsageError, match=r"7 files of the checkout differ .*: a.py, new-0.* and 2 more"
    ) as caught:
        at_checkout(Asked(), checkout, allow_dirty=False)
    assert "--allow-dirty" in str(caught.value)
    assert at_checkout(Asked(), checkout, allow_dirty=True).dirty
