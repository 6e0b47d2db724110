"""Kueue's API, at the newest of its versions that both a cluster and we know.

v1beta1 is what older Kueues serve, and newer ones only for a while (https://github.com/kubernetes-sigs/kueue/issues/7626).
"""

from __future__ import annotations

from urllib.parse import quote

from ci.jobs.cluster import Cluster

GROUP = "/apis/kueue.x-k8s.io"
VERSIONS = ("v1beta2", "v1beta1")


def served(cluster: Cluster) -> str | None:
    """Where a cluster serves Kueue's objects, such as /apis/kueue.x-k8s.io/v1beta2; None: it has no Kueue.

    Raises:
        ClusterError: the cluster does not say.
    """
    known = {str(one.get("version")) for one in (cluster.get(GROUP) or {}).get("versions") or ()}
    return next((f"{GROUP}/{version}" for version in VERSIONS if version in known), None)


def local_queue(base: str, namespace: str, name: str) -> str:
    """The path of a LocalQueue, below what `served` says."""
    return f"{base}/namespaces/{quote(namespace, safe='')}/localqueues/{quote(name, safe='')}"


def cluster_queue(base: str, name: str) -> str:
    """The path of a ClusterQueue, below what `served` says."""
    return f"{base}/clusterqueues/{quote(name, safe='')}"
