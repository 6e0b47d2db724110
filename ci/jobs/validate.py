"""Check whether a cluster is fit for a stage of jobs: each check asks it something and judges the answer.

Names are those of the public repositories ibm-aiu/spyre-operator and ibm-aiu/spyre-device-plugin. What is
tried on the cluster is in `ci.jobs.trial`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from kubernetes.utils import parse_quantity
from rich import box
from rich.table import Table
from rich.text import Text

from ci.core.errors import EXIT_INCOMPLETE, EXIT_OK, EXIT_TEST_FAILED
from ci.core.findings import FAILED, PASSED, UNASKED, Finding, judged
from ci.core.templates import harmless_environment
from ci.core.text import listed, one_line
from ci.core.workflow_commands import defused
from ci.jobs.cluster import ACCESS_REVIEW, Cluster, kueue_api, path_of
from ci.jobs.errors import ForbiddenError, MissingError, RefusedError
from ci.jobs.job import Job
from ci.jobs.render import render
from ci.jobs.spec import EXAMPLE_SPYRE, Spec
from ci.jobs.status import condition
from ci.jobs.submit import check_pod
from test_selection.files import write_text

Object = Mapping[str, Any]
# Manifests are checked against the schemas of these.
OLDEST, NEWEST = 28, 37
SPYRE, OLD = "ibm.com/spyre_", "ibm.com/aiu_"
PSEUDO = "pseudoDevice"
POLICIES = "/apis/spyre.ibm.com/v1alpha1/spyreclusterpolicies"
PRESSURES = ("MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable")
MANY = "ReadWriteMany"
# What Markdown has a meaning for in a line.
_MARKS = re.compile(r"[\\`*_\[\]|~]")


class Right(NamedTuple):
    """A verb on a kind, as a SelfSubjectAccessReview asks for it."""

    verb: str
    group: str
    resource: str
    part: str = ""

    def __str__(self) -> str:
        return f"{self.verb} {self.resource}" + (f"/{self.part}" if self.part else "")

    def is_had(self, cluster: Cluster) -> bool:
        """True if we may; nothing is tried."""
        about = {
            "namespace": cluster.namespace, "verb": self.verb, "group": self.group, "resource": self.resource,
            "subresource": self.part,
        }  # fmt: skip
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "metadata": {},
            "spec": {"resourceAttributes": {key: value for key, value in about.items() if value}},
        }
        return bool((cluster.create(ACCESS_REVIEW, review).get("status") or {}).get("allowed"))


# The Role of docs/jobs-cluster.md; `cancel` does without the lists of secrets and claims.
RIGHTS: tuple[Right, ...] = tuple(
    Right(verb, group, *resource.split("/"))
    for group, resource, verbs in (
        ("batch", "jobs", "create get list patch delete"),
        ("apps", "deployments", "create get list patch delete"),
        ("", "configmaps", "create get list deletecollection"),
        ("", "services", "create get list deletecollection"),
        ("", "pods", "create list watch deletecollection"),
        ("", "pods/log", "get"),
        ("", "events", "list"),
        ("", "secrets", "create get"),
    )
    for verb in verbs.split()
)


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What is wanted of a cluster.

    Attributes:
        cluster: that is asked.
        stage: number of the row of the roll-out.
        cards: of that row.
        spec: of a job; None: nothing is asked of its nodes, storage, queue and pods.
        image: that pods run in; empty: none is known.
    """

    cluster: Cluster
    stage: int
    cards: int
    spec: Spec | None = None
    image: str = ""

    @property
    def resource(self) -> str:
        """The cluster's name of a card, without its tier."""
        return self.spec.resources.resource if self.spec else EXAMPLE_SPYRE

    @property
    def rights(self) -> list[Right]:
        """The rights that a job needs; those of secrets only if a submit makes one."""
        spec = self.spec
        makes = spec is not None and spec.kind == "notebook" and not (spec.notebook and spec.notebook.token)
        return [one for one in RIGHTS if makes or one.resource != "secrets"]

    @cached_property
    def nodes(self) -> list[dict[str, Any]]:
        """All nodes, in the order of their names."""
        return sorted(self.cluster.items(path_of("Node"))[0], key=_name)

    @cached_property
    def card_nodes(self) -> list[Node]:
        """The nodes that have cards."""
        found = (self._node(one) for one in self.nodes)
        return [one for one in found if one.capacity]

    def _node(self, one: Object) -> Node:
        status = one.get("status") or {}
        # A card may be in several pools, by tier; each of them counts it.
        pools = [
            [int(_number(status.get(key), f"{self.resource}{tier}")) for key in ("capacity", "allocatable")]
            for tier in ("", "_tier0", "_tier1", "_tier2")
        ]
        capacity, healthy = max(pools, key=lambda pool: pool[0])
        troubles = [kind for kind in PRESSURES if condition(status, kind)]
        troubles += [] if condition(status, "Ready") else ["not Ready"]
        troubles += ["cordoned"] if (one.get("spec") or {}).get("unschedulable") else []
        return Node(name=_name(one), capacity=capacity, healthy=healthy, troubles=troubles)


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A node with cards.

    Attributes:
        name: of it.
        capacity: cards the device plugin knows.
        healthy: of them, those it gives out (allocatable).
        troubles: why it is not well.
    """

    name: str
    capacity: int
    healthy: int
    troubles: Sequence[str] = ()

    @property
    def usable(self) -> bool:
        """It is Ready and takes pods."""
        return not {"not Ready", "cordoned"} & set(self.troubles)


def _number(amounts: Object | None, name: str) -> Any:
    return parse_quantity((amounts or {}).get(name, 0))  # type: ignore[no-untyped-call]  # the client's


def _name(one: Object) -> str:
    return str((one.get("metadata") or {}).get("name", ""))


# What was seen, whether that is as it must be, and what mends it; None: the check has no meaning here.
Judgement = tuple[str, bool, str] | None


def check_all(wanted: Wanted) -> list[Finding]:
    """The findings of every check; one whose question is refused is told as not asked.

    Raises:
        ClusterAwayError: the cluster does not answer.
        ForbiddenError: it does not know who asks (not even its version can be had).
    """
    wanted.cluster.version()
    found: list[Finding] = []
    for name, check in CHECKS.items():
        try:
            judgement = check(wanted)
        except (ForbiddenError, RefusedError) as error:
            found.append(unasked(name, error.said or error.what, "ask someone with that right"))
            continue
        if judgement is not None:
            seen, holds, remedy = judgement
            found.append(judged(name, seen, holds=holds, remedy=remedy))
    return found


def unasked(check: str, why: str, remedy: str) -> Finding:
    """A check whose answer could not be had."""
    return Finding(check=check, seen=why, remedy=remedy, asked=False)


def _api_server(wanted: Wanted) -> Judgement:
    said = str(wanted.cluster.version().get("gitVersion", "")) or "reports no version"
    found = re.match(r"v?1\.(\d+)", said)
    minor = 0 if found is None else int(found[1])
    if minor > NEWEST:
        said += f", newer than 1.{NEWEST}, the newest that manifests are checked against"
    remedy = f"use a cluster of Kubernetes 1.{OLDEST} to 1.{NEWEST}, which manifests are checked against"
    return said, minor >= OLDEST, remedy


def _rights(wanted: Wanted) -> Judgement:
    lacking = [str(right) for right in wanted.rights if not right.is_had(wanted.cluster)]
    seen = f"may not {listed(lacking)}" if lacking else f"all {len(wanted.rights)} that jobs need"
    role = f"oc adm policy add-role-to-user edit USER -n {wanted.cluster.namespace}"
    return seen, not lacking, f"have the Role of docs/jobs-cluster.md bound to you, or: {role}"


def _card_nodes(wanted: Wanted) -> Judgement:
    """They are Ready, take pods, and lack neither memory, disk, processes nor network."""
    found = wanted.card_nodes
    bad = [f"{one.name} ({', '.join(one.troubles)})" for one in found if one.troubles]
    remedy = "oc describe node: see its kubelet, free memory or disk, or uncordon it"
    if not found:
        remedy = f"no node has {wanted.resource}: install the Spyre operator, or check the resource's name"
    seen = f"{len(found) - len(bad)} of {len(found)} healthy" + (f"; not: {listed(bad)}" if bad else "")
    return seen, bool(found) and not bad, remedy


def _operator(wanted: Wanted) -> Judgement:
    """It is ready, and gives out no pseudo devices."""
    if not wanted.resource.startswith((SPYRE, OLD)):
        return None
    try:
        policies = wanted.cluster.items(POLICIES)[0]
    except MissingError:
        return "not installed", False, "install the IBM Spyre operator and create a SpyreClusterPolicy"
    states = [one.get("status") or {} for one in policies]
    told = "; ".join(f"{one.get('state') or 'no state yet'} {one.get('message') or ''}" for one in states)
    if any(PSEUDO in ((one.get("spec") or {}).get("experimentalMode") or ()) for one in policies):
        remedy = f"remove {PSEUDO} from the policy's experimentalMode: fake cards test nothing"
        return f"{told}; pseudo devices replace cards", False, remedy
    remedy = "have exactly one SpyreClusterPolicy, and check why it is not ready: oc describe spyrepol"
    return told or "no SpyreClusterPolicy", [one.get("state") for one in states] == ["ready"], remedy


def _cards(wanted: Wanted) -> Judgement:
    """As many as the stage has are healthy, on nodes that take pods."""
    usable = [one for one in wanted.card_nodes if one.usable]
    healthy = sum(one.healthy for one in usable)
    sick = [f"{one.name}: {lost}" for one in wanted.card_nodes if (lost := one.capacity - one.healthy) > 0]
    allocatable = [(one.get("status") or {}).get("allocatable") or {} for one in wanted.nodes]
    old = [name for amounts in allocatable for name in amounts if name.startswith(OLD)]
    seen = f"{healthy:,} healthy on {len(usable)} usable nodes; stage {wanted.stage} needs {wanted.cards:,}"
    seen += (f"; failing: {listed(sick)}" if sick else "") + (f"; old names: {old[0]}" if old else "")
    remedy = "look at the failing cards (lspci, RAS lines), or choose a stage of fewer cards (--stage)"
    if old:
        remedy = f"upgrade the device plugin: it calls them {SPYRE}pf and {SPYRE}vf now"
    return seen, healthy >= wanted.cards and not sick and not old, remedy


def _nodes_for_the_job(wanted: Wanted) -> Judgement:
    """Some nodes fit the spec, and not all of them have a taint that it does not tolerate."""
    if (spec := wanted.spec) is None:
        return None
    needs = spec.resources.card_resource if spec.resources.cards else "pods"
    chosen = [
        one
        for one in wanted.nodes
        if _number((one.get("status") or {}).get("allocatable"), needs) > 0
        and spec.node_selector.items() <= ((one.get("metadata") or {}).get("labels") or {}).items()
    ]
    shut = [f"{_name(one)} ({', '.join(keys)})" for one in chosen if (keys := _taints(one, spec))]
    seen = f"{len(chosen) - len(shut)} of {len(chosen)} matching nodes usable"
    remedy = "check `node_selector`, `tier` and the cards' name, or tolerate the taint with `tolerations`"
    return seen + (f"; tainted: {listed(shut, 4)}" if shut else ""), len(chosen) > len(shut), remedy


def _taints(node: Object, spec: Spec) -> list[str]:
    """The taints of a node that keep a job's pods out."""
    return [
        str(taint.get("key", ""))
        for taint in (node.get("spec") or {}).get("taints") or ()
        if taint.get("effect") in {"NoSchedule", "NoExecute"}
        and not any(
            one.key in {None, taint.get("key")}
            and one.effect in {None, taint.get("effect")}
            and (one.operator == "Exists" or one.value == taint.get("value", ""))
            for one in spec.tolerations
        )
    ]


def _storage(wanted: Wanted) -> Judgement:
    """The class of scratch disks makes volumes, and the claim of results takes many pods."""
    if (spec := wanted.spec) is None:
        return None
    cluster, seen, holds = wanted.cluster, [], True
    if (name := spec.resources.scratch.storage_class) is not None:
        maker = str((cluster.get(path_of("StorageClass", name=name)) or {}).get("provisioner", ""))
        seen.append(f"{name}: {maker or 'not found'}")
        holds = maker not in {"", "kubernetes.io/no-provisioner"}
    if spec.store is not None and (volume := spec.store.volume) is not None:
        claim = cluster.get(path_of("PersistentVolumeClaim", cluster.namespace, volume)) or {}
        phase = str((claim.get("status") or {}).get("phase") or "not found")
        modes = (claim.get("spec") or {}).get("accessModes") or ()
        seen.append(", ".join([f"{volume}: {phase}", *modes]))
        holds = holds and phase == "Bound" and MANY in modes
    remedy = f"name a storage class that provisions volumes, and a claim that is {MANY} and Bound"
    return ("; ".join(seen), holds, remedy) if seen else None


def _queue(wanted: Wanted) -> Judgement:
    """Kueue is served, and the queue is active: it says so of a queue whose ClusterQueue is."""
    if wanted.spec is None or (name := wanted.spec.queue) is None:
        return None
    api = kueue_api(wanted.cluster)
    within = f"/namespaces/{quote(wanted.cluster.namespace, safe='')}/localqueues/{name}"
    local = wanted.cluster.get(f"{api}{within}") if api else None
    if local is None:
        seen = f"no LocalQueue {name}" if api else "the cluster has no Kueue"
        return seen, False, "have Kueue and the queue set up (oc get localqueue), or leave `queue` out"
    active = bool(condition(local.get("status") or {}, "Active"))
    whole = (local.get("spec") or {}).get("clusterQueue", "")
    seen = f"{name} -> {whole}: {'active' if active else 'not active, or stopped'}"
    return seen, active, "see oc describe localqueue, clusterqueue"


def _pod(wanted: Wanted) -> Judgement:
    """The namespace takes a pod of the spec: account, priority, limits, quota, security."""
    if (spec := wanted.spec) is None:
        return None
    namespace = wanted.cluster.namespace
    job = Job(
        spec=spec, name="validate", run="validate", image=wanted.image or "none", namespace=namespace,
        pods=1, deadline_s=1,
    )  # fmt: skip
    try:
        warning = check_pod(wanted.cluster, render(job)[-1])
    except RefusedError as error:
        return error.said, False, "change the spec, or have the namespace changed"
    return warning or f"{namespace} accepts one", not warning, "have the quota raised, or request less"


CHECKS: Mapping[str, Callable[[Wanted], Judgement]] = {
    "API server": _api_server,
    "rights": _rights,
    "nodes with cards": _card_nodes,
    "Spyre operator": _operator,
    "cards": _cards,
    "nodes for the job": _nodes_for_the_job,
    "storage": _storage,
    "queue": _queue,
    "pod": _pod,
}


def exit_code(found: Sequence[Finding]) -> int:
    """3 if something could not be asked, 1 if a check failed, else 0."""
    states = {one.state for one in found}
    return EXIT_INCOMPLETE if UNASKED in states else EXIT_TEST_FAILED if FAILED in states else EXIT_OK


def counts(found: Sequence[Finding]) -> str:
    """How many checks came to what, in words."""
    number = Counter(one.state for one in found)
    parts = [f"{number[state]} {state}" for state in (PASSED, FAILED, UNASKED) if number[state]]
    return f"{len(found)} checks: {', '.join(parts)}"


def table(found: Sequence[Finding]) -> Table:
    """The findings for a screen, harmless to it and to a CI."""
    shown = Table("check", "", "seen", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    for one in found:
        style = {PASSED: "green", FAILED: "red"}.get(one.state, "yellow")
        seen = Text(defused(one_line(one.seen)))
        if one.remedy:
            seen.append(f"\nremedy: {defused(one_line(one.remedy))}", style="dim")
        shown.add_row(Text(one.check), Text(one.state, style=style), seen)
    return shown


def write_report(
    out: Path, about: Mapping[str, str], found: Sequence[Finding], nodes: Sequence[Node]
) -> None:
    """Write the report to sign, as Markdown; `about` are the rows of its head."""
    environment = harmless_environment("ci.jobs")
    # What HTML has a meaning for is escaped by the template itself.
    environment.filters["cell"] = lambda text: _MARKS.sub(r"\\\g<0>", one_line(str(text)))
    template = environment.get_template("validation.md.j2")
    write_text(out, template.render(about=about, found=found, counts=counts(found), nodes=nodes))
