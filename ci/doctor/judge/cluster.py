"""The cluster that jobs would go to: whether it answers, knows us, and lets us make one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ci.doctor.finding import Finding, Level, ok

CLUSTER = "cluster"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFacts:
    """What the cluster said.

    Attributes:
        meant: what says which one is meant: `KUBECONFIG`, `~/.kube/config`, `this pod`; empty: nothing.
        told: what `ci.doctor.asked_cluster` printed; empty where it did not end as it should.
        why: that.
    """

    meant: str
    told: Mapping[str, Any]
    why: str = ""


def judge_cluster(facts: ClusterFacts) -> list[Finding]:
    """Whether jobs can be made; only who named a cluster in KUBECONFIG has asked for one."""
    if not facts.meant:
        return [ok(CLUSTER, "not used: nothing names one (KUBECONFIG, ~/.kube/config)")]
    told = facts.told
    if not told:
        return [_bad(facts, f"does not answer: {facts.why}", "check the network, or sign in again: oc login")]
    if told.get("fault"):
        return [_bad(facts, str(told["error"]), str(told.get("remedy") or "sign in again: oc login"))]
    said = f"{told.get('version')}, namespace {told.get('namespace')}"
    if refused := told.get("refused"):
        remedy = "have whoever keeps the namespace give you the Role of docs/jobs-cluster.md"
        return [_bad(facts, f"{said}; here one may not {', '.join(map(str, refused))}", remedy)]
    return [ok(CLUSTER, f"{said} (of {facts.meant}); jobs may be made")]


def _bad(facts: ClusterFacts, said: str, remedy: str) -> Finding:
    # The library is an extra, and a file of the home folder may be for anything.
    asked_for = facts.meant == "KUBECONFIG" and facts.told.get("fault") != "lacks"
    level = Level.FAULT if asked_for else Level.WARNING
    return Finding(look=CLUSTER, level=level, said=f"of {facts.meant}: {said}", remedy=remedy)
