"""What became of a pod, and of a job, as the cluster's own words have it; pure.

Reasons and conditions are those of kubernetes.io, "Pod Lifecycle", "Disruptions" and "Jobs".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from ci.core.text import one_line

INDEX = "batch.kubernetes.io/job-completion-index"
MAX_WHY = 240
# Whose end is the node's doing, and not what ran there.
_NODE_GONE = {"DeletionByTaintManager", "DeletionByPodGC"}
NODE_AWAY = "its node does not answer, or is tainted; where it stays so, delete the node or force the pod"
_NODE_REASONS = {"NodeLost", "NodeShutdown", "Shutdown", "Terminated"}
_ALIVE = {"Pending", "Running", "Unknown"}
_PULLING = {"ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName", "ImageInspectError"}
_MEANING = {1: "tests failed", 2: "wrong usage or settings", 3: "incomplete, hardware or infrastructure"}


class Phase(StrEnum):
    """Where a pod is, in one word."""

    PENDING = "pending"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    EVICTED = "evicted"
    LOST = "lost"


ENDED_BADLY = (Phase.FAILED, Phase.EVICTED, Phase.LOST)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fate:
    """What became of a pod.

    Attributes:
        index: of the job's pods; 0 where the job numbers none.
        phase: where it is.
        why: that is so, on one line; empty where there is nothing to say.
        exit_code: of the main container that failed; None where that did not end by itself.
        stays: lost, but still there, so that nothing replaces it until somebody takes it away.
    """

    index: int
    phase: Phase
    why: str = ""
    exit_code: int | None = None
    stays: bool = False


def index_of(pod: Mapping[str, Any]) -> int:
    """Which of a job's pods it is."""
    about = pod.get("metadata", {})
    told = (about.get("annotations") or {}).get(INDEX) or (about.get("labels") or {}).get(INDEX) or "0"
    return int(told) if str(told).isdecimal() else 0


def fate_of(pod: Mapping[str, Any]) -> Fate:
    """What became of a pod."""
    status, index = pod.get("status") or {}, index_of(pod)
    leaves = "deletionTimestamp" in pod.get("metadata", {})
    target = _condition(status, "DisruptionTarget") or {}
    if leaves and status.get("phase") in _ALIVE and target.get("reason") in _NODE_GONE:
        # Only its kubelet could end it: https://github.com/kubernetes/enhancements/issues/6262
        return Fate(index=index, phase=Phase.LOST, why=NODE_AWAY, stays=True)
    match status.get("phase"):
        case "Succeeded":
            return Fate(index=index, phase=Phase.DONE)
        case "Failed":
            return _failed(status, index)
        case "Running":
            return Fate(index=index, phase=Phase.RUNNING, why="is being ended" if leaves else "")
        case "Unknown":
            why = _words(status.get("message")) or "its node does not answer"
            return Fate(index=index, phase=Phase.LOST, why=why)
        case _:
            return _pending(status, index)


def _failed(status: Mapping[str, Any], index: int) -> Fate:
    reason, said = str(status.get("reason") or ""), _words(status.get("message"))
    target = _condition(status, "DisruptionTarget")
    if target is not None and target.get("reason") in _NODE_GONE:
        return Fate(index=index, phase=Phase.LOST, why=_words(target.get("message")) or "its node is gone")
    if reason in _NODE_REASONS:
        return Fate(index=index, phase=Phase.LOST, why=said or "its node is gone")
    if target is not None:
        why = said or _words(target.get("message")) or str(target.get("reason") or "evicted")
        return Fate(index=index, phase=Phase.EVICTED, why=why)
    # Evicted without that condition: beyond a limit of its own, such as its scratch's, and counted as such.
    if own := {"DeadlineExceeded": "took longer than its deadline", "Evicted": said or "evicted"}.get(reason):
        return Fate(index=index, phase=Phase.FAILED, why=own)
    for name, ended in _ended(status):
        if code := ended.get("exitCode"):
            # Others' codes say nothing of tests, and no rule of the job's is about them.
            own_code = int(code) if name == "main" else None
            return Fate(index=index, phase=Phase.FAILED, why=_why_ended(name, ended), exit_code=own_code)
    return Fate(index=index, phase=Phase.FAILED, why=said or reason or "the cluster does not say why")


def _why_ended(name: str, ended: Mapping[str, Any]) -> str:
    code, reason = int(ended["exitCode"]), str(ended.get("reason") or "")
    if reason == "OOMKilled":
        return "out of memory: more than its limit"
    first = "" if name == "main" else f"{name}: "
    # What the image's programs mean by other codes nobody knows here.
    words = _MEANING.get(code, "") if name == "main" else ""
    said = _words(ended.get("message"))
    told = f"{first}exit code {code}" + (f" ({words})" if words else "")
    return _words(f"{told}: {said}" if said else told)


def _pending(status: Mapping[str, Any], index: int) -> Fate:
    scheduled = _condition(status, "PodScheduled", value="False")
    if scheduled is not None:
        said = _words(scheduled.get("message")) or str(scheduled.get("reason") or "")
        return Fate(index=index, phase=Phase.PENDING, why=f"no node takes it: {said}")
    for one in status.get("initContainerStatuses") or ():
        if "running" in (one.get("state") or {}):
            return Fate(index=index, phase=Phase.RUNNING, why=f"{_words(one.get('name'))} prepares")
    for one in _statuses(status):
        waiting = (one.get("state") or {}).get("waiting")
        if not waiting:
            continue
        reason, said = str(waiting.get("reason") or ""), _words(waiting.get("message"))
        if reason in _PULLING:
            # The two of its reasons take turns; one word for both, or a count of them would.
            return Fate(index=index, phase=Phase.PENDING, why=f"cannot pull {_words(one.get('image'))}")
        if reason not in {"", "ContainerCreating", "PodInitializing"}:
            return Fate(index=index, phase=Phase.PENDING, why=f"{reason}: {said}" if said else reason)
    made = _condition(status, "PodScheduled") is not None
    return Fate(
        index=index,
        phase=Phase.PENDING,
        why="its containers are being made" if made else "no scheduler has looked at it",
    )


def _condition(status: Mapping[str, Any], kind: str, value: str = "True") -> Mapping[str, Any] | None:
    for one in status.get("conditions") or ():
        if one.get("type") == kind and one.get("status") == value:
            return one  # type: ignore[no-any-return]  # what a cluster sent
    return None


def _statuses(status: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield from status.get("initContainerStatuses") or ()
    yield from status.get("containerStatuses") or ()


def _ended(status: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for one in _statuses(status):
        if ended := (one.get("state") or {}).get("terminated"):
            yield _words(one.get("name")), ended


def _words(text: object) -> str:
    return one_line(str(text or ""), MAX_WHY)
