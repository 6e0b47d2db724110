"""Check the control plane, the nodes, the Spyre operator and what nodes say of their cards. Pure.

Names are those of the public repositories ibm-aiu/spyre-operator and ibm-aiu/spyre-device-plugin.
"""

from __future__ import annotations

from collections.abc import Iterator

from ci.core.findings import Finding, judged
from ci.core.text import listed
from ci.jobs.policy import REMEDY
from ci.jobs.validate.facts import (
    Asked,
    Facts,
    Object,
    card_nodes,
    condition,
    is_cordoned,
    is_ready,
    is_true,
    labels_of,
    minor_of,
    name_of,
    whole,
)

DEFINITION = "spyreclusterpolicies.spyre.ibm.com"
PLUGIN = "spyre-device-plugin"
CHECKER = "spyre-health-checker"
SCHEDULER = "spyre-scheduler"
SPYRE = "ibm.com/spyre_"
OLD = "ibm.com/aiu_"
PRESENT, PRODUCT, COUNT = "ibm.com/spyre.present", "ibm.com/spyre.product", "ibm.com/spyre.count"
PSEUDO, BY_TIER = "pseudoDevice", "topologyAwareAllocation"
# What manifests are checked against.
OLDEST, NEWEST = 28, 36
CONTROL_PLANE = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")
PRESSURES = ("MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable")


def is_spyre(asked: Asked) -> bool:
    """Whether the cards are Spyre's; a GPU cluster has no operator of theirs."""
    return asked.resource.startswith((SPYRE, OLD))


def operator(facts: Facts, _asked: Asked) -> Iterator[Finding]:
    """The operator is installed, its one policy is ready, and its cards are no fakes."""
    if facts.definition is None:
        yield judged(
            "Spyre operator",
            f"not installed: no {DEFINITION}",
            holds=False,
            remedy="install the IBM Spyre operator and make a SpyreClusterPolicy",
        )
        return
    states = {name_of(one): one.get("status") or {} for one in facts.policies}
    good = [name for name, status in states.items() if status.get("state") == "ready"]
    told = "; ".join(
        f"{name}: {status.get('state') or 'no state yet'}"
        + (f" ({status['message']})" if status.get("message") else "")
        for name, status in sorted(states.items())
    )
    yield judged(
        "Spyre operator",
        told or "no SpyreClusterPolicy",
        holds=len(good) == 1 and len(states) == 1,
        remedy="have exactly one SpyreClusterPolicy, and see why it is not ready: oc describe spyrepol",
    )
    fake = [one for one in facts.policies if PSEUDO in _modes(one)]
    yield judged(
        "real cards",
        "pseudo devices stand in for cards" if fake else "no pseudo devices",
        holds=not fake,
        remedy=f"take {PSEUDO} out of the policy's experimentalMode: nothing is tested on fake cards",
    )


def device_plugin(facts: Facts, _asked: Asked) -> Iterator[Finding]:
    """The device plugin runs on every node that is to have it, and so does the health checker, if any."""
    for name in (PLUGIN, CHECKER):
        found = [one for one in facts.plugins if name_of(one) == name]
        if not found and name == CHECKER:  # it can be left out
            continue
        status = (found[0].get("status") or {}) if found else {}
        wanted, ready = (status.get(key, 0) for key in ("desiredNumberScheduled", "numberReady"))
        yield judged(
            "device plugin" if name == PLUGIN else "health checker",
            f"ready on {ready} of {wanted} nodes" if found else f"no daemon set {name}",
            holds=bool(found) and 0 < wanted == ready,
            remedy=f"see the pods of the daemon set {name}: oc get pods -A -l app={name}",
        )


def resource_names(facts: Facts, asked: Asked) -> Iterator[Finding]:
    """Cards go by the name jobs ask for; old names are told as what they are."""
    names: dict[str, int] = {}
    for one in facts.nodes:
        for name, number in ((one.get("status") or {}).get("capacity") or {}).items():
            if name.startswith((SPYRE, OLD)) or name == asked.resource:
                names[name] = names.get(name, 0) + whole(number)
    old = sorted(name for name in names if name.startswith(OLD) and names[name])
    wanted = asked.spec.resources.card_resource if asked.spec else asked.resource
    seen = ", ".join(f"{name}: {number}" for name, number in sorted(names.items())) or "none"
    remedy = f"ask for what there is, or have the device plugin give out {wanted}"
    if old:
        seen += f"; old names: {', '.join(old)}"
        remedy = f"upgrade the device plugin: it calls them {SPYRE}pf and {SPYRE}vf now"
    yield judged("resource names", seen, holds=names.get(wanted, 0) > 0 and not old, remedy=remedy)


def node_labels(facts: Facts, asked: Asked) -> Iterator[Finding]:
    """Nodes with cards carry the operator's labels, and these agree with what the nodes give out."""
    bad = []
    cards = {one.name: one for one in card_nodes(facts, asked)}
    for one in sorted(facts.nodes, key=name_of):
        name, labels = name_of(one), labels_of(one)
        if name not in cards:
            if labels.get(PRESENT) == "true":
                bad.append(f"{name}: {PRESENT}, and no cards")
            continue
        lacking = [key for key in (PRESENT, PRODUCT, COUNT) if not labels.get(key)]
        if lacking:
            bad.append(f"{name}: no {', '.join(lacking)}")
        elif whole(labels[COUNT]) != cards[name].capacity:
            bad.append(f"{name}: {COUNT} is {labels[COUNT]}, capacity {cards[name].capacity}")
    yield judged(
        "node labels",
        listed(bad, 4) if bad else f"present, product and count agree on {len(cards)} nodes",
        holds=not bad,
        remedy="see node feature discovery and the device plugin's pod on that node",
    )


def healthy_cards(facts: Facts, asked: Asked) -> Iterator[Finding]:
    """There are as many healthy cards, on nodes that take pods, as the stage has."""
    nodes = card_nodes(facts, asked)
    healthy = sum(one.healthy for one in nodes if one.usable)
    yield judged(
        "healthy cards",
        f"{healthy:,} on {sum(one.usable for one in nodes)} usable nodes; "
        f"stage {asked.stage} has {asked.cards:,}",
        holds=healthy >= asked.cards,
        remedy="mend cards and nodes, or choose a stage of fewer cards (--stage, `stages` in the settings)",
    )


def sick_cards(facts: Facts, asked: Asked) -> Iterator[Finding]:
    """No card is there that is not given out: by capacity against allocatable, and by the operator's word."""
    sick = [f"{one.name}: {one.sick} of {one.capacity}" for one in card_nodes(facts, asked) if one.sick]
    told = [
        f"{(one.get('spec') or {}).get('nodeName') or name_of(one)}: {row.get('id')} {row.get('state')}"
        for one in facts.node_states
        for row in (one.get("status") or {}).get("unhealthyDevices") or ()
    ]
    yield judged(
        "sick cards",
        listed([*sick, *told]) if sick or told else "none",
        holds=not sick and not told,
        remedy="look at the card (lspci, RAS lines); it stays out until the health checker restarts",
    )


def tiers(facts: Facts, asked: Asked) -> Iterator[Finding]:
    """Where a job asks for a tier, nodes have it, the operator deals by it, and its scheduler is ready."""
    if asked.tier is None:
        return
    name = f"{asked.resource}_tier{asked.tier}"
    nodes = [
        name_of(one)
        for one in facts.nodes
        if whole(((one.get("status") or {}).get("allocatable") or {}).get(name, 0))
    ]
    on = any(BY_TIER in _modes(one) for one in facts.policies)
    yield judged(
        "tiers",
        f"{len(nodes)} nodes have {name}; {BY_TIER} is {'on' if on else 'off'}",
        holds=bool(nodes) and on,
        remedy=f"put {BY_TIER} into the policy's experimentalMode, or leave resources.tier out",
    )
    ready = [one for one in facts.schedulers if (one.get("status") or {}).get("availableReplicas")]
    yield judged(
        "scheduler",
        f"{SCHEDULER}: " + ("ready" if ready else "not ready" if facts.schedulers else "no deployment of it"),
        holds=bool(ready),
        remedy="install the secondary scheduler operator, and see its pods: tiers wait for it for ever",
    )


def _modes(policy: Object) -> list[str]:
    return list((policy.get("spec") or {}).get("experimentalMode") or ())


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
