"""Checks of what a job finds in its namespace: room, storage, account and rights; pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ci.core.findings import Finding, judged
from ci.core.text import listed
from ci.jobs.parts import Toleration
from ci.jobs.spec import Spec
from ci.jobs.validate.asking_for import of_a_job, of_a_pod
from ci.jobs.validate.facts import Asked, Facts, Object, labels_of, name_of
from ci.jobs.validate.quantity import quantity, written
from ci.jobs.validate.rights import lacking, wanted

# A class of it makes no volumes by itself.
NO_PROVISIONER = "kubernetes.io/no-provisioner"
MANY = "ReadWriteMany"


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
