"""A job is made, made again and removed: everything is checked first, and nothing is made twice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ci.core.errors import EXIT_INCOMPLETE, EXIT_USAGE
from ci.jobs.cluster import Cluster, path_of
from ci.jobs.errors import (
    ClusterAwayError,
    ConflictError,
    ForbiddenError,
    MissingError,
    NotInTimeError,
    RefusedError,
)
from ci.jobs.submit import cancel, submit
from tests.kubernetes_api import NAMESPACE, KubernetesApi
from tests.kubernetes_jobs import NAME, manifests_of, server_of

JOB = path_of("Job", NAMESPACE, NAME)
CONFIG = path_of("ConfigMap", NAMESPACE, f"{NAME}-0")


def there(cluster: Cluster, path: str) -> dict[str, Any]:
    found = cluster.get(path)
    assert found is not None
    return found


def made_nothing(api: KubernetesApi, cluster: Cluster) -> bool:
    posts = [one for one in api.seen if one.method != "GET" and "accessreviews" not in one.path]
    asked = {one.query.get("dryRun") for one in posts}
    return asked <= {"All"} and cluster.get(JOB) is None and cluster.get(CONFIG) is None


def end(cluster: Cluster, *, timeout_s: float = 5) -> list[str]:
    return cancel(cluster, NAME, timeout_s=timeout_s, say=lambda _: None)


def left(api: KubernetesApi) -> set[tuple[str, str]]:
    return {(plural, name) for plural, _, name in api.store.objects if plural != "namespaces"}


def test_a_job_is_made_with_all_it_needs_before_it_begins(api: KubernetesApi, cluster: Cluster) -> None:
    done = submit(cluster, manifests_of())
    assert (done.name, done.kind, done.begins, done.warnings) == (NAME, "Job", "this submit", [])
    assert done.made == [f"Job {NAME}", f"ConfigMap {NAME}-0"]
    job = there(cluster, JOB)
    assert job["spec"]["suspend"] is False
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": NAME, "uid": job["metadata"]["uid"]}
    assert there(cluster, CONFIG)["metadata"]["ownerReferences"] == [owner]
    sent = [one for one in api.seen if one.method != "GET" and "dryRun" not in one.query]
    assert [(one.method, one.path.rpartition("/")[2]) for one in sent] == [
        ("POST", "jobs"), ("POST", "configmaps"), ("PATCH", NAME),
    ]  # fmt: skip
    assert sent[0].body["spec"]["suspend"] is True
    assert len(api.world.pods()) == 3


def test_everything_is_checked_before_anything_is_made(api: KubernetesApi, cluster: Cluster) -> None:
    made = manifests_of()
    made[1]["spec"]["template"]["spec"]["restartPolicy"] = "Always"
    with pytest.raises(RefusedError, match=r"422: .*restartPolicy: Required value") as caught:
        submit(cluster, made)
    assert caught.value.exit_code == EXIT_USAGE
    assert made_nothing(api, cluster)


def test_a_cluster_of_1_28_that_drops_the_failure_policy_is_refused(
    api: KubernetesApi, cluster: Cluster
) -> None:
    api.git_version = "v1.28.9"
    with pytest.raises(RefusedError, match="would drop backoffLimitPerIndex, maxFailedIndexes,") as caught:
        submit(cluster, manifests_of())
    assert "podReplacementPolicy, rules of podFailurePolicy" in caught.value.what
    assert "JobBackoffLimitPerIndex" in str(caught.value.remedy)
    assert "1.29" in str(caught.value.remedy)
    assert caught.value.exit_code == EXIT_USAGE
    assert made_nothing(api, cluster)


MEMORY = {"limits": [{"type": "Container", "max": {"memory": "1Gi"}}]}


@pytest.mark.parametrize(
    ("pod", "world", "said"),
    [
        ({"priorityClassName": "gone"}, None, "no PriorityClass with name gone was found"),
        ({"serviceAccountName": "gone"}, None, 'serviceaccount "gone" not found'),
        ({"resources": {"memory": "2Gi"}}, MEMORY, "maximum memory usage per Container is 1Gi"),
        ({"hostNetwork": True}, "restricted", 'violates PodSecurity "restricted:latest"'),
    ],
)
def test_pods_that_the_cluster_refuses_are_refused_before_the_job_is_made(
    api: KubernetesApi, cluster: Cluster, pod: dict[str, Any], world: Any, said: str
) -> None:
    if isinstance(world, str):
        labels = {"pod-security.kubernetes.io/enforce": world}
        api.put({"kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": labels}})
    elif world:
        api.put({"kind": "LimitRange", "metadata": {"name": "limits"}, "spec": world})
    made = manifests_of()
    spec = made[1]["spec"]["template"]["spec"]
    if memory := pod.pop("resources", None):
        spec["containers"][0]["resources"] = {"requests": memory, "limits": memory}
    spec |= pod
    with pytest.raises(RefusedError, match="the namespace cards rejects its pods") as caught:
        submit(cluster, made)
    assert said in str(caught.value)
    assert caught.value.exit_code == EXIT_USAGE
    assert made_nothing(api, cluster)


def test_a_quota_that_is_full_is_a_warning_since_it_may_have_room_later(
    api: KubernetesApi, cluster: Cluster
) -> None:
    api.world.refuse_pods = "exceeded quota: cards, requested: 1, used: 8, limited: 8"
    done = submit(cluster, manifests_of())
    assert done.begins == "this submit"
    assert done.warnings[0].startswith("its pods wait for free quota in the namespace: ")


@pytest.mark.parametrize("served", [(), ("v1beta1",), ("v1",)])
def test_what_is_in_a_queue_is_started_by_the_queue_and_none_is_a_warning(
    api: KubernetesApi, cluster: Cluster, served: tuple[str, ...]
) -> None:
    api.kueue = list(served)
    done = submit(cluster, manifests_of(queue="cards"))
    assert (done.begins, there(cluster, JOB)["spec"]["suspend"]) == ("its queue", True)
    assert api.asked("PATCH", "") == []
    assert ["the cluster has no Kueue" in one for one in done.warnings] == [True] * (not served)


def test_the_same_submit_again_changes_nothing(api: KubernetesApi, cluster: Cluster) -> None:
    submit(cluster, manifests_of())
    version = api.store.version
    again = submit(cluster, manifests_of())
    assert (again.made, again.begins) == ([], "an earlier submit")
    assert api.store.version == version
    for index in range(3):
        api.world.pod(index).succeed()
    assert submit(cluster, manifests_of()).begins == "an earlier submit, and done"


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
    assert f"spyre-ci job cancel {NAME}; stored results stay" in str(caught.value)
    assert caught.value.exit_code == EXIT_USAGE


@pytest.mark.parametrize("at", ["configmaps$", f"jobs/{NAME}$"])
def test_a_submit_killed_half_way_is_finished_by_the_next(
    api: KubernetesApi, cluster: Cluster, at: str
) -> None:
    def killed() -> None:
        api.fail(code=503, method="PATCH" if "jobs" in at else "POST", path=at, times=99)

    with pytest.raises(ClusterAwayError):
        submit(cluster, manifests_of(), ready=killed)
    assert there(cluster, JOB)["spec"]["suspend"] is True
    assert api.world.pods() == []
    api.faults.clear()
    done = submit(cluster, manifests_of())
    assert f"Job {NAME}" not in done.made
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


def test_who_holds_a_job_afterwards_means_it(cluster: Cluster) -> None:
    submit(cluster, manifests_of())
    cluster.patch(JOB, {"spec": {"suspend": True}})
    assert submit(cluster, manifests_of()).begins == "an earlier submit"
    assert there(cluster, JOB)["spec"]["suspend"] is True


def test_a_server_is_held_as_well(cluster: Cluster) -> None:
    done = submit(cluster, server_of())
    assert (done.kind, done.begins) == ("Deployment", "this submit")
    assert there(cluster, path_of("Deployment", NAMESPACE, NAME))["spec"]["paused"] is False


def another_spec(_: KubernetesApi, cluster: Cluster) -> None:
    submit(cluster, manifests_of(spec="two"))


def left_over(api: KubernetesApi, _: Cluster) -> None:
    api.put(manifests_of()[0])


def being_removed(api: KubernetesApi, cluster: Cluster) -> None:
    submit(cluster, manifests_of())
    api.world.pod(0).stick()
    cluster.delete(JOB, propagation="Foreground")


@pytest.mark.parametrize(
    ("prepare", "said", "remedy"),
    [
        (another_spec, "made from another spec", f"spyre-ci job cancel {NAME}"),
        (left_over, "left over from a job that was removed", f"spyre-ci job cancel {NAME}"),
        (being_removed, "is being removed", "wait until it is removed"),
    ],
)
def test_a_name_that_is_taken_is_told(
    api: KubernetesApi,
    cluster: Cluster,
    prepare: Callable[[KubernetesApi, Cluster], None],
    said: str,
    remedy: str,
) -> None:
    prepare(api, cluster)
    with pytest.raises(ConflictError, match=said) as caught:
        submit(cluster, manifests_of())
    assert remedy in str(caught.value)


@pytest.mark.parametrize("plural", ["jobs", "pods"])
def test_who_may_not_submit_is_told_so(api: KubernetesApi, cluster: Cluster, plural: str) -> None:
    api.denied.add(("create", plural))
    with pytest.raises(ForbiddenError, match="cannot create resource"):
        submit(cluster, manifests_of())
    assert made_nothing(api, cluster)


def test_a_namespace_that_is_not_there_is_told(api: KubernetesApi, cluster: Cluster) -> None:
    api.store.objects.clear()
    with pytest.raises(MissingError, match=f'namespaces "{NAMESPACE}" not found'):
        submit(cluster, manifests_of())


def test_cancel_leaves_nothing_of_a_job_and_all_of_others(api: KubernetesApi, cluster: Cluster) -> None:
    submit(cluster, manifests_of())
    api.put({"kind": "ConfigMap", "metadata": {"name": "theirs"}})
    api.put({"kind": "Pod", "metadata": {"name": "theirs"}, "spec": {}, "status": {}})
    api.world.pod(0).run()
    pods = sorted(one.name for one in api.world.pods() if one.name != "theirs")
    api.fail("drop", method="DELETE", times=2, taken=True)
    assert end(cluster) == [f"Job {NAME}", *(f"Pod {name}" for name in pods), f"ConfigMap {NAME}-0"]
    assert left(api) == {("configmaps", "theirs"), ("pods", "theirs")}
    assert {one.body["propagationPolicy"] for one in api.asked("DELETE", "/jobs/")} == {"Foreground"}
    asked = len(api.asked("DELETE", ""))
    assert end(cluster) == []
    assert len(api.asked("DELETE", "")) == asked


def test_what_is_left_of_a_submit_that_was_killed_goes_too(api: KubernetesApi, cluster: Cluster) -> None:
    left_over(api, cluster)
    assert end(cluster) == [f"ConfigMap {NAME}-0"]
    assert left(api) == set()


def test_what_does_not_go_in_time_is_listed_unless_nobody_waits(api: KubernetesApi, cluster: Cluster) -> None:
    submit(cluster, manifests_of())
    stuck = api.world.pod(1)
    stuck.run()
    stuck.stick()
    assert end(cluster, timeout_s=0)
    with pytest.raises(NotInTimeError, match=f"still there after 0.05 s: .*Pod {stuck.name}") as caught:
        end(cluster, timeout_s=0.05)
    assert caught.value.exit_code == EXIT_INCOMPLETE
    assert "--force" in str(caught.value)


def test_what_goes_late_is_waited_for(api: KubernetesApi, cluster: Cluster) -> None:
    submit(cluster, manifests_of())
    stuck = api.world.pod(1)
    stuck.stick()
    told: list[str] = []

    def say(line: str) -> None:
        told.append(line)
        with api.store.changed:
            api.store.remove("pods", stuck.content)
            api.store.collect()

    cancel(cluster, NAME, timeout_s=10, say=say)
    assert told == ["waiting for 2 objects to be removed"]
    assert left(api) == set()


def test_lists_that_are_denied_are_left_to_their_owner_and_asked_for_once(
    api: KubernetesApi, cluster: Cluster
) -> None:
    submit(cluster, manifests_of())
    stuck = api.world.pod(1)
    stuck.stick()
    api.denied |= {("list", "secrets"), ("list", "persistentvolumeclaims")}
    with pytest.raises(NotInTimeError):
        end(cluster, timeout_s=5)
    assert len(api.asked("GET", "/pods$")) > 2
    assert len(api.asked("GET", "/secrets$")) == len(api.asked("GET", "/persistentvolumeclaims$")) == 1


@pytest.mark.parametrize("right", [("delete", "jobs"), ("list", "pods")])
def test_who_may_not_cancel_is_told_so(api: KubernetesApi, cluster: Cluster, right: tuple[str, str]) -> None:
    submit(cluster, manifests_of())
    api.denied.add(right)
    with pytest.raises(ForbiddenError, match=f"cannot {right[0]}"):
        end(cluster)
