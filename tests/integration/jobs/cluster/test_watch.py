from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import pytest

from ci.core.errors import EXIT_INCOMPLETE, EXIT_OK, MissingInputError
from ci.jobs.board import NEXT, Board
from ci.jobs.cluster import Cluster
from ci.jobs.errors import ClusterAwayError
from ci.jobs.fate import NODE_AWAY, Fate, Phase
from ci.jobs.paths import path_of
from ci.jobs.standing import standing_of
from ci.jobs.submit import submit
from ci.jobs.watch import Ending, Watcher, find_job, watch_job
from tests.kubernetes_api import NAMESPACE, KubernetesApi
from tests.kubernetes_jobs import NAME, manifests_of

JOB = path_of("Job", NAMESPACE, NAME)


@dataclass
class Told:
    """A view that keeps what it is told."""

    fates: list[Fate] = field(default_factory=list)

    def tell(self, fate: Fate) -> None:
        self.fates.append(fate)

    def show(self, board: Board, now: float) -> None:
        pass

    def end(self, board: Board) -> None:
        pass


@dataclass
class Watched:
    """A watch that goes on in a thread of its own."""

    told: Told
    board: Board
    future: Future[Ending]

    def until(self, holds: Callable[[Board], bool]) -> None:
        end = time.monotonic() + 20
        while not holds(self.board):
            assert not self.future.done(), self.future.result()
            assert time.monotonic() < end, self.board.counts
            time.sleep(0.01)

    def ending(self) -> Ending:
        return self.future.result(30)


Watch = Callable[..., Watched]


@pytest.fixture
def watch(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[Watch]:
    # The job itself is looked at as often as a watch is opened.
    for name in ("WINDOW_S", "SETTLED_WINDOW_S"):
        monkeypatch.setattr(f"ci.jobs.watch.{name}", 0.2)
    with ThreadPoolExecutor() as pool, contextlib.ExitStack() as stack:

        def begin(**options: Any) -> Watched:
            path, job = find_job(cluster, NAME)
            board, told = Board(standing_of(job), time.monotonic()), Told()
            watcher = Watcher(board, told, time.monotonic)
            stack.enter_context(watcher.moving())
            future = pool.submit(watch_job, cluster, NAME, watcher, path=path, **options)
            return Watched(told=told, board=board, future=future)

        yield begin


def running(number: int) -> Callable[[Board], bool]:
    return lambda board: board.counts[Phase.RUNNING] == number


def failed(number: int) -> Callable[[Board], bool]:
    return lambda board: board.badly[Phase.FAILED] == number


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
        watched.until(failed(number + 1))
    assert watched.ending() == Ending(exit_code=EXIT_INCOMPLETE, why="failed for good: pods 1")
    assert [fate.why for fate in watched.told.fates] == [
        "exit code 3 (incomplete, hardware or infrastructure)"
    ] * 3


def test_a_pod_that_somebody_deletes_is_lost(api: KubernetesApi, cluster: Cluster, watch: Watch) -> None:
    submit(cluster, manifests_of(pods=1))
    watched = watch()
    api.world.pod(0).run()
    watched.until(running(1))
    api.world.pod(0).vanish()
    watched.until(lambda board: board.badly[Phase.LOST] == 1)
    api.world.pod(0).succeed()
    assert watched.ending().exit_code == EXIT_OK
    assert watched.told.fates[0].why == "somebody or something deleted it"


def test_a_watch_that_is_cut_goes_on_where_it_was(api: KubernetesApi, cluster: Cluster, watch: Watch) -> None:
    submit(cluster, manifests_of(pods=4))
    api.cut_watches = [1, 0, 2]
    watched = watch()
    watched.until(lambda board: board.reasons["no scheduler has looked at it"] == 4)
    for index in range(4):
        api.world.pod(index).run()
        api.world.pod(index).succeed()
    assert watched.ending().exit_code == EXIT_OK
    listed = [one for one in api.asked("GET", "/pods$") if "watch" not in one.query]
    # At the beginning and at the end: what was cut made nobody list again.
    assert len(listed) == 2


def test_a_version_that_is_gone_is_listed_anew(api: KubernetesApi, cluster: Cluster, watch: Watch) -> None:
    submit(cluster, manifests_of(pods=2))
    api.cut_watches = [1]
    watched = watch()
    watched.until(lambda board: board.reasons["no scheduler has looked at it"] == 2)
    with api.store.changed:
        api.world.pod(0).run()
        api.world.pod(0).vanish()
        api.compact()
    api.world.pod(1).run()
    watched.until(lambda board: board.badly[Phase.LOST] == 1)
    for index in range(2):
        api.world.pod(index).succeed()
    assert watched.ending().exit_code == EXIT_OK
    assert [one for one in watched.told.fates if one.why == "it is gone"]


def test_a_cluster_that_is_gone_ends_the_watch_not_the_job(
    api: KubernetesApi, cluster: Cluster, watch: Watch
) -> None:
    submit(cluster, manifests_of(pods=1))
    api.fail("drop", times=99)
    with pytest.raises(ClusterAwayError, match="gives no answer"):
        watch().ending()


def test_a_quota_is_told_by_the_jobs_events(api: KubernetesApi, cluster: Cluster, watch: Watch) -> None:
    api.world.refuse_pods = 'pods "x" is forbidden: exceeded quota: cards, requested: 1, used: 8, limited: 8'
    submit(cluster, manifests_of())
    ending = watch(pending_limit_s=0.1).ending()
    assert 'no pod can be made: pods "x" is forbidden: exceeded quota' in ending.why


def test_who_may_see_no_events_is_told_what_can_be_seen(
    api: KubernetesApi, cluster: Cluster, watch: Watch
) -> None:
    api.denied.add(("list", "events"))
    api.world.refuse_pods = "exceeded quota"
    submit(cluster, manifests_of())
    assert "no pod of it was made yet" in watch(pending_limit_s=0.1).ending().why


def test_a_queue_is_told_as_what_the_job_waits_for(cluster: Cluster, watch: Watch) -> None:
    submit(cluster, manifests_of(queue="cards"))
    assert "waits in the queue cards" in watch(pending_limit_s=0.1).ending().why


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
    assert [fate.phase for fate in watched.told.fates] == [Phase.LOST]


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
    assert standing_of(api.world.job()).end is None
    assert ending.exit_code == EXIT_INCOMPLETE
    assert ending.why.startswith("DeadlineExceeded: ")
    assert ending.why.endswith(f"without an end: pods 0-1; pods 1: {NODE_AWAY}")


@pytest.mark.parametrize("failed_at_once", [False, True])
def test_pods_that_write_their_account_are_waited_for(
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
    watched.until(lambda board: board.standing.over is not None)
    looks = len(api.asked("GET", JOB))
    # It fails where the watch ends before it has looked at the job again.
    watched.until(lambda _: len(api.asked("GET", JOB)) > looks + 2)
    pod.fail(3)
    assert watched.ending().why.endswith("without an end: pods 0")
    assert watched.told.fates[0].exit_code == 3


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
    assert watched.ending().why.endswith("without an end: pods 0; still being ended: pods 0")


@pytest.mark.nightly
def test_a_queue_that_takes_a_job_back_is_what_it_waits_for(
    api: KubernetesApi, cluster: Cluster, watch: Watch
) -> None:
    submit(cluster, manifests_of(pods=2, queue="cards"))
    cluster.patch(JOB, {"spec": {"suspend": False}})
    for index in range(2):
        api.world.pod(index).run()
    watched = watch(pending_limit_s=3)
    watched.until(running(2))
    cluster.patch(JOB, {"spec": {"suspend": True}})
    watched.until(lambda board: board.reasons[NEXT] == 2)
    ending = watched.ending()
    assert "waits in the queue cards" in ending.why
    assert [fate.why for fate in watched.told.fates] == ["exit code 143"] * 2


def test_a_queue_that_takes_a_job_back_too_often_fails_it(
    api: KubernetesApi, cluster: Cluster, watch: Watch
) -> None:
    submit(cluster, manifests_of(pods=1, retries=1, queue="cards"))
    watched = watch()
    for _ in range(2):
        cluster.patch(JOB, {"spec": {"suspend": False}})
        api.world.pod(0).run()
        cluster.patch(JOB, {"spec": {"suspend": True}})
    cluster.patch(JOB, {"spec": {"suspend": False}})
    assert watched.ending() == Ending(exit_code=EXIT_INCOMPLETE, why="failed for good: pods 0")


def test_a_quota_that_has_no_room_for_a_replacement_is_told(
    api: KubernetesApi, cluster: Cluster, watch: Watch
) -> None:
    submit(cluster, manifests_of(pods=1))
    watched = watch(pending_limit_s=0.1)
    api.world.pod(0).run()
    watched.until(running(1))
    api.world.refuse_pods = "exceeded quota: cards"
    api.world.pod(0).evict()
    assert "no pod can be made: exceeded quota: cards" in watched.ending().why


def test_a_job_that_is_removed_ends_its_watch(api: KubernetesApi, cluster: Cluster, watch: Watch) -> None:
    submit(cluster, manifests_of(pods=1))
    watched = watch()
    api.world.pod(0).run()
    watched.until(running(1))
    cluster.delete(JOB)
    ending = watched.future.result(30)
    assert (ending.exit_code, ending.why) == (EXIT_INCOMPLETE, "the job is gone: somebody removed it")


def test_a_job_that_is_over_is_told_from_what_is_left(
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
    assert watched.board.counts[Phase.DONE] == 3


def test_a_server_is_watched_until_it_serves(api: KubernetesApi, cluster: Cluster, watch: Watch) -> None:
    config, job = manifests_of()
    template = job["spec"]["template"]
    labels = {"matchLabels": template["metadata"]["labels"]}
    server = {**job, "apiVersion": "apps/v1", "kind": "Deployment"}
    server["spec"] = {"replicas": 1, "selector": labels, "template": template}
    submit(cluster, [config, server])
    watched = watch()
    with api.store.changed:
        made = api.store.of("deployments")[0]
        made["status"] = {"replicas": 1, "availableReplicas": 1}
        api.store.tell("MODIFIED", "deployments", made)
    assert watched.future.result(30) == Ending(exit_code=EXIT_OK)


def test_a_job_that_is_not_there_is_told(cluster: Cluster) -> None:
    with pytest.raises(MissingInputError, match="there is no job nothing in the namespace cards") as caught:
        find_job(cluster, "nothing")
    assert "spyre-ci job list" in str(caught.value)


def test_2048_pods_are_watched_page_by_page(api: KubernetesApi, cluster: Cluster, watch: Watch) -> None:
    pods = 2048
    submit(cluster, manifests_of(pods=pods))
    watched = watch()
    watched.until(lambda board: board.reasons["no scheduler has looked at it"] == pods)

    def move() -> None:
        with api.world.at_once():
            for pod in api.world.pods():
                pod.run()
                pod.succeed()

    mover = threading.Thread(target=move)
    mover.start()
    assert watched.future.result(120).exit_code == EXIT_OK
    mover.join()
    assert watched.board.counts[Phase.DONE] == pods
    limits = {one.query.get("limit") for one in api.asked("GET", "/pods$") if "watch" not in one.query}
    assert limits == {"500"}
