"""A lane's jobs on a cluster that stands in: submitted, looked at and collected by real processes."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from ci.config.lanes_model import OpenShiftJob
from ci.core.errors import MissingInputError, UsageError
from ci.core.process import Ended, finish_command
from ci.jobs.cluster import Cluster, open_cluster
from ci.jobs.errors import ClusterAwayError, CredentialsError, ForbiddenError
from ci.jobs.submit import submit
from ci.lanes import openshift
from ci.lanes.openshift import OpenShiftFar
from ci.lanes.order import Order, Standing
from ci.lanes.remote import NotSubmittedError, Remote, SubmitAwayError
from ci.record.identity import RunIdentity, write_identity
from ci.report.history import History, export_durations
from test_selection.plan import Group, Plan, Shard, fingerprint, write_plan
from test_selection.selection import Selection, write_selection
from tests.kubelet import Host, Kubelet
from tests.kubernetes_api import TOKEN, KubernetesApi
from tests.kubernetes_jobs import NAME, hasty, manifests_of
from tests.past_runs import take_in
from tests.stand_in import Answer

ROOT = Path(__file__).parent.parent.parent.parent.parent
IMAGE = f"registry.example.com/spyre/runtime@sha256:{'a' * 64}"
TESTS = {
    "version": 1,
    "kind": "tests",
    "image": {"name": IMAGE},
    "resources": {"cards": 1},
    "tests": {"plan": "planned"},
    "store": {"volume": "results"},
}
EVALUATION = {
    "version": 1,
    "kind": "evaluation",
    "image": {"name": IMAGE},
    "evaluation": {"command": ["evaluate"]},
}
Make = Callable[..., Remote]


@pytest.fixture
def api() -> KubernetesApi:
    return KubernetesApi()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with settings, specs and a planned run of two shards."""
    folder = tmp_path / "project"
    planned = folder / "runs" / "planned"
    planned.mkdir(parents=True)
    shards = tuple(
        Shard(
            index=index,
            expected_s=3,
            groups=(Group(file=f"t_{index}.py", ids=(f"t_{index}.py::T::test_a",)),),
        )
        for index in range(2)
    )
    plan = Plan(fingerprint=fingerprint(shards), bound_s=3, makespan_s=3, binds="balance", shards=shards)
    write_plan(planned / "plan.json", plan)
    write_selection(planned / "selection.json", Selection(stage=None, percent=100, ids=plan.ids))
    identity = RunIdentity(
        run="planned", run_id=7, run_attempt=1, device="spyre", pytorch_version="2.13.0",
        pytorch_sha="0" * 40, stage=None, percent=100, started_at=1_772_366_400.0,
    )  # fmt: skip
    write_identity(planned, identity)
    (folder / "tests.yaml").write_text(yaml.safe_dump(TESTS))
    (folder / "evaluation.yaml").write_text(yaml.safe_dump(EVALUATION))
    (folder / "spyre-ci.yaml").write_text("report: {endpoint: none}\n")
    return folder


@pytest.fixture
def make(api: KubernetesApi, project: Path, tmp_path: Path) -> Make:
    """An executor of the lane; each call is a worker that began anew."""
    environ = {
        **os.environ, "KUBECONFIG": str(api.kubeconfig(tmp_path)), "PYTHONPATH": str(ROOT), "CI": "1",
    }  # fmt: skip

    def opened(known: Mapping[str, str], **given: Any) -> Cluster:
        return open_cluster(known, effects=hasty(), **given)

    def made(spec: str = "tests.yaml") -> Remote:
        far = OpenShiftFar(
            OpenShiftJob(spec=Path(spec), store=str(tmp_path / "volume")), environ,
            base=project, runs=project / "runs", settings=project / "spyre-ci.yaml", open_there=opened,
        )  # fmt: skip
        now = 1_772_366_400.0

        def remember(folder: Path, run: str, lane: str) -> None:
            take_in(project / ".spyre-ci" / "store.sqlite", folder, now=now, run=run, lane=lane)

        return Remote(far=far, clock=lambda: now, wants_results=spec == "tests.yaml", remember=remember)

    return made


def submitted(api: KubernetesApi, far: object, *, queue: str = "") -> str:
    """A job of one pod that is there, made without a process."""
    made = manifests_of(pods=1, retries=0, queue=queue)
    submit(far._cluster, made)  # type: ignore[attr-defined]  # its own client
    assert api.store.of("jobs")
    return NAME


def red(host: Host) -> None:
    host.pod.run()
    host.test(failing=["test_a"])
    host.pod.fail(1)


@pytest.mark.nightly
def test_a_plan_is_run_as_the_orders_own_run_and_its_results_are_in_the_history(
    api: KubernetesApi, make: Make, order: Order, project: Path, tmp_path: Path
) -> None:
    with api:
        executor = make()
        assert executor.find(order) is None
        name = executor.start(order)
        assert make().find(order) == name
        assert make().start(order) == name
        assert len(api.asked("POST", "/jobs$")) == 2  # a dry run, and once in earnest
        assert executor.look(order, name).standing is Standing.RUNNING
        kubelet = Kubelet(api, tmp_path / "volume", tmp_path / "mounts", {1: [red]})
        with kubelet.working():
            kubelet.wait_for_journals(2)
            for _ in range(200):
                seen = executor.look(order, name)
                if seen.standing.ended:
                    break
    assert (seen.standing, seen.exit_code) == (Standing.FAILED, 1)
    assert "failed for good: pods 1" in seen.said
    assert (project / "runs" / order.id / "summary.json").is_file()
    durations = export_durations(History(project / ".spyre-ci" / "store.sqlite"))
    assert durations.tests == {"t_0.py::T::test_a": 0.5}


@pytest.mark.nightly
def test_another_kind_leaves_its_logs(api: KubernetesApi, make: Make, order: Order) -> None:
    with api:
        executor = make("evaluation.yaml")
        name = executor.start(order)
        pod = api.world.pod(0)
        pod.run()
        pod.log("loss 0.1")
        pod.fail(1)
        seen = executor.look(order, name)
    assert (seen.standing, seen.exit_code) == (Standing.FAILED, 1)
    logs = list((order.folder / "logs").iterdir())
    assert "loss 0.1" in logs[0].read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("code", "standing", "exit_code"),
    [
        (0, Standing.PASSED, 0),
        (1, Standing.FAILED, 1),
        (2, Standing.INCOMPLETE, 2),
        (3, Standing.INCOMPLETE, 3),
        (137, Standing.INCOMPLETE, 3),
    ],
)
def test_a_job_ends_as_its_pods_do(
    api: KubernetesApi, make: Make, order: Order, *, code: int, standing: Standing, exit_code: int
) -> None:
    with api:
        far = make().far
        name = submitted(api, far)
        assert far.look(order, name).standing is Standing.RUNNING
        api.world.pod(0).run()
        if code:
            api.world.pod(0).fail(code)
        else:
            api.world.pod(0).succeed()
        seen = far.look(order, name)
    assert (seen.standing, seen.exit_code) == (standing, exit_code)


def test_a_job_waits_in_its_queue_and_for_pods_that_are_ending(
    api: KubernetesApi, make: Make, order: Order
) -> None:
    with api:
        api.world.failed_at_once = True
        far = make().far
        name = submitted(api, far, queue="cards")
        seen = far.look(order, name)
    assert (seen.standing, seen.said) == (Standing.STARTING, "waits in the queue cards")


def test_a_job_that_passed_its_deadline_or_was_removed(api: KubernetesApi, make: Make, order: Order) -> None:
    with api:
        far = make().far
        name = submitted(api, far)
        api.world.pass_deadline(name)
        seen = far.look(order, name)
        assert (seen.standing, seen.exit_code) == (Standing.INCOMPLETE, 3)
        assert "DeadlineExceeded" in seen.said
        far.cancel(order, name)
        far.cancel(order, name)
        seen = far.look(order, name)
    assert (seen.standing, seen.exit_code) == (Standing.GONE, 3)


@pytest.mark.nightly
def test_a_submit_that_is_killed_half_way_or_loses_an_answer_makes_one_job(
    api: KubernetesApi, make: Make, order: Order, monkeypatch: pytest.MonkeyPatch
) -> None:
    with api:
        api.fail("drop", method="POST", path="/jobs$", taken=True, times=2)
        monkeypatch.setattr(openshift, "SUBMIT_S", 0.05)
        with pytest.raises(SubmitAwayError, match=r"spyre-ci job submit: took longer than 0.05 s"):
            make("evaluation.yaml").start(order)
        monkeypatch.undo()
        name = make("evaluation.yaml").start(order)
        assert [one["metadata"]["name"] for one in api.store.of("jobs")] == [name]


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("code", "reason", "kind", "exit_code"),
    [
        (401, "Unauthorized", NotSubmittedError, 2),
        (403, "Forbidden", NotSubmittedError, 2),
        (422, "Invalid", NotSubmittedError, 2),
    ],
)
def test_what_a_cluster_refuses_is_told_and_never_tried_again(
    api: KubernetesApi,
    make: Make,
    order: Order,
    *,
    code: int,
    reason: str,
    kind: type[Exception],
    exit_code: int,
) -> None:
    with api:
        api.fail(code=code, reason=reason, message="no, because", method="POST", path="/jobs$", times=9)
        with pytest.raises(kind, match=r"the job was not submitted \(exit code 2\): .*no, because") as caught:
            make("evaluation.yaml").start(order)
        assert caught.value.exit_code == exit_code  # type: ignore[attr-defined]  # one of ours
        assert TOKEN not in str(caught.value)
        assert api.store.of("jobs") == []


@pytest.mark.parametrize(
    ("kind", "code"), [("status", 500), ("status", 503), ("status", 429), ("drop", 0), ("cut", 0)]
)
def test_a_cluster_that_is_away_is_another_time(
    api: KubernetesApi, make: Make, order: Order, *, kind: str, code: int
) -> None:
    with api:
        executor = make().far
        name = submitted(api, executor)
        api.fail(kind, code=code, reason="InternalError", path="/jobs/", times=99)
        with pytest.raises(ClusterAwayError) as caught:
            executor.look(order, name)
        assert caught.value.exit_code == 3
        api.faults.clear()
        api.denied.add(("get", "jobs"))
        with pytest.raises(ForbiddenError):
            executor.look(order, name)


@pytest.mark.nightly
def test_results_that_were_not_collected_are_told_and_come_later(
    api: KubernetesApi,
    make: Make,
    order: Order,
    *,
    project: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with api:
        executor = make()
        name = executor.start(order)
        plan, away = project / "runs" / order.id / "plan.json", project / "plan.json"
        with Kubelet(api, tmp_path / "volume", tmp_path / "mounts", {}).working() as kubelet:
            kubelet.wait_for_journals(2)
            while not executor.far.look(order, name).standing.ended:
                pass
        plan.rename(away)
        with monkeypatch.context() as patched:
            ended = Ended(code=3, stdout=b"", stderr=b"the store is away")
            patched.setattr(openshift, "finish_command", lambda *_, **__: ended)
            with pytest.raises(SubmitAwayError, match="its results were not collected: the store is away"):
                executor.fetch(order, name)
        # Wrong usage stays wrong.
        brought = executor.far.bring(order, name)
        assert "its results were not collected" in brought.notes[0]
        assert brought.codes == [3]
        away.rename(plan)
        seen = executor.look(order, name)
    assert (seen.standing, seen.exit_code) == (Standing.PASSED, 0)
    assert (order.folder / "brought.json").is_file()


@pytest.mark.parametrize(
    ("code", "gone", "final"),
    [(1, False, True), (2, False, True), (3, True, True), (3, False, False), (-15, True, False)],
)
def test_what_can_never_be_collected_is_asked_for_once(
    api: KubernetesApi,
    make: Make,
    order: Order,
    monkeypatch: pytest.MonkeyPatch,
    *,
    code: int,
    gone: bool,
    final: bool,
) -> None:
    calls: list[object] = []

    def ends(argv: object, **_: object) -> Ended:
        calls.append(argv)
        return Ended(code=code, stdout=b"", stderr=b"no store")

    monkeypatch.setattr(openshift, "finish_command", ends)
    with api:
        executor = make()
        name = submitted(api, executor.far)
        record = SimpleNamespace(name="another" if gone else name, kind="tests")
        monkeypatch.setattr(openshift, "read_record", lambda _: record)
        for _ in range(2):
            with contextlib.nullcontext() if final else pytest.raises(SubmitAwayError, match="no store"):
                executor.fetch(order, name)
    assert len(calls) == (1 if final else 2)


def test_a_volume_that_nobody_here_sees_is_refused_before_anything_is_submitted(
    api: KubernetesApi, make: Make, order: Order, monkeypatch: pytest.MonkeyPatch
) -> None:
    with api:
        executor = make()
        unseen = OpenShiftJob(spec=Path("tests.yaml"))
        monkeypatch.setattr(executor.far, "_to", unseen)
        with pytest.raises(UsageError, match="results will be in the volume results, and nobody says"):
            executor.start(order)
        assert api.asked("POST", "/jobs$") == []
        # Other kinds leave logs, which come from the cluster.
        monkeypatch.setattr(executor.far, "_to", OpenShiftJob(spec=Path("evaluation.yaml")))
        executor.far.check(order)


@pytest.mark.parametrize("verb", ["submit", "collect"])
def test_an_interrupt_ends_a_submit_or_collect_soon(
    api: KubernetesApi, make: Make, order: Order, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    words = [sys.executable, "-c", "import time; time.sleep(60)"]
    began = time.monotonic()
    heard = threading.Event()
    monkeypatch.setattr(
        openshift, "finish_command", lambda _, **given: finish_command(words, **{**given, "timeout_s": 50})
    )
    with api:
        executor = make()
        monkeypatch.setattr(executor.far, "_stop", heard.is_set)
        name = submitted(api, executor.far)
        timer = threading.Timer(0.5, heard.set)
        timer.start()
        record = SimpleNamespace(name=name, kind="tests")
        if verb == "collect":
            monkeypatch.setattr(openshift, "read_record", lambda _: record)
        with pytest.raises(SubmitAwayError):
            executor.far.start(order) if verb == "submit" else executor.fetch(order, name)
        timer.join()
    assert time.monotonic() - began < 10


def test_an_answer_that_is_no_json_is_another_time(
    api: KubernetesApi, make: Make, order: Order, monkeypatch: pytest.MonkeyPatch
) -> None:
    with api:
        far = make().far
        name = submitted(api, far)
        monkeypatch.setattr(api, "answer", lambda _: Answer(body="<html>Log in</html>"))
        with pytest.raises(ClusterAwayError) as caught:
            far.look(order, name)
    assert caught.value.exit_code == 3


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (3, SubmitAwayError),
        (130, SubmitAwayError),
        (-9, SubmitAwayError),
        (1, NotSubmittedError),
        (2, NotSubmittedError),
    ],
)
def test_how_a_submit_ended_says_whether_another_time_may_do(
    api: KubernetesApi,
    make: Make,
    order: Order,
    monkeypatch: pytest.MonkeyPatch,
    *,
    code: int,
    kind: type[Exception],
) -> None:
    ended = Ended(code=code, stdout=b"", stderr=b"spyre-ci: \x1b[31mthe cluster\n is away")
    monkeypatch.setattr(openshift, "finish_command", lambda *_, **__: ended)
    said = rf"the job was not submitted \(exit code {code}\): spyre-ci: \\x1b\[31mthe cluster is away"
    with api, pytest.raises(kind, match=said):
        make("evaluation.yaml").start(order)


def test_a_spec_that_is_not_there_and_no_cluster_are_told(
    api: KubernetesApi, make: Make, order: Order, project: Path, tmp_path: Path
) -> None:
    with api, pytest.raises(MissingInputError, match="there is no spec of a job"):
        make("gone.yaml").start(order)
    with pytest.raises(CredentialsError):
        OpenShiftFar(
            OpenShiftJob(spec=Path("tests.yaml")), {"KUBECONFIG": str(tmp_path / "none")},
            base=project, runs=project / "runs", settings=None,
        )  # fmt: skip
