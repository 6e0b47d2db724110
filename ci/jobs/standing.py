"""How a job stands as a whole, by what its controller says of it; pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from ci.core.errors import UsageError
from ci.core.text import one_line
from ci.jobs.labels import ANNOTATION, QUEUE_LABEL
from test_selection.shard_subset import parse_ranges

# How many shards each pod serves, by index; what a watch counts by.
SHARDS_ANNOTATION = f"{ANNOTATION}shards"
# More than a cluster makes of one job, so that a hostile range is never spelled out.
MOST_PODS = 100_000


class End(StrEnum):
    """How a job ended; a server that answers has come to where it was to."""

    COMPLETE = "complete"
    FAILED = "failed"
    SERVES = "serves"


# From 1.31 on the first come only once all pods have ended; until then the second tell what comes.
_ENDS = {"Complete": End.COMPLETE, "Failed": End.FAILED}
_ENDINGS = {"SuccessCriteriaMet": End.COMPLETE, "FailureTarget": End.FAILED}


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How a job stands.

    Attributes:
        pods: how many there are to be.
        done: indexes that succeeded.
        failed: indexes that failed for good.
        active: pods that are there and have not ended.
        end: how it ended; None: it goes on, or `ending` says more.
        ending: how it is to end once its last pods have; None: nothing is known of an end.
        reason: the cluster's word for why it fails.
        shards: how many each pod serves, by index; empty where nobody says.
        waits: why nothing of it has begun; empty: it has.
    """

    pods: int
    done: frozenset[int] = frozenset()
    failed: frozenset[int] = frozenset()
    active: int = 0
    end: End | None = None
    ending: End | None = None
    reason: str = ""
    shards: tuple[int, ...] = ()
    waits: str = ""

    @property
    def over(self) -> End | None:
        """How it ended or is about to: no pod of it is made any more."""
        return self.end or self.ending


def standing_of(job: Mapping[str, Any]) -> Standing:
    """How a Job or Deployment stands."""
    if job.get("kind") == "Deployment":
        return _of_server(job)
    spec, status = job.get("spec") or {}, job.get("status") or {}
    pods = int(spec.get("completions") or 1)
    end, reason = _end(status, _ENDS)
    ending, soon = _end(status, _ENDINGS)
    done = _indexes(status.get("completedIndexes"))
    if (end or ending) is End.COMPLETE:
        done = frozenset(range(pods))
    return Standing(
        pods=pods,
        done=done,
        failed=_indexes(status.get("failedIndexes")),
        active=int(status.get("active") or 0),
        end=end,
        ending=None if end else ending,
        reason=reason or soon,
        shards=_shards(job, pods),
        waits=_waits(job),
    )


def _end(status: Mapping[str, Any], known: Mapping[str, End]) -> tuple[End | None, str]:
    for one in status.get("conditions") or ():
        if one.get("status") == "True" and one.get("type") in known:
            said = ": ".join(str(part) for part in (one.get("reason"), one.get("message")) if part)
            return known[one["type"]], one_line(said)
    return None, ""


def _waits(job: Mapping[str, Any]) -> str:
    if not (job.get("spec") or {}).get("suspend"):
        return ""
    queue = (job.get("metadata", {}).get("labels") or {}).get(QUEUE_LABEL)
    return f"waits in the queue {one_line(str(queue))}" if queue else "is suspended"


def _shards(job: Mapping[str, Any], pods: int) -> tuple[int, ...]:
    told = str((job.get("metadata", {}).get("annotations") or {}).get(SHARDS_ANNOTATION, "")).split(",")
    fits = len(told) == pods and all(re.fullmatch(r"[0-9]{1,6}", one) for one in told)
    return tuple(map(int, told)) if fits else ()


def _of_server(job: Mapping[str, Any]) -> Standing:
    spec, status = job.get("spec") or {}, job.get("status") or {}
    stuck = next(
        (
            one_line(str(one.get("message") or one.get("reason")))
            for one in status.get("conditions") or ()
            if one.get("type") == "Progressing" and one.get("status") == "False"
        ),
        "",
    )
    refused = next(
        (
            one_line(str(one.get("message") or one.get("reason")))
            for one in status.get("conditions") or ()
            if one.get("type") == "ReplicaFailure" and one.get("status") == "True"
        ),
        "",
    )
    serves = bool(status.get("availableReplicas"))
    return Standing(
        pods=int(spec.get("replicas") or 1),
        active=int(status.get("replicas") or 0),
        end=End.SERVES if serves else End.FAILED if stuck else None,
        reason=stuck,
        waits="is paused" if spec.get("paused") else f"gets no pod: {refused}" if refused else "",
    )


def _indexes(text: object) -> frozenset[int]:
    """`0-7,12`, as a Job's status has it; what is none is taken for none."""
    try:
        return frozenset(parse_ranges([str(text)], MOST_PODS)) if text else frozenset()
    except UsageError:
        return frozenset()
