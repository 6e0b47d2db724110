"""Make a job's objects on a cluster, checked before anything is made, and remove them.

The Job comes first and is suspended, so that all else can be owned by it and goes when it goes; it begins
once everything is there. A submit that is killed half way leaves a suspended job, which the next one lets
begin.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ci.core.text import counted, listed
from ci.jobs.cluster import Cluster, kueue_api, path_of, same_spec
from ci.jobs.errors import ConflictError, ForbiddenError, NotInTimeError, RefusedError
from ci.jobs.labels import ANNOTATION, QUEUE_LABEL, selector
from ci.jobs.status import End, job_status

Manifest = Mapping[str, Any]
# What suspends an owner until it may begin.
HOLD = {"Job": "suspend", "Deployment": "paused"}
# It was let begin once: whoever suspends it afterwards means it.
BEGUN = f"{ANNOTATION}begun"
# Before Kubernetes 1.29 the API server drops these silently, strict or not: failed tests would be tried
# again, and two pods of an index could run at once.
_KEPT = ("backoffLimitPerIndex", "maxFailedIndexes", "podReplacementPolicy")
KEEP_REMEDY = (
    "use a cluster of Kubernetes 1.29 (OpenShift 4.16) or later, or have its feature gates "
    "JobBackoffLimitPerIndex and JobPodReplacementPolicy enabled"
)
OWNED = ("Pod", "Service", "ConfigMap", "PersistentVolumeClaim", "Secret")
# Whoever may submit need not see the namespace's secrets; those of a job go with their owner.
_MAY_BE_HIDDEN = {"Secret", "PersistentVolumeClaim"}
LOOK_EVERY_S = 1.0


@dataclass(slots=True, kw_only=True)
class Submitted:
    """What a submit did.

    Attributes:
        name: of the job.
        kind: Job or Deployment.
        made: kinds and names that were made now.
        begins: what starts it: this submit, an earlier one, or a queue; empty after a check.
        warnings: sentences about what may keep it waiting.
    """

    name: str
    kind: str
    made: list[str] = field(default_factory=list)
    begins: str = ""
    warnings: list[str] = field(default_factory=list)


def submit(
    cluster: Cluster,
    manifests: Sequence[Manifest],
    *,
    check_only: bool = False,
    ready: Callable[[], object] = lambda: None,
) -> Submitted:
    """Make a job of its manifests, or what is missing of it.

    Args:
        cluster: that makes it.
        manifests: of one job, all with the same hash of its spec.
        check_only: have it all checked, and make nothing.
        ready: called once all of it was checked, before anything is made.

    Raises:
        ConflictError: a name of it is taken by another object, or the job failed before.
        ClusterError: the cluster refuses a part, or would drop a field that the job relies on: nothing was
            made; or it went away.
    """
    owner = next(one for one in manifests if one["kind"] in HOLD)
    done = Submitted(name=owner["metadata"]["name"], kind=owner["kind"])
    there = {_word(one): cluster.get(_path(one, named=True)) for one in manifests}
    made: Manifest | None = there[_word(owner)]
    for one in manifests:
        _check_same(there[_word(one)], one, made)
    if made is not None and done.kind == "Job" and (status := job_status(made)).over is End.FAILED:
        # No cluster takes up a failed Job again.
        raise ConflictError(
            f"Job {done.name} already exists, and has failed: {status.reason or 'no reason given'}",
            remedy=f"remove it, then submit again: spyre-ci job cancel {done.name}; stored results stay",
        )
    _check(cluster, [one for one in manifests if there[_word(one)] is None], done)
    if check_only:
        return done
    ready()
    job = made or _make(cluster, {**owner, "spec": {**owner["spec"], HOLD[done.kind]: True}}, done)
    for one in manifests:
        if there[_word(one)] is None and one is not owner:
            _make(cluster, _owned(one, job), done)
    done.begins = _begin(cluster, owner, job)
    return done


def _check_same(there: Manifest | None, wanted: Manifest, owner: Manifest | None) -> None:
    """Refuse an object that has a name of the job and is not its."""
    if there is None:
        return
    word, about = _word(wanted), there["metadata"]
    name = (wanted["metadata"].get("labels") or {}).get("app.kubernetes.io/name", wanted["metadata"]["name"])
    if "deletionTimestamp" in about:
        raise ConflictError(f"{word} is being removed", remedy="wait until it is removed, then submit again")
    if not same_spec(there, wanted):
        raise ConflictError(
            f"{word} already exists, made from another spec",
            remedy=f"use another run id, or remove it: spyre-ci job cancel {name}",
        )
    owners = {ref.get("uid") for ref in about.get("ownerReferences") or ()}
    if wanted["kind"] not in HOLD and (owner is None or owner["metadata"]["uid"] not in owners):
        # It is removed with its owner, which may be any moment.
        raise ConflictError(
            f"{word} is left over from a job that was removed",
            remedy=f"remove what is left, then submit again: spyre-ci job cancel {name}",
        )


def _check(cluster: Cluster, missing: Sequence[Manifest], done: Submitted) -> None:
    """Have the cluster check what is to be made, and a pod of it."""
    for one in missing:
        answer = cluster.create(_path(one), one, dry_run=True)
        if one["kind"] not in HOLD:
            continue
        if one["kind"] == "Job" and (lost := dropped(one, answer)):
            raise RefusedError(
                f"the cluster would drop {', '.join(lost)} from {_word(one)}", remedy=KEEP_REMEDY
            )
        if warning := check_pod(cluster, one):
            done.warnings.append(warning)
        if one["kind"] == "Job" and _queue(one) and kueue_api(cluster) is None:
            done.warnings.append(
                f"the cluster has no Kueue, and a job in the queue {_queue(one)} waits until it has;"
                " to start it at once, cancel it and leave `queue` out"
            )


def check_pod(cluster: Cluster, owner: Manifest) -> str:
    """Ask what a job's controller would be told of each pod: its account, priority, limits, security.

    Returns:
        A warning where a full quota refuses it, which may have room later; else nothing.

    Raises:
        RefusedError: the namespace takes no such pod.
        ForbiddenError: we may not ask.
    """
    template, about = owner["spec"]["template"], owner["metadata"]
    named = {**template["metadata"], "name": f"{about['name']}-check", "namespace": about["namespace"]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": named, "spec": template["spec"]}
    try:
        cluster.create(_path(pod), pod, dry_run=True)
    except ForbiddenError as error:
        if "exceeded quota" in error.said:
            return f"its pods wait for free quota in the namespace: {error.said}"
        if "cannot create resource" in error.said:
            raise
        raise RefusedError(
            f"the namespace {about['namespace']} rejects its pods: {error.said}",
            remedy="change the spec, or have the namespace changed",
            said=error.said,
        ) from None
    return ""


def dropped(sent: Manifest, answered: Manifest) -> list[str]:
    """What a Job says of pods that fail and the cluster's answer to a dry run lacks; pure."""
    said, kept = sent["spec"], answered.get("spec") or {}
    found = [name for name in _KEPT if name in said and kept.get(name) != said[name]]
    wanted, there = (len((one.get("podFailurePolicy") or {}).get("rules") or ()) for one in (said, kept))
    return [*found, "rules of podFailurePolicy"] if there < wanted else found


def _make(cluster: Cluster, body: Manifest, done: Submitted) -> Manifest:
    made = cluster.create(_path(body), body)
    done.made.append(_word(body))
    return made


def _begin(cluster: Cluster, owner: Manifest, made: Manifest) -> str:
    """Let the job begin, once; returns what starts it."""
    if owner["kind"] == "Job" and job_status(made).over is End.COMPLETE:
        return "an earlier submit, and done"
    if owner["kind"] == "Job" and _queue(owner):
        return "its queue"
    if BEGUN in (made["metadata"].get("annotations") or {}):
        return "an earlier submit"
    change = {"metadata": {"annotations": {BEGUN: "true"}}, "spec": {HOLD[owner["kind"]]: False}}
    cluster.patch(_path(owner, named=True), change)
    return "this submit"


def _owned(body: Manifest, owner: Manifest) -> Manifest:
    """The object as its owner's own: it goes when that goes.

    Without blockOwnerDeletion, which OpenShift grants only to who may write finalizers.
    """
    about = {name: owner["metadata"][name] for name in ("name", "uid")}
    reference = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], **about}
    return {**body, "metadata": {**body["metadata"], "ownerReferences": [reference]}}


def _queue(owner: Manifest) -> str:
    return str((owner["metadata"].get("labels") or {}).get(QUEUE_LABEL, ""))


def _word(body: Manifest) -> str:
    return f"{body['kind']} {body['metadata']['name']}"


def _path(body: Manifest, *, named: bool = False) -> str:
    about = body["metadata"]
    return path_of(body["kind"], about["namespace"], about["name"] if named else None)


def cancel(cluster: Cluster, name: str, *, timeout_s: float, say: Callable[[str], object]) -> list[str]:
    """Remove a job and everything of it, and wait until nothing is left; twice removes nothing more.

    Args:
        cluster: it is on.
        name: of the job.
        timeout_s: for how long to wait; 0: not at all.
        say: takes a line of progress.

    Returns:
        Kinds and names of what there was.

    Raises:
        NotInTimeError: something is still there.
        ClusterError: the cluster refuses, or went away; doing it again goes on.
    """
    kinds = [*HOLD, *OWNED]
    found = left = _left_of(cluster, name, kinds)
    # Owners first: what makes pods must not make them again.
    for kind, one in found:
        if kind in HOLD:
            cluster.delete(path_of(kind, cluster.namespace, one), propagation="Foreground")
    for kind in dict.fromkeys(kind for kind, _ in found if kind not in HOLD):
        cluster.delete_all(path_of(kind, cluster.namespace), selector(name))
    end, count = cluster.effects.monotonic() + timeout_s, 0
    while timeout_s > 0 and left and (left := _left_of(cluster, name, kinds)):
        if cluster.effects.monotonic() >= end:
            words = [f"{kind} {one}" for kind, one in left]
            raise NotInTimeError(
                f"still there after {timeout_s:g} s: {listed(words, 10)}",
                remedy="try again; to remove a pod whose node does not answer: "
                "`oc delete pod --force --grace-period=0`",
            )
        if len(left) != count:
            count = len(left)
            say(f"waiting for {counted(count, 'object')} to be removed")
        cluster.effects.sleep(LOOK_EVERY_S)
    return [f"{kind} {one}" for kind, one in found]


def _left_of(cluster: Cluster, name: str, kinds: list[str]) -> list[tuple[str, str]]:
    """Kind and name of everything of a job; kinds that may not be listed are taken out of `kinds`."""
    found = []
    for kind in list(kinds):
        try:
            items, _ = cluster.items(path_of(kind, cluster.namespace), labels=selector(name))
        except ForbiddenError:
            if kind not in _MAY_BE_HIDDEN:
                raise
            kinds.remove(kind)
            continue
        found += [(kind, str(one["metadata"]["name"])) for one in items]
    return found
