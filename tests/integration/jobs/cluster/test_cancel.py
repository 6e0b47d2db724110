from __future__ import annotations

import time

import pytest

from ci.core.errors import EXIT_INCOMPLETE
from ci.jobs.cancel import cancel, left_of
from ci.jobs.cluster import Cluster
from ci.jobs.errors import ForbiddenError, NotInTimeError
from ci.jobs.listing import jobs_of
from ci.jobs.submit import submit
from tests.kubernetes_api import KubernetesApi
from tests.kubernetes_jobs import NAME, manifests_of


def end(cluster: Cluster, *, timeout_s: float = 5) -> list[str]:
    return cancel(cluster, NAME, timeout_s=timeout_s, say=lambda _: None)


def test_nothing_of_a_job_is_left(api: KubernetesApi, cluster: Cluster) -> None:
    submit(cluster, manifests_of())
    api.world.pod(0).run()
    pods = sorted(one.name for one in api.world.pods())
    removed = end(cluster)
    assert removed == [f"Job {NAME}", *(f"Pod {name}" for name in pods), f"ConfigMap {NAME}-0"]
    assert left_of(cluster, NAME) == []
    options = [one.body for one in api.asked("DELETE", "/jobs/")]
    assert [one["propagationPolicy"] for one in options] == ["Foreground"]
    assert {key[0] for key in api.store.objects} == {"namespaces"}


def test_a_second_time_removes_nothing(api: KubernetesApi, cluster: Cluster) -> None:
    submit(cluster, manifests_of())
    end(cluster)
    assert end(cluster) == []
    assert len(api.asked("DELETE", "/jobs/")) == 1


def test_what_is_of_others_stays(api: KubernetesApi, cluster: Cluster) -> None:
    submit(cluster, manifests_of())
    api.put({"kind": "ConfigMap", "metadata": {"name": "theirs"}})
    api.put({"kind": "Pod", "metadata": {"name": "theirs"}, "spec": {}, "status": {}})
    end(cluster)
    assert {key[2] for key in api.store.objects} == {"cards", "theirs"}


def test_what_is_left_of_a_submit_that_was_killed_goes_too(api: KubernetesApi, cluster: Cluster) -> None:
    api.put(manifests_of()[0])
    assert end(cluster) == [f"ConfigMap {NAME}-0"]
    assert left_of(cluster, NAME) == []


def test_what_does_not_go_in_time_is_listed(api: KubernetesApi, cluster: Cluster) -> None:
    submit(cluster, manifests_of())
    api.world.pod(1).run()
    api.world.pod(1).stick()
    name = api.world.pod(1).name
    with pytest.raises(NotInTimeError, match=f"still there after 0.05 s: .*Pod {name}") as caught:
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
    assert told == ["waiting for 2 to go"]
    assert left_of(cluster, NAME) == []


def test_without_waiting_it_ends_at_once(api: KubernetesApi, cluster: Cluster) -> None:
    submit(cluster, manifests_of())
    api.world.pod(1).stick()
    assert end(cluster, timeout_s=0)
    assert left_of(cluster, NAME)


def test_answers_that_never_come_are_asked_for_again(api: KubernetesApi, cluster: Cluster) -> None:
    submit(cluster, manifests_of())
    api.fail("drop", method="DELETE", times=2, taken=True)
    end(cluster)
    assert left_of(cluster, NAME) == []


def test_secrets_that_may_not_be_seen_are_left_to_their_owner(api: KubernetesApi, cluster: Cluster) -> None:
    submit(cluster, manifests_of())
    api.denied.add(("list", "secrets"))
    assert f"Job {NAME}" in end(cluster)


def test_who_may_not_cancel_is_told_so(api: KubernetesApi, cluster: Cluster) -> None:
    submit(cluster, manifests_of())
    api.denied.add(("delete", "jobs"))
    with pytest.raises(ForbiddenError, match="cannot delete"):
        end(cluster)


def test_jobs_are_listed_with_their_state(api: KubernetesApi, cluster: Cluster) -> None:
    submit(cluster, manifests_of())
    api.world.pod(0).succeed()
    api.world.pod(1).fail(1)
    (row,) = jobs_of(cluster, now_s=time.time() + 3600)
    assert (row.name, row.kind, row.state, row.run) == (NAME, "tests", "running", "run-1")
    assert (row.pods, row.active, row.done, row.failed) == (3, 1, 1, 1)
    assert 3595 < row.age_s < 3610
    api.world.pod(2).succeed()
    assert jobs_of(cluster, now_s=0)[0].state == "failed"


def test_a_job_in_a_queue_and_one_that_goes_are_listed_as_such(api: KubernetesApi, cluster: Cluster) -> None:
    submit(cluster, manifests_of(queue="cards"))
    assert jobs_of(cluster, now_s=0)[0].state == "waits in the queue cards"
    with api.store.changed:
        api.store.of("jobs")[0]["metadata"]["deletionTimestamp"] = "2026-11-23T00:00:00Z"
    assert jobs_of(cluster, now_s=0)[0].state == "is being removed"
