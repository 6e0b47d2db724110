"""What a cluster keeps of what a Job says about pods that fail; pure.

Before Kubernetes 1.29 the gates JobBackoffLimitPerIndex and JobPodReplacementPolicy are off, and the API
server drops what is behind them without a word, strict or not: tests that failed would then be tried again,
and two pods of an index could run at once. A dry run's answer shows it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ci.jobs.errors import RefusedError

# The first minor release whose gates are on.
KEPT_SINCE = 29
FIELDS = ("backoffLimitPerIndex", "maxFailedIndexes", "podReplacementPolicy")
REMEDY = (
    f"use a cluster of Kubernetes 1.{KEPT_SINCE} (OpenShift 4.16) or later, or have its gates "
    "JobBackoffLimitPerIndex and JobPodReplacementPolicy turned on"
)


def dropped(sent: Mapping[str, Any], answered: Mapping[str, Any]) -> list[str]:
    """What a Job says of pods that fail and the cluster's answer lacks.

    Args:
        sent: the Job.
        answered: the same, as the cluster would make it.
    """
    said, kept = sent["spec"], answered.get("spec") or {}
    found = [name for name in FIELDS if name in said and kept.get(name) != said[name]]
    if _rules(kept) < _rules(said):
        found.append("rules of podFailurePolicy")
    return found


def check_kept(sent: Mapping[str, Any], answered: Mapping[str, Any]) -> None:
    """Refuse a cluster that would drop what a Job says of pods that fail.

    Raises:
        RefusedError: what it would drop.
    """
    if sent["kind"] == "Job" and (found := dropped(sent, answered)):
        raise RefusedError(
            f"the cluster would drop {', '.join(found)} of Job {sent['metadata']['name']}", remedy=REMEDY
        )


def _rules(spec: Mapping[str, Any]) -> int:
    return len((spec.get("podFailurePolicy") or {}).get("rules") or ())
