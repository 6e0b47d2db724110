"""What a cluster answered, and what is wanted of it: all that checks look at.

Quantities are read exactly (`500m`, `16Gi`, `1e3`), as Kubernetes writes them:
https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from ci.jobs.parts import EXAMPLE_SPYRE
from ci.jobs.spec import Spec

_FORM = re.compile(
    r"([+-]?[0-9]+(?:\.[0-9]*)?|[+-]?\.[0-9]+)(?:([eE][+-]?[0-9]{1,3})|(n|u|m|k|[MGTPE]|[KMGTPE]i))?"
)
_DECIMAL = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = "KMGTPE"
Object = Mapping[str, Any]
HOSTNAME = "kubernetes.io/hostname"
TIERS = ("", "_tier0", "_tier1", "_tier2")


def quantity(text: object) -> Decimal:
    """The number a quantity is; 0 for what is none, for an API server writes none that is not."""
    found = _FORM.fullmatch(str(text).strip())
    if found is None:
        return Decimal(0)
    number, exponent, suffix = found.groups()
    if exponent:
        return Decimal(number + exponent)
    if not suffix:
        return Decimal(number)
    if suffix.endswith("i"):
        return Decimal(number) * Decimal(1024 ** (_BINARY.index(suffix[0]) + 1))
    return Decimal(number).scaleb(_DECIMAL[suffix])


def whole(text: object) -> int:
    """A quantity of things that are counted, such as cards."""
    return int(quantity(text))


def written(value: Decimal) -> str:
    """A number as people write it."""
    return f"{value.normalize():f}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What is wanted of a cluster.

    Attributes:
        stage: number of the row of the roll-out.
        cards: of that row.
        namespace: jobs are put in.
        spec: of a job; None: nothing is asked of storage, queue, priority and image.
        image: that pods run in; empty: none is known.
    """

    stage: int
    cards: int
    namespace: str
    spec: Spec | None = None
    image: str = ""

    @property
    def resource(self) -> str:
        """What the cluster calls a card, without its tier."""
        return self.spec.resources.resource if self.spec else EXAMPLE_SPYRE

    @property
    def tier(self) -> int | None:
        """How near a pod's cards are to be."""
        return self.spec.resources.tier if self.spec else None

    @property
    def pods(self) -> int:
        """Pods of such a job: of tests as many as take all cards of the stage, of other kinds one."""
        if self.spec is None or self.spec.kind != "tests" or not self.spec.resources.cards:
            return 1
        wanted = math.ceil(self.cards / self.spec.resources.cards)
        most = self.spec.tests.pods if self.spec.tests else None
        return min(wanted, most or wanted)


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What the cluster answered; lists are empty where there is none.

    Attributes:
        dropped: of a Job's failure policy, what the cluster does not keep; None: a version that keeps it.
        unread: why something could not be had, by the name of its field.
        kueue: where its objects are served; None: it is not.
        rights: whether we may, by verb and resource.
    """

    version: Object = field(default_factory=dict)
    nodes: Sequence[Object] = ()
    operators: Sequence[Object] = ()
    cluster_versions: Sequence[Object] = ()
    definition: Object | None = None
    policies: Sequence[Object] = ()
    node_states: Sequence[Object] = ()
    plugins: Sequence[Object] = ()
    schedulers: Sequence[Object] = ()
    storage_class: Object | None = None
    claim: Object | None = None
    quotas: Sequence[Object] = ()
    limits: Sequence[Object] = ()
    kueue: str | None = None
    local_queue: Object | None = None
    cluster_queue: Object | None = None
    priority: Object | None = None
    account: Object | None = None
    rights: Mapping[str, bool] = field(default_factory=dict)
    dropped: Sequence[str] | None = None
    unread: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A node, as far as cards go.

    Attributes:
        name: of it.
        capacity: cards the device plugin knows.
        healthy: of them, those it gives out (allocatable).
        usable: it is Ready and takes pods.
    """

    name: str
    capacity: int
    healthy: int
    usable: bool

    @property
    def sick(self) -> int:
        """Cards that are there and not given out."""
        return max(self.capacity - self.healthy, 0)


def card_nodes(facts: Facts, asked: Asked) -> list[Node]:
    """The nodes that have cards, in the order of their names."""
    return [node for one in sorted(facts.nodes, key=name_of) if (node := _node(one, asked)).capacity]


def _node(one: Object, asked: Asked) -> Node:
    status = one.get("status") or {}
    capacity, healthy = status.get("capacity") or {}, status.get("allocatable") or {}
    # A card may be in several pools, by tier; each of them counts it.
    names = [f"{asked.resource}{tier}" for tier in TIERS]
    most = max(names, key=lambda name: whole(capacity.get(name, 0)))
    return Node(
        name=name_of(one),
        capacity=whole(capacity.get(most, 0)),
        healthy=whole(healthy.get(most, 0)),
        usable=is_ready(one) and not is_cordoned(one),
    )


def minor_of(version: Object) -> int | None:
    """The number behind `1.` of what a cluster says it is; None: it says none."""
    found = re.match(r"v?1\.(\d+)", str(version.get("gitVersion", "")))
    return None if found is None else int(found[1])


def name_of(one: Object) -> str:
    """An object's name."""
    return str((one.get("metadata") or {}).get("name", ""))


def labels_of(one: Object) -> Mapping[str, str]:
    """An object's labels."""
    return (one.get("metadata") or {}).get("labels") or {}


def condition(one: Object, kind: str) -> Object:
    """A condition of an object's status; empty where it does not say."""
    found = (one.get("status") or {}).get("conditions") or ()
    return next((row for row in found if row.get("type") == kind), {})


def is_true(one: Object, kind: str) -> bool:
    """Whether a condition holds."""
    return bool(condition(one, kind).get("status") == "True")


def is_ready(node: Object) -> bool:
    """Whether a node says that it is Ready."""
    return is_true(node, "Ready")


def is_cordoned(node: Object) -> bool:
    """Whether a node takes no new pods."""
    return bool((node.get("spec") or {}).get("unschedulable"))
