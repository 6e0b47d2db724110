from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ci.core.errors import EXIT_USAGE, UsageError
from ci.jobs.cluster import Cluster
from ci.jobs.errors import ClusterAwayError, ConflictError, ForbiddenError, MissingError, RefusedError
from ci.jobs.paths import path_of
from ci.jobs.submit import Checkout, check_checkout, submit
from tests.kubernetes_api import NAMESPACE, KubernetesApi
from tests.kubernetes_jobs import NAME, manifests_of
from tests.repositories import commit, git

JOB = path_of("Job", NAMESPACE, NAME)
CONFIG = path_of("ConfigMap", NAMESPACE, f"{NAME}-0")


def there(cluster: Cluster, path: str) -> dict[str, Any]:
    found = cluster.get(path)
    assert found is not None
    return found


def test_a_job_is_made_with_all_it_needs_before_it_begins(api: KubernetesApi, cluster: Cluster) -> None:
    done = submit(cluster, manifests_of())
    assert (done.name, done.kind, done.begins) == (NAME, "Job", "this submit")
    assert done.made == [f"Job {NAME}", f"ConfigMap {NAME}-0"]
    assert done.there == []
    job = there(cluster, JOB)
    assert job["spec"]["suspend"] is False
    references = there(cluster, CONFIG)["metadata"]["ownerReferences"]
    assert references == [
        {"apiVersion": "batch/v1", "kind": "Job", "name": NAME, "uid": job["metadata"]["uid"]}
    ]
    sent = [one for one in api.seen if one.method != "GET" and "dryRun" not in one.query]
    assert [(one.method, one.path.rpartition("/")[2]) for one in sent] == [
        ("POST", "jobs"),
        ("POST", "configmaps"),
        ("PATCH", NAME),
    ]
    assert sent[0].body["spec"]["suspend"] is True
    assert len(api.world.pods()) == 3


def test_everything_is_checked_before_anything_is_made(api: KubernetesApi, cluster: Cluster) -> None:
    made = manifests_of()
    made[1]["spec"]["template"]["spec"]["restartPolicy"] = "Always"
    with pytest.raises(RefusedError, match=r"422: .*restartPolicy: Required value") as caught:
        submit(cluster, made)
    assert caught.value.exit_code == EXIT_USAGE
    assert cluster.get(JOB) is None
    assert cluster.get(CONFIG) is None
    assert {one.query.get("dryRun") for one in api.asked("POST", "")} == {"All"}


def test_a_dry_run_is_checked_by_the_cluster_and_makes_nothing(api: KubernetesApi, cluster: Cluster) -> None:
    done = submit(cluster, manifests_of(), dry_run=True)
    assert (done.name, done.made, done.there, done.begins) == (NAME, [], [], "")
    assert len(api.asked("POST", "")) == 2
    assert cluster.get(JOB) is None


def test_a_cluster_that_drops_the_failure_policy_is_refused(api: KubernetesApi, cluster: Cluster) -> None:
    api.git_version = "v1.28.9"
    with pytest.raises(RefusedError, match="would drop backoffLimitPerIndex, maxFailedIndexes,") as caught:
        submit(cluster, manifests_of())
    assert "podReplacementPolicy, rules of podFailurePolicy" in caught.value.what
    assert "JobBackoffLimitPerIndex" in str(caught.value.remedy)
    assert "1.29" in str(caught.value.remedy)
    assert caught.value.exit_code == EXIT_USAGE
    assert cluster.get(JOB) is None
    assert {one.query.get("dryRun") for one in api.asked("POST", "")} == {"All"}


def test_the_same_submit_again_changes_nothing(api: KubernetesApi, cluster: Cluster) -> None:
    submit(cluster, manifests_of())
    version = api.store.version
    again = submit(cluster, manifests_of())
    assert again.made == []
    assert again.there == [f"ConfigMap {NAME}-0", f"Job {NAME}"]
    assert again.begins == "an earlier submit"
    assert api.store.version == version


def test_another_spec_under_the_same_name_is_refused(cluster: Cluster) -> None:
    submit(cluster, manifests_of())
    with pytest.raises(ConflictError, match="made of another spec") as caught:
        submit(cluster, manifests_of(spec="two"))
    assert f"spyre-ci job cancel {NAME}" in str(caught.value)


@pytest.mark.parametrize("away", [False, True])
def test_a_job_that_failed_is_not_taken_for_one_that_goes_on(
    api: KubernetesApi, cluster: Cluster, away: bool
) -> None:
    submit(cluster, manifests_of())
    if away:
        # Its last pod cannot end, so that the cluster says for now that it is to fail.
        api.world.pod(0).run()
        api.world.pod(0).lose_node()
    api.world.pass_deadline()
    with pytest.raises(ConflictError, match="has failed: DeadlineExceeded") as caught:
        submit(cluster, manifests_of())
    assert f"spyre-ci job cancel {NAME}; what has a verdict stays" in str(caught.value)
    assert caught.value.exit_code == EXIT_USAGE


def test_a_job_that_is_done_is_said_to_be(api: KubernetesApi, cluster: Cluster) -> None:
    submit(cluster, manifests_of())
    for index in range(3):
        api.world.pod(index).run()
        api.world.pod(index).succeed()
    assert submit(cluster, manifests_of()).begins == "an earlier submit, and done"


@pytest.mark.parametrize("at", ["configmaps$", f"jobs/{NAME}$"])
def test_a_submit_killed_half_way_is_finished_by_the_next(
    api: KubernetesApi, cluster: Cluster, at: str
) -> None:
    made = manifests_of()
    method = "PATCH" if "jobs" in at else "POST"
    real = cluster.create

    def create(path: str, body: Any, *, dry_run: bool = False) -> dict[str, Any]:
        if not dry_run:
            api.fail(code=503, method=method, path=at, times=99)
        return real(path, body, dry_run=dry_run)

    cluster.create = create  # type: ignore[method-assign]  # the moment of the kill
    with pytest.raises(ClusterAwayError):
        submit(cluster, made)
    assert there(cluster, JOB)["spec"]["suspend"] is True
    assert api.world.pods() == []
    api.faults.clear()
    cluster.create = real  # type: ignore[method-assign]  # the next process
    done = submit(cluster, made)
    assert f"Job {NAME}" in done.there
    assert done.begins == "this submit"
    assert there(cluster, CONFIG)["metadata"]["ownerReferences"]
    assert len(api.world.pods()) == 3


@pytest.mark.parametrize("kind", ["drop", "cut"])
def test_answers_that_never_come_make_nothing_twice(api: KubernetesApi, cluster: Cluster, kind: str) -> None:
    api.fail(kind, method="POST", path="jobs$", times=2, taken=True)
    api.fail(kind, method="PATCH", taken=True)
    assert submit(cluster, manifests_of()).begins == "this submit"
    assert len(cluster.items(path_of("Job", NAMESPACE))[0]) == 1
    assert len(api.world.pods()) == 3


def test_what_is_in_a_queue_is_started_by_the_queue(api: KubernetesApi, cluster: Cluster) -> None:
    assert submit(cluster, manifests_of(queue="cards")).begins == "its queue"
    assert there(cluster, JOB)["spec"]["suspend"] is True
    assert api.asked("PATCH", "") == []


def test_who_holds_a_job_afterwards_means_it(cluster: Cluster) -> None:
    submit(cluster, manifests_of())
    cluster.patch(JOB, {"spec": {"suspend": True}})
    assert submit(cluster, manifests_of()).begins == "an earlier submit"
    assert there(cluster, JOB)["spec"]["suspend"] is True


def test_a_server_is_held_as_well(cluster: Cluster) -> None:
    config, job = manifests_of()
    template = job["spec"]["template"]
    labels = {"matchLabels": template["metadata"]["labels"]}
    server = {**job, "apiVersion": "apps/v1", "kind": "Deployment"}
    server["spec"] = {"replicas": 1, "selector": labels, "template": template}
    done = submit(cluster, [config, server])
    assert (done.kind, done.begins) == ("Deployment", "this submit")
    assert there(cluster, path_of("Deployment", NAMESPACE, NAME))["spec"]["paused"] is False


def test_what_is_left_of_a_job_that_is_gone_is_not_taken_over(api: KubernetesApi, cluster: Cluster) -> None:
    api.put(manifests_of()[0])
    with pytest.raises(ConflictError, match="left of a job that is gone"):
        submit(cluster, manifests_of())


def test_a_job_that_is_being_removed_is_waited_for(api: KubernetesApi, cluster: Cluster) -> None:
    submit(cluster, manifests_of())
    api.world.pod(0).stick()
    cluster.delete(JOB, propagation="Foreground")
    with pytest.raises(ConflictError, match="is being removed"):
        submit(cluster, manifests_of())


def test_who_may_not_submit_is_told_so(api: KubernetesApi, cluster: Cluster) -> None:
    api.denied.add(("create", "jobs"))
    with pytest.raises(ForbiddenError, match="cannot create resource"):
        submit(cluster, manifests_of())
    assert cluster.get(CONFIG) is None


def test_a_namespace_that_is_not_there_is_told(api: KubernetesApi, cluster: Cluster) -> None:
    api.store.objects.clear()
    with pytest.raises(MissingError, match=f'namespaces "{NAMESPACE}" not found'):
        submit(cluster, manifests_of())


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    commit(tmp_path / "checkout", {"a.py": "1\n"})
    return tmp_path / "checkout"


def test_a_clean_checkout_is_its_commit(checkout: Path) -> None:
    sha = git(checkout, "rev-parse", "HEAD")
    assert check_checkout(checkout, allow_dirty=False) == Checkout(commit=sha)


def test_a_dirty_checkout_is_refused_with_its_files(checkout: Path) -> None:
    (checkout / "a.py").write_text("2\n")
    for number in range(6):
        (checkout / f"new-{number}").write_text("")
    with pytest.raises(
        UsageError, match=r"7 files of the checkout differ .*: a.py, new-0.* and 2 more"
    ) as caught:
        check_checkout(checkout, allow_dirty=False)
    assert "--allow-dirty" in str(caught.value)
    assert check_checkout(checkout, allow_dirty=True).dirty


def test_a_change_git_was_told_not_to_see_is_one(checkout: Path) -> None:
    git(checkout, "update-index", "--skip-worktree", "a.py")
    (checkout / "a.py").write_text("2\n")
    with pytest.raises(UsageError, match=r"a\.py"):
        check_checkout(checkout, allow_dirty=False)


def test_a_folder_of_no_repository_has_no_commit(tmp_path: Path) -> None:
    assert check_checkout(tmp_path, allow_dirty=False) == Checkout()
