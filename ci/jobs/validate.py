"""Check whether a cluster is fit for a stage of jobs: each check judges the answers to its questions.

Names are those of the public repositories ibm-aiu/spyre-operator and ibm-aiu/spyre-device-plugin. What is
tried on the cluster is in `ci.jobs.trial`.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from kubernetes.utils import parse_quantity as _parse_quantity
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
from ci.jobs.render import UPLOADER, asks_for_disk
from ci.jobs.spec import EXAMPLE_SPYRE, Spec, Toleration
from ci.jobs.status import condition
from test_selection.files import write_text

Object = Mapping[str, Any]
WORDS: Mapping[str, str] = {PASSED: "ok", FAILED: "FAIL", UNASKED: "NOT ASKED"}
# Manifests are checked against the schemas of these.
OLDEST, NEWEST = 28, 37
SPYRE, OLD = "ibm.com/spyre_", "ibm.com/aiu_"
PSEUDO, BY_TIER = "pseudoDevice", "topologyAwareAllocation"
POLICY = "spyreclusterpolicies.spyre.ibm.com"
_SPYRE_API = "/apis/spyre.ibm.com/v1alpha1"
PLUGIN, CHECKER = "spyre-device-plugin", "spyre-health-checker"
# OpenShift's secondary scheduler operator calls its deployment so, whatever the scheduler is called.
SCHEDULER, SCHEDULERS = "spyre-scheduler", ("secondary-scheduler", "spyre-scheduler")
CONTROL_PLANE = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What is wanted of a cluster.

    Attributes:
        stage: number of the row of the roll-out.
        cards: of that row.
        namespace: of the jobs.
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
        """The cluster's name of a card, without its tier."""
        return self.spec.resources.resource if self.spec else EXAMPLE_SPYRE

    @property
    def pods(self) -> int:
        """Pods of a job: of tests as many as take all cards of the stage, of other kinds one."""
        if self.spec is None or self.spec.kind != "tests" or not self.spec.resources.cards:
            return 1
        wanted = math.ceil(self.cards / self.spec.resources.cards)
        return min(wanted, (self.spec.tests and self.spec.tests.pods) or wanted)

    @property
    def rights(self) -> list[Right]:
        """The rights that a job needs; those of secrets only if a submit makes one."""
        spec = self.spec
        makes = spec is not None and spec.kind == "notebook" and not (spec.notebook and spec.notebook.token)
        return [one for one in RIGHTS if makes or one.resource != "secrets"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A node with cards.

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


def card_nodes(nodes: Sequence[Object], wanted: Wanted) -> list[Node]:
    """The nodes that have cards, in the order of their names."""
    found = []
    for one in sorted(nodes, key=_name):
        status = one.get("status") or {}
        # A card may be in several pools, by tier; each of them counts it.
        pools = [
            [_number(status.get(key), f"{wanted.resource}{tier}") for key in ("capacity", "allocatable")]
            for tier in ("", "_tier0", "_tier1", "_tier2")
        ]
        capacity, healthy = max(pools, key=lambda pool: pool[0])
        if capacity:
            usable = bool(_is(one, "Ready")) and not (one.get("spec") or {}).get("unschedulable")
            found.append(Node(name=_name(one), capacity=capacity, healthy=healthy, usable=usable))
    return found


def _number(amounts: Object | None, name: str) -> int:
    return int(parse_quantity((amounts or {}).get(name, 0)))


def parse_quantity(text: object) -> Decimal:
    """The number a quantity is, such as `500m` or `16Gi`."""
    return Decimal(_parse_quantity(text))  # type: ignore[no-untyped-call]  # the client's


def _name(one: Object) -> str:
    return str((one.get("metadata") or {}).get("name", ""))


def _allocatable(one: Object) -> Mapping[str, Any]:
    return (one.get("status") or {}).get("allocatable") or {}


def _labels(one: Object) -> Mapping[str, str]:
    return (one.get("metadata") or {}).get("labels") or {}


def _is(one: Object | None, kind: str) -> bool:
    return bool(condition((one or {}).get("status") or {}, kind))


def _amount(number: Decimal) -> str:
    return f"{number.normalize():f}"


def questions(cluster: Cluster, wanted: Wanted) -> dict[str, Callable[[], Any]]:
    """What a cluster is asked, by the name of the answer."""
    spec, namespace = wanted.spec, wanted.namespace
    scratch = spec.resources.scratch.storage_class if spec else None
    volume = spec.store.volume if spec and spec.store else None

    def items(path: str) -> Callable[[], Any]:
        return lambda: cluster.items(path)[0]

    def one(kind: str, name: str | None, within: str = "") -> Callable[[], Any]:
        return lambda: cluster.get(path_of(kind, within, name)) if name else None

    def named(path: str, names: Sequence[str]) -> Callable[[], Any]:
        """The objects of a kind with one of these names, in whatever namespace."""
        return lambda: [
            row for name in names for row in cluster.items(path, fields=f"metadata.name={name}")[0]
        ]

    return {
        "version": cluster.version,
        "nodes": items(path_of("Node")),
        "operators": items(path_of("ClusterOperator")),
        "openshift": items(path_of("ClusterVersion")),
        "definition": one("CustomResourceDefinition", POLICY),
        "policies": items(f"{_SPYRE_API}/spyreclusterpolicies"),
        "node states": items(f"{_SPYRE_API}/spyrenodestates"),
        "plugins": named(path_of("DaemonSet"), (PLUGIN, CHECKER)),
        "schedulers": named(path_of("Deployment"), SCHEDULERS),
        "quotas": items(path_of("ResourceQuota", namespace)),
        "storage class": one("StorageClass", scratch),
        "claim": one("PersistentVolumeClaim", volume, namespace),
        "queue": lambda: _queues(cluster, wanted),
        "lacking": lambda: [str(right) for right in wanted.rights if not right.is_had(cluster)],
    }


def _queues(cluster: Cluster, wanted: Wanted) -> tuple[str | None, Object | None, Object | None]:
    """Kueue's API, the LocalQueue of the job and its ClusterQueue."""
    name = wanted.spec.queue if wanted.spec else None
    api = kueue_api(cluster) if name else None
    if api is None:
        return None, None, None
    local = cluster.get(f"{api}/namespaces/{quote(wanted.namespace, safe='')}/localqueues/{name}")
    whole = ((local or {}).get("spec") or {}).get("clusterQueue")
    return api, local, cluster.get(f"{api}/clusterqueues/{quote(whole, safe='')}") if whole else None


def minor_of(version: Object) -> int | None:
    """The number behind `1.` of a cluster's version; None: it says none."""
    found = re.match(r"v?1\.(\d+)", str(version.get("gitVersion", "")))
    return None if found is None else int(found[1])


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """A cluster's answers by name, and why others could not be had."""

    found: Mapping[str, Any]
    refused: Mapping[str, str]

    def __getitem__(self, name: str) -> Any:
        return self.found.get(name)


def ask(cluster: Cluster, wanted: Wanted) -> Answers:
    """Ask a cluster everything; lists of kinds that it does not serve are empty.

    Raises:
        ClusterAwayError: it does not answer.
        ForbiddenError: it does not know who asks (not even its version can be had).
    """
    found: dict[str, Any] = {"version": cluster.version()}
    refused: dict[str, str] = {}
    for name, question in questions(cluster, wanted).items():
        try:
            found[name] = question()
        except MissingError:
            found[name] = []
        except (ForbiddenError, RefusedError) as error:
            refused[name] = error.said or error.what
    return Answers(found=found, refused=refused)


# What was seen, whether that is as it must be, and what mends it; None: the check has no meaning here.
Judgement = tuple[str, bool, str] | None


class Check(NamedTuple):
    """A check: its name, the answers it needs, how they are judged; some are of Spyre cards alone."""

    name: str
    needs: tuple[str, ...]
    judge: Callable[[Wanted, Any], Judgement]
    spyre: bool


CHECKS: list[Check] = []


def _check(name: str, *needs: str, spyre: bool = False) -> Callable[[Callable[..., Judgement]], Any]:
    def register(judge: Callable[..., Judgement]) -> Callable[..., Judgement]:
        CHECKS.append(Check(name, needs, judge, spyre))
        return judge

    return register


def check_all(answers: Answers, wanted: Wanted) -> list[Finding]:
    """The findings of every check; one whose answers were refused is told as not asked."""
    found: list[Finding] = []
    for check in CHECKS:
        if check.spyre and not wanted.resource.startswith((SPYRE, OLD)):
            continue
        refused = [answers.refused[name] for name in check.needs if name in answers.refused]
        if refused:
            found.append(unasked(check.name, refused[0], "have somebody ask who may read it"))
        elif (judgement := check.judge(wanted, *(answers[name] for name in check.needs))) is not None:
            seen, holds, remedy = judgement
            found.append(judged(check.name, seen, holds=holds, remedy=remedy))
    return found


def unasked(check: str, why: str, remedy: str) -> Finding:
    """A check whose answer could not be had."""
    return Finding(check=check, seen=why, remedy=remedy, asked=False)


@_check("API server", "version")
def _api_server(_: Wanted, version: Object) -> Judgement:
    said, minor = str(version.get("gitVersion", "")) or "says no version", minor_of(version)
    if minor is not None and minor > NEWEST:
        said += f", newer than 1.{NEWEST}, the newest that manifests were checked for"
    remedy = f"use a cluster of Kubernetes 1.{OLDEST} to 1.{NEWEST}, which manifests are checked for"
    return said, minor is not None and minor >= OLDEST, remedy


@_check("control plane", "nodes", "operators")
def _control_plane(_: Wanted, nodes: Sequence[Object], operators: Sequence[Object]) -> Judgement:
    """Its nodes are Ready, if they can be seen; OpenShift's operators are Available and not Degraded."""
    ours = [one for one in nodes if any(label in _labels(one) for label in CONTROL_PLANE)]
    bad = [_name(one) for one in ours if not _is(one, "Ready")]
    bad += [_name(one) for one in operators if not _is(one, "Available") or _is(one, "Degraded")]
    seen = f"{len(ours)} nodes and {len(operators)} operators" + (f"; not well: {listed(bad)}" if bad else "")
    return seen, not bad, "oc describe node, oc get clusteroperators, and mend what is away or degraded"


@_check("nodes with cards", "nodes")
def _card_nodes_well(wanted: Wanted, nodes: Sequence[Object]) -> Judgement:
    """They are Ready, take pods, and lack neither memory, disk, processes nor network."""
    cards = {one.name for one in card_nodes(nodes, wanted)}
    bad = {_name(one): _troubles(one) for one in nodes if _name(one) in cards and _troubles(one)}
    told = listed([f"{name} ({', '.join(words)})" for name, words in sorted(bad.items())])
    remedy = "oc describe node: see its kubelet, free memory or disk, or uncordon it"
    if not cards:
        remedy = f"no node has {wanted.resource}: install the Spyre operator, or check the resource's name"
    seen = f"{len(cards) - len(bad)} of {len(cards)} well" + (f"; not: {told}" if bad else "")
    return seen, bool(cards) and not bad, remedy


def _troubles(node: Object) -> list[str]:
    found = [kind for kind in PRESSURES if _is(node, kind)]
    found += [] if _is(node, "Ready") else ["not Ready"]
    return found + (["cordoned"] if (node.get("spec") or {}).get("unschedulable") else [])


@_check("Spyre operator", "definition", "policies", spyre=True)
def _operator(_: Wanted, definition: Object | None, policies: Sequence[Object]) -> Judgement:
    if not definition:
        remedy = "install the IBM Spyre operator and make a SpyreClusterPolicy"
        return f"not installed: no {POLICY}", False, remedy
    states = {_name(one): one.get("status") or {} for one in policies}
    told = "; ".join(
        f"{name}: {status.get('state') or 'no state yet'} {status.get('message') or ''}".strip()
        for name, status in sorted(states.items())
    )
    if PSEUDO in _modes(policies):
        remedy = f"take {PSEUDO} out of the policy's experimentalMode: nothing is tested on fake cards"
        return f"{told}; pseudo devices stand in for cards", False, remedy
    ready = [status.get("state") == "ready" for status in states.values()]
    remedy = "have exactly one SpyreClusterPolicy, and see why it is not ready: oc describe spyrepol"
    return told or "no SpyreClusterPolicy", ready == [True], remedy


def _modes(policies: Sequence[Object]) -> set[str]:
    return {mode for one in policies for mode in (one.get("spec") or {}).get("experimentalMode") or ()}


@_check("device plugin", "plugins", spyre=True)
def _device_plugin(_: Wanted, plugins: Sequence[Object]) -> Judgement:
    """It runs on every node that is to have it, and so does the health checker, which may be left out."""
    found = {_name(one): one.get("status") or {} for one in plugins}
    numbers = {
        name: (status.get("numberReady", 0), status.get("desiredNumberScheduled", 0))
        for name, status in found.items()
    }
    told = [f"{name} ready on {ready} of {wanted} nodes" for name, (ready, wanted) in sorted(numbers.items())]
    holds = PLUGIN in found and all(0 < wanted == ready for ready, wanted in numbers.values())
    remedy = f"see the pods of the daemon sets: oc get pods -A -l app={PLUGIN}"
    return "; ".join(told) or f"no daemon set {PLUGIN}", holds, remedy


@_check("cards", "nodes", "node states")
def _cards(wanted: Wanted, nodes: Sequence[Object], states: Sequence[Object]) -> Judgement:
    """As many as the stage has are healthy, on nodes that take pods."""
    found = card_nodes(nodes, wanted)
    usable = [one for one in found if one.usable]
    healthy = sum(one.healthy for one in usable)
    sick = [f"{one.name}: {one.capacity - one.healthy}" for one in found if one.capacity > one.healthy]
    sick += [
        f"{(one.get('spec') or {}).get('nodeName') or _name(one)}: {row.get('id')} {row.get('state')}"
        for one in states
        for row in (one.get("status") or {}).get("unhealthyDevices") or ()
    ]
    old = [name for one in nodes for name in _allocatable(one) if name.startswith(OLD)]
    seen = f"{healthy:,} on {len(usable)} usable nodes; stage {wanted.stage} has {wanted.cards:,}"
    seen += (f"; sick: {listed(sick)}" if sick else "") + (f"; old names: {old[0]}" if old else "")
    remedy = "look at the sick cards (lspci, RAS lines), or choose a stage of fewer cards (--stage)"
    if old:
        remedy = f"upgrade the device plugin: it calls them {SPYRE}pf and {SPYRE}vf now"
    return seen, healthy >= wanted.cards and not sick and not old, remedy


@_check("tiers", "nodes", "policies", "schedulers")
def _tiers(
    wanted: Wanted, nodes: Sequence[Object], policies: Sequence[Object], schedulers: Sequence[Object]
) -> Judgement:
    """Nodes give out the tier, the operator deals by it, and its scheduler is ready."""
    if wanted.spec is None or wanted.spec.resources.tier is None:
        return None
    name, on = wanted.spec.resources.card_resource, BY_TIER in _modes(policies)
    having = [one for one in nodes if parse_quantity(_allocatable(one).get(name, 0))]
    ready = any((one.get("status") or {}).get("availableReplicas") for one in schedulers)
    seen = f"{len(having)} nodes have {name}; {BY_TIER} is {'on' if on else 'off'}; "
    seen += f"{SCHEDULER} is {'ready' if ready else 'not ready'}"
    remedy = f"put {BY_TIER} into the policy's experimentalMode, install the secondary scheduler operator,"
    return seen, bool(having) and on and ready, f"{remedy} or leave resources.tier out"


@_check("nodes for the job", "nodes")
def _places(wanted: Wanted, nodes: Sequence[Object]) -> Judgement:
    """Some nodes fit the spec, and not all of them have a taint that it does not tolerate."""
    if (spec := wanted.spec) is None:
        return None
    needs = spec.resources.card_resource if spec.resources.cards else "pods"
    chosen = [
        one
        for one in nodes
        if parse_quantity(_allocatable(one).get(needs, 0)) > 0
        and spec.node_selector.items() <= _labels(one).items()
    ]
    tainted = {_name(one): _taints(one, spec.tolerations) for one in chosen}
    shut = sorted(f"{name} ({', '.join(keys)})" for name, keys in tainted.items() if keys)
    seen = f"{len(chosen) - len(shut)} of {len(chosen)} that fit"
    remedy = "check `node_selector` and the cards' name, or tolerate the taint with `tolerations`"
    return seen + (f"; tainted: {listed(shut, 4)}" if shut else ""), len(chosen) > len(shut), remedy


def _taints(node: Object, tolerations: Sequence[Toleration]) -> list[str]:
    """The taints of a node that keep a job's pods out."""
    return [
        str(taint.get("key", ""))
        for taint in (node.get("spec") or {}).get("taints") or ()
        if taint.get("effect") in {"NoSchedule", "NoExecute"}
        and not any(
            one.key in {None, taint.get("key")}
            and one.effect in {None, taint.get("effect")}
            and (one.operator == "Exists" or one.value == taint.get("value", ""))
            for one in tolerations
        )
    ]


@_check("storage", "storage class", "claim")
def _storage(wanted: Wanted, there: Object | None, claim: Object | None) -> Judgement:
    """The class of scratch disks makes volumes, and the claim of results takes many pods."""
    if (spec := wanted.spec) is None:
        return None
    seen, holds = [], True
    if (name := spec.resources.scratch.storage_class) is not None:
        maker = str((there or {}).get("provisioner", ""))
        seen.append(f"{name}: {maker or 'not there'}")
        holds = maker not in {"", "kubernetes.io/no-provisioner"}
    if spec.store is not None and spec.store.volume is not None:
        phase = str(((claim or {}).get("status") or {}).get("phase") or "not there")
        modes = ((claim or {}).get("spec") or {}).get("accessModes") or ()
        seen.append(", ".join([f"{spec.store.volume}: {phase}", *modes]))
        holds = holds and phase == "Bound" and MANY in modes
    remedy = f"name a storage class that makes volumes, and a claim that is {MANY} and Bound"
    return ("; ".join(seen), holds, remedy) if seen else None


def of_a_pod(spec: Spec) -> dict[str, Decimal]:
    """What one pod asks for, by resource."""
    found = {name: parse_quantity(getattr(spec.resources, name)) for name in ("cpu", "memory")}
    if spec.kind == "tests" and spec.store is not None and spec.store.bucket is not None:
        found = {name: number + parse_quantity(UPLOADER["requests"][name]) for name, number in found.items()}
    if spec.resources.cards:
        found[spec.resources.card_resource] = Decimal(spec.resources.cards)
    if asks_for_disk(spec):
        found["ephemeral-storage"] = parse_quantity(spec.resources.scratch.size)
    return found


def of_a_job(wanted: Wanted) -> Mapping[str, Decimal]:
    """What a job on all cards of the stage asks for, by the names that a ResourceQuota has.

    https://kubernetes.io/docs/concepts/policy/resource-quotas/
    """
    if wanted.spec is None:
        return {}
    pods = Decimal(wanted.pods)
    found = {"pods": pods, "count/pods": pods, "count/jobs.batch": Decimal(1)}
    for name, number in of_a_pod(wanted.spec).items():
        found[f"requests.{name}"] = number * pods
        if "/" not in name:
            found[name] = found[f"limits.{name}"] = number * pods
    if wanted.spec.resources.scratch.storage_class is not None:
        found["persistentvolumeclaims"] = pods
        found["requests.storage"] = parse_quantity(wanted.spec.resources.scratch.size) * pods
    return found


@_check("quota", "quotas")
def _quota(wanted: Wanted, quotas: Sequence[Object]) -> Judgement:
    """Every ResourceQuota has room for a job on all cards of the stage."""
    needs, short = of_a_job(wanted), []
    for one in quotas:
        status = one.get("status") or {}
        for name, most in (status.get("hard") or (one.get("spec") or {}).get("hard") or {}).items():
            left = parse_quantity(most) - parse_quantity((status.get("used") or {}).get(name, 0))
            if name in needs and needs[name] > left:
                short.append(f"{_name(one)}: {name} wants {_amount(needs[name])}, {_amount(left)} left")
    seen = listed(short, 4) if short else f"{len(quotas)} quotas, room for {wanted.pods:,} pods"
    return seen, not short, "have the quota raised, or use fewer pods (tests.pods) or resources"


@_check("queue", "queue")
def _queue(wanted: Wanted, answer: tuple[str | None, Object | None, Object | None]) -> Judgement:
    """It and its ClusterQueue are active, and let in all that the job's pods ask for."""
    if wanted.spec is None or (name := wanted.spec.queue) is None:
        return None
    api, local, whole = answer
    if api is None or local is None:
        seen = f"no LocalQueue {name}" if api else "Kueue is not served by this cluster"
        return seen, False, "have Kueue and the queue set up (oc get localqueue), or leave `queue` out"
    spec = (whole or {}).get("spec") or {}
    active = _is(local, "Active") and _is(whole, "Active") and spec.get("stopPolicy", "None") == "None"
    short = list(_not_let_in(spec, wanted))
    seen = f"{name} -> {(local.get('spec') or {}).get('clusterQueue', '')}: "
    seen += "; ".join(["active" if active else "not active, or stopped", *short[:4]])
    return (
        seen,
        active and not short,
        "see oc describe clusterqueue: one flavor must let in all of a job's pods",
    )


def _not_let_in(spec: Object, wanted: Wanted) -> Iterator[str]:
    """What a job asks for and no flavor of a ClusterQueue lets in: Kueue takes one for all its pods."""
    borrows = bool(spec.get("cohortName") or spec.get("cohort"))
    room: dict[str, Decimal] = {}
    for group in spec.get("resourceGroups") or ():
        for row in (row for flavor in group.get("flavors") or () for row in flavor.get("resources") or ()):
            own, limit = parse_quantity(row.get("nominalQuota", 0)), row.get("borrowingLimit")
            if borrows:
                own = Decimal("Infinity") if limit is None else own + parse_quantity(limit)
            room[row["name"]] = max(own, room.get(row["name"], Decimal(0)))
    needs = of_a_pod(wanted.spec) if wanted.spec else {}
    for name, number in {**needs, "pods": Decimal(1)}.items():
        if name in room and number * wanted.pods > room[name]:
            yield f"{_amount(number * wanted.pods)} of {name} wanted, {_amount(room[name])} let in"
    if missing := [name for name in needs if name not in room]:
        yield f"does not cover {', '.join(missing)}"


@_check("rights", "lacking")
def _rights(wanted: Wanted, lacking: Sequence[str]) -> Judgement:
    seen = f"may not {listed(lacking)}" if lacking else f"all {len(wanted.rights)} that jobs need"
    role = f"oc adm policy add-role-to-user edit USER -n {wanted.namespace}"
    return seen, not lacking, f"have the Role of docs/jobs-cluster.md bound to you, or: {role}"


def exit_code(found: Sequence[Finding]) -> int:
    """3 if something could not be asked, 1 if a check failed, else 0."""
    states = {one.state for one in found}
    return EXIT_INCOMPLETE if UNASKED in states else EXIT_TEST_FAILED if FAILED in states else EXIT_OK


def rows(found: Sequence[Finding]) -> list[dict[str, str]]:
    """The findings for machines."""
    return [{"check": one.check, "state": one.state, "seen": one.seen, "remedy": one.remedy} for one in found]


def digest(found: Sequence[Finding]) -> str:
    """SHA-256 of the findings' JSON, which a signature stands for."""
    return hashlib.sha256(json.dumps(rows(found), sort_keys=True, indent=1).encode()).hexdigest()


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
        shown.add_row(Text(one.check), Text(WORDS[one.state], style=style), seen)
    return shown


def write_report(
    out: Path, about: Mapping[str, str], found: Sequence[Finding], nodes: Sequence[Node]
) -> None:
    """Write the report to sign, as Markdown; `about` are the rows of its head."""
    environment = harmless_environment("ci.jobs")
    # What HTML has a meaning for is escaped by the template itself.
    environment.filters["cell"] = lambda text: _MARKS.sub(r"\\\g<0>", one_line(str(text)))
    content = environment.get_template("validation.md.j2").render(
        about=about, found=found, words=WORDS, counts=counts(found), nodes=nodes, digest=digest(found)
    )
    write_text(out, content)
