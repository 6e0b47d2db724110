"""All checks that need nothing but answers, in the order they are told; pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ci.core.findings import Finding
from ci.jobs.validate import cards, namespace, nodes, queue
from ci.jobs.validate.checked import unasked
from ci.jobs.validate.facts import Asked, Facts


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """A check, what it is called where nobody can be asked, and which answers it needs.

    Attributes:
        name: of it.
        needs: fields of the facts.
        run: gives its findings; none where it has no meaning for what is asked.
        spyre: it is of Spyre cards alone.
    """

    name: str
    needs: tuple[str, ...]
    run: Callable[[Facts, Asked], Iterator[Finding]]
    spyre: bool = False


CHECKS: tuple[Check, ...] = (
    Check(name="API server", needs=("version",), run=nodes.api_server),
    Check(name="failure policy", needs=("version", "dropped"), run=nodes.failure_policy),
    Check(name="control plane", needs=("nodes",), run=nodes.control_plane),
    Check(name="cluster operators", needs=("operators",), run=nodes.cluster_operators),
    Check(name="worker nodes", needs=("nodes",), run=nodes.workers),
    Check(name="pressure", needs=("nodes",), run=nodes.pressure),
    Check(name="cordoned", needs=("nodes",), run=nodes.cordoned),
    Check(name="Spyre operator", needs=("definition", "policies"), run=cards.operator, spyre=True),
    Check(name="device plugin", needs=("plugins",), run=cards.device_plugin, spyre=True),
    Check(name="resource names", needs=("nodes",), run=cards.resource_names),
    Check(name="node labels", needs=("nodes",), run=cards.node_labels, spyre=True),
    Check(name="healthy cards", needs=("nodes",), run=cards.healthy_cards),
    Check(name="sick cards", needs=("nodes", "node_states"), run=cards.sick_cards),
    Check(name="tiers", needs=("nodes", "policies", "schedulers"), run=cards.tiers),
    Check(name="nodes for the job", needs=("nodes",), run=namespace.places),
    Check(name="storage", needs=("storage_class", "claim"), run=namespace.storage),
    Check(name="quota", needs=("quotas",), run=namespace.quota),
    Check(name="limits", needs=("limits",), run=namespace.limit_range),
    Check(name="queue", needs=("kueue", "local_queue", "cluster_queue"), run=queue.queue),
    Check(name="priority class", needs=("priority",), run=namespace.priority),
    Check(name="service account", needs=("account",), run=namespace.account),
    Check(name="rights", needs=("rights",), run=namespace.rights),
)


def check_all(facts: Facts, asked: Asked) -> list[Finding]:
    """The findings of every check; one whose answers were refused is told as not asked."""
    found: list[Finding] = []
    for check in CHECKS:
        if check.spyre and not cards.is_spyre(asked):
            continue
        refused = [facts.unread[name] for name in check.needs if name in facts.unread]
        if refused:
            found.append(unasked(check.name, refused[0], "have somebody ask who may read it"))
        else:
            found += check.run(facts, asked)
    return found
