"""Ending a job and removing all that is of it; done twice it removes nothing more."""

from __future__ import annotations

from collections.abc import Callable

from ci.core.text import listed
from ci.jobs.cluster import Cluster
from ci.jobs.errors import ForbiddenError, NotInTimeError
from ci.jobs.labels import selector
from ci.jobs.paths import path_of

# Owners first: what makes pods must not make them anew.
OWNERS = ("Job", "Deployment")
OWNED = ("Pod", "Service", "ConfigMap", "PersistentVolumeClaim", "Secret")
# Whoever may submit need not be shown the namespace's secrets; one of a job goes with its owner.
MAY_BE_HIDDEN = {"Secret", "PersistentVolumeClaim"}
LOOK_EVERY_S = 1.0
SHOWN = 10


def left_of(cluster: Cluster, name: str) -> list[tuple[str, str]]:
    """Kind and name of everything that is of a job.

    Raises:
        ClusterError: the cluster does not say.
    """
    found = []
    for kind in (*OWNERS, *OWNED):
        try:
            items, _ = cluster.items(path_of(kind, cluster.namespace), labels=selector(name))
        except ForbiddenError:
            if kind in MAY_BE_HIDDEN:
                continue
            raise
        found += [(kind, str(one["metadata"]["name"])) for one in items]
    return found


def cancel(cluster: Cluster, name: str, *, timeout_s: float, say: Callable[[str], object]) -> list[str]:
    """End a job and wait until nothing of it is left.

    Args:
        cluster: it is on.
        name: of the job.
        timeout_s: for how long to wait; 0: not at all.
        say: takes what is waited for.

    Returns:
        Kinds and names of what was there.

    Raises:
        NotInTimeError: something is still there.
        ClusterError: the cluster refuses, or went away; doing it again goes on.
    """
    found = left_of(cluster, name)
    for kind, one in found:
        if kind in OWNERS:
            cluster.delete(path_of(kind, cluster.namespace, one), propagation="Foreground")
    for kind in dict.fromkeys(kind for kind, _ in found if kind not in OWNERS):
        cluster.delete_all(path_of(kind, cluster.namespace), selector(name))
    if found and timeout_s > 0:
        _wait(cluster, name, timeout_s, say)
    return [f"{kind} {one}" for kind, one in found]


def _wait(cluster: Cluster, name: str, timeout_s: float, say: Callable[[str], object]) -> None:
    end = cluster.effects.monotonic() + timeout_s
    count = 0
    while left := left_of(cluster, name):
        if cluster.effects.monotonic() >= end:
            words = [f"{kind} {one}" for kind, one in left]
            raise NotInTimeError(
                f"still there after {timeout_s:g} s: {listed(words, SHOWN)}",
                remedy="do it again; a pod of a node that does not answer goes with "
                "`oc delete pod --force --grace-period=0`",
            )
        if len(left) != count:
            count = len(left)
            say(f"waiting for {count:,} to go")
        cluster.effects.sleep(LOOK_EVERY_S)
