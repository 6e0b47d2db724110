"""Where the API of a cluster keeps what we speak of: paths by kind."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote

VERSION = "/version"
# What asks what whoever asks may do; nothing is kept of it.
ACCESS_REVIEW = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"

NAMESPACED: Mapping[str, str] = {
    "ConfigMap": "/api/v1/{}/configmaps",
    "Deployment": "/apis/apps/v1/{}/deployments",
    "Event": "/api/v1/{}/events",
    "Job": "/apis/batch/v1/{}/jobs",
    "LimitRange": "/api/v1/{}/limitranges",
    "PersistentVolumeClaim": "/api/v1/{}/persistentvolumeclaims",
    "Pod": "/api/v1/{}/pods",
    "ReplicaSet": "/apis/apps/v1/{}/replicasets",
    "ResourceQuota": "/api/v1/{}/resourcequotas",
    "Secret": "/api/v1/{}/secrets",
    "Service": "/api/v1/{}/services",
    "ServiceAccount": "/api/v1/{}/serviceaccounts",
}
CLUSTER_WIDE: Mapping[str, str] = {
    "ClusterOperator": "/apis/config.openshift.io/v1/clusteroperators",
    "ClusterVersion": "/apis/config.openshift.io/v1/clusterversions",
    "CustomResourceDefinition": "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "Namespace": "/api/v1/namespaces",
    "Node": "/api/v1/nodes",
    "PriorityClass": "/apis/scheduling.k8s.io/v1/priorityclasses",
    "StorageClass": "/apis/storage.k8s.io/v1/storageclasses",
}


def path_of(kind: str, namespace: str = "", name: str | None = None) -> str:
    """The path of a kind's list, or of one of its objects.

    Args:
        kind: such as Job.
        namespace: of it; has no meaning for kinds of the whole cluster. Empty: over all namespaces.
        name: of one object; None: the list.
    """
    if kind in CLUSTER_WIDE:
        path = CLUSTER_WIDE[kind]
    else:
        within = f"namespaces/{quote(namespace, safe='')}" if namespace else ""
        path = NAMESPACED[kind].format(within).replace("//", "/")
    return path if name is None else f"{path}/{quote(name, safe='')}"


def log_path(namespace: str, pod: str) -> str:
    """The path of a pod's log."""
    return f"{path_of('Pod', namespace, pod)}/log"
