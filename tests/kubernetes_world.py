"""What becomes of a stand-in cluster's jobs: their controller, and pods that do as a test says.

The controller follows kubernetes.io, "Indexed Job", "Pod failure policy" and "Backoff limit per index", and a
real kube-apiserver, controller manager and scheduler (OpenShift 1.36) where those were seen to differ.
Each row: what the real server did; what does the same here; the test that fails where we take it otherwise.

| suspended: the pods' tracking finalizer goes, then they end with 143; `job-index-failure-count` stays 0
  | `_terminate(counts=False)` | test_watch::test_a_queue_that_takes_a_job_back_costs_no_try
| a pod that somebody deletes ends with 143 and counts
  | `Pod.delete` | test_watch::test_a_pod_that_somebody_deletes_is_lost_and_counts_as_a_try
| a missing PriorityClass or ServiceAccount, a LimitRange or PodSecurity refuse pods, not the Job
  | `refused_pod` | test_submit::test_pods_that_the_cluster_refuses_are_refused_before_the_job_is_made
| a quota refuses pods, not the Job
  | `refuse_pods` | test_submit::test_a_quota_that_is_full_is_a_warning_since_it_may_have_room_later
| the controller tells of pods it cannot make as FailedCreate
  | `_refuse` | test_watch::test_why_no_pod_is_born_is_told_where_nothing_runs_in_time
| a pod of a lost node stays until the node or it is removed
  | `Pod.lose_node` | test_watch::test_a_node_that_does_not_answer_ends_a_watch_with_a_limit
| FailureTarget comes before Failed, which waits for the last pod (from 1.31)
  | `_end`, `_finish` | test_watch::test_pods_that_write_what_they_have_are_waited_for
| an older cluster drops fields it does not know
  | `kept` | test_submit::test_a_cluster_of_1_28_that_drops_the_failure_policy_is_refused
| a token that is revoked: 401 at the next request
  | `api.token`
  | test_watch::test_a_cluster_that_is_gone_or_a_token_that_is_revoked_ends_the_watch_not_the_job
| Kueue serves v1 alone from 0.15 on
  | `api.kueue` | test_submit::test_what_is_in_a_queue_is_started_by_the_queue_and_none_is_a_warning
"""

from __future__ import annotations

import contextlib
import copy
import hashlib
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from test_selection.shard_subset import format_ranges
from tests.kubernetes_checks import refused_pod
from tests.kubernetes_pods import Pod
from tests.kubernetes_store import Object, Store, now

INDEX = "batch.kubernetes.io/job-completion-index"
FAILURES = "batch.kubernetes.io/job-index-failure-count"
# What a controller says first, and once the last pod has ended.
ENDINGS = {"SuccessCriteriaMet": "Complete", "FailureTarget": "Failed"}


@dataclass(kw_only=True)
class Counted:
    """What the controller knows of a job besides its pods."""

    succeeded: set[int] = field(default_factory=set)
    failed: set[int] = field(default_factory=set)
    failures: dict[int, int] = field(default_factory=dict)
    seen: set[str] = field(default_factory=set)
    lost: int = 0


class World:
    """The jobs' controller, and a handle on each pod.

    Attributes:
        logs: lines with their times, by pod and container.
        cut_log_after: so many lines into the next log the connection is cut.
        failed_at_once: a job is told as failed while its pods still end, as before Kubernetes 1.31.
        refuse_pods: why no pod can be made, such as a quota; empty: they can.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self.logs: dict[tuple[str, str], list[tuple[float, bytes]]] = {}
        self.cut_log_after: int | None = None
        self.failed_at_once = False
        self.refuse_pods = ""
        self._counted: dict[str, Counted] = {}
        self._paused = False

    def pod(self, index: int, job: str = "") -> Pod:
        """The newest pod of an index."""
        with self.store.changed:
            found = [
                one
                for one in self.store.of("pods")
                if one["metadata"].get("annotations", {}).get(INDEX) == str(index)
                and job in {"", one["metadata"]["labels"]["batch.kubernetes.io/job-name"]}
            ]
        assert found, f"there is no pod of index {index}"
        return Pod(self, max(found, key=lambda one: int(one["metadata"]["uid"][-12:])))

    def pods(self) -> list[Pod]:
        """All pods, in the order of their names."""
        with self.store.changed:
            return [Pod(self, one) for one in self.store.of("pods")]

    def job(self, name: str = "") -> Object:
        """The job, as it is now."""
        with self.store.changed:
            return next(one for one in self.store.of("jobs") if name in {"", one["metadata"]["name"]})

    def pass_deadline(self, name: str = "") -> None:
        """The job has run for longer than it may."""
        job = self.job(name)
        with self.store.changed:
            self._end(job, "Failed", "DeadlineExceeded", "Job was active longer than specified deadline")

    @contextlib.contextmanager
    def at_once(self) -> Iterator[None]:
        """Within, the controller waits: many pods are moved at the price of one."""
        self._paused = True
        try:
            yield
        finally:
            self._paused = False
            with self.store.changed:
                self.sync()

    def sync(self) -> None:
        """Do what a controller would do now; whoever calls it holds the store."""
        if self._paused:
            return
        for job in self.store.of("jobs"):
            if "deletionTimestamp" in job["metadata"]:
                continue
            if ended(job) or _has(job, ENDINGS):
                self._reap(job)
                self._finish(job)
            else:
                self._sync(job)
        for one in self.store.of("deployments"):
            if one["spec"].get("paused") is not True and "status" not in one:
                one["status"] = {"replicas": 1, "unavailableReplicas": 1}
                self.store.tell("MODIFIED", "deployments", one)

    def _sync(self, job: Object) -> None:
        counted = self._counted.setdefault(job["metadata"]["uid"], Counted())
        pods = [one for kind, one in self.store.owned(job) if kind == "pods"]
        if job["spec"].get("suspend"):
            for one in pods:
                self._terminate(job, one, counted, counts=False)
            self._status(job, counted, {}, [_condition("Suspended", "JobSuspended", "Job suspended")])
            return
        for one in pods:
            self._count(job, one, counted)
        pods = [one for kind, one in self.store.owned(job) if kind == "pods"]
        busy = {index_of(one): one for one in pods if one["status"].get("phase") in {"Pending", "Running"}}
        wanted = range(job["spec"].get("completions", 1))
        settled = counted.succeeded | counted.failed
        for index in wanted:
            free = index not in settled and index not in busy and len(busy) < job["spec"]["parallelism"]
            if free and not self._refuse(job, pod := self._pod_of(job, index, counted)):
                busy[index] = self.store.add("pods", pod)
        settled_all = len(settled) == len(wanted)
        if settled_all and counted.failed:
            self._status(job, counted, busy)
            self._end(job, "Failed", "FailedIndexes", "Job has failed indexes")
        elif settled_all:
            self._status(job, counted, busy)
            self._end(job, "Complete", "CompletionsReached", "Reached expected number of succeeded pods")
        else:
            self._status(job, counted, busy)

    def refused(self, namespace: str, pod: Object) -> str:
        """Why no such pod is made, whoever asks for it; empty: it is."""
        name = pod["metadata"].get("name", "")
        said = f'pods "{name}" is forbidden: {self.refuse_pods}' if self.refuse_pods else ""
        return said or refused_pod(self.store, namespace, pod)

    def _refuse(self, job: Object, pod: Object) -> bool:
        about = {"kind": "Job", "name": job["metadata"]["name"], "uid": job["metadata"]["uid"]}
        said = self.refused(job["metadata"]["namespace"], pod)
        if said and not self.store.of("events"):
            told = {
                "metadata": {"name": f"{about['name']}.1", "namespace": job["metadata"]["namespace"]},
                "involvedObject": about, "reason": "FailedCreate", "message": f"Error creating: {said}",
                "type": "Warning", "count": 1, "lastTimestamp": now(),
            }  # fmt: skip
            self.store.add("events", told)
        return bool(said)

    def _count(self, job: Object, pod: Object, counted: Counted) -> None:
        """Take account of a pod that has ended, once."""
        uid, index, phase = pod["metadata"]["uid"], index_of(pod), pod["status"].get("phase")
        if phase not in {"Succeeded", "Failed"} or uid in counted.seen:
            return
        counted.seen.add(uid)
        if phase == "Succeeded":
            counted.succeeded.add(index)
        else:
            action = _action(job, pod)
            counted.lost += 1
            counted.failures[index] = counted.failures.get(index, 0) + (action == "Count")
            beyond = counted.failures[index] > job["spec"].get("backoffLimitPerIndex", 6)
            if action == "FailIndex" or beyond:
                counted.failed.add(index)
        if "deletionTimestamp" in pod["metadata"]:
            self.store.remove("pods", pod)

    def delete_pod(self, pod: Object) -> None:
        """Somebody deletes a pod: it ends, and counts as a failure of its index."""
        (job,) = (one for one in self.store.of("jobs") if one["metadata"]["uid"] == _owner(pod))
        self._terminate(job, pod, self._counted.setdefault(job["metadata"]["uid"], Counted()))

    def _terminate(self, job: Object, pod: Object, counted: Counted, *, counts: bool = True) -> None:
        """Delete a pod: what runs ends by SIGTERM; what is stuck stays as it is.

        Args:
            job: whose it is.
            pod: that goes.
            counted: takes its failure.
            counts: whether it has its tracking finalizer, by which the controller counts it.
        """
        about, state = pod["metadata"], pod["status"]
        about.setdefault("deletionTimestamp", now())
        stuck = about["uid"] in self.store.stuck
        if state.get("phase") == "Running" and not stuck:
            state["phase"] = "Failed"
            for one in state.get("containerStatuses", ()):
                one["state"] = {"terminated": {"exitCode": 143, "reason": "Error", "finishedAt": now()}}
        self.store.tell("MODIFIED", "pods", pod)
        if not stuck:
            if counts:
                self._count(job, pod, counted)
            self.store.remove("pods", pod)

    def _reap(self, job: Object) -> None:
        """Take away what was to go and has ended."""
        for plural, one in self.store.owned(job):
            going = plural == "pods" and "deletionTimestamp" in one["metadata"]
            if going and one["status"].get("phase") in {"Succeeded", "Failed"}:
                self.store.remove("pods", one)

    def _pod_of(self, job: Object, index: int, counted: Counted) -> Object:
        about, template = job["metadata"], copy.deepcopy(job["spec"]["template"])
        tail = hashlib.sha256(f"{about['uid']} {index} {self.store.version}".encode()).hexdigest()[:5]
        metadata = template.get("metadata", {})
        labels = {
            "batch.kubernetes.io/job-name": about["name"], INDEX: str(index),
            "batch.kubernetes.io/controller-uid": about["uid"],
        }  # fmt: skip
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": about["name"], "uid": about["uid"]}
        return {
            "metadata": {
                "name": f"{about['name']}-{index}-{tail}",
                "generateName": f"{about['name']}-{index}-",
                "namespace": about["namespace"],
                "labels": metadata.get("labels", {}) | labels,
                "annotations": metadata.get("annotations", {})
                | {INDEX: str(index), FAILURES: str(counted.failures.get(index, 0))},
                "ownerReferences": [{**owner, "controller": True, "blockOwnerDeletion": True}],
            },
            "spec": template["spec"],
            "status": {"phase": "Pending", "startTime": now()},
        }

    def _status(
        self,
        job: Object,
        counted: Counted,
        busy: dict[int, Object],
        conditions: list[dict[str, Any]] | None = None,
    ) -> None:
        ready = [one for one in busy.values() if one["status"]["phase"] == "Running"]
        made = {
            "active": len(busy), "ready": len(ready), "terminating": 0, "startTime": now(),
            "succeeded": len(counted.succeeded), "failed": counted.lost,
            "completedIndexes": format_ranges(counted.succeeded),
            "failedIndexes": format_ranges(counted.failed), "uncountedTerminatedPods": {},
        }  # fmt: skip
        made["startTime"] = job.get("status", {}).get("startTime", made["startTime"])
        told = {name: value for name, value in made.items() if value != ""}
        self._write(job, told | ({"conditions": conditions} if conditions else {}))

    def _write(self, job: Object, status: dict[str, Any]) -> None:
        if job.get("status") != status:
            job["status"] = status
            self.store.tell("MODIFIED", "jobs", job)

    def _end(self, job: Object, kind: str, reason: str, message: str) -> None:
        first = next(soon for soon, end in ENDINGS.items() if end == kind)
        kept = {**job.get("status", {}), "active": 0, "ready": 0}
        self._write(job, kept | {"conditions": [_condition(first, reason, message)]})
        counted = self._counted.setdefault(job["metadata"]["uid"], Counted())
        for one in self._live(job):
            self._terminate(job, one, counted)
        self._finish(job)

    def _finish(self, job: Object) -> None:
        """Say that a job has ended, once the last of its pods has; before 1.31 at once."""
        status = job["status"]
        if ended(job) or (self._live(job) and not self.failed_at_once):
            return
        (first,) = status["conditions"]
        kind = ENDINGS[first["type"]]
        done = {"completionTime": now()} if kind == "Complete" else {}
        last = _condition(kind, first["reason"], first["message"])
        self._write(job, {**status, **done, "conditions": [first, last]})

    def _live(self, job: Object) -> list[Object]:
        owned = [one for plural, one in self.store.owned(job) if plural == "pods"]
        return [one for one in owned if one["status"].get("phase") in {"Pending", "Running"}]

    def log(self, pod: str, container: str, line: str, age_s: float = 0) -> None:
        """A line of a container's log, written so many seconds ago."""
        made = line.encode("utf-8", "surrogateescape")
        self.logs.setdefault((pod, container), []).append((time.time() - age_s, made))


def ended(job: Object) -> bool:
    return _has(job, ENDINGS.values())


def _has(job: Object, kinds: Iterable[str]) -> bool:
    return any(one["type"] in kinds for one in job.get("status", {}).get("conditions", ()))


def _owner(pod: Object) -> str:
    return str(pod["metadata"]["ownerReferences"][0]["uid"])


def index_of(pod: Object) -> int:
    return int(pod["metadata"]["annotations"][INDEX])


def _condition(kind: str, reason: str, message: str) -> dict[str, Any]:
    return {
        "type": kind, "status": "True", "reason": reason, "message": message, "lastTransitionTime": now(),
    }  # fmt: skip


def _action(job: Object, pod: Object) -> str:
    """What the job's pod failure policy makes of a pod that failed."""
    codes = [
        one["state"]["terminated"]["exitCode"]
        for one in pod["status"].get("containerStatuses", ())
        if "terminated" in one.get("state", {})
    ]
    conditions = {one["type"] for one in pod["status"].get("conditions", ()) if one["status"] == "True"}
    for rule in job["spec"].get("podFailurePolicy", {}).get("rules", ()):
        if any(one["type"] in conditions for one in rule.get("onPodConditions", ())):
            return str(rule["action"])
        about = rule.get("onExitCodes")
        if about and any((code in about["values"]) == (about["operator"] == "In") for code in codes if code):
            return str(rule["action"])
    return "Count"
