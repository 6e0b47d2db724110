"""A pod to look into a job with, on a cluster."""

from __future__ import annotations

from typing import Any

import pytest

from ci.jobs.cancel import cancel
from ci.jobs.cluster import Cluster
from ci.jobs.debug import DEBUG_LABEL, apart
from ci.jobs.errors import ConflictError, RefusedError
from ci.jobs.job import Job
from ci.jobs.local_cli import debug
from ci.jobs.paths import path_of
from ci.jobs.render import render
from ci.jobs.spec import Spec
from ci.jobs.submit import submit
from tests.kubernetes_api import NAMESPACE, KubernetesApi

NAME = "x-bold-fox-12345-debug"
POD = path_of("Pod", NAMESPACE, NAME)


def job_of(word: str = "evaluate") -> Job:
    spec = {
        "version": 1,
        "kind": "evaluation",
        "image": {"name": "quay.io/spyre/runtime:1"},
        "evaluation": {"command": [word, "{configs}"]},
    }
    return Job(
        spec=Spec.model_validate(spec),
        name="x-bold-fox-12345",
        run="a",
        image="quay.io/spyre/runtime:1",
        namespace=NAMESPACE,
        pods=1,
        deadline_s=60,
        files={"a.yaml": b"a: 1\n"},
    )


def open_there(cluster: Cluster, manifests: list[dict[str, Any]]) -> list[str]:
    wanted, words = debug(manifests, seconds=600)
    submit(cluster, wanted)
    return words


def manifests(word: str = "evaluate") -> list[dict[str, Any]]:
    return render(apart(job_of(word)))


def there(cluster: Cluster, path: str) -> dict[str, Any]:
    found = cluster.get(path)
    assert found is not None
    return found


def test_the_pod_is_made_with_its_config_map_which_goes_with_it(cluster: Cluster) -> None:
    lines = open_there(cluster, manifests())
    assert any(f"oc rsh -n {NAMESPACE} -c main {NAME}" in line for line in lines)
    pod = there(cluster, POD)
    assert pod["metadata"]["labels"][DEBUG_LABEL] == "true"
    assert pod["spec"]["activeDeadlineSeconds"] == 600
    beside = there(cluster, path_of("ConfigMap", NAMESPACE, f"{NAME}-0"))
    assert [one["uid"] for one in beside["metadata"]["ownerReferences"]] == [pod["metadata"]["uid"]]
    assert cluster.get(path_of("Job", NAMESPACE, NAME)) is None


def test_done_again_it_says_how_the_same_pod_is_entered(api: KubernetesApi, cluster: Cluster) -> None:
    first = open_there(cluster, manifests())
    version = api.store.version
    assert open_there(cluster, manifests()) == first
    assert api.store.version == version
    with pytest.raises(ConflictError, match="was made of another spec"):
        open_there(cluster, manifests("other"))


def test_beside_a_job_that_runs_it_is_apart(cluster: Cluster) -> None:
    job = job_of()
    submit(cluster, render(job))
    open_there(cluster, manifests())
    beside = there(cluster, path_of("ConfigMap", NAMESPACE, f"{job.name}-0"))
    assert beside["metadata"]["ownerReferences"][0]["kind"] == "Job"
    chosen = render(job)[-1]["metadata"]["labels"]["app.kubernetes.io/name"]
    assert there(cluster, POD)["metadata"]["labels"]["app.kubernetes.io/name"] != chosen
    removed = cancel(cluster, NAME, timeout_s=5, say=lambda _: None)
    assert sorted(removed) == [f"ConfigMap {NAME}-0", f"Pod {NAME}"]
    assert cluster.get(path_of("Job", NAMESPACE, job.name)) is not None


def test_what_the_cluster_refuses_leaves_nothing(cluster: Cluster) -> None:
    made = manifests()
    for one in made:
        if one["kind"] == "ConfigMap":
            one["metadata"]["name"] = "No Name"
    with pytest.raises(RefusedError):
        open_there(cluster, made)
    assert cluster.get(POD) is None
