"""The state of a job and its pods, from what the cluster's objects say; pure.

Reasons and conditions are those of kubernetes.io, "Pod Lifecycle", "Disruptions" and "Jobs".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from ci.core.errors import EXIT_TEST_FAILED, EXIT_USAGE, UsageError
from ci.core.text import counted, one_line, span
from ci.jobs.labels import QUEUE_LABEL
from test_selection.shard_subset import parse_ranges

INDEX = "batch.kubernetes.io/job-completion-index"
MAX_WHY = 240
# More than a cluster makes of one job, so that a hostile range is never spelled out.
MOST_PODS = 100_000
UNBORN = "no pod was created yet"
NODE_AWAY = "its node does not answer or is tainted; if it stays so, delete the node or force-delete the pod"
DELETED = "it was deleted, which counts as an attempt"
SUSPENDED = "its job was suspended, which does not count as an attempt"
ENDED_WITH_JOB = "its job ended"
_NEXT = "to be replaced"
# The controller waits so long before it replaces a pod, twice as long after each that ended.
FIRST_BACKOFF_S, LONGEST_BACKOFF_S = 10, 600
# These exit codes fail an index for good, by the job's failure policy.
_FINAL = (EXIT_TEST_FAILED, EXIT_USAGE)
# Reasons of a disruption that is the node's end.
_NODE_GONE = {"DeletionByTaintManager", "DeletionByPodGC"}
_NODE_REASONS = {"NodeLost", "NodeShutdown", "Shutdown", "Terminated"}
_PULLING = {"ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName", "ImageInspectError"}
_MEANING = {1: "tests failed", 2: "wrong usage or settings", 3: "incomplete, hardware or infrastructure"}
Object = Mapping[str, Any]


class End(StrEnum):
    """How a job ended; a server ends where it answers."""

    COMPLETE = "complete"
    FAILED = "failed"
    SERVES = "serves"


class Phase(StrEnum):
    """The phase of a pod."""

    PENDING = "pending"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    EVICTED = "evicted"
    LOST = "lost"


ENDED_BADLY = (Phase.FAILED, Phase.EVICTED, Phase.LOST)
# From 1.31 on the first two come only once all pods have ended; until then the others announce them.
_ENDS = {
    "Complete": End.COMPLETE,
    "Failed": End.FAILED,
    "SuccessCriteriaMet": End.COMPLETE,
    "FailureTarget": End.FAILED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStatus:
    """The status of a Job or Deployment.

    Attributes:
        pods: number of indexes.
        done: indexes that succeeded.
        failed: indexes that failed for good.
        over: how it ended, or does once its last pods have: no pod of it is made any more; None: it goes on.
        reason: the cluster's reason for a failure.
        waits: why it has not begun; empty: it has.
    """

    pods: int
    done: frozenset[int] = frozenset()
    failed: frozenset[int] = frozenset()
    over: End | None = None
    reason: str = ""
    waits: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodStatus:
    """The status of a pod.

    Attributes:
        index: of the job's pods; 0 if the job numbers none.
        phase: its phase.
        why: the reason, on one line; may be empty.
        exit_code: of the main container that failed; None if it did not end by itself.
        stays: it is lost but still there, so that nothing replaces it.
        deleted: it was ended by its deletion.
    """

    index: int
    phase: Phase
    why: str = ""
    exit_code: int | None = None
    stays: bool = False
    deleted: bool = False

    @property
    def line(self) -> str:
        """For people."""
        return f"pod {self.index} {self.phase}: {self.why}"


def job_status(job: Object) -> JobStatus:
    """The status of a Job or Deployment."""
    if job.get("kind") == "Deployment":
        return _server_status(job)
    spec, status = job.get("spec") or {}, job.get("status") or {}
    pods = int(spec.get("completions") or 1)
    rows = [one for one in status.get("conditions") or () if one.get("status") == "True"]
    told: Object = next((one for kind in _ENDS for one in rows if one.get("type") == kind), {})
    over = _ENDS.get(str(told.get("type")))
    done = _indexes(status.get("completedIndexes"))
    queue = one_line(str((job.get("metadata", {}).get("labels") or {}).get(QUEUE_LABEL, "")))
    suspended = f"waits in the queue {queue}" if queue else "is suspended"
    return JobStatus(
        pods=pods,
        done=frozenset(range(pods)) if over is End.COMPLETE else done,
        failed=_indexes(status.get("failedIndexes")),
        over=over,
        reason=one_line(": ".join(str(told[name]) for name in ("reason", "message") if told.get(name))),
        waits=suspended if spec.get("suspend") else "",
    )


def _server_status(job: Object) -> JobStatus:
    spec, status = job.get("spec") or {}, job.get("status") or {}
    stuck, refused = (
        one_line(str(one.get("message") or one.get("reason") or ""))
        for one in (condition(status, "Progressing", "False"), condition(status, "ReplicaFailure"))
    )
    return JobStatus(
        pods=int(spec.get("replicas") or 1),
        over=End.SERVES if status.get("availableReplicas") else End.FAILED if stuck else None,
        reason=stuck,
        waits="is paused" if spec.get("paused") else f"gets no pod: {refused}" if refused else "",
    )


def _indexes(text: object) -> frozenset[int]:
    """`0-7,12`, as a Job's status has it; empty for anything else."""
    try:
        return frozenset(parse_ranges([str(text)], MOST_PODS)) if text else frozenset()
    except UsageError:
        return frozenset()


def condition(status: Object, kind: str, value: str = "True") -> Object:
    """The condition of a kind that has a value; empty if there is none."""
    rows = status.get("conditions") or ()
    return next((one for one in rows if one.get("type") == kind and one.get("status") == value), {})


def index_of(pod: Object) -> int:
    """The index of a job's pod."""
    about = pod.get("metadata", {})
    told = (about.get("annotations") or {}).get(INDEX) or (about.get("labels") or {}).get(INDEX) or "0"
    return int(told) if str(told).isdecimal() else 0


def pod_status(pod: Object) -> PodStatus:
    """The status of a pod."""
    status, found = pod.get("status") or {}, PodStatus(index=index_of(pod), phase=Phase.DONE)
    phase, leaves = status.get("phase"), "deletionTimestamp" in pod.get("metadata", {})
    if phase == "Succeeded":
        return found
    if phase == "Failed":
        return _failed(status, found, leaves=leaves)
    if leaves and condition(status, "DisruptionTarget").get("reason") in _NODE_GONE:
        # Only its kubelet could end it: https://github.com/kubernetes/enhancements/issues/6262
        return replace(found, phase=Phase.LOST, why=NODE_AWAY, stays=True)
    if phase == "Running":
        return replace(found, phase=Phase.RUNNING, why="is terminating" if leaves else "")
    if phase == "Unknown":
        return replace(found, phase=Phase.LOST, why=_words(status.get("message")) or NODE_AWAY)
    return _pending(status, found)


def _failed(status: Object, found: PodStatus, *, leaves: bool) -> PodStatus:
    reason, said = str(status.get("reason") or ""), _words(status.get("message"))
    target = condition(status, "DisruptionTarget")
    node_gone = target.get("reason") in _NODE_GONE
    if node_gone or reason in _NODE_REASONS:
        why = (_words(target.get("message")) if node_gone else said) or "its node was removed"
        return replace(found, phase=Phase.LOST, why=why)
    if target:
        why = said or _words(target.get("message")) or str(target.get("reason") or "evicted")
        return replace(found, phase=Phase.EVICTED, why=why)
    found = replace(found, phase=Phase.FAILED)
    # Evicted without that condition: beyond a limit of its own, such as its scratch's; that counts.
    if own := {"DeadlineExceeded": "took longer than its deadline", "Evicted": said or "evicted"}.get(reason):
        return replace(found, why=own)
    for name, ended in _ended(status):
        code = int(ended.get("exitCode") or 0)
        if leaves and code not in _FINAL:
            break
        if code:
            # Another container's code says nothing of tests, and no rule of the job is about it.
            return replace(found, why=_why_ended(name, ended), exit_code=code if name == "main" else None)
    if leaves:
        return replace(found, phase=Phase.LOST, why=DELETED, deleted=True)
    return replace(found, why=said or reason or "the cluster does not say why")


def _why_ended(name: str, ended: Object) -> str:
    code = int(ended["exitCode"])
    if ended.get("reason") == "OOMKilled":
        return "out of memory: exceeded its limit"
    # What the image's own programs mean by other codes is not known here.
    meaning = f" ({_MEANING[code]})" if name == "main" and code in _MEANING else ""
    said = _words(ended.get("message"))
    told = f"{'' if name == 'main' else f'{name}: '}exit code {code}{meaning}"
    return _words(f"{told}: {said}" if said else told)


def _pending(status: Object, found: PodStatus) -> PodStatus:
    found = replace(found, phase=Phase.PENDING)
    if scheduled := condition(status, "PodScheduled", "False"):
        said = _words(scheduled.get("message")) or str(scheduled.get("reason") or "")
        return replace(found, why=f"cannot be scheduled: {said}")
    for one in status.get("initContainerStatuses") or ():
        if "running" in (one.get("state") or {}):
            return replace(found, phase=Phase.RUNNING, why=f"{_words(one.get('name'))} (init container) runs")
    for one in _containers(status):
        waiting = (one.get("state") or {}).get("waiting") or {}
        reason, said = str(waiting.get("reason") or ""), _words(waiting.get("message"))
        if reason in _PULLING:
            # Its reasons take turns; one word for all, or a count of them would change for ever.
            return replace(found, why=f"cannot pull {_words(one.get('image'))}")
        if reason not in {"", "ContainerCreating", "PodInitializing"}:
            return replace(found, why=f"{reason}: {said}" if said else reason)
    placed = condition(status, "PodScheduled")
    return replace(found, why="creating its containers" if placed else "no scheduler has seen it yet")


def _containers(status: Object) -> Iterator[Object]:
    yield from status.get("initContainerStatuses") or ()
    yield from status.get("containerStatuses") or ()


def _ended(status: Object) -> Iterator[tuple[str, Object]]:
    """Name and end of each container that ended, the main one first."""
    for one in sorted(_containers(status), key=lambda one: one.get("name") != "main"):
        if ended := (one.get("state") or {}).get("terminated"):
            yield _words(one.get("name")), ended


def _words(text: object) -> str:
    return one_line(str(text or ""), MAX_WHY)


@dataclass(slots=True, kw_only=True)
class _Known:
    """A pod that was heard of: when it was made, its status, and whether its end is news no more."""

    made: str
    status: PodStatus
    told: bool = False


class Aggregates:
    """The pods of a job by index, counted anew at each `look`.

    Attributes:
        job: the job's own status.
        counts: indexes by phase.
        reasons: why indexes are pending, with how many for each.
        stuck: indexes whose pod is lost and still there.
        ended_badly: pods that ended badly; others may have taken up their work.
        unborn_because: why no pod can be made.
    """

    def __init__(self, job: JobStatus) -> None:
        self.job = job
        self.ended_badly = 0
        self.unborn_because = UNBORN
        self._pods: dict[int, dict[str, _Known]] = {}
        self._count()

    def take(self, kind: str, pod: Object) -> None:
        """Take an event of a watch: ADDED, MODIFIED or DELETED, and the pod as it is now, or was last."""
        about, status = pod.get("metadata", {}), pod_status(pod)
        known = self._pods.setdefault(status.index, {})
        uid, made = str(about.get("uid", "")), str(about.get("creationTimestamp", ""))
        before = known.setdefault(uid, _Known(made=made, status=status))
        if kind == "DELETED" and status.stays:
            status = replace(status, why="its node was removed", stays=False)
        elif kind == "DELETED" and _lives(status):
            status = replace(status, phase=Phase.LOST, why=DELETED, deleted=True)
        if not (status.deleted and before.status.phase in ENDED_BADLY):  # else it had ended before
            before.status = status

    def relist(self, pods: Iterable[Object]) -> None:
        """Take all pods there are; those not among them are gone."""
        there = set()
        for pod in pods:
            self.take("MODIFIED", pod)
            there.add(str(pod.get("metadata", {}).get("uid", "")))
        for index, known in self._pods.items():
            for uid, one in known.items():
                if uid not in there and (_lives(one.status) or one.status.stays):
                    why = "its node was removed" if one.status.stays else "it was removed"
                    one.status = PodStatus(index=index, phase=Phase.LOST, why=why)

    def look(self, job: JobStatus) -> list[PodStatus]:
        """Take the job's status, which tells why pods were deleted. Returns those that ended badly."""
        self.job = job
        news = []
        for one in (one for known in self._pods.values() for one in known.values()):
            if one.told or one.status.phase not in ENDED_BADLY or one.status.index >= job.pods:
                continue
            one.told, why = True, one.status.why
            if one.status.deleted:
                why = SUSPENDED if job.waits else why
                why = ENDED_WITH_JOB if job.over and one.status.index not in job.failed else why
                one.status = replace(one.status, why=why)
            if why not in {SUSPENDED, ENDED_WITH_JOB}:
                news.append(one.status)
        self.ended_badly += len(news)
        self._count()
        return news

    def pod(self, index: int) -> PodStatus:
        """The status of an index: of its newest pod, or of the one that did its work."""
        return self._current[index]

    @property
    def unborn(self) -> int:
        """Indexes of which no pod was made yet."""
        return self.reasons[self.unborn_because]

    @property
    def replaced(self) -> int:
        """Pods that ended badly and were replaced."""
        between = sum(number for why, number in self.reasons.items() if why.startswith(_NEXT))
        return self.ended_badly - sum(self.counts[one] for one in ENDED_BADLY) - between

    def _count(self) -> None:
        self._current = [self._newest(index) for index in range(self.job.pods)]
        self.counts = Counter(one.phase for one in self._current)
        self.reasons = Counter(one.why for one in self._current if one.phase is Phase.PENDING)
        self.stuck = {one.index for one in self._current if one.stays}

    def _newest(self, index: int) -> PodStatus:
        known = list(self._pods.get(index, {}).values())
        done = next((one.status for one in known if one.status.phase is Phase.DONE), None)
        if done or index in self.job.done:
            return done or PodStatus(index=index, phase=Phase.DONE)
        if not known:
            if index in self.job.failed:
                return PodStatus(index=index, phase=Phase.FAILED, why="its pods are gone")
            return PodStatus(index=index, phase=Phase.PENDING, why=self.unborn_because)
        # What is under way counts first, then the newest; two may be of the same second.
        rank = [(_lives(one.status), _there(one.status), one.made, place) for place, one in enumerate(known)]
        newest = known[max(rank)[-1]].status
        if _there(newest) or index in self.job.failed or self.job.over:
            return newest
        ended = sum(one.status.phase in ENDED_BADLY and one.status.why != SUSPENDED for one in known)
        wait_s = min(FIRST_BACKOFF_S * 2 ** min(max(ended - 1, 0), 10), LONGEST_BACKOFF_S)
        why = f"{_NEXT}; after {counted(ended, 'failed pod')} the cluster waits up to {span(wait_s)}"
        return PodStatus(index=index, phase=Phase.PENDING, why=why)


def _lives(pod: PodStatus) -> bool:
    return pod.phase in {Phase.PENDING, Phase.RUNNING}


def _there(pod: PodStatus) -> bool:
    """True if nothing replaces it yet."""
    return _lives(pod) or pod.stays or pod.exit_code in _FINAL
