"""Whether Kueue would ever admit a job on all cards of the stage; pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

from ci.core.findings import Finding, judged
from ci.core.text import listed
from ci.jobs.validate.asking_for import of_a_pod
from ci.jobs.validate.facts import Asked, Facts, Object, is_true
from ci.jobs.validate.quantity import quantity, written

Row = Mapping[str, Any]


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
