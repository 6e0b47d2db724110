"""Having a cluster make a pod to look into a job with; what it reads is its own and goes when it goes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ci.jobs.cluster import Cluster, same_spec
from ci.jobs.debug import debug_manifest, how_to_enter
from ci.jobs.errors import ConflictError
from ci.jobs.submit import HOLD, owned, path_for

_ENDED = frozenset({"Succeeded", "Failed"})
_BESIDE = frozenset({"ConfigMap", "Secret"})


def open_there(
    cluster: Cluster,
    manifests: Sequence[Mapping[str, Any]],
    *,
    seconds: int,
    index: int = 0,
    notebook: bool = False,
) -> list[str]:
    """Make the pod, unless it is there; how it is entered.

    Args:
        cluster: that makes it.
        manifests: of the job under a name of its own; see `ci.jobs.debug.apart`.
        seconds: after which the pod is ended.
        index: whose environment it has.
        notebook: the image's notebook in place of a shell.

    Raises:
        UsageError: there is no such index, or no time.
        ConflictError: one is there that has ended, goes, or was made of another spec.
        ClusterError: the cluster refuses a part, and then nothing was made; or it went away.
    """
    origin = next(one for one in manifests if one["kind"] in HOLD)
    pod = debug_manifest(origin, seconds=seconds, index=index, notebook=notebook)
    words = how_to_enter(pod, origin)
    there = cluster.get(path_for(pod, named=True))
    if there is not None:
        _check_open(there, pod)
        return words
    beside = [one for one in manifests if one["kind"] in _BESIDE]
    for one in (pod, *beside):
        cluster.create(path_for(one), one, dry_run=True)
    # It waits for what it mounts.
    made = cluster.create(path_for(pod), pod)
    for one in beside:
        cluster.create(path_for(one), owned(one, made))
    return words


def _check_open(there: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    name = wanted["metadata"]["name"]
    ended = there.get("status", {}).get("phase") in _ENDED or "deletionTimestamp" in there["metadata"]
    if ended or not same_spec(there, wanted):
        raise ConflictError(
            f"Pod {name} is there, and {'has ended' if ended else 'was made of another spec'}",
            remedy=f"remove it first: spyre-ci job cancel {name}",
        )
