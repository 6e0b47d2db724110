"""Checks of the Spyre operator and of what nodes say of their cards; pure.

Names are those of the public repositories ibm-aiu/spyre-operator and ibm-aiu/spyre-device-plugin.
"""

from __future__ import annotations

from collections.abc import Iterator

from ci.core.findings import Finding, judged
from ci.core.text import listed
from ci.jobs.validate.facts import Asked, Facts, Object, card_nodes, labels_of, name_of
from ci.jobs.validate.quantity import whole

DEFINITION = "spyreclusterpolicies.spyre.ibm.com"
PLUGIN = "spyre-device-plugin"
CHECKER = "spyre-health-checker"
SCHEDULER = "spyre-scheduler"
SPYRE = "ibm.com/spyre_"
OLD = "ibm.com/aiu_"
PRESENT, PRODUCT, COUNT = "ibm.com/spyre.present", "ibm.com/spyre.product", "ibm.com/spyre.count"
PSEUDO, BY_TIER = "pseudoDevice", "topologyAwareAllocation"


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
