"""Ask a cluster for all that checks look at; what it does not say is noted with the reason.

Kueue is asked at the newest version of its API that both a cluster and we know: v1beta1 is what older Kueues
serve, and newer ones only for a while (https://github.com/kubernetes-sigs/kueue/issues/7626).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any
from urllib.parse import quote

from ci.jobs.cluster import Cluster
from ci.jobs.errors import ForbiddenError, MissingError, RefusedError
from ci.jobs.paths import ACCESS_REVIEW, path_of
from ci.jobs.policy import KEPT_SINCE, dropped
from ci.jobs.validate.facts import Asked, Facts, minor_of
from ci.jobs.validate.nodes import CHECKER, DEFINITION, PLUGIN, SCHEDULER, is_spyre
from ci.jobs.validate.probe import policy_job
from ci.jobs.validate.rights import wanted

GROUP = "/apis/kueue.x-k8s.io"
VERSIONS = ("v1beta2", "v1beta1")
POLICIES = "/apis/spyre.ibm.com/v1alpha1/spyreclusterpolicies"
NODE_STATES = "/apis/spyre.ibm.com/v1alpha1/spyrenodestates"
DAEMON_SETS = "/apis/apps/v1/daemonsets"
# OpenShift's secondary scheduler operator calls its deployment so, whatever the scheduler is called.
SCHEDULERS = ("secondary-scheduler", SCHEDULER)


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


def facts_of(cluster: Cluster, asked: Asked) -> Facts:
    """What a cluster says; kinds that it does not serve count as empty.

    Raises:
        ClusterAwayError: it does not answer.
        ForbiddenError: it does not know who asks (where not even its version can be had).
    """
    found: dict[str, Any] = {"version": cluster.version()}
    unread: dict[str, str] = {}
    questions = _questions(cluster, asked)
    if (minor_of(found["version"]) or KEPT_SINCE) < KEPT_SINCE:
        questions["dropped"] = lambda: _dropped(cluster, asked)
    for name, ask in questions.items():
        try:
            found[name] = ask()
        except MissingError:
            continue
        except (ForbiddenError, RefusedError) as error:
            unread[name] = error.said or error.what
    return Facts(**found, unread=unread)


def _questions(cluster: Cluster, asked: Asked) -> dict[str, Callable[[], Any]]:
    """What is asked, by the field of the facts it is for."""

    def items(path: str) -> Callable[[], Any]:
        return lambda: tuple(cluster.items(path)[0])

    def one(path: str) -> Callable[[], Any]:
        return lambda: cluster.get(path)

    spec, namespace = asked.spec, asked.namespace
    account = (spec.service_account if spec else None) or "default"
    found = {
        "nodes": items(path_of("Node")),
        "operators": items(path_of("ClusterOperator")),
        "cluster_versions": items(path_of("ClusterVersion")),
        "quotas": items(path_of("ResourceQuota", namespace)),
        "limits": items(path_of("LimitRange", namespace)),
        "account": one(path_of("ServiceAccount", namespace, account)),
        "rights": lambda: _rights(cluster, asked),
    }
    if is_spyre(asked):
        found |= {
            "definition": one(path_of("CustomResourceDefinition", name=DEFINITION)),
            "policies": items(POLICIES),
            "node_states": items(NODE_STATES),
            "plugins": lambda: _named(cluster, DAEMON_SETS, PLUGIN, CHECKER),
        }
    if asked.tier is not None:
        found["schedulers"] = lambda: _named(cluster, path_of("Deployment"), *SCHEDULERS)
    if spec is None:
        return found
    if spec.resources.scratch.storage_class is not None:
        found["storage_class"] = one(path_of("StorageClass", name=spec.resources.scratch.storage_class))
    if spec.store is not None and spec.store.volume is not None:
        found["claim"] = one(path_of("PersistentVolumeClaim", namespace, spec.store.volume))
    if spec.priority is not None:
        found["priority"] = one(path_of("PriorityClass", name=spec.priority))
    if spec.queue is not None:
        found |= _queue_questions(cluster, namespace, spec.queue)
    return found


def _named(cluster: Cluster, path: str, *names: str) -> tuple[dict[str, Any], ...]:
    """The objects of a kind with one of these names, in whatever namespace; the others stay there."""
    return tuple(row for name in names for row in cluster.items(path, fields=f"metadata.name={name}")[0])


def _queue_questions(cluster: Cluster, namespace: str, name: str) -> dict[str, Callable[[], Any]]:
    base = cache(lambda: served(cluster))

    def local() -> dict[str, Any] | None:
        return cluster.get(local_queue(at, namespace, name)) if (at := base()) else None

    def whole() -> dict[str, Any] | None:
        named = ((local() or {}).get("spec") or {}).get("clusterQueue")
        return cluster.get(cluster_queue(at, named)) if named and (at := base()) else None

    return {"kueue": base, "local_queue": local, "cluster_queue": whole}


def _dropped(cluster: Cluster, asked: Asked) -> list[str]:
    """What a Job says of pods that fail and this cluster does not keep; nothing is made."""
    job = policy_job(asked)
    return dropped(job, cluster.create(path_of("Job", asked.namespace), job, dry_run=True))


def _rights(cluster: Cluster, asked: Asked) -> dict[str, bool]:
    """What we may do: each is asked, nothing is tried."""
    return {
        str(one): bool(
            (cluster.create(ACCESS_REVIEW, one.review(asked.namespace)).get("status") or {}).get("allowed")
        )
        for one in wanted(asked.spec)
    }
