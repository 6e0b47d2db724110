from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from ci.core.errors import EXIT_INCOMPLETE, EXIT_INTERRUPTED, EXIT_OK, UsageError
from ci.jobs.cluster import Cluster
from ci.jobs.cluster_cli import cancel, list_jobs, logs, watch
from ci.jobs.errors import ClusterAwayError, ForbiddenError
from ci.jobs.submit import submit
from tests.kubernetes_api import NAMESPACE, TOKEN, KubernetesApi
from tests.kubernetes_jobs import NAME, manifests_of

app = typer.Typer()
app.command("watch")(watch)
app.command("logs")(logs)
app.command("cancel")(cancel)
app.command("list")(list_jobs)


@pytest.fixture(autouse=True)
def _here(api: KubernetesApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", str(api.kubeconfig(tmp_path)))
    monkeypatch.setenv("CI", "1")


def run(*words: str) -> Result:
    done = CliRunner().invoke(app, words)
    assert TOKEN not in done.output + done.stderr
    return done


def test_a_cluster_that_goes_away_leaves_the_job_running(
    api: KubernetesApi, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit(cluster, manifests_of())
    monkeypatch.setattr("ci.jobs.cluster_cli.WATCH_PATIENCE_S", 0)
    api.fail(code=503, path="/pods$", times=99)
    done = run("watch", NAME)
    assert isinstance(done.exception, ClusterAwayError)
    assert f"the job goes on: watch it again with `spyre-ci job watch {NAME}`" in str(done.exception)


def test_ctrl_c_leaves_the_job_running_and_says_how_to_go_on(api: KubernetesApi, cluster: Cluster) -> None:
    submit(cluster, manifests_of())
    program = "import sys\nfrom tests.integration.jobs.cluster.test_cluster_cli import app\n"
    program += "sys.exit(app(standalone_mode=False))"
    watching = subprocess.Popen(  # this interpreter, on a program of this file
        [sys.executable, "-c", program, "watch", NAME],
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
    assert f"the job goes on: watch it again with `spyre-ci job watch {NAME}`" in said
    assert f"end it with `spyre-ci job cancel {NAME}`" in said
    assert len(api.world.pods()) == 3
    assert watching.returncode == EXIT_INTERRUPTED


def test_logs_go_to_a_file_or_a_folder(api: KubernetesApi, cluster: Cluster, tmp_path: Path) -> None:
    submit(cluster, manifests_of(pods=1))
    api.world.pod(0).run()
    api.world.pod(0).log("hello")
    assert run("logs", NAME, "--to", str(tmp_path / "all.log")).exit_code == EXIT_OK
    assert (tmp_path / "all.log").read_text() == "[0] hello\n"
    done = run("logs", NAME, "--to", str(tmp_path / "logs"))
    assert f"logs of 1 pod: {tmp_path / 'logs'}" in done.stderr
    assert [one.read_text() for one in (tmp_path / "logs").iterdir()] == ["[0] hello\n"]


def test_pods_without_logs_are_said(cluster: Cluster) -> None:
    submit(cluster, manifests_of(queue="cards"))
    done = run("logs", NAME)
    assert done.exit_code == EXIT_INCOMPLETE
    assert "no log of pods 0-2: they are gone, or were not made yet" in done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--shift-amount", "3"), "--shift-amount says nothing without --shift-unit"),
        (("--follow", "--to", "logs"), "--follow writes to the screen or to one file"),
    ],
)
def test_flags_that_do_not_go_together_are_refused(
    cluster: Cluster, words: tuple[str, ...], said: str
) -> None:
    submit(cluster, manifests_of())
    done = run("logs", NAME, *words)
    assert isinstance(done.exception, UsageError)
    assert said in str(done.exception)


def test_a_job_is_cancelled_and_what_went_is_said(cluster: Cluster) -> None:
    submit(cluster, manifests_of())
    done = run("cancel", NAME)
    assert done.stdout == f"removed of {NAME}: 1 Job, 3 Pod, 1 ConfigMap\n"
    done = run("cancel", NAME, "--json")
    assert (done.exit_code, json.loads(done.stdout)) == (
        EXIT_OK,
        {"schema": "spyre-ci/job-cancel/1", "job": NAME, "removed": []},
    )
    assert done.stderr == f"nothing of {NAME} is there\n"


def test_jobs_are_listed(cluster: Cluster) -> None:
    assert run("list").stdout == f"there are no jobs of spyre-ci in the namespace {NAMESPACE}\n"
    submit(cluster, manifests_of())
    line = run("list").stdout.splitlines()[1]
    assert line.split()[:6] == [NAME, "tests", "running", "3/3", "0", "0"]
    (row,) = json.loads(run("list", "--json").stdout)["jobs"]
    assert (row["name"], row["state"], row["pods"]) == (NAME, "running", 3)


def test_a_list_for_a_file_cuts_no_name_off(cluster: Cluster) -> None:
    job = manifests_of()[-1]
    name, run_id = "nightly-".ljust(52, "x"), "20260301-120000-spyre-".ljust(70, "x")
    job["metadata"]["name"] = job["metadata"]["labels"]["app.kubernetes.io/name"] = name
    job["metadata"]["annotations"]["spyre-ci.io/run-id"] = run_id
    submit(cluster, [job])
    assert run("list").stdout.splitlines()[1].split()[0] == name
    assert run_id in run("list").stdout


def test_another_namespace_is_asked(api: KubernetesApi) -> None:
    assert run("list", "--namespace", "other").stdout.endswith("other\n")
    assert all("/namespaces/other/" in one.path for one in api.seen)


def test_a_token_that_is_refused_is_told_without_it(api: KubernetesApi) -> None:
    api.token = "another"
    done = run("list")
    assert isinstance(done.exception, ForbiddenError)
    assert "sign in again" in str(done.exception)
    assert TOKEN not in str(done.exception)
