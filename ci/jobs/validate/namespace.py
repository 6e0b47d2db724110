"""Check what a job finds in its namespace: room, Kueue's queue, storage, account and rights. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

from ci.core.findings import Finding, judged
from ci.core.text import listed
from ci.jobs.parts import Toleration
from ci.jobs.render import asks_for_disk
from ci.jobs.spec import Spec
from ci.jobs.validate.facts import Asked, Facts, Object, is_true, labels_of, name_of, quantity, written
from ci.jobs.validate.rights import lacking, wanted

# A class of it makes no volumes by itself.
NO_PROVISIONER = "kubernetes.io/no-provisioner"
MANY = "ReadWriteMany"
Row = Mapping[str, Any]


def of_a_pod(spec: Spec) -> dict[str, Decimal]:
    """What one pod asks for, by resource; requests are limits, less that of the node's disk.

    A quota on limits of the node's disk is kept to by who has none: no more than cpu and memory must be said
    where a quota counts them (validationSet of pkg/quota/v1/evaluator/core/pods.go).
    """
    resources = spec.resources
    found = {"cpu": quantity(resources.cpu), "memory": quantity(resources.memory)}
    if resources.cards:
        found[resources.card_resource] = Decimal(resources.cards)
    if asks_for_disk(spec):
        found["ephemeral-storage"] = quantity(resources.scratch.size)
    return found


def of_a_job(asked: Asked) -> Mapping[str, Decimal]:
    """What a job on all cards of the stage asks for, by the names that a ResourceQuota has.

    https://kubernetes.io/docs/concepts/policy/resource-quotas/
    """
    if asked.spec is None:
        return {}
    pods, scratch = asked.pods, asked.spec.resources.scratch
    found = {"pods": Decimal(pods), "count/pods": Decimal(pods), "count/jobs.batch": Decimal(1)}
    for name, number in of_a_pod(asked.spec).items():
        found[f"requests.{name}"] = number * pods
        if name in {"cpu", "memory", "ephemeral-storage"}:
            found[name] = number * pods
        if name in {"cpu", "memory"}:
            found[f"limits.{name}"] = number * pods
    if (claimed := scratch.storage_class) is not None:
        size = quantity(scratch.size) * pods
        of_class = f"{claimed}.storageclass.storage.k8s.io"
        found |= {"requests.storage": size, f"{of_class}/requests.storage": size}
        claims = Decimal(pods)
        found |= {"persistentvolumeclaims": claims, f"{of_class}/persistentvolumeclaims": claims}
    return found


def storage(facts: Facts, asked: Asked) -> Iterator[Finding]:
    """The storage class of scratch disks is there and makes volumes; the claim of results takes many pods."""
    if asked.spec is None:
        return
    wanted = asked.spec.resources.scratch.storage_class
    if wanted is not None:
        maker = str((facts.storage_class or {}).get("provisioner", ""))
        yield judged(
            "storage class",
            f"{wanted}: {maker or 'not there'}",
            holds=maker not in {"", NO_PROVISIONER},
            remedy="name a class that makes volumes (oc get storageclass), or leave storage_class out",
        )
    store = asked.spec.store
    if store is not None and store.volume is not None:
        claim = facts.claim or {}
        phase = str((claim.get("status") or {}).get("phase") or "not there")
        modes = (claim.get("spec") or {}).get("accessModes") or ()
        yield judged(
            "volume",
            f"{store.volume}: {phase}" + (f", {', '.join(modes)}" if modes else ""),
            holds=phase == "Bound" and MANY in modes,
            remedy=f"make a PersistentVolumeClaim that is {MANY} and Bound, for all pods write it",
        )


def quota(facts: Facts, asked: Asked) -> Iterator[Finding]:
    """No ResourceQuota of the namespace is too small for a job on all cards of the stage."""
    wants = of_a_job(asked)
    short = []
    for one in facts.quotas:
        status = one.get("status") or {}
        hard = status.get("hard") or (one.get("spec") or {}).get("hard") or {}
        used = status.get("used") or {}
        for name, most in hard.items():
            left = quantity(most) - quantity(used.get(name, 0))
            if name in wants and wants[name] > left:
                short.append(f"{name_of(one)}: {name} wants {written(wants[name])}, {written(left)} left")
    yield judged(
        "quota",
        listed(short, 4) if short else f"{len(facts.quotas)} quotas, room for {asked.pods:,} pods",
        holds=not short,
        remedy="have the quota raised, or use fewer pods (tests.pods) or resources",
    )


def limit_range(facts: Facts, asked: Asked) -> Iterator[Finding]:
    """A pod asks for no more and no less than the namespace's LimitRanges allow."""
    if asked.spec is None:
        return
    wants = of_a_pod(asked.spec)
    bad = [
        f"{name_of(one)}: {name} is {written(wants[name])}, {word} {row[key][name]}"
        for one in facts.limits
        for row in (one.get("spec") or {}).get("limits") or ()
        if row.get("type") in {"Container", "Pod"}
        for key, word, sign in (("max", "at most", 1), ("min", "at least", -1))
        for name in row.get(key) or {}
        if name in wants and sign * (wants[name] - quantity(row[key][name])) > 0
    ]
    yield judged(
        "limits",
        listed(bad, 4) if bad else f"{len(facts.limits)} limit ranges, which a pod keeps to",
        holds=not bad,
        remedy="change the spec's resources, or have the LimitRange changed",
    )


def priority(facts: Facts, asked: Asked) -> Iterator[Finding]:
    """The priority class is there."""
    if asked.spec is None or asked.spec.priority is None:
        return
    value = (facts.priority or {}).get("value")
    yield judged(
        "priority class",
        f"{asked.spec.priority}: " + ("not there" if facts.priority is None else f"{value}"),
        holds=facts.priority is not None,
        remedy="name one of oc get priorityclass, or leave `priority` out",
    )


def account(facts: Facts, asked: Asked) -> Iterator[Finding]:
    """The service account pods run as is there."""
    name = (asked.spec.service_account if asked.spec else None) or "default"
    there = facts.account or {}
    secrets = [str(row.get("name", "")) for row in there.get("imagePullSecrets") or ()]
    own = asked.spec.image.pull_secrets if asked.spec else []
    seen = f"{name}: " + ("there" if facts.account is not None else "not there")
    pulls = [*secrets, *own]
    yield judged(
        "service account",
        seen + (f"; pulls by {listed(pulls)}" if pulls else "; no pull secrets"),
        holds=facts.account is not None,
        remedy=f"make it in {asked.namespace}, or name another with `service_account`",
    )


def rights(facts: Facts, asked: Asked) -> Iterator[Finding]:
    """We may do all that submit, watch, logs and cancel do."""
    bad = lacking(facts.rights, asked.spec)
    yield judged(
        "rights",
        f"may not {listed(bad)}" if bad else f"all {len(wanted(asked.spec))} that jobs need",
        holds=not bad,
        remedy="have the role of docs/jobs-cluster.md bound to you, or: "
        f"oc adm policy add-role-to-user edit USER -n {asked.namespace}",
    )


def places(facts: Facts, asked: Asked) -> Iterator[Finding]:
    """Where a job chooses nodes: some are chosen, and none of their taints keeps its pods out."""
    if asked.spec is None:
        return
    chosen = [one for one in facts.nodes if _is_chosen(one, asked.spec)]
    open_to = [name_of(one) for one in chosen if not _keeps_out(one, asked.spec)]
    shut = sorted(
        f"{name_of(one)} ({', '.join(_keeps_out(one, asked.spec))})"
        for one in chosen
        if _keeps_out(one, asked.spec)
    )
    yield judged(
        "nodes for the job",
        f"{len(open_to)} of {len(chosen)} that fit" + (f"; tainted: {listed(shut, 4)}" if shut else ""),
        holds=bool(open_to),
        remedy="check `node_selector` and the cards' name, or tolerate the taint with `tolerations`",
    )


def _is_chosen(node: Object, spec: Spec) -> bool:
    labels = labels_of(node)
    cards = spec.resources.card_resource if spec.resources.cards else "pods"
    has = quantity(((node.get("status") or {}).get("allocatable") or {}).get(cards, 0)) > 0
    return has and all(labels.get(key) == value for key, value in spec.node_selector.items())


def _keeps_out(node: Object, spec: Spec) -> list[str]:
    taints = (node.get("spec") or {}).get("taints") or ()
    return [
        str(one.get("key", ""))
        for one in taints
        if one.get("effect") in {"NoSchedule", "NoExecute"}
        and not any(_tolerates(toleration, one) for toleration in spec.tolerations)
    ]


def _tolerates(one: Toleration, taint: Mapping[str, Any]) -> bool:
    return (
        one.key in {None, taint.get("key")}
        and one.effect in {None, taint.get("effect")}
        and (one.operator == "Exists" or one.value == taint.get("value", ""))
    )


def queue(facts: Facts, asked: Asked) -> Iterator[Finding]:
    """Where a job has a queue: it and its ClusterQueue are active, and let in all that its pods ask for."""
    if asked.spec is None or asked.spec.queue is None:
        return
    name, local, whole = asked.spec.queue, facts.local_queue, facts.cluster_queue or {}
    if facts.kueue is None:
        yield judged(
            "queue", "Kueue is not served by this cluster", holds=False,
            remedy="have Kueue installed, or leave `queue` out: the job is then started at once",
        )  # fmt: skip
        return
    if local is None:
        yield judged(
            "queue", f"no LocalQueue {name}", holds=False,
            remedy=f"make one in {asked.namespace} (oc get localqueue), or leave `queue` out",
        )  # fmt: skip
        return
    active = is_true(local, "Active") and is_true(whole, "Active")
    held = str((whole.get("spec") or {}).get("stopPolicy") or "None")
    wants = {key: number * asked.pods for key, number in of_a_pod(asked.spec).items()}
    short = list(_short(whole, wants, asked.pods))
    seen = f"{name} -> {(local.get('spec') or {}).get('clusterQueue', '')}: "
    seen += "active" if active else "not active"
    seen += f", stopped ({held})" if held != "None" else ""
    seen += (
        f"; {listed(short, 4)}" if short else f"; lets in {listed([_number(*one) for one in wants.items()])}"
    )
    yield judged(
        "queue",
        seen,
        holds=active and held == "None" and not short,
        remedy="see oc describe clusterqueue: one flavor must let in "
        + listed([_number(*one) for one in wants.items()]),
    )


def _short(whole: Object, wants: Mapping[str, Decimal], pods: int) -> Iterator[str]:
    """What a job asks for and a ClusterQueue does not let in.

    Kueue takes one flavor of a group for all of a job's pods: it is not the sum over flavors that counts.
    """
    spec = whole.get("spec") or {}
    cohort = spec.get("cohortName") or spec.get("cohort")
    covered: set[str] = set()
    for group in spec.get("resourceGroups") or ():
        flavors = [
            {str(row.get("name")): _room(row, borrows=bool(cohort)) for row in flavor.get("resources") or ()}
            for flavor in group.get("flavors") or ()
        ]
        # Pods are counted where the queue covers them, asked for or not.
        here = {
            name: number
            for name, number in {**wants, "pods": Decimal(pods)}.items()
            if any(name in one for one in flavors)
        }
        covered |= here.keys()
        if not here or any(
            all(number <= one.get(name, 0) for name, number in here.items()) for one in flavors
        ):
            continue
        most = {name: max(one.get(name, Decimal(0)) for one in flavors) for name in here}
        less = [name for name in here if here[name] > most[name]]
        for name in less:
            yield f"{_number(name, here[name])} wanted, {written(most[name])} let in"
        if not less:
            yield f"no flavor has {', '.join(here)} together"
    if missing := [name for name in wants if name not in covered]:
        yield f"does not cover {', '.join(missing)}"


def _room(row: Row, *, borrows: bool) -> Decimal:
    """How much of a resource a flavor lets in; with others in a cohort, what it may borrow too."""
    own = quantity(row.get("nominalQuota", 0))
    if not borrows:
        return own
    limit = row.get("borrowingLimit")
    return Decimal("Infinity") if limit is None else own + quantity(limit)


def _number(name: str, number: Decimal) -> str:
    return f"{written(number)} of {name}"
