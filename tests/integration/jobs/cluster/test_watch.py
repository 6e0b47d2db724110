"""A job is watched until it ends, whatever becomes of its pods, its node, its queue and the cluster."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import pytest

from ci.core.errors import EXIT_GOES_ON, EXIT_INCOMPLETE, EXIT_OK, MissingInputError
from ci.jobs.cluster import Cluster, path_of
from ci.jobs.errors import ClusterAwayError
from ci.jobs.status import DELETED, ENDED_WITH_JOB, NODE_AWAY, SUSPENDED, Aggregates, Phase, PodStatus
from ci.jobs.submit import submit
from ci.jobs.watch import Ending, find_job, watch_job
from tests.kubernetes_api import NAMESPACE, KubernetesApi
from tests.kubernetes_jobs import NAME, manifests_of, server_of

JOB = path_of("Job", NAMESPACE, NAME)
UNSCHEDULED = "no scheduler has seen it yet"


@dataclass
class Told:
    """A view that keeps what it is told."""

    pods: list[PodStatus] = field(default_factory=list)
    found: Aggregates | None = None

    def tell(self, pod: PodStatus) -> None:
        self.pods.append(pod)

    def show(self, found: Aggregates, _: float) -> None:
        self.found = found

    def end(self, found: Aggregates) -> None:
        self.found = found


@dataclass
class Watched:
    """A watch that goes on in a thread of its own."""

    told: Told
    future: Future[tuple[Ending, Aggregates]]

    def until(self, holds: Callable[[Aggregates], object]) -> None:
        end = time.monotonic() + 20
        while self.told.found is None or not holds(self.told.found):
            assert not self.future.done(), self.future.result()
            assert time.monotonic() < end, self.told.found and self.told.found.counts
            time.sleep(0.01)

    def ending(self) -> Ending:
        return self.future.result(120)[0]


Watch = Callable[..., Watched]


@pytest.fixture
def watch(api: KubernetesApi, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[Watch]:
    # The job itself is looked at as often as a watch is opened.
    monkeypatch.setattr("ci.jobs.watch.WINDOW_S", 0.2)
    monkeypatch.setattr("ci.jobs.watch.UNBORN_S", 0.1)
    with ThreadPoolExecutor() as pool:

        def begin(**options: Any) -> Watched:
            told = Told()
            return Watched(told=told, future=pool.submit(watch_job, cluster, NAME, told, **options))  # type: ignore[arg-type]  # a view

        yield begin
        # What a failed test leaves ends with its token.
        api.token = "gone"


def running(number: int) -> Callable[[Aggregates], object]:
    return lambda found: found.counts[Phase.RUNNING] == number


def ended_badly(number: int) -> Callable[[Aggregates], object]:
    return lambda found: found.ended_badly == number


def test_a_shard_that_fails_three_times_fails_for_good(
    api: KubernetesApi, cluster: Cluster, watch: Watch
) -> None:
    submit(cluster, manifests_of(retries=2))
    watched = watch()
    for index in (0, 2):
        api.world.pod(index).succeed()
    for number in range(3):
        api.world.pod(1).run()
        watched.until(running(1))
        api.world.pod(1).fail(3)
        watched.until(ended_badly(number + 1))
    assert watched.ending() == Ending(exit_code=EXIT_INCOMPLETE, why="failed for good: pods 1")
    assert [pod.why for pod in watched.told.pods] == [
        "exit code 3 (incomplete, hardware or infrastructure)"
    ] * 3


def test_a_watch_that_is_cut_goes_on_where_it_was(api: KubernetesApi, cluster: Cluster, watch: Watch) -> None:
    submit(cluster, manifests_of(pods=4))
    api.cut_watches = [1, 0, 2]
    watched = watch()
    watched.until(lambda found: found.reasons[UNSCHEDULED] == 4)
    for index in range(4):
        api.world.pod(index).run()
        api.world.pod(index).succeed()
    assert watched.ending().exit_code == EXIT_OK
    listed = [one for one in api.asked("GET", "/pods$") if "watch" not in one.query]
    # At the beginning and at the end: what was cut made nobody list again.
    assert len(listed) == 2


def test_a_node_that_does_not_answer_ends_a_watch_with_a_limit(
    api: KubernetesApi, cluster: Cluster, watch: Watch
) -> None:
    submit(cluster, manifests_of())
    watched = watch(pending_limit_s=0.1)
    for index in range(3):
        api.world.pod(index).run()
    watched.until(running(3))
    for index in (0, 1):
        api.world.pod(index).succeed()
    api.world.pod(2).lose_node()
    ending = watched.ending()
    assert ending.exit_code == EXIT_INCOMPLETE
    assert f"pods 2: {NODE_AWAY}" in ending.why
    assert [pod.phase for pod in watched.told.pods] == [Phase.LOST]


@pytest.mark.parametrize("failed_at_once", [False, True])
def test_pods_that_never_end_are_waited_for_no_longer_than_their_grace(
    api: KubernetesApi, cluster: Cluster, watch: Watch, monkeypatch: pytest.MonkeyPatch, failed_at_once: bool
) -> None:
    monkeypatch.setattr("ci.jobs.watch.ENDING_S", 1)
    api.world.failed_at_once = failed_at_once
    submit(cluster, manifests_of(pods=1))
    watched = watch()
    api.world.pod(0).run()
    watched.until(running(1))
    api.world.pod(0).stick()
    api.world.pass_deadline()
    assert watched.ending().why.endswith("not completed: pods 0; still terminating: pods 0")


def test_a_pod_that_somebody_deletes_is_lost_and_counts_as_a_try(
    api: KubernetesApi, cluster: Cluster, watch: Watch
) -> None:
    submit(cluster, manifests_of(pods=1, retries=1))
    watched = watch()
    for number in range(2):
        api.world.pod(0).run()
        watched.until(running(1))
        api.world.pod(0).delete()
        watched.until(ended_badly(number + 1))
    assert [pod.why for pod in watched.told.pods] == [DELETED] * 2
    assert watched.ending() == Ending(exit_code=EXIT_INCOMPLETE, why="failed for good: pods 0")


def test_a_version_that_is_gone_is_listed_anew(api: KubernetesApi, cluster: Cluster, watch: Watch) -> None:
    submit(cluster, manifests_of(pods=2))
    api.cut_watches = [1]
    watched = watch()
    watched.until(lambda found: found.reasons[UNSCHEDULED] == 2)
    with api.store.changed:
        api.world.pod(0).run()
        api.world.pod(0).vanish()
        api.compact()
    api.world.pod(1).run()
    watched.until(ended_badly(1))
    for index in range(2):
        api.world.pod(index).succeed()
    assert watched.ending().exit_code == EXIT_OK
    assert [one for one in watched.told.pods if one.why == "it was removed"]


def gone(api: KubernetesApi) -> None:
    api.fail("drop", times=9_999)


def revoked(api: KubernetesApi) -> None:
    api.token = "another"


@pytest.mark.parametrize(
    ("away", "said", "remedy"),
    [
        (gone, "does not answer", "the job is still running"),
        (revoked, "401: ", "sign in again (oc login): the job is"),
    ],
)
def test_a_cluster_that_is_gone_or_a_token_that_is_revoked_ends_the_watch_not_the_job(
    api: KubernetesApi,
    cluster: Cluster,
    watch: Watch,
    *,
    away: Callable[[KubernetesApi], None],
    said: str,
    remedy: str,
) -> None:
    submit(cluster, manifests_of(pods=1))
    watched = watch()
    watched.until(lambda found: found.reasons[UNSCHEDULED] == 1)
    away(api)
    with pytest.raises(ClusterAwayError, match=said) as caught:
        watched.ending()
    assert caught.value.exit_code == EXIT_GOES_ON
    assert remedy in str(caught.value.remedy)
    assert f"spyre-ci job watch {NAME}" in str(caught.value.remedy)


QUOTA = 'pods "x" is forbidden: exceeded quota: cards, requested: 1, used: 8, limited: 8'


@pytest.mark.parametrize(
    ("refused", "queue", "denied", "why"),
    [
        (QUOTA, "", set(), "no pod can be created: Error creating: pods"),
        ("exceeded quota", "", {("list", "events")}, "no pod was created yet"),
        ("", "cards", set(), "waits in the queue cards"),
    ],
)
def test_why_no_pod_is_born_is_told_where_nothing_runs_in_time(
    api: KubernetesApi,
    cluster: Cluster,
    watch: Watch,
    refused: str,
    *,
    queue: str,
    denied: set[tuple[str, str]],
    why: str,
) -> None:
    api.world.refuse_pods, api.denied = refused, denied
    submit(cluster, manifests_of(queue=queue))
    watched = watch(pending_limit_s=5)
    if refused and not denied:
        # Those who look see it long before anybody gives up.
        watched.until(lambda found: any("exceeded quota" in one for one in found.reasons))
    assert why in watched.ending().why


def test_a_quota_that_has_no_room_for_a_replacement_is_told(
    api: KubernetesApi, cluster: Cluster, watch: Watch
) -> None:
    submit(cluster, manifests_of(pods=1))
    watched = watch(pending_limit_s=0.1)
    api.world.pod(0).run()
    watched.until(running(1))
    api.world.refuse_pods = "exceeded quota: cards"
    api.world.pod(0).evict()
    assert "exceeded quota: cards" in watched.ending().why


def test_a_deadline_ends_a_watch_though_a_node_does_not_answer(
    api: KubernetesApi, cluster: Cluster, watch: Watch
) -> None:
    submit(cluster, manifests_of(pods=2))
    watched = watch()
    for index in range(2):
        api.world.pod(index).run()
    watched.until(running(2))
    api.world.pod(1).lose_node()
    api.world.pass_deadline()
    ending = watched.ending()
    assert [one["type"] for one in api.world.job()["status"]["conditions"]] == ["FailureTarget"]
    assert ending.exit_code == EXIT_INCOMPLETE
    assert ending.why.startswith("DeadlineExceeded: ")
    assert ending.why.endswith(f"not completed: pods 0-1; pods 1: {NODE_AWAY}")


@pytest.mark.parametrize("failed_at_once", [False, True])
def test_pods_that_write_what_they_have_are_waited_for(
    api: KubernetesApi, cluster: Cluster, watch: Watch, failed_at_once: bool
) -> None:
    api.world.failed_at_once = failed_at_once
    submit(cluster, manifests_of(pods=1))
    watched = watch()
    pod = api.world.pod(0)
    pod.run()
    watched.until(running(1))
    pod.stick()
    api.world.pass_deadline()
    watched.until(lambda found: found.job.over is not None)
    looks = len(api.asked("GET", JOB))
    # It fails where the watch ends before it has looked at the job again.
    watched.until(lambda _: len(api.asked("GET", JOB)) > looks + 2)
    pod.fail(3)
    assert watched.ending().why.endswith("not completed: pods 0")
    assert watched.told.pods == []
    assert why(watched.future.result()[1]) == [ENDED_WITH_JOB]


def why(found: Aggregates) -> list[str]:
    """Of all pods there were."""
    return [pod.status.why for pods in list(found._pods.values()) for pod in list(pods.values())]


@pytest.mark.parametrize("retries", [0, 2])
def test_a_queue_that_takes_a_job_back_costs_no_try(
    api: KubernetesApi, cluster: Cluster, watch: Watch, retries: int
) -> None:
    submit(cluster, manifests_of(pods=2, retries=retries, queue="cards"))
    watched = watch()
    for _ in range(2):
        cluster.patch(JOB, {"spec": {"suspend": False}})
        for index in range(2):
            api.world.pod(index).run()
        watched.until(running(2))
        cluster.patch(JOB, {"spec": {"suspend": True}})
        watched.until(lambda found: set(why(found)) == {SUSPENDED})
    cluster.patch(JOB, {"spec": {"suspend": False}})
    for index in range(2):
        api.world.pod(index).succeed()
    assert watched.ending() == Ending(exit_code=EXIT_OK)
    assert watched.told.pods == []


def test_a_job_that_is_removed_or_over_ends_its_watch(
    api: KubernetesApi, cluster: Cluster, watch: Watch
) -> None:
    submit(cluster, manifests_of())
    for index in range(3):
        api.world.pod(index).succeed()
    with api.store.changed:
        for one in api.world.pods():
            api.store.remove("pods", one.content)
    watched = watch()
    assert watched.ending() == Ending(exit_code=EXIT_OK)
    assert watched.future.result()[1].counts[Phase.DONE] == 3
    cluster.delete(JOB)
    with pytest.raises(MissingInputError, match=f"there is no job {NAME} in the namespace cards"):
        find_job(cluster, NAME)
    submit(cluster, manifests_of(pods=1))
    watched = watch()
    api.world.pod(0).run()
    watched.until(running(1))
    cluster.delete(JOB)
    ending = watched.ending()
    assert (ending.exit_code, ending.why) == (EXIT_INCOMPLETE, "the job was removed from the cluster")


def test_a_server_is_watched_until_it_serves(api: KubernetesApi, cluster: Cluster, watch: Watch) -> None:
    submit(cluster, server_of())
    watched = watch()
    with api.store.changed:
        made = api.store.of("deployments")[0]
        made["status"] = {"replicas": 1, "availableReplicas": 1}
        api.store.tell("MODIFIED", "deployments", made)
    assert watched.ending() == Ending(exit_code=EXIT_OK)


def test_2048_pods_are_watched_page_by_page(api: KubernetesApi, cluster: Cluster, watch: Watch) -> None:
    pods = 2048
    submit(cluster, manifests_of(pods=pods))
    watched = watch()
    watched.until(lambda found: found.reasons[UNSCHEDULED] == pods)

    def move() -> None:
        with api.world.at_once():
            for pod in api.world.pods():
                pod.run()
                pod.succeed()

    mover = threading.Thread(target=move)
    mover.start()
    assert watched.ending().exit_code == EXIT_OK
    mover.join()
    assert watched.future.result()[1].counts[Phase.DONE] == pods
    limits = {one.query.get("limit") for one in api.asked("GET", "/pods$") if "watch" not in one.query}
    assert limits == {"500"}
