from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from ci.core.errors import EXIT_INCOMPLETE, EXIT_USAGE
from ci.jobs.cluster import Cluster, Effects
from ci.jobs.errors import (
    ClusterAwayError,
    ClusterError,
    ConflictError,
    CutError,
    ForbiddenError,
    GoneError,
    MissingError,
    RefusedError,
)
from ci.jobs.paths import path_of
from ci.jobs.transport import PAGE
from tests.kubernetes_api import NAMESPACE, TOKEN, KubernetesApi

CONFIGS = path_of("ConfigMap", NAMESPACE)
PODS = path_of("Pod", NAMESPACE)


@dataclass
class Waited:
    """A clock that only waiting moves."""

    now: float = 1_000.0
    waits: list[float] = field(default_factory=list)

    def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now += seconds

    def effects(self) -> Effects:
        return Effects(monotonic=lambda: self.now, sleep=self.sleep, rng=lambda: 0.5)


@pytest.fixture
def api() -> Iterator[KubernetesApi]:
    with KubernetesApi() as api:
        yield api


@pytest.fixture
def waited() -> Waited:
    return Waited()


@pytest.fixture
def cluster(api: KubernetesApi, tmp_path: Path, waited: Waited) -> Cluster:
    return api.cluster(tmp_path, effects=waited.effects())


def config(name: str, spec: str = "one", **data: str) -> dict[str, Any]:
    about = {"name": name, "annotations": {"spyre-ci.io/spec": spec}, "labels": {"of": "me"}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": about, "data": data}


def test_what_is_made_is_there_and_what_is_deleted_is_not(cluster: Cluster) -> None:
    made = cluster.create(CONFIGS, config("a", x="1"))
    assert made["metadata"]["uid"]
    assert cluster.get(f"{CONFIGS}/a") == made
    assert cluster.patch(f"{CONFIGS}/a", {"data": {"y": "2"}})["data"] == {"x": "1", "y": "2"}
    assert cluster.delete(f"{CONFIGS}/a")
    assert not cluster.delete(f"{CONFIGS}/a")
    assert cluster.get(f"{CONFIGS}/a") is None


def test_a_dry_run_makes_nothing(cluster: Cluster) -> None:
    cluster.create(CONFIGS, config("a"), dry_run=True)
    assert cluster.items(CONFIGS)[0] == []


def test_lists_come_page_by_page(api: KubernetesApi, cluster: Cluster) -> None:
    for number in range(PAGE + 3):
        api.put(config(f"c-{number:04}"))
    found, version = cluster.items(CONFIGS, labels="of=me")
    assert [one["metadata"]["name"] for one in found] == [f"c-{number:04}" for number in range(PAGE + 3)]
    assert version == str(api.store.version)
    assert len(api.asked("GET", "configmaps")) == 2


def test_a_list_whose_version_is_dropped_under_way_is_begun_anew(
    api: KubernetesApi, cluster: Cluster
) -> None:
    api.pages.longest, api.pages.expire = 2, 1
    for number in range(5):
        api.put(config(f"c-{number}"))
    assert len(cluster.items(CONFIGS)[0]) == 5


def test_a_list_that_never_holds_still_ends_in_an_error(api: KubernetesApi, cluster: Cluster) -> None:
    api.pages.longest, api.pages.expire = 2, 100
    for number in range(5):
        api.put(config(f"c-{number}"))
    with pytest.raises(GoneError, match="410: The provided continue parameter is too old") as caught:
        cluster.items(CONFIGS)
    assert caught.value.exit_code == EXIT_INCOMPLETE


def test_too_many_requests_are_waited_for_as_long_as_is_asked(
    api: KubernetesApi, cluster: Cluster, waited: Waited
) -> None:
    api.fail(code=429, reason="TooManyRequests", retry_after=7, times=2)
    cluster.create(CONFIGS, config("a"))
    assert waited.waits == [7, 7]


def test_the_clusters_own_trouble_is_waited_for_longer_each_time(
    api: KubernetesApi, cluster: Cluster, waited: Waited
) -> None:
    api.fail(code=503, times=3)
    cluster.items(CONFIGS)
    assert waited.waits == [0.5, 1.0, 2.0]


def test_a_control_plane_that_is_renewed_is_waited_for_as_long_as_there_is_patience(
    api: KubernetesApi, tmp_path: Path, waited: Waited
) -> None:
    cluster = api.cluster(tmp_path, effects=waited.effects(), patience_s=600)
    api.fail("drop", times=25)
    cluster.items(CONFIGS)
    assert waited.waits[:6] == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0]
    assert set(waited.waits[6:]) == {20.0}
    assert len(waited.waits) == 25


def test_patience_has_an_end(api: KubernetesApi, cluster: Cluster, waited: Waited) -> None:
    api.fail(code=429, reason="TooManyRequests", message="slow down", retry_after=40, times=99)
    with pytest.raises(ClusterAwayError, match="429: slow down") as caught:
        cluster.items(CONFIGS)
    assert waited.waits == [40, 40]
    assert caught.value.exit_code == EXIT_INCOMPLETE


@pytest.mark.parametrize("kind", ["drop", "cut"])
def test_an_object_whose_answer_was_cut_is_made_once(api: KubernetesApi, cluster: Cluster, kind: str) -> None:
    api.fail(kind, method="POST", taken=True)
    made = cluster.create(CONFIGS, config("a"))
    assert made["metadata"]["name"] == "a"
    assert len(cluster.items(CONFIGS)[0]) == 1


def test_another_object_of_the_same_name_is_no_success(api: KubernetesApi, cluster: Cluster) -> None:
    api.put(config("a", spec="other"))
    with pytest.raises(ConflictError, match='409: configmaps "a" already exists') as caught:
        cluster.create(CONFIGS, config("a"))
    assert caught.value.exit_code == EXIT_USAGE


def test_a_cluster_that_says_nothing_is_not_waited_for_without_end(
    api: KubernetesApi, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ci.jobs.transport.READ_TIMEOUT_S", 0.2)
    api.fail("hang", times=99)
    with pytest.raises(ClusterAwayError, match=r"no answer to GET .*timed out"):
        cluster.items(CONFIGS)
    assert len(api.seen) == 9


def test_what_has_no_name_is_not_sent_twice(api: KubernetesApi, cluster: Cluster) -> None:
    body = config("a")
    body["metadata"] = {"generateName": "a-"}
    api.fail("drop", method="POST", taken=True)
    with pytest.raises(ClusterAwayError, match="may have been done all the same"):
        cluster.create(CONFIGS, body)
    assert len(api.asked("POST", "configmaps")) == 1


@pytest.mark.parametrize(
    ("code", "error", "said"),
    [
        (400, RefusedError, "mend what it says"),
        (401, ForbiddenError, "sign in again"),
        (403, ForbiddenError, "have the role of docs/jobs.md bound"),
        (409, ConflictError, "take another name"),
        (410, GoneError, "do it again"),
        (422, RefusedError, "mend what it says"),
        (404, MissingError, "check the namespace"),
    ],
)
def test_a_refusal_is_told_with_its_remedy_and_not_asked_again(
    api: KubernetesApi, cluster: Cluster, code: int, error: type[ClusterError], said: str
) -> None:
    api.fail(code=code, reason="Made", message="because", times=99)
    with pytest.raises(error, match=f"{code}: because") as caught:
        cluster.patch(f"{CONFIGS}/a", {})
    assert said in str(caught.value)
    assert len(api.seen) == 1


def test_a_quota_is_told_as_one(api: KubernetesApi, cluster: Cluster) -> None:
    api.fail(code=403, reason="Forbidden", message='jobs "a" is forbidden: exceeded quota: cards')
    with pytest.raises(ForbiddenError, match="quota raised"):
        cluster.create(CONFIGS, config("a"))


def test_an_unknown_field_is_refused(cluster: Cluster) -> None:
    with pytest.raises(RefusedError, match=r"strict decoding error: .*'dta' was unexpected"):
        cluster.create(CONFIGS, config("a") | {"dta": {}})


def test_a_kind_the_cluster_does_not_serve_is_told(api: KubernetesApi, cluster: Cluster) -> None:
    api.store.objects.clear()
    with pytest.raises(MissingError, match="404 page not found"):
        cluster.items("/api/v1/nothing")


def test_an_answer_that_is_no_list_is_told(cluster: Cluster) -> None:
    with pytest.raises(ClusterAwayError, match="GET /version is no list"):
        cluster.items("/version")


def test_a_watch_tells_what_happens_and_ends_with_its_time(api: KubernetesApi, cluster: Cluster) -> None:
    _, version = cluster.items(CONFIGS)
    api.put(config("a"))
    api.put(config("b") | {"kind": "ConfigMap"})
    events = list(cluster.watch(CONFIGS, labels="of=me", resource_version=version, timeout_s=1))
    assert [one["type"] for one in events[:2]] == ["ADDED", "ADDED"]
    assert {one["type"] for one in events[2:]} == {"BOOKMARK"}


def test_a_watch_that_is_cut_ends(api: KubernetesApi, cluster: Cluster) -> None:
    _, version = cluster.items(CONFIGS)
    api.cut_watches = [1]
    api.put(config("a"))
    api.put(config("b"))
    events = list(cluster.watch(CONFIGS, labels="", resource_version=version, timeout_s=5))
    assert [one["object"]["metadata"]["name"] for one in events] == ["a"]


def test_a_watch_from_a_version_that_is_dropped_is_told(api: KubernetesApi, cluster: Cluster) -> None:
    _, version = cluster.items(CONFIGS)
    api.compact()
    with pytest.raises(GoneError, match="too old resource version"):
        list(cluster.watch(CONFIGS, labels="", resource_version=version, timeout_s=5))


def test_errors_never_hold_the_token(api: KubernetesApi, tmp_path: Path, waited: Waited) -> None:
    cluster = api.cluster(tmp_path, effects=waited.effects())
    for kind in ("drop", "cut", "status"):
        api.fail(kind, times=99, message=f"you sent Bearer {TOKEN}")
        with pytest.raises(ClusterError) as caught:
            cluster.items(CONFIGS)
        assert TOKEN not in str(caught.value)
        assert TOKEN not in repr(caught.value.__context__)
        api.faults.clear()


def test_a_log_that_is_cut_is_told(api: KubernetesApi, cluster: Cluster) -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "annotations": {}}}
    state: dict[str, Any] = {"running": {}}
    api.put(
        pod
        | {
            "spec": {"containers": [{"name": "main", "image": "i"}]},
            "status": {"phase": "Running", "containerStatuses": [{"name": "main", "state": state}]},
        }
    )
    for number in range(3):
        api.world.log("p", "main", f"line {number}")
    assert b"".join(cluster.log("p")).splitlines() == [b"line 0", b"line 1", b"line 2"]
    assert b"".join(cluster.log("p", tail=1)) == b"line 2\n"
    api.world.cut_log_after = 2
    with pytest.raises(CutError, match="was cut"):
        list(cluster.log("p"))
