"""A job as tests submit it to the stand-in cluster, and effects that do not keep them waiting."""

from __future__ import annotations

import time
from typing import Any

from ci.jobs.cluster import Effects
from tests.kubernetes_api import NAMESPACE

Manifests = list[dict[str, Any]]
NAME = "tests-calm-otter-1f2e3"


def metadata(name: str, spec: str) -> dict[str, Any]:
    labels = {
        "app.kubernetes.io/managed-by": "spyre-ci",
        "app.kubernetes.io/name": NAME,
        "app.kubernetes.io/component": "tests",
        "spyre-ci.io/run": "run-1",
    }
    about = {"spyre-ci.io/spec": spec, "spyre-ci.io/run-id": "run-1"}
    return {"name": name, "namespace": NAMESPACE, "labels": labels, "annotations": about}


def manifests_of(*, pods: int = 3, spec: str = "one", retries: int = 2, queue: str = "") -> Manifests:
    """A ConfigMap and an Indexed Job, as `ci.jobs.render` makes them, but smaller."""
    about = metadata(NAME, spec)
    if queue:
        about["labels"]["kueue.x-k8s.io/queue-name"] = queue
    rules = [
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
        {"action": "FailIndex", "onExitCodes": {"containerName": "main", "operator": "In", "values": [1, 2]}},
        {"action": "Count", "onExitCodes": {"containerName": "main", "operator": "In", "values": [3]}},
    ]
    container = {"name": "main", "image": "registry.example.com/spyre/runtime:1"}
    pod = {"restartPolicy": "Never", "containers": [container]}
    job = {
        "completionMode": "Indexed", "completions": pods, "parallelism": pods, "suspend": bool(queue),
        "backoffLimitPerIndex": retries, "maxFailedIndexes": pods, "podReplacementPolicy": "Failed",
        "podFailurePolicy": {"rules": rules},
        "template": {"metadata": {"labels": metadata(NAME, spec)["labels"]}, "spec": pod},
    }  # fmt: skip
    return [
        {
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata(f"{NAME}-0", spec),
            "data": {"plan.json.gz.000": "x"}, "immutable": True,
        },
        {"apiVersion": "batch/v1", "kind": "Job", "metadata": about, "spec": job},
    ]  # fmt: skip


def server_of() -> Manifests:
    """The same as a server."""
    config, job = manifests_of()
    template = job["spec"]["template"]
    labels = {"matchLabels": template["metadata"]["labels"]}
    spec = {"replicas": 1, "selector": labels, "template": template}
    return [config, {**job, "apiVersion": "apps/v1", "kind": "Deployment", "spec": spec}]


def hasty() -> Effects:
    """Waits take a hundredth of what they would, and count as the whole."""
    skipped = [0.0]

    def sleep(seconds: float) -> None:
        time.sleep(seconds / 100)
        skipped[0] += seconds

    return Effects(sleep=sleep, monotonic=lambda: time.monotonic() + skipped[0])
