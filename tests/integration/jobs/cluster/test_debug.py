"""A pod to look into a job with, on a cluster."""

from __future__ import annotations

from typing import Any

import pytest

from ci.jobs.cluster import Cluster
from ci.jobs.debug import DEBUG_LABEL, apart
from ci.jobs.debug_cluster import open_there
from ci.jobs.errors import ConflictError, RefusedError
from ci.jobs.job import Job
from ci.jobs.paths import path_of
from ci.jobs.render import render
from ci.jobs.spec import Spec
from tests.kubernetes_api import NAMESPACE, KubernetesApi

NAME = "x-bold-fox-12345-debug"
POD = path_of("Pod", NAMESPACE, NAME)


def manifests(word: str = "evaluate") -> list[dict[str, Any]]:
    spec = {
        "version": 1,
        "kind": "evaluation",
        "image": {"name": "quay.io/spyre/runtime:1"},
        "evaluation": {"command": [word, "{configs}"]},
    }
    job = Job(
        spec=Spec.model_validate(spec),
        name="x-bold-fox-12345",
        run="a",
        image="quay.io/spyre/runtime:1",
        namespace=NAMESPACE,
        pods=1,
        deadline_s=60,
        files={"a.yaml": b"a: 1\n"},
    )
    return render(apart(job))


def there(cluster: Cluster, path: str) -> dict[str, Any]:
    found = cluster.get(path)
    assert found is not None
    return found


def test_the_pod_is_made_with_its_config_map_which_goes_with_it(cluster: Cluster) -> None:
    lines = open_there(cluster, manifests(), seconds=600)
    assert any(f"oc rsh -n {NAMESPACE} -c main {NAME}" in line for line in lines)
    pod = there(cluster, POD)
    assert pod["metadata"]["labels"][DEBUG_LABEL] == "true"
    assert pod["spec"]["activeDeadlineSeconds"] == 600
    beside = there(cluster, path_of("ConfigMap", NAMESPACE, f"{NAME}-0"))
    assert [one["uid"] for one in beside["metadata"]["ownerReferences"]] == [pod["metadata"]["uid"]]
    assert cluster.get(path_of("Job", NAMESPACE, NAME)) is None


def test_done_again_it_says_how_the_same_pod_is_entered(api: KubernetesApi, cluster: Cluster) -> None:
    first = open_there(cluster, manifests(), seconds=600)
    version = api.store.version
    assert open_there(cluster, manifests(), seconds=600) == first
    assert api.store.version == version
    with pytest.raises(ConflictError, match=f"Pod {NAME} is there, and was made of another spec"):
        open_there(cluster, manifests("other"), seconds=600)
    cluster.patch(POD, {"status": {"phase": "Failed"}})
    with pytest.raises(ConflictError, match=f"Pod {NAME} is there, and has ended") as caught:
        open_there(cluster, manifests(), seconds=600)
    assert f"spyre-ci job cancel {NAME}" in str(caught.value)


def test_what_the_cluster_refuses_leaves_nothing(cluster: Cluster) -> None:
    made = manifests()
    for one in made:
        if one["kind"] == "ConfigMap":
            one["metadata"]["name"] = "No Name"
    with pytest.raises(RefusedError):
        open_there(cluster, made, seconds=600)
    assert cluster.get(POD) is None
