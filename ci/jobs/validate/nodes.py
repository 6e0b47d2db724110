"""Checks of the control plane and the nodes; pure."""

from __future__ import annotations

from collections.abc import Iterator

from ci.core.findings import Finding, judged
from ci.core.text import listed
from ci.jobs.policy import REMEDY
from ci.jobs.validate.facts import (
    Asked,
    Facts,
    card_nodes,
    condition,
    is_cordoned,
    is_ready,
    is_true,
    labels_of,
    minor_of,
    name_of,
)

# What manifests are checked against.
OLDEST, NEWEST = 28, 36
CONTROL_PLANE = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")
PRESSURES = ("MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable")


def api_server(facts: Facts, _asked: Asked) -> Iterator[Finding]:
    """The API server's version is one that manifests are checked against."""
    said = str(facts.version.get("gitVersion", ""))
    minor = minor_of(facts.version)
    yield judged(
        "API server",
        said or "says no version",
        holds=minor is not None and OLDEST <= minor <= NEWEST,
        remedy=f"use a cluster of Kubernetes 1.{OLDEST} to 1.{NEWEST}, which manifests are checked for",
    )


def failure_policy(facts: Facts, _asked: Asked) -> Iterator[Finding]:
    """A cluster before 1.29 keeps what jobs say of pods that fail."""
    if facts.dropped is not None:
        said = str(facts.version.get("gitVersion", ""))
        yield judged(
            "failure policy",
            f"{said} drops {', '.join(facts.dropped)}" if facts.dropped else f"{said} keeps it",
            holds=not facts.dropped,
            remedy=REMEDY,
        )


def control_plane(facts: Facts, _asked: Asked) -> Iterator[Finding]:
    """Every node of the control plane is Ready; one that is run elsewhere shows none."""
    nodes = [one for one in facts.nodes if any(label in labels_of(one) for label in CONTROL_PLANE)]
    away = sorted(name_of(one) for one in nodes if not is_ready(one))
    seen = (
        f"{len(nodes) - len(away)} of {len(nodes)} nodes Ready" if nodes else "run elsewhere: no nodes of it"
    )
    yield judged(
        "control plane",
        seen + (f"; not: {listed(away)}" if away else ""),
        holds=not away,
        remedy="oc describe node, and see why its kubelet is not Ready",
    )


def cluster_operators(facts: Facts, _asked: Asked) -> Iterator[Finding]:
    """On OpenShift, every cluster operator is Available and none Degraded."""
    if not facts.operators:
        return
    bad = sorted(
        name_of(one) for one in facts.operators if not is_true(one, "Available") or is_true(one, "Degraded")
    )
    yield judged(
        "cluster operators",
        f"{len(facts.operators) - len(bad)} of {len(facts.operators)} well"
        + (f"; not: {listed(bad)}" if bad else ""),
        holds=not bad,
        remedy="oc get clusteroperators, and mend what is degraded or unavailable",
    )


def workers(facts: Facts, asked: Asked) -> Iterator[Finding]:
    """Every node with cards is Ready."""
    nodes = card_nodes(facts, asked)
    ready = {name_of(one) for one in facts.nodes if is_ready(one)}
    away = [one.name for one in nodes if one.name not in ready]
    yield judged(
        "worker nodes",
        f"{len(nodes) - len(away)} of {len(nodes)} nodes with cards Ready"
        + (f"; not: {listed(away)}" if away else ""),
        holds=bool(nodes) and not away,
        remedy="oc describe node, and see why its kubelet is not Ready"
        if nodes
        else f"no node has {asked.resource}: install the Spyre operator, or check the name of the resource",
    )


def pressure(facts: Facts, asked: Asked) -> Iterator[Finding]:
    """No node with cards is short of memory, disk, processes or network."""
    cards = {one.name for one in card_nodes(facts, asked)}
    bad = sorted(
        f"{name_of(one)} ({', '.join(kinds)})"
        for one in facts.nodes
        if name_of(one) in cards
        and (kinds := [kind for kind in PRESSURES if condition(one, kind).get("status") == "True"])
    )
    yield judged(
        "pressure",
        f"{len(bad)} nodes with cards under pressure" + (f": {listed(bad)}" if bad else ""),
        holds=not bad,
        remedy="free memory or disk there: a kubelet under pressure ends pods",
    )


def cordoned(facts: Facts, asked: Asked) -> Iterator[Finding]:
    """No node with cards is cordoned."""
    cards = {one.name for one in card_nodes(facts, asked)}
    bad = sorted(name_of(one) for one in facts.nodes if name_of(one) in cards and is_cordoned(one))
    yield judged(
        "cordoned",
        f"{len(bad)} nodes with cards take no pods" + (f": {listed(bad)}" if bad else ""),
        holds=not bad,
        remedy="oc adm uncordon NODE, where nobody works on it any more",
    )
